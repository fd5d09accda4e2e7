"""The claims that rest on the fits: C1, C2 and C9."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.evidence import (
    NOT_REPRODUCED,
    NOT_TESTED,
    OWN_RUNS,
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
