"""The diagnostics of every run against their thresholds (claims C9, C13)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from grpo_dynamics.analysis.diagnostics import NUMBERS
from grpo_dynamics.figures import style

NAMES = {
    "rate_ratio": "saturation rate,\ntrain / held-out",
    "heldout_change": "held-out reward,\nchange",
    "signal_share": "groups with signal,\n/ binomial",
    "within_group_spread": "spread in groups,\n/ binomial",
    "entropy_log_change": "log entropy,\nchange in the rise",
    "grad_norm_log_growth": "log gradient norm,\nchange",
    "ratio_log_growth": "log largest ratio,\nchange",
}
FIRES = "#b22222"


def diagnostics(table: pd.DataFrame, labels: Mapping[str, str], alpha: float) -> Figure:
    """A column per diagnostic, a line per run: the number with its interval, the threshold and the side that fires.

    Parameters
    ----------
    table : DataFrame
        DIAGNOSTICS.
    labels : mapping
        Printed name of every model, in the order of the lines.
    alpha : float
        The intervals have level 1 - alpha.
    """
    runs = [
        (model, int(size), int(seed))
        for model in labels
        for size, seed in table.loc[table["model"] == model, ["G", "seed"]]
        .drop_duplicates()
        .sort_values(["G", "seed"])
        .to_numpy()
    ]
    place = {run: index for index, run in enumerate(runs)}
    looks = style.model_palette(list(labels))
    figure, grid = plt.subplots(
        1, len(NUMBERS), figsize=(style.PAGE + 1.2, 1.6 + 0.16 * len(runs)), sharey=True, squeeze=False
    )
    for axes, (group, name, side) in zip(grid[0], NUMBERS, strict=True):
        rows = table[table["diagnostic"] == name]
        threshold = float(rows["threshold"].iloc[0])
        for row in rows.itertuples():
            y, look = place[row.model, int(row.G), int(row.seed)], looks[row.model]
            if row.verdict == "not assessable":
                axes.text(
                    0.04, y, "n/a", transform=axes.get_yaxis_transform(), va="center", fontsize=5.5, color=style.NEUTRAL
                )
                continue
            fires = row.verdict == "fires"
            axes.plot([row.low, row.high], [y, y], color=FIRES if fires else look.color, linewidth=1)
            axes.plot(
                row.value,
                y,
                marker="X" if fires else look.marker,
                color=FIRES if fires else look.color,
                markersize=6 if fires else 3,
            )
        axes.axvline(threshold, color=style.MEASURED, linewidth=0.9, linestyle=(0, (3, 2)))
        low, high = axes.get_xlim()
        room = 0.12 * (high - low)
        low, high = min(low, threshold - room), max(high, threshold + room)
        axes.axvspan(
            *((threshold, high) if side == "above" else (low, threshold)), color=FIRES, alpha=0.07, linewidth=0
        )
        axes.set_xlim(low, high)
        if (rows["verdict"] == "not assessable").all():
            axes.set_xticks([threshold])
        else:
            axes.xaxis.set_major_locator(plt.MaxNLocator(3))
        axes.set_title(group, loc="left", fontsize=7, fontweight="bold")
        axes.set_xlabel(NAMES[name], fontsize=6.5)
        axes.grid(axis="y", visible=False)
    first = grid[0, 0]
    first.set_yticks(
        range(len(runs)), [f"{labels[model]}, G = {size}, seed {seed}" for model, size, seed in runs], fontsize=6
    )
    first.set_ylim(len(runs) - 0.5, -0.5)
    marks = [
        Line2D([], [], color=style.MEASURED, linestyle=(0, (3, 2)), linewidth=0.9, label="threshold"),
        Line2D([], [], color=FIRES, marker="X", linewidth=1, label="fires"),
        plt.Rectangle((0, 0), 1, 1, color=FIRES, alpha=0.12, label="side that fires"),
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=3)
    fired = int((table["verdict"] == "fires").sum())
    assessed = int(np.sum(table["verdict"] != "not assessable"))
    style.note(
        figure,
        f"{fired} of {assessed} assessable numbers fire. Lines: {100 * (1 - alpha):g} % intervals; a number fires only "
        "with its whole interval beyond the threshold. n/a: not assessable (the table says why).",
    )
    return figure
