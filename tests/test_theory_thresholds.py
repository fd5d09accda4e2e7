"""Exact thresholds of the lagged linear update."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_dynamics.theory import lag, oscillator, thresholds

EXACT = pd.read_csv(Path(__file__).parent / "data" / "exact.csv")
MOMENTA = st.integers(0, 97).map(lambda percent: percent / 100)
# Below 1e-3 a momentum is 0 to double precision within a few periods, and the reference's eigenvectors are noise.
momenta = st.one_of(st.just(0.0), st.floats(1e-3, 0.97))
KINDS = (thresholds.stability_threshold, thresholds.onset_threshold)


@pytest.mark.parametrize("row", list(EXACT.itertuples(index=False)), ids=lambda row: f"mu{row.mu}-L{row.L}")
def test_reproduces_the_printed_digits(row):
    mu, L = row.mu, int(row.L)
    found = {
        "a_stability_closed": oscillator.stability_threshold(mu, L),
        "a_onset_closed": oscillator.onset_threshold(mu, L),
        "a_stability_fixed_lag": thresholds.stability_threshold("fixed_lag", mu, L),
        "a_onset_fixed_lag": thresholds.onset_threshold("fixed_lag", mu, L),
        "a_stability_periodic": thresholds.stability_threshold("periodic", mu, L),
        "a_onset_periodic": thresholds.onset_threshold("periodic", mu, L),
    }
    assert {name: f"{value:.8g}" for name, value in found.items()} == {
        name: f"{getattr(row, name):.8g}" for name in found
    }


@given(st.integers(1, 400))
@settings(max_examples=40, deadline=None)
def test_closed_forms_without_momentum(L):
    assert thresholds.stability_threshold("fixed_lag", 0, L) == pytest.approx(
        2 * np.sin(np.pi / (2 * (2 * L + 1))), rel=1e-12
    )
    assert thresholds.onset_threshold("fixed_lag", 0, L) == pytest.approx((L / (L + 1)) ** L / (L + 1), rel=1e-12)
    assert thresholds.stability_threshold("periodic", 0, L) == pytest.approx(2 / L, rel=1e-12)
    assert thresholds.onset_threshold("periodic", 0, L) == pytest.approx(1 / L, rel=1e-12)


def leading(schedule, a, mu, L, share):
    """Eigenvalue of largest modulus of a step or of a period."""
    if schedule == "fixed_lag":
        matrix = lag.companion(a, mu, L)
    else:
        share = 1.0 if schedule == "periodic" else share
        matrix = lag.monodromy((1 - share) * a, share * a, mu, L)
    roots = np.linalg.eigvals(matrix)
    return roots[np.argmax(np.abs(roots))]


@given(MOMENTA, st.integers(1, 20), st.floats(-0.9, 0.7), st.sampled_from(lag.SCHEDULES))
@settings(max_examples=60, deadline=None)
def test_stability_is_lost_there_and_nowhere_before(mu, L, share, schedule):
    a = float(thresholds.stability_threshold(schedule, mu, L, share))
    assert (
        abs(leading(schedule, a * (1 - 1e-9), mu, L, share)) < 1 < abs(leading(schedule, a * (1 + 1e-9), mu, L, share))
    )
    before = [abs(leading(schedule, x * a, mu, L, share)) for x in np.linspace(1e-3, 1 - 1e-6, 300)]
    assert max(before) < 1


@given(MOMENTA, st.integers(1, 20), st.sampled_from(["fixed_lag", "periodic"]))
@settings(max_examples=60, deadline=None)
def test_onset_separates_monotone_from_oscillating(mu, L, schedule):
    a = float(thresholds.onset_threshold(schedule, mu, L))
    for scale, oscillates in ((0.5, False), (0.999, False), (1.001, True)):
        root = leading(schedule, a * scale, mu, L, 1.0)
        assert (abs(root.imag) > 1e-9 or root.real < 0) == oscillates


def changes_sign(a, mu, L, share):
    """Whether the leading mode of the importance-corrected update changes sign, step by step over two periods."""
    roots, vectors = np.linalg.eig(lag.monodromy((1 - share) * a, share * a, mu, L))
    place = np.argmax(np.abs(roots))
    if abs(roots[place].imag) > 0:
        return True
    (e, v), signs = vectors[:, place].real, []
    frozen = e
    for n in range(2 * L):
        frozen = e if n % L == 0 else frozen
        v = mu * v - (1 - share) * a * e - share * a * frozen
        e += v
        signs.append(np.sign(e))
    return len(set(signs)) > 1


@given(MOMENTA, st.integers(1, 30), st.integers(-90, 70).map(lambda percent: percent / 100))
@settings(max_examples=60, deadline=None)
def test_onset_of_the_importance_corrected_update(mu, L, share):
    a = float(thresholds.onset_threshold("importance_corrected", mu, L, share))
    assert not any(changes_sign(x * a, mu, L, share) for x in np.linspace(1e-3, 1 - 1e-5, 200))
    assert changes_sign(a * (1 + 1e-6), mu, L, share)


def test_a_narrow_window_of_instability_is_found():
    # Stable again from 1.963 to 2.176: a scan that steps over the window would report the latter.
    share = -0.6368789627440211
    a = float(thresholds.stability_threshold("importance_corrected", 0.9, 6, share))
    assert a == pytest.approx(1.9375, abs=1e-3)
    assert abs(leading("importance_corrected", 2.0, 0.9, 6, share)) < 1


@given(st.floats(0, 1 - 1e-9))
@settings(max_examples=25, deadline=None)
def test_one_step_of_lag_is_lost_at_one_minus_mu(mu):
    assert thresholds.stability_threshold("fixed_lag", mu, 1) == pytest.approx(1 - mu, rel=1e-12)


@given(st.floats(0, 0.9999), st.floats(-0.9, 0.9))
@settings(max_examples=25, deadline=None)
def test_on_policy_is_the_same_under_every_schedule(mu, share):
    for schedule, K_ref in (("fixed_lag", 0), ("periodic", 1), ("importance_corrected", 1)):
        assert thresholds.stability_threshold(schedule, mu, K_ref, share) == pytest.approx(2 * (1 + mu), rel=1e-10)
        onset = ((1 - mu) / (1 + np.sqrt(mu))) ** 2  # (1 - sqrt mu)^2
        assert thresholds.onset_threshold(schedule, mu, K_ref, share) == pytest.approx(onset, rel=1e-10)


def test_importance_correction_between_current_and_frozen():
    # Nothing frozen: plain heavy ball at any interval, whose error changes sign above (1 - sqrt(mu))^2 as soon as one
    # period is long enough; everything frozen: the periodic schedule.
    corrected = "importance_corrected"
    assert thresholds.stability_threshold(corrected, 0.5, 3, 0.0) == pytest.approx(3, rel=1e-10)
    assert thresholds.onset_threshold(corrected, 0.0, 4, 0.0) == pytest.approx(1, rel=1e-10)
    for threshold in KINDS:
        assert threshold(corrected, 0.5, 4, 1.0) == pytest.approx(threshold("periodic", 0.5, 4), rel=1e-12)
        assert threshold(corrected, 0.5, 4, 1 - 1e-9) == pytest.approx(threshold("periodic", 0.5, 4), rel=1e-7)


@pytest.mark.parametrize("schedule", lag.SCHEDULES)
@pytest.mark.parametrize("threshold", KINDS)
def test_arrays_give_what_scalars_give(schedule, threshold):
    mu, K_ref, share = np.array([[0.0], [0.5], [0.95]]), np.array([1, 3, 17]), -0.4
    found = threshold(schedule, mu, K_ref, share)
    assert found.shape == (3, 3)
    for i in range(3):
        for j in range(3):
            alone = threshold(schedule, mu[i, 0], K_ref[j], share)
            assert alone.shape == () and found[i, j] == pytest.approx(float(alone), rel=1e-12)


def test_long_lags_approach_their_limits():
    assert 5000 * thresholds.stability_threshold("fixed_lag", 0.0, 5000) == pytest.approx(np.pi / 2, rel=1e-3)
    assert 5000 * thresholds.onset_threshold("fixed_lag", 0.0, 5000) == pytest.approx(np.exp(-1), rel=1e-3)
    assert 5000 * oscillator.onset_threshold(0.0, 5000) == pytest.approx(np.sqrt(2) - 1, rel=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        ("fixed", 0.0, 1),
        ("periodic", 0.0, 0),
        ("fixed_lag", 0.0, 1.5),
        ("fixed_lag", 1.0, 1),
        ("importance_corrected", 0.0, 2, 1.1),
    ],
)
def test_domain(call):
    for threshold in KINDS:
        with pytest.raises(ValueError, match=r"found .* expected"):
            threshold(*call)
