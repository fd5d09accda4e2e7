"""Schemas of the bandit's tables."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.tables import NOT_NEGATIVE, POSITIVE, SHARE, column, schema
from grpo_dynamics.theory.lag import SCHEDULES

_ETA = column(float, "learning rate", POSITIVE)
_MU = column(float, "heavy-ball momentum, 0 <= mu < 1", SHARE)
_K_REF = column("Int64", "lag (fixed_lag) or refresh interval, optimiser steps", NOT_NEGATIVE)
_SCHEDULE = column(str, "fixed_lag, periodic or importance_corrected", pa.Check.isin(SCHEDULES))
_G_OR_NONE = column("Int64", "group size; empty for the mean field", pa.Check.ge(2), nullable=True)
_REPLICAS = column("Int64", "independent replicas", POSITIVE)

FIXED_POINT = schema(
    "bandit fixed point",
    {
        "G": _G_OR_NONE,
        "theta_star": column(float, "logit at the fixed point"),
        "p_star": column(float, "expected reward at the fixed point", SHARE),
        "K": column(float, "stiffness -g'(theta*) by a central difference, 1/eta/step", POSITIVE),
        "K_analytic": column(float, "the same from the analytic derivative", POSITIVE),
        "drive_ratio": column(float, "h_G(p*) / sqrt(p*(1-p*)); 1 for the mean field", POSITIVE),
        "noise": column(float, "G v_G(p*); (1-2p*)^2/4, its limit, for the mean field", NOT_NEGATIVE),
        "stale_share": column(
            float, "a_stale / a of the importance-corrected schedule; mean field only", nullable=True
        ),
    },
    unique=["G"],
)


def _threshold(kind: str, meaning: str) -> dict[str, pa.Column]:
    return {
        f"a_{kind}_measured": column(float, f"a = eta K at {meaning}, measured from trajectories", POSITIVE),
        f"a_{kind}_low": column(float, "lower end of the bisection's bracket", POSITIVE),
        f"a_{kind}_high": column(float, "upper end of the bisection's bracket", POSITIVE),
        f"a_{kind}_closed": column(float, f"a at {meaning} in the closed form", POSITIVE),
        f"a_{kind}_exact": column(float, f"exact a at {meaning} of the linear update under the schedule", POSITIVE),
    }


THRESHOLDS = schema(
    "bandit thresholds",
    {
        "schedule": _SCHEDULE,
        "mu": _MU,
        "K_ref": _K_REF,
        "K": column(float, "stiffness measured at the fixed point, 1/eta/step", POSITIVE),
        **_threshold("stability", "the loss of stability"),
        **_threshold("onset", "the onset of oscillation"),
    },
    unique=["schedule", "mu", "K_ref"],
)

TRAJECTORIES = schema(
    "bandit trajectories",
    {
        "K_ref": _K_REF,
        "eta": _ETA,
        "mu": _MU,
        "schedule": _SCHEDULE,
        "step": column("Int64", "optimiser step, from 0", NOT_NEGATIVE),
        "p": column(float, "expected reward, deterministic mean field", SHARE),
        "p_predicted": column(float, "the law with K measured at the fixed point, no fit; may leave 0 .. 1"),
        "regime": column(
            str,
            "regime measured on a trajectory that starts close to the fixed point",
            pa.Check.isin(["overdamped", "underdamped", "unstable"]),
        ),
        "regime_closed": column(
            str,
            "regime of the closed form",
            pa.Check.isin(["overdamped", "critical", "underdamped", "unstable"]),
        ),
    },
    unique=["K_ref", "step"],
)

STATIONARY_VARIANCE = schema(
    "bandit stationary variance",
    {
        "G": column("Int64", "group size", pa.Check.ge(2)),
        "variance": column(float, "stationary variance of p, mean over replicas", POSITIVE),
        "low": column(float, "lower end of its 95 % interval (Student, over replicas)"),
        "high": column(float, "upper end of the interval", POSITIVE),
        "variance_exact": column(float, "discrete Lyapunov equation with h_G's stiffness and v_G's noise", POSITIVE),
        "variance_leading_order": column(float, "D/(2 G C_eff K_eff) with the mean field's K and p*", POSITIVE),
        "replicas": _REPLICAS,
        "steps": column("Int64", "recorded optimiser steps of a replica", POSITIVE),
        "eta": _ETA,
        "mu": _MU,
        "K_ref": _K_REF,
        "groups_per_step": column("Int64", "groups in a sampled batch", POSITIVE),
        "p_mean": column(float, "mean of p in the stationary state", SHARE),
        "p_star": column(float, "fixed point of the exact drift", SHARE),
    },
    unique=["G"],
)

PREDICTIONS = schema(
    "bandit predictions",
    {
        "eta": _ETA,
        "mu": _MU,
        "K_ref": _K_REF,
        "start": column(float, "initial expected reward", SHARE),
        "G": _G_OR_NONE,
        "calibration": column(
            str, "drift that K and p* were measured on", pa.Check.isin(["mean field", "finite group"])
        ),
        "K": column(float, "stiffness used, 1/eta/step", POSITIVE),
        "p_star": column(float, "plateau used", SHARE),
        "zeta": column(float, "damping ratio of the setting in the mean field"),
        "steps": column("Int64", "optimiser steps that the prediction is scored over", POSITIVE),
        "replicas": _REPLICAS,
        "r2": column(float, "R^2 of the prediction against the mean trajectory"),
        "r2_low": column(float, "lower end of its 95 % interval (jackknife over replicas)"),
        "r2_high": column(float, "upper end of the interval"),
        "half_rise_measured": column(float, "step at which the mean covers half of the way to p*", nullable=True),
        "half_rise_low": column(float, "lower end of its 95 % interval (jackknife over replicas)", nullable=True),
        "half_rise_high": column(float, "upper end of the interval", nullable=True),
        "half_rise_predicted": column(float, "the same of the law", NOT_NEGATIVE),
    },
    unique=["eta", "mu", "K_ref", "start", "G", "calibration"],
)

OVERDAMPED_LIMIT = schema(
    "overdamped limit",
    {
        "zeta": column(float, "damping ratio", POSITIVE),
        "k": column(float, "rate of the single exponential, w0/(2 zeta), 1/step", POSITIVE),
        "max_abs_difference": column(float, "largest |phi(t; w0, zeta) - exp(-k t)| over t", NOT_NEGATIVE),
        "leading_order": column(float, "1/(4 zeta^2)", POSITIVE),
    },
    unique=["zeta"],
)
