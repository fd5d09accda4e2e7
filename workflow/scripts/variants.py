"""Makes results/<study>/variants.csv: the logs of the variants' runs in one table."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from grpo_dynamics import command, tables


def main(
    output: Annotated[Path, typer.Option()],
    logs: Annotated[list[Path] | None, typer.Argument(help="run logs")] = None,
    variants: Annotated[str, typer.Option(help="the variant of each log, in the logs' order")] = "",
) -> None:
    """Join the run logs, each with the name of its variant; without logs the table is empty."""
    parts = [
        tables.read(log, tables.RUN_LOG).assign(variant=variant)
        for variant, log in zip(variants.split(), logs or [], strict=True)
    ]
    columns = list(tables.VARIANT_LOG.columns)
    table = pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
    tables.write(table, output, tables.VARIANT_LOG)


if __name__ == "__main__":
    command.run(main)
