"""Compiled kernels of the fits: curves with their derivatives, the search for the smallest sum of squares, profiles.

All stand in one file, since Numba's cache looks for changes in the file of a function alone, and not in those that it
calls in other files.

The search's coordinates u, and the curves:

    LAW          u = (R_0, R_inf, log k, log zeta), k = w0 / (2 zeta), in which an overdamped series fixes k and leaves
                 zeta open, instead of a narrow valley in (log w0, log zeta)
    LAW_W0       u = (R_0, R_inf, log w0, log zeta): the same curve, for the profile of w0
    EXPONENTIAL, LOGISTIC, GOMPERTZ, CEILING  u = (R_0, R_inf, log k)
    FLOW         u = (R_0, beta, log k)

They agree with those of the package theory to rounding, the flow to 1e-6 (a test), and are repeated here because a
bootstrap evaluates them 10^8 times.

For the law and the exponential the curve is linear in R_0 and R_inf, R(t) = R_inf + (R_0 - R_inf) s(t; x): the search
is over x alone, with R_0 and R_inf solved in closed form at every x within the reward's range (variable projection; the
step in x is that of the Jacobian projected on the complement of the linear part, Kaufman 1975). For the other curves
all of u is searched. Steps are Levenberg's and Marquardt's; a coordinate at a bound that its step would cross stays
there for that step.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

LAW, LAW_W0, EXPONENTIAL, LOGISTIC, GOMPERTZ, CEILING, FLOW = range(7)
_FLOW_STEP = 0.5  # largest step of the flow in units of 1 / (k (1 + beta / 2))
_MOST = 200  # evaluations of a search
_SERIES = np.array([(2 * k + 2) / math.factorial(2 * k + 3) for k in range(10)])


@njit(cache=True, error_model="numpy")
def _law(t, w0, zeta):
    """phi and its derivatives by log w0 and by zeta, as in theory.law."""
    tau = w0 * t
    root = math.sqrt(abs((1 - zeta) * (1 + zeta)))
    x = root * tau
    if zeta > 1:
        decay = math.exp(-tau / (zeta + root))
        fallen = math.expm1(-2 * x)  # e^(-2x) - 1
        cosine = 1 + fallen / 2
        sinc = -fallen / (2 * x) if x > 0 else 1.0
        sign, scale = 1.0, math.exp(-x) if x < 1 else 0.0  # which only the series below needs
    else:
        decay = math.exp(-zeta * tau)
        cosine = math.cos(x)
        sinc = math.sin(x) / x if x > 0 else 1.0
        sign, scale = -1.0, 1.0
    if x < 1:
        y = sign * x * x
        bend = 0.0
        for coefficient in _SERIES[::-1]:
            bend = bend * y + coefficient
        bend *= scale
    else:
        bend = sign * (cosine - sinc) / (x * x)
    sine = decay * tau * sinc
    return decay * cosine + zeta * sine, -tau * sine, decay * tau * tau * tau * bend


@njit(cache=True, error_model="numpy")
def _flow_slope(theta, start, beta):
    """d theta / d(k t) of the flow, and its derivatives by theta, start and beta."""
    if theta > 0:
        small = math.exp(-theta)
        p, q = 1 / (1 + small), small / (1 + small)
    else:
        small = math.exp(theta)
        p, q = small / (1 + small), 1 / (1 + small)
    spread, away = p * q, theta - start
    push = math.sqrt(spread)
    slope = push - beta * spread * away
    by_theta = 0.5 * push * (q - p) - beta * spread * ((q - p) * away + 1)
    return slope, by_theta, beta * spread, -spread * away


@njit(cache=True, error_model="numpy")
def _flow_derivatives(state, start, beta, out):
    """Of theta, d theta / d start and d theta / d beta along the flow."""
    slope, by_theta, by_start, by_beta = _flow_slope(state[0], start, beta)
    out[0] = slope
    out[1] = by_theta * state[1] + by_start
    out[2] = by_theta * state[2] + by_beta


@njit(cache=True, error_model="numpy")
def _flow(R_0, beta, k, t, width, value, slope):
    """The flow at all rows, and its derivatives by R_0, beta and log k.

    Classical Runge and Kutta from row to row, with the variational equations.
    """
    start = math.log(R_0 / (1 - R_0))
    state, trial = np.array([start, 1.0, 0.0]), np.empty(3)
    a, b, c, d = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    at = 0.0
    for i in range(len(t)):
        value[i] = 0.0
        for j in range(3):
            slope[i, j] = 0.0
        for back in range(width[i] - 1, -1, -1):
            time = t[i] - back
            way = k * (time - at)
            steps = max(1, math.ceil(way * (1 + beta / 2) / _FLOW_STEP)) if way > 0 else 0
            h = way / steps if steps else 0.0
            for _ in range(steps):
                _flow_derivatives(state, start, beta, a)
                for j in range(3):
                    trial[j] = state[j] + h / 2 * a[j]
                _flow_derivatives(trial, start, beta, b)
                for j in range(3):
                    trial[j] = state[j] + h / 2 * b[j]
                _flow_derivatives(trial, start, beta, c)
                for j in range(3):
                    trial[j] = state[j] + h * c[j]
                _flow_derivatives(trial, start, beta, d)
                for j in range(3):
                    state[j] += h / 6 * (a[j] + 2 * b[j] + 2 * c[j] + d[j])
            at = time
            p = 1 / (1 + math.exp(-state[0]))
            by_theta = p * (1 - p) / width[i]
            value[i] += p / width[i]
            slope[i, 0] += by_theta * state[1] / (R_0 * (1 - R_0))
            slope[i, 1] += by_theta * state[2]
            slope[i, 2] += by_theta * _flow_slope(state[0], start, beta)[0] * k * time


@njit(cache=True, error_model="numpy")
def evaluate(curve, u, t, width, low, high, value, slope):
    """Fill `value` (n,) with the curve and `slope` (n, p) with its derivatives by u.

    Row i is the mean over the `width[i]` steps that end at t[i]. Growth curves and flows live in (low, high).
    """
    n = len(t)
    if curve == FLOW:
        _flow((u[0] - low) / (high - low), u[1], math.exp(u[2]), t, width, value, slope)
        for i in range(n):
            value[i] = low + (high - low) * value[i]
            slope[i, 1] *= high - low
            slope[i, 2] *= high - low
        return
    rise = u[0] - u[1]
    rate = math.exp(u[2])
    zeta = math.exp(u[3]) if curve <= LAW_W0 else 1.0
    for i in range(n):
        s, s2, s3 = 0.0, 0.0, 0.0
        for back in range(width[i]):
            time = t[i] - back
            if curve == LAW:
                phi, by_w0, by_zeta = _law(time, 2 * rate * zeta, zeta)
                s += phi
                s2 += by_w0
                s3 += by_w0 + zeta * by_zeta
            elif curve == LAW_W0:
                phi, by_w0, by_zeta = _law(time, rate, zeta)
                s += phi
                s2 += by_w0
                s3 += zeta * by_zeta
            elif curve == EXPONENTIAL:
                decay = math.exp(-rate * time)
                s += decay
                s2 -= rate * time * decay
            else:
                decay = math.exp(-rate * time)
                start, end = u[0] - low, u[1] - low
                if curve == CEILING:
                    # p = start/end; dS/dp = 1 / (4 (p (1-p))^1.5), dR/dS = end / (2 (1 + S^2)^1.5)
                    p = start / end
                    spread = math.sqrt(p * (1 - p))
                    S = (2 * p - 1) / (2 * spread) + rate * time / 4
                    root = math.sqrt(1 + S * S)
                    x = end * (1 + S / root) / 2
                    by_S = end / (2 * root * root * root)
                    by_p = by_S / (4 * spread * spread * spread)
                    value_by_rate = by_S * rate * time / 4
                    s += x
                    s2 += by_p / end
                    s3 += x / end - by_p * p / end
                elif curve == LOGISTIC:
                    below = 1 + (end / start - 1) * decay
                    x = end / below
                    value_by_rate = x / below * (end / start - 1) * decay * rate * time
                    s += x
                    s2 += x / below * decay * end / (start * start)
                    s3 += x / end - x / below * decay / start
                else:
                    x = end * math.exp(math.log(start / end) * decay)
                    value_by_rate = -x * math.log(start / end) * decay * rate * time
                    s += x
                    s2 += x * decay / start
                    s3 += x * (1 - decay) / end
                slope[i, 2] = value_by_rate / width[i] + (slope[i, 2] if back else 0.0)
        w = width[i]
        if curve <= EXPONENTIAL:
            s /= w
            value[i] = u[1] + rise * s
            slope[i, 0] = s
            slope[i, 1] = 1 - s
            slope[i, 2] = rise * s2 / w
            if curve <= LAW_W0:
                slope[i, 3] = rise * s3 / w
        else:
            value[i] = low + s / w
            slope[i, 0] = s2 / w
            slope[i, 1] = s3 / w


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
