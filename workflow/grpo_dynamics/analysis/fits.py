"""Fits of the three-phase law and of the single exponential to a reward series.

    law          R(t) = R_inf + (R_0 - R_inf) phi(t; w0, zeta)         theory.md section 2, Proposition 14
    exponential  R(t) = R_inf + (R_0 - R_inf) exp(-k t)                its limit zeta -> inf at k = w0 / (2 zeta)

Variable projection: R_0 and R_inf enter linearly and are solved in closed form for every (w0, zeta), kept within the
reward's range; scipy's least_squares (trust region, Jacobian by central differences) searches the two others. The
search runs over log k = log(w0 / (2 zeta)) and log zeta, in which an overdamped series fixes the one and leaves the
other open, instead of a narrow valley in (log w0, log zeta).
Bounds: R_0, R_inf in the reward's range; k from 0.1 / duration to 10 / sampling interval; zeta from 0.05 to 50.
At zeta = 50 the law differs from the exponential by less than 0.0003 of the rise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import least_squares

from grpo_dynamics.theory.law import exponential, phi, phi_derivatives, three_phase

ZETA_BOUNDS = (0.05, 50.0)
START_ZETA = (0.3, 0.8, 1.5, 5.0)
START_RATE = (0.5, 2.0, 5.0, 15.0)  # times 1 / duration
_AT_BOUND = 1e-4  # distance to a bound, in the parameter or its logarithm


@dataclass(frozen=True)
class Fit:
    """A fitted curve.

    `estimates` and `se` map parameter names to estimates and standard errors (NaN at a bound or when the Jacobian is
    singular); `at_bound` names the parameters that ended at a bound; `sse` is the residual sum of squares;
    `evaluations` counts evaluations of the residuals over all starts; `start` gives the best search's start.
    """

    estimates: dict[str, float]
    se: dict[str, float]
    sse: float
    fitted: np.ndarray
    evaluations: int
    start: str
    at_bound: tuple[str, ...] = ()
    autocorrelation: float = field(default=float("nan"))


def project(shape: np.ndarray, y: np.ndarray, limits: tuple[float, float]) -> tuple[float, float]:
    """(R_0, R_inf) within `limits` that minimise |R_0 shape + R_inf (1 - shape) - y|^2, exactly.

    Parameters
    ----------
    shape, y : (n,) arrays
        phi(t) and the reward.
    limits : (low, high)
        Range of the reward; use infinities for none.

    Notes
    -----
    A convex quadratic in two variables: its minimum over the box is the free one, or lies on one of the four edges.
    """
    a, b = shape, 1 - shape
    aa, ab, bb, ay, by = a @ a, a @ b, b @ b, a @ y, b @ y
    determinant = aa * bb - ab * ab
    low, high = limits
    if determinant > 1e-14 * max(aa * bb, 1e-300):
        start = (bb * ay - ab * by) / determinant
        end = (aa * by - ab * ay) / determinant
        if low <= start <= high and low <= end <= high:
            return start, end
    edges = []
    for edge in (value for value in limits if np.isfinite(value)):
        if aa > 0:
            edges.append((float(np.clip((ay - ab * edge) / aa, low, high)), edge))
        if bb > 0:
            edges.append((edge, float(np.clip((by - ab * edge) / bb, low, high))))
    if not edges:
        solution = np.linalg.lstsq(np.stack([a, b], axis=1), y, rcond=None)[0]
        return float(solution[0]), float(solution[1])
    return min(edges, key=lambda pair: float(np.sum((pair[0] * a + pair[1] * b - y) ** 2)))


def lag1(residuals: np.ndarray) -> float:
    """Lag-1 autocorrelation of residuals; 0 for residuals that are all zero."""
    total = float(residuals @ residuals)
    return float(residuals[1:] @ residuals[:-1]) / total if total > 0 else 0.0


def inflation(autocorrelation: float) -> float:
    """Points per independent point, (1 + r) / (1 - r) for a first-order process; 1 for r <= 0."""
    r = min(max(autocorrelation, 0.0), 0.99)
    return (1 + r) / (1 - r)


def rate_bounds(t: np.ndarray) -> tuple[float, float]:
    """Bounds of k, 1/step: from a tenth of 1 / duration to ten times 1 / sampling interval."""
    return 0.1 / float(t[-1] - t[0]), 10.0 / float(np.median(np.diff(t)))


def _curve(t: np.ndarray, values: dict[str, float]) -> np.ndarray:
    function = three_phase if "w0" in values else exponential
    return function(t, **values)


def _sensitivity(t: np.ndarray, values: dict[str, float]) -> dict[str, np.ndarray]:
    """Derivative of the curve with respect to each parameter."""
    rise = values["R_0"] - values["R_inf"]
    if "w0" in values:
        shape = phi(t, values["w0"], values["zeta"])
        by_w0, by_zeta = phi_derivatives(t, values["w0"], values["zeta"])
        return {"R_0": shape, "R_inf": 1 - shape, "w0": rise * by_w0, "zeta": rise * by_zeta}
    shape = np.exp(-values["k"] * t)
    return {"R_0": shape, "R_inf": 1 - shape, "k": -rise * t * shape}


def _standard_errors(
    t: np.ndarray, values: dict[str, float], at_bound: tuple[str, ...], residuals: np.ndarray
) -> dict[str, float]:
    """From the Jacobian in all parameters that are not at a bound, widened for the residuals' autocorrelation."""
    errors = dict.fromkeys(values, float("nan"))
    free = [name for name in values if name not in at_bound]
    dof = len(t) - len(values)
    if dof < 1 or not free:
        return errors
    jacobian = np.stack([_sensitivity(t, values)[name] for name in free], axis=1)
    scale = np.linalg.norm(jacobian, axis=0)
    if not (np.all(np.isfinite(scale)) and np.all(scale > 0)):
        return errors
    scaled = jacobian / scale
    if np.linalg.cond(scaled) > 1e7:
        return errors
    covariance = np.linalg.inv(scaled.T @ scaled) / np.outer(scale, scale)
    variance = float(residuals @ residuals) / dof * inflation(lag1(residuals))
    return errors | dict(zip(free, np.sqrt(np.diag(covariance) * variance), strict=True))


def _finish(t, y, values, limits, searched, evaluations, start) -> Fit:
    """`searched` maps the names of the searched parameters to (value, low, high), all in logarithms."""
    at_bound = [name for name, (x, low, high) in searched.items() if min(x - low, high - x) < _AT_BOUND]
    at_bound += [name for name in ("R_0", "R_inf") if min(abs(values[name] - limit) for limit in limits) < _AT_BOUND]
    stuck = tuple(at_bound)
    # w0 = 2 k zeta: it has no error of its own when either of the two that were searched is stuck.
    stuck_values = (*stuck, "w0") if "w0" in values and {"k", "zeta"} & set(stuck) else stuck
    fitted = _curve(t, values)
    residuals = y - fitted
    return Fit(
        estimates=values,
        se=_standard_errors(t, values, stuck_values, residuals),
        sse=float(residuals @ residuals),
        fitted=fitted,
        evaluations=evaluations,
        start=start,
        at_bound=stuck,
        autocorrelation=lag1(residuals),
    )


def _search(residuals: Callable, starts: list[list[float]], low: list[float], high: list[float]):
    """The best of several least-squares searches, its start, and all evaluations of the residuals.

    Every start is first tried coarsely, and the two best are refined.
    """
    evaluations = 0

    def counted(x: np.ndarray) -> np.ndarray:
        nonlocal evaluations
        evaluations += 1
        return residuals(x)

    def search(x, tolerance: float, most: int | None):
        inside = np.clip(x, np.array(low) + 1e-6, np.array(high) - 1e-6)
        return least_squares(
            counted,
            inside,
            jac="3-point",
            bounds=(low, high),
            xtol=tolerance,
            ftol=tolerance,
            gtol=tolerance,
            max_nfev=most,
        )

    coarse = sorted(((search(x, 1e-6, 8), x) for x in starts), key=lambda pair: pair[0].cost)[:2]
    best, start = min(((search(r.x, 1e-14, 200), x) for r, x in coarse), key=lambda pair: pair[0].cost)
    return best, start, evaluations


def check_series(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Time and reward as arrays of floats; raises ValueError unless they are finite and in order of time."""
    t, y = np.asarray(t, float), np.asarray(y, float)
    if t.shape != y.shape or t.ndim != 1 or len(t) < 5:
        raise ValueError(f"fit: found time and reward of shapes {t.shape} and {y.shape}, expected two of at least 5")
    if not (np.all(np.isfinite(t)) and np.all(np.isfinite(y)) and np.all(np.diff(t) > 0)):
        raise ValueError("fit: found empty values or times that do not grow, expected finite rewards in order of time")
    return t, y


def fit_law(t: np.ndarray, y: np.ndarray, limits: tuple[float, float] = (0.0, 1.0)) -> Fit:
    """Fit the three-phase law.

    Parameters
    ----------
    t, y : (n,) arrays
        Time in optimiser steps, increasing, and the reward there, as logged (not smoothed).
    limits : (low, high)
        Range of the reward, which bounds R_0 and R_inf.

    Returns
    -------
    Fit
        With R_0, R_inf, w0 (1/step) and zeta.
    """
    t, y = check_series(t, y)
    k_low, k_high = rate_bounds(t)
    low, high = np.log([k_low, ZETA_BOUNDS[0]]), np.log([k_high, ZETA_BOUNDS[1]])

    def shape(x: np.ndarray) -> np.ndarray:
        k, zeta = np.exp(x)
        return phi(t, 2 * k * zeta, zeta)

    def residuals(x: np.ndarray) -> np.ndarray:
        s = shape(x)
        start, end = project(s, y, limits)
        return start * s + end * (1 - s) - y

    duration = t[-1] - t[0]
    starts = [
        # Below zeta = 1 the time scale is 1 / w0 = 1 / (2 zeta k), so that k is scaled to keep it.
        list(np.log([rate / duration / min(1.0, 2 * zeta), zeta]))
        for zeta in START_ZETA
        for rate in START_RATE
    ]
    best, start, evaluations = _search(residuals, starts, list(low), list(high))
    k, zeta = np.exp(best.x)
    R_0, R_inf = project(shape(best.x), y, limits)
    values = {"R_0": float(R_0), "R_inf": float(R_inf), "w0": float(2 * k * zeta), "zeta": float(zeta)}
    searched = {"k": (best.x[0], low[0], high[0]), "zeta": (best.x[1], low[1], high[1])}
    k_start, zeta_start = np.exp(start)
    label = f"w0={2 * k_start * zeta_start:.3g} zeta={zeta_start:.3g}"
    return _finish(t, y, values, limits, searched, evaluations, label)


def fit_exponential(t: np.ndarray, y: np.ndarray, limits: tuple[float, float] = (0.0, 1.0)) -> Fit:
    """Fit the single exponential: as `fit_law`, with R_0, R_inf and k (1/step)."""
    t, y = check_series(t, y)
    low, high = np.log(rate_bounds(t))

    def residuals(x: np.ndarray) -> np.ndarray:
        s = np.exp(-np.exp(x[0]) * t)
        start, end = project(s, y, limits)
        return start * s + end * (1 - s) - y

    duration = t[-1] - t[0]
    starts = [[float(np.log(rate / duration))] for rate in START_RATE]
    best, start, evaluations = _search(residuals, starts, [low], [high])
    k = float(np.exp(best.x[0]))
    R_0, R_inf = project(np.exp(-k * t), y, limits)
    values = {"R_0": float(R_0), "R_inf": float(R_inf), "k": k}
    return _finish(t, y, values, limits, {"k": (best.x[0], low, high)}, evaluations, f"k={np.exp(start[0]):.3g}")
