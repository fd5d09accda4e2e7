"""Collects the evaluations of all checkpoints into one table of accuracies and one of completions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from grpo_dynamics import command, tables


def main(
    folders: Annotated[list[Path], typer.Argument(help="a checkpoint's folder with summary.csv and items.parquet")],
    evaluations: Annotated[Path, typer.Option(help="table of accuracies to write (.csv)")],
    items: Annotated[Path, typer.Option(help="table of completions to write (.parquet)")],
) -> None:
    for name, schema, target in (
        ("summary.csv", tables.EVALUATIONS, evaluations),
        ("items.parquet", tables.EVALUATION_ITEMS, items),
    ):
        parts = [tables.read(folder / name, schema) for folder in folders]
        tables.write(pd.concat(parts, ignore_index=True), target, schema)


if __name__ == "__main__":
    command.run(main)
