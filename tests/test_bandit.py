"""The softmax bandit: fixed point, simulation, measured thresholds, and the stage's tables."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from grpo_dynamics import tables
from grpo_dynamics.bandit import measure, sampled, simulate, sweeps
from grpo_dynamics.bandit import tables as bandit_tables
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.figures import bandit as figures
from grpo_dynamics.figures import style
from grpo_dynamics.theory import lag, oscillator

BANDIT = Bandit(beta=1.0, p_ref=0.2)


@given(st.floats(1.5, 5), st.floats(0.05, 0.4), st.sampled_from([None, 2, 4, 16]))
@settings(max_examples=20, deadline=None)
def test_fixed_point_is_the_first_zero_and_stable(beta, p_ref, G):
    bandit = Bandit(beta, p_ref, G)
    theta = bandit.fixed_point()
    assert bandit.gradient(theta) == pytest.approx(0, abs=1e-12)
    assert np.all(bandit.gradient(np.linspace(bandit.theta_ref, theta - 1e-3, 200)) > 0)
    assert bandit.stiffness() > 0
    assert bandit.stiffness_by_difference() == pytest.approx(bandit.stiffness(), rel=1e-6)


def test_fixed_point_balances_drive_and_anchor():
    p = expit(BANDIT.fixed_point())
    assert 1 / np.sqrt(p * (1 - p)) == pytest.approx(BANDIT.beta * (BANDIT.fixed_point() - BANDIT.theta_ref))
    assert p == pytest.approx(0.6813, abs=1e-4)


def test_weak_anchor_has_no_fixed_point():
    with pytest.raises(ValueError, match=r"no fixed point above p_ref = 0\.2 at beta = 0\.1"):
        Bandit(0.1, 0.2).fixed_point()


@pytest.mark.parametrize(("beta", "p_ref"), [(0, 0.2), (1, 0), (1, 1)])
def test_bandit_domain(beta, p_ref):
    with pytest.raises(ValueError, match=r"found .* expected"):
        Bandit(beta, p_ref)


def _plain(schedule: str, eta: float, mu: float, K_ref: int, theta: float, steps: int) -> np.ndarray:
    """The update as written in the theory, in theta."""
    path, v = [theta], 0.0
    for n in range(steps):
        old = path[max(n - K_ref, 0)] if schedule == "fixed_lag" else path[n - n % K_ref]
        now = path[n] if schedule == "importance_corrected" else old
        p, q = expit(now), expit(old)
        g = p * (1 - p) / np.sqrt(q * (1 - q)) - BANDIT.beta * p * (1 - p) * (now - BANDIT.theta_ref)
        v = mu * v + eta * g
        path.append(path[-1] + v)
    return np.array(path)


@pytest.mark.parametrize("schedule", lag.SCHEDULES)
def test_mean_field_is_the_theorys_update(schedule):
    setting = {"eta": 0.8, "mu": 0.6, "K_ref": 3}
    star = BANDIT.fixed_point()
    e = simulate.mean_field(BANDIT, **setting, schedule=schedule, start=logit(0.2) - star, steps=60)
    assert star + e == pytest.approx(_plain(schedule, theta=logit(0.2), steps=60, **setting), abs=1e-10)


@pytest.mark.parametrize("schedule", lag.SCHEDULES)
def test_large_groups_follow_the_mean_field_and_seeds_decide(schedule):
    setting = {"eta": 0.5, "mu": 0.5, "K_ref": 2, "schedule": schedule, "steps": 40}
    run = {**setting, "start": logit(0.2), "groups_per_step": 200, "seeds": np.array([3, 4])}
    theta = simulate.groups(Bandit(1.0, 0.2, 1000), **run)
    e = simulate.mean_field(BANDIT, **setting, start=logit(0.2) - BANDIT.fixed_point())
    assert theta[0] == pytest.approx(BANDIT.fixed_point() + e, abs=0.02)
    assert np.array_equal(theta, simulate.groups(Bandit(1.0, 0.2, 1000), **run))
    assert not np.array_equal(theta[0], theta[1])


def test_sampled_drift_is_the_exact_finite_sum():
    bandit = Bandit(1.0, 0.2, 4)
    start, replicas = logit(0.3), 4000
    one = simulate.groups(
        bandit,
        eta=1.0,
        mu=0.0,
        K_ref=0,
        schedule="fixed_lag",
        start=start,
        steps=1,
        groups_per_step=4,
        seeds=np.arange(replicas),
    )
    step = one[:, 1] - start
    assert step.mean() == pytest.approx(float(bandit.gradient(start)), abs=5 * step.std() / np.sqrt(replicas))


@pytest.mark.parametrize("schedule", lag.SCHEDULES)
@pytest.mark.parametrize(("mu", "K_ref"), [(0.0, 4), (0.9, 2)])
def test_measured_thresholds_are_the_exact_ones(schedule, mu, K_ref):
    found = measure.thresholds(BANDIT, mu=mu, K_ref=K_ref, schedule=schedule, relative_width=2e-3)
    share = float(lag.stale_stiffness(expit(BANDIT.fixed_point()))) / BANDIT.stiffness()
    for kind, exact in (("stability", lag.stability_threshold), ("onset", lag.onset_threshold)):
        low, high = found[kind]
        assert high / low - 1 <= 2e-3
        assert np.sqrt(low * high) == pytest.approx(exact(schedule, mu, K_ref, share), rel=0.02)


def test_regimes_along_eta():
    K = BANDIT.stiffness()
    setting = {"mu": 0.5, "K_ref": 4, "schedule": "fixed_lag"}
    found = [measure.regime(BANDIT, eta=a / K, **setting) for a in (0.02, 0.1, 0.2)]
    assert found == ["overdamped", "underdamped", "unstable"]


def test_stationary_variance_matches_the_lyapunov_equation():
    table = sampled.stationary_variance(
        BANDIT, eta=0.2, mu=0.5, K_ref=2, group_sizes=[4, 64], groups_per_step=16, replicas=48, steps=2000, seed=1
    )
    tables.check(table, bandit_tables.STATIONARY_VARIANCE)
    assert (table["variance"] / table["variance_exact"]).to_numpy() == pytest.approx([1, 1], abs=0.08)
    assert np.all(table["low"] < table["variance"]) and np.all(table["variance"] < table["high"])
    leading = table["variance_leading_order"]
    assert leading[0] / leading[1] == pytest.approx(16)
    assert table["variance_exact"][1] == pytest.approx(leading[1], rel=0.05)
    assert table["variance_exact"][0] > 1.5 * leading[0]  # G is a pure temperature to leading order only


def test_predictions_hold_close_to_the_fixed_point():
    p_star = float(expit(BANDIT.fixed_point()))
    table = sampled.predictions(
        BANDIT,
        settings=[{"eta": 0.02, "mu": 0.5, "K_ref": 1}],
        starts=[p_star - 1e-4, 0.2],
        group_sizes=[4],
        groups_per_step=16,
        replicas=16,
        seed=1,
    )
    tables.check(table, bandit_tables.PREDICTIONS)
    near, far = table[table["G"].isna()].itertuples(index=False)
    assert near.r2 > 0.9999 and near.half_rise_measured == pytest.approx(near.half_rise_predicted, rel=0.02)
    assert far.r2 < near.r2
    sampled_far = table[(table["start"] == 0.2) & (table["G"] == 4)].set_index("calibration")["r2"]
    assert sampled_far["finite group"] > sampled_far["mean field"]


def test_jackknife_needs_no_interval_for_a_deterministic_mean():
    p = np.array([[0.0, 0.25, 0.5, 0.75, 1.0]])
    scores = sampled._scores(p, np.array([0.0, 0.5, 0.75, 1.0, 1.0]), 1.0)
    assert scores["r2"] == scores["r2_low"] == scores["r2_high"] == pytest.approx(1 - 3 * 0.25**2 / 0.625)
    assert (scores["half_rise_measured"], scores["half_rise_predicted"]) == (2.0, 1.0)


def test_overdamped_limit_approaches_its_leading_order():
    table = sweeps.overdamped_limit(zetas=[2.0, 10.0, 1000.0], k=0.01)
    ratio = (table["max_abs_difference"] / table["leading_order"]).to_numpy()
    assert np.all(np.diff(ratio) > 0) and ratio[-1] == pytest.approx(1, abs=1e-3)


def test_tables_and_figures_of_a_tiny_study(tmp_path):
    made = {
        "fixed_point": (sweeps.fixed_points(BANDIT, group_sizes=[4]), bandit_tables.FIXED_POINT),
        "thresholds": (
            sweeps.thresholds(BANDIT, schedules=["periodic"], mus=[0.5], K_refs=[1, 2], relative_width=0.05),
            bandit_tables.THRESHOLDS,
        ),
        "trajectories": (
            sweeps.trajectories(
                BANDIT, schedule="fixed_lag", eta=0.225, mu=0.5, K_refs=[1, 12, 32], start=0.6, steps=100
            ),
            bandit_tables.TRAJECTORIES,
        ),
    }
    for name, (table, schema) in made.items():
        tables.write(table, tmp_path / f"{name}.csv", schema)
    trajectories = tables.read(tmp_path / "trajectories.csv", bandit_tables.TRAJECTORIES)
    assert trajectories.groupby("K_ref")["regime"].first().tolist() == ["overdamped", "underdamped", "unstable"]
    assert trajectories.groupby("K_ref")["regime_closed"].first().tolist() == ["overdamped", "underdamped", "unstable"]
    assert trajectories[trajectories["step"] == 0]["p"].to_numpy() == pytest.approx(0.6)
    thresholds = tables.read(tmp_path / "thresholds.csv", bandit_tables.THRESHOLDS)
    assert thresholds["a_stability_closed"].tolist() == pytest.approx(oscillator.stability_threshold(0.5, [1, 2]))
    with style.apply():
        for draw, table, panels in ((figures.trajectories, trajectories, 3), (figures.regime_map, thresholds, 1)):
            figure = draw(table)
            assert sum(axes.get_visible() for axes in figure.axes) == panels
            style.save(figure, tmp_path / "figure.pdf", tmp_path / "figure.png")
            assert (tmp_path / "figure.pdf").stat().st_size > 0


def test_bad_settings_name_the_culprit():
    run = {"eta": 0.1, "mu": 0.5, "schedule": "periodic", "start": 0.1, "steps": 5}
    with pytest.raises(ValueError, match="K_ref: found 0, expected an integer of 1 or more for periodic"):
        simulate.mean_field(BANDIT, K_ref=0, **run)
    with pytest.raises(ValueError, match="relative_width: found 0"):
        measure.thresholds(BANDIT, mu=0, K_ref=1, schedule="periodic", relative_width=0)
    with pytest.raises(ValueError, match="replicas: found 1"):
        sampled._seeds(0, 1)
    with pytest.raises(ValueError, match="bandit trajectories: column p"):
        bad = pd.DataFrame({"p": [2.0]})
        tables.check(bad, bandit_tables.TRAJECTORIES.select_columns(["p"]))
