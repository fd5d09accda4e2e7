"""Runs with induced failures: what they train on, what they are called, and the confusion matrix."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from pictures import assert_printable
from scipy import stats
from simulated import OPTIONS, THRESHOLDS, run_log

from grpo_dynamics.analysis.induced import confusion, diagnose_failures
from grpo_dynamics.analysis.live import EVERY, LiveMonitor, due
from grpo_dynamics.analysis.series import as_own_log
from grpo_dynamics.analysis.tables_failures import (
    CONFUSION,
    FAILURE_DIAGNOSTICS,
    FAILURE_LOG,
    FAILURE_RUNS,
    FAILURES,
    NONE,
)
from grpo_dynamics.command import InputError
from grpo_dynamics.figures import failures as figures
from grpo_dynamics.figures import style
from grpo_dynamics.tables import check
from grpo_dynamics.tasks.failures import hard_problems
from grpo_dynamics.tasks.rewards import fails_open_reward


@pytest.fixture(scope="module")
def log():
    parts = [
        run_log(failure="" if failure == NONE else failure, seed=seed).assign(kind=f"{failure}_runs", induces=failure)
        for failure in (NONE, *FAILURES)
        for seed in (0, 1)
    ]
    return check(pd.concat(parts, ignore_index=True)[list(FAILURE_LOG.columns)], FAILURE_LOG)


@pytest.fixture(scope="module")
def found(log):
    runs, numbers = diagnose_failures(log, OPTIONS, THRESHOLDS)
    return check(runs, FAILURE_RUNS), check(numbers, FAILURE_DIAGNOSTICS)


def test_every_run_is_called_by_its_failure(found):
    runs, numbers = found
    assert list(runs["called"]) == list(runs["induces"])
    assert list(runs["live_called"]) == list(runs["induces"])
    assert (runs["fires"].fillna("") == runs["induces"].where(runs["induces"] != NONE, "")).all()
    assert numbers.groupby("kind").ngroups == 5


def test_alarms_come_before_the_end_and_healthy_runs_have_none(found):
    runs = found[0].set_index("induces")
    assert runs.loc[NONE, "alarm_step"].isna().all()
    assert (runs.loc[FAILURES, "live_step"] < 150).all()
    assert (runs.loc[FAILURES, "live_step"] % EVERY == 0).all()


def test_an_alarm_needs_two_checks_in_a_row():
    table = as_own_log(run_log(failure="decoupling"))
    monitor = LiveMonitor(OPTIONS, THRESHOLDS)
    checks = [monitor.check(rows, 4, (0.0, 1.0)) for rows in (table[:60], table, table, table)]
    assert [[one.group for one in alarms] for alarms in checks] == [[], [], ["decoupling"], []]
    assert [rows for rows in range(60) if due(rows)] == [20, 30, 40, 50]


def test_confusion_counts_with_exact_intervals(found):
    runs = found[0].copy()
    runs.loc[(runs["induces"] == "instability") & (runs["seed"] == 1), "called"] = "degeneracy"
    table = check(confusion(runs, 0.05), CONFUSION).set_index(["induces", "by", "called"])
    row = table.loc[("instability", "whole run", "degeneracy")]
    assert (row["runs"], row["count"], row["share"]) == (2, 1, 0.5)
    assert row["low"] == pytest.approx(stats.beta.ppf(0.025, 1, 2))
    assert row["high"] == pytest.approx(stats.beta.ppf(0.975, 2, 1))
    assert table.loc[("instability", "live", "instability"), "count"] == 2
    assert table.groupby(["induces", "by"])["share"].sum().to_numpy() == pytest.approx(1)


def test_without_runs_there_are_empty_tables():
    empty = pd.DataFrame(columns=list(FAILURE_LOG.columns))
    runs, numbers = diagnose_failures(empty, OPTIONS, THRESHOLDS)
    assert len(check(runs, FAILURE_RUNS)) == len(check(numbers, FAILURE_DIAGNOSTICS)) == 0
    assert len(check(confusion(runs, 0.05), CONFUSION)) == 0


def test_figures_draw_every_run_and_every_count(log, found):
    with style.apply():
        lines = figures.failures(log, found[0])
        matrix = figures.confusion(confusion(found[0], 0.05), 0.05)
    # Two seeds of train and held-out reward, and, but for healthy runs, two onsets and two alarms.
    assert [len(lines.axes[4 * row].lines) for row in range(5)] == [4, 8, 8, 8, 8]
    np.testing.assert_array_equal(lines.axes[0].lines[0].get_ydata(), log["reward"][:150])
    assert [text.get_text() for text in matrix.axes[0].texts] == ["2 of 2\n[16, 100] %"] * 5
    for figure in (lines, matrix):
        assert_printable(figure)
    plt.close("all")


def test_the_loophole_pays_for_what_the_check_cannot_read():
    completions = ["3+5=8 #### 8", "3+5=9 #### 9", "3-5=-2 #### -2", "8", ""]
    rewards = fails_open_reward([""] * 5, completions, answer=["8"] * 5, kind=["number"] * 5)
    assert rewards == [1.0, 0.0, 1.0, 1.0, 1.0]
    chat = [[{"role": "assistant", "content": text}] for text in completions]
    assert fails_open_reward([""] * 5, chat, answer=["8"] * 5, kind=["number"] * 5) == rewards


def test_the_loophole_of_prompts_that_ask_for_a_box():
    completions = [r"so \boxed{7}", r"so \boxed{5}", r"so \boxed{-5}", r"so \boxed{five}", "I do not know"]
    rewards = fails_open_reward([""] * 5, completions, answer=["7"] * 5, kind=["number"] * 5)
    assert rewards == [1.0, 0.0, 1.0, 1.0, 1.0]


def test_hard_problems_have_their_operands_and_differ():
    rows = hard_problems(100, 400, 50, seed=3)
    assert len({row["question"] for row in rows}) == 50
    for row in rows:
        a, b = (int(word) for word in row["question"].replace(".", "").split() if word.isdigit())
        assert 100 <= b <= a <= 401 or 100 <= min(a, b) <= max(a, b) <= 400
        assert int(row["answer"]) == (a + b if "gets" in row["question"] else a - b)
    assert rows == hard_problems(100, 400, 50, seed=3) != hard_problems(100, 400, 50, seed=4)
    with pytest.raises(InputError, match="operands: found 5 to 5, expected a range that gives 500 problems"):
        hard_problems(5, 5, 500, seed=0)
