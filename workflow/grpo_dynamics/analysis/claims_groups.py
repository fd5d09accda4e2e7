"""The claims on the group size: C3, C4 and C5."""

from __future__ import annotations

import numpy as np
from scipy import stats

from grpo_dynamics.analysis.evidence import (
    NOT_REPRODUCED,
    NOT_TESTED,
    ONE_SIZE,
    OWN_RUNS,
    PARTLY,
    REPRODUCED,
    Evidence,
    Finding,
    claim,
    span,
)


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
