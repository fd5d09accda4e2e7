"""The claims that rest on the softmax bandit: C10, C11, C12 and C14."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.evidence import (
    NOT_REPRODUCED,
    NOT_TESTED,
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
from grpo_dynamics.analysis.intervals import weighted_slope
from grpo_dynamics.bandit.replicas import sidak

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


def _from(K_refs: pd.Series) -> str:
    return f"from K_ref = {K_refs.min()} on" if len(K_refs) else "at no K_ref"


def _transition(sweep: pd.DataFrame, shapes: dict[int, str], thresholds: pd.DataFrame) -> str:
    """From which K_ref of the sweep on it oscillates: seen, in the closed form, and by the exact onset if known."""
    first = sweep.drop_duplicates("K_ref")
    seen = first["K_ref"][first["K_ref"].map(shapes) != "monotone"]
    closed = first["K_ref"][first["regime_closed"].isin(["underdamped", "unstable"])]
    text = f"oscillates {_from(seen)}, in the closed form {_from(closed)}"
    schedule, mu, eta = first[["schedule", "mu", "eta"]].iloc[0]
    known = thresholds[
        (thresholds["schedule"] == schedule)
        & np.isclose(thresholds["mu"], mu)
        & thresholds["K_ref"].isin(first["K_ref"].tolist())
    ]
    if known.empty:
        return text
    beyond = known["K_ref"][eta * known["K"] > known["a_onset_exact"]]
    return f"{text}, by the exact onset {_from(beyond)} (of the {len(known)} K_ref whose onset was computed)"


def _onsets(thresholds: pd.DataFrame) -> tuple[list[str], bool]:
    """How the exact onset of oscillation moves from the smallest K_ref to the largest; whether it rises anywhere."""
    numbers, rises = [], False
    for schedule, rows in thresholds.sort_values("K_ref").groupby("schedule", sort=True):
        ends = [(mu, part["K_ref"].iloc[[0, -1]].tolist(), part["a_onset_exact"].iloc[[0, -1]].tolist())
                for mu, part in rows.groupby("mu") if part["K_ref"].nunique() > 1]  # fmt: skip
        rises |= any(last > first for _, _, (first, last) in ends)
        numbers += [
            f"exact onset of oscillation (eta K), {schedule}, from K_ref = {low} to {high}: "
            + ", ".join(f"{first:.3g} to {last:.3g} (mu = {mu:g})" for mu, K_refs, (first, last) in ends
                        if K_refs == [low, high])
            for low, high in dict.fromkeys(tuple(K_refs) for _, K_refs, _ in ends)
        ]  # fmt: skip
    return numbers, rises


@claim(
    "C10",
    "In the bandit, a growing K_ref turns monotone convergence into damped oscillation.",
    "Per sweep (schedule, mu, eta), the simulated p turns back by less than 1 % of its way at the smallest K_ref and "
    "by more, in a decaying oscillation, at a larger one. Reproduced if in every sweep of two or more K_ref; partly if "
    "in some. Where the closed form and the exact onset of oscillation put the transition stands beside it, and how "
    "the exact onset moves with K_ref under every schedule.",
    "The sweeps need not be of every schedule: with importance ratios the onset can rise with K_ref. A turn "
    "of 1 % is seen a little above the onset, where oscillation is too weak to be seen. " + EXACT,
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
        listed = ", ".join(
            f"{what} at K_ref = {', '.join(str(K_ref) for K_ref in shapes if shapes[K_ref] == what)}"
            for what in dict.fromkeys(shapes.values())
        )
        numbers += [
            f"{schedule}, mu = {mu:g}, eta = {eta:g}: {listed}",
            _transition(sweep, shapes, evidence.thresholds),
        ]
    if not numbers:
        return Finding(NOT_TESTED, "no sweep of two or more K_ref")
    onsets, rises = _onsets(evidence.thresholds)
    return Finding(all_or_some(sum(found), len(found)), "; ".join(numbers + onsets), "other schedules" if rises else "")


def _three_stiffnesses(fixed_point: pd.DataFrame) -> list[str]:
    """How the three measurements of the mean field's K agree."""
    return [
        f"K = {row.K:.4g} by a central difference, {row.K_analytic / row.K:.6g} times that analytically and "
        f"{row.K_perturbation / row.K:.6g} times from the relaxation of perturbed runs"
        for row in fixed_point[fixed_point["G"].isna()].itertuples()
    ]


@claim(
    "C11",
    "In the bandit, stability is lost at K eta K_ref = 1 - mu, with K measured independently.",
    "Ratio of the measured threshold of K eta to (1 - mu) / K_ref. Reproduced if within {threshold_tolerance:.0%} of 1 "
    "for every schedule, mu and K_ref; partly if for some. Brackets are the bisection's. K is measured at the fixed "
    "point by a central difference; the analytic K and that from the relaxation of perturbed runs stand beside it.",
    "The closed form expands in the lag; B2 sets the exact thresholds beside it. " + EXACT,
)
def c11(evidence: Evidence) -> Finding:
    rows = evidence.thresholds
    ratio = rows["a_stability_measured"] / rows["a_stability_closed"]
    close = (ratio - 1).abs() <= evidence.claims["threshold_tolerance"]
    numbers = []
    for schedule, part in rows.groupby("schedule", sort=True):
        own, within = ratio[part.index], int(close[part.index].sum())
        worst = np.log(own).abs().idxmax()
        row = part.loc[worst]
        low, high = (row[f"a_stability_{end}"] / row["a_stability_closed"] for end in ("low", "high"))
        numbers.append(
            f"{schedule}: {of(within, len(part), 'thresholds')} within the tolerance, measured / closed form "
            f"{extent(own)}, farthest {span(own[worst], low, high, 4)} (mu = {row['mu']:g}, K_ref = {row['K_ref']})"
        )
    if not numbers:
        return Finding(NOT_TESTED, "no threshold was measured")
    return Finding(
        all_or_some(int(close.sum()), len(rows)), "; ".join([*numbers, *_three_stiffnesses(evidence.fixed_point)])
    )


@claim(
    "C12",
    "In the bandit, the stationary variance goes as 1/G.",
    "Per schedule, weighted slope of log variance against log G, with Student's interval from the standard errors over "
    "replicas; over the schedules the intervals hold together with {level} (Sidak). Reproduced if under every schedule "
    "the interval lies within -1 +- {threshold_tolerance}; not reproduced if under every schedule it reaches 0 or the "
    "slope is outside -1 +- 0.5; otherwise partly.",
    "1/G holds to leading order; B3 sets the exact finite-group variance beside it. Where the points scatter about the "
    "line by more than their errors, as where they follow no power of G, the interval is widened in proportion. "
    + EXACT,
)
def c12(evidence: Evidence) -> Finding:
    sizes = evidence.stationary_variance.groupby("schedule")["G"].transform("nunique")
    rows = evidence.stationary_variance[sizes >= 2]
    if rows.empty:
        return Finding(NOT_TESTED, "fewer than two group sizes")
    alpha = sidak(evidence.analysis["alpha"], rows["schedule"].nunique())
    tolerance = evidence.claims["threshold_tolerance"]
    found, numbers = [], []
    for schedule, part in rows.groupby("schedule", sort=True):
        replicas = int(part["replicas"].min())
        slope, low, high = weighted_slope(
            np.log(part["G"].to_numpy(float)),
            np.log(part["variance"].to_numpy(float)),
            (part["error"] / part["variance"]).to_numpy(float),
            alpha,
            replicas - 1,
        )
        if low >= -1 - tolerance and high <= -1 + tolerance:
            found.append(REPRODUCED)
        else:
            found.append(PARTLY if high < 0 and abs(slope + 1) <= 0.5 else NOT_REPRODUCED)
        numbers.append(
            f"{schedule}: slope {span(slope, low, high)} over G = {part['G'].min()} to {part['G'].max()} "
            f"(n = {len(part)} sizes, {replicas} replicas each)"
        )
    verdict = found[0] if len(set(found)) == 1 else PARTLY
    return Finding(verdict, "; ".join(numbers))


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
