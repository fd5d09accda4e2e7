"""Makes results/<study>/figures/confusion: the confusion matrix of the diagnostics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_failures import CONFUSION
from grpo_dynamics.figures import style
from grpo_dynamics.figures.failures import confusion


def main(
    table: Annotated[Path, typer.Option(help="confusion matrix (.csv)")],
    alpha: Annotated[float, typer.Option(help="the intervals have level 1 - alpha")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(confusion(tables.read(table, CONFUSION), alpha), pdf, png)


if __name__ == "__main__":
    command.run(main)
