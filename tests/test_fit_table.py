"""Intervals and the table of fits: coverage, what cannot be identified, comparisons of the curves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import least_squares
from simulated import CONFIG, OPTIONS, study

from grpo_dynamics import tables
from grpo_dynamics.analysis.bootstrap import bootstrap_intervals, resample
from grpo_dynamics.analysis.calibration import calibrate, simulate
from grpo_dynamics.analysis.fit_table import aicc, covered_at, f_test, fit_runs, fit_series, fitted_curve, identify
from grpo_dynamics.analysis.fits import fit
from grpo_dynamics.analysis.intervals import attainable_r2, r_squared
from grpo_dynamics.analysis.noise import covariance
from grpo_dynamics.analysis.profile import noise_of, profile_interval
from grpo_dynamics.analysis.series import STUDY, with_variants
from grpo_dynamics.analysis.tables_fits import CALIBRATION, CURVES, FITS
from grpo_dynamics.theory.law import exponential, phases, three_phase

T = np.arange(150.0)
QUICK = OPTIONS | {"fit_replicates": 100}


def rows(t, y):
    return pd.DataFrame(fit_series(t, y, QUICK)).set_index("curve")


def noisy(clean, sd, seed):
    return clean + np.random.default_rng(seed).normal(0, sd, len(clean))


def test_intervals_cover_the_truth():
    """Over 40 runs with realistic noise, 95 % intervals miss at most 6 times (binomial, p < 0.01 for more)."""
    truth = CONFIG["calibration"]["scenarios"]["underdamped"]
    misses = dict.fromkeys(("R_0", "R_inf", "w0", "zeta"), 0)
    for seed in range(40):
        found = fit("law", *simulate(np.random.default_rng(seed), truth, 200, 0.25))
        for name in misses:
            low, high = profile_interval(found, name, 0.95)
            misses[name] += not low <= truth[name] <= high
    assert max(misses.values()) <= 6


@pytest.mark.parametrize("name", ["R_0", "R_inf", "w0", "zeta"])
def test_a_profile_ends_where_the_sum_of_squares_says(name):
    """The best fit with the parameter fixed at either end has the sum of squares of the F quantile."""
    found = fit("law", T, noisy(three_phase(T, 0.1, 0.7, 0.1, 0.7), 0.02, 1))
    key = "zeta" if name == "w0" else name
    dof, free = min(found.points[key], found.n_effective - 4), len(T) - 4
    ceiling = found.sse * (1 + found.widening[key] * stats.f.ppf(0.95, 1, dof) / free)
    for end in profile_interval(found, name, 0.95):
        assert _smallest(found, name, end) == pytest.approx(ceiling, rel=1e-4)


def _smallest(found, name, value):
    """Smallest sum of squares with one parameter fixed, by scipy."""
    names = [other for other in ("R_0", "R_inf", "w0", "zeta") if other != name]

    def residuals(u):
        return three_phase(T, **dict(zip(names, u, strict=True)), **{name: value}) - found.problem.y

    start = [found.estimates[other] for other in names]
    return 2 * least_squares(residuals, start, x_scale=np.abs(start), xtol=1e-12, ftol=1e-12).cost


def test_an_exponential_leaves_zeta_open_above():
    found = fit("law", T, noisy(exponential(T, 0.1, 0.8, 0.05), 0.02, 3))
    low, high = profile_interval(found, "zeta", 0.95)
    assert low > 1
    assert high == np.inf
    assert profile_interval(found, "w0", 0.95)[1] == np.inf


def test_resampling_keeps_blocks_and_places():
    found = fit("law", T, noisy(three_phase(T, 0.1, 0.8, 0.1, 1.3), 0.02, 4))
    drawn = resample(found, 3000, 10, seed=0)
    assert drawn.shape == (3000, len(T))
    noise = drawn - found.fitted
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.003)
    assert noise.std() == pytest.approx(np.sqrt(found.sse / (len(T) - 4)), rel=0.05)
    inside = np.mean(noise[:, 1:10] * noise[:, :9]) / noise.var()
    across = np.mean(noise[:, 10::10] * noise[:, 9:-1:10]) / noise.var()
    assert abs(across) < 0.03
    assert inside == pytest.approx(found.autocorrelation, abs=0.05)


def test_bootstrap_of_independent_noise_agrees_with_the_plain_error():
    found = fit("exponential", T, noisy(exponential(T, 0.1, 0.8, 0.05), 0.02, 5))
    plain = found.se["k"] / np.sqrt(found.widening["k"])
    low, high = bootstrap_intervals(found, 2000, 3, 0.95, seed=0)["k"]
    assert (high - low) / (2 * 1.96) == pytest.approx(plain, rel=0.2)


def test_bootstrap_is_reproducible_and_open_where_zeta_is():
    found = fit("law", T, noisy(exponential(T, 0.1, 0.8, 0.05), 0.02, 3))
    first, again = (bootstrap_intervals(found, 200, 10, 0.95, seed=1) for _ in range(2))
    assert first == again
    assert first["zeta"][1] == first["w0"][1] == np.inf


@pytest.mark.parametrize(("end", "noise"), [(0.9, 0.05), (0.4, 0.05), (0.12, 0.02)])
def test_attainable_r2_is_that_of_the_true_curve(end, noise):
    """With noise of known size around a known rise; the standard error of its variance from 600 differences is 5 %."""
    t = np.arange(600.0)
    truth = three_phase(t, 0.1, end, 0.05, 1.5)
    found, exact = [], []
    for seed in range(20):
        y = truth + np.random.default_rng(seed).normal(0, noise, len(t))
        found.append(attainable_r2(y))
        exact.append(r_squared(y, truth))
    assert np.mean(found) == pytest.approx(np.mean(exact), abs=0.01)


def test_attainable_r2_of_special_series():
    assert attainable_r2(np.array([0.0, 1.0, 0.0, 1.0])) == 0  # nothing but noise
    assert attainable_r2(np.array([0.0, 0.5, 1.0])) == pytest.approx(1 - 3 * 0.25 / 2 / 0.5)
    assert np.isnan(attainable_r2(np.ones(5))) and np.isnan(attainable_r2(np.array([0.0, 1.0])))


def test_statistics():
    y, fitted = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 3.0, 3.0])
    assert r_squared(y, fitted) == pytest.approx(1 - 1 / 5)
    assert np.isnan(r_squared(np.ones(3), np.ones(3)))
    assert aicc(2.0, 10, 3) == pytest.approx(10 * np.log(0.2) + 8 + 40 / 5)
    assert f_test(10.0, 5.0, 1, 10) == pytest.approx(0.010120, abs=1e-6)  # F(1, 10) = 10, that is t(10) = sqrt(10)
    assert f_test(10.0, 5.0, 1, 10, 20, 2.0) == pytest.approx(0.010120, abs=1e-6)


def test_times_along_the_curve():
    law = fit("law", T, three_phase(T, 0.1, 0.8, 0.1, 1.3))
    assert covered_at(law, 0.95) == pytest.approx(phases(0.1, 1.3).rapid_rise_end, rel=1e-4)
    single = fit("exponential", T, exponential(T, 0.1, 0.8, 0.05))
    assert covered_at(single, 0.5) == pytest.approx(np.log(2) / 0.05, rel=1e-4)
    slow = fit("exponential", T, exponential(T, 0.1, 0.9, 0.004))  # half-way lies after the series
    assert covered_at(slow, 0.5) == pytest.approx(np.log(2) / 0.004, rel=1e-3)


def test_the_law_beats_the_exponential_only_on_a_slow_start():
    slow = rows(T, np.clip(noisy(three_phase(T, 0.1, 0.8, 0.08, 1.0), 0.02, 4), 0, 1))
    assert slow.loc["law", "f_p"] < 1e-6
    assert slow.loc["law", "f_p_effective"] < 1e-3
    assert slow.loc["law", "aicc"] < slow.loc["exponential", "aicc"]
    assert slow.loc["law", "r2_early"] > slow.loc["exponential", "r2_early"]
    plain = rows(T, noisy(exponential(T, 0.1, 0.8, 0.05), 0.02, 5))
    assert plain.loc["law", "f_p"] > 0.01
    assert np.isnan(plain.loc["logistic", "f_p"])  # not nested


def test_each_curve_wins_on_its_own_data():
    truths = {
        "logistic": {"R_0": 0.05, "R_inf": 0.8, "k": 0.1},
        "gompertz": {"R_0": 0.02, "R_inf": 0.8, "k": 0.05},
        "exponential": {"R_0": 0.1, "R_inf": 0.8, "k": 0.05},
        "flow_ceiling": {"R_0": 0.1, "R_inf": 0.8, "k": 0.4},
    }
    for name, values in truths.items():
        found = rows(
            T, noisy(fitted_curve(name, pd.Series(values).reindex(["R_0", "R_inf", "k", "w0", "zeta"]), T), 0.01, 6)
        )
        assert found.loc[[*truths], "aicc"].astype(float).idxmin() == name


def test_forecast_and_smoothing():
    clean = three_phase(T, 0.1, 0.8, 0.05, 1.2)
    found = rows(T, noisy(clean, 0.01, 7)).loc["law"]
    assert found["rmse_forecast"] < 0.08
    assert found["r2_smoothed"] > found["r2"]
    early = fit("law", T[:60], noisy(clean, 0.01, 7)[:60])
    rest = noisy(clean, 0.01, 7)[60:]
    assert found["rmse_forecast"] == pytest.approx(np.sqrt(np.mean((early.curve(T[60:]) - rest) ** 2)))
    assert found["r2_forecast"] == pytest.approx(r_squared(rest, early.curve(T[60:])))


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
    found = rows(t, np.random.default_rng(5).binomial(64, p) / 64)
    assert set(found["reason"]) == {reason}
    assert set(found["identifiable"]) == {reason == ""}
    assert list(found.index) == list(CURVES)


def test_a_constant_series_has_no_trend():
    assert set(rows(T, np.full(len(T), 0.5))["reason"]) == {"no trend"}


def test_a_series_without_independent_points_is_not_identifiable():
    y = 0.5 + 0.3 * np.sin(1.5 * np.pi * np.arange(20) / 20)
    assert set(rows(np.arange(20.0), y)["identifiable"]) == {False}


def test_a_swing_that_passes_its_plateau_at_the_end_has_not_settled():
    t = T[:81]  # phi(80; 0.1, 0.1) is -0.003, while the envelope is still 0.45
    y = noisy(three_phase(t, 0.2, 0.5, 0.1, 0.1), 0.01, 6)
    assert set(rows(t, y)["reason"]) == {"plateau not reached"}


def test_table_survives_writing_and_reading(tmp_path):
    runs = study(models=("llama",), sizes=(4,), seeds=(0, 1))
    other = study(models=("llama",), sizes=(4,), seeds=(0,), R_inf=0.6).assign(variant="eta_half")
    done = []
    fits = fit_runs(with_variants(runs, other), QUICK, seed=0, report=done.append)
    assert done == [1, 2, 3, 4, 5]
    tables.write(fits, tmp_path / "fits.csv", FITS)
    again = tables.read(tmp_path / "fits.csv", FITS)
    law = again[again["curve"] == "law"]
    assert list(law["series"]) == ["run", "run", "mean", "run", "mean"]
    assert list(law["variant"]) == [STUDY] * 3 + ["eta_half"] * 2
    assert law["seed"].isna().tolist() == [False, False, True, False, True]
    assert len(again) == 5 * len(CURVES)
    pd.testing.assert_series_equal(again["zeta"], fits["zeta"], check_index=False)
    y = runs["reward"].to_numpy()[:150]
    for _, row in again.iloc[: len(CURVES)].iterrows():
        assert np.sum((y - fitted_curve(row["curve"], row, T)) ** 2) == pytest.approx(row["sse"], rel=1e-6)


def test_simulated_runs_have_the_stated_noise():
    truth = {"R_0": 0.5, "R_inf": 0.5, "w0": 0.1, "zeta": 1.3, "G": 4, "prompts": 24, "wander": 0.0, "memory": 0.0}
    _, y = simulate(np.random.default_rng(0), truth, 20000, 0.25)
    assert y.var() == pytest.approx(0.25 / 96 * (1 + 3 * 0.25), rel=0.05)  # beta-binomial
    _, y = simulate(np.random.default_rng(0), truth | {"wander": 0.05, "memory": 0.9}, 20000, 0.0)
    e = y - 0.5
    # Wandering of standard deviation 0.05 and memory 0.9 under binomial noise.
    assert np.mean(e[1:] * e[:-1]) == pytest.approx(0.9 * 0.05**2, rel=0.15)
    assert e.var() == pytest.approx(0.05**2 + 0.25 / 96, rel=0.1)


def test_calibration_counts_what_it_says():
    small = CONFIG["calibration"] | {"replicas": 12, "bootstrap_replicas": 3, "steps": 150}
    small["scenarios"] = {name: CONFIG["calibration"]["scenarios"][name] for name in ("underdamped", "no_trend")}
    table = tables.check(calibrate(QUICK, small, seed=0), CALIBRATION).set_index(["scenario", "parameter", "method"])
    found = table.loc[("underdamped", "R_inf", "profile")]
    assert found["runs"] == 12
    assert found["covered"] + found["missed_below"] + found["missed_above"] == found["intervals"]
    assert found["intervals"] >= 10
    assert found["accepted"] == (0.92 <= found["covered"] / found["intervals"] <= 0.98)
    assert table.loc[("underdamped", "R_inf", "bootstrap"), "intervals"] == 3
    flat = table.loc[("no_trend", "R_inf", "profile")]
    assert flat["reason"] == "no trend"
    assert pd.isna(flat["accepted"])
    assert flat["identifiable"] <= 2


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [12, 150])
def test_any_constant_series_has_no_trend(value, n):
    assert set(rows(np.arange(float(n)), np.full(n, value))["reason"]) <= {"no trend", "too short"}


@pytest.mark.parametrize("n", [20, 240])
def test_a_run_that_starts_with_zeros_is_fitted(n):
    t = np.arange(float(n))
    y = np.random.default_rng(0).binomial(96, 0.8 / (1 + np.exp(-(t - n / 2) / (n / 20)))) / 96
    y[: n // 5] = 0
    found = rows(t, y)
    assert found["r2"].notna().all()
    assert found.loc["logistic", "r2"] > 0.9


def test_a_falling_reward_says_so():
    assert set(rows(T, noisy(three_phase(T, 0.8, 0.2, 0.1, 1.5), 0.02, 8))["reason"]) == {"reward falls"}


def test_a_plateau_at_the_end_of_the_range_has_an_interval_up_to_it():
    """Rewards that level off at 1: the plateau's interval ends there, and its lower end is below."""
    held = []
    for seed in range(15):
        y = np.random.default_rng(seed).binomial(96, three_phase(T, 0.2, 1.0, 0.06, 1.0)) / 96
        found = rows(T, y).loc["law"]
        if "R_inf" in found["at_bound"]:
            held.append(found["R_inf_low"])
            assert found["R_inf_high"] == 1
    assert len(held) > 3
    assert all(0.97 < low < 1 for low in held)


def test_resampled_noise_gives_back_what_the_fit_took():
    """At 20 points and 4 parameters the residuals are sqrt(20 / 16) too small."""
    t = np.arange(20.0)
    sizes, kept = [], []
    for seed in range(30):
        found = fit("law", t, noisy(three_phase(t, 0.1, 0.8, 0.5, 1.3), 0.02, seed))
        sizes.append(np.std(resample(found, 400, 4, seed) - found.fitted))
        kept.append(np.sqrt(found.sse / 16))
    assert np.mean(sizes) == pytest.approx(np.mean(kept), rel=0.04)


def test_wandering_alone_is_no_trend():
    """Over 60 series without a trend but with memory, at most 9 are taken for one (binomial, p < 0.003 for more)."""
    truth = {"R_0": 0.4, "R_inf": 0.4, "w0": 0.1, "zeta": 1.3, "G": 4, "prompts": 24, "wander": 0.04, "memory": 0.8}
    found = [identify(*simulate(np.random.default_rng(seed), truth, 150, 0.25), QUICK)[3] for seed in range(60)]
    assert sum(reason not in ("no trend", "no independent points") for reason in found) <= 9


def test_zeta_far_above_2_takes_the_noise_at_2():
    """Widening and points of zeta are those of the best fit with zeta = 2, here by scipy and numerical derivatives."""
    found = fit("law", T, noisy(three_phase(T, 0.2, 0.8, 0.3, 3.0), 0.003, 12))
    assert 2 < found.estimates["zeta"] < 49

    def law(u):
        return three_phase(T, u[0], u[1], 2 * np.exp(u[2] + u[3]), np.exp(u[3]))

    at_2 = np.log(2.0)
    best = least_squares(lambda u: law([*u, at_2]) - found.problem.y, found.u[:3], xtol=1e-14, ftol=1e-14).x
    u = np.array([*best, at_2])
    steps = 1e-5 * np.eye(4)
    jacobian = np.stack([(law(u + step) - law(u - step)) / 2e-5 for step in steps], axis=1)
    jacobian /= np.linalg.norm(jacobian, axis=0)
    covariances, points, _ = covariance(jacobian, found.residuals)
    plain = np.linalg.inv(jacobian.T @ jacobian)[3, 3] * found.sse / (len(T) - 4)
    assert noise_of(found, "zeta") == pytest.approx((covariances[3, 3] / plain, points[3]), rel=1e-4)
    assert noise_of(found, "zeta") != pytest.approx((found.widening["zeta"], found.points["zeta"]), rel=0.05)
