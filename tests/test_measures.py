"""The instrumented quantities against values computed by hand."""

import math

import pytest
import torch

from grpo_dynamics.training.measures import TokenStatistics, group_statistics


def test_group_statistics_of_two_groups_by_hand():
    # Groups 1,0,0,0 (std sqrt(3)/4, population) and 1,1,1,1 (collapsed).
    rewards = torch.tensor([1.0, 0, 0, 0, 1, 1, 1, 1])
    advantages = torch.tensor([1.5, -0.5, -0.5, -0.5, 0, 0, 0, 0])
    found = group_statistics(rewards, advantages, G=4)
    assert found["reward"] == pytest.approx(5 / 8)
    assert found["groups"] == 2
    assert found["reward_std"] == pytest.approx(math.sqrt(3) / 8)
    assert found["reward_variance"] == pytest.approx(3 / 32)
    assert found["advantage_variance"] == pytest.approx((1.5**2 + 3 * 0.5**2) / 8)
    assert found["collapsed_share"] == 0.5


def test_group_statistics_differ_from_the_pooled_spread():
    # All spread is between the groups: pooled std 0.5, within-group std 0.
    rewards = torch.tensor([0.0, 0, 1, 1])
    found = group_statistics(rewards, torch.zeros(4), G=2)
    assert found["reward_std"] == 0
    assert found["collapsed_share"] == 1


def test_group_statistics_leave_unscored_completions_out():
    rewards = torch.tensor([1.0, float("nan"), 0, 1])
    found = group_statistics(rewards, torch.zeros(4), G=2)
    assert found["reward"] == pytest.approx(2 / 3)
    assert found["reward_std"] == pytest.approx(0.25)
    assert found["collapsed_share"] == 0.5


def test_token_statistics_by_hand():
    # One completion of two tokens with ratios 2 and 1, one of a single token with ratio 1/2; the last cell is padding.
    logps = torch.log(torch.tensor([[0.5, 0.5], [0.2, 0.9]]))
    old = torch.log(torch.tensor([[0.25, 0.5], [0.4, 0.1]]))
    reference = torch.log(torch.tensor([[0.5, 0.25], [0.2, 0.9]]))
    statistics = TokenStatistics(clip_epsilon=0.2)
    statistics.add(
        logps,
        old,
        reference,
        entropies=torch.tensor([[1.0, 2.0], [3.0, 99.0]]),
        advantages=torch.tensor([1.0, -1.0]),
        mask=torch.tensor([[1, 1], [1, 0]]),
    )
    found = statistics.means()
    assert found["tokens"] == 3
    assert found["ratio_min"] == pytest.approx(0.5)
    assert found["ratio_max"] == pytest.approx(2.0)
    assert found["ratio_mean"] == pytest.approx(3.5 / 3)
    assert found["entropy"] == pytest.approx(2.0)
    # k3 at pi_ref/pi = 1/2 is 1/2 - log(1/2) - 1; zero where they agree.
    assert found["kl"] == pytest.approx((0.5 + math.log(2) - 1) / 3)
    # Ratio 2 with a positive advantage and 1/2 with a negative one are clipped; a ratio of 1 is not.
    assert found["clip_high"] == pytest.approx(1 / 3)
    assert found["clip_low"] == pytest.approx(1 / 3)


def test_clipping_counts_only_ratios_that_the_advantage_pushes_outwards():
    statistics = TokenStatistics(clip_epsilon=0.2)
    zero = torch.zeros(2, 1)
    statistics.add(
        torch.log(torch.tensor([[2.0], [0.5]])), zero, zero, zero, torch.tensor([-1.0, 1.0]), torch.ones(2, 1)
    )
    found = statistics.means()
    assert (found["clip_low"], found["clip_high"]) == (0, 0)


def test_micro_batches_add_up_to_the_whole_batch():
    generator = torch.Generator().manual_seed(0)
    parts = [torch.rand(8, 5, generator=generator) for _ in range(4)]
    advantages = torch.randn(8, generator=generator)
    mask = (torch.rand(8, 5, generator=generator) < 0.7).long()
    whole, split = TokenStatistics(0.2), TokenStatistics(0.2)
    whole.add(*parts, advantages, mask)
    for rows in (slice(0, 3), slice(3, 8)):
        split.add(*(part[rows] for part in parts), advantages[rows], mask[rows])
    assert split.means() == pytest.approx(whole.means())
