"""Exact thresholds of the lagged linear update."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_dynamics.theory import lag, oscillator

EXACT = pd.read_csv(Path(__file__).parent / "data" / "exact.csv")


@pytest.mark.parametrize("row", list(EXACT.itertuples(index=False)), ids=lambda row: f"mu{row.mu}-L{row.L}")
def test_reproduces_the_printed_digits(row):
    mu, L = row.mu, int(row.L)
    found = {
        "a_stability_closed": oscillator.stability_threshold(mu, L),
        "a_onset_closed": oscillator.onset_threshold(mu, L),
        "a_stability_fixed_lag": lag.stability_threshold("fixed_lag", mu, L),
        "a_onset_fixed_lag": lag.onset_threshold("fixed_lag", mu, L),
        "a_stability_periodic": lag.stability_threshold("periodic", mu, L),
        "a_onset_periodic": lag.onset_threshold("periodic", mu, L),
    }
    assert {name: f"{value:.8g}" for name, value in found.items()} == {
        name: f"{getattr(row, name):.8g}" for name in found
    }


@pytest.mark.parametrize("L", [1, 2, 5, 20])
def test_closed_forms_without_momentum(L):
    assert lag.stability_threshold("fixed_lag", 0, L) == pytest.approx(2 * np.sin(np.pi / (2 * (2 * L + 1))), rel=1e-12)
    assert lag.onset_threshold("fixed_lag", 0, L) == pytest.approx(L**L / (L + 1) ** (L + 1), rel=1e-12)
    assert lag.stability_threshold("periodic", 0, L) == pytest.approx(2 / L, rel=1e-10)
    assert lag.onset_threshold("periodic", 0, L) == pytest.approx(1 / L, rel=1e-10)


@given(st.floats(0, 0.95), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_thresholds_separate_the_eigenvalues(mu, L):
    matrices = {
        "fixed_lag": lambda a: lag.companion(a, mu, L),
        "periodic": lambda a: lag.monodromy(0.0, a, mu, L),
    }
    for schedule, matrix in matrices.items():
        a = lag.stability_threshold(schedule, mu, L)
        assert lag.spectral_radius(matrix(a * (1 - 1e-6))) < 1 < lag.spectral_radius(matrix(a * (1 + 1e-6)))
        a = lag.onset_threshold(schedule, mu, L)
        for scale, oscillates in ((0.999, False), (1.001, True)):
            roots = np.linalg.eigvals(matrix(a * scale))
            leading = roots[np.argmax(np.abs(roots))]
            assert (abs(leading.imag) > 1e-9 or leading.real < 0) == oscillates


@given(st.floats(0, 0.99))
@settings(max_examples=25, deadline=None)
def test_one_step_of_lag_is_lost_at_one_minus_mu(mu):
    assert lag.stability_threshold("fixed_lag", mu, 1) == pytest.approx(1 - mu, rel=1e-9)


@pytest.mark.parametrize("mu", [0.0, 0.3, 0.9])
def test_on_policy_is_the_same_under_every_schedule(mu):
    assert lag.stability_threshold("fixed_lag", mu, 0) == pytest.approx(2 * (1 + mu))
    assert lag.onset_threshold("fixed_lag", mu, 0) == pytest.approx((1 - np.sqrt(mu)) ** 2)
    for schedule in ("periodic", "importance_corrected"):
        assert lag.stability_threshold(schedule, mu, 1, -0.5) == pytest.approx(2 * (1 + mu), rel=1e-10)
        assert lag.onset_threshold(schedule, mu, 1, -0.5) == pytest.approx((1 - np.sqrt(mu)) ** 2, rel=1e-10)


def test_importance_correction_between_current_and_frozen():
    # Nothing frozen: plain heavy ball at any interval, whose error changes sign above (1 - sqrt(mu))^2 as soon as one
    # period is long enough; everything frozen: the periodic schedule.
    assert lag.stability_threshold("importance_corrected", 0.5, 3, 0.0) == pytest.approx(3, rel=1e-10)
    assert lag.onset_threshold("importance_corrected", 0.0, 4, 0.0) == pytest.approx(1, rel=1e-10)
    for threshold in (lag.stability_threshold, lag.onset_threshold):
        assert threshold("importance_corrected", 0.5, 4, 1.0) == pytest.approx(threshold("periodic", 0.5, 4), rel=1e-10)


def test_stale_stiffness():
    assert lag.stale_stiffness(0.5) == 0
    assert lag.stale_stiffness(0.2) == pytest.approx(0.5 * 0.6 * 0.4)
    assert lag.stale_stiffness(0.8) < 0


def test_monodromy_follows_the_recurrence():
    a_now, a_stale, mu = 0.07, 0.05, 0.6
    e, v = 0.3, -0.2
    frozen = e
    for _ in range(5):
        v = mu * v - a_now * e - a_stale * frozen
        e += v
    assert lag.monodromy(a_now, a_stale, mu, 5) @ [0.3, -0.2] == pytest.approx([e, v])


def test_stationary_variance_of_the_on_policy_update():
    # mu = 0, no lag: an AR(1) with coefficient 1 - a
    assert lag.stationary_variance(0.2, 0.0, 0, 0.5) == pytest.approx(0.5 / (1 - 0.8**2))
    # and the oscillator's value as the step becomes small
    a, mu, L = 1e-5, 0.5, 3
    closed = oscillator.stationary_variance(a, mu, L, D=0.5, G=1.0)
    assert lag.stationary_variance(a, mu, L, 0.5) == pytest.approx(closed, rel=1e-3)
    with pytest.raises(ValueError, match="unstable"):
        lag.stationary_variance(1.1, 0.0, 1, 0.5)


@pytest.mark.parametrize(
    "call", [("fixed", 0.0, 1), ("periodic", 0.0, 0), ("fixed_lag", 0.0, 1.5), ("fixed_lag", 1.0, 1)]
)
def test_domain(call):
    with pytest.raises(ValueError, match=r"found .* expected"):
        lag.stability_threshold(*call)
