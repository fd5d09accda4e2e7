"""Makes results/<study>/diagnostics.csv: the four groups of diagnostics of every run, with verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.diagnosis import diagnose
from grpo_dynamics.analysis.tables import DIAGNOSTICS


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    settings: Annotated[str, typer.Option(help="the config's analysis and diagnostics, JSON")],
    output: Annotated[Path, typer.Option(help="table of diagnostics to write (.csv)")],
) -> None:
    options = json.loads(settings)
    table = diagnose(tables.read(runs, tables.RUN_LOG), options["analysis"], options["diagnostics"])
    tables.write(table, output, DIAGNOSTICS)


if __name__ == "__main__":
    command.run(main)
