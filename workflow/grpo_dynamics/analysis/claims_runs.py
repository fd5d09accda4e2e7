"""The claims that rest on GRPO runs: C1 to C9, C13 and C16."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from grpo_dynamics.analysis.evidence import (
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTLY,
    REPRODUCED,
    Evidence,
    Finding,
    all_or_some,
    claim,
    of,
    span,
)
from grpo_dynamics.analysis.fits import inflation
from grpo_dynamics.analysis.intervals import r2_interval, t_interval

OWN_RUNS = "A verdict is about this study's runs; other models can behave differently."
ONE_SIZE = "one group size: nothing to compare"


def _cells_and_runs(fits: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return fits[fits["series"] == "mean"], fits[fits["series"] == "run"]


def _fitted(fits: pd.DataFrame, *needed: str) -> tuple[tuple[pd.DataFrame, pd.DataFrame], str]:
    """Cells and runs that have the `needed` columns, and in words how many cells lack them."""
    cells, _ = _cells_and_runs(fits)
    usable = _cells_and_runs(fits.dropna(subset=list(needed)))
    return usable, of(len(cells) - len(usable[0]), len(cells), "cells not fitted")


@claim(
    "C1",
    "The three-phase law fits the training reward of every cell (model x G).",
    "Reproduced if R^2 >= {r2_floor} on the raw mean over seeds in every fitted cell; partly if in more than "
    "{majority:.0%} of them. Cells without a fit (too short or constant) are counted, not judged. Never smoothed; the "
    "runs' own R^2 stand beside it.",
    "R^2 also depends on the number of completions per step: fewer make a noisier curve. A good fit does not show "
    "inertia: the mean-field flow without momentum is sigmoid too. " + OWN_RUNS,
)
def c1(evidence: Evidence) -> Finding:
    (cells, runs), unfitted = _fitted(evidence.fits, "r2")
    if cells.empty:
        return Finding(NOT_TESTED, unfitted)
    floor = evidence.claims["r2_floor"]
    reached = int((cells["r2"] >= floor).sum())
    worst = cells.loc[cells["r2"].idxmin()]
    low, high = r2_interval(worst["r2"], worst["n"] / inflation(worst["autocorrelation"]), evidence.analysis["alpha"])
    numbers = (
        f"{of(reached, len(cells), 'fitted cells')} reach R^2 >= {floor:g}, {unfitted}; lowest "
        f"{span(worst['r2'], low, high)} ({worst['model']}, G = {worst['G']}, n = {worst['n']} rewards)"
    )
    if len(runs):
        numbers += (
            f"; single runs {runs['r2'].min():.3g} to {runs['r2'].max():.3g}, median {runs['r2'].median():.3g}, "
            f"{of(int((runs['r2'] >= floor).sum()), len(runs), 'at or above it')}"
        )
    return Finding(all_or_some(reached, len(cells), evidence.claims["majority"]), numbers)


@claim(
    "C2",
    "The inertial term improves on the single exponential, most of all early in training.",
    "Reproduced if in every fitted cell's mean the law's AICc is lower and the F-test (effective points) has "
    "p < {alpha}, and over runs the fall of the squared residual per step is larger in the first {early_share:.0%} "
    "than later, with a {level} interval above 0; partly if the AICc is lower in more than {majority:.0%} of the "
    "fitted cells. Cells without a fit are counted, not judged.",
    "Shows that the curve is sigmoid, not why: logistic growth and the mean-field flow are sigmoid without inertia.",
)
def c2(evidence: Evidence) -> Finding:
    (cells, fitted), unfitted = _fitted(evidence.fits, "aicc", "aicc_exponential")
    if cells.empty:
        return Finding(NOT_TESTED, unfitted)
    better = cells["aicc"] < cells["aicc_exponential"]
    clear = better & (cells["f_p_effective"] < evidence.analysis["alpha"])
    early = (fitted["sse_early_exponential"] - fitted["sse_early"]) / fitted["n_early"]
    whole = fitted["sse_exponential"] - fitted["sse"]
    late = (whole - early * fitted["n_early"]) / (fitted["n"] - fitted["n_early"])
    mean, low, high = t_interval((early - late).to_numpy(float), evidence.analysis["alpha"])
    delta = cells["aicc_exponential"] - cells["aicc"]
    numbers = (
        f"AICc lower in {of(int(better.sum()), len(cells), 'fitted cells')}, F-test significant too in "
        f"{int(clear.sum())}, {unfitted}; AICc of exponential minus law {delta.min():.3g} to {delta.max():.3g}; "
        f"fall of the squared residual per step, early minus late: {span(mean, low, high)} (n = {len(fitted)} runs)"
    )
    verdict = all_or_some(int(better.sum()), len(cells), evidence.claims["majority"])
    if verdict == REPRODUCED and not (clear.all() and low > 0):
        verdict = PARTLY
    return Finding(verdict, numbers)


def _equivalence(evidence: Evidence, quantity: str) -> Finding:
    rows = evidence.group_size[evidence.group_size["quantity"] == quantity]
    if rows.empty:
        return Finding(NOT_TESTED, ONE_SIZE)
    margin = evidence.analysis["equivalence_margin"]
    same = rows["p_equivalence"] < evidence.analysis["alpha"]
    different = (rows["low"] > margin) | (rows["high"] < -margin)
    numbers = "; ".join(
        f"{row.model}: {span(row.effect, row.low, row.high)} (n = {row.n_low} + {row.n_high}"
        + (f", equivalence p = {row.p_equivalence:.2g})" if np.isfinite(row.p_equivalence) else ")")
        for row in rows.itertuples()
    )
    if different.any():
        return Finding(NOT_REPRODUCED, numbers)
    if same.any():
        return Finding(REPRODUCED if same.all() else PARTLY, numbers)
    return Finding(NOT_TESTED, numbers + "; undecided: the intervals are too wide for the margin, or missing")


_EQUIVALENCE_TEST = (
    "Per model, difference between the largest and the smallest G over seeds. Reproduced if equivalent within "
    "+-{equivalence_margin} (TOST, p < {alpha}) for every model; not reproduced if any model's {level} interval "
    "(Welch) lies wholly outside the margin; otherwise partly if equivalent for some, and else not decided, which "
    "counts as not tested."
)


@claim(
    "C3",
    "The fitted plateau R_inf does not depend on G.",
    "R_inf of the runs whose plateau is identifiable. " + _EQUIVALENCE_TEST,
    "Exact finite-group sums give a small G a weaker drift and another fixed point, so that equality can hold only to "
    "leading order. " + OWN_RUNS,
)
def c3(evidence: Evidence) -> Finding:
    return _equivalence(evidence, "plateau")


@claim(
    "C4",
    "The mean trajectory does not depend on G, to leading order.",
    "Mean reward over all steps. " + _EQUIVALENCE_TEST,
    "The mean over steps can hide differences of opposite sign; the figure shows the difference at every step. "
    + OWN_RUNS,
)
def c4(evidence: Evidence) -> Finding:
    return _equivalence(evidence, "trajectory")


@claim(
    "C5",
    "Scatter between runs falls with G, as 1/G in variance.",
    "Needs equal prompts per step at every G. The config sets equal completions per step instead, so that a step "
    "averages over completions_per_step / G groups: noise of 1/G per group then gives a ratio of 1 to leading order "
    "(exactly, the ratio of G v_G), not G_high / G_low. So not tested; the ratio of variances between seeds, smallest "
    "over largest G and pooled over models, is given with its F interval ({level}).",
    "G v_G depends on the reward, and a larger G sees fewer different prompts per step. Few seeds give wide intervals.",
)
def c5(evidence: Evidence) -> Finding:
    rows = evidence.group_size[evidence.group_size["quantity"] == "scatter"].dropna(subset="effect")
    if rows.empty:
        return Finding(NOT_TESTED, ONE_SIZE if evidence.group_size.empty else "no model has two seeds at each G")
    ratio = float(rows["value_low"].sum() / rows["value_high"].sum())
    f = stats.f(int((rows["n_low"] - 1).sum()), int((rows["n_high"] - 1).sum()))
    alpha = evidence.analysis["alpha"]
    low, high = ratio / f.ppf(1 - alpha / 2), ratio / f.ppf(alpha / 2)
    numbers = f"ratio of variances {span(ratio, low, high)} (n = {rows['n_low'].sum()} + {rows['n_high'].sum()} runs)"
    expected, G_low, G_high = rows[["expected", "G_low", "G_high"]].iloc[0].astype(float)
    for value, equal in ((expected, "completions"), (G_high / G_low, "prompts")):
        holds = "contains" if low <= value <= high else "does not contain"
        numbers += f"; the interval {holds} {value:g}, expected at equal {equal} per step"
    return Finding(NOT_TESTED, numbers)


@claim(
    "C6",
    "Training transfers positively to the other benchmarks.",
    "Reproduced if every model's mean gain over them has a {level} interval above 0, more than {majority:.0%} of the "
    "single gains (model x G x benchmark) are positive with Holm-adjusted p < {alpha}, and none is negative so; partly "
    "if some model's mean gain has.",
    "The verdict is about the study's own list of benchmarks. " + OWN_RUNS,
)
def c6(evidence: Evidence) -> Finding:
    single = evidence.transfer[evidence.transfer["distance"] > 0]
    alpha = evidence.analysis["alpha"]
    clear = single["p_holm"] < alpha
    up, down = int((clear & (single["gain"] > 0)).sum()), int((clear & (single["gain"] < 0)).sum())
    summary = evidence.transfer_summary
    positive = summary["gain_out_low"] > 0
    numbers = "mean gain " + "; ".join(
        f"{row.model}: {span(row.gain_out, row.gain_out_low, row.gain_out_high)}" for row in summary.itertuples()
    )
    numbers += f"; significantly positive {of(up, len(single), 'single gains')}, significantly negative {down}"
    if single.empty:
        return Finding(NOT_TESTED, "no benchmark other than the training task was evaluated")
    if positive.all() and down == 0 and up > evidence.claims["majority"] * len(single):
        return Finding(REPRODUCED, numbers)
    return Finding(PARTLY if positive.any() else NOT_REPRODUCED, numbers)


@claim(
    "C7",
    "The gain is largest near the training task and falls with distance.",
    "Per model, Spearman correlation of gain and distance, and gain on the nearest minus gain on the farthest "
    "benchmark. Reproduced if for every model the {level} interval of the first lies below 0 and that of the second "
    "above 0; partly if for some model.",
    "Distance is a rank that the study assigned; other orders are possible.",
)
def c7(evidence: Evidence) -> Finding:
    summary = evidence.transfer_summary
    summary = summary[summary["rank_correlation"].notna()]
    falls = (summary["rank_high"] < 0) & (summary["gain_near_low"] > 0)
    numbers = "; ".join(
        f"{row.model}: correlation {span(row.rank_correlation, row.rank_low, row.rank_high)}, nearest minus farthest "
        f"{span(row.gain_near, row.gain_near_low, row.gain_near_high)} (n = {row.benchmarks} benchmarks)"
        for row in summary.itertuples()
    )
    return Finding(all_or_some(int(falls.sum()), len(summary)), numbers or "fewer than three benchmarks")


@claim(
    "C8",
    "The distilled model transfers most robustly.",
    "Robustness is the mean gain elsewhere over the gain in distribution. Reproduced if a distilled model has the "
    "largest and is the largest in at least {level} of the bootstrap replicates; partly if it has the largest only.",
    "Where one distilled model is compared with other families, family and distillation cannot be told apart.",
)
def c8(evidence: Evidence) -> Finding:
    summary = evidence.transfer_summary
    known = summary[summary["robustness"].notna()]
    distilled = set(evidence.distilled) & set(known["model"])
    numbers = "; ".join(
        f"{row.model}{' (distilled)' if row.model in distilled else ''}: "
        f"{span(row.robustness, row.robustness_low, row.robustness_high)}, largest in {row.best_share:.0%}"
        for row in known.itertuples()
    )
    if not distilled or len(known) < 2:
        return Finding(NOT_TESTED, numbers or "no robustness: no gain in distribution")
    best = known.loc[known["robustness"].idxmax()]
    if best["model"] not in distilled:
        return Finding(NOT_REPRODUCED, numbers)
    return Finding(REPRODUCED if best["best_share"] >= 1 - evidence.analysis["alpha"] else PARTLY, numbers)


@claim(
    "C9",
    "At the standard settings every run is stable and overdamped.",
    "A run is overdamped if the {level} profile interval of zeta lies at or above 1, underdamped if below, else "
    "undecided. Not reproduced if a run fires the instability diagnostic, a cell's mean is underdamped, or more runs "
    "are underdamped than chance allows ({alpha} of them, rounded up); reproduced if every run with an identifiable "
    "plateau is overdamped; otherwise partly.",
    "zeta is read off the reward by a fit, and a sigmoid rise without inertia also yields a finite zeta. The optimiser "
    "is Adam, whose beta1 is only the nearest counterpart of mu.",
)
def c9(evidence: Evidence) -> Finding:
    cells, runs = (rows[rows["identifiable"].astype(bool)] for rows in _cells_and_runs(evidence.fits))
    all_runs = int((evidence.fits["series"] == "run").sum())
    over, under = runs["zeta_low"] >= 1, runs["zeta_high"] < 1
    cells_under = int((cells["zeta_high"] < 1).sum())
    instability = evidence.diagnostics[evidence.diagnostics["group"] == "instability"]
    fires = instability[instability["verdict"] == "fires"].groupby(["model", "G", "seed"]).ngroups
    numbers = (
        f"{of(int(over.sum()), len(runs), 'identifiable runs overdamped')}, {int(under.sum())} underdamped, "
        f"{int((~over & ~under).sum())} undecided ({all_runs - len(runs)} not identifiable); cell means: "
        + "; ".join(
            f"{row.model} G = {row.G}: zeta {span(row.zeta, row.zeta_low, row.zeta_high)}" for row in cells.itertuples()
        )
        + f"; instability fires in {of(fires, all_runs, 'runs')}"
    )
    if fires or cells_under or under.sum() > np.ceil(evidence.analysis["alpha"] * len(runs)):
        return Finding(NOT_REPRODUCED, numbers)
    if runs.empty:
        return Finding(NOT_TESTED, numbers)
    return Finding(REPRODUCED if over.all() else PARTLY, numbers)


@claim(
    "C13",
    "Four diagnostics tell train-eval decoupling, advantage degeneracy, policy concentration and instability apart.",
    "Needs runs in which each failure is induced on purpose. The counts of what fires in the study's runs are given.",
    "No failure is induced in this study's runs. The package's tests check on simulated runs that each diagnostic "
    "fires on its own failure and on none of the others.",
)
def c13(evidence: Evidence) -> Finding:
    runs = evidence.diagnostics.groupby(["group", "model", "G", "seed"], sort=False)["verdict"].agg(set)
    counts = []
    for group, verdicts in runs.groupby(level="group", sort=False):
        fires = sum("fires" in found for found in verdicts)
        blind = sum(found == {"not assessable"} for found in verdicts)
        counts.append(f"{group}: fires in {of(fires, len(verdicts), 'runs')}, not assessable in {blind}")
    return Finding(NOT_TESTED, "; ".join(counts))


@claim(
    "C16",
    "The empirical law's size exponent is the exponent of the curvature with model size.",
    "Needs the curvature of models of one family at several sizes.",
    "No curvature is measured in the study's models, whatever their sizes.",
)
def c16(evidence: Evidence) -> Finding:
    return Finding(NOT_TESTED, f"{evidence.fits['model'].nunique()} models, no curvature against size")
