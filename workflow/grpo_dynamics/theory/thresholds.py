"""Exact thresholds of a = eta K of the lagged linear update, elementwise on arrays (theory, section 3).

The loss of stability is the smallest a > 0 at which an eigenvalue reaches modulus 1; the onset of oscillation the
smallest at which an eigenvalue of largest modulus is complex or negative. Under the importance-corrected schedule the
leading mode's error may also change sign within a period and back ((1 - a)^2 e is positive after two steps for any a),
and that counts as oscillation too.

* fixed_lag: roots of z^(L+1) - (1+mu) z^L + mu z^(L-1) + a; a closed form for the onset, a bracketed angle for the loss
  of stability.
* periodic: the period's map is linear in a, so that both are closed forms.
* importance_corrected: the smallest root of several oscillating conditions, in `corrected`. Above the loss of stability
  it can return and be lost again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise

from grpo_dynamics.theory import corrected
from grpo_dynamics.theory.lag import Schedule, check_schedule, check_share
from grpo_dynamics.theory.oscillator import Array, check_momentum


def stability_threshold(schedule: Schedule, mu: ArrayLike, K_ref: ArrayLike, stale_share: ArrayLike = 1.0) -> Array:
    """Exact a = eta K at which the linear update loses stability.

    Parameters
    ----------
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    mu : array_like
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : array_like of int
        Lag (0 or more) or refresh interval (1 or more), steps.
    stale_share : array_like
        a_stale / a, 1 or less; used by importance_corrected only. At 1 the schedule is the periodic one.

    Returns
    -------
    ndarray
        Of the parameters' broadcast shape; accurate to 1e-10 relative for mu and shares (below 1) of up to 1 - 1e-4.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    mu, K_ref, share = _checked(schedule, mu, K_ref, stale_share)
    if schedule == "fixed_lag":
        return _fixed_lag_stability(mu, K_ref)
    if schedule == "periodic":
        return _periodic_stability(mu, K_ref)
    return _corrected(corrected.stability_threshold, _periodic_stability, mu, K_ref, share)


def onset_threshold(schedule: Schedule, mu: ArrayLike, K_ref: ArrayLike, stale_share: ArrayLike = 1.0) -> Array:
    """Exact a = eta K at which the linear update starts to oscillate. As `stability_threshold`."""
    mu, K_ref, share = _checked(schedule, mu, K_ref, stale_share)
    if schedule == "fixed_lag":
        return _fixed_lag_onset(mu, K_ref)
    if schedule == "periodic":
        return _periodic_onset(mu, K_ref)
    return _corrected(corrected.onset_threshold, _periodic_onset, mu, K_ref, share)


def _checked(schedule: Schedule, mu: ArrayLike, K_ref: ArrayLike, share: ArrayLike) -> tuple[Array, Array, Array]:
    check_schedule(schedule, K_ref)
    share = check_share(share) if schedule == "importance_corrected" else share
    mu, K_ref, share = np.broadcast_arrays(check_momentum(mu), K_ref, share)
    return mu, K_ref.astype(float), share


def _corrected(
    mixed: Callable[..., Array], frozen: Callable[..., Array], mu: Array, K_ref: Array, share: Array
) -> Array:
    """`mixed` where part of the stiffness is current, `frozen` where none is."""
    found = np.asarray(frozen(mu, K_ref))
    part = share < 1
    found[part] = mixed(mu[part], K_ref[part], share[part])
    return found


def _fixed_lag_stability(mu: Array, L: Array) -> Array:
    """On the unit circle, z = exp(i x), a = z^(L-1) (1-z)(z-mu) is real where its phase is 0; |a| grows with x.

    The phase is (L - 1/2) x - atan2(cos x - mu, sin x), whose first zero lies below pi/(2L - 1).
    """
    lagged = np.maximum(L, 1)
    x = elementwise.find_root(
        lambda x, mu, L: (L - 0.5) * x - np.arctan2(1 - mu - 2 * np.sin(x / 2) ** 2, np.sin(x)),
        (0.0, np.pi / (2 * lagged - 1)),
        args=(mu, lagged),
    ).x
    half = np.sin(x / 2)
    # |1 - z| |z - mu|
    return np.asarray(np.where(L == 0, 2 * (1 + mu), 2 * half * np.hypot(1 - mu, 2 * np.sqrt(mu) * half)))


def _fixed_lag_onset(mu: Array, L: Array) -> Array:
    """The leading real root meets the next at the maximum of a = z^(L-1) (1-z)(z-mu) over mu < z < 1.

    With z = 1 - y and d = 1 - mu it is the smaller root of (L+1) y^2 - (2 + L d) y + d = 0.
    """
    d, lagged = 1 - mu, np.maximum(L, 1)
    y = 2 * d / (2 + lagged * d + np.sqrt((lagged * d) ** 2 + 4 * mu))
    largest = np.exp((lagged - 1) * np.log1p(-y)) * y * (d - y)
    return np.asarray(np.where(L == 0, (d / (1 + np.sqrt(mu))) ** 2, largest))


def _responses(mu: Array, L: Array) -> tuple[Array, Array, Array]:
    """mu^L, S1 = sum_{k < L} mu^k and S2 = sum_{k < L} (L - k) mu^k: answers of v and of e to a constant force.

    By doubling the number of steps, bit by bit of L, without a difference anywhere.
    """
    power, S1, S2, steps = np.ones(mu.shape), np.zeros(mu.shape), np.zeros(mu.shape), np.zeros(mu.shape)
    for bit in reversed(range(int(np.max(L, initial=1)).bit_length())):
        power, S1, S2, steps = power**2, S1 * (1 + power), S2 * (1 + power) + steps * S1, 2 * steps
        one = L.astype(int) >> bit & 1 == 1
        S2 = np.where(one, S2 + 1 + mu * S1, S2)
        power, S1, steps = np.where(one, power * mu, power), np.where(one, 1 + mu * S1, S1), steps + one
    return power, S1, S2


def _periodic_stability(mu: Array, L: Array) -> Array:
    """Jury's conditions on the period's map [[1 - a S2, mu S1], [-a S1, mu^L]], each linear in a.

    1 + trace + det = 0 (a flip) and det = 1 (a growing oscillation) give 1/a; 1 - trace + det stays positive.
    """
    power, S1, S2 = _responses(mu, L)
    flip = (S2 - mu * S1**2 / (1 + power)) / 2
    growth = (mu * S1**2 - power * S2) / ((1 - mu) * S1)
    return np.asarray(1 / np.maximum(flip, growth))


def _periodic_onset(mu: Array, L: Array) -> Array:
    """Smaller root of the discriminant (1 - mu^L - a S2)^2 - 4 mu a S1^2, a quadratic in a.

    The trace is positive there. At mu = 0 the discriminant only touches zero, at 1/L, where the one eigenvalue turns
    negative.
    """
    _, S1, S2 = _responses(mu, L)
    u = (1 - mu) * S2 / S1
    return np.asarray(((1 - mu) / (np.sqrt(u + mu) + np.sqrt(mu))) ** 2)
