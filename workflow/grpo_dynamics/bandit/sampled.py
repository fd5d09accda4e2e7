"""The bandit's tables that rest on sampled groups: stationary variance against G, and predictions without a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from grpo_dynamics.bandit import simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.sweeps import predict
from grpo_dynamics.command import InputError
from grpo_dynamics.seeds import derive
from grpo_dynamics.theory import finite_group, lag, law, oscillator
from grpo_dynamics.theory.oscillator import Array

_SETTLED = 10.0  # decay times of the slowest mode that precede the stationary state
_RISES = 3.0  # a prediction is scored over this many times the law's rise to 95 %


def _seeds(seed: int, replicas: int, *names: object) -> NDArray[np.int64]:
    if replicas < 2:
        raise InputError(f"replicas: found {replicas}, expected 2 or more, since intervals rest on them")
    return np.array([derive(seed, *names, replica) for replica in range(replicas)], dtype=np.int64)


def stationary_variance(
    bandit: Bandit,
    *,
    eta: float,
    mu: float,
    K_ref: int,
    group_sizes: Sequence[int],
    groups_per_step: int,
    replicas: int,
    steps: int,
    seed: int,
) -> pd.DataFrame:
    """Stationary variance of p under a fixed lag for each group size; see tables.STATIONARY_VARIANCE.

    Each replica starts at the fixed point of its exact drift and runs ten decay times before `steps` steps are
    recorded. The interval is Student's 95 % interval of the mean over replicas, which are independent.

    Parameters
    ----------
    bandit : Bandit
        With G = None; G is set from `group_sizes`.
    seed : int
        Parent of the replicas' seeds.
    """
    mean_field_p = float(expit(bandit.fixed_point()))
    mean_field_a = eta * bandit.stiffness_by_difference()
    # Groups of G completions have a noise of (1 - 2p)^2/(4 G) to leading order in 1/G (delta method).
    D = eta**2 * (1 - 2 * mean_field_p) ** 2 / 4 / groups_per_step
    rows = []
    for G in group_sizes:
        member = Bandit(bandit.beta, bandit.p_ref, G)
        theta_star, a = member.fixed_point(), eta * member.stiffness_by_difference()
        p_star = float(expit(theta_star))
        noise = eta**2 * float(finite_group.v_G(p_star, G)) / groups_per_step
        exact = lag.stationary_variance(a, mu, K_ref, noise)
        burn_in = int(np.ceil(-_SETTLED / np.log(lag.spectral_radius(lag.companion(a, mu, K_ref)))))
        theta = simulate.groups(
            member,
            eta=eta,
            mu=mu,
            K_ref=K_ref,
            schedule="fixed_lag",
            start=theta_star,
            steps=burn_in + steps,
            groups_per_step=groups_per_step,
            seeds=_seeds(seed, replicas, "stationary variance", G),
        )
        p = expit(theta[:, burn_in + 1 :])
        per_replica = np.mean((p - p.mean()) ** 2, axis=1)
        half = stats.t.ppf(0.975, replicas - 1) * stats.sem(per_replica)
        leading = oscillator.stationary_variance(mean_field_a, mu, K_ref, D, G)
        rows.append(
            {
                "G": G,
                "variance": per_replica.mean(),
                "low": per_replica.mean() - half,
                "high": per_replica.mean() + half,
                "variance_exact": exact * (p_star * (1 - p_star)) ** 2,  # from theta to p
                "variance_leading_order": float(leading) * (mean_field_p * (1 - mean_field_p)) ** 2,
                "replicas": replicas,
                "steps": steps,
                "eta": eta,
                "mu": mu,
                "K_ref": K_ref,
                "groups_per_step": groups_per_step,
                "p_mean": p.mean(),
                "p_star": p_star,
            }
        )
    return pd.DataFrame(rows)


def _half_rise(p: Array, start: float, plateau: float) -> Array:
    """Step at which each row of `p` first covers half of the way, interpolated linearly; NaN where it never does."""
    covered = (np.atleast_2d(p) - start) / (plateau - start)
    reached = covered >= 0.5
    after = np.argmax(reached, axis=1)
    row = np.arange(len(covered))
    before = np.maximum(after - 1, 0)
    low, high = covered[row, before], covered[row, after]
    step = before + (0.5 - low) / np.where(high > low, high - low, 1.0)
    return np.where(reached.any(axis=1), step, np.nan)


def _r2(observed: Array, predicted: Array) -> Array:
    """1 - SS_residual / SS_total of each row of `observed`."""
    observed = np.atleast_2d(observed)
    residual = np.sum((observed - predicted) ** 2, axis=1)
    return 1 - residual / np.sum((observed - observed.mean(axis=1, keepdims=True)) ** 2, axis=1)


def _scores(p: Array, predicted: Array, plateau: float) -> dict[str, float]:
    """R^2 and half-rise time of the mean over replicas (rows of `p`), with 95 % jackknife intervals."""
    n = len(p)
    mean = p.mean(axis=0)
    left_out = mean + (mean - p) / (n - 1) if n > 1 else p
    scores = {"half_rise_predicted": _half_rise(predicted, predicted[0], plateau)[0]}
    for name, low, high, statistic in (
        ("r2", "r2_low", "r2_high", lambda rows: _r2(rows, predicted)),
        ("half_rise_measured", "half_rise_low", "half_rise_high", lambda rows: _half_rise(rows, rows[0, 0], plateau)),
    ):
        value, others = statistic(mean[np.newaxis])[0], statistic(left_out)
        error = np.sqrt((n - 1) / n * np.sum((others - others.mean()) ** 2))
        half = stats.t.ppf(0.975, n - 1) * error if n > 1 else 0.0
        scores |= {name: value, low: value - half, high: value + half}
    return scores


def predictions(
    bandit: Bandit,
    *,
    settings: Sequence[Mapping[str, float]],
    starts: Sequence[float],
    group_sizes: Sequence[int],
    groups_per_step: int,
    replicas: int,
    seed: int,
) -> pd.DataFrame:
    """How well the law predicts mean trajectories with no fit, from eta, mu, K_ref, K and p*; see tables.PREDICTIONS.

    The mean trajectory is the deterministic mean field (G empty), or the mean over replicas trained on sampled groups
    under a fixed lag. For the latter the law is calibrated twice: with K and p* of the mean field, as the leading order
    has it, and with those of the exact finite-group drift. The plateau of the half-rise is the calibration's p*.
    Intervals are 95 % jackknife intervals over the replicas (resampling with replacement would double the noise of the
    mean and so bias R^2); the deterministic mean has no sampling error, and its interval is the value itself.

    Parameters
    ----------
    settings : sequence of {"eta": float, "mu": float, "K_ref": int}
    starts : sequence of float
        Initial expected rewards.
    bandit, group_sizes, groups_per_step, replicas, seed
        As in `stationary_variance`.
    """
    theta_star = bandit.fixed_point()
    rows = []
    for setting in settings:
        a = setting["eta"] * bandit.stiffness_by_difference()
        shape = {"mu": setting["mu"], "K_ref": setting["K_ref"]}
        w0, zeta = float(oscillator.natural_frequency(a, **shape)), float(oscillator.damping_ratio(a, **shape))
        steps = int(np.ceil(_RISES * law.phases(w0, zeta).rapid_rise_end))
        for start in starts:
            for G in [None, *group_sizes]:
                member = Bandit(bandit.beta, bandit.p_ref, G)
                run = {**setting, "schedule": "fixed_lag", "steps": steps}
                if G is None:
                    e = simulate.mean_field(bandit, **run, start=logit(start) - theta_star)
                    p = expit(theta_star + e)[np.newaxis]
                else:
                    names = ("predictions", setting["eta"], setting["mu"], setting["K_ref"], start, G)
                    seeds = _seeds(seed, replicas, *names)
                    theta = simulate.groups(
                        member, **run, start=logit(start), groups_per_step=groups_per_step, seeds=seeds
                    )
                    p = expit(theta)
                calibrations = {"mean field": bandit} if G is None else {"mean field": bandit, "finite group": member}
                for name, source in calibrations.items():
                    p_star = float(expit(source.fixed_point()))
                    predicted = predict(source, **setting, start=start, steps=steps)
                    rows.append(
                        {
                            **setting,
                            "start": start,
                            "G": pd.NA if G is None else G,
                            "calibration": name,
                            "K": source.stiffness_by_difference(),
                            "p_star": p_star,
                            "zeta": zeta,
                            "steps": steps,
                            "replicas": 1 if G is None else replicas,
                            **_scores(p, predicted, p_star),
                        }
                    )
    return pd.DataFrame(rows)
