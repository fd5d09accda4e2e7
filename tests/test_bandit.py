"""The softmax bandit: fixed point, stiffness and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit

from grpo_dynamics.bandit import kernels, many_arms, simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.theory import finite_group, lag

BANDIT = Bandit(beta=1.0, p_ref=0.2)
STAR = BANDIT.fixed_point()


@given(st.floats(1.5, 5), st.floats(0.05, 0.4), st.sampled_from([None, 2, 4, 16]), st.sampled_from(finite_group.STDS))
@settings(max_examples=20, deadline=None)
def test_fixed_point_is_the_first_zero_and_stable(beta, p_ref, G, std):
    bandit = Bandit(beta, p_ref, G, std)
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


@pytest.mark.parametrize("call", [(0, 0.2), (1, 0), (1, 1), (1, 0.2, 1), (1, 0.2, 4, "sample")])
def test_bandit_domain(call):
    with pytest.raises(ValueError, match=r"found .* expected"):
        Bandit(*call)


@given(st.sampled_from([2, 4, 16, 128]), st.sampled_from(finite_group.STDS))
@settings(max_examples=8, deadline=None)
def test_stale_share_is_the_slope_in_the_sampling_policy(G, std):
    bandit = Bandit(1.0, 0.2, G, std)
    theta, step = bandit.fixed_point(), 1e-5

    def drive(old):
        p, q = expit(theta), expit(old)
        return finite_group.h_G(q, G, std) * p * (1 - p) / (q * (1 - q))

    slope = (drive(theta + step) - drive(theta - step)) / (2 * step)
    assert bandit.stale_share() == pytest.approx(-slope / bandit.stiffness(), abs=1e-6)


def test_stale_share_of_the_mean_field_and_its_limit():
    p = expit(STAR)
    assert BANDIT.stale_share() == pytest.approx(0.5 * (1 - 2 * p) * np.sqrt(p * (1 - p)) / BANDIT.stiffness())
    assert Bandit(1.0, 0.2, 1000).stale_share() == pytest.approx(BANDIT.stale_share(), rel=0.01)


def plain(
    schedule: str, eta: float, mu: float, K_ref: int, theta: float, steps: int, clip: float = np.inf
) -> np.ndarray:
    """The update as written in the theory, in theta, with the clipped ratio of PPO."""
    path, v = [theta], 0.0
    for n in range(steps):
        old = path[max(n - K_ref, 0)] if schedule == "fixed_lag" else path[n - n % K_ref]
        now = path[n] if schedule == "importance_corrected" else old
        p, q = expit(now), expit(old)
        spread = np.sqrt(q * (1 - q))  # of the rewards; the advantages are (1-q)/spread and -q/spread
        good, bad = p / q, (1 - p) / (1 - q)
        rise = q * (good <= 1 + clip) * good * (1 - q) / spread * (1 - p)  # d log p/dtheta = 1 - p
        rise += (1 - q) * (bad >= 1 - clip) * bad * (-q) / spread * (-p)  # d log (1-p)/dtheta = -p
        v = mu * v + eta * (rise - BANDIT.beta * p * (1 - p) * (now - BANDIT.theta_ref))
        path.append(path[-1] + v)
    return np.array(path)


UPDATES = [(schedule, None) for schedule in lag.SCHEDULES] + [("importance_corrected", 0.05)]


@pytest.mark.parametrize(("schedule", "clip"), UPDATES)
def test_mean_field_is_the_theorys_update(schedule, clip):
    eta, K_ref = np.array([0.8, 0.5, 1.2]), np.array([3, 1, 3])
    run = simulate.mean_field(
        BANDIT, eta=eta, mu=0.6, K_ref=K_ref, schedule=schedule, start=logit(0.2) - STAR, steps=60, clip=clip,
        record=True, threads=2,
    )  # fmt: skip
    for i in range(3):
        expected = plain(schedule, eta[i], 0.6, K_ref[i], logit(0.2), 60, clip or np.inf)
        assert STAR + run.path[i] == pytest.approx(expected, abs=1e-10)
        assert (run.crossed[i] > 0) == np.any(expected > STAR)
    assert run.e == pytest.approx(run.path[:, -1])


def test_accumulated_extremes_are_those_of_the_path():
    run = simulate.mean_field(
        BANDIT, eta=[0.3, 0.9], mu=0.5, K_ref=4, schedule="fixed_lag", start=1e-3, steps=800, record=True
    )
    # windows of 64 steps that lie wholly in the second and in the last quarter
    assert run.early == pytest.approx(np.abs(run.path[:, 257:385]).max(axis=1))
    assert run.high == pytest.approx(run.path[:, 641:].max(axis=1))
    assert run.low == pytest.approx(run.path[:, 641:].min(axis=1))


def test_errors_are_followed_to_the_smallest_doubles():
    # mu = 0, no lag: e falls by 1 - eta K per step from 1e-8, to 1e-290 within 650 e-folds, and the replica ends there
    a = 0.02
    run = simulate.mean_field(
        BANDIT, eta=a / BANDIT.stiffness(), mu=0.0, K_ref=0, schedule="fixed_lag", start=1e-8, steps=50_000, record=True
    )
    steps = np.array([1000, 10_000, 30_000])
    assert run.path[steps] / 1e-8 == pytest.approx((1 - a) ** steps, rel=1e-4)
    assert 32_000 < run.length < 34_000 and run.path[-1] == 0 and run.crossed == 0


def test_the_last_change_of_sign_is_kept():
    setting = {"mu": 0.5, "K_ref": 4, "schedule": "fixed_lag", "start": 1e-3, "steps": 4000, "record": True}
    run = simulate.mean_field(BANDIT, eta=[0.3, 0.6, 0.9], **setting)
    for path, crossed in zip(run.path, run.crossed, strict=True):
        last = np.flatnonzero(np.sign(path[1:]) != np.sign(path[:-1]))[-1] + 1
        assert last <= crossed < last + 64


def test_replicas_end_on_their_own():
    K = BANDIT.stiffness()
    run = simulate.mean_field(
        BANDIT, eta=np.array([0.05, 0.6, 0.9]) / K, mu=0.5, K_ref=1, schedule="fixed_lag", start=1e-8, steps=5000,
        highest=1e-4, record=True,
    )  # fmt: skip
    assert (run.crossed > 0).tolist() == [False, True, True]
    assert np.all(run.length < 5000) and run.path[0, -1] == 0 and np.all(np.isnan(run.path[1:, -1]))
    assert np.all(np.abs(run.e[1:]) > 1e-4)


@pytest.mark.parametrize(("schedule", "clip"), UPDATES)
def test_large_groups_follow_the_mean_field_and_seeds_decide(schedule, clip):
    setting = {"eta": 0.5, "mu": 0.5, "K_ref": 2, "schedule": schedule, "steps": 40, "clip": clip}
    large = Bandit(1.0, 0.2, 1000)
    run = {**setting, "start": logit(0.2), "groups_per_step": 200, "record": True}
    path = simulate.groups(large, **run, seeds=[3, 4]).path
    expected = expit(plain(schedule, 0.5, 0.5, 2, logit(0.2), 40, clip or np.inf))
    assert path[0] == pytest.approx(expected, abs=0.005)
    assert np.array_equal(path, simulate.groups(large, **run, seeds=[3, 4], threads=2).path)
    assert np.array_equal(path[1:], simulate.groups(large, **run, seeds=[4]).path)
    assert not np.array_equal(path[0], path[1])


def test_sampled_statistics_are_those_of_the_path():
    setting = {"eta": 0.3, "mu": 0.5, "K_ref": 3, "schedule": "periodic", "start": 0.3, "groups_per_step": 2}
    run = simulate.groups(
        Bandit(1.0, 0.2, 4), **setting, steps=9000, seeds=np.arange(20), burn_in=100, centre=0.5, record=True
    )
    kept = run.path[:, 101:] - 0.5
    assert run.mean == pytest.approx(kept.mean(axis=1)) and run.square == pytest.approx((kept**2).mean(axis=1))
    assert np.array_equal(run.p, run.path[:, -1])


@pytest.mark.parametrize("p", [0.03, 0.5, 0.8])
@pytest.mark.parametrize("G", [2, 5, 64])
def test_groups_are_binomial(G, p):
    # Values that tell every k apart; one uniform gives one group.
    uniforms = np.random.default_rng(1).random(20_000)
    cdf, choices = np.empty(G + 1), simulate.sampler(Bandit(1.0, 0.2, G), 1)[1]
    kernels.fill_cdf(cdf, choices, min(p, 1 - p) / max(p, 1 - p))
    assert cdf / cdf[-1] == pytest.approx(stats.binom.cdf(np.arange(G + 1), G, min(p, 1 - p)), rel=1e-12)
    k = [kernels.group_gradients(uniforms[i : i + 1], cdf, np.arange(G + 1.0), True)[0] for i in range(uniforms.size)]
    expected = stats.binom.ppf(uniforms, G, min(p, 1 - p))
    assert np.mean(k == expected) > 0.9999  # equal but for uniforms within rounding of a step
    flipped = [kernels.group_gradients(uniforms[i : i + 1], cdf, np.arange(G + 1.0), False)[0] for i in range(200)]
    assert flipped == pytest.approx(stats.binom.ppf(1 - uniforms[:200], G, min(p, 1 - p)))


@given(st.integers(2, 40), st.floats(0.01, 0.99), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_both_ways_of_adding_up_groups_agree(G, p, groups):
    uniforms = np.random.default_rng(G).random(groups)
    value, choices = simulate.sampler(Bandit(1.0, 0.2, G), groups)
    cdf = np.empty(G + 1)
    kernels.fill_cdf(cdf, choices, min(p, 1 - p) / max(p, 1 - p))
    one = kernels.group_gradients(uniforms, cdf, value, p <= 0.5)[0]
    assert kernels.signal(uniforms, cdf, np.diff(value), p <= 0.5) == pytest.approx(one, abs=1e-12)


@pytest.mark.parametrize("std", finite_group.STDS)
@pytest.mark.parametrize(("G", "p"), [(4, 0.3), (16, 0.9)])
def test_sampled_drift_and_noise_are_the_exact_sums(G, p, std):
    mean, variance = simulate.group_gradients(Bandit(1.0, 0.2, G, std), p=p, groups=4000, seeds=np.arange(40))
    for values, exact in ((mean, finite_group.h_G(p, G, std)), (variance, finite_group.v_G(p, G, std))):
        assert values.mean() == pytest.approx(float(exact), abs=5 * stats.sem(values))


@pytest.mark.parametrize("start", [0.3, 0.7])
def test_one_sampled_step_has_the_exact_drift(start):
    bandit = Bandit(1.0, 0.2, 4)
    run = simulate.groups(
        bandit, eta=1.0, mu=0.0, K_ref=0, schedule="fixed_lag", start=logit(start), steps=1, groups_per_step=4,
        seeds=np.arange(4000),
    )  # fmt: skip
    step = logit(run.p) - logit(start)
    assert step.mean() == pytest.approx(float(bandit.gradient(logit(start))), abs=5 * stats.sem(step))


@pytest.mark.parametrize(("schedule", "clip"), UPDATES)
@pytest.mark.parametrize(("n_good", "n_bad"), [(1, 1), (2, 5)])
def test_arms_follow_one_logit_at_eta_times_the_gain(schedule, clip, n_good, n_bad):
    gain = 1 / n_good + 1 / n_bad
    run = many_arms.arms(
        BANDIT, n_good=n_good, n_bad=n_bad, eta=0.5 / gain, mu=0.6, K_ref=3, schedule=schedule, start=logit(0.2),
        steps=60, groups_per_step=0, seeds=[0], clip=clip, record=True,
    )  # fmt: skip
    assert logit(run.path[0]) == pytest.approx(plain(schedule, 0.5, 0.6, 3, logit(0.2), 60, clip or np.inf), abs=1e-10)


@given(
    st.floats(-20, 20),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.sampled_from(range(3)),
    st.sampled_from([None, 4]),
)
@settings(max_examples=40, deadline=None)
def test_a_shift_of_all_logits_changes_nothing(shift, start, schedule, G):
    reference, value, choices = np.log(np.full(4, 0.25)), np.zeros(1), np.zeros(0)
    if G:
        value, choices = simulate.sampler(Bandit(1.0, 0.2, G), 3)

    def path(logits):
        p = np.empty(31)
        many_arms._follow(
            np.random.default_rng(1), np.array(logits), reference, 2, 1.0, 0.4, 0.5, 2, schedule, 0.2, value, choices,
            3 if G else 0, 30, 0, 0.0, p,
        )  # fmt: skip
        return p[1:]

    assert path(np.array(start) + shift) == pytest.approx(path(start), abs=1e-9)


def test_sampled_arms_start_with_the_drift_and_noise_of_one_logit():
    bandit, p, (n_good, n_bad) = Bandit(1.0, 0.2, 4), 0.6, (3, 2)
    gain = 1 / n_good + 1 / n_bad
    run = many_arms.arms(
        bandit, n_good=n_good, n_bad=n_bad, eta=0.01, mu=0.0, K_ref=1, schedule="periodic", start=logit(p), steps=1,
        groups_per_step=2, seeds=np.arange(6000),
    )  # fmt: skip
    step = (logit(run.p) - logit(p)) / (0.01 * gain)
    assert step.mean() == pytest.approx(float(bandit.gradient(logit(p))), abs=5 * stats.sem(step))
    spread = (step - step.mean()) ** 2
    # to first order in eta: within a class the arms' counts change p by what their sum does
    assert spread.mean() == pytest.approx(float(finite_group.v_G(p, 4)) / 2, abs=5 * stats.sem(spread))


def test_bad_settings_name_the_culprit():
    run = {"eta": 0.1, "mu": 0.5, "start": 0.1, "steps": 5}
    with pytest.raises(ValueError, match="K_ref: found 0, expected an integer of 1 or more for periodic"):
        simulate.mean_field(BANDIT, K_ref=0, schedule="periodic", **run)
    with pytest.raises(ValueError, match=r"clip: found 0\.2 with periodic"):
        simulate.mean_field(BANDIT, K_ref=1, schedule="periodic", clip=0.2, **run)
    with pytest.raises(ValueError, match="bandit: found G = 4, expected None"):
        simulate.mean_field(Bandit(1.0, 0.2, 4), K_ref=1, schedule="periodic", **run)
    with pytest.raises(ValueError, match="groups: found G = 2000"):
        simulate.groups(Bandit(1.0, 0.2, 2000), K_ref=1, schedule="periodic", groups_per_step=1, seeds=[0], **run)
    with pytest.raises(ValueError, match="arms: found 0 good"):
        many_arms.arms(
            BANDIT, n_good=0, n_bad=1, K_ref=1, schedule="periodic", groups_per_step=0, seeds=[0], **run
        )  # fmt: skip
