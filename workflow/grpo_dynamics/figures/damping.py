"""Damping ratios of all runs and cells (claim C9)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from grpo_dynamics.analysis.problem import ZETA_BOUNDS
from grpo_dynamics.analysis.series import STUDY
from grpo_dynamics.figures import style

BESIDE = 1.3  # a fit that ended at a bound of zeta is marked beyond it, by this factor


def damping(fits: pd.DataFrame, labels: Mapping[str, str], alpha: float) -> Figure:
    """Fitted zeta with its profile interval, one line per run and one per cell's mean.

    Parameters
    ----------
    fits : DataFrame
        FITS.
    labels : mapping
        Printed name of every model, in the order of the lines.
    alpha : float
        The intervals have level 1 - alpha.
    """
    fits = fits[(fits["variant"] == STUDY) & (fits["curve"] == "law")]
    sizes = sorted(int(size) for size in fits["G"].unique())
    looks = style.g_palette(sizes)
    lines, ticks, names, y = [], [], [], 0.0
    for model in labels:
        for size in sizes:
            cell = fits[(fits["model"] == model) & (fits["G"] == size)]
            if cell.empty:
                continue
            several = (cell["series"] == "run").sum() > 1
            rows = cell if several else cell[cell["series"] == "run"]
            ticks.append(y + (len(rows) - 1) / 2)
            names.append(f"{labels[model]}\nG = {size}")
            for row in rows.itertuples():
                lines.append((y, row, looks[size]))
                y += 1
            y += 0.8
    figure, axes = plt.subplots(figsize=(style.PAGE * 0.75, 1.1 + 0.155 * y))
    left, right = ZETA_BOUNDS
    axes.axvspan(left, 1, color=style.PREDICTED, alpha=0.07, linewidth=0)
    axes.axvline(1, color=style.MEASURED, linewidth=0.9, linestyle=(0, (3, 2)))
    for place, row, look in lines:
        if not np.isfinite(row.zeta):
            axes.text(1.1, place, f"not fitted: {row.reason}", fontsize=6, va="center", color=style.NEUTRAL)
            continue
        mean = row.series == "mean"
        stuck = "zeta" in str(row.at_bound).split()
        color = look.color if row.identifiable else "#aaaaaa"
        if np.isfinite(row.zeta_low):  # else too few independent points carry zeta for an interval
            low, high = max(row.zeta_low, left), min(row.zeta_high, right)
            axes.plot([low, high], [place, place], color=color, linewidth=2.2 if mean else 0.9)
        if stuck:  # beside the axis' end, where the arrow head of an open interval lies
            beside = right * BESIDE if row.zeta > 1 else left / BESIDE
            axes.plot(beside, place, "x", color=color, markersize=5 if mean else 3.5, markeredgewidth=2 if mean else 1)
        else:
            axes.plot(
                row.zeta,
                place,
                look.marker,
                color=color,
                markersize=5 if mean else 3.5,
                markerfacecolor=color if mean else "white",
                markeredgewidth=0.9,
            )
        if row.zeta_low < left:
            axes.plot(left * 1.06, place, "<", color=color, markersize=3)
        if row.zeta_high > right:
            axes.plot(right / 1.06, place, ">", color=color, markersize=3)
    axes.set_xscale("log")
    stuck_at = fits.loc[fits["at_bound"].fillna("").str.split().apply(lambda names: "zeta" in names), "zeta"]
    axes.set_xlim(left / (BESIDE**2 if (stuck_at < 1).any() else 1), right * BESIDE**2)
    for bound in (left, right):
        axes.axvline(bound, color=style.NEUTRAL, linewidth=0.6)
    axes.set_xticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
    axes.minorticks_off()
    axes.set_yticks(ticks, names)
    axes.set_ylim(y - 0.8, -1.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(r"damping ratio $\zeta$")
    axes.text(0.93, -1.1, "underdamped", ha="right", va="center", fontsize=7, color=style.NEUTRAL)
    axes.text(1.07, -1.1, "overdamped", ha="left", va="center", fontsize=7, color=style.NEUTRAL)
    marks = [
        Line2D(
            [],
            [],
            color=looks[size].color,
            marker=looks[size].marker,
            markerfacecolor="white",
            linewidth=0.9,
            label=f"G = {size}, run",
        )
        for size in sizes
    ]
    if fits["seed"].nunique() > 1:
        marks.append(Line2D([], [], color=style.NEUTRAL, marker="o", linewidth=2.2, label="mean over seeds (filled)"))
    if not fits["identifiable"].all():
        marks.append(Line2D([], [], color="#aaaaaa", linewidth=2, label="plateau not identifiable"))
    if len(stuck_at):
        marks.append(Line2D([], [], color=style.NEUTRAL, marker="x", linestyle="none", label="at the fit's bound"))
    figure.legend(handles=marks, loc="outside upper center", ncols=min(len(marks), 4))
    text = (
        f"Lines: {100 * (1 - alpha):g} % profile intervals. Arrow heads: the data set no end to the interval. "
        "No line: too few independent rewards carry the damping ratio."
    )
    if len(stuck_at):
        text += (
            f" Crosses: the fit ended at the bound of the damping ratio ({left:g} or {right:g}, thin lines), which is "
            f"no estimate of it: {len(stuck_at)} of {int(np.isfinite(fits['zeta']).sum())} fits (thick: of a mean)."
        )
    style.note(figure, text)
    return figure
