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
