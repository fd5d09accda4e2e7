"""The runs with induced failures, and what the diagnostics call them (claim C13)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from grpo_dynamics.analysis.tables_failures import FAILURES, NONE
from grpo_dynamics.figures import style

HELDOUT, TRAIN = style.COLORS[1], style.COLORS[0]
LONG = {"whole run": "at the end of the run", "live": "first alarm while the run goes on"}
SERIES = [  # (title, columns with their colours, whether on a log scale)
    ("reward", {"reward": TRAIN, "heldout_reward": HELDOUT}, False),
    ("groups with a signal", {"signal": TRAIN}, False),
    ("entropy, nats per token", {"entropy": TRAIN}, True),
    ("KL, nats per token", {"kl": TRAIN}, True),
]


def failures(log: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """A row per kind of run, a column per series: every run as logged, with onset and first alarm.

    Parameters
    ----------
    log, runs : DataFrame
        FAILURE_LOG and FAILURE_RUNS.
    """
    kinds = list(dict.fromkeys(log["kind"]))
    rows = max(len(kinds), 1)
    figure, grid = plt.subplots(
        rows, len(SERIES), figsize=(style.PAGE, 0.8 + 1.05 * rows), sharex=True, sharey="col", squeeze=False
    )
    log = log.assign(signal=1 - log["collapsed_share"])
    for axes, (title, _, _) in zip(grid[0], SERIES, strict=True):
        axes.set_title(title, loc="left", fontsize=7)
    for line, kind in zip(grid, kinds, strict=False):
        these, found = log[log["kind"] == kind], runs[runs["kind"] == kind]
        induced = found["induces"].iloc[0]
        for axes, (_, columns, logarithmic) in zip(line, SERIES, strict=True):
            for _, run in these.groupby("seed"):
                for name, color in columns.items():
                    there = run.dropna(subset=[name])
                    axes.plot(
                        there["step"], there[name], color=color, linewidth=0.6, alpha=0.75,
                        linestyle=(0, (4, 1)) if name == "heldout_reward" else "-",
                    )  # fmt: skip
            if logarithmic:
                axes.set_yscale("log")
        for one in found.itertuples():
            if np.isfinite(one.onset):
                line[0].axvline(one.onset, color=style.NEUTRAL, linewidth=0.6, linestyle=(0, (1, 2)))
            if np.isfinite(one.live_step):
                line[0].plot(one.live_step, 1.06, marker="v", color=style.MEASURED, markersize=3, clip_on=False)
        right = int((found["called"] == found["induces"]).sum())
        name = "healthy" if induced == NONE else induced
        label = f"{kind.replace('_', ' ')}\n({name}:\n{right} of {len(found)} called so)"
        line[0].set_ylabel(label, fontsize=6, rotation=0, ha="right", va="center")
    for axes in grid[-1]:
        axes.set_xlabel("step")
    for axes in grid.flat:
        axes.tick_params(labelsize=6)
    grid[0, 0].set_ylim(-0.03, 1.03)
    marks = [
        Line2D([], [], color=TRAIN, label="train, or policy"),
        Line2D([], [], color=HELDOUT, linestyle=(0, (4, 1)), label="held out"),
        Line2D([], [], color=style.NEUTRAL, linestyle=(0, (1, 2)), label="onset (whole run)"),
        Line2D([], [], color=style.MEASURED, marker="v", linestyle="none", markersize=3, label="first alarm (live)"),
    ]
    figure.legend(handles=marks, loc="outside upper right", ncols=4)
    style.note(figure, "Every run as logged, not smoothed; a line per seed.")
    return figure


def confusion(table: pd.DataFrame, alpha: float) -> Figure:
    """The confusion matrix: counts, with the exact interval of the share where it is not 0.

    Parameters
    ----------
    table : DataFrame
        CONFUSION.
    alpha : float
        The intervals have level 1 - alpha.
    """
    induced = [name for name in [NONE, *FAILURES] if name in set(table["induces"])]
    calls = [name for name in dict.fromkeys(table["called"]) if name in (NONE, *FAILURES)
             or table.loc[table["called"] == name, "count"].sum() > 0]  # fmt: skip
    figure, grid = plt.subplots(
        1, 2, figsize=(style.PAGE, 1.5 + 0.42 * max(len(induced), 1)), sharey=True, squeeze=False
    )
    for axes, by in zip(grid[0], LONG, strict=True):
        rows = table[table["by"] == by].set_index(["induces", "called"])
        shares = np.array([[rows.loc[(one, call), "share"] for call in calls] for one in induced]).reshape(
            len(induced), len(calls)
        )
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
        for (y, x), share in np.ndenumerate(shares):
            row = rows.loc[(induced[y], calls[x])]
            if row["count"]:
                text = f"{row['count']:g} of {row['runs']:g}\n[{100 * row['low']:.0f}, {100 * row['high']:.0f}] %"
                axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color="white" if share > 0.7 else "black")
            if induced[y] == calls[x]:
                axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, color=style.MEASURED, linewidth=0.8))
        axes.set_xticks(
            range(len(calls)), [call.replace("_", "-") for call in calls], fontsize=6, rotation=30, ha="right"
        )
        axes.set_title(LONG[by], loc="left")
        axes.set_xlabel("called")
        axes.grid(visible=False)
    grid[0, 0].set_yticks(range(len(induced)), ["healthy" if one == NONE else one for one in induced])
    grid[0, 0].set_ylabel("induced")
    style.note(
        figure,
        f"Brackets: exact (Clopper-Pearson) {100 * (1 - alpha):g} % intervals of the share. Framed: called right.",
    )
    return figure
