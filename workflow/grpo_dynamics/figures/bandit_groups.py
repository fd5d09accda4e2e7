"""Figures of the softmax bandit with sampled groups: stationary variance against G, and drift and noise of a group."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

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
from grpo_dynamics.figures.style import NEUTRAL, PAGE, note, span
from grpo_dynamics.theory.finite_group import h_G, v_G

_STDS = {"population": "population std", "unbiased": "unbiased std"}


def _contained(value: pd.Series, low: pd.Series, high: pd.Series) -> str:
    return f"{int(((low <= value) & (value <= high)).sum())} of {len(value)}"


def _family(table: pd.DataFrame) -> str:
    """Level of the table's intervals, which its schema states, and what each rests on."""
    text = f"Intervals: Student's t over {span(table['replicas'])} replicas"
    if "groups" in table:
        text += f" of {span(table['groups'])} groups each"
    else:
        text += f" of {span(table['steps'])} recorded steps each"
    return f"{text}; all of the figure hold together with 95 % (Sidak)."


def stationary_variance(table: pd.DataFrame) -> Figure:
    """Stationary variance of p against G, a column per schedule, and below it the ratios to the exact variance.

    Rows: measured, exact and leading-order variance; leading order over exact; measured over exact with its interval.

    Parameters
    ----------
    table : DataFrame
        bandit/stationary_variance.csv (schema bandit.tables.STATIONARY_VARIANCE).
    """
    schedules = schedules_of(table)
    figure, grid = plt.subplots(
        3,
        len(schedules),
        figsize=(PAGE, 5.6),
        sharex=True,
        sharey="row",
        squeeze=False,
        height_ratios=[2.2, 1.2, 1.2],
    )
    for schedule, column in zip(schedules, grid.T, strict=True):
        part = table[table["schedule"] == schedule].sort_values("G")
        G, exact = part["G"].astype(float), part["variance_exact"]
        top, leading, measured = column
        top.plot(G, part["variance_leading_order"], **CLOSED_FORM)
        top.plot(G, exact, color=EXACT)
        top.errorbar(
            G, part["variance"], yerr=errors(part["variance"], part["low"], part["high"]), fmt="o", **MARK, zorder=3
        )
        top.set_yscale("log")
        top.set_title(SCHEDULES[schedule])
        leading.plot(G, part["variance_leading_order"] / exact, **CLOSED_FORM, marker="s", markersize=3)
        ratio = part["variance"] / exact
        measured.errorbar(G, ratio, yerr=errors(ratio, part["low"] / exact, part["high"] / exact), fmt="o", **MARK)
        for axes in (leading, measured):
            axes.axhline(1, color=EXACT)
        octave_axis(measured, G)
    ratio = table["variance_leading_order"] / table["variance_exact"]
    ratio_axis(grid[1, 0], min(ratio.min(), 1) / 1.1, max(ratio.max(), 1) * 1.1)
    reach = 1.1 * max((table[end] / table["variance_exact"] - 1).abs().max() for end in ("low", "high"))
    grid[2, 0].set_ylim(1 - reach, 1 + reach)
    for axes, label in zip(grid[:, 0], ("variance of $p$", "leading / exact", "measured / exact"), strict=True):
        axes.set_ylabel(label)
    figure.align_ylabels(grid[:, 0])
    for axes in grid[-1]:
        axes.set_xlabel("group size $G$")
    handles = [
        key("measured", **MARK, marker="o", linestyle=""),
        key("exact, finite group (Lyapunov)", color=EXACT),
        key(r"leading order, $\propto 1/G$", **CLOSED_FORM),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    count = _contained(table["variance_exact"], table["low"], table["high"])
    note(figure, f"{count} intervals contain the exact variance. {_family(table)}")
    return figure


def drift(table: pd.DataFrame) -> Figure:
    """Drift (top) and noise (bottom) of a sampled group against p, a column per std convention, a look per G.

    Lines are the exact finite sums h_G and G v_G of theory.finite_group on a dense grid of p, dashed ones the limits
    for large G. The table's exact values lie on these lines.

    Parameters
    ----------
    table : DataFrame
        bandit/drift.csv (schema bandit.tables.DRIFT).
    """
    stds = [std for std in _STDS if std in set(table["std"])]
    looks = ordered_palette(table["G"].astype(int))
    figure, grid = plt.subplots(2, len(stds), figsize=(PAGE, 5.2), sharex=True, sharey="row", squeeze=False)
    p = np.sin(np.linspace(0, np.pi / 2, 401)) ** 2  # dense at the ends, where the noise has narrow peaks
    curves = {"drift": h_G, "noise": lambda p, G, std: G * v_G(p, G, std)}
    limits = {"drift": np.sqrt(p * (1 - p)), "noise": (1 - 2 * p) ** 2 / 4}
    for column, std in enumerate(stds):
        for row, quantity in enumerate(curves):
            axes = grid[row, column]
            axes.plot(p, limits[quantity], **CLOSED_FORM)
            for G, look in looks.items():
                part = table[(table["std"] == std) & (table["G"] == G)].sort_values("p")
                error = errors(part[quantity], part[f"{quantity}_low"], part[f"{quantity}_high"])
                axes.plot(p, curves[quantity](p, G, std), color=look.color, linewidth=1.0)
                axes.errorbar(part["p"], part[quantity], yerr=error, fmt=look.marker, color=look.color, markersize=3.5)
            axes.set_ylim(bottom=0)
        grid[0, column].set_title(_STDS[std])
        grid[-1, column].set_xlabel("probability of success $p$")
    grid[0, 0].set_ylabel("drift of a group, $h_G(p)$")
    grid[1, 0].set_ylabel("noise of a group, $G\\,v_G(p)$")
    handles = [
        key(f"$G$ = {G}", color=look.color, marker=look.marker, markersize=3.5, linewidth=1.0)
        for G, look in looks.items()
    ]
    handles += [
        key(r"large $G$: $\sqrt{p(1-p)}$ and $(1-2p)^2/4$", **CLOSED_FORM),
        key("measured", color=NEUTRAL, marker="o", markersize=3.5, linestyle=""),
        key("exact", color=NEUTRAL, linewidth=1.0),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    inside = {
        quantity: _contained(table[f"{quantity}_exact"], table[f"{quantity}_low"], table[f"{quantity}_high"])
        for quantity in curves
    }
    note(
        figure,
        f"{inside['drift']} intervals contain the exact drift, {inside['noise']} the exact noise. {_family(table)}",
    )
    return figure
