"""The diagnostics of every run against their thresholds (claims C9, C13)."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
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
    "signal_over_chance": "groups with signal,\n/ binomial",
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
_COLUMNS = 6
_GAP = 0.8  # between the lines of two cells, in lines


def diagnostics(table: pd.DataFrame, labels: Mapping[str, str], alpha: float) -> Figure:
    """A panel per number, a line per run: the number with its interval, the thresholds and the side that fires.

    Numbers that no run has are left out, and so are the symptoms (KL, truncated completions); the note names them.

    Parameters
    ----------
    table : DataFrame
        DIAGNOSTICS.
    labels : mapping
        Printed name of every model, in the order of the lines.
    alpha : float
        The intervals have level 1 - alpha.
    """
    place, ticks, end = _places(table, labels)
    looks = style.model_palette(list(labels))
    assessed = set(table.loc[table["verdict"] != "not assessable", "diagnostic"])
    numbers = [number for number in NUMBERS if number[0] not in SYMPTOMS]
    shown = [number for number in numbers if number[1] in assessed]
    columns = max(min(_COLUMNS, len(shown)), 1)
    rows = max(-(-len(shown) // columns), 1)
    figure, grid = plt.subplots(
        rows, columns, figsize=(style.PAGE, 0.8 + rows * (0.65 + 0.095 * end)), sharey=True, squeeze=False
    )
    for axes, (group, name, side) in zip(grid.flat, shown, strict=False):
        _panel(axes, table[table["diagnostic"] == name], side, place, looks)
        axes.set_title(group.replace("_", "-"), loc="left", fontsize=6.5, fontweight="bold")
        axes.set_xlabel(NAMES[name], fontsize=6)
    for axes in grid.flat[len(shown) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_yticks(list(ticks), ticks.values(), fontsize=6)
    grid[0, 0].set_ylim(end - 0.5, -0.5)
    marks = [
        Line2D([], [], color=style.MEASURED, linestyle=(0, (3, 2)), linewidth=0.9, label="warning"),
        Line2D([], [], color=FIRES, marker="X", linewidth=1, label="fires"),
        plt.Rectangle((0, 0), 1, 1, color=FIRES, alpha=0.12, label="side that fires"),
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=3)
    style.note(figure, _note(table, [name for _, name, _ in shown], [name for _, name, _ in numbers], alpha))
    return figure


def _places(
    table: pd.DataFrame, labels: Mapping[str, str]
) -> tuple[dict[tuple[str, int, int], float], dict[float, str], float]:
    """Line of every run, name of every cell by the middle of its lines, and where the lines end."""
    place, ticks, y = {}, {}, 0.0
    for model in labels:
        for size, cell in table[table["model"] == model].groupby("G"):
            seeds = sorted(cell["seed"].unique())
            room = max(len(seeds), 2)  # a name has two lines
            first = y + (room - len(seeds)) / 2
            place |= {(model, int(size), int(seed)): first + index for index, seed in enumerate(seeds)}
            ticks[y + (room - 1) / 2] = f"{labels[model]}\nG = {size}"
            y += room + _GAP
    return place, ticks, max(y - _GAP, 1.0)


def _panel(axes: Axes, rows: pd.DataFrame, side: str, place: Mapping, looks: Mapping[str, style.Look]) -> None:
    threshold = float(rows["warning"].iloc[0])
    for row in rows.itertuples():
        y, look = place[row.model, int(row.G), int(row.seed)], looks[row.model]
        if row.verdict == "not assessable":
            axes.text(
                0.04, y, "n/a", transform=axes.get_yaxis_transform(), va="center", fontsize=5.5, color=style.NEUTRAL
            )
            continue
        fires = row.verdict in FIRED
        axes.plot([row.low, row.high], [y, y], color=FIRES if fires else look.color, linewidth=0.9)
        axes.plot(
            row.value,
            y,
            marker="X" if fires else look.marker,
            color=FIRES if fires else look.color,
            markersize=5 if fires else 2.5,
        )
    axes.axvline(threshold, color=style.MEASURED, linewidth=0.9, linestyle=(0, (3, 2)))
    low, high = axes.get_xlim()
    room = 0.12 * (high - low)
    low, high = min(low, threshold - room), max(high, threshold + room)
    axes.axvspan(*((threshold, high) if side == "above" else (low, threshold)), color=FIRES, alpha=0.07, linewidth=0)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(plt.MaxNLocator(3))
    axes.tick_params(axis="x", labelsize=6)
    axes.grid(axis="y", visible=False)


def _note(table: pd.DataFrame, shown: list[str], numbers: list[str], alpha: float) -> str:
    drawn = table[table["diagnostic"].isin(shown)]
    assessable = drawn[drawn["verdict"] != "not assessable"]
    text = (
        f"{int(assessable['verdict'].isin(FIRED).sum())} of {len(assessable)} assessable numbers fire. Lines: "
        f"{100 * (1 - alpha):g} % intervals; a number fires only with its whole interval beyond the threshold. In a "
        "cell: a line per seed, ascending."
    )
    if len(assessable) < len(drawn):
        text += " n/a: not assessable, for the reason that the table gives."
    for name, reasons in _spared(assessable).items():
        text += f"\nBeyond the threshold without firing: {_in_line(name)}, {style.plural(len(reasons), 'run')}: "
        text += f"{'; '.join(dict.fromkeys(reasons))}."
        if name in ("signal_share", "signal_rows"):
            text += (
                " (There was a signal: over some stretch of a quarter of the run, in its first half, the share was not "
                "below the threshold.)"
            )
    text += "\nLeft out: the symptoms KL and truncated completions, which accompany a failure and are none"
    missing = [_in_line(name) for name in numbers if name not in shown]
    if missing:
        text += f"; not assessable in any run: {'; '.join(missing)}"
    return text + "."


def _spared(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Reasons, without their figures, of the numbers wholly on the side that fires and yet no failure."""
    above = rows["fires_when"] == "above"
    beyond = np.where(above, rows["low"] > rows["warning"], rows["high"] < rows["warning"])
    spared = rows[beyond & ~rows["verdict"].isin(FIRED)]
    reasons = spared["reason"].astype(str).str.replace(r" \([^)]*\)", "", regex=True)
    return {str(name): list(found) for name, found in reasons.groupby(spared["diagnostic"], sort=False)}


def _in_line(name: str) -> str:
    return NAMES[name].replace("\n", " ")
