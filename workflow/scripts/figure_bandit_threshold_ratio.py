"""Makes results/<study>/figures/bandit_threshold_ratio: measured over closed-form thresholds against K_ref."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit.tables import THRESHOLDS
from grpo_dynamics.figures import bandit, style


def main(
    thresholds: Annotated[Path, typer.Option(help="table of the bandit's thresholds (.csv)")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(bandit.threshold_ratio(tables.read(thresholds, THRESHOLDS)), pdf, png)


if __name__ == "__main__":
    command.run(main)
