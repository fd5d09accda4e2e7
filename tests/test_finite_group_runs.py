"""What finite groups predict of runs: the time of the rise and the spread within groups, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats
from simulated import run_log, study

from grpo_dynamics.analysis.finite_group_runs import (
    by_reward,
    contrast,
    gradient_norm,
    group_spread,
    log_ratio,
    rise_time,
    smooth_reward,
    within_groups,
)
from grpo_dynamics.theory.finite_group import h_G

SEEDS = (0, 1, 2, 3)


def test_rise_time_at_leading_order_in_closed_form():
    """With h = sqrt(p(1-p)) and p = sin^2(a): dt = 2 da / (sin a cos a)^2, so that t = -4 cot(2 a)."""
    start, end = 0.1, 0.5
    angles = np.arcsin(np.sqrt([start, end]))
    expected = np.diff(-4 / np.tan(2 * angles))[0]
    assert rise_time(start, end, None) == pytest.approx(expected)
    assert rise_time(start, end, 4000) == pytest.approx(expected, rel=1e-3)
    assert rise_time(start, end, 4) > rise_time(start, end, 16) > expected
    assert np.isnan(rise_time(0.5, 0.4, 4))
    # At G = 2 the drift per prompt is p (1-p) / sqrt(2) with the unbiased deviation: t = sqrt(2) int (p (1-p))^-2 dp.
    inverse = [-1 / p + 1 / (1 - p) + 2 * np.log(p / (1 - p)) for p in (start, end)]
    assert rise_time(start, end, 2) == pytest.approx(np.sqrt(2) * (inverse[1] - inverse[0]))


@given(some.floats(0.05, 0.95), some.sampled_from([2, 4, 16]))
def test_group_spread_between_binomial_and_equal_answers(p, G):
    binomial = float(h_G(p, G) / np.sqrt(p * (1 - p)))
    assert group_spread(p, 0.0, G) == pytest.approx(binomial)
    assert group_spread(p, 1e-5, G) == pytest.approx(binomial, rel=1e-3)
    assert group_spread(p, 0.999, G) < 0.02
    assert group_spread(p, 0.2, G) > group_spread(p, 0.6, G)


def test_group_spread_against_a_simulation():
    rng = np.random.default_rng(0)
    p, rho, G = 0.7, 0.4, 16
    k = rng.binomial(G, rng.beta(p * 1.5, (1 - p) * 1.5, 200_000))  # a + b = (1 - rho) / rho = 1.5
    assert group_spread(p, rho, G) == pytest.approx(np.mean(np.sqrt(k * (G - k))) / G / np.sqrt(p * (1 - p)), rel=0.01)


def test_within_groups_of_binomial_runs_are_as_expected():
    cells = [study(models=("llama",), sizes=(G,), seeds=SEEDS, steps=300, completions=960) for G in (4, 16)]
    found = within_groups(*cells)
    for quantity, values in found.items():
        for G, side in zip((4, 16), values, strict=True):
            np.testing.assert_allclose(side[:, 0], side[:, 1], rtol=0.03, err_msg=f"{quantity} at G = {G}")
    assert found["variance"][0][:, 1] == pytest.approx(0.75)


def test_the_noise_of_small_batches_is_added_back():
    """At 4 prompts of G = 4 the noise of the smoothed reward would make p(1-p) 1 % too small."""
    rng = np.random.default_rng(0)
    k = rng.binomial(4, 0.5, size=(40_000, 4))
    run = run_log(steps=2).iloc[[0] * len(k)].assign(
        step=np.arange(1, len(k) + 1), reward=k.mean(axis=1) / 4, reward_variance=(k * (4 - k) / 16).mean(axis=1)
    )  # fmt: skip
    p, share = smooth_reward(run["reward"].to_numpy())
    assert np.mean(p * (1 - p)) < 0.25 * 0.995
    found = by_reward(run)
    weight = np.bincount(np.digitize(p, np.linspace(0, 1, 11)) - 1, minlength=10)[found.index]
    assert np.average(found["variance"], weights=weight) == pytest.approx(0.75, rel=0.004)
    assert np.mean(share) == pytest.approx(0.15, abs=0.01)


def test_a_bin_needs_enough_batches():
    assert set(by_reward(run_log(steps=12).assign(reward=0.25)).index) == {2}
    assert by_reward(run_log(steps=4).assign(reward=0.25)).empty


def test_the_smoothed_reward_follows_a_parabola_and_knows_its_noise():
    t = np.arange(60.0)
    parabola = 0.1 + 0.02 * t - 0.0002 * t**2
    np.testing.assert_allclose(smooth_reward(parabola)[0], parabola, atol=1e-12)
    rng = np.random.default_rng(0)
    noisy = np.array([smooth_reward(0.5 + 0.05 * rng.normal(size=40))[0] for _ in range(800)])
    np.testing.assert_allclose(noisy.var(axis=0) / 0.05**2, smooth_reward(np.full(40, 0.5))[1], rtol=0.25)
    assert smooth_reward(np.array([0.2, 0.4]))[0] == pytest.approx([0.3, 0.3])


def test_contrast_is_welch_for_one_pair_and_pools_several():
    a, b = np.array([1.0, 2.0, 4.0]), np.array([0.5, 1.0, 0.0, 0.2])
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert contrast([a], [b], 0.05)[:3] == pytest.approx((a.mean() - b.mean(), interval.low, interval.high))
    estimate, _, _, error, dof = contrast([a, a], [b, b], 0.05)
    _, _, _, one_error, one_dof = contrast([a], [b], 0.05)
    assert estimate == pytest.approx(a.mean() - b.mean())
    assert error == pytest.approx(one_error / np.sqrt(2))
    assert dof == pytest.approx(2 * one_dof)


def test_log_ratio_tests_both_expectations():
    wobble = np.exp([-0.02, -0.01, 0.01, 0.02])
    low = np.column_stack([0.6 * wobble, np.full(4, 0.6)])
    high = np.column_stack([0.75 * wobble, np.full(4, 0.75)])
    found = log_ratio([low], [high], [1.0], 0.05)
    assert found["effect"] == pytest.approx(0.8)
    assert found["expected"] == pytest.approx(0.8)
    assert found["low"] < 0.8 < found["high"]
    assert found["p_expected"] == pytest.approx(1)
    welch = stats.ttest_ind(np.log(low[:, 0]), np.log(high[:, 0]))
    assert found["p"] == pytest.approx(welch.pvalue)
    off = log_ratio([low * [1.2, 1]], [high], [1.0], 0.05)
    assert off["effect"] == pytest.approx(0.96)
    assert off["p_expected"] < 0.001
    alone = log_ratio([low[:1]], [high[:1]], [1.0], 0.05)
    assert np.isnan([alone["low"], alone["p"], alone["p_expected"]]).all()


def test_gradient_norm_is_clipped_and_stops_at_the_half_rise():
    run = run_log(steps=4).assign(grad_norm=[0.6, 0.8, 5.0, 0.1])
    assert gradient_norm(run, 2.5, 1.0) == pytest.approx(np.sqrt(0.5))
    assert gradient_norm(run, 3, 1.0) == pytest.approx(np.sqrt(2 / 3))
