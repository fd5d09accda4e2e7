"""How well a predicted trajectory agrees with the runs made for it: R^2, time to half-rise and reward at the end.

Rewards of neighbouring steps go together. Intervals of R^2 and of its difference between two predictions are therefore
percentiles of a moving-block bootstrap over steps (Kuensch 1989, Ann. Statist. 17, 1217), circular, so that every step
is drawn equally often. What is drawn are the squared errors, of two predictions at the same steps; the total sum of
squares, which is the scale of R^2, stays that of the series. These intervals say how far a score depends on which steps
were seen, take the prediction as given, and do not know of other seeds: for them stand the scores of single runs. The
interval of the time to half-rise is a jackknife over seeds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from grpo_dynamics.analysis.intervals import r_squared, t_interval

NAN = float("nan")
Array = NDArray[np.float64]


def block_length(n: int, length: int | None = None) -> int:
    """Steps in a block: `length`, or the rule n^(1/3) rounded up, and no more than there are."""
    return min(n, length or int(np.ceil(n ** (1 / 3))))


def resampled(n: int, length: int, replicates: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of `replicates` series of n steps made of blocks of `length` consecutive steps, (replicates, n)."""
    first = rng.integers(0, n, (replicates, -(-n // length)))
    return ((first[..., np.newaxis] + np.arange(length)) % n).reshape(replicates, -1)[:, :n]


def percentiles(values: Array, alpha: float) -> tuple[float, float]:
    """The interval of level 1 - alpha between percentiles of bootstrap replicates; NaN ones are left out."""
    if not np.isfinite(values).any():
        return NAN, NAN
    low, high = np.nanquantile(values, [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def crossing(t: Array, y: Array, level: float) -> float:
    """First time at which y has reached `level` from below, by linear interpolation; NaN if never."""
    above = np.flatnonzero(y >= level)
    if not above.size:
        return NAN
    i = above[0]
    if i == 0:
        return float(t[0])
    return float(t[i - 1] + (level - y[i - 1]) / (y[i] - y[i - 1]) * (t[i] - t[i - 1]))


def smoothed(y: Array, width: int) -> Array:
    """Centred running mean over `width` rewards along the last axis, over those there are at the ends."""
    total = np.concatenate([np.zeros((*y.shape[:-1], 1)), np.cumsum(y, axis=-1)], axis=-1)
    at = np.arange(y.shape[-1])
    last, first = np.minimum(at + width // 2 + 1, y.shape[-1]), np.maximum(at - (width - 1) // 2, 0)
    return (total[..., last] - total[..., first]) / (last - first)


def left_out(runs: Array) -> Array:
    """The means of (runs, n) rewards without one run each, (runs, n)."""
    return (runs.sum(axis=0) - runs) / (len(runs) - 1)


def half_rise(t: Array, runs: Array, predicted: float, level: float, width: int, alpha: float) -> dict[str, float]:
    """Measured time to `level`, and the logarithm of predicted over measured with its jackknife interval over runs.

    Parameters
    ----------
    t : (n,) array
        Steps.
    runs : (runs, n) array
        Rewards; their mean, smoothed over `width` rewards, is what is measured.
    predicted : float
        Predicted time, steps.
    level : float
        Reward that counts as half of the way.
    width : int
    alpha : float
        The interval has level 1 - alpha; there is none for one run, or where the mean without one run does not reach
        the level.
    """
    measured = crossing(t, smoothed(runs.mean(axis=0), width), level)
    found = {"half_rise_measured": measured, "log_ratio": NAN, "log_ratio_low": NAN, "log_ratio_high": NAN}
    if not (measured > 0 and predicted > 0):
        return found
    ratio = float(np.log(predicted / measured))
    found["log_ratio"] = ratio
    n = len(runs)
    if n > 1:
        others = np.array([crossing(t, part, level) for part in smoothed(left_out(runs), width)])
        with np.errstate(divide="ignore", invalid="ignore"):
            others = np.log(others)
        error = np.sqrt((n - 1) / n * np.sum((others - others.mean()) ** 2))
        if np.isfinite(error):
            half = stats.t.ppf(1 - alpha / 2, n - 1) * error
            found |= {"log_ratio_low": ratio - half, "log_ratio_high": ratio + half}
    return found


def scores(
    t: Array, runs: Array, predicted: Array, naive: Array | None, steps: NDArray[np.int64], alpha: float, joint: float
) -> dict[str, float]:
    """Scores of a prediction on the runs of a cell, as columns of RUN_PREDICTIONS.

    Parameters
    ----------
    t : (n,) array
        Steps.
    runs : (runs, n) array
        Rewards.
    predicted : (n,) array
    naive : (n,) array or None
        The prediction that it is compared with; None: no comparison.
    steps : (replicates, n) array of int
        The bootstrap's steps, as from `resampled`.
    alpha, joint : float
        Intervals have level 1 - alpha, that of the gain 1 - joint.
    """
    mean = runs.mean(axis=0)
    r2, own = r_squared(mean, predicted), r_squared(runs, predicted)
    # n squared errors over the total sum of squares; their sum over the series is 1 - R^2.
    scale = float(np.sum((mean - mean.mean()) ** 2)) or NAN
    errors = (mean - predicted) ** 2 / scale
    last = t > t[-1] - (t[-1] - t[0]) / 10
    end, end_low, end_high = t_interval(runs[:, last].mean(axis=1), alpha)
    found = {
        "r2": float(r2),
        **dict(zip(("r2_low", "r2_high"), percentiles(1 - errors[steps].sum(axis=1), alpha), strict=True)),
        "r2_run_low": float(own.min()),
        "r2_run_high": float(own.max()),
        "rmse": float(np.sqrt(np.mean((mean - predicted) ** 2))),
        "end_predicted": float(predicted[last].mean()),
        "end_measured": end,
        "end_low": end_low,
        "end_high": end_high,
    }
    if naive is not None:
        gains = ((mean - naive) ** 2 / scale - errors)[steps].sum(axis=1)
        found |= {
            "gain": float(r2 - r_squared(mean, naive)),
            **dict(zip(("gain_low", "gain_high"), percentiles(gains, joint), strict=True)),
            "runs_better": int(np.sum(own > r_squared(runs, naive))),
        }
    return found
