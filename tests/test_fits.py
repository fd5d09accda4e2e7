"""Fits: known parameters and stored cases come back, and errors are what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import run_log, study

from grpo_dynamics.analysis import kernels
from grpo_dynamics.analysis.fits import fit
from grpo_dynamics.analysis.intervals import r2_interval, weighted_slope
from grpo_dynamics.analysis.noise import covariance, inflation, lag1
from grpo_dynamics.analysis.problem import curve, named
from grpo_dynamics.analysis.series import cell_mean, heldout_reward, train_reward
from grpo_dynamics.theory.law import exponential, three_phase
from grpo_dynamics.theory.rivals import flow

T = np.arange(150.0)
STORED = json.loads((Path(__file__).parent / "data" / "fits.json").read_text())
# Two starts for the searched parameters of every stored curve, far from the solutions and from each other.
STARTS = {
    "law": ({"w0": 0.03, "zeta": 0.3}, {"w0": 0.6, "zeta": 3.0}),
    "exponential": ({"k": 0.005}, {"k": 0.3}),
    "logistic": ({"R_0": 20.0, "R_inf": 50.0, "k": 0.02}, {"R_0": 2.0, "R_inf": 95.0, "k": 0.1}),
    "gompertz": ({"R_0": 0.3, "R_inf": 0.6, "k": 0.02}, {"R_0": 0.05, "R_inf": 0.95, "k": 0.2}),
    "flow_ceiling": ({"R_0": 0.3, "R_inf": 0.6, "k": 0.05}, {"R_0": 0.1, "R_inf": 0.95, "k": 0.5}),
}


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("case", STORED)
def test_stored_cases_from_two_starts(case, start):
    """Parameters, residual sum of squares and plain standard errors to 6 digits, as in NIST's StRD."""
    stored = STORED[case]
    found = fit(stored["curve"], stored["t"], stored["y"], stored["limits"], start=STARTS[stored["curve"]][start])
    for name, value in stored["estimates"].items():
        assert found.estimates[name] == pytest.approx(value, rel=1e-6), name
    assert found.sse == pytest.approx(stored["sse"], rel=1e-6)
    for name, value in stored["standard_errors"].items():
        if name != "w0":  # not a coordinate of the search
            assert found.se[name] / np.sqrt(found.widening[name]) == pytest.approx(value, rel=1e-6), name


@pytest.mark.parametrize(("w0", "zeta"), [(0.1, 0.3), (0.08, 0.9), (0.08, 1.0), (0.1, 1.6), (0.4, 6.0)])
def test_noise_free_law_is_recovered(w0, zeta):
    found = fit("law", T, three_phase(T, 0.1, 0.8, w0, zeta))
    values = [found.estimates[name] for name in ("R_0", "R_inf", "w0", "zeta")]
    np.testing.assert_allclose(values, [0.1, 0.8, w0, zeta], rtol=1e-6)
    assert found.at_bound == ()


TRUE = {
    "exponential": {"R_0": 0.1, "R_inf": 0.8, "k": 0.04},
    "logistic": {"R_0": 0.1, "R_inf": 0.8, "k": 0.08},
    "gompertz": {"R_0": 0.1, "R_inf": 0.8, "k": 0.05},
    "flow_ceiling": {"R_0": 0.1, "R_inf": 0.8, "k": 0.2},
    "flow": {"R_0": 0.1, "beta": 0.9, "k": 0.2},
}


@pytest.mark.parametrize("name", TRUE)
def test_noise_free_rivals_are_recovered(name):
    found = fit(name, T, curve(name, T, TRUE[name]))
    for parameter, value in TRUE[name].items():
        assert found.estimates[parameter] == pytest.approx(value, rel=1e-5), parameter


@pytest.mark.parametrize("name", ["law", *TRUE])
def test_compiled_curves_and_derivatives_are_the_theory_s(name):
    values = TRUE.get(name, {"R_0": 0.2, "R_inf": 0.9, "w0": 0.1, "zeta": 1.2})
    found = fit(name, T, np.clip(curve(name, T, values), 0, 1))
    p, u = found.problem, found.u + 0.05
    value, slope = np.empty(len(T)), np.empty((len(T), len(u)))
    kernels.evaluate(p.code, u, p.t, p.width, 0.0, 1.0, value, slope)
    exact = curve(name, T, {k: v for k, v in named(p, u).items() if not (name == "flow" and k == "R_inf")})
    np.testing.assert_allclose(value, exact, atol=1e-7)
    for j in range(len(u)):
        up, down, other = u.copy(), u.copy(), np.empty_like(slope)
        up[j] += 1e-5
        down[j] -= 1e-5
        high, low = np.empty(len(T)), np.empty(len(T))
        kernels.evaluate(p.code, up, p.t, p.width, 0.0, 1.0, high, other)
        kernels.evaluate(p.code, down, p.t, p.width, 0.0, 1.0, low, other)
        np.testing.assert_allclose(slope[:, j], (high - low) / 2e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["law", *TRUE])
def test_a_row_that_averages_is_fitted_as_the_average(name):
    """Means over 8 steps, logged at their last step, give back the curve behind them; taken as points they do not."""
    values = TRUE.get(name, {"R_0": 0.1, "R_inf": 0.8, "w0": 0.1, "zeta": 1.3})
    steps = np.arange(160.0)
    y = curve(name, steps, values).reshape(-1, 8).mean(axis=1)
    t = steps.reshape(-1, 8)[:, -1]
    found = fit(name, t, y, width=8)
    for parameter, value in values.items():
        assert found.estimates[parameter] == pytest.approx(value, rel=1e-4), parameter
    assert fit(name, t, y).estimates["R_0"] != pytest.approx(values["R_0"], rel=1e-2)


def test_another_range_of_the_reward():
    """Rewards from -1 to 3 are those from 0 to 1 stretched: so are R_0, R_inf and their errors, and no rate moves."""
    rng = np.random.default_rng(0)
    y = three_phase(T, 0.1, 0.8, 0.1, 1.3) + rng.normal(0, 0.02, len(T))
    for name in ("law", "exponential", "logistic", "gompertz", "flow", "flow_ceiling"):
        unit, wide = fit(name, T, y), fit(name, T, 4 * y - 1, limits=(-1, 3))
        for parameter, value in unit.estimates.items():
            stretched = 4 * value - 1 if parameter.startswith("R_") else value
            assert wide.estimates[parameter] == pytest.approx(stretched, rel=2e-4), (name, parameter)
        assert wide.se["R_0"] == pytest.approx(4 * unit.se["R_0"], rel=2e-3)


def test_times_need_not_be_equally_spaced_nor_start_at_zero():
    t = np.sort(np.random.default_rng(0).choice(np.arange(5.0, 200.0), 60, replace=False))
    found = fit("law", t, three_phase(t, 0.1, 0.8, 0.1, 1.6))
    assert found.estimates["zeta"] == pytest.approx(1.6, rel=1e-6)


def test_the_overdamped_law_keeps_to_its_side():
    y = three_phase(T, 0.1, 0.8, 0.1, 0.4)
    found = fit("law_overdamped", T, y)
    assert found.estimates["zeta"] == pytest.approx(1)
    assert "zeta" in found.at_bound
    assert found.sse > fit("law", T, y).sse


def test_standard_errors_match_the_scatter_of_estimates():
    """Under independent noise they are up to half too large, since they allow for a correlation that is not there."""
    rng = np.random.default_rng(2)
    found = [fit("law", T, three_phase(T, 0.1, 0.7, 0.1, 0.7) + rng.normal(0, 0.01, len(T))) for _ in range(60)]
    for name in ("R_0", "R_inf", "w0", "zeta"):
        scatter = np.std([one.estimates[name] for one in found], ddof=1)
        assert 0.8 < np.median([one.se[name] for one in found]) / scatter < 1.6


def test_a_parameter_at_its_bound_has_no_error_and_is_named():
    y = np.clip(exponential(T, 0.1, 1.2, 0.01), 0, 1)  # still rising at the end, towards a plateau above 1
    found = fit("law", T, y)
    assert "R_inf" in found.at_bound
    assert found.estimates["R_inf"] == 1
    assert np.isnan(found.se["R_inf"])


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

    start, end = kernels.project(shape, y, 0.0, 1.0, False, False, 0.5, 0.5)
    assert 0 <= start <= 1
    assert 0 <= end <= 1
    assert cost(start, end) <= cost(*other) + 1e-9


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_no_curve_fits_worse_than_one_that_it_contains(seed):
    """The law contains the overdamped law, which nearly contains the exponential (zeta up to 50)."""
    rng = np.random.default_rng(seed)
    y = np.clip(rng.uniform(0, 1) + rng.normal(0, 0.1, 40).cumsum() * rng.uniform(0, 1), 0, 1)
    t = np.arange(40.0)
    sse = {name: fit(name, t, y).sse for name in ("law", "law_overdamped", "exponential")}
    assert sse["law"] <= sse["law_overdamped"] + 1e-9
    assert sse["law_overdamped"] <= sse["exponential"] * 1.001 + 1e-6


def test_noise_statistics():
    assert lag1(np.array([1.0, -1.0, 1.0, -1.0])) == -0.75
    assert inflation(0.5) == 3
    assert inflation(-0.5) == 1


def _errors_of_a_mean(noise: np.ndarray) -> tuple[float, float]:
    """Standard error and independent points that `covariance` gives to the mean of a series."""
    found, _, n_effective = covariance(np.ones((len(noise), 1)), noise - noise.mean())
    return float(np.sqrt(found[0, 0])), n_effective


@pytest.mark.parametrize(("share", "memory"), [(0.0, 0.0), (0.1, 0.9), (0.5, 0.8)])
def test_errors_under_correlated_noise(share, memory):
    """The error of the mean of 240 values, beside that of its definition: the sum of all covariances."""
    rng = np.random.default_rng(7)
    n, found, points = 240, [], []
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    correlation = np.where(lags == 0, 1.0, share * memory**lags)
    true = np.sqrt(correlation.sum()) / n
    root = np.linalg.cholesky(correlation)
    for _ in range(40):
        error, n_effective = _errors_of_a_mean(root @ rng.normal(size=n))
        found.append(error)
        points.append(n_effective)
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(true, rel=0.3)
    assert np.median(points) == pytest.approx(n / (1 + 2 * share * memory / (1 - memory)), rel=0.5)


def test_errors_under_noise_of_changing_size():
    """Noise ten times as large in the first quarter weighs on what that quarter alone decides."""
    rng = np.random.default_rng(8)
    size = np.where(np.arange(200) < 50, 1.0, 0.1)
    jacobian = np.stack([np.arange(200) < 50, np.arange(200) >= 50], axis=1).astype(float)
    found = np.mean([np.diag(covariance(jacobian, size * rng.normal(size=200))[0]) for _ in range(40)], axis=0)
    assert np.sqrt(found[0]) == pytest.approx(1 / np.sqrt(50), rel=0.3)
    assert np.sqrt(found[1]) < 0.5 / np.sqrt(150)  # not 1 / sqrt(200)


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


def test_bad_input_names_what_was_found():
    with pytest.raises(ValueError, match=r"shapes \(3,\) and \(3,\), expected two of at least 5"):
        fit("law", np.arange(3.0), np.arange(3.0))
    with pytest.raises(ValueError, match="empty values"):
        fit("law", T, np.where(T == 3, np.nan, 0.5))
    with pytest.raises(ValueError, match="curve: found 'weibull', expected one of law"):
        fit("weibull", T, T / 150)
    with pytest.raises(ValueError, match="limits: found 1 and 0"):
        fit("law", T, T / 150, limits=(1, 0))
    with pytest.raises(ValueError, match="limits: found -inf and inf, expected finite ones for logistic"):
        fit("logistic", T, T / 150, limits=(-np.inf, np.inf))
    with pytest.raises(ValueError, match="average from step -4 on"):
        fit("law", T, T / 150, width=5)
    with pytest.raises(ValueError, match="expected zeta among the start values of law"):
        fit("law", T, T / 150, start={"k": 0.1})


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("k", [0.05, 0.5, 3.0])
def test_the_compiled_flow_is_accurate(beta, k):
    p = fit("flow", T, flow(T, 0.2, 0.5, 0.1)).problem
    value, slope = np.empty(len(T)), np.empty((len(T), 3))
    kernels.evaluate(p.code, np.array([0.3, beta, np.log(k)]), p.t, p.width, 0.0, 1.0, value, slope)
    np.testing.assert_allclose(value, flow(T, 0.3, beta, k), atol=1e-6)


def test_errors_of_few_points_are_not_too_small():
    """Without the degrees of freedom that 4 parameters take from 12 points, errors are sqrt(12 / 8) too small."""
    rng = np.random.default_rng(9)
    jacobian = np.vander(np.linspace(-1, 1, 12), 4)
    projection = jacobian @ np.linalg.pinv(jacobian)
    true = np.diag(np.linalg.inv(jacobian.T @ jacobian))
    found = []
    for _ in range(200):
        y = rng.normal(size=12)
        found.append(np.diag(covariance(jacobian, y - projection @ y)[0]) / true)
    assert 1.3 < np.mean(found) < 2.2  # 1.1 without them; above 1, since they allow for a correlation too


def test_overlapping_averages_are_refused_for_the_flow():
    t = np.arange(10.0, 60.0)
    with pytest.raises(ValueError, match="averages overlap"):
        fit("flow", t, t / 100, width=8)
    assert fit("law", t, t / 100, width=8).sse < 1
