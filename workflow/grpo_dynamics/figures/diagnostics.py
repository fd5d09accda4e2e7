"""The diagnostics of every run against their thresholds (claims C9, C13)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from grpo_dynamics.analysis.diagnosis import NUMBERS, SYMPTOMS
from grpo_dynamics.analysis.tables import FIRED
from grpo_dynamics.figures import style

NAMES = {
    "rate_ratio": "saturation rate,\ntrain / held-out",
    "heldout_fall": "held-out reward,\nlost share",
    "heldout_gain_share": "held-out gain\n/ train gain",
    "signal_share": "groups with\nsignal",
    "signal_rows": "rows with\nsignal",
    "signal_over_chance": "the same,\n/ binomial",
    "spread_over_chance": "spread in groups,\n/ binomial",
    "entropy_log_change": "log entropy,\nchange in the rise",
    "entropy_lost": "log entropy,\nwithout a rise",
    "kl_unrewarded": "KL without\na rise",
    "reward_fall": "train reward,\nlost share",
    "grad_norm_log_growth": "log gradient norm,\nchange",
    "ratio_log_growth": "log largest ratio,\nchange",
    "non_finite_share": "rows with\nNaN, infinity",
}
FIRES = "#b22222"


def diagnostics(table: pd.DataFrame, labels: Mapping[str, str], alpha: float) -> Figure:
    """A column per number, a line per run: the number with its interval, the thresholds and the side that fires.

    Numbers that no run has are left out, and so are the symptoms (KL, truncated completions).

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
    assessed = set(table.loc[table["verdict"] != "not assessable", "diagnostic"])
    shown = [number for number in NUMBERS if number[0] not in SYMPTOMS and number[1] in assessed]
    figure, grid = plt.subplots(
        1, len(shown), figsize=(2.2 + 0.95 * len(shown), 1.6 + 0.16 * len(runs)), sharey=True, squeeze=False
    )
    for axes, (group, name, side) in zip(grid[0], shown, strict=True):
        rows = table[table["diagnostic"] == name]
        threshold = float(rows["warning"].iloc[0])
        for row in rows.itertuples():
            y, look = place[row.model, int(row.G), int(row.seed)], looks[row.model]
            if row.verdict == "not assessable":
                axes.text(
                    0.04, y, "n/a", transform=axes.get_yaxis_transform(), va="center", fontsize=5.5, color=style.NEUTRAL
                )
                continue
            fires = row.verdict in FIRED
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
        axes.xaxis.set_major_locator(plt.MaxNLocator(3))
        axes.set_title(group.replace("_", "-"), loc="left", fontsize=7, fontweight="bold")
        axes.set_xlabel(NAMES[name], fontsize=6.5)
        axes.grid(axis="y", visible=False)
    first = grid[0, 0]
    first.set_yticks(
        range(len(runs)), [f"{labels[model]}, G = {size}, seed {seed}" for model, size, seed in runs], fontsize=6
    )
    first.set_ylim(len(runs) - 0.5, -0.5)
    marks = [
        Line2D([], [], color=style.MEASURED, linestyle=(0, (3, 2)), linewidth=0.9, label="warning"),
        Line2D([], [], color=FIRES, marker="X", linewidth=1, label="fires"),
        plt.Rectangle((0, 0), 1, 1, color=FIRES, alpha=0.12, label="side that fires"),
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=3)
    numbers = table[~table["group"].isin(SYMPTOMS) & (table["verdict"] != "not assessable")]
    style.note(
        figure,
        f"{int(numbers['verdict'].isin(FIRED).sum())} of {len(numbers)} assessable numbers fire. Lines: "
        f"{100 * (1 - alpha):g} % intervals; a number fires only with its whole interval beyond the threshold, unless "
        "something else explains it (the table says what). n/a: not assessable.",
    )
    return figure
