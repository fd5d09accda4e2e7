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
        1, len(models), figsize=(style.PAGE, 1.6 + 0.28 * len(order)), sharex=True, sharey=True, squeeze=False
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
        axes.set_title(f"{labels[model]}\n{_in_words(summary[summary['model'] == model])}", loc="left")
        axes.set_xlabel("gain in accuracy")
        axes.axhspan(-0.5, int((order == 0).sum()) - 0.5, color="#eeeeee", zorder=0)
    first = grid[0, 0]
    first.set_yticks(
        range(len(order)), [f"{style.benchmark_name(name)}  ({distance})" for name, distance in order.items()]
    )
    first.set_ylim(len(order) - 0.5, -0.5)
    first.set_ylabel("benchmark (distance)")
    handles, names = first.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(handles))
    seeds, level = int(gains["seeds"].min()), f"{100 * (1 - alpha):g} %"
    runs, problems = style.span(gains["seeds"]), style.span(gains["items"])
    over = "runs and problems" if seeds > 1 else "problems alone (one seed)"
    style.note(
        figure,
        f"Runs per model and G: {runs}; problems per benchmark: {problems}. Bars: {level} paired intervals over "
        f"{over}, for the base model as given. Grey: the training task. [ ]: intervals of the same level. "
        "Distance: place in the config's list, set before any result. out / in: mean gain out of distribution / gain "
        "in distribution, each the mean over G. "
        "rank: Spearman correlation of gain (mean over G) and distance; p: share of all orders of the benchmarks that "
        "fall as much, Holm over models.",
    )
    return figure


def _in_words(row: pd.DataFrame) -> str:
    """Robustness and rank correlation of a model, each with its interval, and the permutation test's p-value."""
    lines = []
    for name, prefix, what in (("robustness", "robustness", "out / in"), ("rank_correlation", "rank", "rank")):
        if row.empty or not np.isfinite(row[name].iloc[0]):
            lines.append(f"{what}: none")
            continue
        value, low, high = row[[name, f"{prefix}_low", f"{prefix}_high"]].iloc[0]
        lines.append(f"{what} {value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if np.isfinite(low) else ""))
    if not row.empty and np.isfinite(row["rank_p_holm"].iloc[0]):
        lines.append(f"p = {row['rank_p_holm'].iloc[0]:.2g}")
    return "\n".join(lines)
