"""Makes results/<study>/power.csv: power of the tests on the group size against the number of seeds, and the cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.power import power_table
from grpo_dynamics.analysis.tables_groups import POWER


def main(
    settings: Annotated[str, typer.Option(help="the config's power, margin and alpha, and numbers of runs, JSON")],
    output: Annotated[Path, typer.Option(help="table of powers to write (.csv)")],
) -> None:
    tables.write(power_table(**json.loads(settings)), output, POWER)


if __name__ == "__main__":
    command.run(main)
