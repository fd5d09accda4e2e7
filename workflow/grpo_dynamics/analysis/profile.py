"""Profile intervals of the law's parameters."""

from __future__ import annotations

import numpy as np
from scipy import stats

from grpo_dynamics.analysis import kernels
from grpo_dynamics.analysis.fits import Fit
from grpo_dynamics.analysis.noise import covariance
from grpo_dynamics.analysis.problem import AT_BOUND

_REFERENCE = 2.0  # zeta
_COORDINATES = {"R_0": 0, "R_inf": 1, "w0": 2, "zeta": 3}


def noise_of(fit: Fit, name: str) -> tuple[float, float]:
    """Widening of a coordinate's variance by the noise, and the independent points that carry it; NaN for neither.

    For zeta above _REFERENCE they are taken there: far above it, only the first steps feel zeta, but whether the data
    admit a smaller one is decided by the whole slow start. For R_0 or R_inf at a bound they are those of the Jacobian
    with it, for the side on which it is free.

    Parameters
    ----------
    fit : Fit
        Of the curve law.
    name : str
        R_0, R_inf or zeta.
    """
    p, u = fit.problem, fit.u
    far = fit.estimates["zeta"] > _REFERENCE
    if not (name == "zeta" and far) and name not in fit.at_bound:
        return fit.widening[name], fit.points[name]
    value, slope = np.empty(len(p.t)), np.empty((len(p.t), 4))
    if name == "zeta" and far:
        u, fixed = fit.u.copy(), np.array([False, False, False, True])
        u[3] = np.log(_REFERENCE)
        kernels.search(p.code, u, p.t, p.width, p.y, p.lower, p.upper, fixed, 1e-9, *p.limits, value, slope)
    else:
        kernels.evaluate(p.code, u, p.t, p.width, *p.limits, value, slope)
    at = p.names.index(name)
    free = [j for j in range(4) if j == at or p.lower[j] + AT_BOUND < u[j] < p.upper[j] - AT_BOUND]
    norms = np.linalg.norm(slope[:, free], axis=0)
    if not (np.all(np.isfinite(norms)) and np.all(norms > 0)):
        return float("nan"), float("nan")
    jacobian = slope[:, free] / norms
    if np.linalg.cond(jacobian) > 1e7:
        return float("nan"), float("nan")
    found, points, _ = covariance(jacobian, fit.residuals)
    place = free.index(at)
    plain = np.linalg.inv(jacobian.T @ jacobian)[place, place] * fit.sse / (len(p.t) - len(u))
    return (float(found[place, place] / plain) if plain > 0 else 1.0), float(points[place])


def profile_interval(fit: Fit, name: str, level: float) -> tuple[float, float]:
    """Profile interval of a parameter of the law.

    All values whose best fit has a residual sum of squares within the F quantile of the smallest, with the number of
    independent points that the residuals' autocorrelation leaves. Unlike an interval from the Jacobian it is right for
    an overdamped series, where the sum of squares levels off as zeta grows. w0 takes the noise of zeta, which leaves it
    open.

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
    widening, dof = noise_of(fit, "zeta" if name == "w0" else name)
    if not min(dof, fit.n_effective - len(fit.u)) >= 1:
        return float("nan"), float("nan")
    quantile = stats.f.ppf(level, 1, min(dof, fit.n_effective - len(fit.u)))
    ceiling = fit.sse * (1 + widening * quantile / (len(p.t) - len(fit.u))) + 1e-15
    code, u, lower, upper = p.code, fit.u, p.lower.copy(), p.upper.copy()
    if name == "w0":  # log w0 = log 2 + log k + log zeta
        code, u = kernels.LAW_W0, fit.u.copy()
        u[2] += np.log(2) + u[3]
        lower[2] += np.log(2) + lower[3]
        upper[2] += np.log(2) + upper[3]
    error = fit.se[name]
    if at >= 2:
        error = error / fit.estimates[name]
    step = error if np.isfinite(error) and error > 0 else 0.1 if at >= 2 else 0.01
    ends = [
        kernels.profile_end(code, at, u, fit.sse, ceiling, side * step, p.t, p.width, p.y, lower, upper, *p.limits)
        for side in (-1.0, 1.0)
    ]
    if at < 2:
        return float(max(ends[0], p.limits[0])), float(min(ends[1], p.limits[1]))
    return float(np.exp(ends[0])), float(np.exp(ends[1]))
