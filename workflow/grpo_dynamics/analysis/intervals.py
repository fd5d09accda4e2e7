"""R^2, and intervals that the claims ledger needs beside those of the tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats


def r_squared(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """1 - SSE / SST over the last axis, SST about the mean of the same points; NaN where they are constant."""
    total = np.sum((y - np.mean(y, axis=-1, keepdims=True)) ** 2, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1 - np.sum((y - predicted) ** 2, axis=-1) / total, np.nan)


def attainable_r2(y: np.ndarray) -> float:
    """R^2 that the true curve behind a noisy series would have on it; NaN for fewer than three or constant points.

    1 - n s^2 / SST, where s^2, half of the mean squared difference of successive points (von Neumann et al. 1941), is
    the variance of noise that is independent from point to point, whatever the curve, as long as it changes little from
    one point to the next. Autocorrelated noise is in part taken for the curve, so that the value is an upper limit.

    Parameters
    ----------
    y : ndarray (n,)
        The raw series, in order.
    """
    total = float(np.sum((y - np.mean(y)) ** 2))
    if len(y) < 3 or total == 0:
        return float("nan")
    return max(1 - len(y) * float(np.mean(np.diff(y) ** 2)) / 2 / total, 0.0)


def hidden_by_noise(r2: pd.Series, attainable: pd.Series, floor: float) -> pd.Series:
    """Whether noise alone can keep R^2 below `floor`: even the true curve stays below it, and r2 is near that curve's.

    Near: with the noise taken out of both sums of squares, R^2 is r2 / attainable, and that reaches the floor.

    Parameters
    ----------
    r2, attainable : Series (series,)
        R^2 of a curve on each series, and `attainable_r2` of that series; False where one is NaN.
    floor : float
        R^2 that is asked for.
    """
    return (r2 < floor) & (attainable < floor) & (r2 >= floor * attainable)


def r2_interval(r2: float, n: float, alpha: float) -> tuple[float, float]:
    """Interval of R^2 by Fisher's transform of R, with n (effective) points; for a curve in time it is conservative."""
    if not (0 <= r2 < 1 and n > 3):
        return float("nan"), float("nan")
    half = stats.norm.ppf(1 - alpha / 2) / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(np.sqrt(r2)) + np.array([-half, half]))
    return float(max(low, 0.0) ** 2), float(high**2)


def t_interval(values: np.ndarray, alpha: float) -> tuple[float, float, float]:
    """Mean and its t interval over runs; no interval for fewer than two."""
    if len(values) == 0:
        return float("nan"), float("nan"), float("nan")
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, float("nan"), float("nan")
    half = stats.t.ppf(1 - alpha / 2, len(values) - 1) * stats.sem(values)
    return mean, float(mean - half), float(mean + half)


def weighted_slope(
    x: np.ndarray, y: np.ndarray, error: np.ndarray, alpha: float, dof: float = np.inf
) -> tuple[float, float, float]:
    """Slope of y on x with standard errors of y, each of `dof` degrees of freedom, and its interval.

    Where the points scatter about the line by more than their errors (chi-square above its degrees of freedom), the
    interval is widened in proportion.
    """
    design = np.stack([np.ones_like(x), x], axis=1) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    estimate = covariance @ design.T @ (y / error)
    free = len(x) - 2
    excess = np.sum((y / error - design @ estimate) ** 2) / free if free > 0 else 1.0
    half = stats.t.ppf(1 - alpha / 2, dof) * np.sqrt(covariance[1, 1] * max(excess, 1.0))
    return float(estimate[1]), float(estimate[1] - half), float(estimate[1] + half)
