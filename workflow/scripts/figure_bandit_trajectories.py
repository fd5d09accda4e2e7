"""Makes results/<study>/figures/bandit_trajectories: mean reward through the transition, one panel per K_ref."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit.tables import TRAJECTORIES
from grpo_dynamics.figures import bandit, style


def main(
    trajectories: Annotated[Path, typer.Option(help="table of the bandit's trajectories (.csv)")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(bandit.trajectories(tables.read(trajectories, TRAJECTORIES)), pdf, png)


if __name__ == "__main__":
    command.run(main)
