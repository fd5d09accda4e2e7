"""Reward at the smallest and the largest group size (claims C3, C4, C5)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
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
    """Per model (column): mean reward at both G with its interval over seeds, and below it the difference.

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
    ends = (sizes[0], sizes[-1])
    looks = style.g_palette(sizes)
    figure, grid = plt.subplots(
        2, len(models), figsize=(style.PAGE, 3.9), sharex=True, sharey="row", squeeze=False, height_ratios=[3, 2]
    )
    fewest = np.inf
    for (top, bottom), model in zip(grid.T, models, strict=True):
        bands = {}
        for size in ends:
            t, mean, error, n = band(runs[(runs["model"] == model) & (runs["G"] == size)])
            bands[size] = (t, mean, error, n)
            fewest = min(fewest, n)
            top.plot(t, mean, color=looks[size].color, linestyle=looks[size].linestyle, label=f"G = {size}")
            if n > 1:
                half = stats.t.ppf(1 - alpha / 2, n - 1) * error
                top.fill_between(t, mean - half, mean + half, color=looks[size].color, alpha=0.18, linewidth=0)
        _difference(bottom, bands[ends[0]], bands[ends[1]], alpha)
        rows = comparison[comparison["model"] == model].set_index("quantity")
        top.set_title(labels[model], loc="left")
        top.text(
            0.98, 0.04, _plateau(rows.loc["plateau"]), transform=top.transAxes, ha="right", va="bottom", fontsize=6.5
        )
        bottom.set_xlabel("optimiser steps made")
    grid[0, 0].set_ylabel("training reward")
    grid[0, 0].set_ylim(-0.02, 1.02)
    grid[1, 0].set_ylabel(f"G = {ends[1]} minus G = {ends[0]}")
    grid[0, 0].legend(loc="upper left")
    level = f"{100 * (1 - alpha):g} %"
    seeds = (
        f"bands: {level} t interval over seeds at each step"
        if fewest > 1
        else "one seed in a cell: drawn without intervals"
    )
    style.note(figure, f"Running mean over {WINDOW} batches within each run; {seeds}.")
    return figure


def _difference(axes, small: tuple, large: tuple, alpha: float) -> None:
    t, low, low_error, n_low = small
    t_high, high, high_error, n_high = large
    shared, at_low, at_high = np.intersect1d(t, t_high, return_indices=True)
    difference = high[at_high] - low[at_low]
    axes.axhline(0, color=style.NEUTRAL, linewidth=0.6)
    axes.plot(shared, difference, color=style.MEASURED)
    if min(n_low, n_high) > 1:
        a, b = low_error[at_low] ** 2, high_error[at_high] ** 2
        # Welch-Satterthwaite degrees of freedom, step by step.
        dof = (a + b) ** 2 / np.maximum(a**2 / (n_low - 1) + b**2 / (n_high - 1), 1e-300)
        half = stats.t.ppf(1 - alpha / 2, np.maximum(dof, 1)) * np.sqrt(a + b)
        axes.fill_between(shared, difference - half, difference + half, color=style.NEUTRAL, alpha=0.2, linewidth=0)
        axes.set_ylim(-0.45, 0.45)


def _plateau(row: pd.Series) -> str:
    if not np.isfinite(row["effect"]):
        return "plateau not identifiable"
    text = rf"$\Delta R_\infty$ = {row['effect']:+.3f}"
    return text + (f"\n[{row['low']:+.3f}, {row['high']:+.3f}]" if np.isfinite(row["low"]) else "")
