"""Closed forms of the oscillator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_dynamics.theory import oscillator

mus = st.floats(0, 0.99)
intervals = st.integers(0, 64)


def test_coefficients_at_a_point():
    # a = 0.1, mu = 0.5, K_ref = 2: M = 0.75 + 0.2, C = 0.5 - 0.2
    M_eff, C_eff, K_eff = oscillator.coefficients(0.1, 0.5, 2)
    assert (M_eff, C_eff, K_eff) == pytest.approx((0.95, 0.3, 0.1))
    assert oscillator.natural_frequency(0.1, 0.5, 2) == pytest.approx(np.sqrt(0.1 / 0.95))
    assert oscillator.damping_ratio(0.1, 0.5, 2) == pytest.approx(0.3 / (2 * np.sqrt(0.095)))


def test_vectorised_and_broadcast():
    a, K_ref = np.array([[0.02], [0.5]]), np.array([1, 4, 16])
    assert oscillator.coefficients(a, 0.5, K_ref).M_eff.shape == (2, 3)
    expected = [["overdamped", "overdamped", "underdamped"], ["unstable"] * 3]
    assert oscillator.regime(a, 0.5, K_ref).tolist() == expected


def test_critical_only_exactly():
    # mu = 0, K_ref = 0: C^2 - 4 M K = 1 - 2 a, exact in binary
    assert str(oscillator.regime(0.5, 0.0, 0)) == "critical"
    assert str(oscillator.regime(np.nextafter(0.5, 0), 0.0, 0)) == "overdamped"
    assert str(oscillator.regime(np.nextafter(0.5, 1), 0.0, 0)) == "underdamped"


@given(mus, intervals)
def test_onset_solves_the_critical_condition(mu, K_ref):
    a = oscillator.onset_threshold(mu, K_ref)
    assert oscillator.damping_ratio(a, mu, K_ref) == pytest.approx(1, abs=1e-9)
    assert a < oscillator.stability_threshold(mu, K_ref)


@given(mus, st.integers(1, 64))
def test_damping_vanishes_at_the_stability_threshold(mu, K_ref):
    a = oscillator.stability_threshold(mu, K_ref)
    assert oscillator.coefficients(a, mu, K_ref).C_eff == pytest.approx(0, abs=1e-12)


def test_no_lag():
    assert oscillator.stability_threshold(0.5, 0) == np.inf
    assert oscillator.onset_threshold(0.5, 0) == pytest.approx(0.25 / 3)


@given(st.floats(1e-6, 1e3), mus, intervals)
def test_damping_ratio_stays_above_its_bound(a, mu, K_ref):
    assert oscillator.damping_ratio(a, mu, K_ref) > -1 / np.sqrt(2)


def test_stationary_variance():
    # C_eff = 0.3, K_eff = 0.1 as above
    assert oscillator.stationary_variance(0.1, 0.5, 2, D=0.06, G=4) == pytest.approx(0.06 / (2 * 4 * 0.3 * 0.1))
    assert oscillator.stationary_variance(0.25, 0.5, 2, D=1.0, G=4) == np.inf


@given(st.floats(1e-6, 10), mus, intervals)
def test_slowest_mode_is_the_root_with_the_smallest_decay(a, mu, K_ref):
    M_eff, C_eff, K_eff = map(float, oscillator.coefficients(a, mu, K_ref))
    rate, frequency = map(float, oscillator.slowest_mode(a, mu, K_ref))
    s = complex(-rate, frequency)
    scale = M_eff * abs(s) ** 2 + abs(C_eff * s) + K_eff
    assert M_eff * s**2 + C_eff * s + K_eff == pytest.approx(0, abs=1e-9 * scale)
    if frequency == 0 and C_eff > 0:
        assert rate <= C_eff / (2 * M_eff) * (1 + 1e-9)


def test_everything_from_the_hyperparameters():
    # eta K = 0.1, mu = 0.5, K_ref = 2 as above
    found = oscillator.oscillator(eta=0.2, mu=0.5, K_ref=2, K=0.5, G=4, D=0.06)
    assert found[:4] == pytest.approx((0.1, 0.95, 0.3, 0.1))
    assert found.w0 == pytest.approx(np.sqrt(0.1 / 0.95)) and found.zeta == pytest.approx(0.3 / (2 * np.sqrt(0.095)))
    assert str(found.regime) == "underdamped"
    assert found.stability_threshold == pytest.approx(0.25)
    assert found.onset_threshold == pytest.approx(float(oscillator.onset_threshold(0.5, 2)))
    assert found.stationary_variance == pytest.approx(0.25)
    swept = oscillator.oscillator(eta=[[0.01], [1.0]], mu=0.5, K_ref=[1, 2, 3], K=0.5, G=4, D=0.06)
    assert {value.shape for value in swept} == {(2, 3)}
    assert swept.regime.tolist() == [["overdamped"] * 3, ["unstable"] * 3]


@pytest.mark.parametrize("name", ["eta", "mu", "K_ref", "K", "G", "D"])
def test_hyperparameters_outside_their_domain(name):
    setting = {"eta": 0.2, "mu": 0.5, "K_ref": 2, "K": 0.5, "G": 4, "D": 0.06}
    with pytest.raises(ValueError, match=f"^{name}: found"):
        oscillator.oscillator(**setting | {name: -1.0})


@pytest.mark.parametrize(
    ("a", "mu", "K_ref", "name"),
    [(0, 0, 1, "a"), (np.nan, 0, 1, "a"), (1, 1, 1, "mu"), (1, -0.1, 1, "mu"), (1, 0, -1, "K_ref")],
)
def test_domain(a, mu, K_ref, name):
    with pytest.raises(ValueError, match=f"^{name}: found"):
        oscillator.coefficients(a, mu, K_ref)
