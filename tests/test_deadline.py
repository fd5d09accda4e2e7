"""A run that stops before its SLURM job's time ends, or when it is told to, and goes on as if it had not."""

import os
import signal
import stat
import subprocess
import sys
import time

import pandas as pd
import pytest
from test_training import GRPO, ROOT, base, command, data  # noqa: F401
from transformers import TrainerControl, TrainerState, TrainingArguments

from grpo_dynamics import tables
from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import problems
from grpo_dynamics.training import deadline
from grpo_dynamics.training.deadline import StopInTime


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("9:05", 545), ("1:00:00", 3600), ("2-03:00:01", 2 * 86400 + 3 * 3600 + 1), ("UNLIMITED", None), ("", None)],
)
def test_durations_as_squeue_writes_them(text, seconds):
    assert deadline.duration(text) == seconds


def test_there_is_no_deadline_outside_slurm(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert deadline.seconds_left() is None


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when a test says so."""
    now = [1000.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now[0])
    return now


def stopped_at(stopping, clock, seconds, saves=(), steps=100):
    """The step at which a run with steps of `seconds`, and checkpoints of 5 s after the steps `saves`, is stopped."""
    state, control = TrainerState(max_steps=steps), TrainerControl()
    arguments = TrainingArguments(output_dir="unused")
    stopping.on_train_begin(arguments, state, control)
    try:
        for state.global_step in range(1, steps + 1):
            clock[0] += seconds
            stopping.on_step_end(arguments, state, control)
            if control.should_training_stop:
                assert control.should_save
                return state.global_step
            if state.global_step in saves:
                clock[0] += 5
                stopping.on_save(arguments, state, control)
        return None
    finally:
        stopping.on_train_end(arguments, state, control)


def test_a_run_stops_where_a_new_batch_is_due_with_the_reserve_left(clock):
    # 100 s, steps of 1 s: the reserve of 20 s is touched after step 80, the next multiple of 3 is step 81.
    assert stopped_at(StopInTime(refresh=3, reserve=20, left=100), clock, seconds=1) == 81
    # Twice the 3 steps of 10 s between two possible stops are more than the reserve: 60 s of the 100.
    assert stopped_at(StopInTime(refresh=3, reserve=20, left=100), clock, seconds=10) == 6
    # Three steps with a checkpoint on the way took 3 + 5 s, and the checkpoint at their end takes 5: twice 13 s.
    assert stopped_at(StopInTime(refresh=3, reserve=0, left=100), clock, seconds=1, saves=[3]) == 69


def test_a_run_that_ends_in_time_is_left_alone(clock):
    stopping = StopInTime(refresh=1, reserve=20, left=100)
    assert stopped_at(stopping, clock, seconds=1, steps=80) is None
    assert stopping.reason is None
    assert stopped_at(StopInTime(refresh=1, reserve=20, left=None), clock, seconds=1000) is None


def test_a_job_too_short_to_get_anywhere_is_refused(clock):
    with pytest.raises(InputError, match=r"30 s of the job's time are left .* stop_before keeps 600 s free"):
        stopped_at(StopInTime(refresh=1, reserve=600, left=30), clock, seconds=1)


def test_of_several_processes_one_that_knows_the_end_is_enough(clock, monkeypatch):
    monkeypatch.setattr(deadline, "gather_object", lambda own: [*own, 30.0])
    with pytest.raises(InputError, match=r"30 s of the job's time are left .* stop_before keeps 600 s free"):
        stopped_at(StopInTime(refresh=1, reserve=600, left=None), clock, seconds=1)


def fake_slurm(folder, left):
    """Commands of SLURM for one job: `left` to go; a requeue is noted and ends the process that asked for it."""
    folder.mkdir()
    (folder / "squeue").write_text(f"#!/bin/sh\necho {left}\n")
    (folder / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\nkill -TERM $PPID\n')
    for path in folder.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def test_a_run_cut_into_jobs_has_the_log_of_an_uncut_one(base, data, tmp_path):  # noqa: F811
    # Few problems: a pass through them is 8 steps, so that the cuts lie in different passes, each with its own order.
    few = tmp_path / "data"
    few.mkdir()
    problems.write(problems.read(data / "train.jsonl")[:16], few / "train.jsonl")
    problems.write(problems.read(data / "heldout.jsonl"), few / "heldout.jsonl")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    subprocess.run(command(base, few, tmp_path / "whole"), env=environment, check=True, capture_output=True)
    slurm = fake_slurm(tmp_path / "slurm", left="20:00")
    environment |= {"PATH": f"{slurm}{os.pathsep}{environment['PATH']}", "SLURM_JOB_ID": "7"}
    cut = tmp_path / "cut"
    # Each job's time is up at the third step where it may stop, after 6 steps.
    driver = (
        "from itertools import count; from grpo_dynamics.command import run as main;"
        "from grpo_dynamics.training import deadline, run; asked = count();"
        "deadline.StopInTime._time_is_up = lambda self: next(asked) == 3; main(run.main)"
    )
    jobs = [sys.executable, "-c", driver, *command(base, few, cut)[3:]]
    for number in range(1, 4):
        assert subprocess.run(jobs, env=environment, capture_output=True).returncode == -signal.SIGTERM
        assert (slurm / "asked").read_text() == "requeue 7\n" * number
        assert (cut / "checkpoints" / f"checkpoint-{6 * number}" / "complete").exists()
        assert not (cut / "log.csv").exists()
        assert not (cut / "final").exists()
    assert subprocess.run(jobs, env=environment, capture_output=True).returncode == 0
    assert_same_log(tmp_path / "whole", cut)


def assert_same_log(whole, other):
    logs = [tables.read(folder / "log.csv", tables.RUN_LOG).drop(columns="seconds") for folder in (whole, other)]
    assert list(logs[1]["step"]) == list(range(1, GRPO["steps"] + 1))
    pd.testing.assert_frame_equal(*logs, rtol=1e-6)


def test_a_run_that_is_told_to_end_saves_first_and_leaves_the_rest_to_slurm(base, data, tmp_path):  # noqa: F811
    folder = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    process = subprocess.Popen(command(base, data, folder), env=environment, stderr=subprocess.PIPE, text=True)
    while not (folder / "checkpoints" / "checkpoint-8" / "complete").exists():
        assert process.poll() is None, "the run ended before it could be stopped"
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 1
    assert "error: stopped by SIGTERM: saved after step " in said
    step = int(said.rsplit("saved after step ")[1].split(",")[0])
    assert step % GRPO["K_ref"] == 0
    assert (folder / "checkpoints" / f"checkpoint-{step}" / "complete").exists()
    assert not (folder / "log.csv").exists()
