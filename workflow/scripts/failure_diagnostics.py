"""Makes failures.csv, failure_runs.csv, failure_diagnostics.csv and confusion.csv: runs with induced failures."""

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis import induced
from grpo_dynamics.analysis.tables_failures import CONFUSION, FAILURE_DIAGNOSTICS, FAILURE_LOG, FAILURE_RUNS


def main(
    settings: Annotated[str, typer.Option(help="JSON: the config's analysis and diagnostics; what each kind induces")],
    log: Annotated[Path, typer.Option(help="joined run logs to write (.csv)")],
    runs: Annotated[Path, typer.Option(help="a row per run to write (.csv)")],
    diagnostics: Annotated[Path, typer.Option(help="a row per run and number to write (.csv)")],
    confusion: Annotated[Path, typer.Option(help="confusion matrix to write (.csv)")],
    logs: Annotated[list[Path] | None, typer.Argument(help="run logs")] = None,
    kinds: Annotated[str, typer.Option(help="the kind of each run, in the logs' order")] = "",
) -> None:
    """Join the run logs and diagnose each run; without logs the tables are empty."""
    values = json.loads(settings)
    parts = [
        tables.read(path, tables.RUN_LOG).assign(kind=kind, induces=values["induces"][kind])
        for kind, path in zip(kinds.split(), logs or [], strict=True)
    ]
    columns = list(FAILURE_LOG.columns)
    joined = pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
    tables.write(joined, log, FAILURE_LOG)
    found, numbers = induced.diagnose_failures(joined, values["analysis"], values["diagnostics"])
    tables.write(found, runs, FAILURE_RUNS)
    tables.write(numbers, diagnostics, FAILURE_DIAGNOSTICS)
    tables.write(induced.confusion(found, values["analysis"]["alpha"]), confusion, CONFUSION)


if __name__ == "__main__":
    command.run(main)
