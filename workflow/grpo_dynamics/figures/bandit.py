"""Figures of the softmax bandit: trajectories through the transition, and the regime map."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from grpo_dynamics.figures.style import COLORS, MEASURED, NEUTRAL, PAGE, PREDICTED

_SCHEDULES = {
    "fixed_lag": "fixed lag",
    "periodic": "periodic refresh",
    "importance_corrected": "periodic, importance-corrected",
}
_BANDS = {"overdamped": "#ffffff", "underdamped": "#ececec", "unstable": "#cfcfcf"}  # apart in grey as well
_EXACT = COLORS[0]
_MARK = {"color": MEASURED, "markersize": 3.5, "markeredgewidth": 0.8}
_KINDS = {  # meaning, dashes, marker and its face
    "stability": ("loss of stability", "-", "o", MEASURED),
    "onset": ("onset of oscillation", (0, (3, 1.5)), "s", "white"),
}


def trajectories(table: pd.DataFrame) -> Figure:
    """Mean reward through the transition, one panel per K_ref, with the law's prediction dashed.

    Parameters
    ----------
    table : DataFrame
        bandit/trajectories.csv (schema bandit.tables.TRAJECTORIES).
    """
    K_refs = sorted(table["K_ref"].unique())
    columns = min(4, len(K_refs))
    rows = -(-len(K_refs) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(PAGE, 1.5 * rows + 0.7), sharex=True, sharey=True, squeeze=False
    )
    for axes, K_ref in zip(grid.flat, K_refs, strict=False):
        part = table[table["K_ref"] == K_ref].sort_values("step")
        axes.plot(part["step"], part["p"], color=MEASURED, linewidth=1.0)
        axes.plot(part["step"], part["p_predicted"], color=PREDICTED, linestyle=(0, (4, 2)), linewidth=1.2)
        axes.set_title(f"$K_{{ref}}$ = {K_ref}: {part['regime'].iloc[0]}\n(law: {part['regime_closed'].iloc[0]})")
    for axes in grid.flat[len(K_refs) :]:
        axes.set_visible(False)
    # The law of an unstable panel grows without bound, so the simulation sets the scale.
    span = table["p"].max() - table["p"].min()
    grid[0, 0].set_ylim(table["p"].min() - 0.1 * span, table["p"].max() + 0.1 * span)
    figure.supxlabel("optimiser step", fontsize=8)
    figure.supylabel("expected reward $p$", fontsize=8)
    first = table.iloc[0]
    handles = [
        Line2D([], [], color=MEASURED, linewidth=1.0, label="mean field, simulated"),
        Line2D([], [], color=PREDICTED, linestyle=(0, (4, 2)), label="three-phase law, no fit"),
    ]
    title = rf"{_SCHEDULES[first['schedule']]}, $\mu$ = {first['mu']:g}, $\eta$ = {first['eta']:g}"
    figure.legend(handles=handles, title=title, loc="outside upper center", ncols=2)
    return figure


def _shade(axes: Axes, part: pd.DataFrame, bottom: float, top: float) -> None:
    levels = [bottom, part["a_onset_exact"], part["a_stability_exact"], top]
    for color, low, high in zip(_BANDS.values(), levels[:-1], levels[1:], strict=True):
        axes.fill_between(part["K_ref"].astype(float), low, high, color=color, linewidth=0)


def regime_map(table: pd.DataFrame) -> Figure:
    """Regimes in the plane of K_ref and eta K: a row per schedule, a column per mu.

    Shading and thin lines are the exact thresholds of the row's schedule, thick lines the closed form, markers the
    thresholds measured from trajectories with their brackets.

    Parameters
    ----------
    table : DataFrame
        bandit/thresholds.csv (schema bandit.tables.THRESHOLDS).
    """
    schedules = [name for name in _SCHEDULES if name in set(table["schedule"])]
    mus = sorted(table["mu"].unique())
    figure, grid = plt.subplots(
        len(schedules),
        len(mus),
        figsize=(PAGE, 1.9 * len(schedules) + 0.9),
        sharex=True,
        sharey="col",
        squeeze=False,
    )
    for row, schedule in enumerate(schedules):
        for column, mu in enumerate(mus):
            axes = grid[row, column]
            here = table[table["mu"] == mu]
            values = here.filter(regex="^a_").to_numpy(float)
            bottom, top = values.min() / 1.6, values.max() * 1.6
            part = here[here["schedule"] == schedule].sort_values("K_ref")
            K_ref = part["K_ref"].astype(float)
            _shade(axes, part, bottom, top)
            for kind, (_, dashes, marker, face) in _KINDS.items():
                axes.plot(K_ref, part[f"a_{kind}_closed"], color=PREDICTED, linestyle=dashes, linewidth=1.6)
                axes.plot(K_ref, part[f"a_{kind}_exact"], color=_EXACT, linestyle=dashes, linewidth=1.0)
                measured = part[f"a_{kind}_measured"]
                error = np.abs(part[[f"a_{kind}_low", f"a_{kind}_high"]].to_numpy(float).T - measured.to_numpy(float))
                axes.errorbar(K_ref, measured, yerr=error, fmt=marker, **_MARK, markerfacecolor=face)
            axes.set(yscale="log", ylim=(bottom, top))
            axes.set_xscale("log", base=2)
            axes.set_xticks(K_ref, [str(int(value)) for value in K_ref])
            axes.minorticks_off()
            axes.grid(False)
            if row == 0:
                axes.set_title(rf"$\mu$ = {mu:g}")
        grid[row, 0].set_ylabel(_SCHEDULES[schedule].replace(", ", ",\n") + "\n" + r"$a = \eta K$ (1/step)")
    figure.supxlabel("$K_{ref}$ (optimiser steps)", fontsize=8)
    handles = []
    for meaning, dashes, marker, face in _KINDS.values():
        handles += [
            Line2D([], [], color=PREDICTED, linewidth=1.6, linestyle=dashes, label=f"{meaning}: closed form"),
            Line2D([], [], color=_EXACT, linewidth=1.0, linestyle=dashes, label=f"{meaning}: exact"),
            Line2D([], [], **_MARK, linestyle="", marker=marker, markerfacecolor=face, label=f"{meaning}: measured"),
        ]
    handles += [Patch(facecolor=color, edgecolor=NEUTRAL, linewidth=0.4, label=name) for name, color in _BANDS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
