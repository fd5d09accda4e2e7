"""Group size: means, equivalence and variances against textbook formulas, and verdict-bearing directions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import OPTIONS, run_log, study
from statsmodels.stats.weightstats import ttost_ind

from grpo_dynamics.analysis.group_size import block_means, compare, compare_means, variance_ratio
from grpo_dynamics.analysis.tables import GROUP_SIZE
from grpo_dynamics.tables import check, read, write


def test_welch_and_tost_against_scipy_and_statsmodels():
    low, high = np.array([0.80, 0.82, 0.79]), np.array([0.81, 0.84, 0.80, 0.83])
    found = compare_means(low, high, 0.05, 0.05)
    welch = stats.ttest_ind(high, low, equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert found["effect"] == pytest.approx(high.mean() - low.mean())
    assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high))
    assert found["p"] == pytest.approx(welch.pvalue)
    assert found["p_equivalence"] == pytest.approx(ttost_ind(high, low, -0.05, 0.05, usevar="unequal")[0])
    # TOST is the larger of two one-sided Welch tests against the margins.
    above = stats.ttest_ind(high + 0.05, low, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(high - 0.05, low, equal_var=False, alternative="less").pvalue
    assert found["p_equivalence"] == pytest.approx(max(above, below))
    # The same with the sides exchanged, where the other margin decides.
    assert compare_means(high, low, 0.05, 0.05)["p_equivalence"] == pytest.approx(max(above, below))


def test_one_seed_gives_the_difference_without_an_interval():
    found = compare_means(np.array([0.5]), np.array([0.6]), 0.05, 0.05)
    assert found["effect"] == pytest.approx(0.1)
    assert np.isnan([found["low"], found["high"], found["p"], found["p_equivalence"]]).all()


def test_variance_ratio_and_its_f_interval():
    low, high = np.array([[1.0], [3.0], [5.0]]), np.array([[1.0], [2.0], [3.0]])  # variances 4 and 1
    found = variance_ratio(low, high, 0.05)
    assert found["effect"] == pytest.approx(4)
    assert found["low"] == pytest.approx(4 / 39)  # F quantile 0.975 at (2, 2) is 39
    assert found["high"] == pytest.approx(4 * 39)
    assert found["p"] == pytest.approx(0.4)  # P(F(2, 2) > 4) = 1 / 5


def test_variance_interval_covers():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        found = variance_ratio(rng.normal(0, 2, (6, 1)), rng.normal(0, 1, (6, 1)), 0.05)
        inside += found["low"] <= 4 <= found["high"]
    assert 180 <= inside <= 198


def test_blocks():
    run = run_log(steps=20)
    np.testing.assert_allclose(block_means(run, 4)[0], run["reward"].to_numpy().reshape(4, 5).mean(axis=1))


def _fits(runs: pd.DataFrame, plateaus: dict[int, float], identifiable: bool = True) -> pd.DataFrame:
    keys = runs[["model", "G", "seed"]].drop_duplicates()
    return keys.assign(
        series="run", R_inf=keys["G"].map(plateaus) + 0.002 * keys["seed"].astype(float), identifiable=identifiable
    )


def test_compare_finds_a_shifted_plateau_and_not_an_equal_one():
    runs = study(models=("llama",), steps=30)
    equal = compare(runs, _fits(runs, {4: 0.8, 16: 0.8}), OPTIONS).set_index("quantity").loc["plateau"]
    assert equal["p_equivalence"] < 0.001
    shifted = compare(runs, _fits(runs, {4: 0.7, 16: 0.8}), OPTIONS).set_index("quantity").loc["plateau"]
    assert shifted["p"] < 0.001
    assert shifted["effect"] == pytest.approx(0.1)
    check(compare(runs, _fits(runs, {4: 0.7, 16: 0.8}), OPTIONS), GROUP_SIZE)


def test_runs_without_a_plateau_are_left_out_and_counted():
    runs = study(models=("llama",), steps=30)
    row = compare(runs, _fits(runs, {4: 0.8, 16: 0.8}, False), OPTIONS).set_index("quantity").loc["plateau"]
    assert row["n_low"] == 0
    assert "3 of 3 runs at G = 4 left out" in row["note"]


def test_scatter_is_expected_equal_at_equal_completions():
    """theory.md section 4: v_G eta^2 / N with N = completions / G groups, and v_G is 1/G to leading order."""
    runs = study(models=("llama",), steps=30)
    row = compare(runs, _fits(runs, {4: 0.8, 16: 0.8}), OPTIONS).set_index("quantity").loc["scatter"]
    assert row["expected"] == 1
    assert row["note"] == ""


def test_what_has_no_interval_says_why():
    runs = study(models=("llama",), steps=30, seeds=(0,))
    alone = compare(runs, _fits(runs, {4: 0.8, 16: 0.8}), OPTIONS).set_index("quantity")["note"]
    assert all("needs two runs or more" in note for note in alone)
    runs = study(models=("llama",), steps=30)
    runs["reward"] = 0.5
    same = compare(runs, _fits(runs, {4: 0.8, 16: 0.8}), OPTIONS).set_index("quantity")["note"]
    assert same["trajectory"] == same["scatter"] == "no interval: the runs do not differ"


def test_one_group_size_gives_a_table_without_rows(tmp_path):
    runs = study(models=("llama",), sizes=(4,), steps=30)
    found = compare(runs, _fits(runs, {4: 0.8}), OPTIONS)
    two = study(models=("llama",), steps=30)
    assert found.empty
    pd.testing.assert_series_equal(
        found.dtypes, check(compare(two, _fits(two, {4: 0.8, 16: 0.8}), OPTIONS), GROUP_SIZE).dtypes
    )
    write(found, tmp_path / "group_size.csv", GROUP_SIZE)
    pd.testing.assert_frame_equal(read(tmp_path / "group_size.csv", GROUP_SIZE), found)
