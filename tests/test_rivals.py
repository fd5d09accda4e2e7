"""The law's rivals: their differential equations, ends, limits of each other, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.theory.rivals import flow, flow_ceiling, flow_fixed_point, gompertz, logistic

T = np.linspace(0.0, 120.0, 61)
STARTS, PLATEAUS, RATES = st.floats(0.02, 0.4), st.floats(0.5, 0.98), st.floats(0.01, 0.5)


def slope(function, t, *parameters):
    return (function(t + 1e-4, *parameters) - function(t - 1e-4, *parameters)) / 2e-4


@given(STARTS, PLATEAUS, RATES)
def test_growth_curves_solve_their_equations(R_0, R_inf, k):
    t = T[1:]
    R = logistic(t, R_0, R_inf, k)
    np.testing.assert_allclose(slope(logistic, t, R_0, R_inf, k), k * R * (1 - R / R_inf), atol=1e-7)
    R = gompertz(t, R_0, R_inf, k)
    np.testing.assert_allclose(slope(gompertz, t, R_0, R_inf, k), k * R * np.log(R_inf / R), atol=1e-7)
    R = flow_ceiling(t, R_0, R_inf, k)
    p = R / R_inf
    np.testing.assert_allclose(slope(flow_ceiling, t, R_0, R_inf, k), R_inf * k * (p * (1 - p)) ** 1.5, atol=1e-7)
    for function in (logistic, gompertz, flow_ceiling):
        assert function(0.0, R_0, R_inf, k) == pytest.approx(R_0)
        assert function(1e6, R_0, R_inf, k) == pytest.approx(R_inf, rel=1e-6)


def test_the_flow_without_anchor_has_a_closed_form():
    np.testing.assert_allclose(flow(T, 0.2, 0.0, 0.15), flow_ceiling(T, 0.2, 1.0, 0.15), atol=1e-9)


def test_the_flow_solves_its_equation():
    t, R_0, beta, k = T[1:], 0.2, 0.8, 0.15
    p = flow(t, R_0, beta, k)
    drift = np.sqrt(p * (1 - p)) - beta * p * (1 - p) * (logit(p) - logit(R_0))
    found = slope(lambda t, *a: flow(t, *a), t, R_0, beta, k)
    np.testing.assert_allclose(found, k * p * (1 - p) * drift, atol=1e-6)


@given(st.floats(0.02, 0.6), st.floats(0.01, 20.0))
def test_the_flow_ends_at_its_first_fixed_point_or_at_1(R_0, beta):
    end = flow_fixed_point(R_0, beta)
    assert R_0 < end <= 1
    if end < 1:
        assert 1 / np.sqrt(end * (1 - end)) == pytest.approx(beta * (logit(end) - logit(R_0)), rel=1e-8)
        between = R_0 + (end - R_0) * np.linspace(0.01, 0.99, 50)
        assert np.all(1 / np.sqrt(between * (1 - between)) > beta * (logit(between) - logit(R_0)))
    else:
        theta = logit(R_0) + np.linspace(0, 40, 4001)
        assert np.all(2 * np.cosh(theta / 2) > beta * (theta - logit(R_0)) - 1e-3)


def test_a_strong_anchor_is_reached():
    assert flow(1e4, 0.2, 1.0, 1.0) == pytest.approx(flow_fixed_point(0.2, 1.0), abs=1e-8)


def test_the_bandit_s_fixed_point_is_the_flow_s():
    assert flow_fixed_point(0.2, 1.0) == pytest.approx(expit(Bandit(beta=1.0, p_ref=0.2).fixed_point()), rel=1e-9)


@pytest.mark.parametrize("function", [logistic, gompertz, flow_ceiling])
def test_bad_parameters_are_named(function):
    with pytest.raises(ValueError, match="R_0: found"):
        function(T, 0.0, 0.5, 0.1)
    with pytest.raises(ValueError, match="k: found"):
        function(T, 0.1, 0.5, -1.0)


def test_a_falling_flow_is_refused():
    with pytest.raises(ValueError, match="only rises"):
        flow_ceiling(T, 0.5, 0.4, 0.1)
