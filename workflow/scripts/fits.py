"""Makes results/<study>/fits.csv: the three-phase law and the exponential on every run and cell mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.fit_table import fit_runs
from grpo_dynamics.analysis.tables import FITS


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    settings: Annotated[str, typer.Option(help="the config's analysis, JSON")],
    output: Annotated[Path, typer.Option(help="table of fits to write (.csv)")],
) -> None:
    tables.write(fit_runs(tables.read(runs, tables.RUN_LOG), json.loads(settings)), output, FITS)


if __name__ == "__main__":
    command.run(main)
