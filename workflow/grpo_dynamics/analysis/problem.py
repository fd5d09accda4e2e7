"""What a fit searches: a series, a curve, the search's coordinates with their bounds, and its starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from grpo_dynamics.analysis import kernels
from grpo_dynamics.theory import law, rivals

ZETA_BOUNDS = (0.05, 50.0)
BETA_BOUNDS = (0.0, 20.0)
START_ZETA = (0.3, 0.8, 1.5, 5.0)
START_RATE = (0.5, 2.0, 5.0, 15.0)  # times 1 / duration
START_BETA = (0.0, 1.0)
AT_BOUND = 1e-4  # distance to a bound, in the parameter or its logarithm
_CODES = {
    "law": kernels.LAW,
    "law_overdamped": kernels.LAW,
    "exponential": kernels.EXPONENTIAL,
    "logistic": kernels.LOGISTIC,
    "gompertz": kernels.GOMPERTZ,
    "flow": kernels.FLOW,
    "flow_ceiling": kernels.CEILING,
}
_FUNCTIONS = {
    "law": law.three_phase,
    "law_overdamped": law.three_phase,
    "exponential": law.exponential,
    "logistic": rivals.logistic,
    "gompertz": rivals.gompertz,
    "flow": rivals.flow,
    "flow_ceiling": rivals.flow_ceiling,
}


@dataclass(frozen=True)
class Problem:
    """A series, a curve, and the search's coordinates u = (R_0, R_inf, logarithms) with their bounds.

    `width[i]` is the number of steps, ending at t[i], whose mean is y[i].
    """

    curve: str
    t: np.ndarray
    y: np.ndarray
    width: np.ndarray
    limits: tuple[float, float]
    lower: np.ndarray
    upper: np.ndarray

    @property
    def code(self) -> int:
        return _CODES[self.curve]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates that are searched."""
        return ("R_0", "beta", "k") if self.curve == "flow" else ("R_0", "R_inf", "k", "zeta")[: len(self.lower)]


def curve(name: str, t: ArrayLike, estimates: dict[str, float], limits: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
    """A curve by name at times `t`, in steps; growth curves and flows live within `limits`."""
    function, (low, high) = _FUNCTIONS[name], limits
    if _CODES[name] <= kernels.EXPONENTIAL:
        return function(t, **estimates)
    if name == "flow":
        start = (estimates["R_0"] - low) / (high - low)
        return low + (high - low) * function(t, start, estimates["beta"], estimates["k"])
    return low + function(t, estimates["R_0"] - low, estimates["R_inf"] - low, estimates["k"])


def check_series(t: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Time and reward as arrays of floats; raises ValueError unless they are finite and in order of time."""
    t, y = np.asarray(t, float), np.asarray(y, float)
    if t.shape != y.shape or t.ndim != 1 or len(t) < 5:
        raise ValueError(f"fit: found time and reward of shapes {t.shape} and {y.shape}, expected two of at least 5")
    if not (np.all(np.isfinite(t)) and np.all(np.isfinite(y)) and np.all(np.diff(t) > 0)):
        raise ValueError("fit: found empty values or times that do not grow, expected finite rewards in order of time")
    return t, y


def problem(
    name: str, t: ArrayLike, y: ArrayLike, limits: tuple[float, float] = (0.0, 1.0), width: ArrayLike = 1
) -> Problem:
    """The search for a curve; parameters as in `fit`."""
    if name not in _CODES:
        raise ValueError(f"curve: found {name!r}, expected one of {', '.join(_CODES)}")
    t, y = check_series(t, y)
    low, high = map(float, limits)
    if not low < high:
        raise ValueError(f"limits: found {low:g} and {high:g}, expected the lower before the higher")
    width = np.ascontiguousarray(np.broadcast_to(np.asarray(width), t.shape), dtype=np.int64)
    first = float(np.min(t - width + 1))
    if np.any(width < 1) or first < 0:
        raise ValueError(f"fit: found rows that average from step {first:g} on, expected 1 step or more, from 0 on")
    k_low, k_high = 0.1 / float(t[-1] - t[0]), 10.0 / float(np.median(np.diff(t)))
    bounds = [(low, high), (low, high), (np.log(k_low), np.log(k_high))]
    if name in ("law", "law_overdamped"):
        bounds.append((0.0 if name == "law_overdamped" else np.log(ZETA_BOUNDS[0]), np.log(ZETA_BOUNDS[1])))
    elif name != "exponential":
        if name == "flow" and np.any(t[1:] - width[1:] + 1 <= t[:-1]):
            raise ValueError("fit: found rows whose averages overlap, expected none for the curve flow")
        if not np.isfinite(high - low):
            raise ValueError(f"limits: found {low:g} and {high:g}, expected finite ones for {name}")
        inner = low + 1e-4 * (high - low)
        bounds[0] = inner, high - 1e-4 * (high - low) if name == "flow" else high
        bounds[1] = BETA_BOUNDS if name == "flow" else (inner, high)
    lower, upper = np.array(bounds, float).T
    return Problem(name, t, y, width, (low, high), np.ascontiguousarray(lower), np.ascontiguousarray(upper))


def starts(p: Problem) -> np.ndarray:
    """The grid of starts of a search, (starts, coordinates), within its bounds."""
    duration = p.t[-1] - p.t[0]
    if p.code == kernels.LAW:
        zetas = [zeta for zeta in START_ZETA if np.log(zeta) > p.lower[3]]
        # Below zeta = 1 the time scale is 1 / w0 = 1 / (2 zeta k), so that k is scaled to keep it.
        searched = [(rate / duration / min(1.0, 2 * zeta), zeta) for zeta in zetas for rate in START_RATE]
        return np.clip([[0.0, 0.0, *np.log(pair)] for pair in searched], p.lower, p.upper)
    if p.code == kernels.EXPONENTIAL:
        return np.clip([[0.0, 0.0, np.log(rate / duration)] for rate in START_RATE], p.lower, p.upper)
    part = max(len(p.y) // 10, 1)
    first, last = float(np.mean(p.y[:part])), float(np.mean(p.y[-part:]))
    # The flows rise at most by k / 8 per step, at p = 1/2.
    scale = 8 if p.curve.startswith("flow") else 1
    rates = np.log(scale * np.array(START_RATE) / duration)
    if p.curve == "flow":
        return np.clip([[first, beta, rate] for rate in rates for beta in START_BETA], p.lower, p.upper)
    if p.curve == "flow_ceiling":  # which only rises
        gap = 1e-3 * (p.upper[1] - p.lower[1])
        first = max(min(first, last - gap, p.upper[1] - gap), p.lower[0])
        last = max(last, first + gap)
    return np.clip([[first, last, rate] for rate in rates], p.lower, p.upper)


def named_all(p: Problem, u: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters by name of many vectors of coordinates (B, p)."""
    k = np.exp(u[:, 2])
    if p.curve == "flow":
        low, high = p.limits
        ends = [rivals.flow_fixed_point((start - low) / (high - low), beta) for start, beta in u[:, :2]]
        return {"R_0": u[:, 0], "R_inf": low + (high - low) * np.array(ends), "beta": u[:, 1], "k": k}
    values = {"R_0": u[:, 0], "R_inf": u[:, 1]}
    if p.code != kernels.LAW:
        return values | {"k": k}
    zeta = np.exp(u[:, 3])
    return values | {"w0": 2 * k * zeta, "zeta": zeta}


def named(p: Problem, u: np.ndarray) -> dict[str, float]:
    """The parameters by name of a vector of coordinates."""
    return {name: float(values[0]) for name, values in named_all(p, u[None]).items()}


def coordinates(p: Problem, values: Mapping[str, float]) -> np.ndarray:
    """The search's coordinates (p,) of parameters by name; R_0 and R_inf may be left out of a law or an exponential.

    Raises ValueError where another coordinate has no value.
    """
    u = np.zeros(len(p.lower))
    for j, name in enumerate(p.names):
        if name == "k" and "w0" in values:
            u[j] = np.log(values["w0"] / (2 * values["zeta"]))
        elif name in values:
            u[j] = np.log(values[name]) if j >= 2 else values[name]
        elif j >= 2 or p.code > kernels.EXPONENTIAL:
            raise ValueError(f"start: found {', '.join(values)}, expected {name} among the start values of {p.curve}")
    return u
