"""Makes results/<study>/figures/calibration: coverage of the fits' intervals on simulated runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_fits import CALIBRATION
from grpo_dynamics.figures import style
from grpo_dynamics.figures.calibration import calibration


def main(
    table: Annotated[Path, typer.Option(help="table of coverages (.csv)")],
    low: Annotated[float, typer.Option(help="lowest coverage that counts as right")],
    high: Annotated[float, typer.Option(help="highest coverage that counts as right")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(calibration(tables.read(table, CALIBRATION), (low, high)), pdf, png)


if __name__ == "__main__":
    command.run(main)
