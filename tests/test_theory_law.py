"""The three-phase law against 50-digit arithmetic, its own differential equation, and its limits."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_dynamics.theory import law

ZETAS = [
    1e-3,
    0.03,
    0.5,
    0.9,
    1 - 1e-5,
    1 - 1e-9,
    1 - 1e-16,
    1.0,
    1 + 2.3e-16,
    1 + 1e-9,
    1 + 1e-5,
    1.2,
    3,
    50,
    1e3,
    1e6,
]


def reference(tau: float, zeta: float) -> tuple[float, float, float]:
    """phi and its derivatives with respect to tau and zeta, with 30 digits to spare for cancellation."""
    with mp.workdps(80):
        t, z = mp.mpf(tau), mp.mpf(zeta)
        D = 1 - z * z
        d = mp.sqrt(mp.mpc(D))
        decay, cosine = mp.exp(-z * t), mp.cos(d * t)
        sine = mp.sin(d * t) / d if D != 0 else t
        bend = (sine - t * cosine) / D if D != 0 else t**3 / 3
        return tuple(float((decay * value).real) for value in (cosine + z * sine, -sine, bend))


@pytest.mark.parametrize("zeta", ZETAS)
def test_phi_to_twelve_digits(zeta):
    # w0 is a power of two, so that w0 t is exact and the error is the code's own.
    w0, root = 0.25, np.sqrt(abs((1 - zeta) * (1 + zeta)))
    settled = 1 / zeta if zeta < 1 else zeta + root  # time constant of the slow mode
    taus = np.r_[np.geomspace(1e-12, 1, 13), [2, 3.5, 7, 12, 30]] * settled
    for tau in [*taus, *(np.array([0.95, 1.05]) / root if root > 1e-3 else [])]:  # on either side of the series' end
        found = law.phi(tau / w0, w0, zeta), *law.phi_derivatives(tau / w0, w0, zeta)
        phi, by_tau, by_zeta = reference(tau, zeta)
        expected = phi, by_tau * tau / w0, by_zeta
        allowed = [1e-12 * abs(value) for value in expected]
        phase = root * tau
        if zeta < 1 and phase > 1:
            # The values pass through zero: there to 1e-12 of the envelope. From a thousand radians on, the last bits of
            # the phase itself are more than that.
            part = max(1e-12, 4 * np.finfo(float).eps * phase) * np.exp(-zeta * tau)
            allowed = part / root, part / root * tau / w0, part * (tau / root**2 + 1 / root**3)
        for value, right, error in zip(found, expected, allowed, strict=True):
            assert abs(value - right) <= error + 1e-300, (tau, value, right)


@given(st.floats(-0.9, 100), st.floats(0, 30))
def test_derivatives_agree_with_differences(zeta, tau):
    step = 1e-5
    by_w0, by_zeta = law.phi_derivatives(tau, 1.0, zeta)
    scale = np.exp(max(-zeta, 0) * tau) * (1 + tau) ** 2
    difference = law.phi(tau, 1.0, zeta + step) - law.phi(tau, 1.0, zeta - step)
    assert by_zeta == pytest.approx(difference / (2 * step), abs=1e-6 * scale)
    difference = law.phi(tau, 1 + step, zeta) - law.phi(tau, 1 - step, zeta)
    assert by_w0 == pytest.approx(difference / (2 * step), abs=1e-6 * scale)


@given(st.floats(1e-3, 1e6), st.floats(1e-6, 10))
def test_starts_at_one_at_rest_and_never_overflows(zeta, w0):
    assert law.phi(0.0, w0, zeta) == 1
    assert law.rate(0.0, 0.1, 0.7, w0, zeta) == 0
    # |phi| <= 1 for zeta >= 0; near phi = 1 the last bit is rounding's
    assert np.all(np.abs(law.phi(np.geomspace(1e-9, 1e12, 50), w0, zeta)) <= 1 + 4 * np.finfo(float).eps)


def test_textbook_values():
    t = np.linspace(0, 40, 9)
    assert law.phi(t, 0.2, 1.0) == pytest.approx((1 + 0.2 * t) * np.exp(-0.2 * t))
    r1, r2 = 0.1, 0.4  # zeta = 1.25 at w0 = 0.2
    assert law.phi(t, 0.2, 1.25) == pytest.approx((r2 * np.exp(-r1 * t) - r1 * np.exp(-r2 * t)) / (r2 - r1))
    assert law.phi(t, 0.2, 0.6) == pytest.approx(np.exp(-0.12 * t) * (np.cos(0.16 * t) + 0.75 * np.sin(0.16 * t)))
    assert law.inflection_time(0.2, 1.25) == pytest.approx(np.log(4) / 0.3)
    assert law.inflection_time(0.2, 1.0) == pytest.approx(5)


def test_law_and_exponential_share_plateau_and_start():
    for curve in (law.three_phase([0, 1e9], 0.1, 0.7, 0.1, 2.0), law.exponential([0, 1e9], 0.1, 0.7, 0.05)):
        assert curve == pytest.approx([0.1, 0.7])


def test_overdamped_limit_is_the_exponential():
    t = np.linspace(0, 400, 200)
    for zeta in (10, 100, 1000):
        distance = np.max(np.abs(law.phi(t, 2 * zeta * 0.01, zeta) - law.exponential(t, 1, 0, 0.01)))
        assert distance < 1 / (4 * zeta**2)


@pytest.mark.parametrize("zeta", [0.01, 0.4, 0.999999, 1.0, 1.000001, 2.0, 100.0, 1e6])
def test_phases_keep_their_definitions(zeta):
    start, peak, end = law.phases(0.2, zeta)
    largest = law.rate(peak, 0, 1, 0.2, zeta)
    around = law.rate(peak * np.array([0.9, 1.1]), 0, 1, 0.2, zeta)
    assert np.all(around < largest)
    assert start < peak
    assert law.rate(start, 0, 1, 0.2, zeta) == pytest.approx(largest / 2, rel=1e-9)
    assert law.three_phase(end, 0, 1, 0.2, zeta) == pytest.approx(0.95, rel=1e-9)
    assert np.all(law.phi(np.linspace(0, end, 500)[:-1], 0.2, zeta) > 0.05)


@pytest.mark.parametrize("call", [(-1, 1, 1), (1, 0, 1), (1, 1, -1), (1, 1, np.inf)])
def test_domain(call):
    with pytest.raises(ValueError, match=r"found .* expected"):
        law.phi(*call)
    with pytest.raises(ValueError, match=r"^k: found"):
        law.exponential(1, 0, 1, 0)
