"""Compiled curves of the fits with their derivatives by the search's coordinates u.

    LAW          u = (R_0, R_inf, log k, log zeta), k = w0 / (2 zeta), in which an overdamped series fixes k and leaves
                 zeta open, instead of a narrow valley in (log w0, log zeta)
    LAW_W0       u = (R_0, R_inf, log w0, log zeta): the same curve, for the profile of w0
    EXPONENTIAL, LOGISTIC, GOMPERTZ, CEILING  u = (R_0, R_inf, log k)
    FLOW         u = (R_0, beta, log k)

They agree with those of the package theory to rounding, the flow to 1e-7 (a test), and are repeated here because a
bootstrap evaluates them 10^8 times.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

LAW, LAW_W0, EXPONENTIAL, LOGISTIC, GOMPERTZ, CEILING, FLOW = range(7)
_FLOW_STEP = 0.5  # largest step of the flow in units of 1 / k
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
            steps = max(1, math.ceil(way / _FLOW_STEP)) if way > 0 else 0
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
