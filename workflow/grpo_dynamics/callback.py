"""A callback for TRL's trainers that diagnoses a run while it goes on.

    trainer = GRPOTrainer(..., callbacks=[HealthCallback(stop_on="critical")])

It reads the trainer's own log history, as the command line reads trainer_state.json, so that a failure has the same
name, evidence and remedy in both.
"""

from __future__ import annotations

import logging
import math
import time
from typing import Literal

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from grpo_dynamics import config
from grpo_dynamics.analysis.diagnosis import Diagnosis
from grpo_dynamics.analysis.live import FIRST_CHECK, LiveMonitor, due
from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.raw import Raw
from grpo_dynamics.runlog.table import run_logs

logger = logging.getLogger(__name__)

_SEVERITY = {"warning": 1, "critical": 2}
# A run that rises, so that the fits are compiled before the first step.
_WARM_UP = [
    {"step": step, "reward": step / 80 + 0.05 * (-1) ** step, "entropy": 1.0, "kl": 0.1, "grad_norm": 1.0}
    for step in range(1, 2 * FIRST_CHECK + 1)
]


class HealthCallback(TrainerCallback):
    """Says when one of the failures begins, early enough to act, and stops the run if asked to.

    The first check comes after 20 logged rows, one more after every 10; an alarm needs two checks in a row. Before the
    first step the code is warmed up. A check that would bring the time spent on checks above `share` of the training
    time so far is left out.

    Parameters
    ----------
    stop_on : {"warning", "critical"}, optional
        Severity of an alarm at which training stops after the current step; without it, alarms are only said.
    share : float
        Share of the training time that the checks may take.

    Attributes
    ----------
    alarms : list of Diagnosis
        All alarms so far.
    seconds : float
        Time spent on checks.
    """

    def __init__(self, stop_on: Literal["warning", "critical"] | None = None, share: float = 0.01):
        if stop_on not in (None, *_SEVERITY):
            raise InputError(f"stop_on: found {stop_on!r}, expected warning, critical or None")
        defaults = config.defaults()
        self._options, self._thresholds = defaults["analysis"], defaults["diagnostics"]
        self._stop_on, self._share = stop_on, share
        self.alarms: list[Diagnosis] = []
        self.seconds = 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        self._monitor = LiveMonitor(self._options, self._thresholds)
        self._G = getattr(args, "num_generations", None)
        self._rows = 0
        if state.is_world_process_zero:
            self._diagnose(_WARM_UP, LiveMonitor(self._options, self._thresholds))
        self._started = time.monotonic()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or "reward" not in logs:
            return
        self._rows += 1
        if not due(self._rows):
            return
        stop = [self._check(state) if state.is_world_process_zero else None]
        if self._stop_on:
            broadcast_object_list(stop)  # every process stops at the same step, or none does
            control.should_training_stop |= bool(stop[0])

    def _check(self, state) -> bool:
        """Check, say what is new, and tell whether to stop."""
        started = time.monotonic()
        if self.seconds > self._share * (started - self._started):
            return False
        try:
            new = self._diagnose(state.log_history, self._monitor)
        except InputError as error:  # no number for a reward, say: no reason to end a run
            logger.info("not diagnosed: %s", error)
            new = []
        self.seconds += time.monotonic() - started
        self.alarms += new
        for one in new:
            since = "" if math.isnan(one.onset) else f" since step {one.onset:g}"
            logger.warning(
                "step %d: %s, %s%s: %s May be confused with: %s What to do: %s",
                state.global_step, one.verdict, one.group, since, one.evidence, one.confused_with, one.remedy,
            )  # fmt: skip
        return any(_SEVERITY[one.verdict] >= _SEVERITY.get(self._stop_on, 3) for one in new)

    def _diagnose(self, history: list[dict], monitor: LiveMonitor) -> list[Diagnosis]:
        run = run_logs(Raw("run", "TRL log history", list(history)), "the trainer's log", {}, self._G, None)[-1]
        return monitor.check(run.table, run.G, run.reward_range, run.not_binary)
