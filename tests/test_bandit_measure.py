"""What is measured from the bandit's trajectories: thresholds, regimes, the slowest mode and the stiffness."""

import numpy as np
import pytest

from grpo_dynamics.bandit import measure
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.theory import lag, thresholds

BANDIT = Bandit(beta=1.0, p_ref=0.2)

# At mu = 0.9 and K_ref = 48 a faster mode changes sign in the first period, well below the onset of the slowest.
CELLS = [(schedule, mu, K_ref) for schedule in lag.SCHEDULES for mu, K_ref in ((0.0, 4), (0.9, 2), (0.5, 16))]


@pytest.mark.parametrize(("schedule", "mu", "K_ref"), [*CELLS, ("importance_corrected", 0.9, 48)])
def test_measured_thresholds_are_the_exact_ones(schedule, mu, K_ref):
    found = measure.thresholds(BANDIT, mu=mu, K_ref=K_ref, schedule=schedule, relative_width=2e-3)
    share = BANDIT.stale_share() if schedule == "importance_corrected" else 1.0
    exact = {"stability": thresholds.stability_threshold, "onset": thresholds.onset_threshold}
    for kind, function in exact.items():
        value, low, high = found[kind]
        expected = float(function(schedule, mu, K_ref, share))
        assert low < value < high and value / low < 1.03
        assert value == pytest.approx(expected, rel=0.01)
        assert low <= expected * (1 + 1e-6) and expected <= high * (1 + 1e-6)


def test_regimes_along_eta():
    K = BANDIT.stiffness()
    setting = {"mu": 0.5, "K_ref": 4, "schedule": "fixed_lag"}
    found = [measure.regime(BANDIT, eta=a / K, **setting) for a in (0.02, 0.1, 0.2)]
    assert found == ["overdamped", "underdamped", "unstable"]


@pytest.mark.parametrize("schedule", ["fixed_lag", "periodic"])
@pytest.mark.parametrize("a", [0.01, 0.1, 0.2])
def test_slowest_mode_is_the_leading_eigenvalue(schedule, a):
    rate, frequency = measure.slowest_mode(BANDIT, eta=a / BANDIT.stiffness(), mu=0.5, K_ref=3, schedule=schedule)
    expected = lag.slowest_mode(schedule, a, 0.5, 3)
    assert (rate, frequency) == pytest.approx(tuple(map(float, expected)), rel=2e-3)


def test_stiffness_is_the_same_by_three_ways():
    value, low, high = measure.stiffness_by_perturbation(BANDIT, groups_per_step=1, seeds=[], alpha=0.05)
    assert value == low == high == pytest.approx(BANDIT.stiffness(), rel=3e-4)
    assert BANDIT.stiffness_by_difference() == pytest.approx(BANDIT.stiffness(), rel=1e-8)
    finite = Bandit(1.0, 0.2, 8, "unbiased")
    value, low, high = measure.stiffness_by_perturbation(finite, groups_per_step=256, seeds=np.arange(300), alpha=0.01)
    assert low < finite.stiffness() < high and (high - low) / value < 0.05
    assert measure.stiffness_of_arms(BANDIT, n_good=2, n_bad=3) == pytest.approx(
        BANDIT.stiffness() * (1 / 2 + 1 / 3), rel=3e-4
    )


def test_a_bracket_needs_a_width():
    with pytest.raises(ValueError, match="relative_width: found 0"):
        measure.thresholds(BANDIT, mu=0, K_ref=1, schedule="periodic", relative_width=0)
