"""Makes results/<study>/bandit/trajectories.csv: the bandit and the law across a sweep of K_ref."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import sweeps
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.tables import TRAJECTORIES


def main(
    problem: Annotated[str, typer.Option(help="beta and p_ref of the bandit, JSON")],
    settings: Annotated[str, typer.Option(help="schedule, eta, mu, K_refs, start and steps, JSON")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    table = sweeps.trajectories(Bandit(**json.loads(problem)), **json.loads(settings))
    tables.write(table, output, TRAJECTORIES)


if __name__ == "__main__":
    command.run(main)
