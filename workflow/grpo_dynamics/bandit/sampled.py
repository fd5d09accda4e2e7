"""The bandit's tables that rest on sampled groups: stiffness, drift and noise, stationary variance, many arms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from grpo_dynamics.bandit import many_arms, measure, simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.replicas import ALPHA, half_width, seeds, sidak
from grpo_dynamics.progress import Progress
from grpo_dynamics.theory import finite_group, lag, oscillator
from grpo_dynamics.theory.finite_group import Std
from grpo_dynamics.theory.lag import Schedule
from grpo_dynamics.theory.oscillator import Array

_SETTLED = 10.0  # decay times of the slowest mode that precede the stationary state


def _variances(run: simulate.Sampled) -> tuple[float, Array]:
    """Mean over all replicas of p - centre, and each replica's mean square deviation of p from that common mean."""
    offset = float(run.mean.mean())
    return offset, run.square - 2 * offset * run.mean + offset**2


def fixed_points(
    bandit: Bandit,
    *,
    group_sizes: Sequence[int],
    groups_per_step: int,
    replicas: int,
    seed: int,
    threads: int = 1,
) -> pd.DataFrame:
    """Fixed point and stiffness of the mean field (G empty) and of each finite group size; see tables.FIXED_POINT.

    K is found three times: by a central difference, analytically, and from simulated relaxations
    (`measure.stiffness_by_perturbation`).

    Parameters
    ----------
    seed : int
        Parent of the replicas' seeds.
    """
    alpha = sidak(ALPHA, len(group_sizes))
    rows = []
    for G in [None, *group_sizes]:
        member = Bandit(bandit.beta, bandit.p_ref, G, bandit.std)
        theta = member.fixed_point()
        p = float(expit(theta))
        own = seeds(seed, replicas, "perturbation", G)
        K, low, high = measure.stiffness_by_perturbation(
            member, groups_per_step=groups_per_step, seeds=own, alpha=alpha, threads=threads
        )
        rows.append(
            {
                "G": pd.NA if G is None else G,
                "std": bandit.std,
                "theta_star": theta,
                "p_star": p,
                "K": member.stiffness_by_difference(),
                "K_analytic": member.stiffness(),
                "K_perturbation": K,
                "K_perturbation_low": low,
                "K_perturbation_high": high,
                "replicas": 1 if G is None else replicas,
                "drive_ratio": 1.0 if G is None else float(finite_group.h_G(p, G, bandit.std)) / np.sqrt(p * (1 - p)),
                "noise": (1 - 2 * p) ** 2 / 4 if G is None else G * float(finite_group.v_G(p, G, bandit.std)),
                "stale_share": member.stale_share(),
            }
        )
    return pd.DataFrame(rows)


def drift(
    bandit: Bandit,
    *,
    stds: Sequence[Std],
    group_sizes: Sequence[int],
    ps: Sequence[float],
    groups: int,
    replicas: int,
    seed: int,
    threads: int = 1,
) -> pd.DataFrame:
    """Drift and noise of sampled groups against the exact sums and their leading order; see tables.DRIFT.

    Each replica draws `groups` groups; their mean and variance are averaged over replicas.

    Parameters
    ----------
    ps : sequence of float
        Probabilities of success of the sampling policy.
    bandit, seed
        As in `stationary_variance`.
    """
    cells = list(product(stds, group_sizes, ps))
    alpha = sidak(ALPHA, 2 * len(cells))
    progress = Progress("drift", len(cells))
    rows = []
    for number, (std, G, p) in enumerate(cells, 1):
        mean, variance = simulate.group_gradients(
            Bandit(bandit.beta, bandit.p_ref, G, std), p=p, groups=groups, threads=threads,
            seeds=seeds(seed, replicas, "drift", std, G, p),
        )  # fmt: skip
        row = {"std": std, "G": G, "p": p}
        for name, values, exact, leading in (
            ("drift", mean, finite_group.h_G(p, G, std), np.sqrt(p * (1 - p))),
            ("noise", G * variance, G * finite_group.v_G(p, G, std), (1 - 2 * p) ** 2 / 4),
        ):
            half = half_width(values, alpha)
            row |= {
                name: values.mean(),
                f"{name}_low": values.mean() - half,
                f"{name}_high": values.mean() + half,
                f"{name}_exact": float(exact),
                f"{name}_leading_order": leading,
            }
        rows.append(row | {"replicas": replicas, "groups": groups})
        progress.report(number)
    return pd.DataFrame(rows)


def stationary_variance(
    bandit: Bandit,
    *,
    schedules: Sequence[Schedule],
    eta: float,
    mu: float,
    K_ref: int,
    group_sizes: Sequence[int],
    groups_per_step: int,
    replicas: int,
    steps: int,
    seed: int,
    threads: int = 1,
) -> pd.DataFrame:
    """Stationary variance of p under each schedule for each group size; see tables.STATIONARY_VARIANCE.

    Each replica starts at the fixed point of its exact drift and runs ten decay times before `steps` steps are
    recorded. The variance is the mean over replicas, which are independent, of (p - p_mean)^2.

    Parameters
    ----------
    bandit : Bandit
        With G = None; G is set from `group_sizes`.
    seed : int
        Parent of the replicas' seeds.
    threads : int
        As in `simulate.groups`.
    """
    mean_field_p = float(expit(bandit.fixed_point()))
    mean_field_a = eta * bandit.stiffness_by_difference()
    # Groups of G completions have a noise of (1 - 2p)^2/(4 G) to leading order in 1/G (delta method).
    D = eta**2 * (1 - 2 * mean_field_p) ** 2 / 4 / groups_per_step
    cells = list(product(schedules, group_sizes))
    progress = Progress("stationary variance", len(cells))
    rows = []
    for number, (schedule, G) in enumerate(cells, 1):
        member = Bandit(bandit.beta, bandit.p_ref, G, bandit.std)
        p_star = float(expit(member.fixed_point()))
        update = (schedule, eta * member.stiffness_by_difference(), mu, K_ref)
        share = member.stale_share() if schedule == "importance_corrected" else 1.0
        noise = eta**2 * float(finite_group.v_G(p_star, G, bandit.std)) / groups_per_step
        exact = lag.stationary_variance(*update, noise, share)
        burn_in = int(np.ceil(_SETTLED / lag.slowest_mode(*update, share).rate))
        run = simulate.groups(
            member, eta=eta, mu=mu, K_ref=K_ref, schedule=schedule, start=member.fixed_point(), steps=burn_in + steps,
            groups_per_step=groups_per_step, seeds=seeds(seed, replicas, "stationary variance", schedule, G),
            burn_in=burn_in, centre=p_star, threads=threads,
        )  # fmt: skip
        offset, per_replica = _variances(run)
        half = half_width(per_replica, sidak(ALPHA, len(cells)))
        leading = float(oscillator.stationary_variance(mean_field_a, mu, K_ref, D, G))
        rows.append(
            {
                "schedule": schedule,
                "G": G,
                "variance": per_replica.mean(),
                "low": per_replica.mean() - half,
                "high": per_replica.mean() + half,
                "error": per_replica.std(ddof=1) / np.sqrt(replicas),
                "variance_exact": float(exact) * (p_star * (1 - p_star)) ** 2,  # from theta to p
                "variance_leading_order": leading * (mean_field_p * (1 - mean_field_p)) ** 2,
                "replicas": replicas,
                "steps": steps,
                "eta": eta,
                "mu": mu,
                "K_ref": K_ref,
                "groups_per_step": groups_per_step,
                "p_mean": p_star + offset,
                "p_star": p_star,
            }
        )
        progress.report(number)
    return pd.DataFrame(rows)


def arms(
    bandit: Bandit,
    *,
    arms: Sequence[tuple[int, int]],
    eta: float,
    mu: float,
    K_ref: int,
    start: float,
    G: int,
    groups_per_step: int,
    replicas: int,
    steps: int,
    seed: int,
    threads: int = 1,
) -> pd.DataFrame:
    """Bandits with a logit per arm against the one-logit bandit at eta times the gain; see tables.ARMS.

    The mean field of the arms is compared over the whole rise from `start`; its stiffness is that of the relaxation
    from beside the fixed point. Sampled groups of `G` give the stationary variance, under a fixed lag. In all of them
    the arms' eta is `eta` over the gain, so that the dynamics of p are the same for all.

    Parameters
    ----------
    arms : sequence of (n_good, n_bad)
        Numbers of arms that are rewarded and that are not.
    eta : float
        Learning rate of the one-logit bandit.
    start : float
        Initial expected reward.
    bandit, mu, K_ref, groups_per_step, replicas, steps, seed, threads
        As in `stationary_variance`.
    """
    member = Bandit(bandit.beta, bandit.p_ref, G, bandit.std)
    star, p_star = member.fixed_point(), float(expit(member.fixed_point()))
    setting = {"mu": mu, "K_ref": K_ref, "schedule": "fixed_lag"}
    one = simulate.mean_field(
        bandit, eta=eta, **setting, start=logit(start) - bandit.fixed_point(), steps=steps, record=True
    ).path
    update = ("fixed_lag", eta * member.stiffness_by_difference(), mu, K_ref)
    noise = eta**2 * float(finite_group.v_G(p_star, G, bandit.std)) / groups_per_step
    exact = float(lag.stationary_variance(*update, noise)) * (p_star * (1 - p_star)) ** 2
    burn_in = int(np.ceil(_SETTLED / lag.slowest_mode(*update).rate))
    rows = []
    for n_good, n_bad in arms:
        gain = 1 / n_good + 1 / n_bad
        own = {"n_good": n_good, "n_bad": n_bad}
        many = many_arms.arms(
            bandit, **own, eta=eta / gain, **setting, start=logit(start), steps=steps, groups_per_step=0, seeds=[0],
            record=True,
        ).path  # fmt: skip
        run = many_arms.arms(
            member, **own, eta=eta / gain, **setting, start=star, steps=burn_in + steps, burn_in=burn_in, centre=p_star,
            groups_per_step=groups_per_step, seeds=seeds(seed, replicas, "arms", n_good, n_bad), threads=threads,
        )  # fmt: skip
        _, per_replica = _variances(run)
        half = half_width(per_replica, sidak(ALPHA, len(arms)))
        rows.append(
            {
                **own,
                "gain": gain,
                "K": gain * bandit.stiffness_by_difference(),
                "K_perturbation": measure.stiffness_of_arms(bandit, **own),
                "max_abs_difference": float(np.max(np.abs(many[0] - expit(bandit.fixed_point() + one)))),
                "G": G,
                "variance": per_replica.mean(),
                "low": per_replica.mean() - half,
                "high": per_replica.mean() + half,
                "variance_exact": exact,
                "replicas": replicas,
                "steps": steps,
            }
        )
    return pd.DataFrame(rows)
