"""Transfer: exact gains, bootstrap against closed forms, Holm against statsmodels, correlations against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from simulated import OPTIONS, evaluations
from statsmodels.stats.multitest import multipletests

from grpo_dynamics.analysis.tables import TRANSFER, TRANSFER_SUMMARY
from grpo_dynamics.analysis.transfer import bootstrap_p, counts, gains, interval, rank_correlation, transfer
from grpo_dynamics.tables import check


@pytest.fixture(scope="module")
def result():
    table, items = evaluations(models=("llama", "qwen2"))
    return table, items, *transfer(table, items, OPTIONS, seed=1)


def test_gains_are_the_differences_of_accuracies(result):
    table, _, found, _ = result
    check(found, TRANSFER)
    for row in found.itertuples():
        rows = table[(table["model"] == row.model) & (table["benchmark"] == row.benchmark)]
        base = rows.loc[rows["seed"].isna(), "accuracy"].iloc[0]
        final = rows.loc[rows["G"] == row.G, "accuracy"].mean()
        assert (row.base, row.final, row.gain) == pytest.approx((base, final, final - base))
        assert row.low <= row.gain <= row.high


def test_holm_is_over_the_benchmarks_elsewhere(result):
    _, _, found, _ = result
    for _, cell in found.groupby(["model", "G"]):
        outside = cell[cell["distance"] > 0]
        np.testing.assert_allclose(outside["p_holm"], multipletests(outside["p"], method="holm")[1])
        assert cell.loc[cell["distance"] == 0, "p_holm"].isna().all()


def test_bootstrap_interval_agrees_with_the_normal_one_for_one_run():
    table, items = evaluations(models=("llama",), sizes=(4,), seeds=(0,), items=400)
    found, _ = transfer(table, items, OPTIONS | {"bootstrap_replicates": 4000}, seed=1)
    after, before = gains(items, "llama", 4, "ladder")
    error = stats.sem(after.to_numpy(float)[0] - before.to_numpy(float))
    row = found[found["benchmark"] == "ladder"].iloc[0]
    assert (row["high"] - row["low"]) / 2 == pytest.approx(1.96 * error, rel=0.08)


def test_unscorable_problems_are_left_out_on_both_sides():
    _, items = evaluations(models=("llama",), sizes=(4,), seeds=(0, 1), items=10)
    items.loc[(items["item"] == "3") & (items["seed"] == 1), "reward"] = np.nan
    after, before = gains(items, "llama", 4, "ladder")
    assert after.shape == (2, 9)
    assert "3" not in before.index


def test_counts_are_shares_of_draws():
    drawn = counts(np.random.default_rng(0), 2000, 5)
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.2, atol=0.01)
    np.testing.assert_allclose(drawn.var(axis=0), 0.2 * 0.8 / 5, rtol=0.1)


def test_bootstrap_p():
    assert bootstrap_p(np.ones(99)) == pytest.approx(0.02)
    assert bootstrap_p(np.zeros(99)) == 1
    assert bootstrap_p(np.array([-1.0] * 10 + [1.0] * 89)) == pytest.approx(0.22)


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(1)
    values, distance = np.round(rng.normal(size=(20, 8)), 1), np.arange(1, 9)
    expected = [stats.spearmanr(row, distance).statistic for row in values]
    np.testing.assert_allclose(rank_correlation(values, distance), expected)
    assert np.isnan(rank_correlation(np.ones((1, 8)), distance)[0])


def test_interval_is_empty_when_replicates_are():
    assert np.isnan(interval(np.array([1.0, np.nan]), 0.05)).all()
    assert interval(np.arange(101.0), 0.1) == (5, 95)


def test_summary_by_hand(result):
    _, _, found, summary = result
    check(summary, TRANSFER_SUMMARY)
    for row in summary.itertuples():
        mean = found[found["model"] == row.model].groupby("distance")["gain"].mean()
        assert row.gain_in == pytest.approx(mean[0])
        assert row.gain_out == pytest.approx(mean[1:].mean())
        assert row.robustness == pytest.approx(mean[1:].mean() / mean[0])
        assert row.gain_near == pytest.approx(mean[1] - mean[8])
        assert row.rank_high < 0  # the simulated gains fall with distance
        assert row.robustness_low < row.robustness < row.robustness_high
    assert summary["best_share"].sum() == pytest.approx(1)


def test_no_gain_has_no_robustness_and_no_significance():
    table, items = evaluations(models=("llama",))
    base = items[items["seed"].isna()].set_index(["benchmark", "item"])["reward"]
    items["reward"] = base.loc[list(zip(items["benchmark"], items["item"], strict=True))].to_numpy()
    found, summary = transfer(table, items, OPTIONS, seed=1)
    assert (found[["gain", "low", "high"]] == 0).all(axis=None)
    assert (found["p"] == 1).all()
    assert summary[["robustness", "robustness_low", "rank_correlation"]].isna().all(axis=None)


def test_p_values_hold_their_level_when_there_is_no_gain():
    rng = np.random.default_rng(2)
    small = 0
    for _ in range(200):
        paired = rng.binomial(1, 0.2, (3, 60)) - rng.binomial(1, 0.2, 60)
        replicates = np.sum((counts(rng, 300, 60) @ paired.T) * counts(rng, 300, 3), axis=1)
        small += bootstrap_p(replicates) < 0.05
    assert small <= 16


def test_same_seed_same_tables():
    table, items = evaluations(models=("llama",), items=20)
    first, second = (transfer(table, items, OPTIONS, seed=7)[0] for _ in range(2))
    assert first.equals(second)
