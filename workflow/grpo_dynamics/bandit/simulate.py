"""Simulation of the two-arm bandit under heavy-ball momentum and the three lag schedules (numba).

    v[n+1] = mu v[n] + eta g,      theta[n+1] = theta[n] + v[n+1]

g = p_now (1-p_now) (s / (p_old (1-p_old)) - beta (theta_now - theta_ref)), where s is sqrt(p_old (1-p_old)) in the mean
field and the mean of sqrt(k (G-k))/G over the step's groups, k ~ Binomial(G, p_old), otherwise. `old` is the sampling
policy. fixed_lag and periodic take the whole gradient at it (now = old); importance_corrected takes `now` as current.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.theory.lag import SCHEDULES, Schedule, check_schedule
from grpo_dynamics.theory.oscillator import check_momentum, check_positive

Array = NDArray[np.float64]
_FIXED_LAG, _PERIODIC, _CORRECTED = range(len(SCHEDULES))
QUIET = 1e-290  # smallest error that is still followed; below it doubles lose their precision


@njit(cache=True)
def _drift(now: float, old: float, theta_star: float, beta: float) -> float:
    """The mean-field gradient at errors theta - theta*, in a form that keeps full relative accuracy as they vanish.

    It uses g(theta*) = 0 and 1/sqrt(p(1-p)) = 2 cosh(theta/2), whose difference is a product of hyperbolic sines.
    """
    pull = 4 * math.sinh(theta_star / 2 + old / 4) * math.sinh(old / 4) - beta * now
    return pull / (4 * math.cosh((theta_star + now) / 2) ** 2)


@njit(cache=True)
def _follow_mean_field(e, theta_star, beta, eta, mu, K_ref, schedule, highest, stop_at_crossing) -> int:
    """Fill e[1:] from e[0] and return the number of valid entries; stops early as the caller asks."""
    v = 0.0
    quiet = 0
    for n in range(e.size - 1):
        old = e[max(n - K_ref, 0)] if schedule == _FIXED_LAG else e[n - n % K_ref]
        now = e[n] if schedule == _CORRECTED else old
        v = mu * v + eta * _drift(now, old, theta_star, beta)
        e[n + 1] = e[n] + v
        quiet = quiet + 1 if abs(e[n + 1]) < QUIET else 0
        crossed = stop_at_crossing and e[n + 1] * np.sign(e[0]) < -QUIET
        # An oscillation is small in passing whenever it crosses zero; only a long quiet means that it died out.
        patience = 0 if stop_at_crossing else 10 * (K_ref + 1)
        if crossed or not abs(e[n + 1]) <= highest or quiet > patience:
            return n + 2
    return e.size


@njit(cache=True)
def _follow_groups(theta, theta_ref, beta, eta, mu, K_ref, schedule, G, groups, rng) -> None:
    """Fill one replica's theta[1:] from theta[0]."""
    value = np.sqrt(np.arange(G + 1) * (G - np.arange(G + 1))) / G
    v = 0.0
    signal = 0.0
    for n in range(theta.size - 1):
        old = theta[max(n - K_ref, 0)] if schedule == _FIXED_LAG else theta[n - n % K_ref]
        p_old = 1 / (1 + math.exp(-old))
        if schedule == _FIXED_LAG or n % K_ref == 0:
            signal = 0.0
            for _ in range(groups):
                signal += value[rng.binomial(G, p_old)]
            signal /= groups
        now = theta[n] if schedule == _CORRECTED else old
        p = 1 / (1 + math.exp(-now))
        ratio = p * (1 - p) / (p_old * (1 - p_old)) if schedule == _CORRECTED else 1.0
        v = mu * v + eta * (ratio * signal - beta * p * (1 - p) * (now - theta_ref))
        theta[n + 1] = theta[n] + v


def _check(eta: float, mu: float, K_ref: int, schedule: str, steps: int) -> int:
    check_positive("eta", eta), check_momentum(mu), check_schedule(schedule, K_ref)
    if steps < 1:
        raise InputError(f"steps: found {steps}, expected 1 or more")
    return SCHEDULES.index(schedule)


def mean_field(
    bandit: Bandit,
    *,
    eta: float,
    mu: float,
    K_ref: int,
    schedule: Schedule,
    start: float,
    steps: int,
    highest: float = np.inf,
    stop_at_crossing: bool = False,
) -> Array:
    """Errors theta - theta* of the deterministic mean field, from `start` at rest.

    Parameters
    ----------
    bandit : Bandit
        With G = None.
    eta, mu : float
        Learning rate above 0 and heavy-ball momentum, 0 <= mu < 1.
    K_ref : int
        Lag or refresh interval in optimiser steps.
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    start : float
        Initial error in theta; a fixed lag sees it as the whole past.
    steps : int
        Optimiser steps, 1 or more.
    highest : float
        Stop once the error's modulus exceeds this.
    stop_at_crossing : bool
        Stop once the error changes sign, or has died out without doing so.

    Returns
    -------
    ndarray, shape (steps + 1,) or shorter
        Ends early also where the error has died out below 1e-290.

    Raises
    ------
    ValueError
        If a parameter is outside its domain, or the bandit has no fixed point.
    """
    code = _check(eta, mu, K_ref, schedule, steps)
    if bandit.G is not None:
        raise InputError(f"bandit: found G = {bandit.G}, expected None for the mean field")
    e = np.empty(steps + 1)
    e[0] = start
    theta_star = bandit.fixed_point()
    length = _follow_mean_field(e, theta_star, bandit.beta, eta, mu, K_ref, code, highest, stop_at_crossing)
    return e[:length]


def groups(
    bandit: Bandit,
    *,
    eta: float,
    mu: float,
    K_ref: int,
    schedule: Schedule,
    start: float,
    steps: int,
    groups_per_step: int,
    seeds: NDArray[np.int64],
) -> Array:
    """Logits theta of replicas trained on sampled groups of `bandit.G` completions, from the logit `start` at rest.

    Parameters
    ----------
    groups_per_step : int
        Groups per sampled batch, whose gradients are averaged, 1 or more.
    seeds : ndarray of int, shape (replicas,)
        One seed per replica.
    bandit, eta, mu, K_ref, schedule, steps
        As in `mean_field`, except that `bandit.G` is a number.

    Returns
    -------
    ndarray, shape (replicas, steps + 1)

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    code = _check(eta, mu, K_ref, schedule, steps)
    if bandit.G is None or groups_per_step < 1:
        raise InputError(f"groups: found G = {bandit.G} and {groups_per_step} groups, expected numbers of 1 or more")
    theta = np.empty((len(seeds), steps + 1))
    theta[:, 0] = start
    for path, seed in zip(theta, seeds, strict=True):
        rng = np.random.default_rng(seed)
        _follow_groups(path, bandit.theta_ref, bandit.beta, eta, mu, K_ref, code, bandit.G, groups_per_step, rng)
    return theta
