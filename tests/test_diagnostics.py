"""Diagnostics: exact expectations, each fires on its own failure and is silent on the others and on healthy runs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.signal import lfilter
from simulated import OPTIONS, THRESHOLDS, run_log

from grpo_dynamics.analysis.diagnosis import NUMBERS, SYMPTOMS, diagnose, diagnose_run, judge, primary
from grpo_dynamics.analysis.diagnostics import collapse_expected, easy_or_hard
from grpo_dynamics.analysis.onset import fall, first_beyond, running
from grpo_dynamics.analysis.series import as_own_log
from grpo_dynamics.analysis.subject import Number, change, ratio_of_means, shift
from grpo_dynamics.analysis.tables import DIAGNOSTICS, FIRED
from grpo_dynamics.tables import check

GROUPS = ["decoupling", "degeneracy", "concentration", "instability"]


def fired(run: pd.DataFrame) -> set[str]:
    table = check(diagnose(run, OPTIONS, THRESHOLDS), DIAGNOSTICS)
    return set(table.loc[table["verdict"].isin(FIRED), "group"])


def diagnosed(run: pd.DataFrame, **columns) -> dict:
    """Diagnoses by name, with columns of the table replaced."""
    table = as_own_log(run).assign(**columns)
    found = diagnose_run(table, int(run["G"].iloc[0]), (0.0, 1.0), OPTIONS, THRESHOLDS)
    return {one.diagnostic: one for one in found}


@pytest.mark.parametrize(("failure", "G", "K_ref"), list(product(GROUPS, [4, 16], [1, 4])))
def test_each_failure_fires_its_own_diagnostic_only(failure, G, K_ref):
    assert fired(run_log(G=G, K_ref=K_ref, failure=failure)) == {failure}


@pytest.mark.parametrize("G", [4, 16])
@pytest.mark.parametrize("seed", range(4))
def test_healthy_runs_are_silent(G, seed):
    assert fired(run_log(G=G, seed=seed)) == set()


def test_collapse_expectation_by_enumeration():
    for G, p in product([2, 4], [0.1, 0.5]):
        exact = sum(
            np.prod([p if x else 1 - p for x in group]) for group in product([0, 1], repeat=G) if len(set(group)) == 1
        )
        assert collapse_expected(p, G) == pytest.approx(exact)


def test_binomial_groups_have_ratio_one():
    table = diagnose(run_log(steps=300), OPTIONS, THRESHOLDS).set_index("diagnostic")
    for name in ("signal_over_chance", "spread_over_chance"):
        assert table.loc[name, "low"] < 1 < table.loc[name, "high"]


def test_change_is_slope_times_duration():
    t = np.arange(0, 50, 5.0)
    number = change(t, 2 - 0.1 * t, 0.95)
    assert (number.value, number.low, number.high) == pytest.approx((-4.5, -4.5, -4.5))


def test_change_covers_with_autocorrelated_residuals():
    """Sen's own interval, made for independent residuals, covers about half of the time at r = 0.8."""
    rng, t = np.random.default_rng(0), np.arange(100.0)
    covered = sen = 0
    for _ in range(200):
        y = lfilter([1], [1, -0.8], rng.normal(0, 1, 200))[100:] + 0.05 * t
        number = change(t, y, 0.95)
        covered += number.low <= 0.05 * 99 <= number.high
        sen += np.prod(np.array(stats.theilslopes(y, t, alpha=0.95)[2:]) - 0.05) <= 0
    assert covered >= 160
    assert sen < 110


def test_change_of_independent_residuals_keeps_sens_interval():
    t = np.arange(20.0)
    y = 0.1 * t + np.tile([0.2, -0.2], 10)  # negative autocorrelation does not narrow
    low, high = np.array(stats.theilslopes(y, t, alpha=0.95)[2:]) * 19
    number = change(t, y, 0.95)
    assert (number.low, number.high) == pytest.approx((low, high))


def test_change_resists_an_outlier():
    t, y = np.arange(20.0), 0.1 * np.arange(20.0)
    y[7] = 1e3
    assert change(t, y, 0.95).value == pytest.approx(1.9)


def test_ratio_of_means_covers():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        number = ratio_of_means(rng.binomial(16, 0.3, 50) / 16, np.full(50, 0.6), 0.95)
        inside += number.low <= 0.5 <= number.high
    assert inside >= 182


def test_verdict_needs_the_whole_interval():
    assert judge(Number(3.0, 2.5, 3.5), 2.0, 4.0, "above") == ("warning", "")
    assert judge(Number(5.0, 4.5, 5.5), 2.0, 4.0, "above") == ("critical", "")
    assert judge(Number(3.0, 1.5, 4.5), 2.0, 4.0, "above") == ("ok", "")
    assert judge(Number(-0.2, -0.3, -0.1), -0.05, -0.2, "below") == ("warning", "")
    assert judge(Number(-0.4, -0.5, -0.3), -0.05, -0.2, "below") == ("critical", "")
    assert judge(Number(-0.2, -0.3, 0.0), -0.05, -0.2, "below") == ("ok", "")
    assert judge(Number(3.0, 2.5, 3.5, excuse="because"), 2.0, 4.0, "above") == ("ok", "because")
    assert judge(Number(missing="why"), 2.0, 4.0, "above") == ("not assessable", "why")
    assert judge(Number(3.0), 2.0, 4.0, "above") == ("not assessable", "no interval")


def test_ratio_is_not_assessable_at_refresh_interval_one():
    table = diagnose(run_log(), OPTIONS, THRESHOLDS).set_index("diagnostic")
    assert table.loc["ratio_log_growth", "verdict"] == "not assessable"
    assert "each batch is used for one step" in table.loc["ratio_log_growth", "reason"]
    table = diagnose(run_log(K_ref=4), OPTIONS, THRESHOLDS).set_index("diagnostic")
    assert table.loc["ratio_log_growth", "verdict"] == "ok"


def test_a_fall_of_both_rewards_is_not_decoupling():
    run = run_log(failure="decoupling")
    late = run["step"] > 75
    run.loc[late, "reward"] = 0.8 - 0.006 * (run.loc[late, "step"] - 75)
    table = diagnose(run, OPTIONS, THRESHOLDS).set_index("diagnostic")
    assert table.loc["heldout_fall", "verdict"] == "ok"
    assert "fell with it" in table.loc["heldout_fall", "reason"]


def test_gains_on_different_scales_are_not_compared():
    table = as_own_log(run_log()).assign(heldout_reward=np.linspace(0.2, 0.22, 150))
    own = diagnose_run(table, 4, (0.0, 1.0), OPTIONS, THRESHOLDS)
    scaled = diagnose_run(table.assign(reward=3 * table["reward"]), 4, (0.0, 3.0), OPTIONS, THRESHOLDS)
    verdicts = [{one.diagnostic: one.verdict for one in found}["heldout_gain_share"] for found in (own, scaled)]
    assert verdicts == ["warning", "not assessable"]


@pytest.mark.parametrize("factor", [100.0, 30.0])
def test_a_share_and_a_percentage_are_not_compared(factor):
    """A held-out reward that follows the train reward, either of the two as a percentage (or in points of 30)."""
    run = run_log(steps=300, w0=0.2, zeta=2.0)
    heldout = run["reward"].rolling(20, min_periods=1).mean()
    for reward, evaluation in ((run["reward"], factor * heldout), (factor * run["reward"], heldout)):
        table = as_own_log(run).assign(reward=reward, heldout_reward=evaluation)
        limits = (0.0, 1.0) if reward.max() <= 1 else (reward.min(), reward.max())
        found = {one.diagnostic: one for one in diagnose_run(table, 4, limits, OPTIONS, THRESHOLDS)}
        for name in ("rate_ratio", "heldout_gain_share"):
            assert found[name].verdict == "not assessable" and "scales may differ" in found[name].reason
        assert found["heldout_fall"].verdict == "ok"
    both = as_own_log(run).assign(reward=factor * run["reward"], heldout_reward=factor * heldout)
    limits = (both["reward"].min(), both["reward"].max())
    found = {one.diagnostic: one for one in diagnose_run(both, 4, limits, OPTIONS, THRESHOLDS)}
    assert found["heldout_gain_share"].low < 1 < found["heldout_gain_share"].high


def test_evaluations_that_begin_after_the_rise_are_not_compared_with_it():
    run, step = run_log(steps=400, completions=512), np.arange(1, 401)
    p = 0.1 + 0.6 / (1 + np.exp(-(step - 140) / 15))
    rng = np.random.default_rng(5)
    heldout = rng.binomial(1319, p) / 1319
    late = np.where((step % 10 == 0) & (step >= 200), heldout, np.nan)
    found = diagnosed(run, reward=rng.binomial(512, p) / 512, heldout_reward=late)["heldout_gain_share"]
    assert (found.verdict, "while the held-out reward is measured" in found.reason) == ("not assessable", True)
    early = np.where(step % 10 == 0, heldout, np.nan)
    found = diagnosed(run, reward=rng.binomial(512, p) / 512, heldout_reward=early)["heldout_gain_share"]
    assert found.low < 1 < found.high


def test_a_slower_heldout_reward_has_a_rate_ratio():
    run = run_log(steps=300, w0=0.2, zeta=2.0)
    slow = run_log(steps=300, w0=0.06, zeta=2.0)
    run["heldout_reward"] = slow["heldout_reward"]
    row = diagnose(run, OPTIONS, THRESHOLDS).set_index("diagnostic").loc["rate_ratio"]
    assert row["low"] < 0.2 / 0.06 < row["high"]
    assert row["verdict"] == "warning"


def test_short_runs_are_not_assessable():
    table = diagnose(run_log(steps=6), OPTIONS, THRESHOLDS)
    assert len(table) == len(NUMBERS)
    assert not table["verdict"].isin(FIRED).any()
    assert (table.loc[table["group"] == "decoupling", "verdict"] == "not assessable").all()


def test_onsets_lie_where_the_failures_begin():
    """Simulated failures begin at a third of the run and grow slowly (decoupling), or grow from its start on."""
    for failure, low, high in (("decoupling", 60, 100), ("degeneracy", 40, 65), ("concentration", 5, 60)):
        first = primary(list(diagnosed(run_log(failure=failure)).values()))
        assert (first.group, low <= first.onset <= high) == (failure, True), first


def test_evidence_and_advice_come_with_what_fires():
    for one in diagnosed(run_log(failure="decoupling")).values():
        assert bool(one.remedy) == bool(one.confused_with) == one.fired
        assert bool(one.evidence) == (one.verdict != "not assessable")
        assert bool(one.reason) == (one.verdict == "not assessable") or one.verdict == "ok"
        if one.fired:
            assert f"{one.value:.3g}" in one.evidence


def test_missing_columns_are_not_assessable_and_never_ok():
    run = run_log()
    empty = dict.fromkeys(
        [
            "any_spread",
            "reward_std",
            "collapsed_share",
            "entropy",
            "kl",
            "grad_norm",
            "ratio_max",
            "heldout_reward",
            "truncated_share",
        ],
        np.nan,
    )
    found = diagnosed(run, **empty)
    left = {name for name, one in found.items() if one.verdict != "not assessable"}
    assert left == {"reward_fall", "non_finite_share"}
    assert all(one.reason for name, one in found.items() if name not in left)


def test_prompts_that_are_always_too_hard_or_too_easy_are_told_apart():
    rng = np.random.default_rng(0)
    for p, kind in ((0.01, "hard"), (0.99, "easy")):
        k = rng.binomial(4, p, size=(120, 16))
        found = diagnosed(
            run_log(steps=120),
            reward=k.mean(axis=1) / 4, collapsed_share=np.isin(k, [0, 4]).mean(axis=1), heldout_reward=np.nan,
        )  # fmt: skip
        assert found["signal_share"].verdict == "critical"
        assert f"mostly {kind}" in found["signal_share"].evidence
        assert found["signal_share"].onset == 1


def test_a_run_that_has_learned_its_prompts_is_not_degenerate():
    found = diagnosed(run_log(steps=300, R_0=0.3, R_inf=0.97))
    assert found["signal_share"].high < THRESHOLDS["signal_share"]["warning"]
    assert (found["signal_share"].verdict, "was learned" in found["signal_share"].reason) == ("ok", True)


def test_easy_or_hard_by_enumeration():
    """Shares of all-right, all-wrong and mixed groups, for every mean that the mixed ones can have."""
    for right, mixed, k in product([0.1, 0.6], [0.05, 0.3], [1, 2, 3]):
        text = easy_or_hard(right + mixed * k / 4, mixed, 4)
        low, high = (float(part) for part in text.split(": ")[1].split(" %")[0].split(" to "))
        assert low - 0.51 <= 100 * right / (1 - mixed) <= high + 0.51


def test_rows_without_any_spread_tell_a_degenerate_run_whose_groups_are_not_logged():
    """G = 2 and two prompts a step at p = 0.4: a row has no spread with probability (p^2 + (1 - p)^2)^2 = 0.27."""
    k = np.random.default_rng(1).binomial(2, 0.4, size=(300, 2))
    found = diagnosed(
        run_log(G=2, steps=300), reward=k.mean(axis=1) / 2, any_spread=(k == 1).any(axis=1), collapsed_share=np.nan,
        reward_std=np.nan, heldout_reward=np.nan,
    )  # fmt: skip
    one = found["signal_rows"]
    assert one.low < 1 - (0.4**2 + 0.6**2) ** 2 < one.high
    assert found["signal_share"].verdict == "not assessable"
    few = diagnosed(run_log(G=2, steps=300), reward=0.5, any_spread=np.arange(300) % 2, collapsed_share=np.nan)
    assert (few["signal_rows"].verdict, few["signal_rows"].value) == ("warning", pytest.approx(0.5))
    assert primary(list(few.values())).group == "degeneracy"


def test_consequences_of_a_concentrated_policy_are_explained_by_it():
    run = run_log(steps=120)
    t = np.arange(120)
    p = np.where(t < 30, 0.3, 0.0)
    gone = {
        "reward": p, "collapsed_share": np.where(t < 30, 0.3, 1.0), "reward_std": p, "heldout_reward": np.nan,
        "entropy": 0.1 * np.exp(-np.minimum(t, 60) / 12),
    }  # fmt: skip
    found = diagnosed(run, **gone)
    assert primary(list(found.values())).group == "concentration"
    assert (found["reward_fall"].verdict, found["signal_share"].verdict) == ("ok", "ok")
    assert "concentrat" in found["reward_fall"].reason
    far = diagnosed(run, **gone, kl=np.where(t < 30, 0.1, 6.0))
    assert primary(list(far.values())).group == "instability"
    assert "left its reference" in far["entropy_lost"].reason


def test_a_fall_of_a_reward_of_unknown_range_is_a_share_of_its_level():
    """2.2 to 2.08 is a sag of 5 %, though most of what was seen of the reward's range."""
    step = np.arange(1, 401)
    y = 2.2 - 0.2 * np.exp(-step / 40) - 0.12 / (1 + np.exp(-(step - 320) / 10))
    y = y + np.random.default_rng(0).normal(0, 0.01, 400)

    def fallen(reward):
        table = as_own_log(run_log(steps=400)).assign(reward=reward)
        found = diagnose_run(table, 4, (reward.min(), reward.max()), OPTIONS, THRESHOLDS)
        return {one.diagnostic: one for one in found}["reward_fall"]

    sag = fallen(y)
    assert (sag.verdict, sag.low < 0.12 / 2.2 < sag.high) == ("ok", True)
    below = fallen(y - 2.1)
    assert (below.verdict, "over the lowest reward seen" in below.evidence) == ("critical", True)


def test_entropy_that_goes_after_the_rise_is_concentration():
    """Nothing is known of the groups; the reward has reached its plateau by step 100, the entropy goes from 150 on."""
    step = np.arange(1, 401)
    p = 0.2 + 0.4 * (1 - np.exp(-step / 25))
    noise = 1 + 0.05 * np.random.default_rng(0).normal(size=400)
    blind = {"collapsed_share": np.nan, "reward_std": np.nan, "heldout_reward": np.nan}
    blind["reward"] = np.random.default_rng(1).binomial(64, p) / 64
    gone = diagnosed(run_log(steps=400), entropy=np.exp(np.interp(step, [1, 150, 400], [0, -0.4, -5])) * noise, **blind)
    found = gone["entropy_lost"]
    assert (found.verdict, 150 < found.onset < 230) == ("critical", True)
    assert primary(list(gone.values())).group == "concentration"
    steady = diagnosed(run_log(steps=400), entropy=np.exp(-2 * (p - 0.2) / 0.4) * noise, **blind)["entropy_lost"]
    assert (steady.verdict, abs(steady.value) < 0.3) == ("ok", True)


def test_entropy_is_not_asked_for_after_a_rise_that_goes_on():
    rising = diagnosed(run_log(steps=100, w0=0.01))["entropy_lost"]
    assert (rising.verdict, "rises to the end" in rising.reason) == ("not assessable", True)


@pytest.mark.parametrize(("scale", "verdict"), [(0.008, "ok"), (0.8, "critical")])
def test_a_kl_that_grows_is_no_failure_while_it_is_small(scale, verdict):
    step = np.arange(1, 151)
    kl = scale * (0.01 + 1 / (1 + np.exp(-(step - 112) / 6))) * np.exp(np.random.default_rng(0).normal(0, 0.1, 150))
    one = diagnosed(run_log(), kl=kl)["kl_log_growth"]
    assert (one.verdict, one.high > THRESHOLDS["kl_log_growth"]["warning"]) == (verdict, True)
    assert ("still below 0.05 nats" in one.reason) == (verdict == "ok")


def test_a_far_policy_is_unstable_only_without_a_rise():
    far = {"kl": np.linspace(0, 6, 150)}
    rising = diagnosed(run_log(), **far)
    assert rising["kl_unrewarded"].reason == "the reward rises"
    assert (rising["kl_level"].verdict, primary(list(rising.values())).group) == ("critical", "kl")
    flat = diagnosed(run_log(R_0=0.1, R_inf=0.1), **far)
    assert (flat["kl_unrewarded"].verdict, primary(list(flat.values())).group) == ("critical", "instability")


def test_non_finite_rows_are_counted_and_come_first():
    bad = ["grad_norm" if row in (40, 41) else "" for row in range(150)]
    found = diagnosed(run_log(), non_finite=bad)
    one = found["non_finite_share"]
    assert (one.verdict, one.value, one.onset) == ("warning", pytest.approx(2 / 150), 41)
    assert "grad_norm" in one.evidence
    assert primary(list(found.values())).group == "non_finite"


def test_symptoms_alone_are_the_primary_diagnosis_only_without_a_cause():
    truncated = {"truncated_share": np.linspace(0, 0.9, 150)}
    assert primary(list(diagnosed(run_log(), **truncated).values())).group == "truncation"
    both = diagnosed(run_log(failure="decoupling"), **truncated)
    assert both["truncated_share"].fired and primary(list(both.values())).group not in SYMPTOMS


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_a_fall_is_a_share_of_the_best_level(scale):
    rng = np.random.default_rng(3)
    y = scale * (np.r_[np.linspace(0.1, 0.8, 60), np.full(60, 0.4)] + rng.normal(0, 0.02, 120))
    found = fall(y, 0.0, 0.95)
    assert found.low < 0.5 < found.high < 0.6
    assert 57 <= found.top <= 59
    assert found.since == 60


@pytest.mark.parametrize(
    ("rewards", "completions", "began"),
    [
        (np.where(np.arange(1, 41) >= 34, 0.4, 0.2 + 0.5 * (1 - np.exp(-np.arange(1, 41) / 4))), 1000, 34),
        (np.where(np.arange(1, 401) >= 151, 0.4, 0.6), 64, 151),
        (0.7 - 0.5 * np.maximum(np.arange(1, 401) - 385, 0) / 15, 2000, 386),  # the last sixth loses 0.06 on average
    ],
)
def test_a_fall_begins_where_the_plateau_ends_and_not_at_its_best_window(rewards, completions, began):
    rng = np.random.default_rng(0)
    runs = rng.binomial(completions, rewards, (100, len(rewards))) / completions
    since = np.array([fall(y, 0.0, 0.95).since + 1 for y in runs])
    assert np.quantile(np.abs(since - began), 0.9) <= 5


def test_the_train_reward_is_compared_with_its_level_just_before_the_fall():
    """It rises until step 90 and then falls by a third; the held-out reward stands at its plateau from step 10 on."""
    run, step = run_log(steps=150), np.arange(1, 151)
    rng = np.random.default_rng(0)
    heldout = np.where(step % 5 == 0, np.where(step > 90, 0.3, 0.6) + rng.normal(0, 0.01, 150), np.nan)
    found = diagnosed(run, reward=np.where(step > 90, 0.45, 0.2 + step / 200), heldout_reward=heldout)["heldout_fall"]
    assert (found.verdict, "fell with it" in found.reason) == ("ok", True)
    held = diagnosed(run, reward=0.2 + step / 200, heldout_reward=heldout)["heldout_fall"]
    assert (held.verdict, held.onset) == ("critical", 95)
    assert "a third of the way down from step 95 on" in held.evidence


def test_a_rise_with_noise_has_no_fall():
    rng = np.random.default_rng(4)
    falls = [fall(np.linspace(0.2, 0.8, 80) + rng.normal(0, 0.05, 80), 0.0, 0.95).low > 0 for _ in range(200)]
    assert sum(falls) <= 10


def test_a_flat_series_at_its_floor_has_no_fall():
    assert fall(np.zeros(20), 0.0, 0.95) is None


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=60), st.floats(0.1, 10))
def test_falls_do_not_depend_on_the_scale(values, scale):
    y = np.array(values)
    one, other = fall(y, -6.0, 0.95), fall(scale * y, -6.0 * scale, 0.95)
    assert one.value == pytest.approx(other.value, abs=1e-9)
    assert one.low <= one.value <= one.high


def test_running_mean_keeps_constants_and_first_beyond_finds_what_lasts():
    np.testing.assert_allclose(running(np.full(30, 2.5)), 2.5)
    step = np.arange(1.0, 9.0)
    assert first_beyond(step, np.array([0, 1, 1, 0, 0, 1, 1, 1], bool)) == 6
    assert first_beyond(step, np.array([0, 1, 1, 1, 0, 1, 1, 1], bool)) == 2
    assert first_beyond(step, np.array([1, 1, 0, 0, 0, 0, 0, 0], bool)) == 1
    assert np.isnan(first_beyond(step, np.zeros(8, bool)))


def test_shift_covers():
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        y = rng.normal(0, 1, 100) + np.where(np.arange(100) < 50, 0, 2.0)
        number = shift(y, 0.95, 0.2)
        inside += number.low <= 2 <= number.high
    assert inside >= 182
