"""The claims that rest on the softmax bandit: C10, C11, C12, C14 and C15."""

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
from grpo_dynamics.analysis.intervals import weighted_slope

EXACT = "The bandit is the exact reduction of the theory: what holds there need not hold in a network."
TURN = 0.01  # share of the way; a trajectory that turns back by more counts as oscillating


def shape(p: np.ndarray) -> str:
    """'monotone', 'damped oscillation' or 'sustained oscillation' of a trajectory, from the trajectory alone.

    It oscillates when it turns back on its way, from the start to the mean of its last tenth, by more than 1 % of that
    way. The oscillation is damped when what the last tenth spans is less than half of the largest turn.
    """
    tail = p[-max(len(p) // 10, 2) :]
    way = tail.mean() - p[0]
    gone = np.sign(way) * (p - p[0])
    turn = np.max(np.maximum.accumulate(gone) - gone)
    if turn <= TURN * abs(way):
        return "monotone"
    return "damped oscillation" if np.ptp(tail) < turn / 2 else "sustained oscillation"


@claim(
    "C10",
    "In the bandit, a growing K_ref turns monotone convergence into damped oscillation.",
    "Per sweep (schedule, mu, eta), the simulated p turns back by less than 1 % of its way at the smallest K_ref and "
    "by more, in a decaying oscillation, at a larger one. Reproduced if in every sweep of two or more K_ref; partly if "
    "in some.",
    EXACT,
)
def c10(evidence: Evidence) -> Finding:
    found, numbers = [], []
    for (schedule, mu, eta), sweep in evidence.trajectories.groupby(["schedule", "mu", "eta"], sort=True):
        shapes = {
            int(K_ref): shape(rows.sort_values("step")["p"].to_numpy(float)) for K_ref, rows in sweep.groupby("K_ref")
        }
        if len(shapes) < 2:
            continue
        first = min(shapes)
        damped = [K_ref for K_ref in shapes if K_ref > first and shapes[K_ref] == "damped oscillation"]
        found.append(shapes[first] == "monotone" and bool(damped))
        numbers.append(
            f"{schedule}, mu = {mu:g}, eta = {eta:g}: "
            + ", ".join(f"{what} at K_ref = {K_ref}" for K_ref, what in sorted(shapes.items()))
        )
    return Finding(all_or_some(sum(found), len(found)), "; ".join(numbers) or "no sweep of two or more K_ref")


@claim(
    "C11",
    "In the bandit, stability is lost at K eta K_ref = 1 - mu, with K measured independently.",
    "Ratio of the measured threshold of K eta to (1 - mu) / K_ref. Reproduced if within {threshold_tolerance:.0%} of 1 "
    "for every schedule, mu and K_ref; partly if for some. Brackets are the bisection's. The exact threshold of the "
    "linear recurrence stands beside it.",
    "The closed form expands in the lag: it is exact at K_ref = 1 under a fixed lag and on the safe side elsewhere. "
    + EXACT,
)
def c11(evidence: Evidence) -> Finding:
    rows = evidence.thresholds[evidence.thresholds["a_stability_measured"].notna()]
    ratio = rows["a_stability_measured"] / rows["a_stability_closed"]
    close = (ratio - 1).abs() <= evidence.claims["threshold_tolerance"]
    numbers = []
    for schedule, part in rows.groupby("schedule", sort=True):
        own, within = ratio[part.index], int(close[part.index].sum())
        exact = part["a_stability_measured"] / part["a_stability_exact"]
        worst = own.sub(1).abs().idxmax()
        row = part.loc[worst]
        low, high = (row[f"a_stability_{end}"] / row["a_stability_closed"] for end in ("low", "high"))
        numbers.append(
            f"{schedule}: {of(within, len(part), 'thresholds')} within the tolerance, farthest "
            f"{span(own[worst], low, high)} times the closed form (mu = {part.loc[worst, 'mu']:g}, "
            f"K_ref = {part.loc[worst, 'K_ref']}); {exact.min():.3g} to {exact.max():.3g} times the exact one"
        )
    return Finding(all_or_some(int(close.sum()), len(rows)), "; ".join(numbers) or "no threshold was measured")


@claim(
    "C12",
    "In the bandit, the stationary variance goes as 1/G.",
    "Weighted slope of log variance against log G. Reproduced if its {level} interval lies within -1 +- "
    "{threshold_tolerance}; partly if the interval lies below 0 and the slope within -1 +- 0.5; otherwise not.",
    "1/G holds to leading order; the exact finite-group variance stands beside it. " + EXACT,
)
def c12(evidence: Evidence) -> Finding:
    rows = evidence.stationary_variance
    if rows["G"].nunique() < 2:
        return Finding(NOT_TESTED, "fewer than two group sizes")
    # The table's intervals are Student's at 95 % over replicas, whatever the config's level (bandit/sampled.py).
    widths = 2 * stats.t.ppf(0.975, rows["replicas"].to_numpy(float) - 1)
    slope, low, high = weighted_slope(
        np.log(rows["G"].to_numpy(float)),
        np.log(rows["variance"].to_numpy(float)),
        ((rows["high"] - rows["low"]) / rows["variance"]).to_numpy(float) / widths,
        evidence.analysis["alpha"],
    )
    exact = rows["variance"] / rows["variance_exact"]
    numbers = (
        f"slope {span(slope, low, high)} over G = {rows['G'].min()} to {rows['G'].max()} (n = {len(rows)}); measured / "
        f"exact {exact.min():.3g} to {exact.max():.3g}"
    )
    tolerance = evidence.claims["threshold_tolerance"]
    if low >= -1 - tolerance and high <= -1 + tolerance:
        return Finding(REPRODUCED, numbers)
    return Finding(PARTLY if high < 0 and abs(slope + 1) <= 0.5 else NOT_REPRODUCED, numbers)


@claim(
    "C14",
    "The single exponential is the overdamped limit of the oscillator.",
    "Largest difference between the two curves at equal k = w0 / (2 zeta). Reproduced if it falls with every step in "
    "zeta, and at the largest zeta is within {threshold_tolerance:.0%} of the leading-order term of its expansion; "
    "partly if it only falls.",
    "Mathematics, computed without noise: no interval applies.",
)
def c14(evidence: Evidence) -> Finding:
    rows = evidence.overdamped_limit.sort_values("zeta")
    if len(rows) < 2:
        return Finding(NOT_TESTED, "fewer than two damping ratios")
    difference = rows["max_abs_difference"].to_numpy(float)
    falls = all(bool(np.all(np.diff(part["max_abs_difference"]) < 0)) for _, part in rows.groupby("k"))
    ratio = float(difference[-1] / rows["leading_order"].iloc[-1])
    numbers = (
        f"difference {difference[0]:.3g} at zeta = {rows['zeta'].iloc[0]:g}, {difference[-1]:.3g} at zeta = "
        f"{rows['zeta'].iloc[-1]:g}, there {ratio:.4g} times the leading order (n = {len(rows)})"
    )
    if not falls:
        return Finding(NOT_REPRODUCED, numbers)
    return Finding(REPRODUCED if abs(ratio - 1) <= evidence.claims["threshold_tolerance"] else PARTLY, numbers)


@claim(
    "C15",
    "A trajectory can be predicted from the hyperparameters and one measured curvature, with no fit.",
    "Bandit only, and so partly at most: partly if R^2 >= {prediction_r2} in more than {majority:.0%} of the "
    "predictions whose K and p* are measured on the process that is predicted (the mean field for its deterministic "
    "trajectories, the exact drift of finite groups for sampled groups), otherwise not reproduced. Predictions of "
    "sampled groups from the mean field's K and p*, as the leading order has it, stand beside it and do not count.",
    "The settings are chosen and not drawn at random, so that a share of them has no interval. Network runs are not "
    "predicted here. " + EXACT,
)
def c15(evidence: Evidence) -> Finding:
    rows: pd.DataFrame = evidence.predictions
    floor = evidence.claims["prediction_r2"]
    sampled, mean_field = rows["G"].notna(), rows["calibration"] == "mean field"
    own = sampled != mean_field
    if not own.any():
        return Finding(NOT_TESTED, "no predictions from the K and p* of the process that is predicted")
    numbers = [f"R^2 >= {floor:g} in {_good(rows[own], floor)} with the predicted process's own K and p*"]
    for what, part in {
        "deterministic mean field, its own K and p*": rows[~sampled & own],
        "sampled groups, their exact drift's K and p*": rows[sampled & own],
        "beside it, sampled groups, the mean field's K and p*": rows[~own],
    }.items():
        if part.empty:
            continue
        starts = ", ".join(
            f"from p = {start:g} median {of_start['r2'].median():.3g}" for start, of_start in part.groupby("start")
        )
        rise = part["half_rise_predicted"] / part["half_rise_measured"]
        numbers.append(
            f"{what}: {_good(part, floor)}, R^2 {part['r2'].min():.3g} to {part['r2'].max():.3g} ({starts}), predicted "
            f"over measured half-rise time {rise.min():.3g} to {rise.max():.3g}"
        )
    share = float((rows.loc[own, "r2"] >= floor).mean())
    return Finding(PARTLY if share > evidence.claims["majority"] else NOT_REPRODUCED, "; ".join(numbers))


def _good(rows: pd.DataFrame, floor: float) -> str:
    return of(int((rows["r2"] >= floor).sum()), len(rows), "predictions")
