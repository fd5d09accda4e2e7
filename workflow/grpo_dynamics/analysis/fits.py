"""Fits of the three-phase law and of its rivals to a reward series.

    law             R(t) = R_inf + (R_0 - R_inf) phi(t; w0, zeta)      theory, section 2, Proposition 14
    law_overdamped  the same with zeta >= 1, as the theory expects of a stable run at a small step
    exponential     R(t) = R_inf + (R_0 - R_inf) exp(-k t)             its limit zeta -> inf at k = w0 / (2 zeta)
    logistic, gompertz, flow, flow_ceiling                             theory.rivals

Law and exponential are fitted by variable projection, the others in all three parameters, all with analytic Jacobians,
from several starts and within bounds (analysis.kernels). Bounds: R_0 and R_inf in the reward's range; k from 0.1 /
duration to 10 / sampling interval; zeta from 0.05 to 50; the flow's beta from 0 to 20. At zeta = 50 the law differs
from the exponential by less than 0.0003 of the rise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from grpo_dynamics.analysis import kernels
from grpo_dynamics.analysis.noise import covariance, lag1
from grpo_dynamics.analysis.problem import AT_BOUND, Problem, coordinates, curve, named, problem, starts


@dataclass(frozen=True)
class Fit:
    """A fitted curve.

    Attributes
    ----------
    problem : Problem
    u : ndarray
        The result in the search's coordinates.
    estimates, se : dict
        Parameters by name, and their standard errors (NaN at a bound or when the Jacobian is singular) under the
        residuals' noise (analysis.noise).
    widening : dict
        By coordinate, the variance of the estimate over that under independent noise of one size.
    points : dict
        By coordinate, the independent points that carry the estimate.
    fitted : (n,) ndarray
        The curve at the rows.
    sse : float
        Residual sum of squares.
    n_effective : float
        Independent points that the residuals' autocorrelation leaves.
    evaluations : int
        Of the curve, all starts together.
    start : str
        Start values of the best search.
    at_bound : tuple of str
        Parameters that ended at a bound.
    """

    problem: Problem
    u: np.ndarray
    estimates: dict[str, float]
    se: dict[str, float]
    widening: dict[str, float]
    points: dict[str, float]
    fitted: np.ndarray
    sse: float
    n_effective: float
    evaluations: int
    start: str
    at_bound: tuple[str, ...]

    @property
    def residuals(self) -> np.ndarray:
        return self.problem.y - self.fitted

    @property
    def autocorrelation(self) -> float:
        return lag1(self.residuals)

    def curve(self, t: ArrayLike) -> np.ndarray:
        """The fitted curve at times `t`, in steps."""
        return curve(self.problem.curve, t, self.estimates, self.problem.limits)


def _uncertainty(
    p: Problem, values: dict[str, float], slope: np.ndarray, stuck: tuple[str, ...], residuals: np.ndarray
) -> tuple[dict[str, float], dict[str, float], dict[str, float], float]:
    """Standard errors by name, widening and carrying points by coordinate, and independent points.

    From the Jacobian in the coordinates that are not at a bound; the widening is the variance of an estimate over
    that under independent noise of one size.
    """
    errors, widening = dict.fromkeys(values, float("nan")), dict.fromkeys(p.names, float("nan"))
    points = dict.fromkeys(p.names, float("nan"))
    free = [j for j, name in enumerate(p.names) if name not in stuck]
    jacobian = slope[:, free]
    scale = np.linalg.norm(jacobian, axis=0)
    if len(residuals) <= slope.shape[1] or not free or not (np.all(np.isfinite(scale)) and np.all(scale > 0)):
        return errors, widening, points, float(len(residuals))
    jacobian = jacobian / scale
    gram = jacobian.T @ jacobian
    if np.linalg.cond(gram) > 1e14:
        return errors, widening, points, float(len(residuals))
    scaled, carrying, n_effective = covariance(jacobian, residuals)
    plain = np.diag(np.linalg.inv(gram)) * (residuals @ residuals) / (len(residuals) - slope.shape[1])
    found = scaled / np.outer(scale, scale)
    for place, j in enumerate(free):
        name = p.names[j]
        widening[name] = float(scaled[place, place] / plain[place]) if plain[place] > 0 else 1.0
        points[name] = float(carrying[place])
        if name in errors:  # k and zeta are searched as logarithms
            errors[name] = float(np.sqrt(found[place, place]) * (values[name] if j >= 2 else 1.0))
    if "w0" in errors and free[-2:] == [2, 3]:  # log w0 = log 2 + log k + log zeta
        errors["w0"] = float(values["w0"] * np.sqrt(max(found[-2:, -2:].sum(), 0.0)))
    return errors, widening, points, n_effective


def fit(
    name: str,
    t: ArrayLike,
    y: ArrayLike,
    limits: tuple[float, float] = (0.0, 1.0),
    width: ArrayLike = 1,
    start: Mapping[str, float] | None = None,
) -> Fit:
    """Fit a curve.

    Parameters
    ----------
    name : str
        law, law_overdamped, exponential, logistic, gompertz, flow or flow_ceiling.
    t, y : (n,) array_like
        Time in optimiser steps, increasing, from 0 on, and the reward there, as logged (not smoothed).
    limits : (low, high)
        Range of the reward, which bounds R_0 and R_inf.
    width : int or (n,) array_like of int
        Steps, ending at t, whose mean a row is: a log that averages is fitted as the average.
    start : mapping, optional
        Parameters by name, the only start of the search; without it, a grid of starts.

    Raises
    ------
    ValueError
        If the series is too short, unordered or not finite, or an argument is outside its domain.
    """
    p = problem(name, t, y, limits, width)
    tried = starts(p) if start is None else np.clip(coordinates(p, start)[None], p.lower, p.upper)
    fixed = np.zeros(len(p.lower), np.bool_)
    u, _, best, evaluations = kernels.search_all(p.code, tried, p.t, p.width, p.y, p.lower, p.upper, fixed, *p.limits)
    shown = {key: value for key, value in named(p, tried[best]).items() if not key.startswith("R_")}
    return finish(p, u, evaluations, " ".join(f"{key}={value:.3g}" for key, value in shown.items()))


def finish(p: Problem, u: np.ndarray, evaluations: int, start: str) -> Fit:
    """What can be said of a search's result `u`."""
    value, slope = np.empty(len(p.t)), np.empty((len(p.t), len(u)))
    kernels.evaluate(p.code, u, p.t, p.width, *p.limits, value, slope)
    near = np.minimum(u - p.lower, p.upper - u) < AT_BOUND
    stuck = tuple(name for name, at in zip(p.names, near, strict=True) if at)
    residuals = p.y - value
    values = named(p, u)
    errors, widening, points, n_effective = _uncertainty(p, values, slope, stuck, residuals)
    return Fit(
        problem=p,
        u=u,
        estimates=values,
        se=errors,
        widening=widening,
        points=points,
        fitted=value,
        sse=float(residuals @ residuals),
        n_effective=n_effective,
        evaluations=int(evaluations),
        start=start,
        at_bound=stuck,
    )
