"""Makes results/<study>/figures/bandit_finite_step: where the second-order expansion breaks down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit.tables import FINITE_STEP
from grpo_dynamics.figures import bandit_finite_step, style


def main(
    finite_step: Annotated[Path, typer.Option(help="table of the closed form's errors at finite steps (.csv)")],
    pdf: Annotated[Path, typer.Option()],
    png: Annotated[Path, typer.Option()],
) -> None:
    with style.apply():
        style.save(bandit_finite_step.finite_step(tables.read(finite_step, FINITE_STEP)), pdf, png)


if __name__ == "__main__":
    command.run(main)
