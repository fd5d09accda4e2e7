"""What is measured from trajectories by stated rules and no formula: thresholds, the stiffness K, the slowest mode.

Trajectories start at rest, so close to the fixed point that the dynamics are linear.

* One oscillates if the error still changes sign after the first tenth of its life: until it has died out, or to the
  horizon. Changes of sign before that may be those of faster modes, which the start at rest excites.
* One is unstable if the error exceeds 1e4 times its start, or if its largest modulus in the last quarter of the horizon
  exceeds the one in the second quarter (the growth rate is positive after the transient).

Just above the true onset the first change of sign comes late, beyond any horizon. The onset is therefore bracketed
twice, at the whole horizon and at half of it (half the steps, half the decades that the error may fall), and the
bracket's lower end is lowered by the difference: what the horizon places the onset too high by falls at least as
1/horizon, so that what is left of it is no larger. The stability threshold is treated alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import logit

from grpo_dynamics.bandit import many_arms, simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.theory.lag import Schedule
from grpo_dynamics.theory.oscillator import Array

_START = 1e-8  # initial error in theta
_HIGHEST = 1e4 * _START
_HORIZON = 10_000  # optimiser steps
_TRANSIENT = 0.1  # share of a trajectory's life
_LOWEST_A, _HIGHEST_A = 1e-6, 20.0  # range of the scan of a = eta K that precedes the bisection
_ONSET_FACTOR, _STABILITY_FACTOR = 1.1, 1.01  # steps of the scan
_CHUNK = 128  # values of a that the scan simulates at a time
_DISPLACEMENT = 0.01  # of theta from the fixed point, in the perturbation experiment
_RELAXATION = 0.05  # eta K of the perturbation experiment, whose 20 steps let the error fall to about 1/e
_RELAXED = 20

Rule = Callable[..., NDArray[np.bool_]]


def oscillates(
    bandit: Bandit, *, eta: ArrayLike, mu: float, K_ref: int, schedule: Schedule, reach: float = 1.0
) -> NDArray[np.bool_]:
    """Whether the error changes sign, apart from a transient.

    Parameters
    ----------
    eta : array_like
        Learning rates.
    reach : float
        Share of the horizon, and of the decades that the error may fall, which is looked at.
    bandit, mu, K_ref, schedule
        As in `simulate.mean_field`.
    """
    quiet = _START * (simulate.QUIET / _START) ** reach
    run = simulate.mean_field(
        bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule, start=_START, steps=int(_HORIZON * reach), quiet=quiet,
        highest=_HIGHEST,
    )  # fmt: skip
    return run.crossed > _TRANSIENT * run.length


def unstable(
    bandit: Bandit, *, eta: ArrayLike, mu: float, K_ref: int, schedule: Schedule, reach: float = 1.0
) -> NDArray[np.bool_]:
    """Whether a small perturbation grows. Parameters as in `oscillates`."""
    steps = int(_HORIZON * reach)
    run = simulate.mean_field(
        bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule, start=_START, steps=steps, highest=_HIGHEST
    )
    return ~(np.abs(run.e) <= _HIGHEST) | (np.maximum(run.high, -run.low) > run.early)


def regime(bandit: Bandit, *, eta: float, mu: float, K_ref: int, schedule: Schedule) -> str:
    """Measured regime: 'unstable', 'underdamped' (changes sign and decays) or 'overdamped'."""
    setting = {"eta": eta, "mu": mu, "K_ref": K_ref, "schedule": schedule}
    if unstable(bandit, **setting):
        return "unstable"
    return "underdamped" if oscillates(bandit, **setting) else "overdamped"


def _scan(holds: Callable[[Array], NDArray[np.bool_]], lowest: float, factor: float, name: str) -> tuple[float, float]:
    """First neighbours on a grid of ratio `factor` from `lowest` upwards between which `holds` turns true."""
    grid = lowest * factor ** np.arange(int(np.log(_HIGHEST_A / lowest) / np.log(factor)) + 1)
    for first in range(0, grid.size, _CHUNK):
        found = np.flatnonzero(holds(grid[first : first + _CHUNK]))
        if found.size:
            place = first + found[0]
            if place == 0:
                raise InputError(f"{name}: reached already at eta K = {lowest:g}, expected a larger threshold")
            return float(grid[place - 1]), float(grid[place])
    raise InputError(f"{name}: reached nowhere up to eta K = {_HIGHEST_A:g}, expected a threshold")


def _bracket(holds: Callable[[Array], NDArray[np.bool_]], low: float, high: float, width: float) -> tuple[float, float]:
    """The bracket cut to a relative width of `width` at most, sixteen values of a at a time."""
    while high / low - 1 > width:
        grid = np.geomspace(low, high, 18)
        place = int(np.argmax(np.append(holds(grid[1:-1]), True)))
        low, high = float(grid[place]), float(grid[place + 1])
    return low, high


def thresholds(
    bandit: Bandit, *, mu: float, K_ref: int, schedule: Schedule, relative_width: float
) -> dict[str, tuple[float, float, float]]:
    """Smallest a = eta K that oscillates ("onset") and that is unstable ("stability"): value, lower and upper end.

    The scan knows no prediction: it starts at 1e-6 in steps of 10 % for the onset, and at the measured onset in steps
    of 1 % for the loss of stability. An eigenvalue of 1 needs a = 0, so stability is never lost before the onset; and
    the importance-corrected update regains stability above some thresholds, hence the finer steps. The value is the
    middle of the bracket at the whole horizon; the lower end allows for the horizon's reach (see the module).

    Parameters
    ----------
    relative_width : float
        Largest high/low - 1 of the bisection's bracket, above 0.
    bandit, mu, K_ref, schedule
        As in `simulate.mean_field`.

    Raises
    ------
    ValueError
        If a threshold lies outside 1e-6 .. 20.
    """
    if not relative_width > 0:
        raise InputError(f"relative_width: found {relative_width}, expected a number above 0")
    K = bandit.stiffness_by_difference()
    setting = {"mu": mu, "K_ref": K_ref, "schedule": schedule}

    def find(rule: Rule, lowest: float, factor: float) -> tuple[float, float, float]:
        name = f"{rule.__name__} at mu = {mu:g}, K_ref = {K_ref}, {schedule}"
        ends = []
        for reach in (1.0, 0.5):

            def holds(a: Array, reach: float = reach) -> NDArray[np.bool_]:
                return rule(bandit, eta=a / K, **setting, reach=reach)

            ends.append(_bracket(holds, *_scan(holds, lowest, factor, name), relative_width))
        (low, high), (_, high_at_half) = ends
        return (low + high) / 2, low - max(high_at_half - low, 0.0), high

    onset = find(oscillates, _LOWEST_A, _ONSET_FACTOR)
    return {"onset": onset, "stability": find(unstable, onset[0], _STABILITY_FACTOR)}


def slowest_mode(
    bandit: Bandit, *, eta: float, mu: float, K_ref: int, schedule: Schedule, steps: int = _HORIZON
) -> tuple[float, float]:
    """Decay rate and angular frequency (1/step) of the mode that outlives the others, from a simulated trajectory.

    The last half of the trajectory, until it has died out, gives them: without changes of sign by the ratio of its
    ends, otherwise by the recurrence e[n+2] = t e[n+1] - d e[n], fitted by least squares to errors scaled by their
    size. Errors are taken once per period, K_ref steps, where the gradient is refreshed. Parameters as in
    `simulate.mean_field`.
    """
    period = 1 if schedule == "fixed_lag" else K_ref
    run = simulate.mean_field(
        bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule, start=_START, steps=steps, highest=_HIGHEST, record=True
    )
    e = run.path[: int(run.length) + 1 : period]
    e = e[: np.flatnonzero(np.abs(e) > simulate.QUIET)[-1] + 1]
    e = e[len(e) // 2 :]
    if np.all(e * e[0] > 0):
        return float(-np.log(e[-1] / e[0]) / (period * (len(e) - 1))), 0.0
    before, now, after = e[:-2], e[1:-1], e[2:]
    size = np.hypot(before, now)
    rows = np.stack([now, -before], axis=1) / size[:, np.newaxis]
    (trace, determinant), *_ = np.linalg.lstsq(rows, after / size)
    root = np.max(np.roots([1.0, -trace, determinant]))  # of a complex pair, the one with a positive frequency
    return float(-np.log(np.abs(root)) / period), float(np.abs(np.angle(root)) / period)


def _stiffness(left: ArrayLike, eta: float) -> Array:
    """K from the share of a perturbation that is left after the relaxation."""
    return (1 - np.asarray(left) ** (1 / _RELAXED)) / eta


def stiffness_by_perturbation(
    bandit: Bandit, *, groups_per_step: int, seeds: Sequence[int], alpha: float, threads: int = 1
) -> tuple[float, float, float]:
    """K from the relaxation of trajectories that start beside the fixed point on either side, with its interval.

    Without momentum and lag the difference of the two falls by (1 - eta K) per step, and the effect of the gradient's
    curvature cancels in it. A finite group's runs are sampled, a pair on the seeds of each replica: its noise cancels
    nearly. The interval is Student's over the replicas; the mean field has no sampling error, and its interval is the
    value itself.

    Parameters
    ----------
    bandit : Bandit
    groups_per_step : int
        Groups per sampled batch; not used by the mean field.
    seeds : sequence of int, length replicas
    alpha : float
        The interval has level 1 - alpha.
    threads : int
        As in `simulate.groups`.
    """
    theta_star = bandit.fixed_point()
    setting = {"mu": 0.0, "K_ref": 0, "schedule": "fixed_lag", "steps": _RELAXED}
    eta = _RELAXATION / bandit.stiffness_by_difference()

    if bandit.G is None:
        start = np.array([_DISPLACEMENT, -_DISPLACEMENT])
        e = simulate.mean_field(bandit, eta=eta, start=start, **setting).e
        value = float(_stiffness((e[0] - e[1]) / (2 * _DISPLACEMENT), eta))
        return value, value, value
    above, below = (
        simulate.groups(
            bandit, eta=eta, start=theta_star + sign * _DISPLACEMENT, groups_per_step=groups_per_step, seeds=seeds,
            threads=threads, **setting,
        ).p
        for sign in (1, -1)
    )  # fmt: skip
    left = (logit(above) - logit(below)) / (2 * _DISPLACEMENT)
    half = stats.t.ppf(1 - alpha / 2, len(left) - 1) * stats.sem(left)
    value, low, high = _stiffness(left.mean() + np.array([0.0, half, -half]), eta)
    return float(value), float(low), float(high)


def stiffness_of_arms(bandit: Bandit, *, n_good: int, n_bad: int) -> float:
    """K of a bandit with a logit per arm, from the relaxation of its mean field on either side of the fixed point."""
    eta = _RELAXATION / (bandit.stiffness_by_difference() * (1 / n_good + 1 / n_bad))
    above, below = (
        many_arms.arms(
            bandit, n_good=n_good, n_bad=n_bad, eta=eta, mu=0.0, K_ref=0, schedule="fixed_lag", steps=_RELAXED,
            start=bandit.fixed_point() + sign * _DISPLACEMENT, groups_per_step=0, seeds=[0],
        ).p
        for sign in (1, -1)
    )  # fmt: skip
    return float(_stiffness((logit(above) - logit(below)) / (2 * _DISPLACEMENT), eta)[0])
