"""Exact drift and noise of finite groups."""

from itertools import product

import numpy as np
import pytest

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


def test_limits_and_shape():
    p = np.array([0.2, 0.5, 0.9])
    assert finite_group.h_G(p, 20_000) == pytest.approx(np.sqrt(p * (1 - p)), rel=1e-3)
    assert 20_000 * finite_group.v_G(p, 20_000) == pytest.approx((1 - 2 * p) ** 2 / 4, rel=5e-3, abs=1e-4)
    assert finite_group.h_G([0.0, 1.0], 4) == pytest.approx([0, 0])


def test_slope():
    p, step = np.array([0.1, 0.5, 0.8]), 1e-6
    for std in ("population", "unbiased"):
        difference = finite_group.h_G(p + step, 6, std) - finite_group.h_G(p - step, 6, std)
        assert finite_group.h_G_slope(p, 6, std) == pytest.approx(difference / (2 * step), abs=1e-8)


@pytest.mark.parametrize("call", [(1.1, 4), (0.5, 1), (0.5, 2.5), (0.5, 4, "sample")])
def test_domain(call):
    with pytest.raises(ValueError, match=r"found .* expected"):
        finite_group.h_G(*call)
