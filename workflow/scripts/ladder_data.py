"""Makes results/<study>/data/ladder/<benchmark>.jsonl: the problems of one benchmark of the ladder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, seeds
from grpo_dynamics.tasks import ladder, problems


def main(
    benchmark: Annotated[str, typer.Option()],
    exclude: Annotated[list[Path], typer.Option(help="problems that must not appear")],
    settings: Annotated[str, typer.Option(help="JSON: the study's seed, items")],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Draw the problems."""
    values = json.loads(settings)
    seen = frozenset(row["question"] for path in exclude for row in problems.read(path))
    drawn = ladder.generate(benchmark, values["items"], seeds.derive(values["seed"], benchmark), seen)
    problems.write(ladder.rows(drawn), output)


if __name__ == "__main__":
    command.run(main)
