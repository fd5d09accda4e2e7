"""The three-phase law of the mean reward (slow start, rapid rise, plateau) and its limit, the single exponential.

    R(t) = R_inf + (R_0 - R_inf) phi(t; w0, zeta),      phi(0) = 1,  phi'(0) = 0

Source: theory, section 2 (the paper's Proposition 14). With tau = w0 t, phi solves phi'' + 2 zeta phi' + phi = 0 and is
one analytic function of zeta; its three textbook cases are evaluated here in forms that neither cancel near
zeta = 1 nor overflow at zeta = 1e6.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from grpo_dynamics.theory.oscillator import Array, check_positive

# (sin x / x - cos x) / x^2 = sum_k _SERIES[k] (-x^2)^k; ten terms give full accuracy for |x| <= 1.
_SERIES = [(2 * k + 2) / factorial(2 * k + 3) for k in range(10)]
_COVERED = 0.95  # share of the way at which the rapid rise ends (section 2)


class Phases(NamedTuple):
    """Boundaries of the phases, in steps: end of the slow start, largest rate, end of the rapid rise."""

    slow_start_end: float
    inflection: float
    rapid_rise_end: float


def _check(t: ArrayLike, w0: ArrayLike, zeta: ArrayLike) -> tuple[Array, Array, Array]:
    t, w0, zeta = np.asarray(t, dtype=float), check_positive("w0", w0), np.asarray(zeta, dtype=float)
    if not np.all(t >= 0):
        raise ValueError(f"t: found {np.min(t)}, expected steps, 0 or more")
    if not np.all(np.isfinite(zeta) & (zeta > -1)):
        raise ValueError(f"zeta: found {zeta}, expected a finite number above -1")
    return np.broadcast_arrays(t, w0, zeta)


def _modes(tau: Array, zeta: Array) -> tuple[Array, Array, Array]:
    """e^(-zeta tau) times cos x, tau sin(x)/x and tau^3 (sin x/x - cos x)/x^2, where x^2 = (1 - zeta^2) tau^2.

    For zeta > 1 the circular functions turn hyperbolic, and the decay of the slow mode is factored out:
    exp(-zeta tau) cosh y = exp(-r1 tau) (1 + exp(-2 y))/2, with r1 = zeta - sqrt(zeta^2 - 1) as 1/(zeta + ...).
    """
    over = zeta > 1
    root = np.sqrt(np.abs((1 - zeta) * (1 + zeta)))
    x = root * tau
    safe, large = np.where(x > 0, x, 1.0), np.maximum(x, 1.0)
    slow = np.where(over, 1 / (zeta + root), zeta)
    decay = np.exp(-slow * tau)
    twice = np.exp(-2 * np.where(over, x, 0.0))
    cosine = np.where(over, (1 + twice) / 2, np.cos(x))
    sinc = np.where(x > 0, np.where(over, -np.expm1(-2 * x) / 2, np.sin(x)) / safe, 1.0)
    # Inside |x| < 1 the difference sinc - cosine cancels; the series (for over, in cosh and sinh) does not.
    near = np.polynomial.polynomial.polyval(np.where(over, 1, -1) * np.minimum(x, 1.0) ** 2, _SERIES)
    near = near * np.where(over, np.exp(-np.minimum(x, 1.0)), 1.0)
    bend = np.where(x < 1, near, np.where(over, cosine - sinc, sinc - cosine) / large**2)
    return decay * cosine, decay * tau * sinc, decay * tau**3 * bend


def phi(t: ArrayLike, w0: ArrayLike, zeta: ArrayLike) -> Array:
    """The law's shape, from phi(0) = 1 to 0.

        zeta > 1:  (r2 exp(-r1 t) - r1 exp(-r2 t)) / (r2 - r1),  r1,2 = w0 (zeta -+ sqrt(zeta^2 - 1))
        zeta = 1:  (1 + w0 t) exp(-w0 t)
        zeta < 1:  exp(-zeta w0 t) (cos wd t + (zeta w0/wd) sin wd t),  wd = w0 sqrt(1 - zeta^2)

    Parameters
    ----------
    t : array_like
        Steps, 0 or more.
    w0 : array_like
        Natural frequency, 1/step, above 0.
    zeta : array_like
        Damping ratio above -1; below 0 the amplitude grows (the unstable regime).

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    t, w0, zeta = _check(t, w0, zeta)
    cosine, sine, _ = _modes(w0 * t, zeta)
    return cosine + zeta * sine  # when overdamped both terms are positive, so nothing cancels


def phi_derivatives(t: ArrayLike, w0: ArrayLike, zeta: ArrayLike) -> tuple[Array, Array]:
    """Partial derivatives of `phi` with respect to w0 (steps) and zeta, as a fit needs them.

    With d = sqrt(1 - zeta^2) and tau = w0 t: dphi/dtau = -exp(-zeta tau) sin(d tau)/d and
    dphi/dzeta = exp(-zeta tau) (sin(d tau)/d - tau cos(d tau)) / d^2. Parameters as in `phi`.
    """
    t, w0, zeta = _check(t, w0, zeta)
    _, sine, bend = _modes(w0 * t, zeta)
    return -t * sine, bend


def three_phase(t: ArrayLike, R_0: ArrayLike, R_inf: ArrayLike, w0: ArrayLike, zeta: ArrayLike) -> Array:
    """R(t) = R_inf + (R_0 - R_inf) phi(t; w0, zeta); R_0 and R_inf in units of reward, the rest as in `phi`."""
    return np.asarray(R_inf) + (np.asarray(R_0) - np.asarray(R_inf)) * phi(t, w0, zeta)


def exponential(t: ArrayLike, R_0: ArrayLike, R_inf: ArrayLike, k: ArrayLike) -> Array:
    """The single exponential, R_inf + (R_0 - R_inf) exp(-k t): the law's limit zeta -> inf at fixed k = w0/(2 zeta).

    Parameters
    ----------
    t : array_like
        Steps.
    R_0, R_inf : array_like
        Initial reward and plateau.
    k : array_like
        Saturation rate, 1/step, above 0.
    """
    k = check_positive("k", k)
    return np.asarray(R_inf) + (np.asarray(R_0) - np.asarray(R_inf)) * np.exp(-k * np.asarray(t, dtype=float))


def rate(t: ArrayLike, R_0: ArrayLike, R_inf: ArrayLike, w0: ArrayLike, zeta: ArrayLike) -> Array:
    """dR/dt of the three-phase law, reward per step. Parameters as in `three_phase`."""
    t, w0, zeta = _check(t, w0, zeta)
    _, sine, _ = _modes(w0 * t, zeta)
    return (np.asarray(R_inf) - np.asarray(R_0)) * w0 * sine


def inflection_time(w0: ArrayLike, zeta: ArrayLike) -> Array:
    """Step at which the reward first rises fastest: ln(r2/r1)/(r2 - r1) when overdamped, 1/w0 at zeta = 1.

    One formula through zeta = 1: arcsinh(s)/(s w0) above it and atan2(s, zeta)/(s w0) below, s = sqrt|1 - zeta^2|.
    """
    _, w0, zeta = _check(0.0, w0, zeta)
    root = np.sqrt(np.abs((1 - zeta) * (1 + zeta)))
    safe = np.where(root > 0, root, 1.0)
    angle = np.where(zeta > 1, np.arcsinh(root), np.arctan2(root, zeta))
    return np.where(root > 0, angle / safe, 1.0) / w0


def phases(w0: float, zeta: float) -> Phases:
    """Boundaries of the three phases, in steps.

    The slow start ends where the rate first reaches half of its maximum, the rapid rise where 95 % of the way is
    covered (section 2).

    Parameters
    ----------
    w0, zeta : float
        Natural frequency (1/step) and damping ratio, both above 0.
    """
    check_positive("w0", w0), check_positive("zeta", zeta)
    peak = float(inflection_time(1.0, zeta))
    half = float(rate(peak, 0, 1, 1.0, zeta)) / 2
    slow_start_end = brentq(lambda tau: float(rate(tau, 0, 1, 1.0, zeta)) - half, 0.0, peak, xtol=1e-14, rtol=1e-14)
    if zeta < 1:  # phi first crosses zero where tan(d tau) = -d/zeta
        d = np.sqrt((1 - zeta) * (1 + zeta))
        latest = min((np.pi - np.arctan2(d, zeta)) / d, 6.0 / zeta)
    else:  # phi <= (1 + r1 tau) exp(-r1 tau), which is 0.04 at r1 tau = 5
        latest = 5 * (zeta + np.sqrt((zeta - 1) * (zeta + 1)))
    rapid_rise_end = brentq(lambda tau: float(phi(tau, 1.0, zeta)) - (1 - _COVERED), 0.0, latest, rtol=1e-14)
    return Phases(slow_start_end / w0, peak / w0, rapid_rise_end / w0)
