"""Makes results/<study>/figures/predictions: the runs at other eta and G, and what was predicted of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_predictions import RUN_PREDICTIONS
from grpo_dynamics.figures import style
from grpo_dynamics.figures.predictions import predictions as draw


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    variants: Annotated[Path, typer.Option(help="run log of the variants' runs (.csv)")],
    predictions: Annotated[Path, typer.Option(help="table of predictions (.csv)")],
    settings: Annotated[str, typer.Option(help="labels of the models, JSON")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        figure = draw(
            tables.read(runs, tables.RUN_LOG),
            tables.read(variants, tables.VARIANT_LOG),
            tables.read(predictions, RUN_PREDICTIONS),
            dict(json.loads(settings)["labels"]),
        )
        style.save(figure, pdf, png)


if __name__ == "__main__":
    command.run(main)
