"""Makes results/<study>/calibration.csv: how often the fits' intervals contain the truth, on simulated runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.calibration import calibrate
from grpo_dynamics.analysis.tables_fits import CALIBRATION
from grpo_dynamics.progress import Progress


def main(
    settings: Annotated[str, typer.Option(help="the config's analysis and calibration, and seed, JSON")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    options = json.loads(settings)
    study = options["calibration"]
    progress = Progress("calibration", study["replicas"] * len(study["scenarios"]))
    tables.write(calibrate(options["analysis"], study, options["seed"], progress.report), output, CALIBRATION)


if __name__ == "__main__":
    command.run(main)
