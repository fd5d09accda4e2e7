"""The claims that rest on the fits: C1, C2, C9 and B5."""

from __future__ import annotations

import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from grpo_dynamics.analysis.evidence import (
    BEYOND,
    NOT_REPRODUCED,
    NOT_TESTED,
    OWN_RUNS,
    PARTLY,
    REPRODUCED,
    Evidence,
    Finding,
    all_or_some,
    claim,
    extent,
    of,
    span,
)
from grpo_dynamics.analysis.intervals import hidden_by_noise, r2_interval, t_interval
from grpo_dynamics.analysis.series import STUDY
from grpo_dynamics.analysis.tables import FIRED

RIVALS = ("logistic", "gompertz", "flow", "flow_ceiling")  # sigmoid without inertia


def _cells_and_runs(fits: pd.DataFrame, curve: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One curve's rows of the study's own cells and runs."""
    rows = fits[(fits["variant"] == STUDY) & (fits["curve"] == curve)]
    return rows[rows["series"] == "mean"], rows[rows["series"] == "run"]


def _fitted(fits: pd.DataFrame, needed: str) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """The law's cells and runs that have the column `needed`, and in words how many cells lack it."""
    cells, runs = _cells_and_runs(fits, "law")
    usable = cells[cells[needed].notna()]
    return usable, runs[runs[needed].notna()], of(len(cells) - len(usable), len(cells), "cells not fitted")


def _beside(fits: pd.DataFrame, curve: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Another curve's rows of the same series, in the order of `rows`."""
    key = ["variant", "model", "G", "series", "seed"]
    return rows[key].merge(fits[fits["curve"] == curve], on=key, how="left").set_axis(rows.index)


@claim(
    "C1",
    "The three-phase law fits the training reward of every cell (model x G).",
    "Reproduced if R^2 >= {r2_floor} on the raw mean over seeds in every fitted cell; partly if in more than "
    "{majority:.0%} of them; not reproduced if in no more than that, even if those counted in which noise alone keeps "
    "it below (the R^2 that the true curve would have is below it, and R^2 over that is not); otherwise undecided, "
    "which counts as not tested. Cells without a fit (too short) are counted, not judged. The R^2 of a running mean "
    "over {smoothing} rewards, of single runs and of the overdamped law (zeta >= 1) stand beside it and do not count.",
    "R^2 also depends on the number of completions per step: fewer make a noisier curve. The attainable R^2 takes as "
    "noise what is independent from step to step. A good fit does not show inertia: the mean-field flow without "
    "momentum is sigmoid too (B5). " + OWN_RUNS,
)
def c1(evidence: Evidence) -> Finding:
    cells, runs, unfitted = _fitted(evidence.fits, "r2")
    if cells.empty:
        return Finding(NOT_TESTED, unfitted)
    floor = evidence.claims["r2_floor"]
    reached = int((cells["r2"] >= floor).sum())
    hidden = int(hidden_by_noise(cells["r2"], cells["r2_attainable"], floor).sum())
    worst = cells.loc[cells["r2"].idxmin()]
    low, high = r2_interval(worst["r2"], worst["n_effective"], evidence.analysis["alpha"])
    overdamped = _beside(evidence.fits, "law_overdamped", cells)["r2"]
    numbers = (
        f"{of(reached, len(cells), 'fitted cells')} reach R^2 >= {floor:g}, {unfitted}; lowest "
        f"{span(worst['r2'], low, high)} ({worst['model']}, G = {worst['G']}, n = {worst['n']} rewards), where "
        f"{worst['r2_attainable']:.3g} is attainable; noise alone keeps {of(hidden, len(cells), 'cells')} below it; "
        f"overdamped law {extent(overdamped)}; on the running mean {extent(cells['r2_smoothed'])}"
    )
    if len(runs):
        numbers += (
            f"; single runs {runs['r2'].min():.3g} to {runs['r2'].max():.3g}, median {runs['r2'].median():.3g}, "
            f"{of(int((runs['r2'] >= floor).sum()), len(runs), 'at or above it')}"
        )
    verdict = all_or_some(reached, len(cells), evidence.claims["majority"], undecided=hidden)
    return Finding(verdict, numbers + "; undecided: noise hides too many cells" * (verdict == NOT_TESTED))


@claim(
    "C2",
    "The inertial term improves on the single exponential, most of all early in training.",
    "Reproduced if in every fitted cell's mean the law's AICc is lower and the F-test (effective points) has "
    "p < {alpha}, Holm-adjusted over the cells, and over runs the fall of the squared residual per step is larger in "
    "the first {early_share:.0%} than later, with a {level} interval above 0; partly if the AICc is lower in more than "
    "{majority:.0%} of the fitted cells; not reproduced if in no more than that, even if those counted in which the "
    "data leave zeta open: no profile interval, or one that begins below {zeta_exponential}, from where the law is an "
    "exponential to within 1 % of the rise; otherwise undecided, which counts as not tested. Cells without a fit are "
    "counted, not judged. Forecasts from the first {forecast_share:.0%} stand beside it.",
    "Shows that the curve is sigmoid, not why: logistic growth and the mean-field flow are sigmoid without inertia "
    "(B5). AICc takes the residuals as independent, which favours the law. That cells which leave zeta open are "
    "undecided was settled after the study's results were known; before, they counted as not reproduced.",
)
def c2(evidence: Evidence) -> Finding:
    cells, runs, unfitted = _fitted(evidence.fits, "aicc")
    if cells.empty:
        return Finding(NOT_TESTED, unfitted, "unfitted")
    alpha = evidence.analysis["alpha"]
    delta = _beside(evidence.fits, "exponential", cells)["aicc"] - cells["aicc"]
    better = delta > 0
    left_open = ~better & ~(cells["zeta_low"] >= evidence.claims["zeta_exponential"])  # also without an interval
    untested = int(cells["f_p_effective"].isna().sum())
    p = multipletests(cells["f_p_effective"].fillna(1.0), method="holm")[1]
    clear = better & (p < alpha)
    single = _beside(evidence.fits, "exponential", runs)
    early = (single["sse_early"] - runs["sse_early"]) / runs["n_early"]
    whole = single["sse"] - runs["sse"]
    late = (whole - early * runs["n_early"]) / (runs["n"] - runs["n_early"])
    mean, low, high = t_interval((early - late).to_numpy(float), alpha)
    numbers = (
        f"AICc lower in {of(int(better.sum()), len(cells), 'fitted cells')}, F-test significant too in "
        f"{int(clear.sum())} (no test in {untested}), {unfitted}; of the others {int(left_open.sum())} leave zeta "
        f"open; AICc of exponential minus law {extent(delta)}; fall of the squared residual per step, early minus "
        f"late: {span(mean, low, high)} (n = {len(runs)} runs); " + _forecasts(evidence, cells, ("law", "exponential"))
    )
    open_cells = int(left_open.sum())
    verdict = all_or_some(int(better.sum()), len(cells), evidence.claims["majority"], undecided=open_cells)
    if verdict == REPRODUCED and not (clear.all() and low > 0):
        verdict = PARTLY
    return Finding(verdict, numbers + "; undecided: too many cells leave zeta open" * (verdict == NOT_TESTED), "open")


def _forecasts(evidence: Evidence, cells: pd.DataFrame, curves: tuple[str, ...]) -> str:
    """Median root mean square errors of the curves' forecasts over the cells."""
    errors = [f"{curve} {_beside(evidence.fits, curve, cells)['rmse_forecast'].median():.3g}" for curve in curves]
    share = evidence.analysis["forecast_share"]
    return f"median error of forecasts of the cells from their first {share:.0%}: {', '.join(errors)}"


def _calibrated(evidence: Evidence) -> str:
    """How often zeta's interval contains the truth on simulated runs."""
    rows = evidence.calibration
    rows = rows[(rows["parameter"] == "zeta") & (rows["method"] == "profile")]
    coverage = rows.loc[rows["accepted"].notna(), "coverage"]
    if coverage.empty:
        return ""
    found = f"{extent(100 * coverage)} % ({len(coverage)} scenarios)"
    return f"; on simulated runs zeta's interval contains the truth in {found}"


def _zeta(row: pd.Series) -> str:
    stuck = isinstance(row["at_bound"], str) and "zeta" in row["at_bound"].split()
    text = span(row["zeta"], row["zeta_low"], row["zeta_high"])
    return f"{row['model']} G = {row['G']}: zeta {text}" + (" (the exponential limit)" if stuck else "")


@claim(
    "C9",
    "At the standard settings every run is stable and overdamped.",
    "A run is overdamped if the {level} profile interval of zeta lies at or above 1, underdamped if below, else "
    "undecided (also where too few independent points carry zeta for an interval). Not reproduced if a run fires the "
    "instability diagnostic, the mean of a cell of two seeds or more is underdamped, or more runs are underdamped than "
    "chance allows (the {level} quantile of their number when each has {alpha} / 2 to be); reproduced if every run "
    "with an identifiable plateau is overdamped, and more than {majority:.0%} of all runs have one; otherwise partly.",
    "zeta is read off the reward by a fit, and a sigmoid rise without inertia also yields a finite zeta. The optimiser "
    "is Adam, whose beta1 is only the nearest counterpart of mu.",
)
def c9(evidence: Evidence) -> Finding:
    cells, everything = _cells_and_runs(evidence.fits, "law")
    cells, runs = (rows[rows["identifiable"].astype(bool)] for rows in (cells, everything))
    over, under = runs["zeta_low"] >= 1, runs["zeta_high"] < 1
    several = everything.groupby(["model", "G"])["seed"].transform("nunique").gt(1).any()
    cells_under = int((cells["zeta_high"] < 1).sum()) if several else 0
    alpha = evidence.analysis["alpha"]
    instability = evidence.diagnostics[evidence.diagnostics["group"] == "instability"]
    fires = instability[instability["verdict"].isin(FIRED)].groupby(["model", "G", "seed"]).ngroups
    numbers = (
        f"{of(int(over.sum()), len(runs), 'identifiable runs overdamped')}, {int(under.sum())} underdamped, "
        f"{int((~over & ~under).sum())} undecided ({len(everything) - len(runs)} not identifiable); cell means: "
        + "; ".join(_zeta(row) for _, row in cells.iterrows())
        + f"; instability fires in {of(fires, len(everything), 'runs')}{_calibrated(evidence)}"
    )
    if fires or cells_under or under.sum() > stats.binom.ppf(1 - alpha, max(len(runs), 1), alpha / 2):
        return Finding(NOT_REPRODUCED, numbers)
    if runs.empty:
        return Finding(NOT_TESTED, numbers)
    enough = len(runs) > evidence.claims["majority"] * len(everything)
    return Finding(REPRODUCED if over.all() and enough else PARTLY, numbers)


@claim(
    "B5",
    "A sigmoid curve without inertia describes the reward as well as the three-phase law.",
    "Holds if in every fitted cell's mean the best of logistic, Gompertz and the mean-field flow (anchored, or below a "
    "ceiling) has an AICc at most {aicc_margin:g} above the law's; partly if in more than {majority:.0%} of them; "
    "otherwise it does not hold. Forecasts from the first {forecast_share:.0%} stand beside it.",
    "Tells whether inertia is needed to describe the curve, not whether there is any: that needs runs at several mu, "
    "which this study does not make. The best of four rivals is set against one law, each with one parameter less; "
    "AICc takes the residuals as independent, and small differences mean little where they are not. " + OWN_RUNS,
)
def b5(evidence: Evidence) -> Finding:
    cells, _, unfitted = _fitted(evidence.fits, "aicc")
    if cells.empty:
        return Finding(NOT_TESTED, unfitted)
    rivals = pd.DataFrame({curve: _beside(evidence.fits, curve, cells)["aicc"] for curve in RIVALS})
    delta = rivals.min(axis=1) - cells["aicc"]
    close = delta <= evidence.claims["aicc_margin"]
    best = rivals.idxmin(axis=1)
    margin = f"{evidence.claims['aicc_margin']:g}"
    named = [f"{row.model} G = {row.G} {best[row.Index]} ({delta[row.Index]:+.3g})" for row in cells.itertuples()]
    numbers = (
        f"a rival's AICc at most {margin} above the law's in {of(int(close.sum()), len(cells), 'fitted cells')}, below "
        f"it in {int((delta < 0).sum())}, {unfitted}; AICc of the best rival minus law: {', '.join(named)}; "
        + _forecasts(evidence, cells, ("law", "exponential", *RIVALS))
    )
    return Finding(all_or_some(int(close.sum()), len(cells), evidence.claims["majority"], BEYOND), numbers)
