"""Profile interval of the damping ratio."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.optimize import minimize_scalar

from grpo_dynamics.analysis.fits import ZETA_BOUNDS, Fit, check_series, inflation, project, rate_bounds
from grpo_dynamics.theory.law import phi


def zeta_interval(
    t: np.ndarray, y: np.ndarray, fit: Fit, level: float, limits: tuple[float, float] = (0.0, 1.0)
) -> tuple[float, float]:
    """Profile interval of the damping ratio.

    All zeta whose best fit has a residual sum of squares within the F quantile of the smallest, with the number of
    independent points that the residuals' autocorrelation leaves. (0, inf) stands for ends that the bounds of the
    search, and not the data, would set. Unlike an interval from the Jacobian it is right for an overdamped series,
    where the sum of squares levels off as zeta grows.
    """
    t, y = check_series(t, y)
    grid = np.exp(np.linspace(*np.log(ZETA_BOUNDS), 49))
    k_low, k_high = rate_bounds(t)
    rates = np.exp(np.linspace(np.log(k_low), np.log(k_high), 25))

    def sse(shape: np.ndarray) -> float:
        start, end = project(shape, y, limits)
        return float(np.sum((start * shape + end * (1 - shape) - y) ** 2))

    def profile(zeta: float) -> float:
        costs = [sse(shape) for shape in phi(t, 2 * rates[:, None] * zeta, zeta)]
        best = int(np.argmin(costs))
        ends = np.log([rates[max(best - 1, 0)], rates[min(best + 1, len(rates) - 1)]])
        found = minimize_scalar(
            lambda x: sse(phi(t, 2 * np.exp(x) * zeta, zeta)), bounds=ends, method="bounded", options={"xatol": 1e-5}
        )
        return min(costs[best], float(found.fun))

    dof = max(len(t) / inflation(fit.autocorrelation) - 4, 1.0)
    ceiling = fit.sse * (1 + stats.f.ppf(level, 1, dof) / dof) + 1e-15
    inside = np.array([profile(zeta) <= ceiling for zeta in grid])
    if not inside.any():  # narrower than the grid's spacing
        nearest = int(np.argmin(np.abs(np.log(grid / fit.estimates["zeta"]))))
        return float(grid[max(nearest - 1, 0)]), float(grid[min(nearest + 1, len(grid) - 1)])
    first, last = int(np.argmax(inside)), len(grid) - 1 - int(np.argmax(inside[::-1]))
    low = 0.0 if first == 0 else _crossing(profile, grid[first - 1], grid[first], ceiling)
    high = np.inf if last == len(grid) - 1 else _crossing(profile, grid[last + 1], grid[last], ceiling)
    return float(low), float(high)


def _crossing(profile: Callable[[float], float], outside: float, inside: float, ceiling: float) -> float:
    """Where the profile passes the ceiling, by bisection in log zeta."""
    for _ in range(12):
        middle = float(np.sqrt(outside * inside))
        outside, inside = (outside, middle) if profile(middle) <= ceiling else (middle, inside)
    return float(inside)
