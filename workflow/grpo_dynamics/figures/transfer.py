"""Gains on all benchmarks, ordered by their distance from the training task (claims C6, C7, C8)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from grpo_dynamics.figures import style


def transfer(gains: pd.DataFrame, summary: pd.DataFrame, labels: Mapping[str, str], alpha: float) -> Figure:
    """A panel per model: the gain on each benchmark with its interval, for every group size.

    Parameters
    ----------
    gains, summary : DataFrame
        TRANSFER and TRANSFER_SUMMARY.
    labels : mapping
        Printed name of every model, in the order of the panels.
    alpha : float
        The intervals in `gains` have level 1 - alpha.
    """
    models = [model for model in labels if (gains["model"] == model).any()]
    sizes = sorted(int(size) for size in gains["G"].unique())
    looks = style.g_palette(sizes)
    order = gains.groupby("benchmark")["distance"].first().sort_values()
    place = {benchmark: index for index, benchmark in enumerate(order.index)}
    figure, grid = plt.subplots(
        1, len(models), figsize=(style.PAGE, 1.3 + 0.28 * len(order)), sharex=True, sharey=True, squeeze=False
    )
    offsets = np.linspace(-0.18, 0.18, len(sizes)) if len(sizes) > 1 else [0.0]
    for axes, model in zip(grid[0], models, strict=True):
        axes.axvline(0, color=style.NEUTRAL, linewidth=0.8)
        for size, offset in zip(sizes, offsets, strict=True):
            rows = gains[(gains["model"] == model) & (gains["G"] == size)]
            y = rows["benchmark"].map(place).to_numpy(float) + offset
            error = np.abs(rows[["low", "high"]].to_numpy(float).T - rows["gain"].to_numpy(float))
            axes.errorbar(
                rows["gain"],
                y,
                xerr=None if np.isnan(error).all() else error,
                fmt=looks[size].marker,
                color=looks[size].color,
                markersize=3.5,
                linewidth=0.9,
                label=f"G = {size}",
            )
        axes.set_title(f"{labels[model]}\n{_robustness(summary[summary['model'] == model])}", loc="left")
        axes.set_xlabel("gain in accuracy")
        axes.axhspan(-0.5, int((order == 0).sum()) - 0.5, color="#eeeeee", zorder=0)
    first = grid[0, 0]
    first.set_yticks(range(len(order)), [f"{name}  ({distance})" for name, distance in order.items()])
    first.set_ylim(len(order) - 0.5, -0.5)
    first.set_ylabel("benchmark (distance)")
    handles, names = first.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(handles))
    seeds, level = int(gains["seeds"].min()), f"{100 * (1 - alpha):g} %"
    over = "problems and runs" if seeds > 1 else "problems alone (one seed)"
    style.note(figure, f"Bars: {level} paired bootstrap intervals over {over}. Grey: the training task.")
    return figure


def _robustness(row: pd.DataFrame) -> str:
    if row.empty or not np.isfinite(row["robustness"].iloc[0]):
        return "no gain in distribution"
    value, low, high = row[["robustness", "robustness_low", "robustness_high"]].iloc[0]
    text = f"out / in = {value:.2f}"
    return text + (f" [{low:.2f}, {high:.2f}]" if np.isfinite(low) else "")
