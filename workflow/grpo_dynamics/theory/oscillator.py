"""The forced damped oscillator of the training error: coefficients, regimes, thresholds, stationary variance.

    M_eff e'' + C_eff e' + K_eff e = sqrt(D/G) xi(t),        e = p - p*

Source: theory, section 1 (the paper's Theorem 7). Time is counted in optimiser steps; a = eta K is the stiffness per
step. All functions are closed forms and work elementwise on numpy arrays, whose shapes broadcast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class Coefficients(NamedTuple):
    """Effective inertia M_eff (steps), damping C_eff and stiffness K_eff (1/step), arrays of one shape."""

    M_eff: Array
    C_eff: Array
    K_eff: Array


class Mode(NamedTuple):
    """Decay rate and angular frequency of a mode, both 1/step; the rate is below 0 where it grows."""

    rate: Array
    frequency: Array


class Oscillator(NamedTuple):
    """All that the closed form says of a setting; arrays of one shape.

    Attributes
    ----------
    a : ndarray
        Stiffness per step, eta K, 1/step.
    M_eff, C_eff, K_eff : ndarray
        As in `Coefficients`.
    w0, zeta : ndarray
        Natural frequency, 1/step, and damping ratio.
    regime : ndarray of str
        As in `regime`.
    stability_threshold, onset_threshold : ndarray
        Values of a, 1/step.
    stationary_variance : ndarray
        In the error's unit squared; infinite where unstable.
    """

    a: Array
    M_eff: Array
    C_eff: Array
    K_eff: Array
    w0: Array
    zeta: Array
    regime: NDArray[np.str_]
    stability_threshold: Array
    onset_threshold: Array
    stationary_variance: Array


def check_momentum(mu: ArrayLike) -> Array:
    """Return mu as an array of floats.

    Raises
    ------
    ValueError
        Unless 0 <= mu < 1 everywhere.
    """
    mu = np.asarray(mu, dtype=float)
    if not np.all((mu >= 0) & (mu < 1)):
        raise ValueError(f"mu: found {mu}, expected 0 <= mu < 1")
    return mu


def check_positive(name: str, value: ArrayLike) -> Array:
    """Return `value` as an array of floats.

    Raises
    ------
    ValueError
        Unless it is finite and above zero everywhere; the message calls it `name`.
    """
    value = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(value) & (value > 0)):
        raise ValueError(f"{name}: found {value}, expected a finite number above 0")
    return value


def _check_interval(K_ref: ArrayLike) -> Array:
    K_ref = np.asarray(K_ref, dtype=float)
    if not np.all(np.isfinite(K_ref) & (K_ref >= 0)):
        raise ValueError(f"K_ref: found {K_ref}, expected a finite number of steps, 0 or more")
    return K_ref


def coefficients(a: ArrayLike, mu: ArrayLike, K_ref: ArrayLike) -> Coefficients:
    """Effective coefficients of the oscillator.

        M_eff = (1 + mu)/2 + a K_ref^2/2      C_eff = (1 - mu) - a K_ref      K_eff = a

    Parameters
    ----------
    a : array_like
        Stiffness per step, eta K, above 0.
    mu : array_like
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : array_like
        Lag in optimiser steps, 0 or more.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    a, mu, K_ref = np.broadcast_arrays(check_positive("a", a), check_momentum(mu), _check_interval(K_ref))
    return Coefficients((1 + mu) / 2 + a * K_ref**2 / 2, (1 - mu) - a * K_ref, a + 0.0)


def natural_frequency(a: ArrayLike, mu: ArrayLike, K_ref: ArrayLike) -> Array:
    """w0 = sqrt(K_eff / M_eff), in 1/step. Parameters as in `coefficients`."""
    M_eff, _, K_eff = coefficients(a, mu, K_ref)
    return np.sqrt(K_eff / M_eff)


def damping_ratio(a: ArrayLike, mu: ArrayLike, K_ref: ArrayLike) -> Array:
    """zeta = C_eff / (2 sqrt(M_eff K_eff)). Parameters as in `coefficients`.

    Always above -1/sqrt(2): the lag that erodes the damping adds inertia as well.
    """
    M_eff, C_eff, K_eff = coefficients(a, mu, K_ref)
    return C_eff / (2 * np.sqrt(M_eff * K_eff))


def regime(a: ArrayLike, mu: ArrayLike, K_ref: ArrayLike) -> NDArray[np.str_]:
    """Name of the closed form's regime: 'overdamped', 'critical', 'underdamped' or 'unstable'.

    'unstable' where C_eff <= 0, 'critical' only where C_eff^2 = 4 M_eff K_eff exactly. Parameters as in
    `coefficients`; the result has their broadcast shape.
    """
    M_eff, C_eff, K_eff = coefficients(a, mu, K_ref)
    discriminant = C_eff**2 - 4 * M_eff * K_eff
    names = np.select(
        [C_eff <= 0, discriminant > 0, discriminant == 0], ["unstable", "overdamped", "critical"], "underdamped"
    )
    return np.asarray(names)


def stability_threshold(mu: ArrayLike, K_ref: ArrayLike) -> Array:
    """a = eta K at which the closed form loses stability: (1 - mu) / K_ref, infinite at K_ref = 0.

    Parameters
    ----------
    mu : array_like
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : array_like
        Lag in optimiser steps, 0 or more.
    """
    mu, K_ref = np.broadcast_arrays(check_momentum(mu), _check_interval(K_ref))
    with np.errstate(divide="ignore"):
        return (1 - mu) / K_ref


def onset_threshold(mu: ArrayLike, K_ref: ArrayLike) -> Array:
    """a = eta K at which the closed form starts to oscillate (C_eff^2 = 4 M_eff K_eff).

        a = ( sqrt(B^2 + K_ref^2 (1-mu)^2) - B ) / K_ref^2,     B = (1-mu) K_ref + (1+mu)

    Evaluated as (1-mu)^2 / (sqrt(...) + B), which holds at K_ref = 0 too and does not cancel. Parameters as in
    `stability_threshold`.
    """
    mu, K_ref = np.broadcast_arrays(check_momentum(mu), _check_interval(K_ref))
    B = (1 - mu) * K_ref + (1 + mu)
    return (1 - mu) ** 2 / (np.sqrt(B**2 + (K_ref * (1 - mu)) ** 2) + B)


def stationary_variance(a: ArrayLike, mu: ArrayLike, K_ref: ArrayLike, D: ArrayLike, G: ArrayLike) -> Array:
    """Var e = D / (2 G C_eff K_eff) under white forcing of intensity D/G; infinite where unstable.

    Parameters
    ----------
    a, mu, K_ref : array_like
        As in `coefficients`.
    D : array_like
        Noise intensity at G = 1, in the error's unit squared per step, above 0.
    G : array_like
        Group size, above 0.
    """
    _, C_eff, K_eff = coefficients(a, mu, K_ref)
    D, G = check_positive("D", D), check_positive("G", G)
    with np.errstate(divide="ignore"):
        return np.where(C_eff > 0, D / (2 * G * np.where(C_eff > 0, C_eff, 0.0) * K_eff), np.inf)


def slowest_mode(a: ArrayLike, mu: ArrayLike, K_ref: ArrayLike) -> Mode:
    """Decay rate and angular frequency of the mode that outlives the others: of the roots of M s^2 + C s + K.

    Parameters as in `coefficients`.
    """
    M_eff, C_eff, K_eff = coefficients(a, mu, K_ref)
    discriminant = C_eff**2 - 4 * M_eff * K_eff
    root = np.sqrt(np.abs(discriminant))
    real = 2 * K_eff / (C_eff + np.where(C_eff > 0, root, -root))  # the smaller root, in a form that does not cancel
    rate = np.where(discriminant > 0, real, C_eff / (2 * M_eff))
    return Mode(rate, np.where(discriminant < 0, root / (2 * M_eff), 0.0))


def oscillator(eta: ArrayLike, mu: ArrayLike, K_ref: ArrayLike, K: ArrayLike, G: ArrayLike, D: ArrayLike) -> Oscillator:
    """The closed form of a setting, from its hyperparameters; shapes broadcast.

    Parameters
    ----------
    eta : array_like
        Learning rate, above 0.
    mu : array_like
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : array_like
        Lag in optimiser steps, 0 or more.
    K : array_like
        Curvature scale, 1/eta/step, above 0.
    G : array_like
        Group size, above 0.
    D : array_like
        Noise intensity at G = 1, in the error's unit squared per step, above 0.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    eta, mu, K_ref, K, G, D = np.broadcast_arrays(
        check_positive("eta", eta), mu, K_ref, check_positive("K", K), check_positive("G", G), check_positive("D", D)
    )
    a = eta * K
    return Oscillator(
        a,
        *coefficients(a, mu, K_ref),
        natural_frequency(a, mu, K_ref),
        damping_ratio(a, mu, K_ref),
        regime(a, mu, K_ref),
        stability_threshold(mu, K_ref),
        onset_threshold(mu, K_ref),
        stationary_variance(a, mu, K_ref, D, G),
    )
