"""Profile intervals of the law's parameters."""

from __future__ import annotations

import numpy as np
from scipy import stats

from grpo_dynamics.analysis import curves
from grpo_dynamics.analysis.fits import Fit
from grpo_dynamics.analysis.noise import covariance
from grpo_dynamics.analysis.search import profile_end, search

_REFERENCE = 2.0  # zeta
_COORDINATES = {"R_0": 0, "R_inf": 1, "w0": 2, "zeta": 3}


def _noise(fit: Fit, name: str) -> tuple[float, float]:
    """Widening of a coordinate's variance by the noise, and the independent points that carry it.

    For zeta above _REFERENCE they are taken there: far above it, only the first steps feel zeta, but whether the data
    admit a smaller one is decided by the whole slow start.
    """
    p = fit.problem
    if name != "zeta" or fit.estimates["zeta"] <= _REFERENCE:
        return fit.widening[name], fit.points[name]
    u, fixed = fit.u.copy(), np.array([False, False, False, True])
    u[3] = np.log(_REFERENCE)
    value, slope = np.empty(len(p.t)), np.empty((len(p.t), 4))
    search(p.code, u, p.t, p.width, p.y, p.lower, p.upper, fixed, 1e-9, *p.limits, value, slope)
    free = [j for j in range(4) if p.lower[j] < u[j] < p.upper[j]]
    jacobian = slope[:, free] / np.linalg.norm(slope[:, free], axis=0)
    if 3 not in free or np.linalg.cond(jacobian) > 1e7:
        return float("nan"), float("nan")
    found, points, _ = covariance(jacobian, fit.residuals)
    plain = np.linalg.inv(jacobian.T @ jacobian)[-1, -1] * fit.sse / (len(p.t) - len(u))
    return (float(found[-1, -1] / plain) if plain > 0 else 1.0), float(points[-1])


def profile_interval(fit: Fit, name: str, level: float) -> tuple[float, float]:
    """Profile interval of a parameter of the law.

    All values whose best fit has a residual sum of squares within the F quantile of the smallest, with the number of
    independent points that the residuals' autocorrelation leaves. Unlike an interval from the Jacobian it is right for
    an overdamped series, where the sum of squares levels off as zeta grows.

    Parameters
    ----------
    fit : Fit
        Of the curve law.
    name : str
        R_0, R_inf, w0 or zeta.
    level : float
        Such as 0.95.

    Returns
    -------
    low, high : float
        The reward's range ends an interval of R_0 or R_inf; 0 and inf stand for ends of w0 and zeta that the search's
        bounds, and not the data, would set. NaN where no independent point carries the parameter.
    """
    p, at = fit.problem, _COORDINATES[name]
    widening, dof = _noise(fit, "zeta" if name == "w0" else name)
    if not min(dof, fit.n_effective - len(fit.u)) >= 1:
        return float("nan"), float("nan")
    quantile = stats.f.ppf(level, 1, min(dof, fit.n_effective - len(fit.u)))
    ceiling = fit.sse * (1 + widening * quantile / (len(p.t) - len(fit.u))) + 1e-15
    code, u, lower, upper = p.code, fit.u, p.lower.copy(), p.upper.copy()
    if name == "w0":  # log w0 = log 2 + log k + log zeta
        code, u = curves.LAW_W0, fit.u.copy()
        u[2] += np.log(2) + u[3]
        lower[2] += np.log(2) + lower[3]
        upper[2] += np.log(2) + upper[3]
    error = fit.se[name]
    if at >= 2:
        error = error / fit.estimates[name]
    step = error if np.isfinite(error) and error > 0 else 0.1 if at >= 2 else 0.01
    ends = [
        profile_end(code, at, u, fit.sse, ceiling, side * step, p.t, p.width, p.y, lower, upper, *p.limits)
        for side in (-1.0, 1.0)
    ]
    if at < 2:
        return float(max(ends[0], p.limits[0])), float(min(ends[1], p.limits[1]))
    return float(np.exp(ends[0])), float(np.exp(ends[1]))
