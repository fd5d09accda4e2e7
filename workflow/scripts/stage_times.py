"""Makes results/<study>/benchmarks.csv: the time and memory of every stage, from the rules' own benchmark files."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from grpo_dynamics import command, tables


def main(
    files: Annotated[list[Path], typer.Argument(help="benchmark files of the study's jobs; missing ones are left out")],
    folder: Annotated[Path, typer.Option(help="folder that they lie in, a sub-folder per stage")],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Add the jobs of each stage up."""
    rows = []
    for path in (path for path in files if path.exists()):
        job = pd.read_csv(path, sep="\t", na_values="-").iloc[0]
        stage = path.relative_to(folder).parts[0].removesuffix(".tsv")
        rows.append({"stage": stage, "seconds": job["s"], "memory": job["max_rss"]})
    jobs = pd.DataFrame(rows).groupby("stage")
    table = jobs.agg(
        jobs=("seconds", "size"), seconds=("seconds", "sum"), longest=("seconds", "max"), memory=("memory", "max")
    )
    tables.write(table.reset_index().sort_values("seconds", ascending=False), output, tables.STAGE_TIMES)


if __name__ == "__main__":
    command.run(main)
