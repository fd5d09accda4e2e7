"""The law's band over a run and beyond, and the times of its phases, with profile intervals (analysis.profile_band).

A run's next rows scatter about the law as its last ones did, so that a row's interval is that of the law's value with
this noise added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from grpo_dynamics.analysis import kernels
from grpo_dynamics.analysis.fits import Fit
from grpo_dynamics.analysis.noise import local_variance
from grpo_dynamics.analysis.own_series import Series
from grpo_dynamics.analysis.profile import noise_of
from grpo_dynamics.analysis.profile_band import allowed, ceiling, noise_along
from grpo_dynamics.theory.law import Phases, phases

NAN = float("nan")
HORIZON = 2.0  # the forecast's end, in lengths of the run
_TIMES = 121  # at which the band is given
_LEAVES = "The fitted law leaves the reward's range within the run or as long again"


@lru_cache(maxsize=1024)
def _phases(zeta: float) -> Phases:
    """Times of the phases in units of 1 / w0."""
    return phases(1.0, zeta)


_UNITS: dict[str, Callable[[float], float]] = {
    "slow_start_end": lambda zeta: _phases(zeta).slow_start_end,
    "inflection": lambda zeta: _phases(zeta).inflection,
    "plateau_start": lambda zeta: _phases(zeta).rapid_rise_end,
}


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; NaN where there is none, 0 and inf for ends that the data do not set."""

    value: float = NAN
    low: float = NAN
    high: float = NAN


def number(value: float) -> str:
    """A number with three digits, or as many as its whole part has; a dash where there is none."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e5 else f"{value:.3g}"


def span(one: Estimate) -> str:
    """A number with its interval, as far as it has one; `one` has value, low and high."""
    if np.isnan(one.value) or np.isnan(one.low) or np.isnan(one.high):
        return number(one.value)
    return f"{number(one.value)} [{number(one.low)}, {number(one.high)}]"


@dataclass(frozen=True)
class Band:
    """The law over the run and as far again, at optimiser steps made `t`: (m,) ndarrays.

    The mean of rewards cannot leave their range: laws that leave it within this time are none of the band's.

    Attributes
    ----------
    mean : ndarray
        The fitted law; where it leaves the range, the one of least squares among those that do not.
    low, high : ndarray
        Pointwise profile interval of the law's value.
    row_low, row_high : ndarray
        Interval of a single logged row: the noise around the curve is added.
    """

    t: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    row_low: np.ndarray
    row_high: np.ndarray


def times_and_band(
    law: Fit, series: Series, level: float, has_trend: bool
) -> tuple[dict[str, Estimate], Band | None, str]:
    """The times of the phases with their profile intervals, the band, and what a reader has to know of it.

    No times without a trend.

    Parameters
    ----------
    law : Fit
        Of the curve law to `series`.
    series : Series
    level : float
        Of the intervals.
    has_trend : bool
    """
    p, zeta, w0 = law.problem, law.estimates["zeta"], law.estimates["w0"]
    end = series.t[-1] - series.origin
    t = np.linspace(0.0, HORIZON * end, _TIMES)
    value, slope = np.empty(len(t)), np.empty((len(t), 4))
    kernels.evaluate(p.code, law.u, t, np.ones(len(t), np.int64), *p.limits, value, slope)
    limit = ceiling(law, *noise_along(law, slope), level)
    limits = {name: _time_ceiling(law, name, level) for name in _UNITS} if has_trend else {}
    every = np.array([*limits.values(), *limit])
    laws = allowed(law, float(np.nanmax(every))) if np.isfinite(every).any() else None
    times = {}
    for name, most in limits.items():
        ends = laws.time(_UNITS[name], most, name != "plateau_start") if laws else (NAN, NAN)
        times[name] = Estimate(*(series.origin + x for x in (_UNITS[name](zeta) / w0, *ends)))
    if laws is None or not np.isfinite(limit).any():
        return times, None, "No independent point carries the law's value, so that no band can be given."
    said, (bottom, top) = "", p.limits
    slack = 1e-9 * (top - bottom)
    leaves = bool(value.min() < bottom - slack or value.max() > top + slack)
    if laws.zeta.min() < 1:  # others do not overshoot
        laws = allowed(law, float(np.nanmax(limit)), t[-1])
    if laws is None:
        return times, None, f"{_LEAVES}, as does every law that the rows allow: no forecast can be given."
    if leaves:
        # The model is now that of the laws within the range: intervals are about its own smallest sum of squares.
        limit = limit * laws.sse.min() / law.sse
        laws = allowed(law, float(np.nanmax(limit)), t[-1])
        value = laws.central(t)
        said = (
            f"{_LEAVES}: its band and its forecast are those of the laws that stay within {bottom:.3g} and {top:.3g}."
        )
    low, high = laws.curve(t, limit)
    low, high = np.minimum(low, value), np.maximum(high, value)  # to rounding
    noise = _row_noise(law, end, t, level)
    row_low, row_high = value - np.hypot(value - low, noise), value + np.hypot(high - value, noise)
    rows = np.maximum(row_low, bottom), np.minimum(row_high, top)
    return times, Band(t + series.origin, value, low, high, *rows), said


def _time_ceiling(law: Fit, name: str, level: float) -> float:
    """Largest sum of squares that is allowed to a law with another time: of the noise that carries this time."""
    if name != "plateau_start":  # the slow start is zeta's
        widening, points = (np.array([x]) for x in noise_of(law, "zeta"))
        return float(ceiling(law, widening, points, level)[0])
    # unit(zeta) / w0, and log w0 = log 2 + log k + log zeta
    h, unit, zeta = 1e-4, _UNITS[name], law.estimates["zeta"]
    by_zeta = (np.log(unit(zeta * np.exp(h))) - np.log(unit(zeta * np.exp(-h)))) / (2 * h) - 1
    return float(ceiling(law, *noise_along(law, np.array([[0.0, 0.0, -1.0, by_zeta]])), level)[0])


def _row_noise(law: Fit, end: float, t: np.ndarray, level: float) -> np.ndarray:
    """Half width of the interval of a row about the true curve: that of the run's rows, after its end as there."""
    n, p = len(law.residuals), len(law.u)
    spread = np.sqrt(local_variance(law.residuals) * n / (n - p))
    dof = max(law.n_effective - p, 1.0)
    return stats.t.ppf((1 + level) / 2, dof) * np.interp(np.minimum(t, end), law.problem.t, spread)
