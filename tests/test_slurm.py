"""The study on a real SLURM cluster of one node: from nothing to the claims, and back after every kind of failure."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import copy_project
from slurm import cluster
from test_study import snakemake

from grpo_dynamics import tables

pytestmark = pytest.mark.slurm

# What differs from a real cluster: no accounting database, and an end of a job to be seen soon. No retries, so that a
# failure is the advice's to mend.
SLURM = [
    *("--workflow-profile", "profiles/slurm", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "5", "--retries", "0", "--cores", "2"),
]
# One model that takes seconds to train, in a run of each rule of GRPO.
TINY = {
    "study": "tiny",
    "models": ["llama-tiny"],
    "group_sizes": [4],
    "seeds": [0],
    "pretraining": {"steps": 20, "hidden_size": 16, "layers": 1},
    "training_data": {"problems": 200},
    "grpo": {
        **{"steps": 600, "completions_per_step": 16, "micro_batch_size": 16, "max_completion_length": 16},
        **{"K_ref": 2, "heldout_every": 100, "heldout_problems": 8, "checkpoint_every": 20},
    },
    "variants": {"equal_prompts": None, "eta_double": None},
    "failures": {
        "grpo": {"steps": 100, "completions_per_step": 16, "micro_batch_size": 16, "heldout_every": 50},
        "runs": dict.fromkeys(["easy_prompts", "hard_prompts", "entropy_penalty", "large_eta", "hackable_reward"])
        | {"healthy": {"seeds": [20]}},
    },
}
CELL = "llama-tiny/G4/seed0"
# By rule, the folder of its run.
RUNS = {
    "grpo": f"runs/{CELL}",
    "grpo_variant": f"variants/eta_half/{CELL}",
    "grpo_failure": "failures/healthy/llama-tiny/G4/seed20",
}


@pytest.fixture(scope="session")
def slurm():
    """A running cluster; where none can be started, tests are skipped, or fail with GRPO_DYNAMICS_REQUIRE_SLURM=1."""
    try:
        cluster.start(cpus=8)
    except cluster.Unavailable as why:
        if os.environ.get("GRPO_DYNAMICS_REQUIRE_SLURM"):
            raise
        pytest.skip(f"no SLURM: {why}")
    yield
    cluster.stop()


def copy_of_the_project(folder, overlay=TINY):
    copy_project(folder)
    (folder / "tiny.yaml").write_text(yaml.safe_dump(overlay))
    return folder


def results(project, study="tiny"):
    return project / "results" / study


def logs(names):
    return [f"results/tiny/{RUNS[name]}/log.csv" for name in names]


def read_log(project, rule):
    return tables.read(results(project) / RUNS[rule] / "log.csv", tables.RUN_LOG).drop(columns="seconds")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A project with the tiny model, its data and its undisturbed runs, made without SLURM."""
    project = copy_of_the_project(tmp_path_factory.mktemp("undisturbed") / "project")
    done = snakemake(project, *logs(RUNS), "--cores", "2", "--configfile", "tiny.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return project


@pytest.fixture
def project(undisturbed, tmp_path):
    """A project with the same model and data, but no runs."""
    project = copy_of_the_project(tmp_path / "project")
    for name in ("data", "models"):
        shutil.copytree(results(undisturbed) / name, results(project) / name)
    return project


@contextmanager
def in_the_background(*arguments):
    """Snakemake beside the block; when it has ended, the list holds its outcome."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(snakemake(*arguments)))
    thread.start()
    try:
        yield outcome
    finally:
        thread.join()


def wait_for_a_checkpoint(run, outcome):
    """Wait until a run has saved a checkpoint; `outcome` is that of `in_the_background`."""
    while not list(run.glob("checkpoints/checkpoint-*/complete")):
        assert not outcome, outcome[0].stderr[-5000:]
        time.sleep(0.1)


def processes_of(folder):
    """Processes of a training run, by the folder that its command line names."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"python" in words[0] and str(folder).encode() in words:
            found.append(int(path.parent.name))
    return found


def running_job(rule):
    """SLURM's number of the running job of a rule, by the comment that Snakemake gives it."""
    lines = subprocess.run(["squeue", "-h", "-t", "R", "-o", "%i %k"], capture_output=True, text=True).stdout
    [job] = re.findall(rf"^(\d+) rule_{rule}_wildcards", lines, re.MULTILINE)
    return job


def test_the_ci_study_runs_through_slurm(slurm, tmp_path):
    project = copy_of_the_project(tmp_path / "project")
    # Runs of this size are small jobs, too.
    path = project / "profiles" / "slurm" / "config.yaml"
    profile = yaml.safe_load(path.read_text())
    profile["groups"] |= dict.fromkeys(["grpo", "grpo_variant", "grpo_failure"], "training")
    profile["groups"] |= dict.fromkeys(["evaluate_base", "evaluate_run"], "evaluation")
    profile["group-components"] |= {"training": 13, "evaluation": 10}
    path.write_text(yaml.safe_dump(profile))
    done = snakemake(project, *SLURM, "--configfile", "config/studies/ci.yaml")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-5000:]
    claims = pd.read_csv(results(project, "ci") / "claims.csv")
    assert len(claims) == 20
    assert claims["verdict"].notna().all()
    assert (results(project, "ci") / "manifest.json").exists()
    # More than a hundred jobs of Snakemake are a dozen of SLURM.
    submitted = re.findall(r"has been submitted with SLURM jobid \d+ \(log: .*/(group|rule)_([a-z]+)", said)
    grouped = [name for kind, name in submitted if kind == "group"]
    assert set(grouped) == {"problems", "bandit", "training", "evaluation", "results"}
    assert len(submitted) < 15


def test_what_failed_is_recovered_by_the_printed_command(slurm, undisturbed, project):
    """A run is cancelled, one hangs until its time is over, and one needs more memory than it asked for."""
    command = [*logs(RUNS), *SLURM, "--configfile", "tiny.yaml", "--set-resources"]
    command += ["grpo_variant:runtime=1", "grpo_variant:stop_before=0", "grpo_failure:mem_mb=400"]
    with in_the_background(project, *command) as outcome:
        cancelled, hanging = (results(project) / RUNS[rule] for rule in ("grpo", "grpo_variant"))
        wait_for_a_checkpoint(hanging, outcome)
        for pid in processes_of(hanging.relative_to(project)):
            os.kill(pid, signal.SIGSTOP)
        wait_for_a_checkpoint(cancelled, outcome)
        subprocess.run(["scancel", running_job("grpo")], check=True)

    [done] = outcome
    assert done.returncode == 1
    said = done.stderr.split("What happened:\n")[1].split("Complete log")[0].strip()
    assert re.search(r"grpo \(job \d+\): cancelled", said), said
    assert re.search(r"grpo_variant \(job \d+\): out of time\n +grpo_variant had asked for 1 minutes", said), said
    assert re.search(r"grpo_failure \(job \d+\): out of memory\n +grpo_failure had asked for 400 MB", said), said
    advised = said.splitlines()[-1]
    for rule in RUNS:
        assert not (results(project) / RUNS[rule] / "log.csv").exists()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    again = subprocess.run(advised, shell=True, cwd=project, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr[-5000:]
    for rule in RUNS:
        pd.testing.assert_frame_equal(read_log(project, rule), read_log(undisturbed, rule), rtol=1e-6)


def test_a_run_longer_than_its_time_limit_is_requeued_and_finishes(slurm, project):
    (project / "long.yaml").write_text("grpo: {steps: 3000}\n")
    whole = shutil.copytree(project, project.parent / "whole")
    long = [*logs(["grpo"]), "--configfile", "tiny.yaml", "long.yaml"]
    with in_the_background(whole, *long, "--cores", "1") as outcome:
        done = snakemake(project, *long, *SLURM, "--set-resources", "grpo:runtime=1", "grpo:stop_before=0")
    assert [whole.returncode for whole in outcome] == [0]
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-5000:]
    [job] = re.findall(r"has been submitted with SLURM jobid (\d+)", said)
    shown = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True, check=True).stdout
    assert int(re.search(r"Restarts=(\d+)", shown)[1]) >= 1
    assert "Error" not in said
    pd.testing.assert_frame_equal(read_log(project, "grpo"), read_log(whole, "grpo"), rtol=1e-6)
