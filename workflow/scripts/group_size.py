"""Makes results/<study>/group_size.csv: plateau, trajectory and scatter at the smallest and largest G."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.group_size import compare
from grpo_dynamics.analysis.tables import FITS, GROUP_SIZE


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    fits: Annotated[Path, typer.Option(help="table of fits (.csv)")],
    settings: Annotated[str, typer.Option(help="the config's analysis, JSON")],
    output: Annotated[Path, typer.Option(help="comparison to write (.csv)")],
) -> None:
    comparison = compare(tables.read(runs, tables.RUN_LOG), tables.read(fits, FITS), json.loads(settings))
    tables.write(comparison, output, GROUP_SIZE)


if __name__ == "__main__":
    command.run(main)
