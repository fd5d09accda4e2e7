"""Figures of the softmax bandit's dynamics: trajectories through the transition, and thresholds against K_ref."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from grpo_dynamics.figures.bandit_looks import (
    CLOSED_FORM,
    EXACT,
    MARK,
    SCHEDULES,
    errors,
    key,
    octave_axis,
    ordered_palette,
    ratio_axis,
    schedules_of,
)
from grpo_dynamics.figures.style import MEASURED, NEUTRAL, PAGE, PREDICTED, note

_BANDS = {"overdamped": "#ffffff", "underdamped": "#ececec", "unstable": "#cfcfcf"}  # apart in grey as well
_KINDS = {  # meaning, dashes, marker and its face
    "stability": ("loss of stability", "-", "o", MEASURED),
    "onset": ("onset of oscillation", (0, (3, 1.5)), "s", "white"),
}
_OPTIMISTIC = "#ececec"


def _bands_legend() -> list[Patch]:
    return [Patch(facecolor=color, edgecolor=NEUTRAL, linewidth=0.4, label=name) for name, color in _BANDS.items()]


def trajectories(table: pd.DataFrame) -> Figure:
    """Mean reward through the transition, one panel per K_ref shaded by its regime, with the law dashed.

    Parameters
    ----------
    table : DataFrame
        bandit/trajectories.csv (schema bandit.tables.TRAJECTORIES).
    """
    K_refs = sorted(table["K_ref"].unique())
    columns = min(4, len(K_refs))
    rows = -(-len(K_refs) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(PAGE, 1.5 * rows + 0.9), sharex=True, sharey=True, squeeze=False
    )
    for axes, K_ref in zip(grid.flat, K_refs, strict=False):
        part = table[table["K_ref"] == K_ref].sort_values("step")
        measured, closed = part["regime"].iloc[0], part["regime_closed"].iloc[0]
        axes.set_facecolor(_BANDS[measured])
        axes.plot(part["step"], part["p"], color=MEASURED, linewidth=1.0)
        axes.plot(part["step"], part["p_predicted"], **CLOSED_FORM)
        verdict = "law agrees" if measured == closed else f"law: {closed}"
        axes.set_title(f"$K_{{ref}}$ = {K_ref}: {measured}\n({verdict})")
    for axes in grid.flat[len(K_refs) :]:
        axes.set_visible(False)
    # The law of an unstable panel grows without bound, so the simulation sets the scale.
    span = table["p"].max() - table["p"].min()
    bottom, top = table["p"].min() - 0.1 * span, table["p"].max() + 0.1 * span
    grid[0, 0].set_ylim(bottom, top)
    for axes in grid.flat[max(len(K_refs) - columns, 0) : len(K_refs)]:
        axes.set_xlabel("optimiser step")
        axes.tick_params(labelbottom=True)
    figure.supylabel("expected reward $p$", fontsize=8)
    first = table.iloc[0]
    handles = [
        key("mean field, simulated", color=MEASURED, linewidth=1.0),
        key("three-phase law, no fit", **CLOSED_FORM),
        *_bands_legend(),
    ]
    title = rf"{SCHEDULES[first['schedule']]}, $\mu$ = {first['mu']:g}, $\eta$ = {first['eta']:g}"
    figure.legend(handles=handles, title=title, loc="outside upper center", ncols=len(handles))
    note(figure, _beyond(table, bottom, top))
    return figure


def _beyond(table: pd.DataFrame, bottom: float, top: float) -> str:
    """Where, and how far, the law leaves the axis, which ends at the simulation's range."""
    law = table.groupby("K_ref")["p_predicted"].agg(["min", "max"])
    left = law[(law["min"] < bottom) | (law["max"] > top)]
    if left.empty:
        return ""
    found = "; ".join(f"$K_{{ref}}$ = {K_ref}: {row['min']:.2f} to {row['max']:.2f}" for K_ref, row in left.iterrows())
    return f"The axis has the range of the simulation, with a margin. The law leaves it ({found})."


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
    schedules = schedules_of(table)
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
            values = here.filter(regex="^a_.*(low|high|closed|exact)$").to_numpy(float)
            bottom, top = values.min() / 1.6, values.max() * 1.6
            part = here[here["schedule"] == schedule].sort_values("K_ref")
            K_ref = part["K_ref"].astype(float)
            _shade(axes, part, bottom, top)
            for kind, (_, dashes, marker, face) in _KINDS.items():
                axes.plot(K_ref, part[f"a_{kind}_closed"], color=PREDICTED, linestyle=dashes, linewidth=1.6)
                axes.plot(K_ref, part[f"a_{kind}_exact"], color=EXACT, linestyle=dashes, linewidth=1.0)
                measured = part[f"a_{kind}_measured"]
                error = errors(measured, part[f"a_{kind}_low"], part[f"a_{kind}_high"])
                axes.errorbar(K_ref, measured, yerr=error, fmt=marker, **MARK, markerfacecolor=face)
            axes.set(yscale="log", ylim=(bottom, top))
            octave_axis(axes, K_ref)
            axes.grid(False)
            if row == 0:
                axes.set_title(rf"$\mu$ = {mu:g}")
        grid[row, 0].set_ylabel(SCHEDULES[schedule].replace(", ", ",\n") + "\n" + r"$a = \eta K$ (1/step)")
    figure.supxlabel("$K_{ref}$ (optimiser steps)", fontsize=8)
    handles = []
    for meaning, dashes, marker, face in _KINDS.values():
        handles += [
            key(f"{meaning}: closed form", color=PREDICTED, linewidth=1.6, linestyle=dashes),
            key(f"{meaning}: exact", color=EXACT, linewidth=1.0, linestyle=dashes),
            key(f"{meaning}: measured", **MARK, linestyle="", marker=marker, markerfacecolor=face),
        ]
    figure.legend(handles=handles + _bands_legend(), loc="outside upper center", ncols=3)
    return figure


def threshold_ratio(table: pd.DataFrame) -> Figure:
    """Measured over closed-form threshold against K_ref: a row per threshold, a column per schedule, a look per mu.

    Lines are the exact threshold over the closed form; dotted ones take the closed form at the mean age of the
    samples in place of K_ref, where the two differ.

    Parameters
    ----------
    table : DataFrame
        bandit/thresholds.csv (schema bandit.tables.THRESHOLDS).
    """
    schedules = schedules_of(table)
    looks = ordered_palette(table["mu"])
    figure, grid = plt.subplots(
        len(_KINDS), len(schedules), figsize=(PAGE, 5.0), sharex=True, sharey="col", squeeze=False
    )
    aged = table["mean_age"] != table["K_ref"]
    for column, schedule in enumerate(schedules):
        extremes = [1.0]
        for row, kind in enumerate(_KINDS):
            axes = grid[row, column]
            axes.axhline(1, color=NEUTRAL, linewidth=0.8)
            for mu, look in looks.items():
                part = table[(table["schedule"] == schedule) & (table["mu"] == mu)].sort_values("K_ref")
                K_ref, closed = part["K_ref"].astype(float), part[f"a_{kind}_closed"]
                exact, measured = part[f"a_{kind}_exact"] / closed, part[f"a_{kind}_measured"] / closed
                error = errors(measured, part[f"a_{kind}_low"] / closed, part[f"a_{kind}_high"] / closed)
                axes.plot(K_ref, exact, color=look.color, linewidth=1.0)
                axes.errorbar(K_ref, measured, yerr=error, fmt=look.marker, color=look.color, markersize=3.5)
                at_age = (part[f"a_{kind}_exact"] / part[f"a_{kind}_closed_at_age"])[aged]
                axes.plot(K_ref[at_age.index], at_age, color=look.color, linestyle=":", linewidth=1.2)
                extremes += [exact.min(), measured.min(), exact.max(), measured.max(), at_age.min(), at_age.max()]
            octave_axis(axes, table["K_ref"].astype(float))
        low, high = np.nanmin(extremes) / 1.12, np.nanmax(extremes) * 1.12
        for axes in grid[:, column]:
            ratio_axis(axes, low, high)
            axes.axhspan(low, 1, color=_OPTIMISTIC, linewidth=0, zorder=0)
        grid[0, column].set_title(SCHEDULES[schedule])
    for row, (meaning, *_) in enumerate(_KINDS.values()):
        grid[row, 0].set_ylabel(f"{meaning}:\nmeasured / closed form")
    figure.supxlabel("$K_{ref}$ (optimiser steps)", fontsize=8)
    handles = [
        key(rf"$\mu$ = {mu:g}, measured", color=look.color, marker=look.marker, markersize=3.5, linestyle="")
        for mu, look in looks.items()
    ]
    handles += [
        key("exact / closed form at $K_{ref}$", color=NEUTRAL, linewidth=1.0),
        key("exact / closed form at the mean age", color=NEUTRAL, linewidth=1.2, linestyle=":"),
        Patch(facecolor="white", edgecolor=NEUTRAL, linewidth=0.4, label="above 1: closed form cautious"),
        Patch(facecolor=_OPTIMISTIC, edgecolor=NEUTRAL, linewidth=0.4, label="below 1: closed form optimistic"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure
