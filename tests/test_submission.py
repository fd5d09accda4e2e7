"""What SLURM is asked for: the study's own rules, submitted by Snakemake's plugin to a program in sbatch's place."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from conftest import copy_project

MODEL = "results/paper/models/r1-distill-qwen-1.5b/download.json"
RUN = "results/paper/runs/r1-distill-qwen-1.5b/G4/seed0/log.csv"
NODES = {
    "launch": {"accelerate": "several_nodes", "processes": 2, "nodes": 2},
    "grpo": {"micro_batch_size": 8},
    "resources": {"training": {"gpu": 4}},
}


@pytest.mark.parametrize(
    ("overlay", "expected", "gpus"),
    [
        ({}, {"--nodes=1", "--cpus-per-task=8", "--gpus=2"}, 2),
        # A number of GPUs for the whole job could come as three on one node and one on the other.
        (NODES, {"--ntasks=2", "--nodes=2", "--cpus-per-task=8", "--gres=gpu:2"}, 4),
    ],
    ids=["the paper's run has its GPUs on one node", "every node of several has its own"],
)
def test_what_a_training_job_asks_for(tmp_path, overlay, expected, gpus):
    """Of sbatch, through the plugin, and in the plan."""
    project = tmp_path / "project"
    copy_project(project)
    (project / "own.yaml").write_text(yaml.safe_dump(overlay))
    config = ["--configfile", "config/studies/paper.yaml", "own.yaml"]

    planned = [sys.executable, "-m", "snakemake", "plan", "--cores", "1", *config]
    subprocess.run(planned, cwd=project, check=True, capture_output=True, timeout=300)
    plan = pd.read_csv(project / "results" / "paper" / "plan.csv").set_index("stage")
    assert set(plan.loc["grpo", "devices"]) == {gpus}
    assert set(plan.loc["grpo", "asked_gpu"]) == {gpus}

    for name in (MODEL, "results/paper/data/train.jsonl", "results/paper/data/heldout.jsonl"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    sbatch.chmod(0o755)
    arguments = ["--workflow-profile", "profiles/slurm", "--allowed-rules", "grpo", "--retries", "0"]
    arguments += ["--slurm-init-seconds-before-status-checks", "1"]
    subprocess.run(
        [sys.executable, "-m", "snakemake", RUN, *arguments, *config],
        cwd=project,
        env=os.environ | {"PATH": f"{sbatch.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        timeout=300,
    )
    words = (tmp_path / "asked").read_text().split("--wrap")[0].split()
    assert {word for word in words if re.match(r"--(nodes|gpus|gres|ntasks|cpus|tasks)", word)} == expected
