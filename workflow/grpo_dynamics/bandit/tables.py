"""Schemas of the bandit's tables."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.tables import NOT_NEGATIVE, POSITIVE, SHARE, column, schema
from grpo_dynamics.theory.finite_group import STDS
from grpo_dynamics.theory.lag import SCHEDULES

_ETA = column(float, "learning rate", POSITIVE)
_MU = column(float, "heavy-ball momentum, 0 <= mu < 1", SHARE)
_K_REF = column("Int64", "lag (fixed_lag) or refresh interval, optimiser steps", NOT_NEGATIVE)
_SCHEDULE = column(str, "fixed_lag, periodic or importance_corrected", pa.Check.isin(SCHEDULES))
_G_OR_NONE = column("Int64", "group size; empty for the mean field", pa.Check.ge(2), nullable=True)
_REPLICAS = column("Int64", "independent replicas", POSITIVE)
_GROUPS = column("Int64", "groups in a sampled batch", POSITIVE)
_STD = column(str, "standard deviation that advantages are divided by", pa.Check.isin(STDS))
_FAMILY = "of its interval; the table's intervals hold together with 95 % (Sidak), Student's t over replicas"

FIXED_POINT = schema(
    "bandit fixed point",
    {
        "G": _G_OR_NONE,
        "std": _STD,
        "theta_star": column(float, "logit at the fixed point"),
        "p_star": column(float, "expected reward at the fixed point", SHARE),
        "K": column(float, "stiffness -g'(theta*) by a central difference, 1/eta/step", POSITIVE),
        "K_analytic": column(float, "the same from the analytic derivative", POSITIVE),
        "K_perturbation": column(
            float, "the same from the relaxation of simulated runs that start beside theta*, on either side", POSITIVE
        ),
        "K_perturbation_low": column(float, f"lower end {_FAMILY}; the value itself for the mean field"),
        "K_perturbation_high": column(float, "upper end of the interval", POSITIVE),
        "replicas": _REPLICAS,
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
        f"a_{kind}_low": column(
            float, "lower end of the bisection's bracket, widened by the horizon's reach", POSITIVE
        ),
        f"a_{kind}_high": column(float, "upper end of the bracket", POSITIVE),
        f"a_{kind}_closed": column(float, f"a at {meaning} in the closed form", POSITIVE),
        f"a_{kind}_closed_at_age": column(
            float, "the closed form with the mean age in place of K_ref; empty where infinite", POSITIVE, nullable=True
        ),
        f"a_{kind}_exact": column(float, f"exact a at {meaning} of the linear update under the schedule", POSITIVE),
    }


THRESHOLDS = schema(
    "bandit thresholds",
    {
        "schedule": _SCHEDULE,
        "mu": _MU,
        "K_ref": _K_REF,
        "mean_age": column(
            float, "mean age of the samples, steps: K_ref for fixed_lag, else (K_ref - 1)/2", NOT_NEGATIVE
        ),
        "K": column(float, "stiffness measured at the fixed point, 1/eta/step", POSITIVE),
        **_threshold("stability", "the loss of stability"),
        **_threshold("onset", "the onset of oscillation"),
    },
    unique=["schedule", "mu", "K_ref"],
)

_REGIME_CLOSED = column(
    str, "regime of the closed form", pa.Check.isin(["overdamped", "critical", "underdamped", "unstable"])
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
        "regime_closed": _REGIME_CLOSED,
    },
    unique=["K_ref", "step"],
)

DRIFT = schema(
    "bandit drift",
    {
        "std": _STD,
        "G": column("Int64", "group size", pa.Check.ge(2)),
        "p": column(float, "probability of success of the sampling policy", SHARE),
        "drift": column(float, "mean gradient of a sampled group, per unit of theta"),
        "drift_low": column(float, f"lower end {_FAMILY}"),
        "drift_high": column(float, "upper end of the interval"),
        "drift_exact": column(float, "h_G(p), the exact finite sum", NOT_NEGATIVE),
        "drift_leading_order": column(float, "sqrt(p(1-p)), its limit for large G", NOT_NEGATIVE),
        "noise": column(float, "G times the variance of a sampled group's gradient", NOT_NEGATIVE),
        "noise_low": column(float, f"lower end {_FAMILY}"),
        "noise_high": column(float, "upper end of the interval", NOT_NEGATIVE),
        "noise_exact": column(float, "G v_G(p), the exact finite sum", NOT_NEGATIVE),
        "noise_leading_order": column(float, "(1-2p)^2/4, its limit for large G", NOT_NEGATIVE),
        "replicas": _REPLICAS,
        "groups": column("Int64", "groups sampled by a replica", POSITIVE),
    },
    unique=["std", "G", "p"],
)

STATIONARY_VARIANCE = schema(
    "bandit stationary variance",
    {
        "schedule": _SCHEDULE,
        "G": column("Int64", "group size", pa.Check.ge(2)),
        "variance": column(float, "stationary variance of p, mean over replicas", POSITIVE),
        "low": column(float, f"lower end {_FAMILY}"),
        "high": column(float, "upper end of the interval", POSITIVE),
        "error": column(float, "standard error of the mean over replicas", POSITIVE),
        "variance_exact": column(float, "discrete Lyapunov equation with h_G's stiffness and v_G's noise", POSITIVE),
        "variance_leading_order": column(float, "D/(2 G C_eff K_eff) with the mean field's K and p*", POSITIVE),
        "replicas": _REPLICAS,
        "steps": column("Int64", "recorded optimiser steps of a replica", POSITIVE),
        "eta": _ETA,
        "mu": _MU,
        "K_ref": _K_REF,
        "groups_per_step": _GROUPS,
        "p_mean": column(float, "mean of p in the stationary state", SHARE),
        "p_star": column(float, "fixed point of the exact drift", SHARE),
    },
    unique=["schedule", "G"],
)

FINITE_STEP = schema(
    "bandit finite step",
    {
        "mu": _MU,
        "K_ref": _K_REF,
        "a": column(float, "stiffness per step, eta K", POSITIVE),
        "share": column(float, "a over the closed form's stability threshold", POSITIVE),
        "regime_closed": _REGIME_CLOSED,
        "rate_measured": column(float, "decay rate of the slowest mode of a simulated trajectory, 1/step"),
        "rate_closed": column(float, "the same of the oscillator"),
        "rate_exact": column(float, "the same of the linear update under a fixed lag"),
        "frequency_measured": column(
            float,
            "angular frequency of the slowest mode of a simulated trajectory, 1/step; 0 is monotone",
            NOT_NEGATIVE,
        ),
        "frequency_closed": column(float, "the same of the oscillator", NOT_NEGATIVE),
        "frequency_exact": column(float, "the same of the linear update under a fixed lag", NOT_NEGATIVE),
        "max_abs_difference": column(
            float, "largest distance of the law from the simulated e/e(0), both from rest, until they have died out"
        ),
    },
    unique=["mu", "K_ref", "share"],
)

CLIPPING = schema(
    "bandit clipping",
    {
        "mu": _MU,
        "K_ref": _K_REF,
        "eta": _ETA,
        "a": column(float, "stiffness per step, eta K", POSITIVE),
        "clip": column(float, "epsilon of the clipped ratio; empty without clipping", POSITIVE, nullable=True),
        "half_rise": column(
            float, "step at which p covers half of the way from the start to p_star; empty if never", nullable=True
        ),
        "amplitude": column(float, "largest less smallest p over the last quarter of the steps", SHARE),
        "p_mean": column(float, "mean p over the last quarter of the steps", SHARE),
        "p_star": column(float, "fixed point", SHARE),
        "start": column(float, "initial expected reward", SHARE),
        "steps": column("Int64", "optimiser steps", POSITIVE),
    },
    unique=["mu", "K_ref", "eta", "clip"],
)

ARMS = schema(
    "bandit arms",
    {
        "n_good": column("Int64", "arms that are rewarded", POSITIVE),
        "n_bad": column("Int64", "arms that are not", POSITIVE),
        "gain": column(float, "1/n_good + 1/n_bad, which multiplies eta in the one-logit bandit", POSITIVE),
        "K": column(float, "stiffness of the one-logit bandit times the gain, 1/eta/step", POSITIVE),
        "K_perturbation": column(float, "stiffness of the arms' own relaxation, 1/eta/step", POSITIVE),
        "max_abs_difference": column(
            float, "largest distance of p from the one-logit bandit's at eta times the gain", NOT_NEGATIVE
        ),
        "G": column("Int64", "group size of the sampled runs", pa.Check.ge(2)),
        "variance": column(float, "stationary variance of p with sampled groups, mean over replicas", POSITIVE),
        "low": column(float, f"lower end {_FAMILY}"),
        "high": column(float, "upper end of the interval", POSITIVE),
        "variance_exact": column(float, "discrete Lyapunov equation of the one-logit bandit", POSITIVE),
        "replicas": _REPLICAS,
        "steps": column("Int64", "recorded optimiser steps of a replica", POSITIVE),
    },
    unique=["n_good", "n_bad"],
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
        "zeta": column(float, "damping ratio of the closed form with this K"),
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
