"""Whatever a log holds: a fit, diagnoses, JSON and text come out, never a traceback."""

from __future__ import annotations

import io
import json
import re
import warnings

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from simulated import OPTIONS, THRESHOLDS

from grpo_dynamics.analysis.diagnosis import NUMBERS, diagnose_run
from grpo_dynamics.analysis.own_fit import fit_own
from grpo_dynamics.reports import terminal
from grpo_dynamics.reports.data import to_json
from grpo_dynamics.reports.findings import Findings
from grpo_dynamics.runlog.log import OWN_LOG, RunLog
from grpo_dynamics.tables import check

SHARES = ["any_spread", "collapsed_share", "clip_share", "truncated_share"]
NOT_NEGATIVE = [
    "reward_std",
    "grad_norm",
    "ratio_max",
    "learning_rate",
    "completion_length",
    "seconds",
    "entropy",
    "kl",
]


@st.composite
def tables(draw):
    """OWN_LOG of any length: columns that rise, are constant, jump, are tiny, huge or mostly empty."""
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    step = np.cumsum(rng.integers(1, draw(st.sampled_from([2, 2, 20])), n)).astype(float)

    def column(low, high):
        kind = draw(st.sampled_from(["empty", "constant", "noise", "rise", "jump", "sparse"]))
        noise = rng.uniform(low, high, n)
        if kind == "empty":
            return np.full(n, np.nan)
        if kind == "constant":
            return np.full(n, draw(st.sampled_from([low, high, (low + high) / 2])))
        if kind == "rise":
            return low + (high - low) * np.clip(np.linspace(0, 1, n) + 0.1 * rng.normal(0, 1, n), 0, 1)
        if kind == "jump":
            return np.where(np.arange(n) < rng.integers(0, n + 1), low, high)
        return np.where(rng.random(n) < 0.7, np.nan, noise) if kind == "sparse" else noise

    low, high = draw(st.sampled_from([(0.0, 1.0), (-3.0, 2.0), (0.0, 1e9), (-1e-9, 1e-9)]))
    reward = column(low, high)
    if np.isnan(reward).all():
        reward[0] = low
    table = pd.DataFrame({name: np.full(n, np.nan) for name in OWN_LOG.columns})
    table = table.assign(step=step, t=step - 1, reward=reward, heldout_reward=column(low, high), loss=column(-1, 1))
    for name in SHARES:
        table[name] = column(0.0, 1.0)
    top = draw(st.sampled_from([1e-8, 1.0, 1e6]))
    for name in NOT_NEGATIVE:
        table[name] = column(0.0, top)
    table["non_finite"] = np.where(rng.random(n) < 0.1, "loss grad_norm", "")
    limits = (low, high) if draw(st.booleans()) else (float(np.nanmin(reward)), float(np.nanmax(reward)))
    G = draw(st.sampled_from([None, 2, 8]))
    return RunLog("run", "log.csv", "table", check(table, OWN_LOG), "the log's step", limits, G)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_any_table_is_diagnosed_and_fitted(log):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        diagnoses = diagnose_run(log.table, log.G, log.reward_range, OPTIONS, THRESHOLDS)
    assert [one.diagnostic for one in diagnoses] == [name for _, name, _ in NUMBERS]
    for one in diagnoses:
        assert (one.verdict == "not assessable") <= bool(one.reason)
        assert one.verdict == "not assessable" or one.low <= one.value <= one.high
    found = Findings(log, fit=fit_own(log, OPTIONS), diagnoses=tuple(diagnoses))
    json.loads(to_json(found), parse_constant=lambda token: (_ for _ in ()).throw(AssertionError(token)))
    text = io.StringIO()
    terminal.show(Console(file=text, width=80, markup=False), found)
    assert not re.search(r"\bnan\b", text.getvalue())  # Python's word for a missing number
