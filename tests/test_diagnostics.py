"""Diagnostics: exact expectations, each fires on its own failure and is silent on the others and on healthy runs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.signal import lfilter
from simulated import OPTIONS, THRESHOLDS, run_log

from grpo_dynamics.analysis.diagnostics import (
    NUMBERS,
    Number,
    change,
    collapse_expected,
    diagnose,
    judge,
    ratio_of_means,
)
from grpo_dynamics.analysis.tables import DIAGNOSTICS
from grpo_dynamics.tables import check

GROUPS = ["decoupling", "degeneracy", "concentration", "instability"]


def fired(run: pd.DataFrame) -> set[str]:
    table = check(diagnose(run, OPTIONS, THRESHOLDS), DIAGNOSTICS)
    return set(table.loc[table["verdict"] == "fires", "group"])


@pytest.mark.parametrize(("failure", "G", "K_ref"), list(product(GROUPS, [4, 16], [1, 4])))
def test_each_failure_fires_its_own_diagnostic_only(failure, G, K_ref):
    assert fired(run_log(G=G, K_ref=K_ref, failure=failure)) == {failure}


@pytest.mark.parametrize("G", [4, 16])
@pytest.mark.parametrize("seed", range(4))
def test_healthy_runs_are_silent(G, seed):
    assert fired(run_log(G=G, seed=seed)) == set()


def test_collapse_expectation_by_enumeration():
    for G, p in product([2, 4], [0.1, 0.5]):
        exact = sum(
            np.prod([p if x else 1 - p for x in group]) for group in product([0, 1], repeat=G) if len(set(group)) == 1
        )
        assert collapse_expected(p, G) == pytest.approx(exact)


def test_binomial_groups_have_ratio_one():
    table = diagnose(run_log(steps=300), OPTIONS, THRESHOLDS).set_index("diagnostic")
    for name in ("signal_share", "within_group_spread"):
        assert table.loc[name, "low"] < 1 < table.loc[name, "high"]


def test_change_is_slope_times_duration():
    t = np.arange(0, 50, 5.0)
    number = change(t, 2 - 0.1 * t, 0.95)
    assert (number.value, number.low, number.high) == pytest.approx((-4.5, -4.5, -4.5))


def test_change_covers_with_autocorrelated_residuals():
    """Sen's own interval, made for independent residuals, covers about half of the time at r = 0.8."""
    rng, t = np.random.default_rng(0), np.arange(100.0)
    covered = sen = 0
    for _ in range(200):
        y = lfilter([1], [1, -0.8], rng.normal(0, 1, 200))[100:] + 0.05 * t
        number = change(t, y, 0.95)
        covered += number.low <= 0.05 * 99 <= number.high
        sen += np.prod(np.array(stats.theilslopes(y, t, alpha=0.95)[2:]) - 0.05) <= 0
    assert covered >= 160
    assert sen < 110


def test_change_of_independent_residuals_keeps_sens_interval():
    t = np.arange(20.0)
    y = 0.1 * t + np.tile([0.2, -0.2], 10)  # negative autocorrelation does not narrow
    low, high = np.array(stats.theilslopes(y, t, alpha=0.95)[2:]) * 19
    number = change(t, y, 0.95)
    assert (number.low, number.high) == pytest.approx((low, high))


def test_change_resists_an_outlier():
    t, y = np.arange(20.0), 0.1 * np.arange(20.0)
    y[7] = 1e3
    assert change(t, y, 0.95).value == pytest.approx(1.9)


def test_ratio_of_means_covers():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        number = ratio_of_means(rng.binomial(16, 0.3, 50) / 16, np.full(50, 0.6), 0.95)
        inside += number.low <= 0.5 <= number.high
    assert inside >= 182


def test_verdict_needs_the_whole_interval():
    assert judge(Number(3.0, 2.5, 3.5), 2.0, "above")[0] == "fires"
    assert judge(Number(3.0, 1.5, 4.5), 2.0, "above") == ("ok", "")
    assert judge(Number(-0.2, -0.3, -0.1), -0.05, "below")[0] == "fires"
    assert judge(Number(-0.2, -0.3, 0.0), -0.05, "below") == ("ok", "")
    assert judge(Number(missing="why"), 2.0, "above") == ("not assessable", "why")
    assert judge(Number(3.0), 2.0, "above") == ("not assessable", "no interval")


def test_ratio_is_not_assessable_at_refresh_interval_one():
    table = diagnose(run_log(), OPTIONS, THRESHOLDS).set_index("diagnostic")
    assert table.loc["ratio_log_growth", "verdict"] == "not assessable"
    assert "K_ref = 1" in table.loc["ratio_log_growth", "reason"]
    table = diagnose(run_log(K_ref=4), OPTIONS, THRESHOLDS).set_index("diagnostic")
    assert table.loc["ratio_log_growth", "verdict"] == "ok"


def test_a_fall_of_both_rewards_is_not_decoupling():
    run = run_log(failure="decoupling")
    late = run["step"] > 75
    run.loc[late, "reward"] = 0.8 - 0.006 * (run.loc[late, "step"] - 75)
    table = diagnose(run, OPTIONS, THRESHOLDS).set_index("diagnostic")
    assert table.loc["heldout_change", "verdict"] == "ok"
    assert "falls too" in table.loc["heldout_change", "reason"]


def test_a_slower_heldout_reward_has_a_rate_ratio():
    run = run_log(steps=300, w0=0.2, zeta=2.0)
    slow = run_log(steps=300, w0=0.06, zeta=2.0)
    run["heldout_reward"] = slow["heldout_reward"]
    row = diagnose(run, OPTIONS, THRESHOLDS).set_index("diagnostic").loc["rate_ratio"]
    assert row["low"] < 0.2 / 0.06 < row["high"]
    assert row["verdict"] == "fires"


def test_short_runs_are_not_assessable():
    table = diagnose(run_log(steps=6), OPTIONS, THRESHOLDS)
    assert len(table) == len(NUMBERS)
    assert not (table["verdict"] == "fires").any()
    assert (table.loc[table["group"] == "decoupling", "verdict"] == "not assessable").all()
