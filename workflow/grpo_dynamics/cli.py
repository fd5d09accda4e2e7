"""The command line `grpo-dynamics`: read, fit, diagnose and predict one's own GRPO run.

Exit status: 0; 1 for input or options that cannot be used; 2 for a diagnosis at or above --fail-on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grpo_dynamics.command import InputError

if TYPE_CHECKING:
    from grpo_dynamics.analysis.diagnosis import Diagnosis
    from grpo_dynamics.reports.findings import Findings
    from grpo_dynamics.runlog.log import RunLog

# pandas, scipy, numba and matplotlib are imported within the commands: --help is there at once.

PATIENCE = 4.0  # seconds after which it is said what takes so long
STATUS = (
    "Exit status: 0; 1: input or options that cannot be used; 2: a diagnosis at or above --fail-on. Without colour: "
    "set NO_COLOR."
)
app = typer.Typer(
    name="grpo-dynamics",
    help="Reads the log of a GRPO run (TRL, verl, W&B, TensorBoard, CSV, JSON), fits the three-phase law, diagnoses "
    "failures and predicts how far the learning rate can go.",
    epilog=STATUS,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


class Severity(StrEnum):
    warning = "warning"
    critical = "critical"


class _Fired(Exception):
    """A diagnosis at or above --fail-on."""


Log = Annotated[Path, typer.Argument(metavar="LOG", help="a log file, or a folder of checkpoints or of event files")]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="COLUMN=KEY", help="take a column from this key of the log: reward=success_rate"),
]
GroupSize = Annotated[int | None, typer.Option("--group-size", "-G", help="completions per prompt")]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option("--reward-range", metavar="LOW HIGH", help="the least and the largest reward that there can be"),
]
Run = Annotated[str | None, typer.Option("--run", help="name or number of the run, where the log holds several")]
Json = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="write a self-contained page with plots")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="write the plot: .png, .pdf or .svg")]


def _pairs(option: str, entries: list[str] | None, form: str) -> dict[str, str]:
    pairs = {}
    for entry in entries or []:
        name, equals, value = entry.partition("=")
        if not (name and equals and value):
            raise InputError(f"{option}: found {entry}, expected {form}")
        pairs[name] = value
    return pairs


def _load(
    path: Path,
    renames: list[str] | None,
    group_size: int | None,
    reward_range: tuple[float, float] | None,
    run: str | None,
) -> tuple[RunLog, str]:
    from grpo_dynamics.runlog.read import choose, read

    pairs = _pairs("--map", renames, "COLUMN=KEY, such as reward=success_rate")
    return choose(read(path, pairs, group_size, reward_range), run)


def _thresholds(overrides: list[str] | None) -> dict[str, dict[str, float]]:
    from grpo_dynamics import config

    thresholds = config.defaults()["diagnostics"]
    form = "NUMBER.SEVERITY=VALUE, such as reward_fall.warning=0.4"
    for key, text in _pairs("--set", overrides, form).items():
        name, _, severity = key.partition(".")
        if name not in thresholds:
            raise InputError(f"--set: found the number {name}, expected one of {', '.join(thresholds)}")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if severity not in thresholds[name] or value != value:
            raise InputError(f"--set: found {key}={text}, expected {form}")
        thresholds[name][severity] = value
    return thresholds


@contextmanager
def _busy(what: str) -> Iterator[None]:
    """Says on standard error what takes long: a spinner on a terminal, elsewhere one line once it has taken long."""
    from rich.console import Console

    said = f"{what} (the first time also compiles, which takes up to a minute)"
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(said):
            yield
        return
    late = threading.Timer(PATIENCE, lambda: print(said, file=sys.stderr, flush=True))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


def _show(found: Findings, as_json: bool, html: Path | None, plot: Path | None = None) -> None:
    if html or plot:
        from grpo_dynamics.reports.page import write_page, write_plot

        with _busy("Drawing"):
            if plot:
                write_plot(found, plot)
            if html:
                write_page(found, html)
    if as_json:
        from grpo_dynamics.reports.data import to_json

        print(to_json(found))
        return
    from rich.console import Console

    from grpo_dynamics.reports import terminal

    terminal.show(Console(highlight=False, markup=False, emoji=False), found)
    for what, path in (("Page", html), ("Plot", plot)):
        if path:
            print(f"\n{what}: {path}")


@app.command(epilog=STATUS)
def read(
    log: Log,
    renames: Map = None,
    group_size: GroupSize = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Say how a log is read: what was taken from where, what was left out, seams and gaps; --json has the rows too."""
    from grpo_dynamics.reports.findings import Findings

    _show(Findings(*_load(log, renames, group_size, reward_range, run)), as_json, html)


@app.command(epilog=STATUS)
def fit(
    log: Log,
    renames: Map = None,
    group_size: GroupSize = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
    html: Html = None,
    plot: Plot = None,
) -> None:
    """Fit the three-phase law and its rivals: plateau, when it is reached, forecast, and whether that can be known."""
    from grpo_dynamics import config
    from grpo_dynamics.analysis.own_fit import fit_own
    from grpo_dynamics.reports.findings import Findings

    loaded = _load(log, renames, group_size, reward_range, run)
    with _busy("Fitting"):
        fitted = fit_own(loaded[0], config.defaults()["analysis"])
    _show(Findings(*loaded, fit=fitted), as_json, html, plot)


@app.command(epilog=STATUS)
def diagnose(
    log: Log,
    renames: Map = None,
    group_size: GroupSize = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
    html: Html = None,
    plot: Plot = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NUMBER.SEVERITY=VALUE", help="another threshold: reward_fall.warning=0.4"),
    ] = None,
    fail_on: Annotated[
        Severity | None, typer.Option("--fail-on", help="exit with status 2 at this severity or above")
    ] = None,
) -> None:
    """Look for reward hacking, groups without a signal, entropy collapse, instability and what goes with them."""
    from grpo_dynamics.reports.findings import SEVERITIES, Findings, worst

    thresholds = _thresholds(overrides)
    loaded = _load(log, renames, group_size, reward_range, run)
    with _busy("Diagnosing"):
        found = _diagnosed(loaded[0], thresholds)
    _show(Findings(*loaded, diagnoses=found), as_json, html, plot)
    severity = worst(found)
    if fail_on and severity in SEVERITIES and SEVERITIES.index(severity) >= SEVERITIES.index(fail_on):
        raise _Fired


def _diagnosed(log: RunLog, thresholds: dict[str, dict[str, float]]) -> tuple[Diagnosis, ...]:
    from grpo_dynamics import config
    from grpo_dynamics.analysis.diagnosis import diagnose_run

    options = config.defaults()["analysis"]
    return tuple(diagnose_run(log.table, log.G, log.reward_range, options, thresholds, log.not_binary))


@app.command(epilog=STATUS)
def predict(
    log: Annotated[
        Path | None, typer.Argument(metavar="[LOG]", help="a run to calibrate the curvature K on; or give --K")
    ] = None,
    eta: Annotated[float | None, typer.Option("--eta", "--learning-rate", help="learning rate")] = None,
    mu: Annotated[float | None, typer.Option("--mu", help="momentum; Adam's beta1")] = None,
    K_ref: Annotated[int | None, typer.Option("--K-ref", help="optimiser steps per sampled batch")] = None,
    group_size: GroupSize = None,
    K: Annotated[
        float | None, typer.Option("--K", "--curvature", help="curvature scale K, 1/eta/step, instead of LOG")
    ] = None,
    D: Annotated[float | None, typer.Option("--D", help="noise intensity at G = 1, reward squared per step")] = None,
    other_etas: Annotated[
        list[float] | None, typer.Option("--at-eta", help="also predict at this learning rate")
    ] = None,
    other_Gs: Annotated[list[int] | None, typer.Option("--at-G", help="also predict at this group size")] = None,
    renames: Map = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
    html: Html = None,
    plot: Plot = None,
) -> None:
    """Say the regime of a setting, and how far the learning rate and K_ref can go: closed form and exact."""
    from grpo_dynamics import config
    from grpo_dynamics.analysis.own_predict import predict as predicted
    from grpo_dynamics.reports.findings import Findings

    if log is None and (renames or reward_range or run):
        raise InputError("predict: found --map, --reward-range or --run without LOG, expected them beside a log")
    loaded = _load(log, renames, group_size, reward_range, run) if log else (None, "")
    with _busy("Calibrating"):
        forecast = predicted(
            config.defaults()["analysis"], loaded[0], eta=eta, mu=mu, K_ref=K_ref, G=group_size, K=K, D=D,
            other_etas=other_etas or (), other_Gs=other_Gs or (),
        )  # fmt: skip
    _show(Findings(*loaded, forecast=forecast), as_json, html, plot)


@app.command(epilog=STATUS)
def demo(
    failure: Annotated[
        str | None, typer.Argument(metavar="[FAILURE]", help="the simulated run; without it, the list of them")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="keep the log, to see or to change it")
    ] = None,
    as_json: Json = False,
    html: Html = None,
    plot: Plot = None,
) -> None:
    """Diagnose a simulated run, of which there is one for every failure, and a healthy one."""
    from grpo_dynamics import demo as simulated
    from grpo_dynamics.reports.findings import Findings

    known = ", ".join(simulated.RUNS)
    if failure is None and not (write or html or plot or as_json):
        print("Simulated runs, each for `grpo-dynamics demo NAME`:\n")
        print("\n".join(f"  {name:<15} {one.about}" for name, one in simulated.RUNS.items()))
        return
    if failure not in simulated.RUNS:
        raise InputError(f"demo: found {failure or 'no name'}, expected one of {known}")
    if write:
        simulated.write(failure, write)
    with _busy("Diagnosing"):
        log = simulated.load(failure)
        found = _diagnosed(log, _thresholds(None))
    _show(Findings(log, diagnoses=found), as_json, html, plot)
    if write and not as_json:
        print(f"\nThe log: {write}. Diagnose it with: grpo-dynamics diagnose {write} --group-size {simulated.G}")


@app.command(epilog=STATUS)
def selftest() -> None:
    """Diagnose every simulated run, and check that each failure is found and no other; exit with status 1 if not."""
    from grpo_dynamics import demo as simulated

    thresholds = _thresholds(None)
    wrong = 0
    for name, one in simulated.RUNS.items():
        with _busy(f"Diagnosing {name}"):
            fired = {each.group for each in _diagnosed(simulated.load(name), thresholds) if each.fired}
        right = fired == one.expected
        wrong += not right
        said = [", ".join(sorted(groups)) or "nothing" for groups in (one.expected, fired)]
        print(f"{'ok   ' if right else 'WRONG'} {name}: expected {said[0]}, found {said[1]}", flush=True)
    if wrong:
        raise InputError(f"selftest: found {wrong} simulated runs with another diagnosis, expected none")


def main() -> None:
    """Entry point: a mistake in the input is one sentence and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # where the encoding has no such symbol
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except _Fired:
        sys.exit(2)
    except SystemExit as done:
        sys.exit(1 if done.code == 2 else done.code)  # typer's 2, for a wrong option, means a diagnosis here


if __name__ == "__main__":
    main()
