"""Onset of oscillation and loss of stability, measured from trajectories by stated rules and no formula.

All trajectories start at rest, so close to the fixed point that the dynamics are linear.

* It oscillates if the error changes sign before it has died out below 1e-290, within the horizon. Just above the true
  onset the first change of sign comes after pi/wd steps, so a horizon of T steps places the onset too high by a share
  of about (pi / (decay rate T))^2; following so small an error keeps that share below 1e-3 for decay rates above 0.01
  per step. Where two real eigenvalues of opposite sign change the lead instead (importance-corrected schedule) the
  share is larger, below 1e-2.
* It is unstable if the error exceeds 1e4 times its start, or if its largest modulus in the last quarter of the horizon
  exceeds the one in the second quarter (the growth rate is positive after the transient).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from grpo_dynamics.bandit import simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.theory.lag import Schedule

_START = 1e-8  # initial error in theta
_HIGHEST = 1e4 * _START
_HORIZON = 10_000  # optimiser steps
_LOWEST_A, _HIGHEST_A = 1e-6, 20.0  # range of the scan of a = eta K that precedes the bisection


def oscillates(bandit: Bandit, *, eta: float, mu: float, K_ref: int, schedule: Schedule) -> bool:
    """Whether the error changes sign. Parameters as in `simulate.mean_field`."""
    e = simulate.mean_field(
        bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule, start=_START, steps=_HORIZON, stop_at_crossing=True
    )
    return bool(e[-1] < -simulate.QUIET)


def unstable(bandit: Bandit, *, eta: float, mu: float, K_ref: int, schedule: Schedule) -> bool:
    """Whether a small perturbation grows. Parameters as in `simulate.mean_field`."""
    e = simulate.mean_field(
        bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule, start=_START, steps=_HORIZON, highest=_HIGHEST
    )
    if len(e) < _HORIZON + 1:
        return not abs(e[-1]) <= _HIGHEST
    quarter = len(e) // 4
    return bool(np.max(np.abs(e[-quarter:])) > np.max(np.abs(e[quarter : 2 * quarter])))


def regime(bandit: Bandit, *, eta: float, mu: float, K_ref: int, schedule: Schedule) -> str:
    """Measured regime: 'unstable', 'underdamped' (changes sign and decays) or 'overdamped'."""
    if unstable(bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule):
        return "unstable"
    return "underdamped" if oscillates(bandit, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule) else "overdamped"


def _smallest_a(holds: Callable[[float], bool], lowest: float, factor: float, width: float, name: str) -> list[float]:
    """Bracket of the smallest a = eta K at which `holds`: a scan upwards by `factor`, then bisection to `width`."""
    low, high = lowest, lowest * factor
    if holds(low):
        raise InputError(f"{name}: reached already at eta K = {low:g}, expected a larger threshold")
    while not holds(high):
        low, high = high, high * factor
        if high > _HIGHEST_A:
            raise InputError(f"{name}: reached nowhere up to eta K = {_HIGHEST_A:g}, expected a threshold")
    while high / low - 1 > width:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return [low, high]


def thresholds(
    bandit: Bandit, *, mu: float, K_ref: int, schedule: Schedule, relative_width: float
) -> dict[str, list[float]]:
    """Brackets [low, high] of the smallest a = eta K that oscillates ("onset") and that is unstable ("stability").

    The scan knows no prediction: it starts at 1e-6 in steps of 10 % for the onset, and at the measured onset in steps
    of 1 % for the loss of stability. An eigenvalue of 1 needs a = 0, so stability is never lost before the onset; and
    the importance-corrected update regains stability above some thresholds, hence the finer steps.

    Parameters
    ----------
    relative_width : float
        Largest high/low - 1 of a bracket, above 0.
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

    def bracket(rule: Callable[..., bool], lowest: float, factor: float) -> list[float]:
        name = f"{rule.__name__} at mu = {mu:g}, K_ref = {K_ref}, {schedule}"
        return _smallest_a(lambda a: rule(bandit, eta=a / K, **setting), lowest, factor, relative_width, name)

    onset = bracket(oscillates, _LOWEST_A, 1.1)
    return {"onset": onset, "stability": bracket(unstable, onset[0], 1.01)}
