"""Exact thresholds of the importance-corrected schedule, a search that does not depend on the period's length.

With the frozen error e0 as a constant force, (e + r e0, v) is multiplied at each step by

    A = [[1 - a_now, mu], [-a_now, mu]],      r = a_stale/a_now = s/(1 - s),      a_now = (1 - s) a

and a period maps (e, v) by M = A^L (1 + r e1 e1^T) - r e1 e1^T. The powers of A have a closed form: with its
eigenvalues l1 and l2 (l1 l2 = mu, l1 + l2 = 1 + mu - a_now), c = (l1^L + l2^L)/2, q = (l1^L - l2^L)/(l1 - l2) and
w = (1 - mu - a_now) q/2,

    A^L = [[c + w, mu q], [-a_now q, c - w]].

The eigenvalues are positive up to a_now = (1 - sqrt mu)^2, complex of modulus sqrt(mu) and angle theta up to
(1 + sqrt mu)^2, where a_now = (1 - sqrt mu)^2 + 4 sqrt(mu) sin^2(theta/2), and negative above. In theta all quantities
are trigonometric polynomials of degree L, so that a grid of a few points per oscillation misses no zero; a dip
between grid points is followed to its bottom. Source: theory, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import elementwise

from grpo_dynamics.theory import oscillator
from grpo_dynamics.theory.oscillator import Array

_PER_OSCILLATION = 16  # grid points in theta per 2 pi of L theta
_BLOCK = 8 * _PER_OSCILLATION  # grid points looked at before cells that are done are dropped
_TINY = 1e-150  # stands for zero where a quotient has a limit


class _Power(NamedTuple):
    """A^L: a_now, c, 1 - c (which does not cancel for small a) and q."""

    a_now: Array
    c: Array
    less: Array
    q: Array


# Conditions of a range at x, of which each is positive below the threshold: an array (conditions, *shape of x).
_Conditions = Callable[[int, Array, Array, Array, Array], Array]


def _lowest(mu: Array) -> Array:
    return ((1 - mu) / (1 + np.sqrt(mu))) ** 2  # (1 - sqrt mu)^2


def _real(a_now: Array, mu: Array, L: Array) -> _Power:
    """Where the eigenvalues are real, as a function of a_now; large powers are cut at exp(300), for signs."""
    half = (1 + mu - a_now) / 2
    root = np.sqrt(np.maximum((_lowest(mu) - a_now) * ((1 + np.sqrt(mu)) ** 2 - a_now), 0.0)) / 2
    root = np.maximum(root, _TINY)
    size = np.maximum(np.abs(half), root)
    positive = half > 0
    near_one = np.where(positive, a_now / ((1 - mu + a_now) / 2 + root), 0.0)  # 1 - l1
    first = np.minimum(L * np.where(positive, np.log1p(-near_one), np.log(size + root)), 300.0)  # log |l1|^L
    ratio = -2 * L * np.arctanh(np.minimum(root / size, 1 - 2**-53))  # log of (l2/l1)^L
    odd = np.where(positive, 1.0, 1 - 2 * (L % 2))
    c = odd * np.exp(first) * (1 + np.exp(ratio)) / 2
    less = np.where(positive, -(np.expm1(first) + np.expm1(first + ratio)) / 2, 1 - c)
    q = odd * np.where(positive, 1, -1) * np.exp(first) * -np.expm1(ratio) / (2 * root)
    return _Power(a_now, c, less, q)


def _complex(theta: Array, mu: Array, L: Array) -> _Power:
    """Where the eigenvalues are complex, as a function of their angle."""
    theta, log = np.maximum(theta, _TINY), np.log(np.maximum(mu, _TINY))
    a_now = _lowest(mu) + 4 * np.sqrt(mu) * np.sin(theta / 2) ** 2
    size = np.exp(L * log / 2)
    less = 2 * size * np.sin(L * theta / 2) ** 2 - np.expm1(L * log / 2)
    q = np.exp((L - 1) * log / 2) * (np.sin(L * theta) / np.sin(theta))
    return _Power(a_now, size * np.cos(L * theta), less, q)


_COMPLEX, _NEGATIVE = 1, 2  # numbers of the ranges; 0 is the positive one
_POWERS = (_real, _complex, _real)


def _stable(number: int, x: Array, mu: Array, L: Array, share: Array) -> Array:
    """Jury's conditions 1 - det and 1 + trace + det; 1 - trace + det fails where A does, at even L only."""
    a_now, _, less, q = _POWERS[number](x, mu, L)
    r = share / (1 - share)
    w = (1 - mu - a_now) / 2 * q
    power = L * np.log(np.maximum(mu, _TINY))  # log of mu^L
    no_growth = -(1 + r) * np.expm1(power) - r * (less + w)
    no_flip = 3 - r + (1 + r) * np.exp(power) - 2 * (less - r * w)
    if number != _NEGATIVE:
        return np.stack([no_growth, no_flip])
    return np.stack([no_growth, no_flip, np.where(L % 2 == 0, 2 * (1 + mu) - a_now, 1.0)])


def _monotone(number: int, x: Array, mu: Array, L: Array, share: Array) -> Array:
    """Where the roots are real, the period's trace, and the smallest e on the leading mode's way through the period.

    With M = [[m11, m12], [m21, m22]], m12 m21 <= 0, the roots are real where m11 - m22 > 2 sqrt(-m12 m21); m11 > m22 up
    to the first failure, and the way is right up to there.
    """
    a_now, c, less, q = _POWERS[number](x, mu, L)
    r = share / (1 - share)
    w = (1 - mu - a_now) / 2 * q
    difference = (2 + r) * w - r * less  # m11 - m22
    real = difference - 2 * np.sqrt(mu * (1 + r) * a_now) * np.abs(q)
    trace = (2 + r) * c + r * (w - 1)
    if number == 0:  # nothing turns while the eigenvalues of A are positive
        return np.stack([real, trace])
    spread = difference + np.sqrt(np.maximum(real * (2 * difference - real), 0.0))  # twice the larger root less m22
    v = -2 * (1 + r) * a_now * q / np.maximum(spread, _TINY)  # of the leading mode, at e = 1
    way = _way_complex(x, v, mu, L, r) if number == _COMPLEX else _way_negative(x, v, mu, L, r)[np.newaxis]
    return np.stack([real, trace, *way])


def _way_complex(theta: Array, v: Array, mu: Array, L: Array, r: Array) -> Array:
    """Smallest e after an even and an odd number of steps, (2, *shape), from (1, v).

    e[k] = mu^(k/2) (X cos k theta + Y sin k theta) - r has, continued to all k, one bottom between two maxima, and the
    whole steps on either side of a bottom are the lowest. The two parities are kept apart since the lower of two dips
    hides the other.
    """
    theta, v, mu, L, r = np.broadcast_arrays(np.maximum(theta, _TINY), v, mu, L, r)
    decay = np.log(np.maximum(mu, _TINY)) / 2
    X, Y = 1 + r, ((1 + r) * (np.cos(theta) - np.sqrt(mu)) + np.sqrt(mu) * v) / np.sin(theta)

    def lowest(bottom: Array, *mode: Array) -> Array:
        theta, decay, X, Y, L, r = mode
        below = np.floor(bottom)
        steps = np.clip([below + below % 2, below + 1 - below % 2], 1, L)
        return np.exp(steps * decay) * (X * np.cos(steps * theta) + Y * np.sin(steps * theta)) - r

    bottom = (np.arctan2(theta, -decay) + np.arctan2(X, -Y)) / theta
    mode = (theta, decay, X, Y, L, r)
    smallest = lowest(bottom, *mode)
    size = np.hypot(X, Y) / np.hypot(1, decay / theta)
    while True:
        bottom = bottom + 2 * np.pi / theta
        # Bottoms that come near zero, to half of the way, are followed too, so that a dip shows before it crosses.
        reaches = (smallest.min(axis=0) >= 0) & (bottom < L + 1) & (np.exp(bottom * decay) * size > -r / 2)
        if not reaches.any():
            return smallest
        smallest[:, reaches] = np.minimum(
            smallest[:, reaches], lowest(bottom[reaches], *(each[reaches] for each in mode))
        )


def _way_negative(a_now: Array, v: Array, mu: Array, L: Array, r: Array) -> Array:
    """Smallest e of e[k] = (-1)^k (P p^k + Q q^k) - r, p > q, from (1, v).

    It is lowest at the first odd k, the last, or beside the one where (p/q)^k = -(Q log q)/(P log p).
    """
    a_now, v, mu, L, r = np.broadcast_arrays(a_now, v, mu, L, r)
    half = (a_now - 1 - mu) / 2
    root = np.maximum(np.sqrt(np.maximum(half**2 - mu, 0.0)), _TINY)
    log_p = np.log(half + root)
    log_q = np.log(np.maximum(mu, _TINY)) - log_p
    first = mu * v + (1 + r) * (1 - a_now)
    P = -(first + (1 + r) * np.exp(log_q)) / (2 * root)
    Q = 1 + r - P
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.log(-(Q * log_q) / (P * log_p)) / (log_p - log_q)
    last = L - 1 + L % 2
    below = np.clip(np.nan_to_num(2 * np.floor((top - 1) / 2) + 1, nan=1.0), 1, last)
    steps = np.stack([np.ones_like(a_now), below, np.minimum(below + 2, last), last])
    with np.errstate(over="ignore", invalid="ignore"):
        return np.min(-P * np.exp(steps * log_p) - Q * np.exp(steps * log_q) - r, axis=0)


def _grids(mu: Array, L: int, share: Array) -> Iterator[tuple[int, Array]]:
    """Numbers of the ranges and their grids, in blocks that overlap by two points; (cells or 1, points)."""
    low, high = _lowest(mu), (1 + np.sqrt(mu)) ** 2
    start = 1e-2 * oscillator.onset_threshold(mu, L) * np.minimum(1, 1 - share)
    yield 0, np.geomspace(start, low, 64, axis=-1)
    theta = np.arange(_PER_OSCILLATION // 2 * L + 1) * (2 * np.pi / (_PER_OSCILLATION * L))
    theta[0], theta[-1] = _TINY, np.pi - 1e-6 / L
    for begin in range(0, len(theta) - 2, _BLOCK):
        yield _COMPLEX, theta[np.newaxis, begin : begin + _BLOCK + 2]
    width, fine = low[:, np.newaxis], np.geomspace(1e-4 / L, 0.5, 40)  # the flip of A stands at high + low
    yield _NEGATIVE, high[:, np.newaxis] + width * np.r_[1e-12, fine, 1 - fine[-2::-1], 1 + fine]
    above = high + low * (1 + fine[-1])
    yield _NEGATIVE, np.geomspace(above, 4 * above * np.maximum(1, 1 - share), 64, axis=-1)


def _first_bracket(
    conditions: _Conditions, number: int, x: Array, mu: Array, L: int, share: Array
) -> tuple[Array, Array, Array]:
    """Cells in which a condition turns negative within the grid x, and where: the grid points around the first turn."""
    columns = (mu[:, np.newaxis], float(L), share[:, np.newaxis])
    values = conditions(number, x, *columns)
    x = np.broadcast_to(x, values.shape[1:])
    negative = (values < 0).any(axis=0)
    first = np.where(negative.any(axis=-1), negative.argmax(axis=-1), x.shape[-1])
    cells = np.arange(len(mu))
    at = np.minimum(first, x.shape[-1] - 1)
    low, high = x[cells, np.maximum(at - 1, 0)].copy(), x[cells, at].copy()
    # Dips between grid points: a bottom at zero has its lowest grid point below a third of its neighbours' sum.
    condition, cell, point = np.nonzero(values[..., 1:-1] < (values[..., :-2] + values[..., 2:]) / 3)
    left, centre, right = (values[condition, cell, point + i] for i in range(3))
    deep = (centre <= left) & (centre <= right) & (point + 1 < first[cell])
    if deep.any():
        condition, cell, point = condition[deep], cell[deep], point[deep]
        found = elementwise.find_minimum(
            lambda x, mu, share, which: np.take_along_axis(
                conditions(number, x, mu, float(L), share), which.astype(int)[np.newaxis], axis=0
            )[0],
            (x[cell, point], x[cell, point + 1], x[cell, point + 2]),
            args=(mu[cell], share[cell], condition.astype(float)),
        )
        for i in np.flatnonzero(found.f_x < 0):
            if point[i] + 1 < first[cell[i]] or found.x[i] < high[cell[i]]:
                first[cell[i]] = point[i] + 1
                low[cell[i]], high[cell[i]] = x[cell[i], point[i]], found.x[i]
    done = first < x.shape[-1]
    return done, low, high


def _smallest(values: Array) -> Array:
    """The smallest condition; where a power underflows, a zero has not turned negative and is no root."""
    smallest = values.min(axis=0)
    return np.where(smallest == 0, _TINY, smallest)


def _threshold(conditions: _Conditions, mu: Array, L: Array, share: Array) -> Array:
    """Smallest a at which a condition fails; mu, L and share of one shape (cells,)."""
    ranges, low, high = np.full(mu.shape, -1), np.empty(mu.shape), np.empty(mu.shape)
    for interval in np.unique(L):
        open_cells = np.flatnonzero(interval == L)
        for number, x in _grids(mu[open_cells], int(interval), share[open_cells]):
            waiting = ranges[open_cells] < 0
            x = x[waiting] if len(x) == len(waiting) else x
            cells = open_cells[waiting]
            if not len(cells):
                break
            done, left, right = _first_bracket(conditions, number, x, mu[cells], int(interval), share[cells])
            ranges[cells[done]], low[cells[done]], high[cells[done]] = number, left[done], right[done]
    if (ranges < 0).any():
        i = int(np.argmin(ranges))
        raise ValueError(f"found no threshold of a = eta K at mu = {mu[i]}, K_ref = {L[i]}, stale_share = {share[i]}")
    a = np.empty(mu.shape)
    for number, powers in enumerate(_POWERS):
        cells = ranges == number
        if cells.any():
            args = (mu[cells], L[cells].astype(float), share[cells])
            root = elementwise.find_root(
                lambda x, *args, number=number: _smallest(conditions(number, x, *args)),
                (low[cells], high[cells]),
                args=args,
            )
            # A bracket of one point is where two ranges meet.
            a[cells] = powers(np.where(root.success, root.x, high[cells]), args[0], args[1]).a_now / (1 - args[2])
    return a


def stability_threshold(mu: Array, K_ref: Array, stale_share: Array) -> Array:
    """Smallest a at which an eigenvalue of the period's map reaches modulus 1; checked arrays of one shape (cells,)."""
    return _threshold(_stable, mu, K_ref, stale_share)


def onset_threshold(mu: Array, K_ref: Array, stale_share: Array) -> Array:
    """Smallest a at which the leading mode is complex, negative, or changes sign within a period; as above."""
    return _threshold(_monotone, mu, K_ref, stale_share)
