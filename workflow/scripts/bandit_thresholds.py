"""Makes results/<study>/bandit/thresholds.csv: measured, closed-form and exact thresholds of the bandit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import sweeps
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.tables import THRESHOLDS


def main(
    problem: Annotated[str, typer.Option(help="beta and p_ref of the bandit, JSON")],
    settings: Annotated[str, typer.Option(help="schedules, mus, K_refs and the brackets' relative width, JSON")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    table = sweeps.thresholds(Bandit(**json.loads(problem)), **json.loads(settings))
    tables.write(table, output, THRESHOLDS)


if __name__ == "__main__":
    command.run(main)
