"""Compiled search for the smallest sum of squares, its repetition over many series, and profiles.

A fit is a vector u of coordinates (analysis.curves). For the law and the exponential the curve is linear in R_0 and
R_inf, R(t) = R_inf + (R_0 - R_inf) s(t; x): the search is over x alone, with R_0 and R_inf solved in closed form at
every x within the reward's range (variable projection; the step in x is that of the Jacobian projected on the
complement of the linear part, Kaufman 1975). For the other curves all of u is searched. Steps are Levenberg's and
Marquardt's; a coordinate at a bound that its step would cross stays there for that step.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from grpo_dynamics.analysis.curves import EXPONENTIAL, LAW_W0, evaluate

_MOST = 200  # evaluations of a search


@njit(cache=True, error_model="numpy")
def project(shape, y, low, high, fixed_0, fixed_inf, R_0, R_inf):
    """(R_0, R_inf) in [low, high] that minimise |R_0 shape + R_inf (1 - shape) - y|^2; a fixed one stays.

    A convex quadratic in two variables: its minimum over the box is the free one, or lies on one of the four edges.
    """
    aa, ab, bb, ay, by, yy = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(y)):
        a, b = shape[i], 1 - shape[i]
        aa += a * a
        ab += a * b
        bb += b * b
        ay += a * y[i]
        by += b * y[i]
        yy += y[i] * y[i]
    if fixed_0 and fixed_inf:
        return R_0, R_inf
    if fixed_inf:
        return (min(max((ay - ab * R_inf) / aa, low), high) if aa > 0 else R_0), R_inf
    if fixed_0:
        return R_0, (min(max((by - ab * R_0) / bb, low), high) if bb > 0 else R_inf)
    determinant = aa * bb - ab * ab
    if determinant > 1e-14 * aa * bb:
        start, end = (bb * ay - ab * by) / determinant, (aa * by - ab * ay) / determinant
        if low <= start <= high and low <= end <= high:
            return start, end
    best, best_0, best_inf = np.inf, R_0, R_inf
    for edge in (low, high):
        if not math.isfinite(edge):
            continue
        for side in range(2):
            if side == 0:
                start, end = (min(max((ay - ab * edge) / aa, low), high) if aa > 0 else edge), edge
            else:
                start, end = edge, (min(max((by - ab * edge) / bb, low), high) if bb > 0 else edge)
            cost = start * start * aa + 2 * start * end * ab + end * end * bb - 2 * (start * ay + end * by) + yy
            if cost < best:
                best, best_0, best_inf = cost, start, end
    return best_0, best_inf


@njit(cache=True, error_model="numpy")
def _solve(H, g, free, damping):
    """The damped Newton step of the free coordinates, by Gauss and Jordan with pivots; 0 for the others."""
    p = len(g)
    step = np.zeros(p)
    index = np.empty(p, np.int64)
    m = 0
    for j in range(p):
        if free[j] and H[j, j] > 0:
            index[m] = j
            m += 1
    A = np.empty((m, m + 1))
    for r in range(m):
        scale_r = math.sqrt(H[index[r], index[r]])
        for c in range(m):
            A[r, c] = H[index[r], index[c]] / (scale_r * math.sqrt(H[index[c], index[c]]))
        A[r, r] += damping + 1e-15
        A[r, m] = g[index[r]] / scale_r
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            if abs(A[r, c]) > abs(A[pivot, c]):
                pivot = r
        if A[pivot, c] == 0:
            return step
        for j in range(m + 1):
            A[c, j], A[pivot, j] = A[pivot, j], A[c, j]
        for r in range(m):
            if r != c:
                ratio = A[r, c] / A[c, c]
                for j in range(c, m + 1):
                    A[r, j] -= ratio * A[c, j]
    for r in range(m):
        step[index[r]] = A[r, m] / A[r, r] / math.sqrt(H[index[r], index[r]])
    return step


@njit(cache=True, error_model="numpy")
def _evaluate(curve, u, t, width, y, lower, upper, fixed, low, high, value, slope):
    """Evaluate at `u`, with R_0 and R_inf solved for where the curve is linear in them; returns the sum of squares."""
    evaluate(curve, u, t, width, low, high, value, slope)
    n, p = slope.shape
    if curve <= EXPONENTIAL:
        before = u[0] - u[1]
        u[0], u[1] = project(slope[:, 0], y, lower[0], upper[0], fixed[0], fixed[1], u[0], u[1])
        if before == 0:
            evaluate(curve, u, t, width, low, high, value, slope)
        else:
            ratio = (u[0] - u[1]) / before
            for i in range(n):
                value[i] = u[1] + (u[0] - u[1]) * slope[i, 0]
                for j in range(2, p):
                    slope[i, j] *= ratio
    sse = 0.0
    for i in range(n):
        sse += (y[i] - value[i]) ** 2
    return sse


@njit(cache=True, error_model="numpy")
def search(curve, u, t, width, y, lower, upper, fixed, tolerance, low, high, value, slope):
    """Lower the sum of squares from `u`, in place, within lower <= u <= upper; `fixed` coordinates stay.

    Ends when a step lowers the sum of squares by no more than the share `tolerance` and, for a tolerance below 1e-10,
    moves no coordinate by 1e-9. Returns the sum of squares and the number of evaluations; `value` and `slope` are left
    at the result.
    """
    n, p = len(t), len(u)
    for j in range(p):
        u[j] = min(max(u[j], lower[j]), upper[j])
    sse = _evaluate(curve, u, t, width, y, lower, upper, fixed, low, high, value, slope)
    evaluations, damping, free = 1, 1e-3, np.empty(p, np.bool_)
    H, g, trial = np.empty((p, p)), np.empty(p), np.empty(p)
    while evaluations < _MOST:
        for j in range(p):
            g[j] = 0.0
            for k in range(p):
                H[j, k] = 0.0
        for i in range(n):
            residual = y[i] - value[i]
            for j in range(p):
                g[j] += slope[i, j] * residual
                for k in range(j + 1):
                    H[j, k] += slope[i, j] * slope[i, k]
        for j in range(p):
            for k in range(j):
                H[k, j] = H[j, k]
            free[j] = not fixed[j] and not ((u[j] <= lower[j] and g[j] <= 0) or (u[j] >= upper[j] and g[j] >= 0))
        better = False
        while evaluations < _MOST:
            step = _solve(H, g, free, damping)
            for j in range(p):
                trial[j] = min(max(u[j] + step[j], lower[j]), upper[j])
            cost = _evaluate(curve, trial, t, width, y, lower, upper, fixed, low, high, value, slope)
            evaluations += 1
            moved = np.max(np.abs(trial - u))
            if cost <= sse:
                better = True
                break
            if np.sum(g * step) <= 1e-14 * sse or damping > 1e12:  # what the step could gain is rounding
                break
            damping *= 8
        if not better:
            evaluate(curve, u, t, width, low, high, value, slope)
            break
        fell = sse - cost
        sse = cost
        for j in range(p):
            u[j] = trial[j]
        damping = max(damping / 8, 1e-12)
        if fell <= tolerance * sse and (tolerance > 1e-10 or moved < 1e-9):
            break
    return sse, evaluations


@njit(cache=True, error_model="numpy")
def search_all(curve, starts, t, width, y, lower, upper, fixed, low, high):
    """The best of several searches: u, sum of squares, the start's index, evaluations of all searches.

    Of several starts every one is tried coarsely, and the two best are refined.
    """
    count, p = starts.shape
    value, slope = np.empty(len(t)), np.empty((len(t), p))
    tried, costs, evaluations = starts.copy(), np.zeros(count), 0
    for s in range(count if count > 1 else 0):
        costs[s], used = search(curve, tried[s], t, width, y, lower, upper, fixed, 1e-4, low, high, value, slope)
        evaluations += used
    order = np.argsort(costs)
    best, best_cost, best_start = tried[order[0]].copy(), np.inf, order[0]
    for s in order[:2]:
        cost, used = search(curve, tried[s], t, width, y, lower, upper, fixed, 1e-13, low, high, value, slope)
        evaluations += used
        if cost < best_cost:
            best, best_cost, best_start = tried[s].copy(), cost, s
    return best, best_cost, best_start, evaluations


@njit(cache=True, error_model="numpy")
def refit(curve, u, t, width, series, lower, upper, low, high):
    """Fits of many series (B, n) from one start; returns (B, p) results."""
    count, p = len(series), len(u)
    value, slope, fixed = np.empty(len(t)), np.empty((len(t), p)), np.zeros(p, np.bool_)
    found = np.empty((count, p))
    for b in range(count):
        found[b] = u
        search(curve, found[b], t, width, series[b], lower, upper, fixed, 1e-7, low, high, value, slope)
    return found


@njit(cache=True, error_model="numpy")
def profile_end(curve, at, u, sse, ceiling, step, t, width, y, lower, upper, low, high):
    """Where the smallest sum of squares at a fixed coordinate `at` passes `ceiling`, on the side of the sign of `step`.

    Infinite where it does not up to the coordinate's bound, or where another coordinate would have to pass its own
    upper bound in log zeta (the law's limit, in which w0 and zeta grow together).
    """
    p = len(u)
    value, slope, fixed = np.empty(len(t)), np.empty((len(t), p)), np.zeros(p, np.bool_)
    fixed[at] = True
    edge = upper[at] if step > 0 else lower[at]
    inside, cost_inside = u[at], sse
    v, last = u.copy(), u.copy()
    for _ in range(60):
        beyond = inside + step
        ended = (beyond >= edge) if step > 0 else (beyond <= edge)
        if ended:
            beyond = edge
        v[:] = last
        v[at] = beyond
        cost, _ = search(curve, v, t, width, y, lower, upper, fixed, 1e-9, low, high, value, slope)
        if cost > ceiling:
            break
        if ended or (curve == LAW_W0 and v[3] >= upper[3]):
            return math.copysign(np.inf, step)
        inside, cost_inside, step = beyond, cost, 1.6 * step
        last[:] = v
    outside, cost_outside = beyond, cost
    for i in range(40):
        # The root of the sum of squares is nearly linear in the coordinate; every third step halves instead.
        low_root, high_root = math.sqrt(max(cost_inside - sse, 0.0)), math.sqrt(cost_outside - sse)
        share = (math.sqrt(ceiling - sse) - low_root) / (high_root - low_root) if i % 3 < 2 else 0.5
        middle = inside + min(max(share, 0.05), 0.95) * (outside - inside)
        v[:] = last
        v[at] = middle
        cost, _ = search(curve, v, t, width, y, lower, upper, fixed, 1e-9, low, high, value, slope)
        if cost > ceiling:
            outside, cost_outside = middle, cost
        else:
            inside, cost_inside = middle, cost
            last[:] = v
        if abs(outside - inside) < 1e-5:
            break
    return math.copysign(np.inf, step) if curve == LAW_W0 and last[3] >= upper[3] else inside
