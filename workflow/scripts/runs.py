"""Makes results/<study>/runs.csv: the logs of all GRPO runs in one table."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from grpo_dynamics import command, tables


def main(logs: list[Path], output: Annotated[Path, typer.Option()]) -> None:
    """Join the run logs."""
    tables.write(pd.concat([tables.read(log, tables.RUN_LOG) for log in logs]), output, tables.RUN_LOG)


if __name__ == "__main__":
    command.run(main)
