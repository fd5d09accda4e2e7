"""Group size: differences and equivalence against scipy and statsmodels, and the table of both comparisons."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import study
from simulated_groups import SEEDS, fits_of, table, variants_of
from statsmodels.stats.weightstats import ttost_ind

from grpo_dynamics.analysis.finite_group_runs import rise_time
from grpo_dynamics.analysis.group_means import compare_means, compare_trajectories
from grpo_dynamics.analysis.tables_groups import DIFFERENCES, GROUP_SIZE, RATIOS, SCATTERS
from grpo_dynamics.tables import read, write


def row(found: pd.DataFrame, quantity: str, model="llama", comparison="equal completions") -> pd.Series:
    return found.set_index(["model", "comparison", "quantity"]).loc[(model, comparison, quantity)]


@pytest.fixture(scope="module")
def whole() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    models = ("llama", "qwen2")
    runs, variants = study(models=models, seeds=SEEDS, steps=150), variants_of(models, steps=150)
    return runs, variants, table(runs, variants)


def test_welch_tost_and_the_margin_against_scipy_and_statsmodels():
    low, high = np.array([0.80, 0.82, 0.79]), np.array([0.81, 0.84, 0.80, 0.83])
    found = compare_means(low, high, 0.01, 0.05)
    welch = stats.ttest_ind(high, low, equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert found["effect"] == pytest.approx(high.mean() - low.mean())
    assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high))
    assert found["p"] == pytest.approx(welch.pvalue)
    assert found["p_equivalence"] == pytest.approx(ttost_ind(high, low, -0.01, 0.01, usevar="unequal")[0])
    # The difference is above the margin: a one-sided Welch test against it; the same with the sides exchanged.
    outside = stats.ttest_ind(high - 0.01, low, equal_var=False, alternative="greater").pvalue
    assert found["p_different"] == pytest.approx(outside)
    mirrored = compare_means(high, low, 0.01, 0.05)
    assert mirrored["p_different"] == pytest.approx(outside)
    assert mirrored["p_equivalence"] == pytest.approx(found["p_equivalence"])


def test_several_tests_widen_the_interval_by_bonferroni():
    low, high = np.array([0.80, 0.82, 0.79]), np.array([0.91, 0.94, 0.90, 0.93])
    one, ten = compare_means(low, high, 0.05, 0.05), compare_means(low, high, 0.05, 0.05, tests=10)
    interval = stats.ttest_ind(high, low, equal_var=False).confidence_interval(0.995)
    assert (ten["low"], ten["high"]) == pytest.approx((interval.low, interval.high))
    assert ten["p"] == pytest.approx(10 * one["p"])
    assert ten["p_different"] == pytest.approx(10 * one["p_different"])
    assert ten["p_equivalence"] == one["p_equivalence"]


def test_one_seed_gives_the_difference_without_an_interval():
    found = compare_means(np.array([0.5]), np.array([0.6]), 0.05, 0.05)
    assert found.pop("effect") == pytest.approx(0.1)
    assert np.isnan(list(found.values())).all()


def test_trajectories_are_equivalent_only_if_every_block_is():
    rng = np.random.default_rng(0)
    low = 0.5 + 0.005 * rng.normal(size=(6, 5))
    high = 0.5 + 0.005 * rng.normal(size=(6, 5))
    same, _ = compare_trajectories(low, high, 0.05, 0.05)
    tests = [ttost_ind(high[:, i], low[:, i], -0.05, 0.05, usevar="unequal")[0] for i in range(5)]
    assert same["p_equivalence"] == pytest.approx(max(tests))
    assert same["p_equivalence"] < 0.001
    # Opposite differences cancel in the mean over the run and are seen in the blocks.
    crossing = high + np.array([0.2, 0, 0, 0, -0.21])
    found, place = compare_trajectories(low, crossing, 0.05, 0.05)
    assert place == 4
    assert found["effect"] == pytest.approx(-0.21, abs=0.02)
    assert found["p_equivalence"] > 0.99
    assert found["p_different"] < 0.001
    # The block that decides is given, not a larger difference that is less sure.
    unsure = high + np.array([0.2, 0, 0, 0, 0]) + np.outer(np.linspace(-1, 1, 6), [0, 0, 0, 0, 1.0])
    unsure[:, 4] -= 0.4
    found, place = compare_trajectories(low, unsure, 0.05, 0.05)
    assert place == 0
    assert found["low"] > 0.05 and found["p_different"] < 0.001


def test_the_table_has_both_comparisons_and_its_schema(whole, tmp_path):
    _, _, found = whole
    pooled = {*SCATTERS, *RATIOS}
    assert len(found) == 2 * (2 * (len(DIFFERENCES) + len(pooled)) + len(pooled))
    assert set(found.loc[found["model"] == "all", "quantity"]) == pooled
    write(found, tmp_path / "group_size.csv", GROUP_SIZE)
    back = read(tmp_path / "group_size.csv", GROUP_SIZE)
    pd.testing.assert_frame_equal(back.assign(note=back["note"].fillna("")), found)


def test_prompts_and_expected_scatter(whole):
    """Leading order: 1 at equal completions, 16/4 at equal prompts; exact: of the sums of v_G."""
    _, _, found = whole
    completions, prompts = (row(found, "scatter", "all", c) for c in ("equal completions", "equal prompts"))
    assert (completions["groups_low"], completions["groups_high"]) == (16, 4)
    assert (prompts["groups_low"], prompts["groups_high"]) == (4, 4)
    assert completions["expected_leading_order"] == 1
    assert prompts["expected_leading_order"] == 4
    assert prompts["expected"] == pytest.approx(4 * completions["expected"], rel=0.02)
    assert (completions["n_low"], completions["n_high"]) == (8, 8)


def test_finite_groups_of_simulated_runs_agree_at_equal_prompts_too(whole):
    """The rewards are binomial; the runs' own rise does not depend on G, so that half_rise does not agree."""
    _, _, found = whole
    for comparison in ("equal completions", "equal prompts"):
        for quantity in ("spread", "variance"):
            ratio = row(found, quantity, "all", comparison)
            assert ratio["effect"] == pytest.approx(ratio["expected"], rel=0.03)
            assert ratio["p"] < 0.001
        assert row(found, "variance", "all", comparison)["expected"] == pytest.approx(0.8)


def test_a_shifted_plateau_is_found_and_an_equal_one_is_not(whole):
    runs = whole[0].query("model == 'llama'")
    equal = row(table(runs), "plateau")
    assert equal["p_equivalence"] < 0.001
    shifted = row(table(runs, fits=fits_of(runs, plateaus={4: 0.7, 16: 0.8})), "plateau")
    assert shifted["p_different"] < 0.001
    assert shifted["effect"] == pytest.approx(0.1)


def test_variants_are_compared_with_the_studys_own_largest_G(whole):
    runs, variants, _ = whole
    own = variants.drop(columns="variant")
    fits = pd.concat([fits_of(runs), fits_of(own, "equal_prompts", {4: 0.6})])
    found = table(runs, variants, fits)
    plateau = row(found, "plateau", comparison="equal prompts")
    assert (plateau["value_low"], plateau["value_high"]) == pytest.approx((0.603, 0.803))
    mean = row(found, "mean_reward", comparison="equal prompts")
    assert mean["value_low"] == pytest.approx(own.query("model == 'llama'")["reward"].mean())
    assert mean["value_high"] == pytest.approx(runs.query("model == 'llama' and G == 16")["reward"].mean())


def test_half_rise_against_the_drift():
    runs = study(models=("llama",), seeds=SEEDS, steps=40)
    time = [rise_time(0.1, (0.1 + 0.803) / 2, G) for G in (4, 16)]
    found = row(table(runs, fits=fits_of(runs, half=dict(zip((4, 16), time, strict=True)))), "half_rise")
    assert found["expected"] == pytest.approx(time[0] / time[1])
    assert found["effect"] == pytest.approx(found["expected"])
    assert found["expected_leading_order"] == pytest.approx(1)
    assert found["p_expected"] == pytest.approx(1)
    norm = runs["grad_norm"].where(runs["G"] == 16, 0.1)  # an equal norm at every step of G = 4
    adam = row(table(runs.assign(grad_norm=norm.where(runs["G"] == 4, 0.2))), "half_rise_adam")
    assert adam["expected"] == pytest.approx(found["expected"] / 2)


def test_runs_without_a_plateau_are_left_out_and_counted():
    runs = study(models=("llama",), steps=30)
    found = table(runs, fits=fits_of(runs, identifiable=False))
    assert row(found, "plateau")["n_low"] == 0
    for quantity in ("plateau", "half_rise", "half_rise_adam"):
        assert "3 of 3 runs at G = 4 left out" in row(found, quantity)["note"]


def test_what_has_no_interval_says_why():
    alone = table(study(models=("llama",), steps=30, seeds=(0,)))
    assert all("needs two runs or more" in note for note in alone["note"])
    runs = study(models=("llama",), steps=30).assign(reward=0.5)
    same = table(runs)
    for quantity in ("mean_reward", "trajectory"):
        assert row(same, quantity)["note"] == "no interval: the runs do not differ"
    assert row(same, "scatter_raw")["note"] == "no interval: the runs do not differ"
    assert "noise makes all of the scatter" in row(same, "scatter")["note"]


def test_short_runs_and_stale_batches():
    runs = study(models=("llama",), seeds=(0, 1), steps=24, K_ref=2)
    found = table(runs)
    assert np.isfinite(row(found, "trajectory")["effect"])
    assert row(found, "trajectory")["last_step"] <= 24


def test_one_group_size_gives_a_table_without_rows(tmp_path):
    runs = study(models=("llama",), sizes=(4,), steps=30)
    found = table(runs)
    assert found.empty
    pd.testing.assert_series_equal(found.dtypes, table(study(models=("llama",), steps=30)).dtypes)
    write(found, tmp_path / "group_size.csv", GROUP_SIZE)
    pd.testing.assert_frame_equal(read(tmp_path / "group_size.csv", GROUP_SIZE), found)


def test_counting_every_run_once_widens_the_raw_ratio_alone():
    found = table(study(models=("llama",), seeds=(0, 1, 2, 3))).set_index("quantity")
    raw, alone = found.loc["scatter_raw"], found.loc["scatter_runs"]
    assert alone["effective_blocks"] == 1 <= raw["effective_blocks"]
    # The F interval on (3, 3).
    assert alone["effect"] == pytest.approx(raw["effect"])
    assert alone["low"] == pytest.approx(alone["effect"] / stats.f(3, 3).ppf(0.975))
    assert alone["low"] <= raw["low"] < raw["high"] <= alone["high"]
