"""Makes results/<study>/figures/bandit_stationary_variance: stationary variance of p against the group size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit.tables import STATIONARY_VARIANCE
from grpo_dynamics.figures import bandit_groups, style


def main(
    variance: Annotated[Path, typer.Option(help="table of the bandit's stationary variance (.csv)")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(bandit_groups.stationary_variance(tables.read(variance, STATIONARY_VARIANCE)), pdf, png)


if __name__ == "__main__":
    command.run(main)
