"""What the theory says of a setting: its regime, how far eta and K_ref can go, and the trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from grpo_dynamics.analysis.own_band import Estimate
from grpo_dynamics.analysis.own_calibration import NAN, Calibration, Setting, calibrate_log, number, whole
from grpo_dynamics.analysis.own_reach import SEARCHED, Reach, reach, stale_share
from grpo_dynamics.analysis.predict import Law, at_group_size
from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.log import RunLog
from grpo_dynamics.theory import lag
from grpo_dynamics.theory.law import phases

_TIMES = 400
STIFFNESS = (1e-50, 1e50)  # a = eta K beyond which its powers are no numbers

ADAM = (
    "Adam divides by the gradient's own size, so that K holds this size at the eta it was calibrated at, and a factor "
    "1 - mu. In this study's runs twice the eta did not halve the times, and the closed form mostly failed at another "
    "eta (results/published/claims.csv, C15 and B4). Ten times the eta broke the policy in every run that tried it "
    "(C13), far below the closed form's loss of stability: go up in small steps, and watch."
)
BETA1 = "mu is heavy-ball momentum; Adam's beta1 is its nearest counterpart, not the same."

FINITE_GROUP = (
    "The finite-group drift is that of a two-arm bandit, in which it is exact; in this study's runs it did not predict "
    "what G changes (results/published/claims.csv, B3)."
)


@dataclass(frozen=True)
class Trajectory:
    """The predicted reward of a setting.

    Attributes
    ----------
    setting : Setting
    finite_group : bool
        Whether the drift is corrected for the group size (`predict.at_group_size`).
    a, w0, zeta : float
    regime : str
        overdamped, critical, underdamped or unstable, by the closed form.
    plateau_start : float
        Steps until 95 % of the way is first covered; NaN if unstable.
    reward : (m,) ndarray
        At `Forecast.t`; NaN once an unstable one has left the reward's range.
    """

    setting: Setting
    finite_group: bool
    a: float
    w0: float
    zeta: float
    regime: str
    plateau_start: float
    reward: np.ndarray


@dataclass(frozen=True)
class Forecast:
    """What the theory says of a setting.

    Attributes
    ----------
    setting : Setting
        The one asked for.
    K, a : Estimate
        Curvature scale (1/eta/step) and stiffness per step, eta K; intervals where K was calibrated. NaN if not known.
    w0, zeta, regime
        Of the closed form; NaN and empty where a is not known.
    reaches : tuple of Reach
    t : (m,) ndarray
        Optimiser steps of the trajectories.
    trajectories : tuple of Trajectory
        That of the setting, then the others asked for; empty where a is not known.
    unit : {"reward", "share of the way"}
        Of the trajectories: without a log, R_0 = 0 and p* = 1.
    calibration : Calibration or None
        None where K was given.
    reason : str
        Why K is not known; empty if it is.
    assumed, caveats : tuple of str
        What was taken for granted, and what the numbers do not say, a sentence each.
    """

    setting: Setting
    K: Estimate
    a: Estimate
    w0: float
    zeta: float
    regime: str
    reaches: tuple[Reach, ...]
    t: np.ndarray
    trajectories: tuple[Trajectory, ...]
    unit: str
    calibration: Calibration | None
    reason: str
    assumed: tuple[str, ...]
    caveats: tuple[str, ...]


def predict(
    options: dict,
    log: RunLog | None = None,
    *,
    eta: float | None = None,
    mu: float | None = None,
    K_ref: int | None = None,
    G: int | None = None,
    K: float | None = None,
    D: float | None = None,
    other_etas: Sequence[float] = (),
    other_Gs: Sequence[int] = (),
    seed: int = 0,
) -> Forecast:
    """Predict a setting from K, given or calibrated on a log.

    Parameters
    ----------
    options : dict
        The config's `analysis`.
    log : RunLog, optional
        A run to calibrate K on; gives the defaults of the setting. Expected without `K`, and only then.
    eta, mu, K_ref, G : optional
        The setting asked for; by default the run's own, and else mu = 0.9 and K_ref = 1, as is said in `assumed`.
    K : float, optional
        Curvature scale, 1/eta/step.
    D : float, optional
        Noise intensity at G = 1, in the reward's unit squared per step.
    other_etas, other_Gs : sequence
        Learning rates and group sizes of further trajectories.
    seed : int
        Of the bootstrap of K.

    Raises
    ------
    InputError
        For an argument outside its domain, or one that is missing; the message names it.
    """
    if (K is None) == (log is None):
        raise InputError(
            f"K: found {'none' if K is None else 'both K and a log'}, expected K or a log to calibrate it on"
        )
    number("eta", eta), number("K", K), number("D", D), whole("K_ref", K_ref, 1), whole("G", G, 2)
    if mu is not None and not 0 <= mu < 1:
        raise InputError(f"mu: found {mu:g}, expected 0 <= mu < 1")
    for other in other_etas:
        number("other eta", other)
    for other in other_Gs:
        whole("other G", other, 2)
    calibration, assumed = None, []
    if log is not None:
        calibration, assumed = calibrate_log(log, Setting(eta, mu, K_ref, G), options, seed)
        own = calibration.setting
        setting = Setting(
            own.eta if eta is None else eta, own.mu if mu is None else mu,
            own.K_ref if K_ref is None else int(K_ref), own.G if G is None else int(G),
        )  # fmt: skip
        scale, reason = calibration.K, calibration.reason
    else:
        if eta is None:
            raise InputError("eta: found none, expected a learning rate beside K")
        assumed += [f"{name} = {value} is assumed: none was given." for name, value, given in
                    (("mu", 0.9, mu), ("K_ref", 1, K_ref)) if given is None]  # fmt: skip
        setting = Setting(
            eta, 0.9 if mu is None else mu, 1 if K_ref is None else int(K_ref), None if G is None else int(G)
        )
        scale, reason = Estimate(float(K)), ""
    a = Estimate(*(setting.eta * x for x in (scale.value, scale.low, scale.high)))
    for each in (setting.eta, *other_etas):
        if not (np.isnan(scale.value) or STIFFNESS[0] <= each * scale.value <= STIFFNESS[1]):
            raise InputError(
                f"eta K: found {each:g} x {scale.value:g}, expected a product from {STIFFNESS[0]:g} to {STIFFNESS[1]:g}"
            )
    found = calibration.law if calibration else Law(a.value, setting.mu, setting.K_ref, 0.0, 1.0)
    known = found is not None
    shape = replace(found, a=a.value, mu=setting.mu, K_ref=setting.K_ref).shape() if known else {}
    share, why_not = stale_share(calibration)
    caveats = [ADAM, BETA1, _age(setting.K_ref)] + ([why_not] if why_not else [])
    t, trajectories, more = (
        _trajectories(found, setting, calibration, other_etas, other_Gs) if known else (np.empty(0), (), [])
    )
    if calibration:
        caveats += calibration.caveats
    if D is not None and setting.G is None:
        caveats.append("The stationary fluctuation needs the group size G beside D.")
    schedules = [name for name in SEARCHED if name != "importance_corrected" or np.isfinite(share)]
    return Forecast(
        setting, scale, a, shape.get("w0", NAN), shape.get("zeta", NAN), shape.get("regime", ""),
        tuple(reach(name, setting, scale, share, D) for name in schedules),
        t, trajectories, "reward" if calibration else "share of the way", calibration, reason, tuple(assumed),
        (*caveats, *more),
    )  # fmt: skip


def _age(K_ref: int) -> str:
    fresh = "samples a fresh batch at every step is on-policy, of mean age 0"
    reused = f"samples a batch every {K_ref} steps works with samples of mean age {lag.mean_age('periodic', K_ref):g}"
    return (
        "K_ref counts as the paper's lag does: K_ref = 1 is a gradient one step old. A trainer that "
        f"{fresh if K_ref == 1 else reused}; for it the schedules periodic and importance_corrected stand."
    )


def _trajectories(
    found: Law, setting: Setting, calibration: Calibration | None, other_etas: Sequence[float], other_Gs: Sequence[int]
) -> tuple[np.ndarray, tuple[Trajectory, ...], list[str]]:
    """Times, the trajectories of the setting and of the others, and caveats."""
    own = calibration.setting if calibration else setting
    here = replace(found, a=found.a * setting.eta / own.eta, mu=setting.mu, K_ref=setting.K_ref)
    cases, caveats = [(setting, here, False)], []
    if calibration and (own.eta, own.mu, own.K_ref) != (setting.eta, setting.mu, setting.K_ref):
        cases.append((own, found, False))
    cases += [(replace(setting, eta=eta), replace(here, a=here.a * eta / setting.eta), False) for eta in other_etas]
    sizes = [*([setting.G] if calibration and setting.G not in (None, own.G) else []), *other_Gs]
    for G in dict.fromkeys(sizes):
        moved, why_not = _finite_group(here, own.G, int(G), calibration)
        if moved is None:
            caveats.append(f"G = {G}: {why_not} To leading order G changes the noise alone.")
        else:
            cases.append((replace(setting, G=int(G)), moved, True))
    if any(finite for *_, finite in cases):
        caveats.append(FINITE_GROUP)
    shapes = [one.shape() for _, one, _ in cases]
    ends = [phases(shape["w0"], shape["zeta"]).rapid_rise_end if shape["zeta"] > 0 else NAN for shape in shapes]
    # The setting's own time, its run's, and of the slower ones so much that the setting's can still be seen.
    own_time = np.nanmax([1.5 * ends[0], calibration.t[-1] if calibration else NAN, 10.0])
    longest = np.nanmax([own_time, min(np.nanmax([1.5 * end for end in ends] + [own_time]), 4 * own_time)])
    t = np.linspace(0.0, float(longest), _TIMES)
    low, high = calibration.limits if calibration else (0.0, 1.0)
    done = []
    for (one_setting, one, finite), shape, end in zip(cases, shapes, ends, strict=True):
        reward = low + (high - low) * one.reward(t)
        if shape["regime"] == "unstable":
            reward = np.where(np.maximum.accumulate((reward < low) | (reward > high)), NAN, reward)
        done.append(Trajectory(one_setting, finite, one.a, shape["w0"], shape["zeta"], shape["regime"], end, reward))
    return t, tuple(done), caveats


def _finite_group(here: Law, G: int | None, to: int, calibration: Calibration | None) -> tuple[Law | None, str]:
    """The law at another group size by the exact drift of finite groups; else why not."""
    if calibration is None:
        return None, "the drift of finite groups needs R_0 and p* of a run."
    if G is None:
        return None, "the run's own group size is not known (--group-size)."
    if calibration.not_binary:
        return None, f"the drift of finite groups is that of binary rewards: {calibration.not_binary}."
    try:
        same, moved = at_group_size(here, G, G), at_group_size(here, G, to)
    except InputError as error:
        return None, f"{error}."
    # With two zeros of the drift above R_0, the bandit's fixed point is the first, and p* may be the other.
    if abs(same.p_star - here.p_star) > 1e-6:
        return None, "no KL anchor of a two-arm bandit holds this run's p* from its R_0."
    return moved, ""
