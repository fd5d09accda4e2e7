"""The workflow: its DAG by dry run, and the ci study from nothing to the report."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import ROOT, copy_project

from grpo_dynamics import tables
from grpo_dynamics.analysis.evidence import VERDICTS


def snakemake(project, *arguments, directory=None, **environment):
    where = ["--directory", str(directory)] if directory else []
    # Rules call `python`: it must be the one that runs the tests.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments, *where],
        cwd=project,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
    )


def job_counts(output):
    """Jobs per rule from the table that a dry run prints."""
    table = output.split("Job stats:")[1].split("total")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)}


def overlay(study):
    return [] if study == "cpu" else ["--configfile", f"config/studies/{study}.yaml"]


# Models x G x seeds: 3 x 2 x 4 in cpu and paper, 2 x 2 x 2 in ci. Variants: equal prompts at G = 4 for all models and
# seeds; two values of eta for one model, both G and 3 seeds (2 in ci).
# Runs with induced failures: 8 healthy and 4 of each of five kinds; one of each of five kinds in ci; none in paper.
INDUCED = {"failure_problems": 1, "figure_failures": 1, "figure_confusion": 1}
EXPECTED = {
    "cpu": {"pretrain": 3, "grpo": 24, "grpo_variant": 24, "evaluate_base": 3, "evaluate_run": 24, "ladder_data": 9}
    | {"grpo_failure": 28}
    | INDUCED,
    "ci": {"pretrain": 2, "grpo": 8, "grpo_variant": 12, "evaluate_base": 2, "evaluate_run": 8, "ladder_data": 9}
    | {"grpo_failure": 5}
    | INDUCED,
    "paper": {"download_model": 3, "download_data": 10, "grpo": 24, "grpo_variant": 24}
    | {"evaluate_base": 3, "evaluate_run": 24},
}


# The rest is the same in every study.
ONCE = """
    training_data benchmark_checks
    runs variants failure_diagnostics evaluations fits calibration_table group_size power predictions
    transfer diagnostics
    claims stage_times manifest all figure_reward_curves figure_group_size figure_predictions figure_transfer
    figure_diagnostics figure_damping figure_calibration
    figure_bandit_trajectories figure_bandit_regime_map figure_bandit_threshold_ratio
    figure_bandit_stationary_variance figure_bandit_drift figure_bandit_finite_step
"""
COMMON = {**dict.fromkeys(ONCE.split(), 1), "bandit_table": 10, "table_page": 23}


@pytest.mark.parametrize("study", EXPECTED)
@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_dry_run_plans_the_whole_study(study, profile, tmp_path):
    done = snakemake(
        ROOT, "-n", "--workflow-profile", f"profiles/{profile}", "--cores", "2", *overlay(study), directory=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = job_counts(done.stdout + done.stderr)
    assert counts == EXPECTED[study] | COMMON


@pytest.mark.parametrize(
    "target", ["bandit", "runs", "variants", "failures", "evaluations", "calibration", "figures", "claims"]
)
def test_targets_exist(target, tmp_path):
    done = snakemake(ROOT, "-n", "--cores", "2", target, directory=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = job_counts(done.stdout + done.stderr)
    assert ("grpo" in counts) == (target not in ("bandit", "variants", "calibration"))
    assert ("grpo_variant" in counts) == (target in ("variants", "figures", "claims"))
    assert ("grpo_failure" in counts) == (target in ("failures", "figures", "claims"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project in which the ci study has run from nothing."""
    copy = copy_project(tmp_path_factory.mktemp("clone") / "project")
    done = snakemake(copy, "--cores", "2", *overlay("ci"))
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return copy


@pytest.mark.study
def test_the_ci_study_makes_everything(project):
    results = project / "results" / "ci"
    config = yaml.safe_load((ROOT / "config" / "studies" / "ci.yaml").read_text())
    runs = tables.read(results / "runs.csv", tables.RUN_LOG)
    assert len(runs) == 2 * 2 * 2 * config["grpo"]["steps"]
    assert set(runs["sample_age"]) == set(range(config["grpo"]["K_ref"]))
    evaluations = tables.read(results / "evaluations.csv", tables.EVALUATIONS)
    assert len(evaluations) == (2 + 8) * 9
    assert set(evaluations["items"]) == {config["evaluation"]["items"]}
    fits = pd.read_csv(results / "fits.csv")
    assert fits["r2"].notna().all()
    claims = pd.read_csv(results / "claims.csv")
    assert list(claims["id"]) == [*(f"C{number}" for number in range(1, 17)), "B2", "B3", "B4", "B5"]
    assert set(claims["verdict"]) <= set(VERDICTS)
    times = tables.read(results / "benchmarks.csv", tables.STAGE_TIMES).set_index("stage")
    assert times.loc["grpo", "jobs"] == 8 + 12 + 2
    for name in (
        *("reward_curves", "group_size", "predictions", "transfer", "diagnostics", "damping", "calibration"),
        *("bandit_trajectories", "bandit_regime_map", "bandit_threshold_ratio", "bandit_stationary_variance"),
        *("bandit_drift", "bandit_finite_step", "failures", "confusion"),
    ):
        for kind in ("pdf", "png"):
            assert (results / "figures" / f"{name}.{kind}").stat().st_size > 1000


@pytest.mark.study
def test_a_second_run_does_nothing(project):
    done = snakemake(project, "--cores", "2", *overlay("ci"))
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.study
def test_report_is_one_self_contained_page(project):
    report = project / "results" / "ci" / "report.html"
    done = snakemake(project, "--report", str(report), *overlay("ci"))
    assert done.returncode == 0, done.stderr[-3000:]
    text = report.read_text()
    assert "reward_curves" in text
    assert "claims" in text
    assert "manifest.html" in text
    assert not re.search(r'<(script|link)[^>]+(src|href)="https?://', text)


@pytest.mark.study
def test_a_figure_s_code_redraws_figures_and_never_retrains(project):
    module = project / "workflow" / "grpo_dynamics" / "figures" / "reward_curves.py"
    module.write_text(module.read_text() + "\n# edited\n")
    done = snakemake(project, "-n", "--cores", "2", *overlay("ci"))
    counts = job_counts(done.stdout + done.stderr)
    assert set(counts) == {"figure_reward_curves", "stage_times", "manifest", "all"}
