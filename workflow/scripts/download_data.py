"""Makes results/<study>/data/hub/<name>.jsonl and .json: a data set of the Hugging Face hub, and what was fetched."""

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, hub
from grpo_dynamics.tasks import benchmarks


def main(
    name: Annotated[str, typer.Option(help="a benchmark, or gsm8k_train")],
    revision: Annotated[str, typer.Option(help="branch, tag or commit")],
    output: Annotated[Path, typer.Option(help="rows as on the hub (.jsonl)")],
    record: Annotated[Path, typer.Option(help="what was fetched (.json)")],
) -> None:
    """Download the rows, and check that they are those of the benchmark."""
    source = benchmarks.hub_source(name)
    fetched = hub.fetch_data(source.hub, source.config, source.split, revision, output)
    # Here and not first in a job on the cluster, days later.
    benchmarks.load(source.benchmark, output)
    hub.write_record(fetched, record)


if __name__ == "__main__":
    command.run(main)
