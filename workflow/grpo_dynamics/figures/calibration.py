"""Coverage of the fits' intervals on simulated runs."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from grpo_dynamics.figures import style

LABELS = {"R_0": "$R_0$", "R_inf": r"$R_\infty$", "w0": r"$\omega_0$", "zeta": r"$\zeta$"}
LOOKS = {"profile": (style.MEASURED, "o", style.MEASURED), "bootstrap": (style.PREDICTED, "s", "white")}


def calibration(table: pd.DataFrame, accepted: tuple[float, float]) -> Figure:
    """A panel per parameter: coverage of the nominal 95 % intervals in every scenario, with its Wilson interval.

    Parameters
    ----------
    table : DataFrame
        CALIBRATION.
    accepted : (low, high)
        Coverages that count as right, drawn as a band.
    """
    scenarios = list(dict.fromkeys(table["scenario"]))
    parameters = [name for name in LABELS if (table["parameter"] == name).any()]
    figure, grid = plt.subplots(
        1, len(parameters), figsize=(style.PAGE, 1.2 + 0.27 * len(scenarios)), sharey=True, sharex=True, squeeze=False
    )
    for axes, parameter in zip(grid[0], parameters, strict=True):
        axes.axvspan(*accepted, color=style.NEUTRAL, alpha=0.15, linewidth=0, label="accepted")
        axes.axvline(0.95, color=style.NEUTRAL, linewidth=0.7)
        for shift, (method, (color, marker, fill)) in zip((-0.15, 0.15), LOOKS.items(), strict=True):
            rows = table[(table["parameter"] == parameter) & (table["method"] == method)].set_index("scenario")
            rows = rows.loc[scenarios]
            given = rows["accepted"].notna().to_numpy()
            place = np.arange(len(scenarios))[given] + shift
            value = rows["coverage"].to_numpy(float)[given]
            error = np.abs(rows.loc[given, ["low", "high"]].to_numpy(float).T - value)
            axes.errorbar(
                value, place, xerr=error, fmt=marker, color=color, markerfacecolor=fill, linewidth=0.8, markersize=3.5,
                label=method,
            )  # fmt: skip
        axes.set_title(LABELS[parameter], loc="left")
        axes.set_xlabel("coverage")
        axes.set_xlim(min(0.7, table["low"][table["accepted"].notna()].min() - 0.01), 1.005)
        axes.grid(axis="y", visible=False)
    first = table.drop_duplicates("scenario").set_index("scenario").loc[scenarios]
    names = [
        f"{name.replace('_', ' ')}\n({share:.0%} identifiable)"
        for name, share in (first["identifiable"] / first["runs"]).items()
    ]
    grid[0, 0].set_yticks(range(len(scenarios)), names, fontsize=6)
    grid[0, 0].set_ylim(len(scenarios) - 0.5, -0.5)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    counts = table.groupby("method")["intervals"].max()
    sizes = ", ".join(f"{method} up to {count}" for method, count in counts.items())
    style.note(
        figure,
        f"Nominal 95 % intervals of identifiable runs (intervals per point: {sizes}) with their Wilson intervals.\n"
        f"No point where fewer than half of the runs are identifiable.{_open(table)}",
    )
    return figure


def _open(table: pd.DataFrame) -> str:
    """Of which parameters drawn intervals have an end that the data do not set, and so cannot miss there."""
    shares = table[table["accepted"].notna()].groupby("parameter", sort=False)["open_share"].agg(["min", "max"])
    found: dict[str, list[str]] = {}
    for parameter, row in shares[shares["max"] > 0].iterrows():
        found.setdefault(f"{100 * row['min']:.0f} to {100 * row['max']:.0f} %", []).append(LABELS[parameter])
    return "".join(
        f" Of the intervals of {' and '.join(names)}, {share}, by scenario and method, are open at one end and cannot "
        "miss there."
        for share, names in found.items()
    )
