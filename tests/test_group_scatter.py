"""Scatter between runs: ratios of variances and their intervals against the F distribution and simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as some
from simulated import run_log

from grpo_dynamics.analysis.group_scatter import (
    Scatter,
    blocks,
    corrected_ratio,
    effective_blocks,
    exponent,
    scatter,
    variance_ratio,
    white_variance,
)


def test_blocks():
    run = run_log(steps=20)
    means, steps = blocks(run, 4)
    np.testing.assert_allclose(means[0], run["reward"].to_numpy().reshape(4, 5).mean(axis=1))
    assert steps == [(1, 5), (6, 10), (11, 15), (16, 20)]
    assert blocks(run_log(steps=3))[0].shape == (1, 3)


def test_one_variance_ratio_is_the_f_interval():
    found = variance_ratio([(Scatter(4.0, 0, 2), Scatter(1.0, 0, 2))], 0.05)
    assert found["effect"] == pytest.approx(4)
    assert found["low"] == pytest.approx(4 / 39)  # F quantile 0.975 at (2, 2) is 39
    assert found["high"] == pytest.approx(4 * 39)
    assert found["p"] == pytest.approx(0.4)  # P(F(2, 2) > 4) = 1 / 5


@given(some.floats(0.1, 10), some.integers(1, 40))
def test_sides_exchanged_give_the_inverse(ratio, dof):
    low, high = Scatter(ratio, 0.02, dof), Scatter(1.0, 0.03, 2 * dof)
    for function in (variance_ratio, corrected_ratio):
        one, other = function([(low, high)], 0.05), function([(high, low)], 0.05)
        np.testing.assert_allclose(
            [one["effect"], one["low"], one["high"]], [1 / other["effect"], 1 / other["high"], 1 / other["low"]]
        )


def test_pooling_over_models_narrows_and_knows_no_scale():
    pairs = [(Scatter(4 * s, 0, 3), Scatter(s, 0, 3)) for s in (1e-4, 1.0, 100.0)]
    one, three = variance_ratio(pairs[:1], 0.05), variance_ratio(pairs, 0.05)
    assert three["effect"] == pytest.approx(4)
    assert one["low"] < three["low"] < 4 < three["high"] < one["high"]


def _cells(rng, runs, kind):
    """Runs of ten blocks: a common offset or an autoregression, of variance 4 and 1, plus white noise of 0.3."""
    lags = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    correlation = 0.7**lags if kind == "autoregressive" else np.ones((10, 10))
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(10))
    return [
        tuple(
            scale * (sd * rng.normal(size=(runs, 10)) @ root.T + np.sqrt(0.3) * rng.normal(size=(runs, 10)))
            for sd in (2.0, 1.0)
        )
        for scale in (1.0, 0.3, 3.0)
    ]


@pytest.mark.parametrize("kind", ["offset", "autoregressive"])
def test_intervals_of_the_ratio_cover(kind):
    rng = np.random.default_rng(0)
    inside = {"raw": 0, "own": 0, "alone": 0}
    trials, without = 300, 0
    for _ in range(trials):
        cells = _cells(rng, 4, kind)
        m = effective_blocks([cell for pair in cells for cell in pair])
        scatters = [
            tuple(Scatter(float(np.mean(np.var(c, axis=0, ddof=1))), 0.3 * s**2, 3 * m) for c in pair)
            for pair, s in zip(cells, (1.0, 0.3, 3.0), strict=True)
        ]
        for name, found, true in (
            ("raw", variance_ratio(scatters, 0.05), 4.3 / 1.3),
            ("alone", variance_ratio(scatters[:1], 0.05), 4.3 / 1.3),
            ("own", corrected_ratio(scatters, 0.05), 4.0),
        ):
            inside[name] += found["low"] <= true <= found["high"]
        without += np.isnan(found["effect"])
    assert 0.91 <= inside["raw"] / trials <= 0.98
    assert 0.91 <= inside["alone"] / trials <= 0.98
    assert 0.91 <= inside["own"] / (trials - without) <= 0.98


def test_effective_blocks_of_known_correlations():
    rng = np.random.default_rng(1)
    offset = [rng.normal(size=(40, 1)) + np.zeros(10) for _ in range(4)]
    independent = [rng.normal(size=(40, 10)) for _ in range(4)]
    assert effective_blocks(offset) == pytest.approx(1)
    assert effective_blocks(independent) == pytest.approx(10, rel=0.05)
    # Autoregression of 0.7 over ten blocks: (tr S)^2 / tr(S^2) = 100 / sum 0.7^(2 |i - j|) = 3.97.
    lags = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    root = np.linalg.cholesky(0.7**lags)
    expected = 100 / np.sum(0.7 ** (2 * lags))
    many = [effective_blocks([s * rng.normal(size=(20, 10)) @ root.T for s in (1, 2, 3, 4)]) for _ in range(100)]
    assert np.mean(many) == pytest.approx(expected, rel=0.08)
    assert effective_blocks([rng.normal(size=(2, 10))]) == 1.0


def test_noise_that_makes_all_of_the_scatter_leaves_no_ratio_or_an_open_end():
    assert np.isnan(corrected_ratio([(Scatter(1.0, 1.2, 9), Scatter(1.0, 0.1, 9))], 0.05)["effect"])
    open_end = corrected_ratio([(Scatter(1.0, 0.1, 3), Scatter(1.0, 0.8, 3))], 0.05)
    assert open_end["high"] == np.inf
    assert open_end["low"] > 0
    # Without noise and with many degrees of freedom MOVER agrees with F.
    pair = [(Scatter(4.0, 0, 200), Scatter(1.0, 0, 200))]
    f, mover = variance_ratio(pair, 0.05), corrected_ratio(pair, 0.05)
    assert (mover["low"], mover["high"]) == pytest.approx((f["low"], f["high"]), rel=0.01)


def test_exponent():
    found = exponent({"effect": 4.0, "low": 1.0, "high": np.inf}, 4, 16)
    assert list(found.values()) == [1.0, 0.0, np.inf]
    assert exponent({"effect": 4.0, "low": 0.0, "high": 16.0}, 4, 16)["exponent_low"] == -np.inf


def test_white_variance_ignores_a_trend():
    rng = np.random.default_rng(0)
    t = np.arange(4000)
    assert white_variance(0.3 * rng.normal(size=4000) + 0.05 * t) == pytest.approx(0.09, rel=0.08)
    assert white_variance(0.05 * t[:50]) == pytest.approx(0, abs=1e-20)


def test_scatter_parts_the_policy_from_the_batches():
    """Runs whose policies differ by a fixed offset: variance of the offset, and noise p(1-p)/completions/steps."""
    rng = np.random.default_rng(0)
    offsets = rng.normal(0, 0.05, 60)
    logs = []
    for seed, offset in enumerate(offsets):
        run = run_log(seed=seed, steps=100)
        logs.append(run.assign(reward=rng.binomial(64, 0.5 + offset, 100) / 64))
    found = scatter(pd.concat(logs), 1.0)
    assert found.noise == pytest.approx(0.25 / 64 / 10, rel=0.1)
    assert found.own == pytest.approx(np.var(offsets, ddof=1), rel=0.2)
    assert found.dof == 59
