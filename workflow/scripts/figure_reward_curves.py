"""Makes results/<study>/figures/reward_curves: every cell's reward with the fitted three-phase law."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis.tables_fits import FITS
from grpo_dynamics.figures import style
from grpo_dynamics.figures.reward_curves import reward_curves


def main(
    runs: Annotated[Path, typer.Option(help="run log of all runs (.csv)")],
    fits: Annotated[Path, typer.Option(help="table of fits (.csv)")],
    settings: Annotated[str, typer.Option(help="labels of the models and alpha, JSON")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    labels = dict(json.loads(settings)["labels"])
    with style.apply():
        style.save(reward_curves(tables.read(runs, tables.RUN_LOG), tables.read(fits, FITS), labels), pdf, png)


if __name__ == "__main__":
    command.run(main)
