"""Moving-block bootstrap of a fit: refits to the fitted curve plus blocks of its residuals.

Residuals are divided by their local standard deviation before their blocks are moved and multiplied by that of their
new place after, since a reward's noise changes along the rise; blocks keep the autocorrelation (Kuensch 1989). What a
fit with p parameters takes out of n residuals is given back by the factor sqrt(n / (n - p)).
"""

from __future__ import annotations

import numpy as np

from grpo_dynamics.analysis import kernels
from grpo_dynamics.analysis.fits import Fit
from grpo_dynamics.analysis.noise import local_variance
from grpo_dynamics.analysis.problem import named_all


def resample(fit: Fit, replicates: int, block_length: int, seed: int) -> np.ndarray:
    """(replicates, n) series: the fitted curve with moved blocks of residuals."""
    residuals, n = fit.residuals, len(fit.residuals)
    if not np.any(residuals):
        return np.tile(fit.fitted, (replicates, 1))
    length = min(block_length, n)
    spread = np.sqrt(local_variance(residuals))
    z = residuals / spread
    z = (z - z.mean()) * np.sqrt(n / max(n - len(fit.u), 1))
    first = np.random.default_rng(seed).integers(0, n - length + 1, size=(replicates, -(-n // length)))
    places = (first[:, :, None] + np.arange(length)).reshape(replicates, -1)[:, :n]
    return fit.fitted + spread * z[places]


def bootstrap_intervals(
    fit: Fit, replicates: int, block_length: int, level: float, seed: int
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of all parameters.

    Parameters
    ----------
    fit : Fit
    replicates : int
        Refits, each from the fit itself.
    block_length : int
        Rows per block.
    level : float
        Such as 0.95.
    seed : int

    Returns
    -------
    dict
        (low, high) by parameter. For w0 and zeta, 0 and inf stand for ends at a bound of the search in zeta.
    """
    p = fit.problem
    series = resample(fit, replicates, block_length, seed)
    found = kernels.refit(p.code, fit.u, p.t, p.width, series, p.lower, p.upper, *p.limits)
    ends = [(1 - level) / 2, (1 + level) / 2]
    intervals = {}
    for name, values in named_all(p, found).items():
        low, high = np.quantile(values, ends)
        intervals[name] = (float(low), float(high))
    if "zeta" in intervals:
        smallest, largest = np.exp([p.lower[3], p.upper[3]])
        low, high = intervals["zeta"]
        opened = (low < smallest * 1.001, high > largest * 0.999)
        for name in ("zeta", "w0"):
            low, high = intervals[name]
            intervals[name] = (0.0 if opened[0] else low, float("inf") if opened[1] else high)
    return intervals
