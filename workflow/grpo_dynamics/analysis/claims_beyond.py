"""The study's own claims about the softmax bandit and finite groups, which go beyond the paper: B2 and B3."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.claims_bandit import EXACT
from grpo_dynamics.analysis.claims_groups import NO_PROMPTS, holm, pooled
from grpo_dynamics.analysis.evidence import (
    BEYOND,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_TESTED,
    ONE_SIZE,
    PARTLY,
    Evidence,
    Finding,
    all_or_some,
    claim,
    extent,
    of,
    span,
)
from grpo_dynamics.analysis.tables_groups import COMPARISONS, EQUAL_PROMPTS

_KINDS = {"stability": "loss of stability", "onset": "onset of oscillation"}
_EQUAL = 1e-6  # relative difference up to which a closed form counts as equal to the exact threshold
_NAMED = 3  # values outside their interval that are named; all are counted


def _sides(closed: pd.Series, exact: pd.Series) -> str:
    """How often the closed form is cautious (below the exact threshold) and optimistic (above it, or infinite)."""
    equal = np.isclose(closed, exact, rtol=_EQUAL, atol=0)
    cautious = (closed < exact) & ~equal
    optimistic = len(exact) - int(cautious.sum()) - int(equal.sum())
    return f"cautious in {cautious.sum()}, optimistic in {optimistic}, equal in {equal.sum()}"


def _closed_form(rows: pd.DataFrame, closed: pd.Series, exact: pd.Series) -> str:
    """How far a closed form is off the exact threshold, where the farthest, and on which side."""
    ratio = (closed / exact).dropna()
    if ratio.empty:
        return f"infinite, {_sides(closed, exact)}"
    farthest = rows.loc[np.log(ratio).abs().idxmax()]
    infinite = f" (infinite in {len(rows) - len(ratio)})" if len(ratio) < len(rows) else ""
    return (
        f"{extent(ratio)} times the exact one{infinite}, farthest at mu = {farthest['mu']:g}, "
        f"K_ref = {farthest['K_ref']}, {_sides(closed, exact)}"
    )


def _finite_steps(rows: pd.DataFrame, tolerance: float) -> list[str]:
    """At which share of its stability threshold the closed form's slowest mode first decays at a wrong rate."""
    if rows.empty:
        return []
    rows = rows.assign(ratio=rows["rate_closed"] / rows["rate_exact"]).sort_values(["share", "mu", "K_ref"])
    off = rows[(rows["ratio"] - 1).abs() > tolerance]
    first = off.drop_duplicates(["mu", "K_ref"])  # of each setting, the smallest share that is off
    settings = len(rows.drop_duplicates(["mu", "K_ref"]))
    measured = extent(rows["rate_measured"] / rows["rate_exact"], 4)
    text = f"finite steps, fixed_lag: measured / exact decay rate of the slowest mode {measured}, the closed form's "
    if first.empty:
        return [f"{text}within {tolerance:.0%} at every share of its stability threshold in {settings} settings"]
    row = first.iloc[0]
    return [
        f"{text}first more than {tolerance:.0%} off at {row['share']:g} of its stability threshold (mu = "
        f"{row['mu']:g}, K_ref = {row['K_ref']}, there {row['ratio']:.3g} times the exact rate), in "
        f"{of(len(first), settings, 'settings')} off somewhere, first at shares of {extent(first['share'])}"
    ]


@claim(
    "B2",
    "The exact thresholds of the lagged update are those of the bandit; the closed form is cautious or optimistic "
    "where they say.",
    "A measured threshold agrees with the exact one of its schedule if within {exact_tolerance:.0%} of it, or if its "
    "bracket contains it. Holds if all do (every schedule, mu and K_ref, loss of stability and onset of oscillation); "
    "partly if more than {majority:.0%}; otherwise it does not hold. The closed form is cautious where it lies below "
    "the exact threshold and optimistic where above; the same with the samples' mean age in place of K_ref stands "
    "beside it, as do decay rates at finite steps.",
    "Deterministic, so that brackets (of the bisection and the horizon) and no sampling errors apply. " + EXACT,
)
def b2(evidence: Evidence) -> Finding:
    thresholds, tolerance = evidence.thresholds, evidence.claims["exact_tolerance"]
    agreeing, compared, numbers = 0, 0, []
    for schedule, rows in thresholds.groupby("schedule", sort=True):
        for kind, meaning in _KINDS.items():
            measured, low, high, closed, at_age, exact = (
                rows[f"a_{kind}_{name}"] for name in ("measured", "low", "high", "closed", "closed_at_age", "exact")
            )
            near = (measured / exact - 1).abs() <= tolerance
            bracketed = ~near & exact.between(low, high)
            agreeing += int((near | bracketed).sum())
            compared += len(rows)
            more = f" and {bracketed.sum()} more by the bracket" if bracketed.any() else ""
            text = (
                f"{schedule}, {meaning}: {of(int(near.sum()), len(rows), 'thresholds')} within {tolerance:.0%} of the "
                f"exact one{more}, measured / exact {extent(measured / exact, 4)} (brackets up to "
                f"{((high - low) / measured).max():.2g} wide), closed form {_closed_form(rows, closed, exact)}"
            )
            if not np.allclose(rows["mean_age"], rows["K_ref"].astype(float)):
                text += f", at the mean age {_closed_form(rows, at_age, exact)}"
            numbers.append(text)
    if not compared:
        return Finding(NOT_TESTED, "no threshold was measured")
    numbers += _finite_steps(evidence.finite_step, evidence.claims["threshold_tolerance"])
    return Finding(all_or_some(agreeing, compared, evidence.claims["majority"], BEYOND), "; ".join(numbers))


def _near_from(rows: pd.DataFrame, ratio: pd.Series, tolerance: float, where: str = "") -> str:
    """From which group size on every ratio is within the tolerance of 1."""
    far = rows["G"][(ratio - 1).abs() > tolerance]
    near = rows["G"] if far.empty else rows["G"][rows["G"] > far.max()]
    if near.empty:
        return f"not within {tolerance:.0%}{where} at any G"
    return f"within {tolerance:.0%}{where} from G = {near.min()} on"


def _drift_off(drift: pd.DataFrame, tolerance: float) -> list[str]:
    """How far the leading order of the drift is off, per standard deviation."""
    parts = []
    for std, rows in drift[drift["drift_leading_order"] > 0].groupby("std", sort=True):
        ratio = rows["drift_exact"] / rows["drift_leading_order"]
        ends = [f"{extent(ratio[rows['G'] == G])} at G = {G}" for G in (rows["G"].min(), rows["G"].max())]
        parts.append(
            f"drift, {std} std: h_G(p) / sqrt(p(1-p)) {', '.join(ends)} (p = {rows['p'].min():g} to "
            f"{rows['p'].max():g}), so that the leading order is too large in {(ratio < 1).sum()} and too small in "
            f"{(ratio > 1).sum()} of {len(rows)}, {_near_from(rows, ratio, tolerance, ' at every p')}"
        )
    return parts


def _fixed_point_off(fixed_point: pd.DataFrame, variance: pd.DataFrame) -> list[str]:
    """How far p* moves with G, how close sampled runs stay to it, and whether their relaxation gives its K."""
    finite, mean_field = fixed_point[fixed_point["G"].notna()], fixed_point[fixed_point["G"].isna()]
    if finite.empty or mean_field.empty:
        return []
    rows = finite.set_index("G")
    ends = ", ".join(f"{rows.loc[G, 'p_star']:.4g} at G = {G}" for G in (rows.index.min(), rows.index.max()))
    held = finite["K"].between(finite["K_perturbation_low"], finite["K_perturbation_high"])
    return [
        f"p* {ends}, {mean_field['p_star'].iloc[0]:.4g} in the mean field; the mean p of sampled runs is within "
        f"{(variance['p_mean'] - variance['p_star']).abs().max():.2g} of their exact p*; the relaxation of sampled "
        f"groups contains the exact drift's K at {of(int(held.sum()), len(held), 'group sizes')}"
    ]


def _variance_off(variance: pd.DataFrame, tolerance: float) -> list[str]:
    """How far the leading order of the stationary variance is off, per schedule."""
    parts = []
    for schedule, rows in variance.groupby("schedule", sort=True):
        ratio = rows["variance_leading_order"] / rows["variance_exact"]
        ends = [f"{extent(ratio[rows['G'] == G])} at G = {G}" for G in (rows["G"].min(), rows["G"].max())]
        parts.append(
            f"variance, {schedule}: leading order / exact {', '.join(ends)}, too large in {(ratio > 1).sum()} and too "
            f"small in {(ratio < 1).sum()} of {len(rows)}, {_near_from(rows, ratio, tolerance)}, measured / exact "
            f"{extent(rows['variance'] / rows['variance_exact'], 4)}"
        )
    return parts


@claim(
    "B3",
    "The exact finite-group sums give the drift, with it the fixed point, the noise and the stationary variance at "
    "every G, and in real runs the time of the rise and the spread within groups; the leading order does not at "
    "small G.",
    "In the bandit, holds if every measured drift, noise and stationary variance has its exact value within its "
    "interval, and, at the smallest G, more than {majority:.0%} of the measured drifts and variances do not have their "
    "leading order's within it; partly if more than {majority:.0%} have the exact value within; otherwise it does not. "
    "The intervals of the drift table (drift and noise), and those of the variance table, hold together with 95 %. In "
    "the runs, ratios smallest over largest G of the steps to half of the rise and of the standard deviation and the "
    "variance within groups (over sqrt(p(1-p)) and p(1-p), at equal reward p), pooled over models, at equal "
    "completions and at equal prompts: each agrees if it does not differ from the exact one (p < {alpha}, Holm) or if "
    "its {level} interval lies within {threshold_tolerance:.0%} of it; holds if all agree and more than "
    "{majority:.0%} differ from their leading order (p < {alpha}, Holm); partly if more than {majority:.0%} agree; "
    "otherwise it does not. The verdict is the worse of the two parts; unless one fails, none where one is not tested.",
    "Where all exact values are right, one of the two tables has a value outside by chance in up to one study in ten. "
    "The leading order of the variance is the closed form's at K_ref: it errs in the lag as well as in G, and need not "
    "approach the exact one under other schedules than the fixed lag. In the runs, Adam divides the gradient by its "
    "own norm, which grows with its noise: the time of the rise with that normalisation stands beside. "
    "Prompts differ in p; their intraclass correlation, taken from the variance within groups, enters the expected "
    "standard deviation, and the variances agree only if it is the same at both G. Settled after part of the runs, "
    "and so no test of them: the tolerance, without which the standard deviations do not agree; their intraclass "
    "correlation; the comparison at equal reward; and the time with Adam's normalisation, which is not judged. "
    + EXACT,
)
def b3(evidence: Evidence) -> Finding:
    parts = {"bandit": _finite_groups_in_bandit(evidence), "runs": _finite_groups_in_runs(evidence)}
    numbers = "; ".join(f"{name}, {part.verdict}: {part.numbers}" for name, part in parts.items())
    found = {part.verdict for part in parts.values()}
    failed = " and ".join(name for name, part in parts.items() if part.verdict == DOES_NOT_HOLD)
    return Finding(next(v for v in (DOES_NOT_HOLD, NOT_TESTED, PARTLY, HOLDS) if v in found), numbers, failed)


def _finite_groups_in_bandit(evidence: Evidence) -> Finding:
    """The part of B3 on the bandit."""
    drift, variance = evidence.drift, evidence.stationary_variance
    if drift["G"].nunique() < 2 or variance["G"].nunique() < 2:
        return Finding(NOT_TESTED, "fewer than two group sizes")
    majority, tolerance = evidence.claims["majority"], evidence.claims["threshold_tolerance"]
    families = {
        "drifts": (drift, drift["drift_low"], drift["drift_high"], "drift"),
        "noises": (drift, drift["noise_low"], drift["noise_high"], "noise"),
        "variances": (variance, variance["low"], variance["high"], "variance"),
    }
    counts, outside, inside, missed = [], [], [], []
    for name, (rows, low, high, quantity) in families.items():
        found = rows[f"{quantity}_exact"].between(low, high)
        counts.append(of(int(found.sum()), len(rows), name))
        inside += found.tolist()
        outside += [_name(quantity, row) for _, row in rows[~found].iterrows()]
        if quantity != "noise":
            smallest = rows["G"] == rows["G"].min()
            missed += (~rows[f"{quantity}_leading_order"].between(low, high))[smallest].tolist()
    text = f"exact value within the interval in {', '.join(counts)}"
    if outside:
        text += f", outside: {', '.join(outside[:_NAMED])}"
        text += f" and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
    numbers = [
        text,
        f"leading order outside the interval in {of(sum(missed), len(missed), 'drifts and variances')} at the "
        "smallest G",
        *_drift_off(drift, tolerance),
        *_fixed_point_off(evidence.fixed_point, variance),
        *_variance_off(variance, tolerance),
    ]
    verdict = all_or_some(sum(inside), len(inside), majority, BEYOND)
    if verdict == HOLDS and not sum(missed) > majority * len(missed):
        verdict = PARTLY
    return Finding(verdict, "; ".join(numbers))


def _name(quantity: str, row: pd.Series) -> str:
    where = f"{row['std']} std, p = {row['p']:g}" if quantity != "variance" else row["schedule"]
    return f"{quantity} at G = {row['G']} ({where})"


_JUDGED = {"half_rise": "half-rise", "spread": "spread within groups", "variance": "variance within groups"}


def _finite_groups_in_runs(evidence: Evidence) -> Finding:
    """The part of B3 on the real runs."""
    table = evidence.group_size
    parts = [pooled(table[table["comparison"] == comparison]) for comparison in COMPARISONS]
    rows = pd.concat(parts)
    rows = rows[rows["quantity"].isin(_JUDGED)].dropna(subset=["effect", "p_expected"])
    if rows.empty:
        return Finding(NOT_TESTED, ONE_SIZE if table.empty else "no ratio has an interval")
    alpha, tolerance = evidence.analysis["alpha"], evidence.claims["threshold_tolerance"]
    near = (rows["low"] >= (1 - tolerance) * rows["expected"]) & (rows["high"] <= (1 + tolerance) * rows["expected"])
    agrees = (holm(rows["p_expected"]) >= alpha) | near
    left = holm(rows["p"]) < alpha
    adam = pd.concat(parts).query("quantity == 'half_rise_adam'").set_index("comparison")
    numbers = [
        f"exact sums agree in {of(int(agrees.sum()), len(rows), 'ratios')}, the leading order excluded in {left.sum()}"
    ]
    for (_, row), agreeing in zip(rows.iterrows(), agrees, strict=True):
        text = (
            f"{row['comparison']}, {_JUDGED[row['quantity']]} {span(row['effect'], row['low'], row['high'])} (exact "
            f"{row['expected']:.3g}, p = {row['p_expected']:.2g}, leading order {row['expected_leading_order']:.3g}, "
            f"p = {row['p']:.2g}, n = {row['n_low']} + {row['n_high']}): {'agrees' if agreeing else 'off'}"
        )
        if row["quantity"] == "half_rise" and row["comparison"] in adam.index:
            beside = adam.loc[row["comparison"]]
            text += f", with Adam's normalisation {beside['expected']:.3g} expected (p = {beside['p_expected']:.2g})"
        numbers.append(text)
    if not (table["comparison"] == EQUAL_PROMPTS).any():
        numbers.append(NO_PROMPTS)
    verdict = all_or_some(int(agrees.sum()), len(rows), evidence.claims["majority"], BEYOND)
    if verdict == HOLDS and not left.sum() > evidence.claims["majority"] * len(rows):
        verdict = PARTLY
    return Finding(verdict, "; ".join(numbers))
