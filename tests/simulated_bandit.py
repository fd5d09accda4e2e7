"""Simulated tables of the bandit: exact values of the theory, measurements close to them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics import tables
from grpo_dynamics.bandit import tables as schemas
from grpo_dynamics.theory import finite_group, law, oscillator
from grpo_dynamics.theory import thresholds as exact_thresholds
from grpo_dynamics.theory.lag import SCHEDULES

K = 0.1326  # of the default bandit, 1/eta/step
STALE_SHARE = -0.637
RNG = np.random.default_rng(0)


def near(value, relative=0.002):
    return float(value * (1 + relative * RNG.uniform(-1, 1)))


def thresholds(schedules=SCHEDULES, mus=(0.0, 0.5, 0.9), K_refs=(1, 2, 3, 4, 8)):
    rows = []
    for schedule, mu, K_ref in ((s, m, k) for s in schedules for m in mus for k in K_refs):
        age = K_ref if schedule == "fixed_lag" else (K_ref - 1) / 2
        stale_share = STALE_SHARE if schedule == "importance_corrected" else 1.0
        row = {"schedule": schedule, "mu": mu, "K_ref": K_ref, "mean_age": age, "K": K}
        for kind in ("stability", "onset"):
            exact = getattr(exact_thresholds, f"{kind}_threshold")(schedule, mu, K_ref, stale_share)
            closed = getattr(oscillator, f"{kind}_threshold")
            measured, at_age = near(exact), float(closed(mu, age))
            row |= {
                f"a_{kind}_measured": measured,
                f"a_{kind}_low": 0.99 * measured,
                f"a_{kind}_high": 1.02 * measured,
                f"a_{kind}_closed": float(closed(mu, K_ref)),
                f"a_{kind}_closed_at_age": at_age if np.isfinite(at_age) else np.nan,
                f"a_{kind}_exact": exact,
            }
        rows.append(row)
    return tables.check(pd.DataFrame(rows), schemas.THRESHOLDS)


def trajectories(K_refs=(1, 8, 20, 32), eta=0.225, mu=0.5, steps=120):
    rows, a = [], eta * K
    for K_ref in K_refs:
        e = np.full(steps + K_ref + 2, -0.08)
        for n in range(K_ref + 1, len(e) - 1):
            e[n + 1] = e[n] + mu * (e[n] - e[n - 1]) - a * e[n - K_ref]
        w0, zeta = oscillator.natural_frequency(a, mu, K_ref), oscillator.damping_ratio(a, mu, K_ref)
        t = np.arange(steps + 1)
        onset, stability = (
            exact_thresholds.onset_threshold("fixed_lag", mu, K_ref),
            exact_thresholds.stability_threshold("fixed_lag", mu, K_ref),
        )
        measured = "unstable" if a > stability else "underdamped" if a > onset else "overdamped"
        part = pd.DataFrame(
            {
                "K_ref": K_ref, "eta": eta, "mu": mu, "schedule": "fixed_lag", "step": t,
                "p": np.clip(0.68 + e[K_ref + 1 :][: steps + 1], 0, 1),
                "p_predicted": 0.68 - 0.08 * law.phi(t, w0, zeta),
                "regime": measured,
                "regime_closed": str(oscillator.regime(a, mu, K_ref)),
            }
        )  # fmt: skip
        rows.append(part)
    return tables.check(pd.concat(rows, ignore_index=True), schemas.TRAJECTORIES)


def stationary_variance(schedules=SCHEDULES, sizes=(4, 8, 16, 32, 64, 128, 256)):
    rows = []
    for schedule, G in ((s, g) for s in schedules for g in sizes):
        leading = 1.75e-4 / G
        exact = leading * (1 + 20 / G**2)
        variance = near(exact, 0.01)
        rows.append(
            {
                "schedule": schedule, "G": G, "variance": variance, "low": 0.98 * variance, "high": 1.02 * variance,
                "error": 0.008 * variance, "variance_exact": exact, "variance_leading_order": leading,
                "replicas": 64, "steps": 4000, "eta": 0.225, "mu": 0.5, "K_ref": 1, "groups_per_step": 16,
                "p_mean": 0.68, "p_star": 0.68,
            }
        )  # fmt: skip
    return tables.check(pd.DataFrame(rows), schemas.STATIONARY_VARIANCE)


def drift(
    stds=finite_group.STDS, sizes=(2, 4, 8, 16, 64), shares=(0.05, 0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85, 0.95)
):
    rows = []
    for std, G, p in ((s, g, p) for s in stds for g in sizes for p in shares):
        h, v = float(finite_group.h_G(p, G, std)), G * float(finite_group.v_G(p, G, std))
        rows.append(
            {
                "std": std, "G": G, "p": p,
                "drift": h + 1e-4, "drift_low": h - 2e-3, "drift_high": h + 2e-3, "drift_exact": h,
                "drift_leading_order": np.sqrt(p * (1 - p)),
                "noise": v, "noise_low": 0.99 * v, "noise_high": 1.01 * v, "noise_exact": v,
                "noise_leading_order": (1 - 2 * p) ** 2 / 4, "replicas": 64, "groups": 10000,
            }
        )  # fmt: skip
    return tables.check(pd.DataFrame(rows), schemas.DRIFT)


def leading_mode(roots):
    """Decay rate and angular frequency of the eigenvalue of largest modulus."""
    root = roots[np.argmax(np.abs(roots))]
    return -np.log(np.abs(root)), abs(np.angle(root))


def finite_step(mus=(0.0, 0.5, 0.9), K_refs=(1, 4, 16), shares=(0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)):
    rows = []
    for mu, K_ref, share in ((m, k, s) for m in mus for k in K_refs for s in shares):
        a = share * float(oscillator.stability_threshold(mu, K_ref))
        M, C, stiffness = oscillator.coefficients(a, mu, K_ref)
        rate_closed, frequency_closed = leading_mode(np.exp(np.roots([M, C, stiffness])))
        polynomial = np.array([1, -(1 + mu), mu, *np.zeros(K_ref - 1)])  # of the update under a fixed lag, section 3
        polynomial[-1] += a
        rate, frequency = leading_mode(np.roots(polynomial))
        rows.append(
            {
                "mu": mu, "K_ref": K_ref, "a": a, "share": share,
                "regime_closed": str(oscillator.regime(a, mu, K_ref)),
                "rate_measured": near(rate), "rate_closed": rate_closed, "rate_exact": rate,
                "frequency_measured": near(frequency), "frequency_closed": frequency_closed,
                "frequency_exact": frequency, "max_abs_difference": 0.02 + 0.5 * share**2,
            }
        )  # fmt: skip
    return tables.check(pd.DataFrame(rows), schemas.FINITE_STEP)
