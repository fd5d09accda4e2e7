"""Schemas of the bandit's tables."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.tables import _NOT_NEGATIVE, _POSITIVE, _SHARE, _column, _schema
from grpo_dynamics.theory.lag import SCHEDULES

_ETA = _column(float, "learning rate", _POSITIVE)
_MU = _column(float, "heavy-ball momentum, 0 <= mu < 1", _SHARE)
_K_REF = _column("Int64", "lag (fixed_lag) or refresh interval, optimiser steps", _NOT_NEGATIVE)
_SCHEDULE = _column(str, "fixed_lag, periodic or importance_corrected", pa.Check.isin(SCHEDULES))
_G_OR_NONE = _column("Int64", "group size; empty for the mean field", pa.Check.ge(2), nullable=True)
_REPLICAS = _column("Int64", "independent replicas", _POSITIVE)

FIXED_POINT = _schema(
    "bandit fixed point",
    {
        "G": _G_OR_NONE,
        "theta_star": _column(float, "logit at the fixed point"),
        "p_star": _column(float, "expected reward at the fixed point", _SHARE),
        "K": _column(float, "stiffness -g'(theta*) by a central difference, 1/eta/step", _POSITIVE),
        "K_analytic": _column(float, "the same from the analytic derivative", _POSITIVE),
        "drive_ratio": _column(float, "h_G(p*) / sqrt(p*(1-p*)); 1 for the mean field", _POSITIVE),
        "noise": _column(float, "G v_G(p*); (1-2p*)^2/4, its limit, for the mean field", _NOT_NEGATIVE),
        "stale_share": _column(
            float, "a_stale / a of the importance-corrected schedule; mean field only", nullable=True
        ),
    },
    unique=["G"],
)


def _threshold(kind: str, meaning: str) -> dict[str, pa.Column]:
    return {
        f"a_{kind}_measured": _column(float, f"a = eta K at {meaning}, measured from trajectories", _POSITIVE),
        f"a_{kind}_low": _column(float, "lower end of the bisection's bracket", _POSITIVE),
        f"a_{kind}_high": _column(float, "upper end of the bisection's bracket", _POSITIVE),
        f"a_{kind}_closed": _column(float, f"a at {meaning} in the closed form", _POSITIVE),
        f"a_{kind}_exact": _column(float, f"exact a at {meaning} of the linear update under the schedule", _POSITIVE),
    }


THRESHOLDS = _schema(
    "bandit thresholds",
    {
        "schedule": _SCHEDULE,
        "mu": _MU,
        "K_ref": _K_REF,
        "K": _column(float, "stiffness measured at the fixed point, 1/eta/step", _POSITIVE),
        **_threshold("stability", "the loss of stability"),
        **_threshold("onset", "the onset of oscillation"),
    },
    unique=["schedule", "mu", "K_ref"],
)

TRAJECTORIES = _schema(
    "bandit trajectories",
    {
        "K_ref": _K_REF,
        "eta": _ETA,
        "mu": _MU,
        "schedule": _SCHEDULE,
        "step": _column("Int64", "optimiser step, from 0", _NOT_NEGATIVE),
        "p": _column(float, "expected reward, deterministic mean field", _SHARE),
        "p_predicted": _column(float, "the law with K measured at the fixed point, no fit; may leave 0 .. 1"),
        "regime": _column(
            str,
            "regime measured on a trajectory that starts close to the fixed point",
            pa.Check.isin(["overdamped", "underdamped", "unstable"]),
        ),
        "regime_closed": _column(
            str,
            "regime of the closed form",
            pa.Check.isin(["overdamped", "critical", "underdamped", "unstable"]),
        ),
    },
    unique=["K_ref", "step"],
)

STATIONARY_VARIANCE = _schema(
    "bandit stationary variance",
    {
        "G": _column("Int64", "group size", pa.Check.ge(2)),
        "variance": _column(float, "stationary variance of p, mean over replicas", _POSITIVE),
        "low": _column(float, "lower end of its 95 % interval (Student, over replicas)"),
        "high": _column(float, "upper end of the interval", _POSITIVE),
        "variance_exact": _column(float, "discrete Lyapunov equation with h_G's stiffness and v_G's noise", _POSITIVE),
        "variance_leading_order": _column(float, "D/(2 G C_eff K_eff) with the mean field's K and p*", _POSITIVE),
        "replicas": _REPLICAS,
        "steps": _column("Int64", "recorded optimiser steps of a replica", _POSITIVE),
        "eta": _ETA,
        "mu": _MU,
        "K_ref": _K_REF,
        "groups_per_step": _column("Int64", "groups in a sampled batch", _POSITIVE),
        "p_mean": _column(float, "mean of p in the stationary state", _SHARE),
        "p_star": _column(float, "fixed point of the exact drift", _SHARE),
    },
    unique=["G"],
)

PREDICTIONS = _schema(
    "bandit predictions",
    {
        "eta": _ETA,
        "mu": _MU,
        "K_ref": _K_REF,
        "start": _column(float, "initial expected reward", _SHARE),
        "G": _G_OR_NONE,
        "calibration": _column(
            str, "drift that K and p* were measured on", pa.Check.isin(["mean field", "finite group"])
        ),
        "K": _column(float, "stiffness used, 1/eta/step", _POSITIVE),
        "p_star": _column(float, "plateau used", _SHARE),
        "zeta": _column(float, "damping ratio of the setting in the mean field"),
        "steps": _column("Int64", "optimiser steps that the prediction is scored over", _POSITIVE),
        "replicas": _REPLICAS,
        "r2": _column(float, "R^2 of the prediction against the mean trajectory"),
        "r2_low": _column(float, "lower end of its 95 % interval (jackknife over replicas)"),
        "r2_high": _column(float, "upper end of the interval"),
        "half_rise_measured": _column(float, "step at which the mean covers half of the way to p*", nullable=True),
        "half_rise_low": _column(float, "lower end of its 95 % interval (jackknife over replicas)", nullable=True),
        "half_rise_high": _column(float, "upper end of the interval", nullable=True),
        "half_rise_predicted": _column(float, "the same of the law", _NOT_NEGATIVE),
    },
    unique=["eta", "mu", "K_ref", "start", "G", "calibration"],
)

OVERDAMPED_LIMIT = _schema(
    "overdamped limit",
    {
        "zeta": _column(float, "damping ratio", _POSITIVE),
        "k": _column(float, "rate of the single exponential, w0/(2 zeta), 1/step", _POSITIVE),
        "max_abs_difference": _column(float, "largest |phi(t; w0, zeta) - exp(-k t)| over t", _NOT_NEGATIVE),
        "leading_order": _column(float, "1/(4 zeta^2)", _POSITIVE),
    },
    unique=["zeta"],
)
