"""Simulated logs of one's own run, for the tests of its fit, its prediction and its figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics.runlog.log import OWN_LOG, RunLog
from grpo_dynamics.tables import check
from grpo_dynamics.theory.law import three_phase

TRUTH = {"R_0": 0.1, "R_inf": 0.8, "w0": 0.1, "zeta": 1.3}


def own_log(reward, step=None, *, axis="optimiser step", reward_range=(0.0, 1.0), G=None, settings=None, **columns):
    """A RunLog of the rewards; `columns` fills further columns of OWN_LOG, t by default step - 1."""
    reward = np.asarray(reward, float)
    step = np.arange(1.0, len(reward) + 1) if step is None else np.asarray(step, float)
    table = pd.DataFrame({name: np.full(len(reward), np.nan) for name in OWN_LOG.columns}).assign(
        **{"step": step, "t": step - 1, "reward": reward, "non_finite": "", **columns}
    )
    return RunLog(
        "run", "run.csv", "simulated", check(table, OWN_LOG), axis, reward_range, G=G, settings=settings or {}
    )


def rewards(steps=150, seed=0, completions=64, **truth):
    """Binomial rewards around the law, one per step."""
    p = three_phase(np.arange(float(steps)), **TRUTH | truth)
    return np.random.default_rng(seed).binomial(completions, np.clip(p, 0, 1)) / completions
