"""The bandit's deterministic tables: thresholds, trajectories, finite steps, clipping and the overdamped limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from grpo_dynamics.bandit import measure, simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.progress import Progress
from grpo_dynamics.theory import lag, law, oscillator
from grpo_dynamics.theory import thresholds as exact_thresholds
from grpo_dynamics.theory.lag import Schedule
from grpo_dynamics.theory.oscillator import Array

_FALLEN = 10.0  # e-foldings of the slower of two trajectories over which they are compared
_LONGEST = 20_000  # steps of such a comparison, at most


def thresholds(
    bandit: Bandit,
    *,
    schedules: Sequence[Schedule],
    mus: Sequence[float],
    K_refs: Sequence[int],
    relative_width: float,
) -> pd.DataFrame:
    """Measured, closed-form and exact thresholds of a = eta K for every schedule, mu and K_ref.

    Values and intervals are those of `measure.thresholds`; eta becomes a by the K that a central difference gives at
    the fixed point. The closed form is given at K_ref and at the mean age of the samples. See tables.THRESHOLDS.
    """
    K = bandit.stiffness_by_difference()
    stale_share = bandit.stale_share()
    closed = {"stability": oscillator.stability_threshold, "onset": oscillator.onset_threshold}
    exact = {"stability": exact_thresholds.stability_threshold, "onset": exact_thresholds.onset_threshold}
    cells = list(product(schedules, mus, K_refs))
    progress = Progress("thresholds", len(cells))
    rows = []
    for number, (schedule, mu, K_ref) in enumerate(cells, 1):
        found = measure.thresholds(bandit, schedule=schedule, mu=mu, K_ref=K_ref, relative_width=relative_width)
        age = float(lag.mean_age(schedule, K_ref))
        share = stale_share if schedule == "importance_corrected" else 1.0
        row = {"schedule": schedule, "mu": mu, "K_ref": K_ref, "mean_age": age, "K": K}
        for kind in closed:
            value, low, high = found[kind]
            at_age = float(closed[kind](mu, age))
            row |= {
                f"a_{kind}_measured": value,
                f"a_{kind}_low": low,
                f"a_{kind}_high": high,
                f"a_{kind}_closed": float(closed[kind](mu, K_ref)),
                f"a_{kind}_closed_at_age": at_age if np.isfinite(at_age) else np.nan,
                f"a_{kind}_exact": float(exact[kind](schedule, mu, K_ref, share)),
            }
        rows.append(row)
        progress.report(number)
    return pd.DataFrame(rows)


def finite_step(
    bandit: Bandit, *, mus: Sequence[float], K_refs: Sequence[int], shares: Sequence[float]
) -> pd.DataFrame:
    """Where the expansion to second order in the step and the lag breaks, as a = eta K grows; see tables.FINITE_STEP.

    The simulated bandit, under a fixed lag and close to its fixed point, is compared with the oscillator of the same
    hyperparameters: by its slowest mode, and by the largest distance of the two trajectories over the time in which the
    slower of them falls to exp(-10).

    Parameters
    ----------
    shares : sequence of float
        Values of a, as shares of the closed form's stability threshold.
    """
    K = bandit.stiffness_by_difference()
    rows = []
    for mu, K_ref, share in product(mus, K_refs, shares):
        a = share * float(oscillator.stability_threshold(mu, K_ref))
        setting = {"eta": a / K, "mu": mu, "K_ref": K_ref, "schedule": "fixed_lag"}
        rate, frequency = measure.slowest_mode(bandit, **setting)
        closed, exact = oscillator.slowest_mode(a, mu, K_ref), lag.slowest_mode("fixed_lag", a, mu, K_ref)
        slowest = min(abs(rate), abs(float(closed.rate)))
        steps = int(np.ceil(min(_FALLEN / max(slowest, 1e-12), _LONGEST)))
        start = 1e-8
        e = simulate.mean_field(bandit, **setting, start=start, steps=steps, record=True).path / start
        w0, zeta = oscillator.natural_frequency(a, mu, K_ref), oscillator.damping_ratio(a, mu, K_ref)
        rows.append(
            {
                "mu": mu,
                "K_ref": K_ref,
                "a": a,
                "share": share,
                "regime_closed": str(oscillator.regime(a, mu, K_ref)),
                "rate_measured": rate,
                "rate_closed": float(closed.rate),
                "rate_exact": float(exact.rate),
                "frequency_measured": frequency,
                "frequency_closed": float(closed.frequency),
                "frequency_exact": float(exact.frequency),
                "max_abs_difference": float(np.max(np.abs(e - law.phi(np.arange(steps + 1), w0, zeta)))),
            }
        )
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
        e = simulate.mean_field(bandit, **setting, start=logit(start) - theta_star, steps=steps, record=True).path
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


def half_rise(p: Array, start: float, plateau: float) -> Array:
    """Step at which each row of `p` first covers half of the way, interpolated linearly; NaN where it never does."""
    covered = (np.atleast_2d(p) - start) / (plateau - start)
    reached = covered >= 0.5
    after = np.argmax(reached, axis=1)
    row = np.arange(len(covered))
    before = np.maximum(after - 1, 0)
    low, high = covered[row, before], covered[row, after]
    step = before + (0.5 - low) / np.where(high > low, high - low, 1.0)
    return np.where(reached.any(axis=1), step, np.nan)


def clipping(
    bandit: Bandit,
    *,
    mus: Sequence[float],
    K_refs: Sequence[int],
    etas: Sequence[float],
    clips: Sequence[float],
    start: float,
    steps: int,
) -> pd.DataFrame:
    """What the clipped ratio does to the rise and the end of the importance-corrected bandit; see tables.CLIPPING.

    Parameters
    ----------
    clips : sequence of float
        Values of epsilon; each is compared with no clipping.
    start : float
        Initial expected reward.
    bandit, mus, K_refs, etas, steps
        As in `simulate.mean_field`.
    """
    K, theta_star = bandit.stiffness_by_difference(), bandit.fixed_point()
    p_star = float(expit(theta_star))
    rows = []
    for mu, K_ref, eta, clip in product(mus, K_refs, etas, [None, *clips]):
        setting = {"schedule": "importance_corrected", "mu": mu, "K_ref": K_ref, "eta": eta}
        e = simulate.mean_field(
            bandit, **setting, start=logit(start) - theta_star, steps=steps, clip=clip, record=True
        ).path
        p = expit(theta_star + e)
        last = p[-(steps // 4) :]
        rows.append(
            {
                "mu": mu,
                "K_ref": K_ref,
                "eta": eta,
                "a": eta * K,
                "clip": np.nan if clip is None else clip,
                "half_rise": half_rise(p, start, p_star)[0],
                "amplitude": float(np.ptp(last)),
                "p_mean": float(last.mean()),
                "p_star": p_star,
                "start": start,
                "steps": steps,
            }
        )
    return pd.DataFrame(rows)


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
