"""Exact drift and noise of a finite group of completions, as finite sums over its number of successes.

With k ~ Binomial(G, p) successes among G, the sampled group gradient of the two-arm bandit is sqrt(k (G-k)) / G for
the population standard deviation, times sqrt((G-1)/G) for the unbiased one that TRL uses; a collapsed group (k = 0
or G) gives 0. Source: theory, section 4. As G grows, h_G -> sqrt(p(1-p)) and G v_G -> (1 - 2p)^2/4.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from grpo_dynamics.theory.oscillator import Array

Std = Literal["population", "unbiased"]
STDS: tuple[Std, ...] = get_args(Std)
_SMALLEST = 1e-290  # probabilities below it count as 0: scipy's binomial overflows near the smallest floats


def group_gradient(G: int, std: Std = "population") -> Array:
    """Gradient per unit of the logit of a group with k = 0 .. G successes: sqrt(k (G-k)) / G for the population std.

    Shape (G + 1,). Raises ValueError if G or `std` is outside its domain.
    """
    if G < 2 or int(G) != G:
        raise ValueError(f"G: found {G}, expected an integer of 2 or more")
    if std not in STDS:
        raise ValueError(f"std: found {std!r}, expected one of {STDS}")
    k = np.arange(G + 1)
    return (1.0 if std == "population" else np.sqrt((G - 1) / G)) * np.sqrt(k * (G - k)) / G


def _sums(p: ArrayLike, G: int, std: Std) -> tuple[Array, Array, Array]:
    """p with a last axis added, P(k), and the gradient's value at k; k = 0 .. G runs over the last axis."""
    p = np.asarray(p, dtype=float)[..., np.newaxis]
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"p: found {p[..., 0]}, expected a probability")
    value = group_gradient(G, std)
    p = np.where(p < _SMALLEST, 0.0, p)
    return p, binom.pmf(np.arange(G + 1), G, p), value


def h_G(p: ArrayLike, G: int, std: Std = "population") -> Array:
    """Exact expected group gradient, h_G(p) = E[sqrt(k (G-k))] / G.

    Parameters
    ----------
    p : array_like
        Probability of success.
    G : int
        Group size, 2 or more.
    std : {"population", "unbiased"}
        Standard deviation by which the advantages are divided.

    Returns
    -------
    ndarray
        Of the shape of `p`; per unit of the logit.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    _, weight, value = _sums(p, G, std)
    return np.sum(weight * value, axis=-1)


def h_G_slope(p: ArrayLike, G: int, std: Std = "population") -> Array:
    """Exact dh_G/dp = E[f(k) (k - G p)] / (p (1-p)), for 0 < p < 1. Parameters as in `h_G`."""
    p, weight, value = _sums(p, G, std)
    if not np.all((p > 0) & (p < 1)):
        raise ValueError(f"p: found {p[..., 0]}, expected a probability strictly between 0 and 1")
    return np.sum(weight * value * (np.arange(G + 1) - G * p), axis=-1) / (p * (1 - p))[..., 0]


def v_G(p: ArrayLike, G: int, std: Std = "population") -> Array:
    """Exact variance of one group's gradient, v_G(p) = E[k (G-k)]/G^2 - h_G(p)^2. Parameters as in `h_G`."""
    _, weight, value = _sums(p, G, std)
    mean = np.sum(weight * value, axis=-1, keepdims=True)
    return np.sum(weight * (value - mean) ** 2, axis=-1)
