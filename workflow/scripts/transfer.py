"""Makes results/<study>/transfer.csv and transfer_summary.csv: gains on all benchmarks, and per model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis import transfer
from grpo_dynamics.analysis.tables import TRANSFER, TRANSFER_SUMMARY


def main(
    evaluations: Annotated[Path, typer.Option(help="accuracies (.csv)")],
    items: Annotated[Path, typer.Option(help="every completion (.parquet)")],
    settings: Annotated[str, typer.Option(help="the config's analysis, JSON")],
    seed: Annotated[int, typer.Option(help="the study's seed")],
    output: Annotated[Path, typer.Option(help="gains to write (.csv)")],
    summary: Annotated[Path, typer.Option(help="summary per model to write (.csv)")],
) -> None:
    gains, models = transfer.transfer(
        tables.read(evaluations, tables.EVALUATIONS),
        tables.read(items, tables.EVALUATION_ITEMS),
        json.loads(settings),
        seed,
    )
    tables.write(gains, output, TRANSFER)
    tables.write(models, summary, TRANSFER_SUMMARY)


if __name__ == "__main__":
    command.run(main)
