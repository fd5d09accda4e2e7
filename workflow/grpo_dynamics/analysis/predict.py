"""Trajectories of runs predicted from K and p* of one calibration cell, with no fit to what is predicted (C15, B4).

With mu, K_ref and eta known, the closed form leaves the curvature scale K, the fixed point p* and the start R_0:

    R(t) = p* + (R_0 - p*) phi(t; w0, zeta),    w0 and zeta closed forms of a = eta K, mu and K_ref (theory, section 1)

They are read off one cell per model, the calibration cell; at another eta' the theory has a = eta' K. The damping
ratio is thus the theory's own: at mu = 0.9 and K_ref = 1 a rise with a above 0.0025 is underdamped by it.

mu is Adam's beta1. Adam averages, m <- mu m + (1 - mu) g, where heavy ball adds up, and divides by the root mean
square of g: its step is that of heavy ball with eta (1 - mu) / rms(g) for eta, so that the calibrated K holds these
factors. eta still scales the step; a change of rms(g) with eta or G is not predicted.

finite_group moves K and p* to another G as in the two-arm bandit whose reference policy is R_0 (theory, section 4),
with TRL's unbiased standard deviation: the anchor beta whose fixed point at the calibration cell's G is the calibrated
p* gives the fixed point at G', and K goes as the slopes of the two drifts at their fixed points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.optimize import least_squares, lsq_linear
from scipy.special import expit, logit

from grpo_dynamics.analysis.prediction_scores import NAN, Array, block_length, percentiles, resampled
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.theory import law, oscillator, rivals
from grpo_dynamics.theory.finite_group import h_G

_STARTS = 2.0 ** -np.arange(1, 14, 2)  # of the search, as shares of the stability threshold of a
_WIDEST = 30.0  # of the logit of a over that threshold, at which the search stops: a share of 1e-13


@dataclass(frozen=True)
class Law:
    """The closed form's trajectory: stiffness per step a = eta K, momentum, refresh interval, start and fixed point."""

    a: float
    mu: float
    K_ref: int
    R_0: float
    p_star: float

    def shape(self) -> dict[str, float | str]:
        """w0 (1/step), zeta and the regime, by the closed form."""
        setting = (self.a, self.mu, self.K_ref)
        return {
            "w0": float(oscillator.natural_frequency(*setting)),
            "zeta": float(oscillator.damping_ratio(*setting)),
            "regime": str(oscillator.regime(*setting)),
        }

    def reward(self, t: Array) -> Array:
        """R(t) at steps `t`."""
        shape = self.shape()
        return law.three_phase(t, self.R_0, self.p_star, shape["w0"], shape["zeta"])


def _levels(phi: Array, y: Array) -> Array:
    """R_0 and p* in [0, 1] of the least-squares y = R_0 phi + p* (1 - phi)."""
    design = np.stack([phi, 1 - phi], axis=1)
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    return found if np.all((found >= 0) & (found <= 1)) else lsq_linear(design, y, (0, 1), method="bvls").x


def calibrate(t: Array, y: Array, mu: float, K_ref: int, starts: Array = _STARTS) -> Law:
    """Least-squares a, R_0 and p* of the closed form, by variable projection.

    Parameters
    ----------
    t, y : (n,) arrays
        Steps and raw rewards in [0, 1].
    mu, K_ref : float, int
        Momentum and refresh interval, K_ref of 1 or more.
    starts : array
        Starts of the search for a, as shares of its stability threshold, below which it stays.
    """
    limit = float(oscillator.stability_threshold(mu, K_ref))

    def phi(u: Array) -> Array:
        # The logit of a / limit is searched; it is kept off the ends, where the closed form is not defined.
        a = limit * float(expit(np.clip(u, -_WIDEST, _WIDEST))[0])
        return law.phi(t, oscillator.natural_frequency(a, mu, K_ref), oscillator.damping_ratio(a, mu, K_ref))

    def residuals(u: Array) -> Array:
        shape = phi(u)
        R_0, p_star = _levels(shape, y)
        return y - p_star - (R_0 - p_star) * shape

    found = [least_squares(residuals, [logit(start)], method="lm") for start in starts]
    best = min(found, key=lambda result: result.cost).x
    R_0, p_star = map(float, _levels(phi(best), y))
    return Law(limit * float(expit(np.clip(best, -_WIDEST, _WIDEST))[0]), mu, K_ref, R_0, p_star)


def curve(row: Mapping, t: Array) -> Array:
    """The predicted reward of a row of RUN_PREDICTIONS at steps `t`; NaN where the row has no prediction."""
    if not np.isfinite(row["p_star"]):
        return np.full(np.shape(t), NAN)
    if np.isfinite(row.get("beta", NAN)):
        return rivals.flow(t, row["R_0"], row["beta"], row["k"])
    return law.three_phase(t, row["R_0"], row["p_star"], row["w0"], row["zeta"])


def at_group_size(found: Law, G: int, to: int) -> Law:
    """`found` of group size `G` at the group size `to`, by the exact drift of finite groups (see the module).

    Raises
    ------
    ValueError
        Unless 0 < R_0 < p* < 1, or if at `to` the anchor holds no fixed point.
    """
    R_0, p = found.R_0, found.p_star
    if not 0 < R_0 < p < 1:
        raise InputError(f"finite_group: found R_0 = {R_0:.3g} and p* = {p:.3g}, expected 0 < R_0 < p* < 1")
    beta = float(h_G(p, G, "unbiased")) / (p * (1 - p) * (logit(p) - logit(R_0)))
    own, other = (Bandit(beta, R_0, size, "unbiased") for size in (G, to))
    ratio = other.stiffness() / own.stiffness()
    return replace(found, a=found.a * ratio, p_star=float(expit(other.fixed_point())))


def spread(
    t: Array, runs: Array, found: Law, replicates: int, length: int | None, alpha: float, rng: np.random.Generator
) -> dict[str, float]:
    """Intervals of a and p* by a moving-block bootstrap of the residuals, and the range of a over single runs.

    Parameters
    ----------
    t : (n,) array
        Steps.
    runs : (runs, n) array
        Rewards, to whose mean `found` is calibrated.
    found : Law
    replicates, length, alpha, rng
        Bootstrap replicates, steps in a block (None: by rule), 1 - level, and the generator.

    Returns
    -------
    dict
        a_low, a_high, p_star_low, p_star_high, and a_run_low, a_run_high: smallest and largest a of the runs, each
        calibrated alone.
    """
    fitted = found.reward(t)
    rest = runs.mean(axis=0) - fitted
    steps = resampled(len(t), block_length(len(t), length), replicates, rng)
    # A replicate is close to the fit, so that the search needs no other start than the estimate.
    start = np.array([found.a / float(oscillator.stability_threshold(found.mu, found.K_ref))])
    again = [calibrate(t, fitted + (rest - rest.mean())[at], found.mu, found.K_ref, start) for at in steps]
    single = [calibrate(t, run, found.mu, found.K_ref).a for run in runs]
    a_low, a_high = percentiles(np.array([one.a for one in again]), alpha)
    p_low, p_high = percentiles(np.array([one.p_star for one in again]), alpha)
    return {
        "a_low": a_low,
        "a_high": a_high,
        "p_star_low": p_low,
        "p_star_high": p_high,
        "a_run_low": min(single),
        "a_run_high": max(single),
    }


def parameters(
    predictor: str, found: Law, law_fit: pd.Series, flow_fit: pd.Series, eta_ratio: float, G: int, to: int
) -> dict[str, float | str]:
    """R_0, p_star and the shape of a prediction, as columns of RUN_PREDICTIONS, which `curve` takes.

    Parameters
    ----------
    predictor : str
        One of PREDICTORS.
    found : Law
        Calibrated, at the calibration cell's eta.
    law_fit, flow_fit : Series
        Rows of FITS: the free law and the flow on the calibration cell's mean.
    eta_ratio : float
        The target's eta over the calibration cell's.
    G, to : int
        Group sizes of the calibration cell and of the target.

    Raises
    ------
    ValueError
        If the predictor cannot be had from this calibration; the sentence says why.
    """
    if predictor in ("closed_form", "finite_group"):
        there = found if predictor == "closed_form" or to == G else at_group_size(found, G, to)
        there = replace(there, a=there.a * eta_ratio)
        return {"a": there.a, "R_0": there.R_0, "p_star": there.p_star, **there.shape()}
    fit = flow_fit if predictor == "flow" else law_fit
    if not np.isfinite(fit["r2"]):
        raise InputError(f"{predictor}: the {fit['curve']} is not fitted to the calibration cell")
    levels = {"R_0": float(fit["R_0"]), "p_star": float(fit["R_inf"])}
    if predictor == "flow":
        return levels | {"beta": float(fit["beta"]), "k": float(fit["k"]) * eta_ratio}
    # A law in scaled time is one with w0 scaled and the same zeta.
    return levels | {"w0": float(fit["w0"]) * (1.0 if predictor == "naive" else eta_ratio), "zeta": float(fit["zeta"])}
