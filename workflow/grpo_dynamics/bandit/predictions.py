"""How well the law predicts the bandit's mean trajectories with no fit, from the hyperparameters and K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit, logit

from grpo_dynamics.bandit import simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.replicas import ALPHA, seeds
from grpo_dynamics.bandit.sweeps import half_rise, predict
from grpo_dynamics.theory import law, oscillator
from grpo_dynamics.theory.oscillator import Array

_RISES = 3.0  # a prediction is scored over this many times the law's rise to 95 %


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
    scores = {"half_rise_predicted": half_rise(predicted, predicted[0], plateau)[0]}
    for name, low, high, statistic in (
        ("r2", "r2_low", "r2_high", lambda rows: _r2(rows, predicted)),
        ("half_rise_measured", "half_rise_low", "half_rise_high", lambda rows: half_rise(rows, rows[0, 0], plateau)),
    ):
        value, others = statistic(mean[np.newaxis])[0], statistic(left_out)
        error = np.sqrt((n - 1) / n * np.sum((others - others.mean()) ** 2))
        half = stats.t.ppf(1 - ALPHA / 2, n - 1) * error if n > 1 else 0.0
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
    threads: int = 1,
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
    bandit, group_sizes, groups_per_step, replicas, seed, threads
        As in `sampled.stationary_variance`.
    """
    theta_star = bandit.fixed_point()
    rows = []
    for setting in settings:
        a = setting["eta"] * bandit.stiffness_by_difference()
        shape = {"mu": setting["mu"], "K_ref": setting["K_ref"]}
        w0, zeta = float(oscillator.natural_frequency(a, **shape)), float(oscillator.damping_ratio(a, **shape))
        steps = int(np.ceil(_RISES * law.phases(w0, zeta).rapid_rise_end))  # the mean field's, for all predictions
        for start in starts:
            for G in [None, *group_sizes]:
                member = Bandit(bandit.beta, bandit.p_ref, G, bandit.std)
                run = {**setting, "schedule": "fixed_lag", "steps": steps}
                if G is None:
                    e = simulate.mean_field(bandit, **run, start=logit(start) - theta_star, record=True).path
                    p = expit(theta_star + e)[np.newaxis]
                else:
                    names = ("predictions", setting["eta"], setting["mu"], setting["K_ref"], start, G)
                    p = simulate.groups(
                        member, **run, start=logit(start), groups_per_step=groups_per_step,
                        seeds=seeds(seed, replicas, *names), record=True, threads=threads,
                    ).path  # fmt: skip
                calibrations = {"mean field": bandit} if G is None else {"mean field": bandit, "finite group": member}
                for name, source in calibrations.items():
                    p_star = float(expit(source.fixed_point()))
                    predicted = predict(source, **setting, start=start, steps=steps)
                    K = source.stiffness_by_difference()
                    rows.append(
                        {
                            **setting,
                            "start": start,
                            "G": pd.NA if G is None else G,
                            "calibration": name,
                            "K": K,
                            "p_star": p_star,
                            "zeta": float(oscillator.damping_ratio(setting["eta"] * K, **shape)),
                            "steps": steps,
                            "replicas": 1 if G is None else replicas,
                            **_scores(p, predicted, p_star),
                        }
                    )
    return pd.DataFrame(rows)
