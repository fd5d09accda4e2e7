"""Exact analysis of the linear update under a lag, where the oscillator is an expansion (theory, section 3).

Three schedules of the gradient that acts on e[n]:

* fixed_lag: the one of K_ref steps ago, e[n - K_ref];
* periodic: frozen at the last refresh, a multiple of K_ref;
* importance_corrected: as periodic, but only a share a_stale/a of the stiffness is frozen, the rest is current.

Onset of oscillation is the smallest a > 0 at which an eigenvalue of largest modulus is complex or negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import brentq

from grpo_dynamics.theory import oscillator
from grpo_dynamics.theory.oscillator import Array, check_momentum, check_positive

Schedule = Literal["fixed_lag", "periodic", "importance_corrected"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def check_schedule(schedule: str, K_ref: int) -> None:
    """Raise ValueError unless `schedule` is known and `K_ref` fits it (0 or more for fixed_lag, else 1 or more)."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule: found {schedule!r}, expected one of {SCHEDULES}")
    least = 0 if schedule == "fixed_lag" else 1
    if K_ref != int(K_ref) or K_ref < least:
        raise ValueError(f"K_ref: found {K_ref}, expected an integer of {least} or more for {schedule}")


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


def _periods(a: ArrayLike, stale_share: float, mu: float, K_ref: int) -> Array:
    """Maps of (e, v) from a refresh to each of the next K_ref steps, shape (K_ref, *a.shape, 2, 2).

    v[n+1] = mu v[n] - a_now e[n] - a_stale e[refresh],  e[n+1] = e[n] + v[n+1].
    """
    a = np.asarray(a, dtype=float)[..., np.newaxis]
    e = np.broadcast_to(np.array([1.0, 0.0]), (*a.shape[:-1], 2))  # columns: started with e = 1, started with v = 1
    v = np.broadcast_to(np.array([0.0, 1.0]), e.shape)
    frozen, steps = e, []
    for _ in range(K_ref):
        v = mu * v - a * ((1 - stale_share) * e + stale_share * frozen)
        e = e + v
        steps.append(np.stack([e, v], axis=-2))
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
    return _periods(a, a_stale / a, mu, K_ref)[-1]


def spectral_radius(matrix: Array) -> float:
    """Largest modulus of an eigenvalue; the linear update is stable iff it is below 1."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def stale_stiffness(p_star: ArrayLike) -> Array:
    """a_stale/eta = (1/2)(1 - 2p*) sqrt(p*(1-p*)) of the importance-corrected schedule (section 3)."""
    p_star = np.asarray(p_star, dtype=float)
    if not np.all((p_star > 0) & (p_star < 1)):
        raise ValueError(f"p_star: found {p_star}, expected a probability strictly between 0 and 1")
    return 0.5 * (1 - 2 * p_star) * np.sqrt(p_star * (1 - p_star))


def _unstable(maps: Array) -> Array:
    """Jury's conditions on the map of a whole period, which need no eigenvalue."""
    trace = np.trace(maps[-1], axis1=-2, axis2=-1)
    determinant = np.linalg.det(maps[-1])
    return (determinant >= 1) | (np.abs(trace) >= 1 + determinant)


def _oscillates(maps: Array) -> Array:
    """Whether the leading mode of a period is complex, negative, or crosses zero on its way through the period.

    The discriminant decides, since a double root makes eigenvalues noisy. The way through the period matters only
    where the gradient is partly current: (1 - a)^2 e, say, is positive after two steps though it changed sign twice.
    """
    period = maps[-1]
    trace = np.trace(period, axis1=-2, axis2=-1)
    discriminant = (period[..., 0, 0] - period[..., 1, 1]) ** 2 + 4 * period[..., 0, 1] * period[..., 1, 0]
    root = (trace + np.sqrt(np.maximum(discriminant, 0.0))) / 2
    # Eigenvector (e, v) of the leading root, from the better conditioned of its two equations; only signs are needed.
    first = (period[..., 0, 1], root - period[..., 0, 0])
    second = (root - period[..., 1, 1], period[..., 1, 0])
    use_first = np.abs(first[0]) > np.abs(second[0])
    e, v = (np.where(use_first, *pair) for pair in zip(first, second, strict=True))
    on_the_way = np.min((maps[..., 0, 0] * e + maps[..., 0, 1] * v) * np.sign(e), axis=0)
    return (discriminant < 0) | (trace <= 0) | (on_the_way < 0)


def _smallest(holds: Callable[[Array], Array], lowest: float, highest: float) -> float:
    """Smallest a in [lowest, highest] at which `holds` turns true, by ever finer grids, to 1e-13 relative."""
    grid = np.geomspace(lowest, highest, 3000)
    for _ in range(6):
        found = np.flatnonzero(holds(grid))
        if not found.size or found[0] == 0:
            raise ValueError(f"no threshold of a = eta K between {lowest:g} and {highest:g}")
        grid = np.linspace(grid[found[0] - 1], grid[found[0]], 200)
        if grid[-1] - grid[0] <= 1e-13 * grid[-1]:
            break
    return float(grid[-1])


def _scan(test: Callable[[Array], Array], schedule: Schedule, mu: float, K_ref: int, stale_share: float) -> float:
    share = 1.0 if schedule == "periodic" else stale_share
    lowest = 1e-2 * float(oscillator.onset_threshold(mu, K_ref))
    return _smallest(lambda a: test(_periods(a, share, mu, K_ref)), lowest, 16.0)


def stability_threshold(schedule: Schedule, mu: float, K_ref: int, stale_share: float = 1.0) -> float:
    """Exact a = eta K at which the linear update loses stability.

    Under a fixed lag, roots on the unit circle z = exp(i x) have a = z^(L-1) (1-z)(z-mu) real and positive; its phase
    grows with x and its modulus too, so that the first zero of the phase gives the threshold (brentq). The two
    refreshing schedules are scanned with Jury's conditions.

    Parameters
    ----------
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    mu : float
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : int
        Lag or refresh interval in steps.
    stale_share : float
        a_stale / a, used by importance_corrected only.

    Raises
    ------
    ValueError
        If a parameter is outside its domain or no threshold exists below a = 16.
    """
    check_momentum(mu), check_schedule(schedule, K_ref)
    if schedule != "fixed_lag":
        return _scan(_unstable, schedule, mu, K_ref, stale_share)
    if K_ref == 0:
        return 2.0 * (1 + mu)
    angle = brentq(
        lambda x: (K_ref - 1) * x + (x - np.pi) / 2 + np.angle(np.exp(1j * x) - mu), 1e-12, np.pi, xtol=1e-15
    )
    z = np.exp(1j * angle)
    return float(np.abs((1 - z) * (z - mu)))


def onset_threshold(schedule: Schedule, mu: float, K_ref: int, stale_share: float = 1.0) -> float:
    """Exact a = eta K at which the linear update starts to oscillate. Parameters as in `stability_threshold`.

    Under a fixed lag the leading real root meets the next one at the maximum of a = z^(L-1) (1-z)(z-mu) over
    mu < z < 1, where (L+1) z^2 - L (1+mu) z + (L-1) mu = 0. The importance-corrected schedule counts a change of sign
    inside a period as well.
    """
    check_momentum(mu), check_schedule(schedule, K_ref)
    if schedule != "fixed_lag":
        return _scan(_oscillates, schedule, mu, K_ref, stale_share)
    if K_ref == 0:
        return float((1 - np.sqrt(mu)) ** 2)
    L = K_ref
    z = (L * (1 + mu) + np.sqrt((L * (1 + mu)) ** 2 - 4 * (L**2 - 1) * mu)) / (2 * (L + 1))
    return float(z ** (L - 1) * (1 - z) * (z - mu))


def stationary_variance(a: float, mu: float, K_ref: int, noise: float) -> float:
    """Exact stationary variance of e under a fixed lag and white noise, by the discrete Lyapunov equation.

    Parameters
    ----------
    a, mu, K_ref
        As in `companion`.
    noise : float
        Variance of the noise added to e at each step.

    Raises
    ------
    ValueError
        If the update is unstable, so that no stationary state exists.
    """
    matrix = companion(a, mu, K_ref)
    if spectral_radius(matrix) >= 1:
        raise ValueError(f"a = {a:g}, mu = {mu:g}, K_ref = {K_ref}: unstable, so no stationary variance exists")
    forcing = np.zeros_like(matrix)
    forcing[0, 0] = noise
    return float(solve_discrete_lyapunov(matrix, forcing)[0, 0])
