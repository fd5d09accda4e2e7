"""What the advice makes of Snakemake's log: which jobs failed for good, of what, and the command that goes on."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT

from grpo_dynamics import recovery

# As Snakemake 9.27 writes them: a job, a job that fails and succeeds at its second try, and a group.
JOB = """\
[Thu Dec  3 00:08:01 2026]
Error in rule grpo:
    message: SLURM-job '8' failed, SLURM status is: '{state}'. Detailed failure reason unavailable.
    jobid: 1
    input: results/data/train.jsonl
    output: results/runs/G4/log.csv
    log: results/logs/grpo.log, .snakemake/slurm_logs/rule_grpo/8.log (check log file(s) for error details)
    shell:
        python -m grpo_dynamics.training.run
        (command exited with non-zero exit code)
    external_jobid: 8
Logfile results/logs/grpo.log: empty file
"""
RETRIED = """\
Error in rule pretrain:
    message: SLURM-job '5' failed, SLURM status is: 'TIMEOUT'.
    jobid: 2
    external_jobid: 5
Trying to restart job 2.
[Thu Dec  3 00:08:20 2026]
Finished jobid: 2 (Rule: pretrain)
"""
GROUP = """\
[Thu Dec  3 00:06:22 2026]
    message: Error in group problems
    log: .snakemake/slurm_logs/group_problems/6.log (check log file(s) for error details)
    jobs:
        rule training_data:
            jobid: 3
            output: results/data/train.jsonl
            log: results/logs/training_data.log (check log file(s) for error details)
        rule ladder_data:
            jobid: 4
            log: results/logs/ladder_data.log (check log file(s) for error details)
Logfile .snakemake/slurm_logs/group_problems/6.log:
================================================================================
SNAKEMAKE
=========
Error in rule ladder_data:
    message: None
    jobid: 0
    log: results/logs/ladder_data.log (check log file(s) for error details)
================================================================================
    [Thu Dec  3 00:06:22 2026]
    Error in rule training_data:
        message: None
        jobid: 3
"""
# A group that sbatch refuses; its words ('invalid partition specified: cpu') are nowhere in the log.
REFUSED_GROUP = """\
SLURM run ID: a01ef3b6-c947-437f-8b65-2c39300e34bc
No SLURM account given, trying to guess.
[Thu Dec  3 05:36:37 2026]
    message: Error in group problems
    jobs:
        rule training_data:
            jobid: 3
            output: results/data/train.jsonl, results/data/heldout.jsonl
            log: results/logs/training_data.log (check log file(s) for error details)
        rule ladder_data:
            jobid: 4
            output: results/data/ladder/ladder_names.jsonl
            log: results/logs/ladder_data.log (check log file(s) for error details)
Logfile results/logs/training_data.log not found.
    [Thu Dec  3 05:36:37 2026]
    Error in rule ladder_data:
        message: None
        jobid: 4
        output: results/data/ladder/ladder_names.jsonl
        log: results/logs/ladder_data.log (check log file(s) for error details)
    Logfile results/logs/ladder_data.log not found.
"""
KILLED = "slurmstepd-vm: error: StepId=8.0 exceeded memory limit (510083072 > 471859200), being killed\n"
ASKED = {
    1: {"rule": "grpo", "mem_mb": 3000, "runtime": 60},
    3: {"rule": "training_data", "mem_mb": 2000, "runtime": 20},
    4: {"rule": "ladder_data", "mem_mb": 1000, "runtime": 10},
}
FREE = {"mem_mb": None, "runtime": None}
ARGV = ["/env/bin/snakemake", "runs", "--set-resources", "grpo:mem_mb=3000", "--retries", "0", "--", "all"]


def written(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def advice(text, folder, limits=FREE, fixed=None):
    lines = recovery.advice(text, folder, ARGV, ASKED, limits, fixed or {}).splitlines()
    return lines[:-1], lines[-1].strip()


def what(text, folder):
    return {failure.name: failure.what for failure in recovery.failures(text, folder)}


@pytest.mark.parametrize(
    ("state", "slurm_says", "means"),
    [
        ("TIMEOUT", "CANCELLED AT 2026-12-03T00:08:00 DUE TO TIME LIMIT", "out of time"),
        ("OUT_OF_MEMORY", "", "out of memory"),
        ("FAILED", KILLED, "out of memory"),
        ("CANCELLED", KILLED, "out of memory"),
        ("CANCELLED", "error: *** JOB 8 ON vm CANCELLED AT 2026-12-03T00:08:00 ***", "cancelled"),
        ("NODE_FAIL", "", "its node failed"),
        ("FAILED", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "out of GPU memory"),
        ("FAILED", "ValueError", "failed"),
    ],
)
def test_what_happened_to_a_job(tmp_path, state, slurm_says, means):
    written(tmp_path, ".snakemake/slurm_logs/rule_grpo/8.log", slurm_says)
    assert what(JOB.format(state=state), tmp_path) == {"grpo (job 1)": means}


def test_what_an_earlier_try_wrote_into_the_log_does_not_count(tmp_path):
    written(tmp_path, "results/logs/grpo.log", "MemoryError\n" + "resumed, step after step\n" * 100)
    assert what(JOB.format(state="FAILED"), tmp_path) == {"grpo (job 1)": "failed"}


def test_a_job_that_succeeded_later_is_left_out(tmp_path):
    assert recovery.failures(RETRIED, tmp_path) == []
    assert list(what(RETRIED + JOB.format(state="TIMEOUT"), tmp_path)) == ["grpo (job 1)"]


def test_each_failure_gets_the_double_of_what_it_lacked_in_one_command(tmp_path):
    written(tmp_path, ".snakemake/slurm_logs/group_problems/6.log", KILLED)
    said, command = advice(JOB.format(state="TIMEOUT") + GROUP, tmp_path)
    assert said[2:] == [
        "  grpo (job 1): out of time",
        "    grpo had asked for 60 minutes",
        "  group problems (job 3, 4): out of memory",
        "    training_data had asked for 2000 MB",
        "    ladder_data had asked for 1000 MB",
        f"    log: {tmp_path / '.snakemake/slurm_logs/group_problems/6.log'}",
        "",
        "To go on, from the last checkpoints of the runs that were cut off:",
    ]
    assert command == (
        "snakemake runs --retries 0 "
        "--set-resources grpo:runtime=120 training_data:mem_mb=4000 ladder_data:mem_mb=2000 -- all"
    )


def test_of_a_group_only_the_jobs_that_failed_are_named(tmp_path):
    inner = "Error in rule ladder_data:\n    jobid: 0\n    log: results/logs/ladder_data.log\n"
    written(tmp_path, ".snakemake/slurm_logs/group_problems/6.log", inner)
    for name in ("training_data", "ladder_data"):
        written(tmp_path, f"results/logs/{name}.log", "MemoryError\n")
    [failure] = recovery.failures(GROUP, tmp_path)
    assert failure.name == "group problems (job 4)"
    assert failure.what == "out of memory"
    assert [path.name for path in failure.logs] == ["6.log", "ladder_data.log"]


def test_what_the_profile_fixes_stays_fixed(tmp_path):
    fixed = {"grpo": {"slurm_partition": "gpu", "mem_mb": "3000"}, "evaluate_run": {"slurm_partition": "gpu"}}
    _, command = advice(JOB.format(state="OUT_OF_MEMORY"), tmp_path, fixed=fixed)
    assert command.endswith(
        "--set-resources grpo:slurm_partition=gpu grpo:mem_mb=6000 evaluate_run:slurm_partition=gpu -- all"
    )


def test_a_cancelled_job_needs_the_same_command(tmp_path):
    said, command = advice(JOB.format(state="CANCELLED"), tmp_path)
    assert "  grpo (job 1): cancelled" in said
    assert command == "snakemake runs --set-resources grpo:mem_mb=3000 --retries 0 -- all"


def test_a_limit_that_is_reached_is_said(tmp_path):
    said, command = advice(JOB.format(state="TIMEOUT"), tmp_path, limits={"mem_mb": None, "runtime": 60})
    assert "    grpo had asked for 60 minutes, and resources.limits.runtime allows no more" in said
    assert "First change the config or the profile" in said[-1]
    assert "runtime" not in command
    _, command = advice(JOB.format(state="TIMEOUT"), tmp_path, limits={"mem_mb": None, "runtime": 90})
    assert "grpo:runtime=90" in command


def test_a_refused_job_says_why(tmp_path):
    block = "Error in rule grpo:\n    message: SLURM sbatch failed. The error message was '{}'.\n    jobid: 1\n"
    reason = "sbatch: error: invalid partition specified: gpu"
    said, _ = advice(block.format(reason), tmp_path)
    assert "  grpo (job 1): refused by SLURM: invalid partition specified: gpu" in said


def test_a_group_that_slurm_did_not_start_says_so(tmp_path):
    written(tmp_path, "results/logs/training_data.log", "MemoryError\n")  # of an earlier invocation
    said, _ = advice(REFUSED_GROUP, tmp_path)
    assert said[2:] == [
        "  group problems (job 3, 4): SLURM did not start it",
        "    its jobs: training_data, ladder_data",
        "    check slurm_partition and slurm_account at the top of the profile;",
        "    sbatch --test-only --partition=<partition> --wrap=true says what SLURM has against them",
        "",
        "First change the config or the profile as said above. Then, from the last checkpoints:",
    ]
    # Groups fail without SLURM, too.
    [failure] = recovery.failures(REFUSED_GROUP.split("\n", 1)[1], tmp_path)
    assert failure.what == "out of memory"


def advice_of(folder, *arguments):
    """The lines that a real Snakemake prints which fails, with the programs in `folder`/bin before all others."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    return done.stderr.split("What happened:\n")[1].splitlines()


def test_snakemake_s_own_log_of_a_group_that_sbatch_refused(tmp_path):
    """With a program in sbatch's place; the executor itself writes the log."""
    written(tmp_path, "bin/sbatch", "#!/bin/sh\necho 'sbatch: error: invalid partition specified: cpu' >&2\nexit 1\n")
    for name in ("squeue", "scancel", "sacct", "sinfo"):
        written(tmp_path, f"bin/{name}", "#!/bin/sh\n")
    for path in (tmp_path / "bin").iterdir():
        path.chmod(0o755)
    arguments = ["--workflow-profile", "profiles/slurm", "--slurm-status-command", "squeue", "--retries", "0"]
    arguments += ["--slurm-init-seconds-before-status-checks", "1", "--directory", str(tmp_path)]
    said = advice_of(tmp_path, "results/cpu/data/ladder/ladder_names.jsonl", *arguments)
    assert said[0] in [f"  group problems (job {jobs}): SLURM did not start it" for jobs in ("0, 1", "1, 0")]
    assert set(said[1].removeprefix("    its jobs: ").split(", ")) == {"training_data", "ladder_data"}


@pytest.mark.parametrize(
    ("rule", "helps"),
    [
        ("grpo_variant", "a smaller grpo.micro_batch_size, grpo.gradient_checkpointing or grpo.lora needs less"),
        ("evaluate_run", "a smaller evaluation.batch_size needs less"),
    ],
)
def test_less_gpu_memory_is_asked_for_where_it_is_used(tmp_path, rule, helps):
    written(tmp_path, ".snakemake/slurm_logs/rule_grpo/8.log", "torch.OutOfMemoryError: CUDA out of memory. Tried")
    asked = {1: {"rule": rule, "mem_mb": 3000, "runtime": 60}}
    text = JOB.format(state="FAILED").replace("rule grpo:", f"rule {rule}:")
    said = recovery.advice(text, tmp_path, ARGV, asked, FREE, {}).splitlines()
    assert [line for line in said if "needs less" in line] == [f"    {helps}"]


def test_a_workflow_that_fails_prints_the_advice(tmp_path):
    """Without SLURM; with it: test_slurm.py."""
    broken = tmp_path / "bin" / "python"
    written(tmp_path, "bin/python", "#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    arguments = ["--cores", "1", "results/cpu/data/train.jsonl", "--directory", str(tmp_path)]
    said = advice_of(tmp_path, *arguments)
    assert said[0] == "  training_data (job 0): failed"
    assert f"  python -m snakemake {' '.join(arguments)}" in said
