"""Makes results/<study>/failures/<kind>/train.jsonl: training problems that are too hard."""

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, seeds
from grpo_dynamics.tasks import failures, problems


def main(
    settings: Annotated[str, typer.Option(help="JSON: the study's seed, the kind's name, operands, problems")],
    output: Annotated[Path, typer.Option(help="problems to write, JSON Lines")],
) -> None:
    values = json.loads(settings)
    seed = seeds.derive(values["seed"], "failures", values["kind"])
    problems.write(failures.hard_problems(*values["operands"], values["problems"], seed), output)


if __name__ == "__main__":
    command.run(main)
