"""Runs at other eta and G, and what K and p* of one cell predict of them (claims C15, B4)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from grpo_dynamics.analysis.predict import curve
from grpo_dynamics.analysis.prediction_table import Cell, cells
from grpo_dynamics.analysis.tables_predictions import BOTH, ETA, TARGET
from grpo_dynamics.figures import style

_COLUMNS = 4
_CURVES = {  # label, colour, dashes and width; the dotted one on top, since it can fall on the solid one
    "closed_form": ("closed form", style.PREDICTED, "-", 1.7),
    "flow": ("mean-field flow", style.COLORS[0], (0, (5, 1.5)), 1.2),
    "naive": ("naive: calibration cell's fit", style.MEASURED, (0, (1, 1.5)), 1.1),
}
_SHORT = {"closed_form": "closed form", "flow": "flow", "naive": "naive"}


def _order(labels: Mapping[str, str], predictions: pd.DataFrame) -> pd.DataFrame:
    """One row per target: those with another eta first, by eta, then those with another G, by model."""
    targets = predictions[(predictions["sample"] == TARGET) & predictions["model"].isin(list(labels))]
    targets = targets.drop_duplicates(["model", "variant", "G"])
    keys = pd.DataFrame(
        {
            "other": ~targets["changed"].isin([ETA, BOTH]),
            "model": targets["model"].map(list(labels).index),
            "eta": targets["eta"],
            "G": targets["G"],
            "groups": -targets["groups"],
        }
    )
    return targets.loc[keys.sort_values(list(keys)).index]


def predictions(
    runs: pd.DataFrame, variants: pd.DataFrame, predictions: pd.DataFrame, labels: Mapping[str, str]
) -> Figure:
    """A panel per target: the raw mean over runs, three predictions, and their R^2.

    Parameters
    ----------
    runs, variants, predictions : DataFrame
        RUN_LOG, VARIANT_LOG and RUN_PREDICTIONS.
    labels : mapping
        Printed name of every model, in the order of the panels.
    """
    targets = _order(labels, predictions)
    measured = {(cell.model, cell.variant, cell.G): cell for cell in cells(runs, variants)}
    lines = max(-(-len(targets) // _COLUMNS), 1)
    figure, grid = plt.subplots(
        lines, _COLUMNS, figsize=(style.PAGE, 0.9 + 1.75 * lines), sharex=True, sharey=True, squeeze=False
    )
    panels = list(grid.flat)
    for axes, (_, target) in zip(panels, targets.iterrows(), strict=False):
        cell = measured[target["model"], target["variant"], target["G"]]
        at = predictions[["model", "variant", "G"]].eq(target[["model", "variant", "G"]]).all(axis=1)
        _panel(axes, cell, predictions[at].set_index("predictor"), labels[cell.model])
    for axes in panels[len(targets) :]:
        axes.set_axis_off()
    for index, axes in enumerate(panels[: len(targets)]):
        if index % _COLUMNS == 0:
            axes.set_ylabel("training reward")
        if index + _COLUMNS >= len(targets):  # nothing below it
            axes.tick_params(labelbottom=True)
        if index >= (lines - 1) * _COLUMNS:
            axes.set_xlabel("optimiser steps made")
    panels[0].set_ylim(-0.02, 1.02)
    if targets.empty:
        panels[0].text(0, 0.5, "no runs at another eta or G", transform=panels[0].transAxes)
    else:
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=len(handles))
    style.note(figure, _note(targets))
    return figure


def _note(targets: pd.DataFrame) -> str:
    if targets.empty:
        return ""
    origins = targets[["calibration_G", "calibration_eta"]].drop_duplicates().itertuples(index=False)
    names = " or ".join(f"G = {G}, eta = {eta:g}" for G, eta in origins)
    return (
        f"Points: raw mean over runs, not smoothed. Calibration cell per model: {names}. $R^2$ is that on the points, "
        "with intervals in the table; best: that of the three-phase law fitted to the points. Prompts: per step."
    )


def _panel(axes: Axes, cell: Cell, rows: pd.DataFrame, label: str) -> None:
    look = {"color": style.MEASURED, "markersize": 2.2, "alpha": 0.5, "markeredgewidth": 0}
    axes.plot(cell.t, cell.y.mean(axis=0), ".", label="mean over runs, raw", **look)
    t = np.linspace(cell.t.min(), cell.t.max(), 400)
    lines = []
    for predictor, (name, color, dashes, width) in _CURVES.items():
        row = rows.loc[predictor]
        predicted = curve(row, t)
        axes.plot(t, predicted, color=color, linestyle=dashes, linewidth=width, label=name)
        lines.append(f"{_SHORT[predictor]} " + (f"{row['r2']:.2f}" if np.isfinite(row["r2"]) else "none"))
    best = rows["r2_ceiling"].iloc[0]
    lines.insert(0, f"best {best:.2f}" if np.isfinite(best) else "best: not fitted")
    factor = cell.eta / rows["calibration_eta"].iloc[0]
    eta = "" if np.isclose(factor, 1) else rf", $\eta\times${factor:g}"
    runs = style.plural(len(cell.y), "run")
    axes.set_title(f"{label}, G = {cell.G}{eta}\n{cell.groups} prompts, {runs}", loc="left", fontsize=7, pad=20)
    # Above the panel, as no corner of it is free of points in every cell.
    text = f"$R^2$: {', '.join(lines[:2])},\n{', '.join(lines[2:])}"
    axes.text(0, 1.03, text, transform=axes.transAxes, ha="left", va="bottom", fontsize=6)
