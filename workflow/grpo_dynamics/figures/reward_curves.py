"""Reward curves of every cell with the fitted three-phase law and two rivals (claims C1, C2, B5)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grpo_dynamics.analysis.fit_table import fitted_curve
from grpo_dynamics.analysis.series import STUDY, cell_mean, each_run, train_reward
from grpo_dynamics.figures import style

# The curves that are drawn: label and look.
CURVES = {
    "law": ("three-phase law", {"color": style.MEASURED, "linewidth": 1.2}),
    "exponential": ("single exponential", {"color": style.MEASURED, "linewidth": 1.0, "linestyle": (0, (2, 1.5))}),
    "flow_ceiling": (
        "mean-field flow below a ceiling",
        {"color": style.PREDICTED, "linewidth": 1.0, "linestyle": (0, (5, 1, 1, 1))},
    ),
}
SHORT = {"law": "law", "exponential": "exp.", "flow_ceiling": "flow below a ceiling"}


def reward_curves(runs: pd.DataFrame, fits: pd.DataFrame, labels: Mapping[str, str]) -> Figure:
    """A panel per model (row) and group size (column): runs, their mean, the law and two rivals.

    Parameters
    ----------
    runs, fits : DataFrame
        RUN_LOG and FITS.
    labels : mapping
        Printed name of every model, in the order of the rows.
    """
    models = [model for model in labels if (runs["model"] == model).any()]
    sizes = sorted(int(size) for size in runs["G"].unique())
    palette = style.model_palette(list(labels))
    figure, grid = plt.subplots(
        len(models), len(sizes), figsize=(style.PAGE, 0.7 + 1.75 * len(models)), sharex=True, sharey=True, squeeze=False
    )
    for axes_row, model in zip(grid, models, strict=True):
        for axes, size in zip(axes_row, sizes, strict=True):
            cell = runs[(runs["model"] == model) & (runs["G"] == size)]
            rows = fits[(fits["variant"] == STUDY) & (fits["model"] == model) & (fits["G"] == size)]
            _panel(axes, cell, rows, palette[model].color)
            axes.set_title(f"{labels[model]}, G = {size}", loc="left")
    for axes in grid[-1]:
        axes.set_xlabel("optimiser steps made")
    for axes in grid[:, 0]:
        axes.set_ylabel("training reward")
        axes.set_ylim(-0.02, 1.02)
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(handles))
    style.note(figure, _note(runs.groupby(["model", "G"])["seed"].nunique()))
    return figure


def _note(counts: pd.Series) -> str:
    """What the lines are, from the number of runs per cell."""
    text = f"Runs per cell: {style.span(counts)}. Thin lines: single runs as logged"
    fitted = "the one run"
    if counts.max() > 1:
        text += "; thick: their mean, step by step"
        fitted = "the mean over runs" if counts.min() > 1 else "the mean over runs, or to the one run of a cell"
    return (
        f"{text}. Nothing is smoothed, and there are no bands: the single runs show the scatter. Curves are fitted to "
        f"{fitted}; intervals of their parameters stand in the table of fits."
    )


def _panel(axes: Axes, cell: pd.DataFrame, rows: pd.DataFrame, color: str) -> None:
    several = cell["seed"].nunique() > 1
    for index, (_, run) in enumerate(each_run(cell)):
        t, y = train_reward(run)
        axes.plot(t, y, color=color, linewidth=0.5, alpha=style.RAW_ALPHA, label="runs, raw" if index == 0 else None)
    if several:
        t, y = cell_mean(cell)
        axes.plot(t, y, color=color, linewidth=1.0, label="mean over seeds")
    # Without a second seed the mean's fit is the run's own.
    fits = rows[rows["series"] == "mean"].set_index("curve")
    if np.isfinite(fits.loc["law", "r2"]):
        t = np.linspace(t.min(), t.max(), 400)
        for name, (label, look) in CURVES.items():
            axes.plot(t, fitted_curve(name, fits.loc[name], t), label=label, **look)
    # Rewards start low: the upper left corner is free, and the lower right one once they have risen.
    risen = cell.loc[cell["step"] > cell["step"].max() / 2, "reward"].mean() > 0.5
    x, y, ha, va = (0.98, 0.04, "right", "bottom") if risen else (0.02, 0.96, "left", "top")
    axes.text(x, y, _caption(rows, several), transform=axes.transAxes, ha=ha, va=va, fontsize=6.5)


def _caption(rows: pd.DataFrame, several: bool) -> str:
    mean = rows[rows["series"] == "mean"].set_index("curve")
    own = rows.loc[(rows["series"] == "run") & (rows["curve"] == "law"), "r2"]
    if not np.isfinite(mean.loc["law", "r2"]):
        return f"not fitted: {mean.loc['law', 'reason']}"
    found = [f"{SHORT[name]} {mean.loc[name, 'r2']:.3f}" for name in CURVES]
    lines = [f"$R^2$ (raw): {', '.join(found[:2])},", *found[2:]]
    if several:
        lines.append(f"law on single runs {own.min():.3f} to {own.max():.3f}")
    if isinstance(mean.loc["law", "reason"], str) and mean.loc["law", "reason"]:
        lines.append(str(mean.loc["law", "reason"]))
    return "\n".join(lines)
