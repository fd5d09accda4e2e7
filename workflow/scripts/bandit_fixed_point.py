"""Makes results/<study>/bandit/fixed_point.csv: the bandit's fixed points and their stiffness K."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import sweeps
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.tables import FIXED_POINT


def main(
    problem: Annotated[str, typer.Option(help="beta and p_ref of the bandit, JSON")],
    settings: Annotated[str, typer.Option(help="group sizes, JSON")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    table = sweeps.fixed_points(Bandit(**json.loads(problem)), **json.loads(settings))
    tables.write(table, output, FIXED_POINT)


if __name__ == "__main__":
    command.run(main)
