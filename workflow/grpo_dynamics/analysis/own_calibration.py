"""K and p* of one's own run: the closed form, of which only K, p* and R_0 are unknown, calibrated on its log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo_dynamics.analysis.intervals import r_squared
from grpo_dynamics.analysis.own_band import NAN, Estimate
from grpo_dynamics.analysis.own_fit import OwnFit, fit_own
from grpo_dynamics.analysis.own_series import changes, learning_rates
from grpo_dynamics.analysis.predict import Law, calibrate, spread
from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.log import RunLog
from grpo_dynamics.theory import oscillator

MU, K_REF = 0.9, 1  # what a log that does not say it is taken to have: Adam's default beta1, a fresh batch per step


@dataclass(frozen=True)
class Setting:
    """Learning rate eta, momentum mu, refresh interval K_ref (steps) and group size G; None if not known."""

    eta: float | None
    mu: float | None
    K_ref: int | None
    G: int | None


@dataclass(frozen=True)
class Calibration:
    """K and p* of a run.

    Attributes
    ----------
    setting : Setting
        The run's own.
    law : Law or None
        The closed form with a, R_0 and p* of the run, these two as shares of `limits`; None without K.
    reason : str
        Why not; empty if it is.
    K, p_star : Estimate
        With intervals by a moving-block bootstrap, which take the closed form as given; p* in the log's unit.
    R_0 : float
        In the log's unit.
    r2, r2_free : float
        R^2 on the raw rows of the closed form, and of the law with w0 and zeta free.
    limits : (low, high)
        Range of the reward.
    not_binary : str
        Why the reward is not 0 or 1 for each completion, as the two-arm bandit has it; empty if it may be.
    t, y : (n,) ndarray
        The rows: time and raw rewards.
    time_unit : {"step", "rollout", "row"}
        Of `t`, and of K. step: optimiser steps, also for a log that counts rollouts, if K_ref is known.
    described : bool
        Whether the closed form's zeta lies within the interval of that of the law with w0 and zeta free: else the
        theory does not describe this run's shape.
    caveats : tuple of str
    """

    setting: Setting
    law: Law | None
    reason: str
    K: Estimate
    p_star: Estimate
    R_0: float
    r2: float
    r2_free: float
    limits: tuple[float, float]
    not_binary: str
    t: np.ndarray
    y: np.ndarray
    time_unit: str
    described: bool
    caveats: tuple[str, ...]


def number(name: str, value: float | None) -> None:
    """Raise InputError unless an argument that is given is a finite number above 0."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise InputError(f"{name}: found {value:g}, expected a finite number above 0")


def whole(name: str, value: float | None, least: int) -> None:
    """Raise InputError unless an argument that is given is an integer of `least` or more."""
    if value is not None and not (np.isfinite(value) and value == int(value) and value >= least):
        raise InputError(f"{name}: found {value:g}, expected an integer of {least} or more")


def calibrate_log(log: RunLog, asked: Setting, options: dict, seed: int) -> tuple[Calibration, list[str]]:
    """Calibrate K on a run, and say what had to be assumed of it.

    Parameters
    ----------
    log : RunLog
    asked : Setting
        The setting to be predicted, which stands in for what the log does not say of its own.
    options : dict
        The config's `analysis`.
    seed : int
        Of the bootstrap.

    Raises
    ------
    InputError
        If neither the log nor `asked` has a learning rate.
    """
    setting, assumed = _own_setting(log, asked)
    own = fit_own(log, options)
    series = own.series
    t, (low, high) = series.t - series.origin, series.limits
    unit = own.time_unit
    if unit == "rollout" and (asked.K_ref is not None or log.settings.get("K_ref") is not None):
        t, unit = t * setting.K_ref, "step"
        assumed.append(
            f"verl's steps are rollouts, with K_ref = {setting.K_ref} optimiser steps on each: time counts optimiser "
            f"steps, {setting.K_ref} (step - 1)."
        )
    common = {
        "setting": setting, "limits": series.limits, "not_binary": log.not_binary, "t": t, "y": series.y,
        "time_unit": unit,
    }  # fmt: skip
    if not own.identifiable:
        nothing = Estimate()
        reason = f"K cannot be read from this run. {own.explanation}"
        return Calibration(
            **common,
            law=None,
            reason=reason,
            K=nothing,
            p_star=nothing,
            R_0=NAN,
            r2=NAN,
            r2_free=NAN,
            described=False,
            caveats=(),
        ), assumed
    share = (series.y - low) / (high - low)
    found = calibrate(t, share, setting.mu, setting.K_ref)
    known = spread(
        t, share[None], found, options["fit_replicates"], options["block_length"], options["alpha"],
        np.random.default_rng(seed),
    )  # fmt: skip
    free = next(one for one in own.curves if one.name == "law")
    r2 = float(r_squared(share, found.reward(t)))
    zeta, seen = float(oscillator.damping_ratio(found.a, found.mu, found.K_ref)), own.estimates["zeta"]
    described = bool(seen.low <= zeta <= seen.high)
    caveats = _caveats(log, own, unit)
    if not described:
        caveats.append(
            f"The closed form has zeta = {zeta:.3g} at this mu and K_ref, the run's own fit an interval of "
            f"[{seen.low:.3g}, {seen.high:.3g}]: the theory does not describe this run's shape "
            f"(R^2 {r2:.3f}, free {free.r2:.3f})."
        )
    return Calibration(
        **common, law=found, reason="",
        K=Estimate(*(x / setting.eta for x in (found.a, known["a_low"], known["a_high"]))),
        p_star=Estimate(*(low + (high - low) * x for x in (found.p_star, known["p_star_low"], known["p_star_high"]))),
        R_0=low + (high - low) * found.R_0, r2=r2, r2_free=free.r2, described=described, caveats=tuple(caveats),
    ), assumed  # fmt: skip


def _own_setting(log: RunLog, asked: Setting) -> tuple[Setting, list[str]]:
    """The run's own setting, and what of it is assumed."""
    assumed = []

    def known(name: str, logged: float | None, given: float | None, default: float | None) -> float | None:
        if logged is not None:
            return logged
        if given is not None:
            assumed.append(f"{name} is not in the log: the run is taken to have had {given:g}, as asked for.")
            return given
        if default is not None:
            assumed.append(f"{name} is not in the log: {default:g} is assumed.")
        return default

    rates = learning_rates(log)
    logged = {name: log.settings.get(name) for name in ("eta", "mu", "K_ref")}
    logged = {name: value if isinstance(value, int | float) else None for name, value in logged.items()}
    eta = known("eta", float(np.median(rates)) if len(rates) else logged["eta"], asked.eta, None)
    if eta is None:
        raise InputError(f"{log.source}: eta: found no learning rate in the log, expected one, or --learning-rate")
    mu, K_ref = known("mu", logged["mu"], asked.mu, MU), known("K_ref", logged["K_ref"], asked.K_ref, K_REF)
    if not (0 <= mu < 1 and 0 < K_ref < np.inf):
        raise InputError(
            f"{log.source}: found mu = {mu:g} and K_ref = {K_ref:g} in the log, expected 0 <= mu < 1 and K_ref > 0"
        )
    if K_ref != np.ceil(K_ref):  # several batches per optimiser step, or batches that straddle them
        assumed.append(f"K_ref = {K_ref:g} in the log is taken as {np.ceil(K_ref):g}.")
    return Setting(eta, float(mu), int(np.ceil(K_ref)), log.G), assumed


def _caveats(log: RunLog, own: OwnFit, unit: str) -> list[str]:
    said = ["K's interval is a moving-block bootstrap that takes the closed form and the other settings as given."]
    rates = learning_rates(log)
    if changes(rates):
        said.append(
            f"eta changes within the run, from {rates.min():.3g} to {rates.max():.3g}: K is that of the median, and "
            "the trajectories have a constant eta."
        )
    if unit == "row":
        said.append("The log has no steps: K is per row, not per optimiser step.")
    if unit == "rollout":
        said.append(
            "verl's steps are rollouts, and how many optimiser steps it makes on each is not known: time counts "
            "rollouts, and K is per rollout. Give their number with --K-ref."
        )
    if own.series.origin > 0:
        said.append("The log begins long after the start of training: time counts from its first row.")
    return said
