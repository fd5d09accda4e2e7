"""Makes results/<study>/figures/bandit_drift: drift and noise of a sampled group against p."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit.tables import DRIFT
from grpo_dynamics.figures import bandit_groups, style


def main(
    drift: Annotated[Path, typer.Option(help="table of a group's drift and noise (.csv)")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(bandit_groups.drift(tables.read(drift, DRIFT)), pdf, png)


if __name__ == "__main__":
    command.run(main)
