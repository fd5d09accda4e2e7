"""Reward at the smallest and the largest group size, and what else G changes (claims C3, C4, C5, B3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from grpo_dynamics.analysis.series import each_run, train_reward
from grpo_dynamics.analysis.tables_groups import COMPARISONS, EQUAL_COMPLETIONS, EQUAL_PROMPTS, VARIANT
from grpo_dynamics.figures import style

WINDOW = 9  # steps of the running mean that the curves show
COLORS = {EQUAL_COMPLETIONS: style.MEASURED, EQUAL_PROMPTS: "#b35806"}
DASHES = {EQUAL_COMPLETIONS: "-", EQUAL_PROMPTS: (0, (1, 1))}
RATIOS = {
    "scatter_raw": "scatter",
    "scatter": "scatter, no noise",
    "half_rise": "half-rise",
    "half_rise_adam": "half-rise, Adam",
    "spread": "std in groups",
    "variance": "variance in groups",
}
REACH = (0.1, 10.0)  # of the axis of the ratios


class Curve(NamedTuple):
    """Time, mean over seeds, standard error over seeds, and the number of seeds, of one cell."""

    t: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    n: int


def curve(cell: pd.DataFrame) -> Curve:
    """Mean over the seeds of one cell, after a running mean within each run."""
    curves = []
    for _, run in each_run(cell):
        t, y = train_reward(run)
        curves.append(pd.Series(y, index=t).rolling(WINDOW, center=True, min_periods=WINDOW // 2 + 1).mean())
    table = pd.concat(curves, axis=1, join="inner").sort_index().dropna()
    error = table.sem(axis=1) if len(curves) > 1 else table.mean(axis=1) * np.nan
    return Curve(table.index.to_numpy(float), table.mean(axis=1).to_numpy(), error.to_numpy(), len(curves))


def difference(low: Curve, high: Curve, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time, high - low, and half the width of Welch's interval at each step on its own (NaN for one seed)."""
    shared, at_low, at_high = np.intersect1d(low.t, high.t, return_indices=True)
    half = np.full(len(shared), np.nan)
    if min(low.n, high.n) > 1:
        a, b = low.error[at_low] ** 2, high.error[at_high] ** 2
        dof = (a + b) ** 2 / np.maximum(a**2 / (low.n - 1) + b**2 / (high.n - 1), 1e-300)
        half = stats.t.ppf(1 - alpha / 2, np.maximum(dof, 1)) * np.sqrt(a + b)
    return shared, high.mean[at_high] - low.mean[at_low], half


def group_size(
    runs: pd.DataFrame,
    variants: pd.DataFrame,
    comparison: pd.DataFrame,
    labels: Mapping[str, str],
    alpha: float,
    margin: float,
) -> Figure:
    """Per model (column): mean rewards, their differences with the margin, and ratios over their expectations.

    A study of one group size gets the one mean and no other row.

    Parameters
    ----------
    runs, variants, comparison : DataFrame
        RUN_LOG, VARIANT_LOG and GROUP_SIZE.
    labels : mapping
        Printed name of every model, in the order of the columns.
    alpha : float
        Intervals have level 1 - alpha and hold at each step, and for each ratio, on their own.
    margin : float
        Largest difference that counts as equal.
    """
    models = [model for model in labels if (runs["model"] == model).any()]
    sizes = sorted(int(size) for size in runs["G"].unique())
    ends = sorted({sizes[0], sizes[-1]})
    looks = style.g_palette(sizes)
    heights = [3, 2, 2][: 3 if len(ends) == 2 else 1]
    figure, grid = plt.subplots(
        len(heights),
        len(models),
        figsize=(style.PAGE, (1.8 if len(ends) == 2 else 1.2) + 0.62 * sum(heights)),
        sharex="row",
        sharey="row",
        squeeze=False,
        height_ratios=heights,
    )
    seeds, reach, widest = [], [0.15], [0.0]
    for column, model in zip(grid.T, models, strict=True):
        cells = {(EQUAL_COMPLETIONS, G): runs[(runs["model"] == model) & (runs["G"] == G)] for G in ends}
        equal = variants[(variants["variant"] == VARIANT) & (variants["model"] == model) & (variants["G"] == ends[0])]
        if len(equal) and len(ends) == 2:
            cells[EQUAL_PROMPTS, ends[0]] = equal.drop(columns="variant")
        curves = {key: curve(cell) for key, cell in cells.items()}
        for (which, G), found in curves.items():
            seeds.append(found.n)
            color = looks[G].color if which == EQUAL_COMPLETIONS else COLORS[EQUAL_PROMPTS]
            dashes = looks[G].linestyle if which == EQUAL_COMPLETIONS else DASHES[EQUAL_PROMPTS]
            text = f"G = {G}, {int(cells[which, G]['groups'].median())} prompts"
            column[0].plot(found.t, found.mean, color=color, linestyle=dashes, label=text)
            if found.n > 1:
                half = stats.t.ppf(1 - alpha / 2, found.n - 1) * found.error
                column[0].fill_between(
                    found.t, found.mean - half, found.mean + half, color=color, alpha=0.15, linewidth=0
                )
        column[0].set_title(labels[model], loc="left")
        column[min(1, len(heights) - 1)].set_xlabel("optimiser steps made")
        if len(ends) == 2:
            needed, band = _differences(column[1], curves, ends, alpha, margin)
            reach.append(needed)
            widest.append(band)
            _ratios(column[2], comparison[comparison["model"] == model])
    grid[0, 0].set_ylabel("training reward")
    grid[0, 0].set_ylim(-0.02, 1.02)
    grid[0, 0].legend(loc="lower right", fontsize=6.5, handlelength=1.8)
    if len(ends) == 2:
        grid[1, 0].set_ylabel(f"G = {ends[1]}\nminus G = {ends[0]}")
        grid[1, 0].set_ylim(-max(reach), max(reach))
        shown = [which for which in COMPARISONS if (comparison["comparison"] == which).any()]
        keys = [Line2D([], [], color=COLORS[which], linestyle=DASHES[which], **_mark(which), label=which)
                for which in shown]  # fmt: skip
        # Above the panel, since bands can fill it. An empty title holds the room: the legend is wider than the panel
        # and would push the columns apart.
        grid[1, 0].set_title(" ", fontsize=6.5)
        legend = grid[1, 0].legend(
            handles=keys, loc="lower left", bbox_to_anchor=(-0.03, 1.0), ncols=2, fontsize=6.5, handlelength=2.4,
            columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
        legend.set_in_layout(False)
        grid[2, 0].set_yticks(range(len(RATIOS)), RATIOS.values())
        grid[2, 0].set_ylim(len(RATIOS) - 0.4, -0.6)
    level = f"{100 * (1 - alpha):g} %"
    text = _note_on_curves(seeds, level)
    if len(ends) == 2:
        text += f" Grey, dashed: differences within +-{margin:g}, which count as equal."
        if max(widest) > max(reach):
            text += f" The middle axis ends at +-{max(reach):.2g}: wider bands are cut."
        text += _note_on_ratios(comparison, labels, level)
    style.note(figure, text)
    return figure


def _note_on_curves(seeds: Collection[int], level: str) -> str:
    text = f"Runs per cell: {style.span(seeds)}. Running mean over {WINDOW} batches within each run; "
    if min(seeds) > 1:
        return f"{text}bands: {level} t interval over seeds at each step."
    return f"{text}one seed in a cell: drawn without intervals."


def _note_on_ratios(comparison: pd.DataFrame, labels: Mapping[str, str], level: str) -> str:
    text = (
        f"\nBottom: ratio (smallest over largest G) / expected one from exact finite-group sums, {level} intervals; "
        "arrows: beyond the axis, or open. Scatter: variance between runs, mean over tenths of the run; no noise: less "
        "what the sampling noise of the batches makes of it. Half-rise: steps to half of the rise; Adam: expected with "
        "Adam's normalisation."
    )
    rows = comparison[comparison["model"].isin(list(labels)) & comparison["quantity"].isin(list(RATIOS))]
    rows = rows.assign(note=rows["note"].fillna(""), drawn=np.isfinite(rows["effect"]))
    rows = rows[(rows["note"] != "") | ~rows["drawn"]]
    for (drawn, model, which, note), these in rows.groupby(["drawn", "model", "comparison", "note"], sort=False):
        names = "; ".join(RATIOS[quantity] for quantity in these["quantity"])
        text += f"\n{'Limited' if drawn else 'No'} point for {labels[model]} at {which}: {names}"
        text += f" ({note})." if note else "."
    return text


def _mark(which: str) -> dict:
    """Marker of a comparison: filled at equal completions, open at equal prompts."""
    return {
        "marker": "o",
        "markersize": 3.5,
        "markerfacecolor": COLORS[which] if which == EQUAL_COMPLETIONS else "white",
    }


def _differences(axes: Axes, curves: Mapping, ends: list[int], alpha: float, margin: float) -> tuple[float, float]:
    """Draw the differences, bands and margin; returns how far from 0 the axis should reach, and the bands do."""
    axes.axhspan(-margin, margin, color=style.NEUTRAL, alpha=0.15, linewidth=0)
    for edge in (-margin, margin):
        axes.axhline(edge, color=style.NEUTRAL, linewidth=0.6, linestyle=(0, (3, 2)))
    reach = widest = 0.0
    for which in COMPARISONS:
        if (which, ends[0]) not in curves:
            continue
        t, value, half = difference(curves[which, ends[0]], curves[EQUAL_COMPLETIONS, ends[1]], alpha)
        color = COLORS[which]
        axes.plot(t, value, color=color, linestyle=DASHES[which], label=which)
        axes.fill_between(t, value - half, value + half, color=color, alpha=0.12, linewidth=0)
        reach = max(reach, 1.3 * float(np.max(np.abs(value), initial=0.0)))  # the means', as bands can be far wider
        widest = max(widest, float(np.nanmax(np.abs(value) + half, initial=0.0)))
    return min(reach, 1.0), widest


def _ratios(axes: Axes, rows: pd.DataFrame) -> None:
    """Each ratio over its expectation, with its interval, filled at equal completions and open at equal prompts."""
    axes.axvline(1, color=style.NEUTRAL, linewidth=0.6)
    axes.set_xscale("log")
    axes.set_xlim(*REACH)
    axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    axes.minorticks_off()
    axes.set_xlabel("ratio / expected ratio")
    for which, shift in zip(COMPARISONS, (-0.17, 0.17), strict=True):
        for place, quantity in enumerate(RATIOS):
            row = rows[(rows["comparison"] == which) & (rows["quantity"] == quantity)]
            if row.empty or not np.isfinite(row["effect"].iloc[0]):
                continue
            value, low, high = (row[["effect", "low", "high"]].iloc[0] / row["expected"].iloc[0]).astype(float)
            y, color = place + shift, COLORS[which]
            if np.isfinite(low):
                axes.plot([max(low, REACH[0]), min(high, REACH[1])], [y, y], color=color, linewidth=1)
            for beyond, end, marker in ((low < REACH[0], REACH[0], "<"), (high > REACH[1], REACH[1], ">")):
                if beyond:
                    axes.plot(end, y, marker, color=color, markersize=3.5, clip_on=False)
            axes.plot(np.clip(value, *REACH), y, color=color, **_mark(which))
