"""Makes results/<study>/fits.csv: the three-phase law and its rivals on every run and cell mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.fit_table import fit_runs
from grpo_dynamics.analysis.series import all_series, with_variants
from grpo_dynamics.analysis.tables_fits import FITS
from grpo_dynamics.progress import Progress


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    variants: Annotated[Path, typer.Option(help="run log of the variants' runs (.csv)")],
    settings: Annotated[str, typer.Option(help="the config's analysis, and seed, JSON")],
    output: Annotated[Path, typer.Option(help="table of fits to write (.csv)")],
) -> None:
    options = json.loads(settings)
    logs = with_variants(tables.read(runs, tables.RUN_LOG), tables.read(variants, tables.VARIANT_LOG))
    progress = Progress("fits", sum(1 for _ in all_series(logs)))
    tables.write(fit_runs(logs, options["analysis"], options["seed"], progress.report), output, FITS)


if __name__ == "__main__":
    command.run(main)
