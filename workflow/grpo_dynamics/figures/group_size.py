"""Reward at the smallest and the largest group size (claims C3, C4, C5)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from grpo_dynamics.analysis.series import each_run, train_reward
from grpo_dynamics.figures import style

WINDOW = 9  # steps of the running mean that both rows show


def band(cell: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Time, mean over seeds, standard error over seeds, and seeds, after a running mean within each run."""
    curves = []
    for _, run in each_run(cell):
        t, y = train_reward(run)
        curves.append(pd.Series(y, index=t).rolling(WINDOW, center=True, min_periods=WINDOW // 2 + 1).mean())
    table = pd.concat(curves, axis=1, join="inner").sort_index().dropna()
    error = table.sem(axis=1) if len(curves) > 1 else table.mean(axis=1) * np.nan
    return table.index.to_numpy(float), table.mean(axis=1).to_numpy(), error.to_numpy(), len(curves)


def group_size(runs: pd.DataFrame, comparison: pd.DataFrame, labels: Mapping[str, str], alpha: float) -> Figure:
    """Per model (column): mean reward at the smallest and largest G with its interval, and below it the difference.

    A study of one group size gets the one mean and no row of differences.

    Parameters
    ----------
    runs, comparison : DataFrame
        RUN_LOG and GROUP_SIZE.
    labels : mapping
        Printed name of every model, in the order of the columns.
    alpha : float
        Intervals have level 1 - alpha and hold at each step on its own.
    """
    models = [model for model in labels if (runs["model"] == model).any()]
    sizes = sorted(int(size) for size in runs["G"].unique())
    ends = sorted({sizes[0], sizes[-1]})
    looks = style.g_palette(sizes)
    heights = [3, 2][: len(ends)]
    figure, grid = plt.subplots(
        len(heights),
        len(models),
        figsize=(style.PAGE, 0.9 + 0.6 * sum(heights)),
        sharex=True,
        sharey="row",
        squeeze=False,
        height_ratios=heights,
    )
    fewest, reach = np.inf, 0.0
    for column, model in zip(grid.T, models, strict=True):
        top = column[0]
        bands = {}
        for size in ends:
            t, mean, error, n = band(runs[(runs["model"] == model) & (runs["G"] == size)])
            bands[size] = (t, mean, error, n)
            fewest = min(fewest, n)
            top.plot(t, mean, color=looks[size].color, linestyle=looks[size].linestyle, label=f"G = {size}")
            if n > 1:
                half = stats.t.ppf(1 - alpha / 2, n - 1) * error
                top.fill_between(t, mean - half, mean + half, color=looks[size].color, alpha=0.18, linewidth=0)
        top.set_title(labels[model], loc="left")
        column[-1].set_xlabel("optimiser steps made")
        if len(ends) == 2:
            reach = max(reach, _difference(column[1], bands[ends[0]], bands[ends[1]], alpha))
            row = comparison[(comparison["model"] == model) & (comparison["quantity"] == "plateau")].iloc[0]
            top.text(0.98, 0.04, _plateau(row), transform=top.transAxes, ha="right", va="bottom", fontsize=6.5)
    grid[0, 0].set_ylabel("training reward")
    grid[0, 0].set_ylim(-0.02, 1.02)
    if len(ends) == 2:
        grid[1, 0].set_ylabel(f"G = {ends[1]} minus G = {ends[0]}")
        limit = 1.05 * min(max(reach, 0.05), 1.0)  # rewards in [0, 1] differ by 1 at most, whatever a wide band says
        grid[1, 0].set_ylim(-limit, limit)
    grid[0, 0].legend(loc="upper left")
    level = f"{100 * (1 - alpha):g} %"
    seeds = (
        f"bands: {level} t interval over seeds at each step"
        if fewest > 1
        else "one seed in a cell: drawn without intervals"
    )
    style.note(figure, f"Running mean over {WINDOW} batches within each run; {seeds}.")
    return figure


def _difference(axes: Axes, small: tuple, large: tuple, alpha: float) -> float:
    """Draw the difference with its band; returns how far from 0 they reach."""
    t, low, low_error, n_low = small
    t_high, high, high_error, n_high = large
    shared, at_low, at_high = np.intersect1d(t, t_high, return_indices=True)
    difference = high[at_high] - low[at_low]
    axes.axhline(0, color=style.NEUTRAL, linewidth=0.6)
    axes.plot(shared, difference, color=style.MEASURED)
    half = np.zeros(len(shared))
    if min(n_low, n_high) > 1:
        a, b = low_error[at_low] ** 2, high_error[at_high] ** 2
        # Welch-Satterthwaite degrees of freedom, step by step.
        dof = (a + b) ** 2 / np.maximum(a**2 / (n_low - 1) + b**2 / (n_high - 1), 1e-300)
        half = stats.t.ppf(1 - alpha / 2, np.maximum(dof, 1)) * np.sqrt(a + b)
        axes.fill_between(shared, difference - half, difference + half, color=style.NEUTRAL, alpha=0.2, linewidth=0)
    return float(np.max(np.abs(difference) + half, initial=0.0))


def _plateau(row: pd.Series) -> str:
    if not np.isfinite(row["effect"]):
        return "plateau not identifiable"
    text = rf"$\Delta R_\infty$ = {row['effect']:+.3f}"
    return text + (f"\n[{row['low']:+.3f}, {row['high']:+.3f}]" if np.isfinite(row["low"]) else "")
