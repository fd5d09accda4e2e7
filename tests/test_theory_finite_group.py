"""Exact drift and noise of finite groups."""

from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_dynamics.theory import finite_group

TABLE = [  # theory, section 4: G, p, h_G / sqrt(p(1-p)) with population and unbiased std, G v_G
    (4, 0.1, 0.507, 0.439, 0.1774),
    (4, 0.5, 0.808, 0.700, 0.0971),
    (16, 0.1, 0.854, 0.827, 0.2989),
    (16, 0.5, 0.967, 0.936, 0.0092),
]


@pytest.mark.parametrize(("G", "p", "population", "unbiased", "noise"), TABLE)
def test_table(G, p, population, unbiased, noise):
    scale = np.sqrt(p * (1 - p))
    assert finite_group.h_G(p, G) / scale == pytest.approx(population, abs=5e-4)
    assert finite_group.h_G(p, G, "unbiased") / scale == pytest.approx(unbiased, abs=5e-4)
    assert G * finite_group.v_G(p, G) == pytest.approx(noise, abs=5e-5)
    assert finite_group.v_G(p, G, "unbiased") == pytest.approx(finite_group.v_G(p, G) * (G - 1) / G)


@pytest.mark.parametrize("std", ["population", "unbiased"])
def test_enumeration_of_all_groups(std):
    G, p = 5, 0.3
    values, weights = [], []
    for rewards in product([0, 1], repeat=G):
        rewards = np.array(rewards)
        deviation = rewards.std(ddof=0 if std == "population" else 1)
        advantages = (rewards - rewards.mean()) / deviation if deviation else np.zeros(G)
        values.append(np.mean(advantages * (rewards - p)))  # d log pi / d theta of an arm is reward - p
        weights.append(np.prod(np.where(rewards, p, 1 - p)))
    mean = np.dot(weights, values)
    assert finite_group.h_G(p, G, std) == pytest.approx(mean)
    assert finite_group.v_G(p, G, std) == pytest.approx(np.dot(weights, (np.array(values) - mean) ** 2))


@pytest.mark.parametrize(("n_good", "n_bad", "G"), [(2, 3, 3), (1, 4, 4)])
def test_many_arms_have_the_sums_of_one_logit_times_the_gain(n_good, n_bad, G):
    # All groups of G arms of a softmax policy with a logit per arm, equal within their class.
    p, gain = 0.35, 1 / n_good + 1 / n_bad
    policy = np.r_[np.full(n_good, p / n_good), np.full(n_bad, (1 - p) / n_bad)]
    good = np.arange(n_good + n_bad) < n_good
    mean = square = 0.0
    for arms in product(range(n_good + n_bad), repeat=G):
        rewards = good[list(arms)].astype(float)
        advantages = (rewards - rewards.mean()) / rewards.std() if rewards.std() else np.zeros(G)
        ascent = sum(A * (np.eye(n_good + n_bad)[arm] - policy) for A, arm in zip(advantages, arms, strict=True)) / G
        # d logit(p) = mean over good arms of their logits' change less the mean over bad arms
        change = ascent[good].mean() - ascent[~good].mean()
        weight = np.prod(policy[list(arms)])
        mean, square = mean + weight * change, square + weight * change**2
    assert mean == pytest.approx(gain * float(finite_group.h_G(p, G)))
    assert square - mean**2 == pytest.approx(gain**2 * float(finite_group.v_G(p, G)))


@given(st.integers(2, 300), st.floats(1e-9, 1), st.sampled_from(finite_group.STDS))
@settings(deadline=None)
def test_success_and_failure_are_alike(G, p, std):
    for of in (finite_group.h_G, finite_group.v_G):
        assert of(p, G, std) == pytest.approx(float(of(1 - p, G, std)), rel=1e-9, abs=1e-13)


@given(st.integers(2, 300), st.floats(0, 1, allow_subnormal=False).filter(lambda p: p == 0 or p > 1e-200))
@settings(deadline=None)
def test_bounds_and_the_two_stds(G, p):
    drift = float(finite_group.h_G(p, G))
    assert -1e-15 <= drift <= np.sqrt(p * (1 - p)) + 1e-12  # Jensen: E sqrt(k(G-k)) <= sqrt(E k E(G-k))
    assert finite_group.h_G(p, G, "unbiased") == pytest.approx(drift * np.sqrt((G - 1) / G))
    assert drift <= float(finite_group.h_G(p, G + 1)) + 1e-12  # larger groups drive more


@given(st.floats(0.05, 0.95))
@settings(max_examples=30, deadline=None)
def test_large_groups_approach_the_mean_field_as_one_over_G(p):
    # delta method: sqrt(x(1-x)) has the second derivative -1/(4 (x(1-x))^(3/2)), k/G the variance p(1-p)/G
    scale = np.sqrt(p * (1 - p))
    for G in (4000, 16000):
        assert G * (scale - float(finite_group.h_G(p, G))) == pytest.approx(1 / (8 * scale), rel=0.02)


@pytest.mark.parametrize("G", [4, 1000, 3000])
@pytest.mark.parametrize("p", [1e-6, 0.01, 0.3, 0.5, 0.97])
def test_large_groups_to_many_digits(G, p):
    with mp.workdps(40):
        exact, value = mp.mpf(p), [mp.sqrt(k * (G - k)) / G for k in range(G + 1)]
        weight = [exact**k * (1 - exact) ** (G - k) * mp.binomial(G, k) for k in range(G + 1)]
        drift = mp.fsum(w * x for w, x in zip(weight, value, strict=True))
        noise = mp.fsum(w * (x - drift) ** 2 for w, x in zip(weight, value, strict=True))
        slope = mp.fsum(w * x * (k - G * exact) for k, (w, x) in enumerate(zip(weight, value, strict=True)))
        slope /= exact * (1 - exact)
    assert finite_group.h_G(p, G) == pytest.approx(float(drift), rel=1e-12)
    assert finite_group.v_G(p, G) == pytest.approx(float(noise), rel=1e-10)
    assert finite_group.h_G_slope(p, G) == pytest.approx(float(slope), rel=1e-10, abs=1e-13)


def test_noise_at_one_half_falls_as_the_square_of_G():
    # There the slope of sqrt(x(1-x)) vanishes; its second derivative -2 gives 2 (p(1-p)/G)^2.
    for G in (500, 2000):
        assert G**2 * finite_group.v_G(0.5, G) == pytest.approx(1 / 8, rel=10 / G)


@given(st.integers(2, 200), st.floats(0.01, 0.99), st.sampled_from(finite_group.STDS))
@settings(deadline=None)
def test_slope_against_differences(G, p, std):
    step = 1e-4 * p * (1 - p)
    difference = finite_group.h_G(p + step, G, std) - finite_group.h_G(p - step, G, std)
    assert finite_group.h_G_slope(p, G, std) == pytest.approx(float(difference) / (2 * step), rel=1e-5, abs=1e-6)


def test_limits_and_shape():
    p = np.array([0.2, 0.5, 0.9])
    assert finite_group.h_G(p, 20_000) == pytest.approx(np.sqrt(p * (1 - p)), rel=1e-3)
    assert 20_000 * finite_group.v_G(p, 20_000) == pytest.approx((1 - 2 * p) ** 2 / 4, rel=5e-3, abs=1e-4)
    assert finite_group.h_G([0.0, 1.0, 2.3e-308], 4) == pytest.approx([0, 0, 0], abs=1e-300)


@pytest.mark.parametrize("call", [(1.1, 4), (0.5, 1), (0.5, 2.5), (0.5, 4, "sample")])
def test_domain(call):
    with pytest.raises(ValueError, match=r"found .* expected"):
        finite_group.h_G(*call)
