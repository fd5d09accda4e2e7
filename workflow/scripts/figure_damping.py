"""Makes results/<study>/figures/damping: the damping ratios of all runs and cell means with their intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_fits import FITS
from grpo_dynamics.figures import style
from grpo_dynamics.figures.damping import damping


def main(
    fits: Annotated[Path, typer.Option(help="table of fits (.csv)")],
    settings: Annotated[str, typer.Option(help="labels of the models and alpha, JSON")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    options = json.loads(settings)
    with style.apply():
        style.save(damping(tables.read(fits, FITS), dict(options["labels"]), options["alpha"]), pdf, png)


if __name__ == "__main__":
    command.run(main)
