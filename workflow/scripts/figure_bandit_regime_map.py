"""Makes results/<study>/figures/bandit_regime_map: regimes in the plane of K_ref and eta K, measured and predicted."""

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
        style.save(bandit.regime_map(tables.read(thresholds, THRESHOLDS)), pdf, png)


if __name__ == "__main__":
    command.run(main)
