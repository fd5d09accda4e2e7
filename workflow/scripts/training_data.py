"""Makes results/<study>/data/train.jsonl and heldout.jsonl: the problems to train on and to hold out."""

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, seeds
from grpo_dynamics.tasks import problems, training


def main(
    settings: Annotated[str, typer.Option(help="JSON: the study's seed, task, training_data, heldout_problems")],
    train: Annotated[Path, typer.Option(help="problems to train on")],
    heldout: Annotated[Path, typer.Option(help="held-out problems")],
) -> None:
    """Write the two files."""
    values = json.loads(settings)
    seed = seeds.derive(values["seed"], "training data")
    to_train, to_hold_out = training.problems(values["task"], values["training_data"], values["heldout_problems"], seed)
    problems.write(to_train, train)
    problems.write(to_hold_out, heldout)


if __name__ == "__main__":
    command.run(main)
