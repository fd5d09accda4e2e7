"""Collects the evaluations of all checkpoints: accuracies by benchmark and by kind of problem, and completions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from grpo_dynamics import command, tables
from grpo_dynamics.evaluation.summary import summarise_groups


def main(
    folders: Annotated[list[Path], typer.Argument(help="a checkpoint's folder with summary.csv and items.parquet")],
    evaluations: Annotated[Path, typer.Option(help="table of accuracies to write (.csv)")],
    groups: Annotated[Path, typer.Option(help="table of accuracies by kind of problem to write (.csv)")],
    items: Annotated[Path, typer.Option(help="table of completions to write (.parquet)")],
) -> None:
    accuracies = [tables.read(folder / "summary.csv", tables.EVALUATIONS) for folder in folders]
    parts = [tables.read(folder / "items.parquet", tables.EVALUATION_ITEMS) for folder in folders]
    completions = pd.concat(parts, ignore_index=True)
    tables.write(pd.concat(accuracies, ignore_index=True), evaluations, tables.EVALUATIONS)
    tables.write(summarise_groups(completions), groups, tables.EVALUATIONS_BY_GROUP)
    tables.write(completions, items, tables.EVALUATION_ITEMS)


if __name__ == "__main__":
    command.run(main)
