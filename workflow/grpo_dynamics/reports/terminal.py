"""Findings on the terminal: readable in 80 columns, without colour too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grpo_dynamics.analysis.diagnosis import Diagnosis
from grpo_dynamics.analysis.own_band import number, span
from grpo_dynamics.analysis.own_fit import OwnFit
from grpo_dynamics.analysis.own_predict import Forecast
from grpo_dynamics.analysis.own_reach import SCHEDULES
from grpo_dynamics.reports.findings import (
    NAMES,
    Findings,
    cause,
    largest,
    limits,
    onset,
    outlook,
    readable,
    regime,
    standing,
    verdict,
    weighting,
    worst,
)
from grpo_dynamics.runlog.log import RunLog

LOOKS = {  # symbol and style of a verdict; the word stands beside them
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "critical": ("✗", "bold red"),
    "not assessable": ("○", "dim"),
}
ABOUT = {  # rows of the law's table
    "R_0": "reward at the start",
    "R_inf": "plateau",
    "w0": "natural frequency, per {unit}",
    "zeta": "damping ratio: overdamped above 1",
    "slow_start_end": "{unit} at which the slow start ends",
    "inflection": "{unit} of the fastest rise",
    "plateau_start": "{unit} at which 95 % of the way is covered",
}


def show(console: Console, found: Findings) -> None:
    """Print all that was asked for."""
    if found.diagnoses is not None:
        _diagnoses(console, found.log, found.diagnoses)
    if found.fit:
        _fit(console, found.fit)
    if found.forecast:
        _forecast(console, found.forecast)
    if found.log:
        _log(console, found.log, found.chosen, brief=bool(found.fit or found.diagnoses or found.forecast))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _paragraph(console: Console, label: str, text: str) -> None:
    console.print(Padding(Text.assemble((f"{label} ", "bold"), text), (0, 0, 0, 4)))


def _bullets(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text("  ·"), Text(line))
        console.print(grid)


def _diagnoses(console: Console, log: RunLog, diagnoses: Sequence[Diagnosis]) -> None:
    blind = all(one.verdict == "not assessable" for one in diagnoses)
    symbol, style = LOOKS["not assessable" if blind else worst(diagnoses)]
    console.print(Text(f"{symbol} {verdict(log, diagnoses)}", style=style))
    if cause(diagnoses):
        console.print(Text(cause(diagnoses)))
    _numbers(console, diagnoses)
    for one in diagnoses:
        if one.fired:
            symbol, style = LOOKS[one.verdict]
            console.print(Text(f"{symbol} {NAMES[one.group]} ({one.diagnostic}), {onset(one)}", style=style))
            _paragraph(console, "Evidence:", one.evidence)
            _paragraph(console, "May be confused with:", one.confused_with)
            _paragraph(console, "What to do:", one.remedy)
    excused = [f"{one.diagnostic}: {one.reason}" for one in diagnoses if one.verdict == "ok" and one.reason]
    if excused:
        _heading(console, "Beyond a threshold, but no failure")
        _bullets(console, excused)
    unseen = [f"{one.diagnostic}: {one.reason}" for one in diagnoses if one.verdict == "not assessable"]
    if unseen:
        _heading(console, "Not assessable (which is not health)")
        _bullets(console, unseen)


def _numbers(console: Console, diagnoses: Sequence[Diagnosis]) -> None:
    """The table of numbers, those of a failure below its name."""
    table = _table("failure, number", "verdict", "value [interval]", "fires", "since")
    for group in dict.fromkeys(one.group for one in diagnoses):
        members = [one for one in diagnoses if one.group == group]
        seen = [one for one in members if one.verdict != "not assessable"]
        table.add_row(NAMES[group], "" if seen else "○ unknown")
        for one in seen:
            symbol, style = LOOKS[one.verdict]
            table.add_row(
                f"  {one.diagnostic}",
                Text(f"{symbol} {one.verdict}", style=style),
                span(one),
                f"{'>' if one.fires_when == 'above' else '<'} {one.warning:g}",
                f"{one.onset:g}" if np.isfinite(one.onset) else "",
            )
    console.print(table)


def _fit(console: Console, fit: OwnFit) -> None:
    _heading(console, "Three-phase law")
    console.print(Text(f"{LOOKS['ok' if fit.identifiable else 'not assessable'][0]} {outlook(fit)}"))
    if fit.estimates:
        table = _table("", f"estimate [{100 * fit.level:g} % interval]", "")
        for name, one in {**fit.estimates, **fit.times}.items():
            known = "" if readable(fit, name) else ", not to be read as such"
            table.add_row(name, span(one), ABOUT[name].format(unit=fit.time_unit) + known)
        console.print(table)
    if fit.curves:
        table = _table("curve", "R² (raw)", "R² (forecast)", "AICc", "weight", "at a bound")
        for one in fit.curves:
            aicc = "–" if np.isnan(one.aicc) else f"{one.aicc:.1f}"
            table.add_row(
                one.name, number(one.r2), number(one.r2_forecast), aicc, number(one.weight), one.at_bound or ""
            )
        console.print(table)
        if weighting(fit):
            console.print(weighting(fit))
        law = next(one for one in fit.curves if one.name == "law")
        if np.isfinite(law.f_p_effective):
            console.print(
                f"F-test of the law against the exponential: p = {law.f_p_effective:.2g}, allowing for "
                f"autocorrelation ({law.f_p:.2g} without)."
            )
    if fit.band is not None:
        band, last = fit.band, -1
        console.print(
            f"Forecast for {fit.time_unit} {band.t[last]:.0f}: {number(band.mean[last])}, the curve in "
            f"[{number(band.low[last])}, {number(band.high[last])}], a single row in "
            f"[{number(band.row_low[last])}, {number(band.row_high[last])}], if the law holds."
        )
    _bullets(console, fit.notes)


def _forecast(console: Console, found: Forecast) -> None:
    setting = found.setting
    _heading(console, "Prediction")
    console.print(Text(f"{LOOKS[standing(found)][0]} {regime(found)}"))
    values = {"eta": setting.eta, "mu": setting.mu, "K_ref": setting.K_ref, "G": setting.G}
    console.print("At " + ", ".join(f"{name} = {value:g}" for name, value in values.items() if value is not None) + ":")
    if not found.reason:
        unit = found.calibration.time_unit if found.calibration else "step"
        console.print(
            f"K = {span(found.K)}, a = eta K = {span(found.a)} per {unit}, zeta = {number(found.zeta)}, "
            f"w0 = {number(found.w0)}."
        )
    table = _table("how samples age", "a", "eta [interval]", "times now", "largest K_ref")
    for one in found.reaches:
        table.add_row(SCHEDULES[one.schedule])
        for name, a, eta, times, K_ref in limits(one):
            table.add_row(f"  {name}", number(a), span(eta), number(times), largest(K_ref, one.searched))
    console.print(table)
    scatter = [f"{SCHEDULES[one.schedule]} {number(one.deviation)}" for one in found.reaches]
    if any(np.isfinite(one.deviation) for one in found.reaches):
        console.print(f"Stationary fluctuation of the reward (standard deviation): {'; '.join(scatter)}.")
    if found.trajectories:
        table = _table("trajectory", "regime", "zeta", "95 % of the way at", f"end ({found.unit})")
        for one in found.trajectories:
            named = f"eta = {one.setting.eta:g}" + (f", G = {one.setting.G}" if one.finite_group else "")
            table.add_row(named, one.regime, number(one.zeta), number(one.plateau_start), number(one.reward[-1]))
        console.print(table)
    _bullets(console, [*found.assumed, *found.caveats])


def _log(console: Console, log: RunLog, chosen: str, brief: bool) -> None:
    _heading(console, "The log")
    rows = int(log.table["reward"].notna().sum())
    G = f"G = {log.G}" if log.G else "G not known (--group-size)"
    low, high = log.reward_range
    console.print(
        Text(
            f"{log.source}: {log.format}, {len(log.table)} rows, {rows} rewards in [{low:g}, {high:g}], {G}; "
            f"axis: {log.axis}."
        )
    )
    if chosen:
        console.print(Text(f"Used: {chosen}."))
    if brief:
        console.print(Text("From: " + ", ".join(f"{one.column} = {one.key}" for one in log.mapping) + "."))
    else:
        table = _table("column", "taken from", "")
        for one in log.mapping:
            table.add_row(one.column, one.key, one.note)
        console.print(table)
        if log.settings:
            console.print("Settings: " + ", ".join(f"{name} = {value}" for name, value in log.settings.items()) + ".")
        if log.ignored:
            console.print(f"Not used: {', '.join(log.ignored)}.")
    _bullets(console, log.notes)
