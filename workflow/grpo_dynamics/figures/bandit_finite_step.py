"""Figure of the softmax bandit that shows where the second-order expansion of the update breaks down."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from grpo_dynamics.figures.bandit_looks import key, ordered_palette
from grpo_dynamics.figures.style import NEUTRAL, PAGE, Look

_BAND = 0.1  # an error of this size is shaded, as a guide to the eye
_SHADE = "#ececec"
_REACH = 1.2  # largest error that a panel shows


def _error(axes: Axes, part: pd.DataFrame, quantity: str, look: Look) -> None:
    """Relative error of the closed form: markers against the simulation, a line against the linear update."""
    closed, exact, measured = (part[f"{quantity}_{source}"] for source in ("closed", "exact", "measured"))
    axes.plot(part["share"], closed / exact - 1, color=look.color, linewidth=1.0)
    axes.plot(part["share"], closed / measured - 1, color=look.color, marker=look.marker, markersize=3.5, linestyle="")


def _limits(axes: Axes) -> tuple[float, float]:
    """Limits of y that hold all that is drawn, the band with a margin, and no error beyond the reach."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines])
    drawn = np.clip(drawn[np.isfinite(drawn)], -_REACH, _REACH)
    low, high = min(drawn.min(initial=0), -_BAND), max(drawn.max(initial=0), _BAND)
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def finite_step(table: pd.DataFrame) -> Figure:
    """Error of the second-order expansion against the share of the stability threshold that a = eta K takes.

    A column per K_ref, a look per mu. Rows: relative error of the decay rate; of the frequency, where the closed form,
    the exact linear update and the simulation all oscillate; largest distance of the law from the simulated e/e(0).

    Parameters
    ----------
    table : DataFrame
        bandit/finite_step.csv (schema bandit.tables.FINITE_STEP).
    """
    K_refs = sorted(table["K_ref"].unique())
    looks = ordered_palette(table["mu"])
    figure, grid = plt.subplots(3, len(K_refs), figsize=(PAGE, 5.8), sharex=True, sharey="row", squeeze=False)
    for K_ref, (rate, frequency, distance) in zip(K_refs, grid.T, strict=True):
        for mu, look in looks.items():
            part = table[(table["K_ref"] == K_ref) & (table["mu"] == mu)].sort_values("share")
            _error(rate, part, "rate", look)
            oscillating = (part.filter(like="frequency_") > 0).all(axis=1)
            _error(frequency, part[oscillating], "frequency", look)
            distance.plot(
                part["share"],
                part["max_abs_difference"],
                color=look.color,
                marker=look.marker,
                markersize=3.5,
                linewidth=1.0,
            )
        rate.set_title(f"$K_{{ref}}$ = {K_ref}")
    for row in grid:
        lows, highs = zip(*(_limits(axes) for axes in row), strict=True)
        for axes in row:
            axes.axhspan(-_BAND, _BAND, color=_SHADE, linewidth=0, zorder=0)
            axes.axhline(0, color=NEUTRAL, linewidth=0.8)
            axes.axvline(1, color=NEUTRAL, linewidth=0.8, linestyle=":")
        row[0].set_ylim(min(lows), max(highs))
        row[0].yaxis.set_major_formatter(PercentFormatter(1))
    grid[2, 0].set_ylim(bottom=0)
    labels = (
        "decay rate:\nerror of the closed form",
        "frequency:\nerror of the closed form",
        "largest distance of the\nlaw, share of $e(0)$",
    )
    for axes, label in zip(grid[:, 0], labels, strict=True):
        axes.set_ylabel(label)
    figure.align_ylabels(grid[:, 0])
    figure.supxlabel(r"$a = \eta K$ over the closed form's stability threshold $(1 - \mu)/K_{ref}$", fontsize=8)
    handles = [
        key(rf"$\mu$ = {mu:g}", color=look.color, marker=look.marker, markersize=3.5, linewidth=1.0)
        for mu, look in looks.items()
    ]
    handles += [
        key("against the simulation", color=NEUTRAL, marker="o", markersize=3.5, linestyle=""),
        key("against the exact linear update", color=NEUTRAL, linewidth=1.0),
        Patch(facecolor=_SHADE, edgecolor=NEUTRAL, linewidth=0.4, label=f"within {100 * _BAND:g} %"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
