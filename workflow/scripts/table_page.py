"""Makes results/<study>/pages/<table>.html: a table to read in the browser, with the meaning of its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, tables
from grpo_dynamics.analysis import pages
from grpo_dynamics.analysis import tables as schemas
from grpo_dynamics.analysis.tables_failures import CONFUSION, FAILURE_DIAGNOSTICS, FAILURE_RUNS
from grpo_dynamics.analysis.tables_fits import CALIBRATION, FITS
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE, POWER
from grpo_dynamics.analysis.tables_predictions import RUN_PREDICTIONS
from grpo_dynamics.bandit import tables as bandit

# Table: (schema, title, what it shows)
TABLES = {
    "fits": (FITS, "Fits", "The three-phase law and its rivals, fitted to every run and cell mean."),
    "calibration": (CALIBRATION, "Calibration", "How often the fits' intervals contain the truth, on simulated runs."),
    "group_size": (GROUP_SIZE, "Group size", "What the group size changes, per model."),
    "power": (POWER, "Power", "What number of seeds decides the claims on the group size, and at which cost."),
    "predictions": (RUN_PREDICTIONS, "Predictions", "Runs predicted without a fit from one calibration per model."),
    "transfer": (schemas.TRANSFER, "Transfer", "Gains in accuracy on every benchmark."),
    "transfer_summary": (schemas.TRANSFER_SUMMARY, "Transfer by model", "How gains fall with distance, per model."),
    "diagnostics": (schemas.DIAGNOSTICS, "Diagnostics", "The diagnostics of every run and their verdicts."),
    "failure_runs": (FAILURE_RUNS, "Induced failures", "What every run with an induced failure is called."),
    "failure_diagnostics": (
        FAILURE_DIAGNOSTICS,
        "Diagnostics of induced failures",
        "The diagnostics of every run with an induced failure.",
    ),
    "confusion": (CONFUSION, "Confusion matrix", "What runs with induced failures are called, with exact intervals."),
    "evaluations": (tables.EVALUATIONS, "Evaluations", "Accuracies of every checkpoint on every benchmark."),
    "evaluations_by_group": (
        tables.EVALUATIONS_BY_GROUP,
        "Evaluations by kind of problem",
        "Accuracies of every checkpoint on the kinds of problems of those benchmarks that have several.",
    ),
    "benchmark_checks": (
        tables.BENCHMARK_CHECKS,
        "Benchmarks",
        "Problems whose gold answer cannot be scored, which no accuracy counts, and problems that training gives away.",
    ),
    "unscorable": (
        tables.UNSCORABLE,
        "Unscorable",
        "Problems whose gold answer cannot be scored.",
    ),
    "contamination": (tables.CONTAMINATION, "Contamination", "Benchmark problems that training problems give away."),
    "fixed_point": (bandit.FIXED_POINT, "Fixed point", "The bandit's fixed point and stiffness K, by group size."),
    "thresholds": (bandit.THRESHOLDS, "Thresholds", "The bandit's measured thresholds beside closed form and exact."),
    "finite_step": (
        bandit.FINITE_STEP,
        "Finite steps",
        "The bandit's slowest mode beside the oscillator's and the exact one, as the step grows.",
    ),
    "clipping": (
        bandit.CLIPPING,
        "Clipping",
        "What the clipped ratio does to the bandit on both sides of its stability threshold.",
    ),
    "drift": (bandit.DRIFT, "Drift", "Drift and noise of sampled groups beside exact sums and leading order."),
    "stationary_variance": (
        bandit.STATIONARY_VARIANCE,
        "Stationary variance",
        "The bandit's stationary variance beside the exact one and the leading order.",
    ),
    "arms": (bandit.ARMS, "Arms", "Bandits with a logit per arm beside the one-logit bandit."),
}


def main(
    table: Annotated[str, typer.Option(help="name of the table")],
    source: Annotated[Path, typer.Option(help="the table (.csv)")],
    template: Annotated[Path, typer.Option(help="template of the page (jinja2)")],
    output: Annotated[Path, typer.Option(help="page to write (.html)")],
) -> None:
    schema, title, about = TABLES[table]
    pages.table_page(tables.read(source, schema), schema, title, about, template, output)


if __name__ == "__main__":
    command.run(main)
