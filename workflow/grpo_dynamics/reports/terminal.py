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
from grpo_dynamics.analysis.own_band import Estimate
from grpo_dynamics.analysis.own_fit import OwnFit
from grpo_dynamics.analysis.own_predict import Forecast
from grpo_dynamics.reports.findings import NAMES, Findings, onset, verdict, worst
from grpo_dynamics.runlog.log import RunLog

LOOKS = {  # symbol and style of a verdict; the word stands beside them
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "critical": ("✗", "bold red"),
    "not assessable": ("○", "dim"),
}
SCHEDULES = {
    "closed_form": "closed form",
    "fixed_lag": "exact: fixed lag",
    "periodic": "exact: batch reused",
    "importance_corrected": "exact: reused, with ratios",
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


def number(value: float) -> str:
    """A number with three digits; a dash where there is none."""
    if np.isnan(value):
        return "–"
    return "any" if np.isinf(value) else f"{value:.3g}"


def span(one: Estimate | Diagnosis) -> str:
    """A number with its interval, as far as it has one."""
    if np.isnan(one.value) or np.isnan(one.low) or np.isnan(one.high):
        return number(one.value)
    ends = ["∞" if np.isinf(end) else f"{end:.3g}" for end in (one.low, one.high)]
    return f"{number(one.value)} [{ends[0]}, {ends[1]}]"


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
    symbol, style = LOOKS[worst(diagnoses)]
    console.print(Text(f"{symbol} {verdict(log, diagnoses)}", style=style))
    table = _table("failure", "number", "value [interval]", "fires", "verdict")
    for group in dict.fromkeys(one.group for one in diagnoses):
        for index, one in enumerate(one for one in diagnoses if one.group == group):
            if one.verdict == "not assessable":
                continue
            symbol, style = LOOKS[one.verdict]
            side = ">" if one.fires_when == "above" else "<"
            table.add_row(
                NAMES[group] if index == 0 else "",
                one.diagnostic,
                span(one),
                f"{side} {one.warning:g}",
                Text(f"{symbol} {one.verdict}", style=style),
            )
    console.print(table)
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
    blind = [f"{one.diagnostic}: {one.reason}" for one in diagnoses if one.verdict == "not assessable"]
    if blind:
        _heading(console, "Not assessable (which is not health)")
        _bullets(console, blind)


def _fit(console: Console, fit: OwnFit) -> None:
    unit = f"{fit.time_unit}s"
    _heading(console, "Three-phase law")
    if not fit.identifiable:
        console.print(Text(f"○ Not identifiable: {fit.explanation}"))
    if fit.estimates:
        table = _table("", f"estimate [{100 * fit.level:g} % interval]", "")
        plateau = "the reward at which it ends" if fit.identifiable else "not to be read as where it ends"
        for name, about in (("R_0", "reward at the start"), ("R_inf", f"plateau: {plateau}"),
                            ("w0", f"natural frequency, 1/{fit.time_unit}"), ("zeta", "damping ratio")):  # fmt: skip
            table.add_row(name, span(fit.estimates[name]), about)
        for name, about in (("slow_start_end", "end of the slow start"), ("inflection", "steepest"),
                            ("plateau_start", "95 % of the way covered")):  # fmt: skip
            if name in fit.times:
                table.add_row(name, span(fit.times[name]), f"{about}, {unit}")
        console.print(table)
        if np.isfinite(fit.covered):
            console.print(f"Covered at the last row: {100 * fit.covered:.0f} % of the fitted way.")
    if fit.curves:
        table = _table("curve", "R² (raw)", "R² (forecast)", "AICc", "weight", "at a bound")
        for one in fit.curves:
            aicc = "–" if np.isnan(one.aicc) else f"{one.aicc:.1f}"
            table.add_row(
                one.name, number(one.r2), number(one.r2_forecast), aicc, number(one.weight), one.at_bound or ""
            )
        console.print(table)
        law = next(one for one in fit.curves if one.name == "law")
        if np.isfinite(law.f_p_effective):
            console.print(
                f"F-test of the law against the exponential: p = {law.f_p_effective:.2g}, allowing for "
                f"autocorrelation ({law.f_p:.2g} without)."
            )
    if fit.band is not None:
        last = -1
        console.print(
            f"Forecast for {fit.time_unit} {fit.band.t[last]:.0f}: {number(fit.band.mean[last])}, the curve in "
            f"[{number(fit.band.low[last])}, {number(fit.band.high[last])}], a single row in "
            f"[{number(fit.band.row_low[last])}, {number(fit.band.row_high[last])}]."
        )
    _bullets(console, fit.notes)


def _forecast(console: Console, found: Forecast) -> None:
    setting = found.setting
    _heading(console, "Prediction")
    values = {"eta": setting.eta, "mu": setting.mu, "K_ref": setting.K_ref, "G": setting.G}
    console.print(", ".join(f"{name} = {value:g}" for name, value in values.items() if value is not None))
    if found.reason:
        console.print(Text(f"○ K is not known: {found.reason}"))
    else:
        console.print(
            f"K = {span(found.K)}, a = eta K = {span(found.a)} per step: {found.regime}, "
            f"zeta = {number(found.zeta)}, w0 = {number(found.w0)}."
        )
    table = _table("thresholds", "oscillates\nat a", "unstable\nat a", "largest eta\nstable", "times\nnow",
                   "largest K_ref\nstable")  # fmt: skip
    for one in found.reaches:
        table.add_row(
            SCHEDULES[one.schedule], number(one.onset_a), number(one.stability_a), span(one.stability_eta),
            number(one.stability_factor), number(one.stability_K_ref),
        )  # fmt: skip
    console.print(table)
    if len(found.trajectories):
        table = _table("trajectory", "regime", "zeta", "95 % of the way, steps", f"end ({found.unit})")
        for one in found.trajectories:
            named = f"eta = {one.setting.eta:g}" + (f", G = {one.setting.G}" if one.finite_group else "")
            table.add_row(named, one.regime, number(one.zeta), number(one.plateau_start), number(one.reward[-1]))
        console.print(table)
    _bullets(console, [*found.assumed, *found.caveats])


def _log(console: Console, log: RunLog, chosen: str, brief: bool) -> None:
    _heading(console, "The log")
    rows = int(log.table["reward"].notna().sum())
    G = f"G = {log.G}" if log.G else "G not known (--group-size)"
    console.print(Text(f"{log.source}: {log.format}, {len(log.table)} rows, {rows} rewards, {G}; axis: {log.axis}."))
    if chosen:
        console.print(Text(f"Used: {chosen}."))
    if not brief:
        table = _table("column", "taken from", "")
        for one in log.mapping:
            table.add_row(one.column, Text(one.key), Text(one.note))
        console.print(table)
        if log.ignored:
            console.print(Text(f"Not used: {', '.join(log.ignored)}"))
    else:
        console.print(Text("From: " + ", ".join(f"{one.column} = {one.key}" for one in log.mapping) + "."))
    _bullets(console, log.notes)
