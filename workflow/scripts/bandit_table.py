"""Makes results/<study>/bandit/<table>.csv: one of the bandit's sweeps (schemas in bandit/tables.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.bandit import predictions, sampled, sweeps
from grpo_dynamics.bandit import tables as schemas
from grpo_dynamics.bandit.model import Bandit

DETERMINISTIC = {
    "thresholds": sweeps.thresholds,
    "trajectories": sweeps.trajectories,
    "finite_step": sweeps.finite_step,
    "clipping": sweeps.clipping,
}
SAMPLED = {
    "fixed_point": sampled.fixed_points,
    "drift": sampled.drift,
    "stationary_variance": sampled.stationary_variance,
    "arms": sampled.arms,
    "predictions": predictions.predictions,
}


def main(
    table: Annotated[str, typer.Option(help="name of the table")],
    problem: Annotated[str, typer.Option(help="beta, p_ref and std of the bandit, JSON")],
    settings: Annotated[str, typer.Option(help="the table's section of the config's bandit, JSON")],
    seed: Annotated[int, typer.Option(help="the study's seed")],
    threads: Annotated[int, typer.Option(help="threads that replicas are spread over")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    options, bandit = json.loads(settings), Bandit(**json.loads(problem))
    if table in SAMPLED:
        made = SAMPLED[table](bandit, **options, seed=seed, threads=threads)
    elif table in DETERMINISTIC:
        made = DETERMINISTIC[table](bandit, **options)
    else:  # the law alone, without a bandit
        made = sweeps.overdamped_limit(**options)
    tables.write(made, output, getattr(schemas, table.upper()))


if __name__ == "__main__":
    command.run(main)
