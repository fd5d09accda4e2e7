"""How far a setting is from the loss of stability and the onset of oscillation, in a, in eta and in K_ref."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from grpo_dynamics.analysis.own_band import NAN, Estimate
from grpo_dynamics.analysis.own_calibration import Calibration, Setting
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.theory import lag, oscillator, thresholds
from grpo_dynamics.theory.finite_group import h_G

SCHEDULES = {  # in words
    "closed_form": "closed form",
    "fixed_lag": "exact, fixed lag",
    "periodic": "exact, batch reused",
    "importance_corrected": "exact, reused with ratios",
}
# K_ref up to which the largest allowed one is looked for. Under importance correction the thresholds do not fall
# steadily with K_ref, so that each is computed.
SEARCHED = {"closed_form": 10**6, "fixed_lag": 10**6, "periodic": 10**6, "importance_corrected": 64}


@dataclass(frozen=True)
class Reach:
    """The thresholds of a lag schedule at the setting's mu and K_ref, and how far the setting is from them.

    Attributes
    ----------
    schedule : str
        closed_form (the expansion), or, exactly: fixed_lag, periodic (a batch reused for K_ref steps),
        importance_corrected (the same with ratios pi/pi_old).
    mean_age : float
        Mean age of the gradient that acts, steps.
    regime : str
        monotone, oscillating or unstable; empty where a is not known.
    stability_a, onset_a : float
        a = eta K at which stability is lost, and at which oscillation starts.
    stability_eta, onset_eta : Estimate
        The same as learning rates, with the interval that K leaves.
    stability_factor, onset_factor : float
        The same over the setting's eta.
    stability_K_ref, onset_K_ref : float
        Largest K_ref, at this eta, up to which every one is stable, or free of oscillation: 0 for none, inf for all
        up to `searched`.
    searched : int
    deviation : float
        Standard deviation of the stationary fluctuation; inf where unstable, NaN where D or G is not known.
    """

    schedule: str
    mean_age: float
    regime: str
    stability_a: float
    onset_a: float
    stability_eta: Estimate
    onset_eta: Estimate
    stability_factor: float
    onset_factor: float
    stability_K_ref: float
    onset_K_ref: float
    searched: int
    deviation: float


def stale_share(calibration: Calibration | None) -> tuple[float, str]:
    """a_stale / a of the importance-corrected schedule, as in the two-arm bandit with this R_0 and p*; else why not.

    The KL anchor is the one that holds p* from R_0, with the drift of the run's group size where it is known.
    """
    if calibration is None or calibration.law is None:
        return NAN, "Importance-corrected thresholds are not given: they need R_0 and p* of a run."
    if calibration.not_binary:
        return NAN, (
            "Importance-corrected thresholds are not given: the share of the stale gradient is that of binary rewards: "
            f"{calibration.not_binary}."
        )
    R_0, p, G = calibration.law.R_0, calibration.law.p_star, calibration.setting.G
    if 0 < R_0 < p < 1:
        drive = float(h_G(p, G, "unbiased")) if G else float(np.sqrt(p * (1 - p)))
        bandit = Bandit(drive / (p * (1 - p) * float(logit(p) - logit(R_0))), R_0, G, "unbiased")
        # An anchor may leave two zeros of the drift above R_0, of which the second is unstable: p* has to be the first.
        if abs(float(expit(bandit.fixed_point())) - p) < 1e-6:
            return bandit.stale_share(), ""
    return NAN, (
        "Importance-corrected thresholds are not given: no KL anchor of a two-arm bandit holds this run's p* from its "
        "R_0, so that the share of the stale gradient is not defined."
    )


def reach(name: str, setting: Setting, K: Estimate, share: float, D: float | None) -> Reach:
    """How far a setting is from a schedule's thresholds.

    Parameters
    ----------
    name : str
        A schedule, a key of SEARCHED.
    setting : Setting
        With eta, mu and K_ref.
    K : Estimate
        NaN where it is not known: then there are thresholds of a alone.
    share : float
        a_stale / a, of importance_corrected.
    D : float, optional
        Noise intensity at G = 1.
    """

    def threshold(kind: str, L: np.ndarray | int) -> np.ndarray:
        if name == "closed_form":
            return getattr(oscillator, f"{kind}_threshold")(setting.mu, L)
        return getattr(thresholds, f"{kind}_threshold")(name, setting.mu, L, share)

    a, found = setting.eta * K.value, {}
    for kind in ("stability", "onset"):
        value = float(threshold(kind, setting.K_ref))
        found |= {
            f"{kind}_a": value,
            f"{kind}_eta": Estimate(value / K.value, value / K.high, value / K.low),
            f"{kind}_factor": value / a,
            f"{kind}_K_ref": _largest_K_ref(name, lambda L, kind=kind: threshold(kind, L), a),
        }
    regime = "monotone" if a < found["onset_a"] else "oscillating" if a < found["stability_a"] else "unstable"
    return Reach(
        schedule=name,
        mean_age=float(lag.mean_age("fixed_lag" if name == "closed_form" else name, setting.K_ref)),
        regime=regime if np.isfinite(a) else "",
        **found,
        searched=SEARCHED[name],
        deviation=_deviation(name, setting, a, found["stability_a"], share, D),
    )


def _largest_K_ref(name: str, threshold: Callable, a: float) -> float:
    """Largest K_ref up to which a lies below the threshold at every K_ref; inf if at all that are looked at."""
    most = SEARCHED[name]
    if not np.isfinite(a):
        return NAN
    if name == "importance_corrected":
        beyond = np.flatnonzero(~(a < threshold(np.arange(1, most + 1))))
        return float(beyond[0]) if beyond.size else np.inf
    # The first K_ref that is beyond its threshold, which falls with K_ref.
    first = bisect_left(range(1, most + 1), True, key=lambda L: not a < float(threshold(L)))
    return float(first) if first < most else np.inf


def _deviation(name: str, setting: Setting, a: float, stable: float, share: float, D: float | None) -> float:
    if D is None or setting.G is None or not np.isfinite(a):
        return NAN
    mu, K_ref, G = setting.mu, setting.K_ref, setting.G
    if a >= stable:
        return np.inf
    if name == "closed_form":
        return float(np.sqrt(oscillator.stationary_variance(a, mu, K_ref, D, G)))
    return float(np.sqrt(lag.stationary_variance(name, a, mu, K_ref, D / G, share)))
