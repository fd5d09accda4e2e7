"""Makes results/<study>/plan.csv, and prints the plan: jobs, what they need and ask for, warnings, totals."""

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.training import plan, plan_text
from grpo_dynamics.training.estimate import Hardware


def main(
    settings: Annotated[str, typer.Option(help="JSON: the study's config")],
    jobs: Annotated[str, typer.Option(help="JSON: the jobs, and the folder of each base model")],
    output: Annotated[Path, typer.Option(help="table to write (.csv)")],
) -> None:
    """Estimate what the study will cost."""
    config, found = json.loads(settings), json.loads(jobs)
    table, unknown = plan.plan(config, found["jobs"], found["bases"])
    tables.write(table, output, plan.PLAN)
    hardware = Hardware(**config["hardware"])
    sums = plan.totals(table, hardware.at_once)
    print(plan_text.text(config["study"], table, sums, hardware, unknown), end="")


if __name__ == "__main__":
    command.run(main)
