"""Power of the tests on the group size: against simulation, closed forms and the study's own config."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats
from simulated import CONFIG
from statsmodels.stats.power import TTestIndPower

from grpo_dynamics.analysis.group_means import compare_means
from grpo_dynamics.analysis.group_scatter import Scatter, variance_ratio
from grpo_dynamics.analysis.power import (
    equivalence_power,
    minutes,
    outside_power,
    power_table,
    variance_ratio_power,
)

ALPHA, MARGIN = 0.05, 0.05
POWER = CONFIG["power"]


@pytest.mark.parametrize(
    ("sd_low", "sd_high", "n", "difference"), [(0.0016, 0.025, 4, 0.0), (0.02, 0.02, 4, 0.02), (0.01, 0.03, 6, 0.08)]
)
def test_powers_of_the_studys_own_tests(sd_low, sd_high, n, difference):
    rng = np.random.default_rng(0)
    trials = 1000
    equivalent = outside = 0
    for _ in range(trials):
        found = compare_means(rng.normal(0, sd_low, n), rng.normal(difference, sd_high, n), MARGIN, ALPHA)
        equivalent += found["p_equivalence"] < ALPHA
        outside += found["p_different"] < ALPHA
    for share, power in (
        (equivalent / trials, equivalence_power(sd_low, sd_high, n, MARGIN, ALPHA, difference)),
        (outside / trials, outside_power(sd_low, sd_high, n, MARGIN, ALPHA, difference)),
    ):
        assert share == pytest.approx(power, abs=4 * np.sqrt(0.25 / trials))


def test_powers_of_many_runs_are_those_of_normal_tests():
    """sd and n such that the standard error is 0.02: TOST's power is 2 Phi(0.05/0.02 - 1.645) - 1 at 0."""
    n = 20_000
    sd = 0.02 * np.sqrt(n / 2)
    z = stats.norm.ppf(1 - ALPHA)
    tost = 2 * stats.norm.cdf(MARGIN / 0.02 - z) - 1
    assert equivalence_power(sd, sd, n, MARGIN, ALPHA) == pytest.approx(tost, abs=1e-3)
    edge = stats.norm.cdf((0.1 - MARGIN) / 0.02 - z)
    assert outside_power(sd, sd, n, MARGIN, ALPHA, 0.1) == pytest.approx(edge, abs=1e-3)


def test_outside_no_margin_is_the_t_test():
    """statsmodels' power of the pooled t-test, from which Welch's differs little at equal variances."""
    expected = TTestIndPower().power(effect_size=1.5, nobs1=12, alpha=2 * ALPHA)  # no margin leaves two sides
    assert outside_power(1.0, 1.0, 12, 0.0, ALPHA, 1.5) == pytest.approx(expected, abs=0.005)


def test_sizes_of_the_tests():
    assert variance_ratio_power(1.0, 3, 2, ALPHA) == pytest.approx(ALPHA)
    assert equivalence_power(0.01, 0.01, 5, MARGIN, ALPHA, difference=MARGIN) <= ALPHA + 0.003
    assert outside_power(0.01, 0.01, 5, MARGIN, ALPHA, difference=MARGIN) <= ALPHA + 0.003


def test_variance_ratio_power_against_simulation():
    """Of the ledger's own test: three models, four runs each, a true ratio of 4."""
    rng = np.random.default_rng(0)
    n, models, trials = 4, 3, 2000
    found = 0
    for _ in range(trials):
        low, high = 4 * rng.chisquare(n - 1, models) / (n - 1), rng.chisquare(n - 1, models) / (n - 1)
        pairs = [(Scatter(a, 0.0, n - 1), Scatter(b, 0.0, n - 1)) for a, b in zip(low, high, strict=True)]
        found += variance_ratio(pairs, ALPHA)["p"] < ALPHA
    power = variance_ratio_power(4.0, n, models, ALPHA)
    assert power == pytest.approx(found / trials, abs=4 * np.sqrt(0.25 / trials))
    assert variance_ratio_power(0.25, n, models, ALPHA) == pytest.approx(power)
    # With one model it is the F-test on (n - 1, n - 1).
    f = stats.f(n - 1, n - 1)
    assert variance_ratio_power(4.0, n, 1, ALPHA) == pytest.approx(f.sf(f.ppf(0.975) / 4) + f.cdf(f.ppf(0.025) / 4))


@given(some.floats(0.005, 0.05), some.floats(0.005, 0.05), some.integers(2, 10))
def test_powers_grow_with_the_runs_and_know_no_sides(sd_low, sd_high, n):
    power = equivalence_power(sd_low, sd_high, n, MARGIN, ALPHA)
    assert 0 <= power <= equivalence_power(sd_low, sd_high, n + 1, MARGIN, ALPHA) + 1e-3
    assert power == pytest.approx(equivalence_power(sd_high, sd_low, n, MARGIN, ALPHA))


@pytest.mark.parametrize(("values", "named"), [((0, 1, 3), "sd_low"), ((1, -1, 3), "sd_high"), ((1, 1, 1), "n")])
def test_a_wrong_input_is_named(values, named):
    with pytest.raises(ValueError, match=f"^{named}: found"):
        equivalence_power(*values, MARGIN, ALPHA)


def test_cost():
    cost = {"run": 2.0, "small_run": 0.5, "evaluation": 0.25, "fixed": 30.0, "cores": 2, "limit": 45}
    # 30 fixed, and per seed 3 x 2 runs of 2.25 and 3 small ones of 0.5, on two cores.
    assert minutes(4, cost, 3, 2, 3) == pytest.approx((30 + 4 * (13.5 + 1.5)) / 2)


def test_the_table_gives_the_smallest_number_that_reaches_the_target():
    table = power_table(POWER, MARGIN, ALPHA, 3, 2, 3)
    assert len(table) == len(POWER["seeds"]) * 13
    for _, rows in table.groupby(["question", "case"]):
        assert rows["power"].is_monotonic_increasing
        reached = rows.loc[rows["power"] >= POWER["target"], "seeds"]
        if reached.empty:
            assert rows["seeds_needed"].isna().all()
        else:
            assert (rows["seeds_needed"] == reached.min()).all()
    assert (table["within_limit"] == (table["minutes"] <= POWER["cost"]["limit"])).all()


def test_the_studys_number_of_seeds_is_the_smallest_for_the_noisiest_model_and_the_largest_within_the_limit():
    table = power_table(POWER, CONFIG["analysis"]["equivalence_margin"], CONFIG["analysis"]["alpha"], 3, 2, 3)
    seeds = len(CONFIG["seeds"])
    noisiest = table[table["question"].str.endswith("_equivalent") & (table["case"] == "noisiest model")]
    assert (noisiest["seeds_needed"] == seeds).all()
    assert table.loc[table["within_limit"], "seeds"].max() == seeds
