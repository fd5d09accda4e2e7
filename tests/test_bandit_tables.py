"""The bandit's tables: each sweep against its exact values."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from grpo_dynamics import tables
from grpo_dynamics.bandit import predictions, replicas, sampled, simulate, sweeps
from grpo_dynamics.bandit import tables as schemas
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.theory import finite_group, oscillator

BANDIT = Bandit(beta=1.0, p_ref=0.2)


def test_intervals_that_hold_together():
    assert replicas.sidak(0.05, 1) == pytest.approx(0.05)
    assert (1 - replicas.sidak(0.05, 40)) ** 40 == pytest.approx(0.95)
    with pytest.raises(ValueError, match="replicas: found 1, expected 2 or more"):
        replicas.seeds(0, 1)


def test_fixed_points():
    table = sampled.fixed_points(BANDIT, group_sizes=[4, 256], groups_per_step=256, replicas=200, seed=0)
    tables.check(table, schemas.FIXED_POINT)
    inside = (table["K_perturbation_low"] <= table["K"]) & (table["K"] <= table["K_perturbation_high"])
    assert inside.tolist() == [False, True, True]  # the mean field's interval is the value itself
    assert table["K_perturbation"][0] == pytest.approx(table["K"][0], rel=3e-4)
    assert table["drive_ratio"][1] == pytest.approx(0.803, abs=1e-3)
    assert np.all(np.diff(table["p_star"].iloc[[1, 2, 0]]) > 0)  # finite groups drive less, so that p* is lower


def test_thresholds():
    schedules = ["fixed_lag", "periodic", "importance_corrected"]
    table = sweeps.thresholds(BANDIT, schedules=schedules, mus=[0.5], K_refs=[1, 2], relative_width=0.002)
    tables.check(table, schemas.THRESHOLDS)
    for kind in ("stability", "onset"):
        assert table[f"a_{kind}_measured"].to_numpy() == pytest.approx(table[f"a_{kind}_exact"].to_numpy(), rel=0.003)
    assert table["a_stability_closed"].tolist() == pytest.approx(list(oscillator.stability_threshold(0.5, [1, 2] * 3)))
    assert table["mean_age"].tolist() == [1, 2, 0, 0.5, 0, 0.5]
    at_age = table["a_stability_closed_at_age"].fillna(np.inf).tolist()
    assert at_age == pytest.approx([0.5, 0.25, np.inf, 1.0, np.inf, 1.0])


def test_trajectories():
    table = sweeps.trajectories(
        BANDIT, schedule="fixed_lag", eta=0.225, mu=0.5, K_refs=[1, 12, 32], start=0.6, steps=100
    )
    tables.check(table, schemas.TRAJECTORIES)
    for column in ("regime", "regime_closed"):
        assert table.groupby("K_ref")[column].first().tolist() == ["overdamped", "underdamped", "unstable"]
    assert table[table["step"] == 0]["p"].to_numpy() == pytest.approx(0.6)


def test_finite_steps_leave_the_oscillator():
    shares = [0.003, 0.05, 0.5]
    table = sweeps.finite_step(BANDIT, mus=[0.0, 0.9], K_refs=[1, 8], shares=shares)
    tables.check(table, schemas.FINITE_STEP)
    for kind in ("rate", "frequency"):
        assert table[f"{kind}_measured"].to_numpy() == pytest.approx(
            table[f"{kind}_exact"].to_numpy(), rel=0.01, abs=1e-9
        )
    small, large = (table[table["share"] == share] for share in (shares[0], shares[-1]))
    assert small["rate_closed"].to_numpy() == pytest.approx(small["rate_exact"].to_numpy(), rel=0.01)
    assert small["max_abs_difference"].max() < 0.01
    assert np.all(large["max_abs_difference"].to_numpy() > small["max_abs_difference"].to_numpy())


def test_clipping_slows_the_rise():
    table = sweeps.clipping(BANDIT, mus=[0.5], K_refs=[16], etas=[0.01, 1.0], clips=[0.1], start=0.2, steps=2000)
    tables.check(table, schemas.CLIPPING)
    rise = table.set_index(["eta", table["clip"].fillna(0.0)])["half_rise"]
    assert rise[0.01, 0.1] == rise[0.01, 0.0]  # p never rises by a tenth within 16 steps, so that nothing is clipped
    assert rise[1.0, 0.1] > 2 * rise[1.0, 0.0]
    assert table["p_mean"].to_numpy() == pytest.approx(table["p_star"].to_numpy(), abs=5e-3)


def test_drift_and_noise_lie_within_their_intervals():
    table = sampled.drift(
        BANDIT, stds=["population", "unbiased"], group_sizes=[4, 16], ps=[0.1, 0.5], groups=2000, replicas=16, seed=3
    )
    tables.check(table, schemas.DRIFT)
    for name in ("drift", "noise"):
        assert np.all(
            (table[f"{name}_low"] <= table[f"{name}_exact"]) & (table[f"{name}_exact"] <= table[f"{name}_high"])
        )
    first = table.iloc[0]
    assert first["drift_exact"] / first["drift_leading_order"] == pytest.approx(0.507, abs=5e-4)
    assert first["noise_exact"] == pytest.approx(0.1774, abs=5e-5)


@pytest.mark.parametrize("schedule", ["fixed_lag", "periodic", "importance_corrected"])
def test_stationary_variance_matches_the_lyapunov_equation(schedule):
    table = sampled.stationary_variance(
        BANDIT, schedules=[schedule], eta=0.2, mu=0.5, K_ref=3, group_sizes=[4, 64], groups_per_step=64, replicas=48,
        steps=3000, seed=1, threads=2,
    )  # fmt: skip
    tables.check(table, schemas.STATIONARY_VARIANCE)
    assert np.all((table["low"] <= table["variance_exact"]) & (table["variance_exact"] <= table["high"]))
    assert ((table["high"] - table["low"]) / table["variance"]).max() < 0.2
    assert table["p_mean"].to_numpy() == pytest.approx(table["p_star"].to_numpy(), abs=2e-3)
    leading = table["variance_leading_order"]
    assert leading[0] / leading[1] == pytest.approx(16)
    assert table["variance_exact"][0] > 1.5 * leading[0]  # G is a pure temperature to leading order only


def test_arms_are_the_one_logit_bandit_with_another_eta():
    table = sampled.arms(
        BANDIT, arms=[(1, 1), (2, 3)], eta=0.1, mu=0.5, K_ref=2, start=0.2, G=4, groups_per_step=64, replicas=24,
        steps=2000, seed=2, threads=2,
    )  # fmt: skip
    tables.check(table, schemas.ARMS)
    assert table["max_abs_difference"].max() < 1e-12
    assert table["K_perturbation"].to_numpy() == pytest.approx(table["K"].to_numpy(), rel=3e-4)
    assert np.all((table["low"] <= table["variance_exact"]) & (table["variance_exact"] <= table["high"]))


def test_predictions_hold_close_to_the_fixed_point():
    p_star = float(expit(BANDIT.fixed_point()))
    table = predictions.predictions(
        BANDIT,
        settings=[{"eta": 0.02, "mu": 0.5, "K_ref": 1}],
        starts=[p_star - 1e-4, 0.2],
        group_sizes=[4],
        groups_per_step=16,
        replicas=16,
        seed=1,
    )
    tables.check(table, schemas.PREDICTIONS)
    near, far = table[table["G"].isna()].itertuples(index=False)
    assert near.r2 > 0.9999 and near.half_rise_measured == pytest.approx(near.half_rise_predicted, rel=0.02)
    assert far.r2 < near.r2
    sampled_far = table[(table["start"] == 0.2) & (table["G"] == 4)].set_index("calibration")["r2"]
    assert sampled_far["finite group"] > sampled_far["mean field"]
    # Of the K that the row's prediction uses.
    assert table["zeta"].to_numpy() == pytest.approx(
        oscillator.damping_ratio(table["eta"] * table["K"], mu=0.5, K_ref=1), rel=1e-12
    )
    assert table.groupby("calibration")["zeta"].nunique().eq(1).all() and table["zeta"].nunique() == 2


def test_jackknife_needs_no_interval_for_a_deterministic_mean():
    p = np.array([[0.0, 0.25, 0.5, 0.75, 1.0]])
    scores = predictions._scores(p, np.array([0.0, 0.5, 0.75, 1.0, 1.0]), 1.0)
    assert scores["r2"] == scores["r2_low"] == scores["r2_high"] == pytest.approx(1 - 3 * 0.25**2 / 0.625)
    assert (scores["half_rise_measured"], scores["half_rise_predicted"]) == (2.0, 1.0)


def test_overdamped_limit_approaches_its_leading_order():
    table = sweeps.overdamped_limit(zetas=[2.0, 10.0, 1000.0], k=0.01)
    ratio = (table["max_abs_difference"] / table["leading_order"]).to_numpy()
    assert np.all(np.diff(ratio) > 0) and ratio[-1] == pytest.approx(1, abs=1e-3)


def test_leading_order_is_the_limit_of_the_exact_noise():
    p = 0.3
    assert 2000 * finite_group.v_G(p, 2000) == pytest.approx((1 - 2 * p) ** 2 / 4, rel=0.02)


def test_a_bad_table_names_its_column():
    with pytest.raises(ValueError, match="bandit trajectories: column p"):
        tables.check(pd.DataFrame({"p": [2.0]}), schemas.TRAJECTORIES.select_columns(["p"]))


def test_variance_is_about_the_common_mean():
    p = np.random.default_rng(0).normal(0.6, 0.1, size=(3, 50))
    run = simulate.Sampled(p[:, -1], (p - 0.2).mean(axis=1), ((p - 0.2) ** 2).mean(axis=1), None)
    offset, variances = sampled._variances(run)
    assert 0.2 + offset == pytest.approx(p.mean())
    assert variances == pytest.approx(((p - p.mean()) ** 2).mean(axis=1))
