"""Makes results/<study>/figures/transfer: gains on all benchmarks by distance, per model and group size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables import TRANSFER, TRANSFER_SUMMARY
from grpo_dynamics.figures import style
from grpo_dynamics.figures.transfer import transfer


def main(
    gains: Annotated[Path, typer.Option(help="gains (.csv)")],
    summary: Annotated[Path, typer.Option(help="summary per model (.csv)")],
    settings: Annotated[str, typer.Option(help="labels of the models and alpha, JSON")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    options = json.loads(settings)
    with style.apply():
        figure = transfer(
            tables.read(gains, TRANSFER),
            tables.read(summary, TRANSFER_SUMMARY),
            dict(options["labels"]),
            options["alpha"],
        )
        style.save(figure, pdf, png)


if __name__ == "__main__":
    command.run(main)
