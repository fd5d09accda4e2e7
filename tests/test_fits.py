"""Fits: known parameters come back, intervals cover them, and what cannot be identified is said to be so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import OPTIONS, run_log, study

from grpo_dynamics import tables
from grpo_dynamics.analysis.fit_table import aicc, f_test, fit_runs, fit_series, r_squared
from grpo_dynamics.analysis.fits import fit_exponential, fit_law, inflation, lag1, project
from grpo_dynamics.analysis.intervals import r2_interval, weighted_slope
from grpo_dynamics.analysis.profile import zeta_interval
from grpo_dynamics.analysis.series import cell_mean, heldout_reward, train_reward
from grpo_dynamics.analysis.tables import FITS
from grpo_dynamics.theory.law import exponential, three_phase

T = np.arange(150.0)


@pytest.mark.parametrize(("w0", "zeta"), [(0.1, 0.3), (0.08, 0.9), (0.08, 1.0), (0.1, 1.6), (0.4, 6.0)])
def test_noise_free_law_is_recovered(w0, zeta):
    fit = fit_law(T, three_phase(T, 0.1, 0.8, w0, zeta))
    found = [fit.estimates[name] for name in ("R_0", "R_inf", "w0", "zeta")]
    np.testing.assert_allclose(found, [0.1, 0.8, w0, zeta], rtol=1e-6)
    assert fit.at_bound == ()


def test_noise_free_exponential_is_recovered():
    fit = fit_exponential(T, exponential(T, 0.1, 0.8, 0.04))
    np.testing.assert_allclose([fit.estimates[n] for n in ("R_0", "R_inf", "k")], [0.1, 0.8, 0.04], rtol=1e-6)


def test_times_need_not_be_equally_spaced_nor_start_at_zero():
    t = np.sort(np.random.default_rng(0).choice(np.arange(5.0, 200.0), 60, replace=False))
    fit = fit_law(t, three_phase(t, 0.1, 0.8, 0.1, 1.6))
    assert fit.estimates["zeta"] == pytest.approx(1.6, rel=1e-6)


def test_intervals_cover_the_truth():
    """Over 25 noisy series, 95 % intervals miss at most 4 times (binomial, p < 0.01 for more)."""
    rng = np.random.default_rng(1)
    misses = {"R_inf": 0, "zeta": 0}
    for _ in range(25):
        y = three_phase(T, 0.1, 0.7, 0.12, 1.3) + rng.normal(0, 0.03, len(T))
        fit = fit_law(T, y)
        misses["R_inf"] += abs(fit.estimates["R_inf"] - 0.7) > 1.98 * fit.se["R_inf"]
        low, high = zeta_interval(T, y, fit, 0.95)
        misses["zeta"] += not low <= 1.3 <= high
    assert max(misses.values()) <= 4


def test_standard_errors_match_the_scatter_of_estimates():
    rng = np.random.default_rng(2)
    fits = [fit_law(T, three_phase(T, 0.1, 0.7, 0.1, 0.7) + rng.normal(0, 0.01, len(T))) for _ in range(30)]
    for name in ("R_0", "R_inf", "w0", "zeta"):
        scatter = np.std([fit.estimates[name] for fit in fits], ddof=1)
        assert np.median([fit.se[name] for fit in fits]) == pytest.approx(scatter, rel=0.45)


def test_an_exponential_leaves_zeta_open_above():
    rng = np.random.default_rng(3)
    y = exponential(T, 0.1, 0.8, 0.05) + rng.normal(0, 0.02, len(T))
    fit = fit_law(T, y)
    low, high = zeta_interval(T, y, fit, 0.95)
    assert low > 1
    assert high == np.inf


def test_a_parameter_at_its_bound_has_no_error_and_is_named():
    y = np.clip(exponential(T, 0.1, 1.2, 0.01), 0, 1)  # still rising at the end, towards a plateau above 1
    fit = fit_law(T, y)
    assert "R_inf" in fit.at_bound
    assert fit.estimates["R_inf"] == 1
    assert np.isnan(fit.se["R_inf"])


@given(
    st.lists(st.floats(0, 1), min_size=6, max_size=6),
    st.floats(0.01, 2.0),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
@settings(max_examples=60, deadline=None)
def test_projection_is_the_best_within_limits(y, k, other):
    y, shape = np.array(y), np.exp(-k * np.arange(6))

    def cost(start, end):
        return np.sum((start * shape + end * (1 - shape) - y) ** 2)

    start, end = project(shape, y, (0.0, 1.0))
    assert 0 <= start <= 1
    assert 0 <= end <= 1
    assert cost(start, end) <= cost(*other) + 1e-9


def test_statistics():
    y, fitted = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 3.0])
    assert r_squared(y, fitted) == pytest.approx(1 - 1 / 5)
    assert np.isnan(r_squared(np.ones(3), np.ones(3)))
    assert aicc(2.0, 10, 3) == pytest.approx(10 * np.log(0.2) + 8 + 40 / 5)
    assert f_test(10.0, 5.0, 1, 10) == pytest.approx(0.010120, abs=1e-6)  # F(1, 10) = 10, that is t(10) = sqrt(10)
    assert lag1(np.array([1.0, -1.0, 1.0, -1.0])) == -0.75
    assert inflation(0.5) == 3
    assert inflation(-0.5) == 1


def test_weighted_slope_of_a_line():
    x, error = np.log([2.0, 4.0, 8.0, 16.0]), np.array([0.1, 0.2, 0.1, 0.2])
    slope, low, high = weighted_slope(x, 3 - x, error, 0.05)
    weight = 1 / error**2
    mean = np.sum(weight * x) / weight.sum()
    assert slope == pytest.approx(-1)
    assert (high - low) / 2 == pytest.approx(1.959964 / np.sqrt(np.sum(weight * (x - mean) ** 2)))


def test_r2_interval():
    low, high = r2_interval(0.81, 28, 0.05)  # R = 0.9, z = 1.4722 +- 1.96 / 5
    assert (low, high) == pytest.approx((np.tanh(1.47222 - 0.391993) ** 2, np.tanh(1.47222 + 0.391993) ** 2), rel=1e-5)


def test_the_law_beats_the_exponential_only_on_a_slow_start():
    rng = np.random.default_rng(4)
    slow = fit_series(T, np.clip(three_phase(T, 0.1, 0.8, 0.08, 1.0) + rng.normal(0, 0.02, len(T)), 0, 1), OPTIONS)
    assert slow["f_p"] < 1e-6
    assert slow["aicc"] < slow["aicc_exponential"]
    assert slow["r2_early"] > slow["r2_early_exponential"]
    plain = fit_series(T, exponential(T, 0.1, 0.8, 0.05) + rng.normal(0, 0.02, len(T)), OPTIONS)
    assert plain["f_p"] > 0.01


@pytest.mark.parametrize(
    ("t", "p", "reason"),
    [
        (T[:10], 0.1 + 0.05 * T[:10], "too short"),
        (T, 0.3 + 0 * T, "no trend"),
        (T, 0.1 + 0.6 * T / 150, "plateau not reached"),
        (T, three_phase(T, 0.1, 0.8, 0.1, 1.3), ""),
    ],
)
def test_what_is_not_identifiable_says_why(t, p, reason):
    row = fit_series(t, np.random.default_rng(5).binomial(64, p) / 64, OPTIONS)
    assert row["reason"] == reason
    assert row["identifiable"] == (reason == "")


def test_a_series_without_independent_points_has_no_trend():
    """Autocorrelation that leaves fewer effective points than parameters leaves nothing to test a trend with."""
    y = 0.5 + 0.3 * np.sin(1.5 * np.pi * np.arange(20) / 20)
    row = fit_series(np.arange(20.0), y, OPTIONS)
    assert 20 / inflation(row["autocorrelation"]) <= 3
    assert row["reason"] == "no trend"


def test_only_fresh_rewards_are_used():
    run = run_log(K_ref=4, steps=40)
    t, y = train_reward(run)
    np.testing.assert_array_equal(t, np.arange(0, 40, 4))
    np.testing.assert_array_equal(y, run["reward"][::4])
    np.testing.assert_array_equal(heldout_reward(run)[0], [10, 20, 30, 40])


def test_cell_mean():
    cell = study(models=("llama",), sizes=(4,), seeds=(0, 1), steps=30)
    t, mean = cell_mean(cell)
    np.testing.assert_allclose(mean, (cell["reward"][:30].to_numpy() + cell["reward"][30:].to_numpy()) / 2)
    np.testing.assert_array_equal(t, np.arange(30))


def test_table_survives_writing_and_reading(tmp_path):
    runs = study(models=("llama",), sizes=(4,), seeds=(0, 1))
    fits = fit_runs(runs, OPTIONS)
    tables.write(fits, tmp_path / "fits.csv", FITS)
    again = tables.read(tmp_path / "fits.csv", FITS)
    assert list(again["series"]) == ["run", "run", "mean"]
    pd.testing.assert_series_equal(again["zeta"], fits["zeta"])
    assert again["seed"].isna().tolist() == [False, False, True]


def test_bad_input_names_what_was_found():
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(3,\), expected two of at least 5"):
        fit_law(np.arange(3.0), np.arange(3.0))
    with pytest.raises(ValueError, match="empty values"):
        fit_law(T, np.where(T == 3, np.nan, 0.5))


def test_a_swing_that_passes_its_plateau_at_the_end_has_not_settled():
    t = T[:81]  # phi(80; 0.1, 0.1) is -0.003, while the envelope is still 0.45
    y = three_phase(t, 0.2, 0.5, 0.1, 0.1) + np.random.default_rng(6).normal(0, 0.01, len(t))
    assert fit_series(t, y, OPTIONS)["reason"] == "plateau not reached"
