"""Whether the rewards of a log differ at all, whether they can be binary, and what the diagnostics make of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from runlog_samples import own_rows, read_text, state
from simulated import OPTIONS, THRESHOLDS

from grpo_dynamics.analysis.diagnosis import diagnose_run


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows)


def diagnosed(run):
    found = diagnose_run(run.table, run.G, run.reward_range, OPTIONS, THRESHOLDS, run.not_binary)
    return {one.diagnostic: one for one in found}


def verl(means, low, high):
    return lines(
        {"step": step, "critic/score/mean": mean, "critic/score/min": least, "critic/score/max": most}
        for step, (mean, least, most) in enumerate(zip(means, low, high, strict=True), 1)
    )


def test_the_extremes_of_verl_tell_whether_rewards_differ(tmp_path):
    (run,) = read_text(tmp_path, verl([-0.5, 0.2, 2.0], [-0.5, -1.0, 2.0], [-0.5, 1.0, 2.0]))
    assert run.table["any_spread"].tolist() == [0, 1, 0]
    assert {one.column: one.key for one in run.mapping}["any_spread"] == "critic/score/max, critic/score/min"
    assert run.ignored == ()


def test_wandbs_extremes_of_a_bin_are_none_of_the_rewards(tmp_path):
    rows = [{"step": n, "reward": r, "reward__MIN": r, "reward__MAX": r} for n, r in enumerate([-0.5, 0.2, 2.0], 1)]
    assert read_text(tmp_path, lines(rows))[0].table["any_spread"].isna().all()


def test_a_mean_at_a_bound_of_the_range_has_no_spread(tmp_path):
    rewards = [0.0, 0.25, 1.0]
    (run,) = read_text(tmp_path, own_rows(range(1, 4), rewards))
    assert run.table["any_spread"].tolist() == [0, 1, 0]
    (run,) = read_text(tmp_path, own_rows(range(1, 4), rewards), reward_range=(-1, 1))
    assert run.table["any_spread"].tolist() == [1, 1, 0]
    (run,) = read_text(tmp_path, own_rows(range(1, 4), [-0.5, 0.25, 1.5]))  # the range is not known
    assert run.table["any_spread"].isna().all()


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.7, -2.5])
def test_a_constant_reward_is_degenerate(tmp_path, reward):
    (run,) = read_text(tmp_path, own_rows(range(1, 41), [reward] * 40))
    one = diagnosed(run)["signal_rows"]
    assert (one.verdict, one.value, one.onset) == ("critical", 0, 1)
    (run,) = read_text(tmp_path, own_rows(range(1, 41), [0.5, 0.25] * 20))
    assert diagnosed(run)["signal_rows"].verdict == "ok"


def graded(rng, G, collapsed=None, decimals=16, binary=False):
    """TRL rows of 8 groups; graded rewards around 0.4 scatter by 0.05."""
    rows = []
    for step in range(1, 61):
        rewards = rng.binomial(1, 0.4, (8, G)) if binary else 0.4 + 0.05 * rng.normal(size=(8, G))
        row = {"step": step, "reward": round(float(rewards.mean()), decimals), "rewards/f": float(rewards.mean())}
        row["reward_std"] = float(rewards.std(axis=1, ddof=1).mean())
        same = float((np.ptp(rewards, axis=1) == 0).mean())
        rows.append(row | {"completion_length": 9.0} | ({"frac_reward_zero_std": same} if collapsed else {}))
    return state(rows)


@pytest.mark.parametrize("G", [2, 8])
@pytest.mark.parametrize("decimals", [3, 16])
@pytest.mark.parametrize("collapsed", [True, False])
def test_binary_rewards_may_be_binary(tmp_path, G, decimals, collapsed):
    document = graded(np.random.default_rng(0), G, collapsed, decimals, binary=True)
    assert read_text(tmp_path, document, group_size=G)[0].not_binary == ""


def test_graded_rewards_are_not_judged_by_what_chance_gives_binary_ones(tmp_path):
    (run,) = read_text(tmp_path, graded(np.random.default_rng(0), 8, collapsed=True), group_size=8)
    assert "spread within groups is 0.04" in run.not_binary and "0.331 or more" in run.not_binary  # sqrt(7)/8
    found = diagnosed(run)
    for name in ("signal_over_chance", "spread_over_chance"):
        assert found[name].verdict == "not assessable" and "not binary" in found[name].reason
    (run,) = read_text(tmp_path, graded(np.random.default_rng(0), 8), group_size=8)
    assert run.not_binary == "its means are no shares of one number of completions"


def test_a_sum_of_several_rewards_is_not_binary(tmp_path):
    rows = [
        {"step": step, "reward": 0.5 * (a + b), "rewards/a/mean": a, "rewards/b/mean": b, "rewards/b/std": 0.1}
        for step, a, b in [(1, 0.25, 0.5), (2, 0.5, 0.75), (3, 0.5, 0.25)]
    ]
    assert read_text(tmp_path, state(rows))[0].not_binary == "it is the sum of 2 rewards"
    shown = [row | {"reward": row["rewards/a/mean"]} for row in rows]  # the other is only logged
    assert read_text(tmp_path, state(shown))[0].not_binary == ""
    off = [row | {"reward": row["rewards/a/mean"] / 2, "rewards/b/mean": 0.0} for row in rows]
    assert read_text(tmp_path, state(off))[0].not_binary == ""


def test_a_reward_beyond_0_to_1_is_not_binary(tmp_path):
    assert read_text(tmp_path, own_rows(range(1, 4), [-1.0, 0.2, 0.5]))[0].not_binary == "its range is not 0 to 1"
