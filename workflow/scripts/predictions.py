"""Makes results/<study>/predictions.csv: runs at other eta and G, predicted from one calibration cell per model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.prediction_table import predictions
from grpo_dynamics.analysis.tables_fits import FITS
from grpo_dynamics.analysis.tables_predictions import RUN_PREDICTIONS


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    variants: Annotated[Path, typer.Option(help="run log of the variants' runs (.csv)")],
    fits: Annotated[Path, typer.Option(help="table of fits (.csv)")],
    settings: Annotated[str, typer.Option(help="run_predictions, seed, mu, K_ref, alpha and block_length, JSON")],
    output: Annotated[Path, typer.Option(help="table of predictions to write (.csv)")],
) -> None:
    table = predictions(
        tables.read(runs, tables.RUN_LOG),
        tables.read(variants, tables.VARIANT_LOG),
        tables.read(fits, FITS),
        json.loads(settings),
    )
    tables.write(table, output, RUN_PREDICTIONS)


if __name__ == "__main__":
    command.run(main)
