"""Makes results/<study>/figures/group_size: reward at the smallest and the largest G, and what else G changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE
from grpo_dynamics.figures import style
from grpo_dynamics.figures.group_size import group_size


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    variants: Annotated[Path, typer.Option(help="run log of the variants' runs (.csv)")],
    comparison: Annotated[Path, typer.Option(help="comparison of group sizes (.csv)")],
    settings: Annotated[str, typer.Option(help="labels of the models, alpha and equivalence_margin, JSON")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    options = json.loads(settings)
    with style.apply():
        figure = group_size(
            tables.read(runs, tables.RUN_LOG),
            tables.read(variants, tables.VARIANT_LOG),
            tables.read(comparison, GROUP_SIZE),
            dict(options["labels"]),
            options["alpha"],
            options["equivalence_margin"],
        )
        style.save(figure, pdf, png)


if __name__ == "__main__":
    command.run(main)
