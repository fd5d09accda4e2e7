"""A run that outlives its SLURM job: it saves a checkpoint before the job's time ends and asks to be queued again.

SLURM's own signals come too late and reach too few processes for this: at the limit everything is killed within
``KillWait`` seconds, and a signal ahead of it ends the Snakemake that runs inside the job. So the run asks once how
much time the job has, and keeps the time itself.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time

from accelerate.utils import gather_object
from transformers import TrainerCallback

from grpo_dynamics.command import InputError

logger = logging.getLogger(__name__)

# How long a stopped run waits for SLURM to end its job.
_WAIT_SECONDS = 600


def seconds_left() -> float | None:
    """Seconds until the SLURM job of this process reaches its time limit; None outside SLURM or without a limit."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    try:
        asked = ["squeue", "--noheader", "--jobs", job, "--format", "%L"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("squeue does not say when job %s ends, its limit may cut the run off: %s", job, error)
        return None
    return duration(answer)


def duration(text: str) -> float | None:
    """Seconds of a duration as squeue writes it, ``[days-][hours:]minutes:seconds``; None for any other text."""
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


class StopInTime(TrainerCallback):
    """Saves a checkpoint and stops the training before the job's time ends, or soon after SIGTERM.

    Both happen only at a step that is a multiple of K_ref, where a new batch is about to be sampled, so that the run
    that resumes takes the steps that this one would have taken. All processes of a run stop at the same step.

    Parameters
    ----------
    refresh : int
        K_ref, optimiser steps per sampled batch.
    reserve : float
        Seconds of the job's time to be left when the run stops. It is more where twice the slowest way from one
        possible stop to the next, with its checkpoint, takes longer.
    left : float or None
        Seconds until the job ends; None: it does not.

    Attributes
    ----------
    reason : str or None
        Why the run was stopped: ``time``, ``SIGTERM`` or None.
    """

    def __init__(self, refresh: int, reserve: float, left: float | None):
        self._refresh, self._reserve = refresh, reserve
        self._end = None if left is None else time.monotonic() + left
        self._slowest_steps = self._slowest_save = 0.0
        self._since = self._step_ended = 0.0
        self._signal: str | None = None
        self._handler = None
        self.reason: str | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        # A process that squeue gave no answer knows no end of its own.
        left = gather_object([self._end - time.monotonic() if self._time_is_up() else None])
        if short := [seconds for seconds in left if seconds is not None]:
            raise InputError(
                f"resources.training: {min(short):.0f} s of the job's time are left for training, "
                f"and stop_before keeps {self._reserve:.0f} s free: expected a longer runtime"
            )
        self._handler = signal.signal(signal.SIGTERM, self._note)
        self._since = time.monotonic()

    def on_train_end(self, args, state, control, **kwargs):
        signal.signal(signal.SIGTERM, self._handler)

    def on_step_end(self, args, state, control, **kwargs):
        self._step_ended = time.monotonic()
        if state.global_step % self._refresh or state.global_step == state.max_steps:
            return
        self._slowest_steps = max(self._slowest_steps, self._step_ended - self._since)
        self._since = self._step_ended
        reasons = gather_object([self._signal or ("time" if self._time_is_up() else None)])
        self.reason = next(filter(None, reasons), None)
        if self.reason:
            control.should_save = control.should_training_stop = True

    def on_save(self, args, state, control, **kwargs):
        # With what else the end of a step holds, such as a measurement of the held-out reward.
        self._slowest_save = max(self._slowest_save, time.monotonic() - self._step_ended)

    def _time_is_up(self) -> bool:
        reserve = max(self._reserve, 2 * (self._slowest_steps + self._slowest_save))
        return self._end is not None and time.monotonic() + reserve >= self._end

    def _note(self, number, frame):
        self._signal = signal.Signals(number).name
        # Whoever read the progress may be gone: SLURM signals every process of a job. The log stays.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def leave(reason: str, step: int, requeue: bool) -> None:
    """Leave a run that was stopped at `step`, after its checkpoint was saved.

    Under SLURM it waits to be ended with the job: by the requeue that it asks for when the time is up, or by who sent
    the signal (SLURM requeues a preempted job by itself). An end of its own would be a failure to Snakemake.

    Parameters
    ----------
    reason : str
        `StopInTime.reason`.
    step : int
        Optimiser steps done.
    requeue : bool
        Whether this process is the one that asks SLURM.

    Raises
    ------
    InputError
        Outside SLURM, if SLURM refuses, or if it does not end the job.
    """
    saved = f"saved after step {step}, from which the same command goes on"
    stopped = "stopped before the time limit" if reason == "time" else f"stopped by {reason}"
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        raise InputError(f"{stopped}: {saved}")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logger.info("%s: %s", stopped, saved)
    if reason == "time" and requeue:
        done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True)
        if done.returncode:
            raise InputError(f"{stopped}: {saved}; SLURM does not requeue: {done.stderr.strip()}")
    time.sleep(_WAIT_SECONDS)
    raise InputError(f"{stopped}: {saved}; SLURM did not end the job")
