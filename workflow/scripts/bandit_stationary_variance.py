"""Makes results/<study>/bandit/stationary_variance.csv: the bandit's stationary variance against the group size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import sampled
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.tables import STATIONARY_VARIANCE


def main(
    problem: Annotated[str, typer.Option(help="beta and p_ref of the bandit, JSON")],
    settings: Annotated[
        str, typer.Option(help="eta, mu, K_ref, group sizes, groups per step, replicas and steps, JSON")
    ],
    seed: Annotated[int, typer.Option(help="the study's seed")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    table = sampled.stationary_variance(Bandit(**json.loads(problem)), **json.loads(settings), seed=seed)
    tables.write(table, output, STATIONARY_VARIANCE)


if __name__ == "__main__":
    command.run(main)
