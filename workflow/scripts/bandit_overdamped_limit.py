"""Makes results/<study>/bandit/overdamped_limit.csv: the distance of the law from the single exponential."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import sweeps
from grpo_dynamics.bandit.tables import OVERDAMPED_LIMIT


def main(
    settings: Annotated[str, typer.Option(help="zetas and k, JSON")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    tables.write(sweeps.overdamped_limit(**json.loads(settings)), output, OVERDAMPED_LIMIT)


if __name__ == "__main__":
    command.run(main)
