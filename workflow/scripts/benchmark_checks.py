"""Makes results/<study>/benchmark_checks.csv, unscorable.csv and contamination.csv: what is wrong with benchmarks."""

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.tasks import benchmarks, problems
from grpo_dynamics.tasks.checks import check


def main(
    files: Annotated[str, typer.Option(help="JSON: pairs of a benchmark and its file, in order of distance")],
    train: Annotated[Path, typer.Option(help="problems trained on")],
    checks: Annotated[Path, typer.Option(help="table of benchmarks to write (.csv)")],
    unscorable: Annotated[Path, typer.Option(help="table of gold answers that cannot be scored to write (.csv)")],
    contamination: Annotated[Path, typer.Option(help="table of problems known from training to write (.csv)")],
) -> None:
    """Write the three tables."""
    loaded = {name: benchmarks.load(name, path) for name, path in json.loads(files)}
    found = check(loaded, problems.read(train))
    schemas = (tables.BENCHMARK_CHECKS, tables.UNSCORABLE, tables.CONTAMINATION)
    for table, path, schema in zip(found, (checks, unscorable, contamination), schemas, strict=True):
        tables.write(table, path, schema)


if __name__ == "__main__":
    command.run(main)
