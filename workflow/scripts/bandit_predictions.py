"""Makes results/<study>/bandit/predictions.csv: the law's predictions of the bandit with no fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import sampled
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.tables import PREDICTIONS


def main(
    problem: Annotated[str, typer.Option(help="beta and p_ref of the bandit, JSON")],
    settings: Annotated[
        str, typer.Option(help="settings of (eta, mu, K_ref), starts, group sizes, groups per step and replicas, JSON")
    ],
    seed: Annotated[int, typer.Option(help="the study's seed")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    table = sampled.predictions(Bandit(**json.loads(problem)), **json.loads(settings), seed=seed)
    tables.write(table, output, PREDICTIONS)


if __name__ == "__main__":
    command.run(main)
