"""Makes results/<study>/figures/failures: the runs with induced failures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_failures import FAILURE_LOG, FAILURE_RUNS
from grpo_dynamics.figures import style
from grpo_dynamics.figures.failures import failures


def main(
    log: Annotated[Path, typer.Option(help="run logs with induced failures (.csv)")],
    runs: Annotated[Path, typer.Option(help="what the runs are called (.csv)")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(failures(tables.read(log, FAILURE_LOG), tables.read(runs, FAILURE_RUNS)), pdf, png)


if __name__ == "__main__":
    command.run(main)
