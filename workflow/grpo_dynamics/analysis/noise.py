"""The noise around a fitted curve: how far its autocorrelation and its changing size widen the standard errors.

A reward series scatters for two reasons: each batch is a sample (independent from batch to batch, with a variance that
changes with the reward), and the policy itself wanders (correlated over many steps). So the residuals, divided by
their local standard deviation, are taken as white noise plus a first-order process:

    Corr(z_i, z_j) = alpha phi^|i-j|,    i != j

Neither alpha nor phi is well known from a few hundred residuals, of which the fit has eaten the slowest part. Hence
the restricted likelihood (REML: of the part that the curve's Jacobian cannot reach), on a grid of alpha and phi, and
every result is averaged over the grid with it. The discrete cosine transform takes the place of the process's
eigenvectors, to which it tends (Ahmed, Natarajan & Rao 1974).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.fft import dct
from scipy.ndimage import uniform_filter1d

_ALPHAS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
_PHIS = np.array([0.3, 0.6, 0.8, 0.9, 0.95])


def lag1(residuals: np.ndarray) -> float:
    """Lag-1 autocorrelation of residuals; 0 for residuals that are all zero."""
    total = float(residuals @ residuals)
    return float(residuals[1:] @ residuals[:-1]) / total if total > 0 else 0.0


def inflation(autocorrelation: float) -> float:
    """Points per independent point, (1 + r) / (1 - r) for a first-order process; 1 for r <= 0."""
    r = min(max(autocorrelation, 0.0), 0.99)
    return (1 + r) / (1 - r)


class _Grid(NamedTuple):
    """At every grid point: spectrum and its inverse (grid, n), log determinant, and points per independent point."""

    spectrum: np.ndarray
    inverse: np.ndarray
    log_determinant: np.ndarray
    inflation: np.ndarray


@lru_cache(maxsize=32)
def _grid(n: int) -> _Grid:
    alpha, phi = (x.ravel()[:, None] for x in np.meshgrid(_ALPHAS, _PHIS, indexing="ij"))
    angle = np.pi * np.arange(n) / n
    process = (1 - phi**2) / (1 - 2 * phi * np.cos(angle) + phi**2)
    spectrum = 1 - alpha + alpha * process
    return _Grid(spectrum, 1 / spectrum, np.log(spectrum).sum(axis=1), (1 + 2 * alpha * phi / (1 - phi))[:, 0])


@lru_cache(maxsize=8)
def _triangle(m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(m)


def local_variance(residuals: np.ndarray) -> np.ndarray:
    """Running mean of the squared residuals over a quarter of the series, at least a tenth of the whole mean."""
    squared = residuals**2
    window = max(len(squared) // 4, 5)
    return np.maximum(uniform_filter1d(squared, window, mode="reflect"), 0.1 * squared.mean())


@njit(cache=True, error_model="numpy")
def _weights(products, m, log_determinant, n):
    """Restricted likelihood of every grid point over the sum of all.

    `products` (grid, m (m + 1) / 2) holds the lower triangles of [z X]' S^-1 [z X] of the transformed residuals and
    Jacobian, m = 1 + p. Eliminated from the X side, its last pivot is what least squares under S leaves of z, and the
    product of the others det X' S^-1 X.
    """
    count = len(products)
    likelihood, A = np.empty(count), np.empty((m, m))
    for g in range(count):
        place, determinant = 0, 0.0
        for r in range(m):
            for c in range(r + 1):
                A[r, c] = products[g, place]
                place += 1
        for c in range(m - 1, 0, -1):
            determinant += math.log(A[c, c])
            for r in range(c):
                share = A[c, r] / A[c, c]
                for k in range(r + 1):
                    A[r, k] -= share * A[c, k]
        likelihood[g] = -0.5 * (log_determinant[g] + determinant + (n - m + 1) * math.log(A[0, 0]))
    weight = np.exp(likelihood - likelihood.max())
    return weight / weight.sum()


def covariance(jacobian: np.ndarray, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Covariance of least-squares estimates under this noise, and the numbers of independent points.

    Parameters
    ----------
    jacobian : (n, p) ndarray
        Of full rank.
    residuals : (n,) ndarray

    Returns
    -------
    covariance : (p, p) ndarray
    carrying : (p,) ndarray
        Independent points that carry each estimate, (sum m)^2 / sum m^2 over the ratio, with m_i the share of the
        estimate's variance that comes in through point i: the degrees of freedom of its interval, after Satterthwaite.
    n_effective : float
        Independent points in all, n over the ratio of the noise's long-run variance to its variance.
    """
    n, p = jacobian.shape
    if not np.any(residuals):
        return np.zeros((p, p)), np.full(p, float(n)), float(n)
    spread = np.sqrt(local_variance(residuals))
    grid = _grid(n)
    both = dct(np.column_stack([residuals, jacobian]) / spread[:, None], norm="ortho", axis=0)
    rows, columns = _triangle(p + 1)
    weight = _weights(grid.inverse @ (both[:, rows] * both[:, columns]), p + 1, grid.log_determinant, n)
    average, ratio = weight @ grid.spectrum, float(weight @ grid.inflation)
    bread = np.linalg.inv(jacobian.T @ jacobian)
    influence = dct(jacobian * spread[:, None], norm="ortho", axis=0)
    meat = influence.T @ (average[:, None] * influence)
    share = (jacobian @ bread * spread[:, None]) ** 2
    carrying = share.sum(axis=0) ** 2 / (share**2).sum(axis=0)
    return bread @ meat @ bread * n / (n - p), carrying / ratio, n / ratio
