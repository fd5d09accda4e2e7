"""One's own run: its rewards with the law and a forecast, the series that diagnoses rest on, and a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, wrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from grpo_dynamics.analysis.own_band import span
from grpo_dynamics.analysis.own_fit import OwnFit
from grpo_dynamics.analysis.own_predict import Forecast
from grpo_dynamics.analysis.own_reach import SCHEDULES
from grpo_dynamics.analysis.own_series import time_unit
from grpo_dynamics.figures import style
from grpo_dynamics.figures.own_looks import FIRED, Onset, beside, label, onsets
from grpo_dynamics.runlog.log import RunLog

WIDTH = 150  # characters of a line below a figure
RAW, HELDOUT = style.COLORS[0], style.COLORS[1]
RIVALS = {  # label and dashes
    "exponential": ("single exponential", (0, (2, 1.5))),
    "logistic": ("logistic", (0, (1, 1))),
    "gompertz": ("Gompertz", (0, (5, 1, 1, 1))),
    "flow": ("mean-field flow", (0, (4, 1.5))),
    "flow_ceiling": ("flow below a ceiling", (0, (7, 1.5))),
}
PANELS = {  # columns of OWN_LOG that diagnoses rest on, and their names
    "reward": "reward",
    "collapsed_share": "share of collapsed groups",
    "reward_std": "reward std within groups",
    "entropy": "entropy, nats per token",
    "grad_norm": "gradient norm",
    "ratio_max": "largest importance ratio",
    "kl": "KL to the reference, nats per token",
    "truncated_share": "share of truncated completions",
}
_HELDOUT = {"linestyle": "none", "marker": "s", "markerfacecolor": "white"}
LOGARITHMIC = ("grad_norm", "ratio_max")
STRIP = 0.23  # share of the axes' height below the data that the times of the phases stand in
MADE = {"step": "optimiser steps made", "rollout": "rollout steps made", "row": "row of the log"}
LOGGED = {"step": "optimiser step", "rollout": "rollout step", "row": "row of the log"}


def fit_figure(log: RunLog, own_fit: OwnFit, diagnoses: Sequence[Onset] = ()) -> Figure:
    """The raw rewards, the law with its band over the run and the forecast, its rivals, plateau, phases and onsets.

    Parameters
    ----------
    log : RunLog
    own_fit : OwnFit
        The fit of `log`.
    diagnoses : sequence
        Fired ones are marked at their onset.
    """
    with style.apply():
        figure, axes = plt.subplots(figsize=(style.PAGE, 3.9))
        raw = {"alpha": 0.6 if len(own_fit.series.t) > 60 else 0.9, "label": "rewards, raw", "zorder": 2}
        axes.plot(own_fit.series.t, own_fit.series.y, ".", color=RAW, markersize=3, **raw)
        if len(own_fit.heldout[0]):
            axes.plot(*own_fit.heldout, color=HELDOUT, markersize=3.5, label="held out, raw", zorder=3, **_HELDOUT)
        if own_fit.curves:
            _curves(axes, own_fit)
        _ylim(axes, own_fit)
        if own_fit.identifiable:
            _plateau_and_phases(axes, own_fit)
        onsets(axes, diagnoses)
        axes.set_xlabel(MADE[own_fit.time_unit])
        axes.set_ylabel("reward")
        axes.set_title(log.name, loc="left")
        figure.legend(loc="outside right upper")
        style.note(figure, _fit_note(own_fit))
    return figure


def _curves(axes: Axes, own_fit: OwnFit) -> None:
    """The rivals, best first in the legend, the law, its bands and the forecast's stretch of time."""
    series, band = own_fit.series, own_fit.band
    t = np.linspace(series.origin, series.t[-1], 300) if band is None else band.t
    for one in own_fit.curves:
        if one.name in RIVALS:
            name, dashes = RIVALS[one.name]
            look = {"color": style.NEUTRAL, "linewidth": 0.7, "linestyle": dashes, "zorder": 3}
            axes.plot(t, own_fit.curve(one.name, t), label=name, **look)
    law = own_fit.curve("law", t) if band is None else band.mean
    axes.plot(t, law, color=style.MEASURED, linewidth=1.4, label="three-phase law", zorder=5)
    if band is None:
        return
    level, look = f"{100 * own_fit.level:g} %", {"color": style.MEASURED, "linewidth": 0}
    axes.fill_between(t, band.row_low, band.row_high, alpha=0.07, label=f"a row, {level}", **look)
    axes.fill_between(t, band.low, band.high, alpha=0.25, label=f"the law, {level}", zorder=4, **look)
    axes.axvspan(series.t[-1], t[-1], color=style.PREDICTED, alpha=0.06, linewidth=0, label="forecast")
    axes.set_xlim(t[0], t[-1])


def _ylim(axes: Axes, own_fit: OwnFit) -> None:
    """Over the rewards and the law's band; a rival that leaves them does not set the scale."""
    seen = [own_fit.series.y, own_fit.heldout[1]]
    if own_fit.band is not None:
        seen += [own_fit.band.mean, own_fit.band.low, own_fit.band.high]
    values = np.concatenate(seen)
    values = values[np.isfinite(values)]
    if len(values):
        room = 0.08 * (np.ptp(values) or 1.0)
        axes.set_ylim(values.min() - room, values.max() + 1.6 * room)


def _plateau_and_phases(axes: Axes, own_fit: OwnFit) -> None:
    """The plateau with its interval, and below the data, in a strip of their own, the times of the phases."""
    low, high = axes.get_ylim()
    axes.set_ylim(high - (high - low) / (1 - STRIP), high)
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= high])
    at = axes.get_xaxis_transform()
    axes.add_patch(Rectangle((0, 0), 1, STRIP, transform=axes.transAxes, facecolor="white", linewidth=0, zorder=6))
    for spine in axes.spines.values():
        spine.set_zorder(9)
    axes.plot([0, 1], [STRIP, STRIP], color=style.GRID, linewidth=0.8, transform=axes.transAxes, zorder=7)
    plateau = own_fit.estimates["R_inf"]
    axes.axhline(plateau.value, color=style.PREDICTED, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    if np.isfinite(plateau.low + plateau.high):
        axes.axhspan(plateau.low, plateau.high, color=style.PREDICTED, alpha=0.12, linewidth=0, zorder=0)
    text, right = f"$R_\\infty$ = {span(plateau)}", axes.get_xlim()[1]
    look = {"ha": "right", "va": "bottom", "fontsize": 7, "color": style.PREDICTED}
    label(axes, text, (right, plateau.value), (-4, 3), xycoords="data", zorder=8, **look)
    names = {"slow_start_end": "slow start ends", "inflection": "fastest rise", "plateau_start": "95 % of the way"}
    for height, (name, text) in enumerate(names.items()):
        time = own_fit.times[name]
        y = 0.02 + STRIP * height / len(names)
        look = {"color": style.MEASURED, "transform": at, "zorder": 8}
        axes.plot(time.value, y, "|", markersize=7, **look)
        ends = np.clip([time.low, time.high], *axes.get_xlim())
        if np.all(np.isfinite(ends)):
            axes.plot(ends, [y, y], linewidth=0.8, **look)
        mark = float(np.clip(time.value, *axes.get_xlim()))
        side, away = beside(axes, mark)
        label(axes, f"{text}: {span(time)}", (mark, y), (away, 2), va="bottom", ha=side, zorder=8)


def _fit_note(own_fit: OwnFit) -> str:
    lines = [own_fit.explanation] if own_fit.explanation else []
    if own_fit.band is not None:
        lines.append(
            f"Bands: pointwise {100 * own_fit.level:g} % profile intervals of the law's value, and of a single row "
            "(noise added), if the law holds; laws that leave the reward's range are left out. Intervals of "
            "plateau and times are profile intervals too. Curves are fitted to the raw rows; nothing is smoothed. "
            "Thin: rivals, by AICc."
        )
    elif own_fit.curves:
        lines.append("Curves are fitted to the raw rows; nothing is smoothed, and no interval is given.")
    return "\n".join(line for text in lines for line in wrap(text, WIDTH))


def diagnosis_figure(log: RunLog, diagnoses: Sequence[Onset]) -> Figure:
    """A panel per series that diagnoses rest on, of those that the log has, with lines at the onsets.

    Parameters
    ----------
    log : RunLog
    diagnoses : sequence
    """
    table = log.table
    shown = [name for name in PANELS if name == "reward" or table[name].notna().any()]
    if (table["ratio_max"].dropna() == 1).all():  # by construction, without reuse of a batch
        shown = [name for name in shown if name != "ratio_max"]
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    bad = table.loc[table["non_finite"] != "", "step"]
    with style.apply():
        figure, grid = plt.subplots(rows, columns, figsize=(style.PAGE, 0.9 + 1.45 * rows), sharex=True, squeeze=False)
        for index, (name, axes) in enumerate(zip(shown, grid.flat, strict=False)):
            axes.plot(table["step"], table[name], ".", color=RAW, markersize=2.5, alpha=0.7, label="train, raw")
            if name == "reward" and table["heldout_reward"].notna().any():
                heldout = table["step"], table["heldout_reward"]
                axes.plot(*heldout, color=HELDOUT, markersize=3, label="held out, raw", **_HELDOUT)
                figure.legend(loc="outside upper right", ncols=2)
            if name in LOGARITHMIC and (table[name].dropna() > 0).all():
                axes.set_yscale("log")
            if len(bad):
                at = axes.get_xaxis_transform()
                axes.plot(bad, np.zeros(len(bad)), "|", color=FIRED["critical"], markersize=10, transform=at)
            if index == 0 and any(one.verdict in FIRED for one in diagnoses):  # room for the names
                low, high = axes.get_ylim()
                axes.set_ylim(low, high + 0.35 * (high - low))
            onsets(axes, diagnoses, named=index == 0)
            axes.set_title(PANELS[name], loc="left")
            if index + columns >= len(shown):  # with no panel below it
                axes.tick_params(labelbottom=True)
                axes.set_xlabel(LOGGED[time_unit(log)])
        for axes in grid.flat[len(shown) :]:
            axes.set_axis_off()
        text = "Raw rows; nothing is smoothed. Lines: onset of a warning (dashed) or of a critical finding (solid)."
        style.note(figure, text + (" Red ticks: rows with a NaN or an infinity." if len(bad) else ""))
    return figure


def prediction_figure(forecast: Forecast) -> Figure:
    """The predicted trajectories, and where a = eta K stands between onset and stability threshold of every schedule.

    Parameters
    ----------
    forecast : Forecast
    """
    with style.apply():
        figure, (left, right) = plt.subplots(1, 2, figsize=(style.PAGE, 3.2), width_ratios=(1.15, 1))
        _trajectories(left, forecast)
        _thresholds(right, forecast)
        said = [forecast.reason, "Right: thresholds at this mu and K_ref, on a logarithmic axis."]
        if np.isfinite(forecast.a.low):
            said.append("Grey: a with the bootstrap interval of K.")
        if forecast.trajectories:
            said.append("Left: the closed form, without noise and without an interval.")
        if forecast.calibration:
            said.append("Dots: the run's rewards, raw.")
        style.note(figure, fill(" ".join(filter(None, said)), WIDTH))
    return figure


def _trajectories(axes: Axes, forecast: Forecast) -> None:
    if forecast.calibration:
        axes.plot(forecast.calibration.t, forecast.calibration.y, ".", color=style.NEUTRAL, markersize=2.5, alpha=0.35)
    dashes = ["-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (7, 1.5))]
    for place, one in enumerate(forecast.trajectories):
        size = f", G = {one.setting.G} (finite-group drift)" if one.finite_group else ""
        color, width = (style.MEASURED, 1.5) if place == 0 else (style.COLORS[(place - 1) % len(style.COLORS)], 1.1)
        look = {"color": color, "linewidth": width, "linestyle": dashes[place % len(dashes)]}
        axes.plot(forecast.t, one.reward, label=f"eta = {one.setting.eta:.3g}{size}: {one.regime}", **look)
    if forecast.trajectories:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6.5)
        seen = [one.reward for one in forecast.trajectories] + [forecast.calibration.y if forecast.calibration else []]
        values = np.concatenate(seen)
        low, high = np.nanmin(values), np.nanmax(values)
        axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    axes.set_xlabel(MADE[forecast.calibration.time_unit if forecast.calibration else "step"])
    axes.set_ylabel(forecast.unit)
    axes.set_title("predicted reward" if forecast.trajectories else "no prediction: K is not known", loc="left")


def _thresholds(axes: Axes, forecast: Forecast) -> None:
    reaches = forecast.reaches
    a = forecast.a
    ends = [end for end in (a.low, a.value, a.high) if np.isfinite(end)]
    low = min([one.onset_a for one in reaches] + ends) / 3
    high = max([one.stability_a for one in reaches] + ends) * 3
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    regimes = (("monotone", style.COLORS[2], ""), ("oscillating", style.COLORS[1], "//"), ("unstable", "#b22222", "xx"))
    for place, one in enumerate(reaches):
        for (name, color, hatch), start, end in zip(
            regimes, (low, one.onset_a, one.stability_a), (one.onset_a, one.stability_a, high), strict=True
        ):
            look = {"color": color, "alpha": 0.3, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            axes.barh(place, end - start, left=start, height=0.55, label=name if place == 0 else None, **look)
        for value in (one.onset_a, one.stability_a):
            axes.plot([value, value], [place - 0.28, place + 0.28], color="#333333", linewidth=0.9)
            text = {"ha": "center", "va": "bottom", "fontsize": 6, "xycoords": "data", "zorder": 6}
            label(axes, f"{value:.3g}", (value, place - 0.3), (0, 1), **text)
    if np.isfinite(a.value):
        if np.isfinite(a.low):
            axes.axvspan(a.low, a.high, color=style.MEASURED, alpha=0.15, linewidth=0)
        axes.axvline(a.value, color=style.MEASURED, linewidth=1.4, label=f"a = {span(a)}")
    axes.set_yticks(range(len(reaches)), [SCHEDULES[one.schedule] for one in reaches])
    axes.set_ylim(len(reaches) - 0.4, -0.75)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("a = eta K, 1/step")
    axes.set_title(f"regimes at mu = {forecast.setting.mu:g}, K_ref = {forecast.setting.K_ref}", loc="left")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=6.5)
