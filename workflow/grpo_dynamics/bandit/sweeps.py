"""The bandit's deterministic tables: fixed points, thresholds, trajectories and the overdamped limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from grpo_dynamics.bandit import measure, simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.theory import finite_group, lag, law, oscillator
from grpo_dynamics.theory.lag import Schedule
from grpo_dynamics.theory.oscillator import Array


def fixed_points(bandit: Bandit, *, group_sizes: Sequence[int]) -> pd.DataFrame:
    """Fixed point and stiffness of the mean field (G empty) and of each finite group size; see tables.FIXED_POINT."""
    rows = []
    for G in [None, *group_sizes]:
        member = Bandit(bandit.beta, bandit.p_ref, G)
        theta = member.fixed_point()
        p = float(expit(theta))
        rows.append(
            {
                "G": pd.NA if G is None else G,
                "theta_star": theta,
                "p_star": p,
                "K": member.stiffness_by_difference(),
                "K_analytic": member.stiffness(),
                "drive_ratio": 1.0 if G is None else float(finite_group.h_G(p, G)) / np.sqrt(p * (1 - p)),
                "noise": (1 - 2 * p) ** 2 / 4 if G is None else G * float(finite_group.v_G(p, G)),
                "stale_share": float(lag.stale_stiffness(p)) / member.stiffness() if G is None else np.nan,
            }
        )
    return pd.DataFrame(rows)


def thresholds(
    bandit: Bandit,
    *,
    schedules: Sequence[Schedule],
    mus: Sequence[float],
    K_refs: Sequence[int],
    relative_width: float,
) -> pd.DataFrame:
    """Measured, closed-form and exact thresholds of a = eta K for every schedule, mu and K_ref.

    The measured value is the middle of the bracket that `measure.thresholds` returns, the interval is the bracket;
    eta becomes a by the K that a central difference gives at the fixed point. See tables.THRESHOLDS.
    """
    K = bandit.stiffness_by_difference()
    stale_share = float(lag.stale_stiffness(expit(bandit.fixed_point()))) / K
    closed = {"stability": oscillator.stability_threshold, "onset": oscillator.onset_threshold}
    exact = {"stability": lag.stability_threshold, "onset": lag.onset_threshold}
    rows = []
    for schedule, mu, K_ref in product(schedules, mus, K_refs):
        setting = {"schedule": schedule, "mu": mu, "K_ref": K_ref}
        brackets = measure.thresholds(bandit, **setting, relative_width=relative_width)
        row = {**setting, "K": K}
        for kind in closed:
            low, high = brackets[kind]
            row |= {
                f"a_{kind}_measured": (low + high) / 2,
                f"a_{kind}_low": low,
                f"a_{kind}_high": high,
                f"a_{kind}_closed": float(closed[kind](mu, K_ref)),
                f"a_{kind}_exact": exact[kind](**setting, stale_share=stale_share),
            }
        rows.append(row)
    return pd.DataFrame(rows)


def predict(bandit: Bandit, *, eta: float, mu: float, K_ref: int, start: float, steps: int) -> Array:
    """The three-phase law's p over steps 0 .. `steps`, with no fit.

    w0 and zeta come from the hyperparameters and from the K measured at the fixed point, the plateau is p*.

    Parameters
    ----------
    start : float
        Initial expected reward.
    bandit, eta, mu, K_ref, steps
        As in `simulate.mean_field`; with a group size, K and p* are those of its exact drift.
    """
    a = eta * bandit.stiffness_by_difference()
    w0, zeta = oscillator.natural_frequency(a, mu, K_ref), oscillator.damping_ratio(a, mu, K_ref)
    return law.three_phase(np.arange(steps + 1), start, expit(bandit.fixed_point()), w0, zeta)


def trajectories(
    bandit: Bandit, *, schedule: Schedule, eta: float, mu: float, K_refs: Sequence[int], start: float, steps: int
) -> pd.DataFrame:
    """Mean-field trajectories and the law's predictions across a sweep of K_ref; see tables.TRAJECTORIES.

    Raises
    ------
    ValueError
        If an unstable trajectory leaves the range of doubles.
    """
    theta_star = bandit.fixed_point()
    a = eta * bandit.stiffness_by_difference()
    parts = []
    for K_ref in K_refs:
        setting = {"eta": eta, "mu": mu, "K_ref": K_ref, "schedule": schedule}
        e = simulate.mean_field(bandit, **setting, start=logit(start) - theta_star, steps=steps)
        e = np.pad(e, (0, steps + 1 - len(e)))  # the simulation ends early only where the error has died out
        if not np.all(np.isfinite(e)):
            raise InputError(f"trajectories: K_ref = {K_ref} diverges within {steps} steps, expected fewer steps")
        parts.append(
            pd.DataFrame(
                {
                    **setting,
                    "step": np.arange(steps + 1),
                    "p": expit(theta_star + e),
                    "p_predicted": predict(bandit, eta=eta, mu=mu, K_ref=K_ref, start=start, steps=steps),
                    "regime": measure.regime(bandit, **setting),
                    "regime_closed": str(oscillator.regime(a, mu, K_ref)),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def overdamped_limit(*, zetas: Sequence[float], k: float) -> pd.DataFrame:
    """Largest distance between phi(t; w0, zeta) and exp(-k t) at fixed k = w0/(2 zeta); see tables.OVERDAMPED_LIMIT.

    The distance is taken over a grid of 20000 times, k t from 1e-3/zeta^2 to 40 in equal ratios. Its leading order,
    1/(4 zeta^2), follows from exp(-r1 t) r2/(r2 - r1) with r1 = k (1 + 1/(4 zeta^2) + ...).
    """
    rows = []
    for zeta in zetas:
        t = np.geomspace(1e-3 / zeta**2, 40.0, 20_000) / k
        difference = law.phi(t, 2 * zeta * k, zeta) - law.exponential(t, 1.0, 0.0, k)
        rows.append(
            {
                "zeta": zeta,
                "k": k,
                "max_abs_difference": float(np.max(np.abs(difference))),
                "leading_order": 1 / (4 * zeta**2),
            }
        )
    return pd.DataFrame(rows)
