"""The command line `grpo-dynamics`: read, fit, diagnose and predict one's own GRPO run.

Exit status: 0; 1 for input that cannot be used; 2 for a wrong option; 3 for a diagnosis at or above --fail-on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grpo_dynamics.command import InputError

if TYPE_CHECKING:
    from grpo_dynamics.reports.findings import Findings
    from grpo_dynamics.runlog.log import RunLog

# pandas, scipy, numba and matplotlib are imported within the commands: --help is there at once.

FAILED = 3  # exit status of a diagnosis at or above --fail-on

app = typer.Typer(
    name="grpo-dynamics",
    help="Reads the log of a GRPO run (TRL, verl, W&B, TensorBoard, CSV, JSON), fits the three-phase law, diagnoses "
    "failures and predicts how far the learning rate can go.",
    epilog="Exit status: 0; 1: input that cannot be used; 2: a wrong option; 3: a diagnosis at or above --fail-on.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


class Severity(StrEnum):
    warning = "warning"
    critical = "critical"


Log = Annotated[Path, typer.Argument(metavar="LOG", help="a log file, or a folder of checkpoints or of event files")]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="COLUMN=KEY", help="take a column from this key of the log: reward=success_rate"),
]
GroupSize = Annotated[int | None, typer.Option("--group-size", "-G", help="completions per prompt", min=1)]
RewardRange = Annotated[
    tuple[float, float] | None, typer.Option("--reward-range", metavar="LOW HIGH", help="range of the reward")
]
Run = Annotated[str | None, typer.Option("--run", help="name or number of the run, where the log holds several")]
Json = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="write a self-contained page with plots")]


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
    from grpo_dynamics.runlog.log import OWN_LOG
    from grpo_dynamics.runlog.read import choose, read

    pairs = _pairs("--map", renames, "COLUMN=KEY, such as reward=success_rate")
    for column in pairs:
        if column not in OWN_LOG.columns:
            raise InputError(f"--map: found the column {column}, expected one of {', '.join(OWN_LOG.columns)}")
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
    """Says on the terminal what takes long; nothing where standard error is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} (the first time also compiles, about half a minute)"):
        yield


def _show(found: Findings, as_json: bool, html: Path | None) -> None:
    if html:
        from grpo_dynamics.reports.page import write_page

        write_page(found, html)
    if as_json:
        from grpo_dynamics.reports.data import to_json

        print(to_json(found))
        return
    from rich.console import Console

    from grpo_dynamics.reports import terminal

    terminal.show(Console(highlight=False), found)
    if html:
        print(f"\nPage: {html}")


@app.command()
def read(
    log: Log,
    renames: Map = None,
    group_size: GroupSize = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
) -> None:
    """Say how a log is read: what was taken from where, what was left out, seams and gaps."""
    from grpo_dynamics.reports.findings import Findings

    _show(Findings(*_load(log, renames, group_size, reward_range, run)), as_json, None)


@app.command()
def fit(
    log: Log,
    renames: Map = None,
    group_size: GroupSize = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Fit the three-phase law and its rivals: plateau, when it is reached, forecast, and whether that can be known."""
    from grpo_dynamics import config
    from grpo_dynamics.analysis.own_fit import fit_own
    from grpo_dynamics.reports.findings import Findings

    loaded = _load(log, renames, group_size, reward_range, run)
    with _busy("Fitting"):
        fitted = fit_own(loaded[0], config.defaults()["analysis"])
    _show(Findings(*loaded, fit=fitted), as_json, html)


@app.command()
def diagnose(
    log: Log,
    renames: Map = None,
    group_size: GroupSize = None,
    reward_range: RewardRange = None,
    run: Run = None,
    as_json: Json = False,
    html: Html = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="NUMBER.SEVERITY=VALUE", help="another threshold")
    ] = None,
    fail_on: Annotated[
        Severity | None, typer.Option("--fail-on", help=f"exit with status {FAILED} at this severity or above")
    ] = None,
) -> None:
    """Look for reward hacking, groups without a signal, entropy collapse, instability and what goes with them."""
    from grpo_dynamics.reports.findings import SEVERITIES, Findings, worst

    thresholds = _thresholds(overrides)
    loaded = _load(log, renames, group_size, reward_range, run)
    with _busy("Diagnosing"):
        found = _diagnosed(loaded[0], thresholds)
    _show(Findings(*loaded, diagnoses=found), as_json, html)
    severity = worst(found)
    if fail_on and severity in SEVERITIES and SEVERITIES.index(severity) >= SEVERITIES.index(fail_on):
        raise typer.Exit(FAILED)


def _diagnosed(log: RunLog, thresholds: dict[str, dict[str, float]]) -> tuple:
    from grpo_dynamics import config
    from grpo_dynamics.analysis.diagnosis import diagnose_run

    return tuple(diagnose_run(log.table, log.G, log.reward_range, config.defaults()["analysis"], thresholds))


@app.command()
def predict(
    log: Annotated[Path | None, typer.Argument(metavar="[LOG]", help="a run to calibrate the curvature K on")] = None,
    eta: Annotated[float | None, typer.Option("--eta", "--learning-rate", help="learning rate")] = None,
    mu: Annotated[float | None, typer.Option("--mu", help="momentum; Adam's beta1")] = None,
    K_ref: Annotated[int | None, typer.Option("--K-ref", help="optimiser steps per sampled batch")] = None,
    group_size: GroupSize = None,
    K: Annotated[
        float | None, typer.Option("--K", "--curvature", help="curvature scale K, 1/eta/step, without LOG")
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
) -> None:
    """Say the regime of a setting, and how far the learning rate and K_ref can go: closed form and exact."""
    from grpo_dynamics import config
    from grpo_dynamics.analysis.own_predict import predict as predicted
    from grpo_dynamics.reports.findings import Findings

    loaded = _load(log, renames, group_size, reward_range, run) if log else (None, "")
    with _busy("Calibrating"):
        forecast = predicted(
            config.defaults()["analysis"], loaded[0], eta=eta, mu=mu, K_ref=K_ref, G=group_size, K=K, D=D,
            other_etas=other_etas or (), other_Gs=other_Gs or (),
        )  # fmt: skip
    _show(Findings(*loaded, forecast=forecast), as_json, html)


@app.command()
def demo(
    kind: Annotated[str | None, typer.Argument(help="which simulated run; without it, the list of them")] = None,
    write: Annotated[Path | None, typer.Option("--write", metavar="FILE", help="also keep the log, as JSON")] = None,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Diagnose a simulated run, one for every failure and a healthy one."""
    import tempfile

    from grpo_dynamics import demo as simulated

    if kind is None:
        print("Simulated runs, for `grpo-dynamics demo KIND`: " + ", ".join(simulated.KINDS))
        return
    if kind not in simulated.KINDS:
        raise InputError(f"demo: found {kind}, expected one of {', '.join(simulated.KINDS)}")
    with tempfile.TemporaryDirectory() as folder:
        path = write or Path(folder) / f"{kind}.json"
        simulated.write(kind, path)
        diagnose(path, group_size=simulated.G, as_json=as_json, html=html)


@app.command()
def selftest() -> None:
    """Diagnose every simulated run, and check that each failure is found and no other."""
    import tempfile

    from grpo_dynamics import demo as simulated
    from grpo_dynamics.analysis.diagnosis import primary

    thresholds = _thresholds(None)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, (expected, _) in simulated.KINDS.items():
            path = Path(folder) / f"{kind}.json"
            simulated.write(kind, path)
            with _busy(f"Diagnosing {kind}"):
                log, _ = _load(path, None, simulated.G, None, None)
                first = primary(list(_diagnosed(log, thresholds)))
            called = first.group if first else "none"
            wrong += called != expected
            print(
                f"{'ok   ' if called == expected else 'WRONG'} {kind}: expected {expected}, found {called}", flush=True
            )
    if wrong:
        raise InputError(f"selftest: found {wrong} simulated runs called wrong, expected none")


def main() -> None:
    """Entry point: a mistake in the input is one sentence and exit status 1."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
