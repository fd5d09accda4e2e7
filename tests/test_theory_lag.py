"""The lagged linear update as matrices: modes and stationary variance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_dynamics.theory import lag, oscillator, thresholds


def test_mean_age():
    assert lag.mean_age("fixed_lag", [1, 4]).tolist() == [1, 4]
    assert (
        lag.mean_age("periodic", [1, 4]).tolist() == lag.mean_age("importance_corrected", [1, 4]).tolist() == [0, 1.5]
    )


def test_companion_has_the_theorys_polynomial():
    a, mu, L = 0.07, 0.6, 4
    for z in np.linalg.eigvals(lag.companion(a, mu, L)):
        assert z ** (L + 1) - (1 + mu) * z**L + mu * z ** (L - 1) + a == pytest.approx(0, abs=1e-12)


def test_monodromy_follows_the_recurrence():
    a_now, a_stale, mu = 0.07, 0.05, 0.6
    e, v = 0.3, -0.2
    frozen = e
    for _ in range(5):
        v = mu * v - a_now * e - a_stale * frozen
        e += v
    assert lag.monodromy(a_now, a_stale, mu, 5) @ [0.3, -0.2] == pytest.approx([e, v])


def test_slowest_mode():
    # mu = 0, on policy: e falls by 1 - a; over a period of a frozen gradient by 1 - a L
    assert lag.slowest_mode("fixed_lag", 0.2, 0.0, 0) == pytest.approx((-np.log(0.8), 0))
    assert lag.slowest_mode("periodic", 0.2, 0.0, 4) == pytest.approx((-np.log(0.2) / 4, 0))
    assert lag.slowest_mode("periodic", 0.3, 0.0, 4) == pytest.approx((-np.log(0.2) / 4, np.pi / 4))
    assert lag.slowest_mode("importance_corrected", 0.2, 0.5, 4, 1.0) == pytest.approx(
        lag.slowest_mode("periodic", 0.2, 0.5, 4)
    )


@given(st.floats(0, 0.95), st.integers(1, 12), st.sampled_from(lag.SCHEDULES))
@settings(max_examples=40, deadline=None)
def test_the_slowest_mode_stops_decaying_at_the_threshold(mu, L, schedule):
    a = float(thresholds.stability_threshold(schedule, mu, L, -0.3))
    assert lag.slowest_mode(schedule, a * (1 - 1e-6), mu, L, -0.3).rate > 0
    assert lag.slowest_mode(schedule, a * (1 + 1e-6), mu, L, -0.3).rate < 0


@given(st.floats(0, 0.95), st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_small_steps_have_the_oscillators_mode(mu, L):
    a = 1e-6 * (1 - mu) ** 2
    closed, exact = oscillator.slowest_mode(a, mu, L), lag.slowest_mode("fixed_lag", a, mu, L)
    assert exact.rate == pytest.approx(float(closed.rate), rel=1e-3) and exact.frequency == closed.frequency == 0


def simulated_variance(schedule, a, mu, L, share, steps=4000, replicas=4000):
    """Variance of e over the last steps of many independent simulations with unit noise, and its standard error."""
    rng = np.random.default_rng(5)
    past = [np.zeros(replicas)] * (max(L, 1) + 1)
    e, v, frozen = np.zeros(replicas), np.zeros(replicas), np.zeros(replicas)
    per_replica = np.zeros(replicas)
    for n in range(steps):
        if schedule == "fixed_lag":
            frozen, noise = past[-1 - L], rng.standard_normal(replicas)
            force = -a * frozen + noise
        else:
            if n % L == 0:
                frozen, noise = e, rng.standard_normal(replicas)
            force = -a * ((1 - share) * e + share * frozen) + noise
        v = mu * v + force
        e = e + v
        past = [*past[1:], e]
        if n >= steps // 2:
            per_replica += e**2 / (steps // 2)
    return per_replica.mean(), per_replica.std() / np.sqrt(replicas)


@pytest.mark.parametrize(
    ("schedule", "L", "share"),
    [("fixed_lag", 3, 1.0), ("periodic", 1, 1.0), ("periodic", 3, 1.0), ("importance_corrected", 3, -0.5)],
)
def test_stationary_variance_of_a_simulation(schedule, L, share):
    a, mu = 0.1, 0.5
    value, error = simulated_variance(schedule, a, mu, L, share, steps=400, replicas=4000)
    assert error < 0.01 * value
    assert lag.stationary_variance(schedule, a, mu, L, 1.0, share) == pytest.approx(value, abs=5 * error)


def test_stationary_variance_of_the_on_policy_update():
    # mu = 0, no lag: an AR(1) with coefficient 1 - a
    for schedule, K_ref in (("fixed_lag", 0), ("periodic", 1), ("importance_corrected", 1)):
        assert lag.stationary_variance(schedule, 0.2, 0.0, K_ref, 0.5, -0.3) == pytest.approx(0.5 / (1 - 0.8**2))
    # and the oscillator's value as the step becomes small
    a, mu, L = 1e-5, 0.5, 3
    closed = oscillator.stationary_variance(a, mu, L, D=0.5, G=1.0)
    assert lag.stationary_variance("fixed_lag", a, mu, L, 0.5) == pytest.approx(closed, rel=1e-3)
    # a batch that is used L times has L^2 times the noise at 1/L of the rate
    assert lag.stationary_variance("periodic", a, mu, L, 0.5) == pytest.approx(L * closed, rel=1e-3)


def test_no_stationary_state_where_unstable():
    with pytest.raises(ValueError, match=r"a = 1\.1, mu = 0, K_ref = 1.*: unstable"):
        lag.stationary_variance("fixed_lag", 1.1, 0.0, 1, 0.5)
    with pytest.raises(ValueError, match=r"K_ref = 2.*: unstable"):
        lag.stationary_variance("periodic", 1.1, 0.0, 2, 0.5)


@pytest.mark.parametrize("call", [("fixed", 0.1, 0.0, 1), ("periodic", 0.1, 0.0, 0), ("fixed_lag", 0.0, 0.0, 1)])
def test_domain(call):
    with pytest.raises(ValueError, match=r"found .* expected"):
        lag.slowest_mode(*call)
