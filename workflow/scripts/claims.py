"""Makes results/<study>/claims.csv and claims.html: a verdict on every claim, from the study's tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis import pages
from grpo_dynamics.analysis import tables as schemas
from grpo_dynamics.analysis.evidence import Evidence
from grpo_dynamics.analysis.ledger import ledger
from grpo_dynamics.analysis.tables_failures import CONFUSION, FAILURE_RUNS
from grpo_dynamics.analysis.tables_fits import CALIBRATION, FITS
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE
from grpo_dynamics.analysis.tables_predictions import RUN_PREDICTIONS
from grpo_dynamics.bandit import tables as bandit


def main(
    analysis: Annotated[Path, typer.Option(help="folder of the analysis's tables")],
    bandit_tables: Annotated[Path, typer.Option(help="folder of the bandit's tables")],
    settings: Annotated[str, typer.Option(help="study, models, analysis, claims and distilled, JSON")],
    template: Annotated[Path, typer.Option(help="template of the page (jinja2)")],
    output: Annotated[Path, typer.Option(help="ledger to write (.csv)")],
    page: Annotated[Path, typer.Option(help="page to write (.html)")],
) -> None:
    options = json.loads(settings)
    evidence = Evidence(
        fits=tables.read(analysis / "fits.csv", FITS),
        calibration=tables.read(analysis / "calibration.csv", CALIBRATION),
        group_size=tables.read(analysis / "group_size.csv", GROUP_SIZE),
        run_predictions=tables.read(analysis / "predictions.csv", RUN_PREDICTIONS),
        transfer=tables.read(analysis / "transfer.csv", schemas.TRANSFER),
        transfer_summary=tables.read(analysis / "transfer_summary.csv", schemas.TRANSFER_SUMMARY),
        diagnostics=tables.read(analysis / "diagnostics.csv", schemas.DIAGNOSTICS),
        failure_runs=tables.read(analysis / "failure_runs.csv", FAILURE_RUNS),
        confusion=tables.read(analysis / "confusion.csv", CONFUSION),
        fixed_point=tables.read(bandit_tables / "fixed_point.csv", bandit.FIXED_POINT),
        thresholds=tables.read(bandit_tables / "thresholds.csv", bandit.THRESHOLDS),
        trajectories=tables.read(bandit_tables / "trajectories.csv", bandit.TRAJECTORIES),
        finite_step=tables.read(bandit_tables / "finite_step.csv", bandit.FINITE_STEP),
        drift=tables.read(bandit_tables / "drift.csv", bandit.DRIFT),
        stationary_variance=tables.read(bandit_tables / "stationary_variance.csv", bandit.STATIONARY_VARIANCE),
        predictions=tables.read(bandit_tables / "predictions.csv", bandit.PREDICTIONS),
        overdamped_limit=tables.read(bandit_tables / "overdamped_limit.csv", bandit.OVERDAMPED_LIMIT),
        analysis=options["analysis"],
        claims=options["claims"],
        distilled=options["distilled"],
    )
    claims = ledger(evidence)
    tables.write(claims, output, schemas.CLAIMS)
    pages.claims_page(
        claims, options["study"], options["models"], options["group_sizes"], options["seeds"], template, page
    )


if __name__ == "__main__":
    command.run(main)
