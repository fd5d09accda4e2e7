"""What the bandit's figures share: names of the lag schedules, looks of an ordered parameter, axes and error bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from grpo_dynamics.figures.style import COLORS, MARKERS, MEASURED, PREDICTED, Look

SCHEDULES = {
    "fixed_lag": "fixed lag",
    "periodic": "periodic refresh",
    "importance_corrected": "periodic, importance-corrected",
}
EXACT = COLORS[0]
MARK = {"color": MEASURED, "markersize": 3.5, "markeredgewidth": 0.8}
CLOSED_FORM = {"color": PREDICTED, "linestyle": (0, (4, 2)), "linewidth": 1.4}  # the closed form and leading orders


def schedules_of(table: pd.DataFrame) -> list[str]:
    """Lag schedules that a table holds, in the order of every figure."""
    return [name for name in SCHEDULES if name in set(table["schedule"])]


def ordered_palette(values: Iterable[float]) -> dict[float, Look]:
    """One look per value of an ordered parameter (mu, or a long sweep of G): the smallest dark, the largest light.

    The order survives in grey, and markers tell the values apart without any colour.
    """
    ranked = sorted(set(values))
    colors = sns.color_palette("viridis", as_cmap=True)(np.linspace(0, 0.78, max(2, len(ranked))))
    return {value: Look(tuple(colors[index]), MARKERS[index % len(MARKERS)], "-") for index, value in enumerate(ranked)}


def errors(value: pd.Series, low: pd.Series, high: pd.Series) -> np.ndarray:
    """Lengths of the error bars below and above `value`, shape (2, n), for Axes.errorbar."""
    return np.array([value - low, high - value], dtype=float)


def octave_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make x logarithmic with ticks at the powers of 2 that the values span, or at the values where these are few."""
    low, high = min(values), max(values)
    powers = [2**n for n in range(31) if low <= 2**n <= high]
    ticks = powers if len(powers) > 1 else sorted(set(values))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def ratio_axis(axes: Axes, low: float, high: float) -> None:
    """Make y logarithmic from `low` to `high`, with ticks written as plain numbers."""
    axes.set(yscale="log", ylim=(low, high))
    if high / low < 5:
        locator = MaxNLocator(6, steps=[1, 2, 5, 10])
    else:
        locator = LogLocator(subs=(1, 2, 5) if high / low < 200 else (1,), numticks=20)
    axes.yaxis.set_major_locator(locator)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def key(label: str, **look) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **look)
