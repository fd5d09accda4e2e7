"""Exact thresholds of a = eta K under a lag: loss of stability and onset of oscillation (theory, section 3).

Onset of oscillation is the smallest a > 0 at which an eigenvalue of largest modulus is complex or negative; under the
importance-corrected schedule a change of sign inside a period counts as well. All functions work elementwise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import elementwise

from grpo_dynamics.theory.lag import Schedule, check_schedule
from grpo_dynamics.theory.oscillator import Array, check_momentum

_PARTS = np.linspace(0, 1, 17)  # a bracket is cut into sixteen, eleven times
_CUTS = 11
_PER_HALF_PERIOD = 8  # points of the scan for each half period of the oscillating conditions
_REAL = 24  # points of the scan where the current part's eigenvalues are real
_CHUNK = 32  # points of the scan that are looked at together

Map = tuple[Array, Array, Array, Array]
Condition = Callable[[Array, Array, int, Array], NDArray[np.bool_]]


def stability_threshold(schedule: Schedule, mu: ArrayLike, K_ref: ArrayLike, stale_share: ArrayLike = 1.0) -> Array:
    """Exact a = eta K at which the linear update loses stability.

    * fixed_lag: roots on the unit circle z = exp(i x) have a = z^(L-1) (1-z)(z-mu) real and positive; its phase grows
      with x and its modulus too, so that the first zero of the phase, bracketed, gives the threshold.
    * periodic: the map of a period is linear in a, and so are Jury's conditions.
    * importance_corrected: Jury's conditions on the map of a period, scanned and bisected. Stability can return above
      the threshold.

    Parameters
    ----------
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    mu : array_like
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : array_like of int
        Lag or refresh interval in steps.
    stale_share : array_like
        a_stale / a below 1, used by importance_corrected only; 1 is the periodic schedule.

    Returns
    -------
    ndarray
        Of the broadcast shape; 1/step.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    return _thresholds(schedule, mu, K_ref, stale_share, (_stability_fixed_lag, _stability_periodic, _unstable))


def onset_threshold(schedule: Schedule, mu: ArrayLike, K_ref: ArrayLike, stale_share: ArrayLike = 1.0) -> Array:
    """Exact a = eta K at which the linear update starts to oscillate. Parameters as in `stability_threshold`.

    * fixed_lag: the leading real root meets the next one at the maximum of a = z^(L-1) (1-z)(z-mu) over mu < z < 1,
      where (L+1) z^2 - L (1+mu) z + (L-1) mu = 0.
    * periodic: the discriminant of a period's map is quadratic in a.
    * importance_corrected: scanned and bisected.
    """
    return _thresholds(schedule, mu, K_ref, stale_share, (_onset_fixed_lag, _onset_periodic, _oscillates))


def _thresholds(
    schedule: Schedule,
    mu: ArrayLike,
    K_ref: ArrayLike,
    stale_share: ArrayLike,
    ways: tuple[Callable, Callable, Condition],
) -> Array:
    check_momentum(mu)
    for interval in np.unique(K_ref):
        check_schedule(schedule, interval)
    fixed_lag, periodic, condition = ways
    mu, L, s = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (mu, K_ref, stale_share)))
    if schedule == "fixed_lag":
        return fixed_lag(mu, L)
    if schedule == "periodic":
        return periodic(mu, L)
    if not np.all(s <= 1):
        raise ValueError(f"stale_share: found {np.max(s)}, expected 1 or less")
    found = np.empty(mu.shape)
    for interval in np.unique(L):
        here = (interval == L) & (s < 1)
        found[here] = _smallest(condition, mu[here], int(interval), s[here])
    found[s == 1] = periodic(mu[s == 1], L[s == 1])
    return found


def _stability_fixed_lag(mu: Array, L: Array) -> Array:
    def phase(x: Array, mu: Array, L: Array) -> Array:
        return (L - 1) * x + (x - np.pi) / 2 + np.angle(np.exp(1j * x) - mu)

    lagged = np.maximum(L, 1)
    root = elementwise.find_root(
        phase, (np.full(L.shape, 1e-12), np.full(L.shape, np.pi)), args=(mu, lagged), tolerances={"xrtol": 1e-15}
    )
    z = np.exp(1j * root.x)
    return np.where(L == 0, 2 * (1 + mu), np.abs((1 - z) * (z - mu)))


def _onset_fixed_lag(mu: Array, L: Array) -> Array:
    lagged = np.maximum(L, 1)
    z = (lagged * (1 + mu) + np.sqrt((lagged * (1 + mu)) ** 2 - 4 * (lagged**2 - 1) * mu)) / (2 * (lagged + 1))
    return np.where(L == 0, (1 - np.sqrt(mu)) ** 2, z ** (lagged - 1) * (1 - z) * (z - mu))


def _periodic_sums(mu: Array, L: Array) -> tuple[Array, Array, Array]:
    """q = mu^L, S = sum of mu^k over k < L, and T = sum over a period of the velocity's response to a unit force.

    The map of a period is [[1 - a T, mu S], [-a S, q]].
    """
    q = mu**L
    S = (1 - q) / (1 - mu)
    return q, S, (L - mu * S) / (1 - mu)


def _stability_periodic(mu: Array, L: Array) -> Array:
    q, S, T = _periodic_sums(mu, L)
    slope = mu * S**2 - q * T  # the determinant is q + a slope; slope >= 0, 0 at L = 1
    with np.errstate(divide="ignore"):
        complex_pair = np.where(slope > 1e-14 * T, (1 - q) / slope, np.inf)
        negative = 2 * (1 + q) / np.maximum((1 + q) * T - mu * S**2, 0.0)
    return np.minimum(complex_pair, negative)


def _onset_periodic(mu: Array, L: Array) -> Array:
    q, S, T = _periodic_sums(mu, L)
    # Smaller root of T^2 a^2 - 2 B a + (1-q)^2 = 0, the discriminant of the map, in a form that does not cancel.
    B = (1 + q) * T + 2 * (mu * S**2 - q * T)
    gap = 2 * mu * S**2  # B - (1-q) T
    return (1 - q) ** 2 / (B + np.sqrt(gap * (B + (1 - q) * T)))


def _powers(a_now: Array, mu: Array, L: int) -> tuple[Array, Array]:
    """W[L] and W[L-1], by which A^L = W[L] A - mu W[L-1] I for the current part's A = [[1 - a_now, mu], [-a_now, mu]].

    W[j] = (z+^j - z-^j)/(z+ - z-) of the roots of z^2 - (1 + mu - a_now) z + mu: with a complex pair
    sqrt(mu) exp(+-i x) it is mu^((j-1)/2) sin(j x)/sin(x), otherwise z^(j-1) (1 - rho^j)/(1 - rho) of the larger root z
    and the ratio rho of the two.
    """
    c = (1 + mu - a_now) / 2
    distance = c**2 - mu
    root = np.sqrt(np.abs(distance))
    x = np.arctan2(root, c)
    z = c + np.copysign(root, c)
    paired = distance < 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_ratio = np.log(np.where(paired, 0.5, mu / z**2))
        step = np.expm1(log_ratio)
        found = []
        for j in (L, L - 1):
            pair = mu ** ((j - 1) / 2) * np.where(root > 0, np.sin(j * x) / np.sin(x), j)
            apart = z ** (j - 1) * np.where(step < 0, np.expm1(j * log_ratio) / step, j)
            found.append(np.where(paired, pair, apart) if j > 0 else np.zeros_like(c))
    return found[0], found[1]


def _period(a: Array, mu: Array, L: int, s: Array) -> Map:
    """Entries of the map of (e, v) over a period: e of e, e of v, v of e, v of v.

    With e0 frozen, e + r e0 and v, r = s/(1-s), follow the current part alone.
    """
    a_now, r = (1 - s) * a, s / (1 - s)
    W, W_before = _powers(a_now, mu, L)
    ee, ev, ve, vv = W * (1 - a_now) - mu * W_before, W * mu, -W * a_now, W * mu - mu * W_before
    return (1 + r) * ee - r, ev, (1 + r) * ve, vv


def _unstable(a: Array, mu: Array, L: int, s: Array) -> NDArray[np.bool_]:
    """Jury's conditions, which need no eigenvalue."""
    ee, ev, ve, vv = _period(a, mu, L, s)
    trace, determinant = ee + vv, ee * vv - ev * ve
    return (determinant >= 1) | (np.abs(trace) >= 1 + determinant)


def _oscillates(a: Array, mu: Array, L: int, s: Array) -> NDArray[np.bool_]:
    """Whether the leading mode of a period is complex, negative, or crosses zero on its way through the period.

    The discriminant decides, since a double root makes eigenvalues noisy. The way through the period matters where
    the gradient is partly current: (1 - a)^2 e, say, is positive after two steps though it changed sign twice.
    """
    ee, ev, ve, vv = _period(a, mu, L, s)
    discriminant = (ee - vv) ** 2 + 4 * ev * ve
    found = (discriminant < 0) | (ee + vv <= 0)
    left = np.flatnonzero(~found.ravel())
    if left.size:
        a, mu, s = (np.broadcast_to(value, found.shape).ravel()[left] for value in (a, mu, s))
        ee, ev, ve, vv, discriminant = (value.ravel()[left] for value in (ee, ev, ve, vv, discriminant))
        root = (ee + vv + np.sqrt(discriminant)) / 2
        # Eigenvector (e, v) of the leading root, from the better conditioned of its equations; only signs are needed.
        use_first = np.abs(ev) > np.abs(root - vv)
        e, v = np.where(use_first, ev, root - vv), np.where(use_first, root - ee, ve)
        sign = np.sign(e)
        found.ravel()[left] = _crosses(e * sign, v * sign, a, mu, L, s)
    return found


def _crosses(e: Array, v: Array, a: Array, mu: Array, L: int, s: Array) -> NDArray[np.bool_]:
    """Whether e, at first positive, is negative after one of the period's steps."""
    frozen, crossed = e, np.zeros(e.shape, dtype=bool)
    for _ in range(L):
        v = mu * v - (1 - s) * a * e - s * a * frozen
        e = e + v
        crossed |= e < 0
    return crossed


def _smallest(holds: Condition, mu: Array, L: int, s: Array) -> Array:
    """Smallest a at which `holds` turns true, for arrays mu and s: a scan of all half periods, then bracketing."""
    grid = _grid(mu, L, s)
    low, high = np.full(mu.shape, np.nan), np.full(mu.shape, np.nan)
    left = np.arange(mu.size)
    for first in range(0, grid.shape[1], _CHUNK):
        part = grid[left, first : first + _CHUNK + 1]  # the last column is the next chunk's first
        found = holds(part, mu[left, np.newaxis], L, s[left, np.newaxis])
        place, row = np.argmax(found, axis=1), np.arange(left.size)
        hit = found.any(axis=1) & (place > 0)
        low[left[hit]], high[left[hit]] = part[row, place - 1][hit], part[row, place][hit]
        left = left[~hit]
        if not left.size:
            break
    if left.size:
        raise ValueError(f"K_ref = {L}: no threshold of a = eta K within the scan")
    row = np.arange(mu.size)
    for _ in range(_CUTS):
        part = low[:, np.newaxis] + (high - low)[:, np.newaxis] * _PARTS
        inner = holds(part[:, 1:-1], mu[:, np.newaxis], L, s[:, np.newaxis])
        place = np.where(inner.any(axis=1), np.argmax(inner, axis=1), inner.shape[1]) + 1
        low, high = part[row, place - 1], part[row, place]
    return high


def _grid(mu: Array, L: int, s: Array) -> Array:
    """Values of a that are scanned, shape (mu.size, points).

    The current part alone has the eigenvalues of z^2 - (1 + mu - a_now) z + mu, a_now = (1-s) a: real and positive up
    to a_now = (1 - sqrt(mu))^2, then sqrt(mu) exp(+-i x) with a_now = 1 + mu - 2 sqrt(mu) cos(x), then real and
    negative. In between the conditions oscillate with L x.
    """
    root = np.sqrt(mu)[:, np.newaxis]
    first, last = (1 - root) ** 2, (1 + root) ** 2
    real = first * np.geomspace(1e-4, 1, _REAL)
    x = np.linspace(0, np.pi, _PER_HALF_PERIOD * L + _REAL)[1:]
    oscillating = 1 + root**2 - 2 * root * np.cos(x)
    # The plain heavy ball is unstable from a_now = 2 (1 + mu); a stale part of the other sign moves that up.
    highest = 2.02 * (1 + root**2) * (1 + np.maximum(-s, 0.0)[:, np.newaxis])
    negative = last + (highest - last) * np.linspace(0, 1, _REAL)[1:]
    return np.concatenate([real, oscillating, negative], axis=1) / (1 - s)[:, np.newaxis]
