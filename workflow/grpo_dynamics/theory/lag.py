"""The linear update under a lag as matrices, where the oscillator is an expansion (theory, section 3).

Three schedules of the gradient that acts on e[n]:

* fixed_lag: the one of K_ref steps ago, e[n - K_ref];
* periodic: frozen at the last refresh, a multiple of K_ref;
* importance_corrected: as periodic, but only a share a_stale/a of the stiffness is frozen, the rest is current.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov

from grpo_dynamics.theory.oscillator import Array, Mode, check_momentum, check_positive

Schedule = Literal["fixed_lag", "periodic", "importance_corrected"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def check_schedule(schedule: str, K_ref: int) -> None:
    """Raise ValueError unless `schedule` is known and `K_ref` fits it (0 or more for fixed_lag, else 1 or more)."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule: found {schedule!r}, expected one of {SCHEDULES}")
    least = 0 if schedule == "fixed_lag" else 1
    if K_ref != int(K_ref) or K_ref < least:
        raise ValueError(f"K_ref: found {K_ref}, expected an integer of {least} or more for {schedule}")


def mean_age(schedule: Schedule, K_ref: ArrayLike) -> Array:
    """Mean age of the samples that a step uses, in steps: K_ref under a fixed lag, otherwise (K_ref - 1)/2.

    A trainer that refreshes every K_ref steps works with samples aged 0 .. K_ref - 1.
    """
    for interval in np.unique(K_ref):
        check_schedule(schedule, interval)
    K_ref = np.asarray(K_ref, dtype=float)
    return K_ref if schedule == "fixed_lag" else (K_ref - 1) / 2


def companion(a: float, mu: float, K_ref: int) -> Array:
    """Matrix that maps (e[n], e[n-1], ...) to (e[n+1], e[n], ...) under a fixed lag.

    Its eigenvalues are the roots of z^(L+1) - (1+mu) z^L + mu z^(L-1) + a, L = K_ref >= 1, or of
    z^2 - (1+mu-a) z + mu for L = 0. Shape (max(L, 1) + 1,) * 2.
    """
    check_positive("a", a), check_momentum(mu), check_schedule("fixed_lag", K_ref)
    matrix = np.eye(max(K_ref, 1) + 1, k=-1)
    matrix[0, 0] += 1 + mu
    matrix[0, 1] -= mu
    matrix[0, K_ref] -= a
    return matrix


def _steps(a: float, mu: float, K_ref: int, stale_share: float, force: float) -> Array:
    """Maps of (e, v, 1) from a refresh to each of the next K_ref steps, shape (K_ref, 3, 3).

    v[n+1] = mu v[n] - a_now e[n] - a_stale e[refresh] + force,  e[n+1] = e[n] + v[n+1].
    """
    e, v, one = np.eye(3)
    frozen, steps = e, []
    for _ in range(K_ref):
        v = mu * v - a * ((1 - stale_share) * e + stale_share * frozen) + force * one
        e = e + v
        steps.append(np.stack([e, v, one]))
    return np.stack(steps)


def monodromy(a_now: float, a_stale: float, mu: float, K_ref: int) -> Array:
    """Matrix that maps (e, velocity) from one refresh to the next, shape (2, 2).

    Parameters
    ----------
    a_now, a_stale : float
        Stiffness per step that acts on the current and on the last refreshed error; their sum is above 0. The plain
        periodic refresh has a_now = 0.
    mu : float
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : int
        Steps per refresh, 1 or more.
    """
    a = float(check_positive("a_now + a_stale", a_now + a_stale))
    check_momentum(mu), check_schedule("periodic", K_ref)
    return _steps(a, mu, K_ref, a_stale / a, 0.0)[-1, :2, :2]


def spectral_radius(matrix: Array) -> float:
    """Largest modulus of an eigenvalue; the linear update is stable iff it is below 1."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def stale_stiffness(p_star: ArrayLike) -> Array:
    """a_stale/eta = (1/2)(1 - 2p*) sqrt(p*(1-p*)) of the importance-corrected schedule (section 3)."""
    p_star = np.asarray(p_star, dtype=float)
    if not np.all((p_star > 0) & (p_star < 1)):
        raise ValueError(f"p_star: found {p_star}, expected a probability strictly between 0 and 1")
    return 0.5 * (1 - 2 * p_star) * np.sqrt(p_star * (1 - p_star))


def _update(schedule: Schedule, a: float, mu: float, K_ref: int, stale_share: float) -> Array:
    """The matrix whose powers are the update: of a step under a fixed lag, otherwise of a period."""
    if schedule == "fixed_lag":
        return companion(a, mu, K_ref)
    share = 1.0 if schedule == "periodic" else stale_share
    return monodromy((1 - share) * a, share * a, mu, K_ref)


def slowest_mode(schedule: Schedule, a: float, mu: float, K_ref: int, stale_share: float = 1.0) -> Mode:
    """Decay rate and angular frequency, 1/step, of the mode that outlives the others.

    They are -ln|z| and |arg z| of the eigenvalue of largest modulus, for the schedules that refresh of a period, over
    its K_ref steps.

    Parameters
    ----------
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    a : float
        Stiffness per step, eta K, above 0.
    mu : float
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : int
        Lag or refresh interval in steps.
    stale_share : float
        a_stale / a, used by importance_corrected only.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    check_schedule(schedule, K_ref)
    roots = np.linalg.eigvals(_update(schedule, a, mu, K_ref, stale_share))
    leading = roots[np.argmax(np.abs(roots))]
    steps = 1 if schedule == "fixed_lag" else K_ref
    with np.errstate(divide="ignore"):
        return Mode(-np.log(np.abs(leading)) / steps, np.abs(np.angle(leading)) / steps)


def stationary_variance(
    schedule: Schedule, a: float, mu: float, K_ref: int, noise: float, stale_share: float = 1.0
) -> float:
    """Exact stationary variance of e under the noise of sampled batches, by the discrete Lyapunov equation.

    Under a fixed lag every step has a batch of its own. Otherwise the noise of a batch acts, unchanged, on each of the
    K_ref steps of its period, and the variance is the mean over the period's steps.

    Parameters
    ----------
    noise : float
        Variance of what a batch's noise adds to the velocity, and so to e, at each step.
    schedule, a, mu, K_ref, stale_share
        As in `slowest_mode`.

    Raises
    ------
    ValueError
        If a parameter is outside its domain, or the update is unstable, so that no stationary state exists.
    """
    check_schedule(schedule, K_ref)
    matrix = _update(schedule, a, mu, K_ref, stale_share)
    if spectral_radius(matrix) >= 1:
        raise ValueError(f"a = {a:g}, mu = {mu:g}, K_ref = {K_ref}, {schedule}: unstable, no stationary state exists")
    if schedule == "fixed_lag":
        forcing = np.zeros_like(matrix)
        forcing[0, 0] = noise
        return float(solve_discrete_lyapunov(matrix, forcing)[0, 0])
    steps = _steps(a, mu, K_ref, 1.0 if schedule == "periodic" else stale_share, 1.0)
    response = steps[-1, :2, 2]
    at_refresh = solve_discrete_lyapunov(matrix, noise * np.outer(response, response))
    of_state = np.einsum("ki,ij,kj->k", steps[:, 0, :2], at_refresh, steps[:, 0, :2])
    return float(np.mean(of_state + noise * steps[:, 0, 2] ** 2))
