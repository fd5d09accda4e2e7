"""Makes results/<study>/figures/diagnostics: the diagnostics of every run against their thresholds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables import DIAGNOSTICS
from grpo_dynamics.figures import style
from grpo_dynamics.figures.diagnostics import diagnostics


def main(
    table: Annotated[Path, typer.Option(help="table of diagnostics (.csv)")],
    settings: Annotated[str, typer.Option(help="labels of the models and alpha, JSON")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    options = json.loads(settings)
    with style.apply():
        style.save(diagnostics(tables.read(table, DIAGNOSTICS), dict(options["labels"]), options["alpha"]), pdf, png)


if __name__ == "__main__":
    command.run(main)
