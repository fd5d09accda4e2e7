"""Makes results/<study>/group_size.csv: what G changes, at equal completions and at equal prompts per step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.group_size import compare
from grpo_dynamics.analysis.tables_fits import FITS
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    variants: Annotated[Path, typer.Option(help="run log of the variants' runs (.csv)")],
    fits: Annotated[Path, typer.Option(help="table of fits (.csv)")],
    settings: Annotated[str, typer.Option(help="alpha, equivalence_margin and max_grad_norm, JSON")],
    output: Annotated[Path, typer.Option(help="comparison to write (.csv)")],
) -> None:
    comparison = compare(
        tables.read(runs, tables.RUN_LOG),
        tables.read(variants, tables.VARIANT_LOG),
        tables.read(fits, FITS),
        json.loads(settings),
    )
    tables.write(comparison, output, GROUP_SIZE)


if __name__ == "__main__":
    command.run(main)
