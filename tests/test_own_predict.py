"""What is predicted of one's own run: right thresholds and reach, a calibrated K that is the true one, honest gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated import CONFIG
from simulated_own import own_log, rewards

from grpo_dynamics.analysis.own_predict import predict
from grpo_dynamics.analysis.own_reach import SEARCHED
from grpo_dynamics.analysis.predict import Law, at_group_size
from grpo_dynamics.command import InputError
from grpo_dynamics.reports.findings import regime, standing
from grpo_dynamics.runlog.log import Mapped
from grpo_dynamics.theory import lag, oscillator, thresholds

OPTIONS = CONFIG["analysis"] | {"fit_replicates": 60}  # fewer, for speed
MU, ETA, K = 0.9, 1e-3, 1.5
A = ETA * K  # overdamped at mu = 0.9 and K_ref = 1


def run(a=A, steps=400, seed=0, completions=96, R_0=0.2, p_star=0.6, noise=True, **columns):
    """A run that follows the closed form, with eta = 0.001 and G = 8."""
    p = Law(a, MU, 1, R_0, p_star).reward(np.arange(float(steps)))
    y = np.random.default_rng(seed).binomial(completions, p) / completions if noise else p
    settings = {"mu": MU, "K_ref": 1}
    return own_log(y, G=8, settings=settings, **{"learning_rate": np.full(steps, ETA), **columns})


@pytest.fixture(scope="module")
def calibrated():
    return predict(OPTIONS, run(), eta=2 * ETA, other_etas=(0.5 * ETA,), other_Gs=(16,))


def of(forecast, schedule):
    return next(one for one in forecast.reaches if one.schedule == schedule)


def test_the_setting_by_hand():
    """theory.md section 1 at eta = 0.1, K = 0.13, mu = 0.5, K_ref = 2: a = 0.013, M = 0.776, C = 0.474."""
    found = predict(OPTIONS, eta=0.1, mu=0.5, K_ref=2, K=0.13, G=8, D=0.03)
    assert found.a.value == pytest.approx(0.013)
    assert found.w0 == pytest.approx(np.sqrt(0.013 / 0.776))
    assert found.zeta == pytest.approx(0.474 / (2 * np.sqrt(0.776 * 0.013)))
    assert found.regime == "overdamped"
    closed = of(found, "closed_form")
    assert closed.stability_a == pytest.approx(0.25)
    assert closed.stability_eta.value == pytest.approx(0.25 / 0.13)
    assert closed.stability_factor == pytest.approx(0.25 / 0.013)
    assert closed.stability_K_ref == 38  # (1 - mu) / a = 38.46
    assert closed.deviation == pytest.approx(np.sqrt(0.03 / (2 * 8 * 0.474 * 0.013)))
    assert of(found, "fixed_lag").deviation == pytest.approx(
        np.sqrt(lag.stationary_variance("fixed_lag", 0.013, 0.5, 2, 0.03 / 8))
    )
    assert np.isnan(found.K.low)  # given, without an interval
    assert np.isnan(closed.stability_eta.low)


@pytest.mark.parametrize("schedule", ["closed_form", "fixed_lag", "periodic"])
@pytest.mark.parametrize("kind", ["stability", "onset"])
def test_reach_is_the_last_value_below_the_threshold(schedule, kind):
    found = of(predict(OPTIONS, eta=0.1, mu=0.9, K_ref=2, K=0.015), schedule)

    def threshold(K_ref):
        if schedule == "closed_form":
            return getattr(oscillator, f"{kind}_threshold")(0.9, K_ref)
        return getattr(thresholds, f"{kind}_threshold")(schedule, 0.9, K_ref)

    assert getattr(found, f"{kind}_a") == pytest.approx(float(threshold(2)))
    most = getattr(found, f"{kind}_K_ref")
    allowed = threshold(np.arange(1, 400)) > 0.0015
    assert most == np.flatnonzero(~allowed)[0]
    assert np.all(allowed[: int(most)])


def test_a_tiny_step_has_no_largest_K_ref_and_a_huge_one_none_at_all():
    small = of(predict(OPTIONS, eta=1e-9, mu=0.5, K_ref=1, K=1e-3), "closed_form")
    assert small.stability_K_ref == np.inf
    assert small.searched == SEARCHED["closed_form"]
    large = predict(OPTIONS, eta=10.0, mu=0.5, K_ref=1, K=1.0)
    assert [one.stability_K_ref for one in large.reaches] == [0, 0, 0]
    assert {one.regime for one in large.reaches} == {large.regime} == {"unstable"}
    assert np.isnan(large.trajectories[0].plateau_start)
    seen = large.trajectories[0].reward
    assert np.all((seen[np.isfinite(seen)] >= 0) & (seen[np.isfinite(seen)] <= 1))


def test_without_a_log_the_trajectory_is_the_share_of_the_way():
    found = predict(OPTIONS, eta=ETA, mu=MU, K_ref=1, K=K)
    assert found.unit == "share of the way"
    one = found.trajectories[0]
    assert one.reward[0] == 0
    assert np.interp(one.plateau_start, found.t, one.reward) == pytest.approx(0.95, abs=1e-3)
    assert "importance_corrected" not in {one.schedule for one in found.reaches}
    assert any("Importance-corrected thresholds are not given" in text for text in found.caveats)


def test_calibration_finds_the_true_K(calibrated):
    assert calibrated.reason == ""
    assert calibrated.K.low <= K <= calibrated.K.high
    assert calibrated.K.value == pytest.approx(K, rel=0.15)
    assert calibrated.a.value == pytest.approx(2 * ETA * calibrated.K.value)
    known = calibrated.calibration
    assert known.p_star.low <= 0.6 <= known.p_star.high
    assert known.setting.eta == ETA
    closed = of(calibrated, "closed_form")
    assert closed.stability_eta.low == pytest.approx(closed.stability_a / calibrated.K.high)
    assert closed.stability_eta.low < closed.stability_eta.value < closed.stability_eta.high


def test_trajectories_are_the_closed_form_s(calibrated):
    """The setting asked for, the run's own, the others: time to 95 % and regime by the oscillator of each a."""
    found = calibrated.calibration.law
    etas = [one.setting.eta for one in calibrated.trajectories if not one.finite_group]
    assert etas == [2 * ETA, ETA, 0.5 * ETA]
    for one in calibrated.trajectories[:3]:
        a = calibrated.K.value * one.setting.eta
        expected = Law(a, MU, 1, found.R_0, found.p_star).reward(calibrated.t)
        np.testing.assert_allclose(one.reward, expected, atol=1e-9)
        assert one.regime == str(oscillator.regime(a, MU, 1))
    slow, fast = calibrated.trajectories[2], calibrated.trajectories[1]
    assert slow.plateau_start > 1.5 * fast.plateau_start


def test_another_group_size_is_the_study_s_finite_group_prediction(calibrated):
    one = calibrated.trajectories[3]
    assert (one.finite_group, one.setting.G) == (True, 16)
    found = calibrated.calibration.law
    expected = at_group_size(Law(2 * found.a, MU, 1, found.R_0, found.p_star), 8, 16)
    np.testing.assert_allclose(one.reward, expected.reward(calibrated.t), atol=1e-9)
    assert any("B3" in text for text in calibrated.caveats)


def test_importance_corrected_thresholds_use_the_run_s_share(calibrated):
    """a_stale / a of a bandit with this p*: below 1/2 the share is positive, above it negative."""
    low = of(predict(OPTIONS, run(R_0=0.05, p_star=0.3)), "importance_corrected")
    assert low.stability_a == pytest.approx(3.8)  # at K_ref = 1 nothing is stale
    assert low.onset_K_ref >= 1
    high = of(calibrated, "importance_corrected")
    assert high.stability_K_ref == np.inf  # a share below 0 does not lose stability at so small a step
    assert high.searched == 64


def test_an_anchor_that_cannot_hold_p_star_leaves_the_schedule_out():
    """From 0.2 to 0.95 at a large G the two-arm bandit's drift has an earlier zero: no share, no other group size."""
    found = predict(OPTIONS, replace(run(p_star=0.95), G=256), other_Gs=(64,))
    assert "importance_corrected" not in {one.schedule for one in found.reaches}
    assert [one.finite_group for one in found.trajectories] == [False]
    assert any(text.startswith("G = 64: no KL anchor") for text in found.caveats)


def test_graded_rewards_have_no_drift_of_binary_groups():
    found = predict(OPTIONS, replace(run(), not_binary="several functions add up"), other_Gs=(16,))
    assert "importance_corrected" not in {one.schedule for one in found.reaches}
    assert [one.finite_group for one in found.trajectories] == [False]
    assert any(
        text.startswith("G = 16: the drift of finite groups is that of binary rewards: several functions add up.")
        for text in found.caveats
    )
    assert any("Importance-corrected thresholds are not given: the share" in text for text in found.caveats)


def test_a_run_without_a_plateau_has_no_K_and_says_why():
    found = predict(OPTIONS, run(a=1e-4, steps=150))
    assert np.isnan(found.K.value)
    assert found.reason.startswith("K cannot be read from this run. The plateau is not reached")
    assert (found.regime, found.trajectories) == ("", ())
    closed = of(found, "closed_form")
    assert closed.stability_a == pytest.approx(0.1)  # thresholds of a need no K
    assert np.isnan(closed.stability_eta.value)
    assert np.isnan(closed.stability_K_ref)


def test_what_is_assumed_is_said():
    log = own_log(rewards(), learning_rate=np.full(150, ETA))
    found = predict(OPTIONS, log, K_ref=2)
    assert found.calibration.setting.K_ref == 2
    assert found.assumed == (
        "mu is not in the log: 0.9 is assumed.",
        "K_ref is not in the log: the run is taken to have had 2, as asked for.",
    )
    assert any("C15 and B4" in text for text in found.caveats)
    assert any("beta1" in text for text in found.caveats)
    assert any("mean age 0.5" in text for text in found.caveats)
    assert predict(OPTIONS, eta=1.0, K=0.1).assumed == (
        "mu = 0.9 is assumed: none was given.",
        "K_ref = 1 is assumed: none was given.",
    )


def test_what_the_log_states_is_taken():
    log = own_log(rewards(), settings={"eta": 5e-6, "mu": 0.5, "K_ref": 0.5, "loss_type": "grpo"}, G=4)
    found = predict(OPTIONS, log)
    assert found.setting == found.calibration.setting
    assert (found.setting.eta, found.setting.mu, found.setting.K_ref, found.setting.G) == (5e-6, 0.5, 1, 4)
    assert found.assumed == ("K_ref = 0.5 in the log is taken as 1.",)


def verl(log, **settings):
    """The same as verl logs it: its steps are rollouts."""
    return replace(log, mapping=(Mapped("reward", "critic/score/mean"),), settings={"mu": MU} | settings)


def every_fourth(**settings):
    """A run that follows the closed form at K_ref = 4, of whose steps every fourth is logged: at its own number."""
    p = Law(A, MU, 4, 0.2, 0.6).reward(np.arange(0.0, 1600, 4))
    y = np.random.default_rng(0).binomial(96, p) / 96
    common = {"learning_rate": np.full(400, ETA), "settings": {"mu": MU} | settings, "G": 8}
    return own_log(y, np.arange(1.0, 1601, 4), **common), own_log(y, **common)


def test_verl_s_rollouts_are_counted_in_optimiser_steps():
    """Rollouts 1, 2, 3, ... of four optimiser steps give what the steps 1, 5, 9, ... of another log give."""
    steps, rollouts = every_fourth(K_ref=4)
    expected, found = predict(OPTIONS, steps), predict(OPTIONS, verl(rollouts, K_ref=4.0))
    assert found.K.low <= K <= found.K.high
    assert found.K.value == pytest.approx(expected.K.value)
    assert (found.zeta, found.regime) == (pytest.approx(expected.zeta), expected.regime)
    assert found.trajectories[0].plateau_start == pytest.approx(expected.trajectories[0].plateau_start)
    np.testing.assert_allclose(found.calibration.t, np.arange(0.0, 1600, 4))
    assert found.calibration.time_unit == "step"
    assert any("rollouts, with K_ref = 4 optimiser steps on each" in text for text in found.assumed)
    asked = predict(OPTIONS, verl(rollouts), K_ref=4)
    assert asked.K.value == found.K.value


def test_verl_s_rollouts_of_unknown_length_are_said_to_be_the_unit_of_K():
    found = predict(OPTIONS, verl(every_fourth()[1]))
    assert found.calibration.time_unit == "rollout"
    np.testing.assert_array_equal(found.calibration.t, np.arange(400.0))
    assert any("K is per rollout" in text for text in found.caveats)


def test_a_changing_learning_rate_is_said():
    found = predict(OPTIONS, run(learning_rate=np.linspace(2e-3, 1e-3, 400)))
    assert found.setting.eta == pytest.approx(1.5e-3)
    assert any("eta changes within the run" in text for text in found.caveats)


def test_a_shape_that_the_theory_does_not_give_is_said(calibrated):
    """A nearly critical rise so slow that at mu = 0.9 and K_ref = 1 the closed form would have it overdamped."""
    found = predict(
        OPTIONS, own_log(rewards(300, zeta=1.0, w0=0.04, completions=5000), learning_rate=np.full(300, ETA))
    )
    assert any("the theory does not describe this run's shape" in text for text in found.caveats)
    assert not any("the theory does not describe" in text for text in calibrated.caveats)


def test_a_theory_that_is_rejected_or_a_setting_that_is_unstable_gets_no_good_mark(calibrated):
    assert standing(calibrated) == "ok"
    assert regime(calibrated).startswith("Underdamped by the closed form")
    odd = predict(OPTIONS, own_log(rewards(300, zeta=1.0, w0=0.04, completions=5000), learning_rate=np.full(300, ETA)))
    assert standing(odd) == "warning"
    assert regime(odd).startswith("The theory does not describe this run's shape, so that this need not hold. Over")
    unstable = predict(OPTIONS, eta=1e-6, K=1e4, K_ref=100000)
    assert standing(unstable) == "critical"
    assert regime(unstable).startswith("Unstable by the closed form")
    assert standing(predict(OPTIONS, run(a=1e-4, steps=150))) == "not assessable"


def test_another_unit_of_the_reward_leaves_K_and_stretches_p_star(calibrated):
    log = run()
    table = log.table.assign(reward=10 * log.table["reward"] - 5)
    other = predict(OPTIONS, own_log(
        table["reward"], reward_range=(-5.0, 5.0), settings={"mu": MU, "K_ref": 1}, learning_rate=np.full(400, ETA)
    ), other_Gs=(4,))  # fmt: skip
    assert other.K.value == pytest.approx(calibrated.K.value, rel=1e-3)
    assert other.calibration.p_star.value == pytest.approx(10 * calibrated.calibration.p_star.value - 5, rel=1e-2)
    assert any(text.startswith("G = 4: the run's own group size is not known") for text in other.caveats)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"eta": 0.1}, "K: found none, expected K or a log"),
        ({"K": 1.0}, "eta: found none, expected a learning rate beside K"),
        ({"eta": -1.0, "K": 1.0}, "eta: found -1, expected a finite number above 0"),
        ({"eta": 0.1, "K": float("nan")}, "K: found nan, expected a finite number above 0"),
        ({"eta": 1e300, "K": 1e300}, "eta K: found 1e+300 x 1e+300, expected a product from 1e-50 to 1e+50"),
        ({"eta": 1e-300, "K": 1e-300}, "eta K: found 1e-300 x 1e-300, expected a product from 1e-50 to 1e+50"),
        ({"eta": 1.0, "K": 1.0, "other_etas": (1e60,)}, "eta K: found 1e+60 x 1, expected a product"),
        ({"eta": 0.1, "K": 1.0, "mu": 1.0}, "mu: found 1, expected 0 <= mu < 1"),
        ({"eta": 0.1, "K": 1.0, "K_ref": 0}, "K_ref: found 0, expected an integer of 1 or more"),
        ({"eta": 0.1, "K": 1.0, "K_ref": 1.5}, "K_ref: found 1.5, expected an integer of 1 or more"),
        ({"eta": 0.1, "K": 1.0, "G": 1}, "G: found 1, expected an integer of 2 or more"),
        ({"eta": 0.1, "K": 1.0, "D": 0.0}, "D: found 0, expected a finite number above 0"),
        ({"eta": 0.1, "K": 1.0, "other_etas": (0.0,)}, "other eta: found 0, expected a finite number above 0"),
        ({"eta": 0.1, "K": 1.0, "other_Gs": (1,)}, "other G: found 1, expected an integer of 2 or more"),
        ({"K": 1.0, "log": own_log(rewards())}, "K: found both K and a log, expected K or a log"),
        ({"log": own_log(rewards())}, "run.csv: eta: found no learning rate in the log, expected one"),
        (
            {"log": own_log(rewards(), learning_rate=np.full(150, ETA), settings={"mu": 2.0})},
            "run.csv: found mu = 2 and K_ref = 1 in the log, expected 0 <= mu < 1",
        ),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, sentence):
    with pytest.raises(InputError) as error:
        predict(OPTIONS, **arguments)
    assert str(error.value).startswith(sentence)
