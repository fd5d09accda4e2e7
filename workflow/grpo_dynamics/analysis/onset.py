"""Where in a run something began: running means, first steps beyond a threshold, and falls from a best level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.ndimage import uniform_filter1d

WINDOW = 9  # rows of a running mean
MOST = 0.75
LOST = 1 / 3  # of a fall, from which it counts as begun: less would be within the noise of many a plateau


def running(values: np.ndarray) -> np.ndarray:
    """Centred running mean over `WINDOW` rows, fewer at the ends and in a short series."""
    window = min(WINDOW, max(len(values) // 3, 1))
    weights = uniform_filter1d(np.ones(len(values)), window, mode="constant")
    return uniform_filter1d(np.asarray(values, float), window, mode="constant") / weights


def first_beyond(step: np.ndarray, beyond: np.ndarray) -> float:
    """First step from which `beyond` is true in most rows (three quarters); else the first at all, NaN without any."""
    if not beyond.any():
        return float("nan")
    share_from = np.cumsum(beyond[::-1])[::-1] / np.arange(len(beyond), 0, -1)
    lasting = beyond & (share_from >= MOST)
    return float(step[np.argmax(lasting if lasting.any() else beyond)])


@dataclass(frozen=True)
class Fall:
    """A fall from the best to the last level of a series.

    Attributes
    ----------
    value, low, high : float
        (best - end) / (best - floor), and its interval.
    best, end : float
        Mean of the best window, and of the last rows.
    top : int
        Index of the last row before `since` that is at the best level or above it.
    since : int
        Index of the row from which a third of the fall is lost.
    """

    value: float
    low: float
    high: float
    best: float
    end: float
    top: int
    since: int


def fall(y: np.ndarray, floor: float, level: float) -> Fall | None:
    """Compare the last sixth of a series with its best earlier window; None if that is not above `floor`.

    Windows of a sixth, a twelfth and a 24th of the series are tried, and the fall that is surest is returned. The noise
    is that of the second differences (by their median, so that the fall itself does not count); the interval allows for
    the choice among windows (Bonferroni over those that do not overlap).

    Parameters
    ----------
    y : (n,) array
        n of 4 or more.
    floor : float
        Lowest level.
    level : float
        Of the interval.
    """
    n = len(y)
    second = np.diff(y, 2)
    noise = 1.4826 * float(np.median(np.abs(second))) or float(np.std(second))
    noise /= np.sqrt(6)  # variance of a second difference of independent values, in theirs
    widths = sorted({max(n // parts, 2) for parts in (6, 12, 24)})
    tests = sum(n // width for width in widths)
    # A median of absolute values is worth 0.37 of the values it is taken from.
    t = float(stats.t.ppf(1 - (1 - level) / 2 / tests, max(0.37 * (n - 2), 1)))
    found, last = [], max(widths)
    end = float(y[-last:].mean())
    for width in widths:
        earlier = np.convolve(y[:-last], np.full(width, 1 / width), "valid")
        place = int(np.argmax(earlier))
        best = float(earlier[place])
        if best - floor > 1e-9 * max(abs(best), abs(floor)):  # beyond the rounding of a mean of equal values
            half = t * noise * np.sqrt(1 / width + 1 / last)
            ends = ((best - end + side * half) / (best - floor) for side in (-1, 1))
            began = _began(y, place + width, best, end)
            found.append(Fall((best - end) / (best - floor), *ends, best, end, *began))
    return max(found, key=lambda one: one.low, default=None)


def _began(y: np.ndarray, after: int, best: float, end: float) -> tuple[int, int]:
    """(top, since) of a fall whose best window ends before the row `after`.

    The best window lies anywhere on a plateau, so the fall begins later: at the row that has most above the level at
    which a third of the fall is lost before it, and most below from it on (the largest cumulative sum).
    """
    above = np.cumsum(y[after:] - (best - LOST * (best - end)))
    since = after + int(np.argmax(np.r_[0.0, above[:-1]]))
    reached = min(best, float(y[:after].max()))  # the mean of equal values may exceed them by rounding
    return int(np.flatnonzero(y[:since] >= reached)[-1]), since
