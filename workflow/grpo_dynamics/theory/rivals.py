"""Curves that rival the three-phase law: logistic and Gompertz growth, and the mean-field flow without momentum.

All are sigmoid and none has inertia, so that a slow start alone does not show inertia (theory, section 6, B5). Like the
law they start at R_0 and end at R_inf; k is a rate, 1/step. Rewards lie in [0, 1].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import expit, logit

from grpo_dynamics.theory.oscillator import Array, check_positive


def logistic(t: ArrayLike, R_0: ArrayLike, R_inf: ArrayLike, k: ArrayLike) -> Array:
    """Logistic growth, R' = k R (1 - R / R_inf): R(t) = R_inf / (1 + (R_inf / R_0 - 1) exp(-k t)).

    Parameters
    ----------
    t : array_like
        Steps, 0 or more.
    R_0, R_inf : array_like
        Reward at the start and plateau, above 0.
    k : array_like
        Rate, 1/step, above 0.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    R_0, R_inf, k = check_positive("R_0", R_0), check_positive("R_inf", R_inf), check_positive("k", k)
    return R_inf / (1 + (R_inf / R_0 - 1) * np.exp(-k * np.asarray(t, dtype=float)))


def gompertz(t: ArrayLike, R_0: ArrayLike, R_inf: ArrayLike, k: ArrayLike) -> Array:
    """Gompertz growth, R' = k R ln(R_inf / R): R(t) = R_inf (R_0 / R_inf)^exp(-k t). Parameters as in `logistic`."""
    R_0, R_inf, k = check_positive("R_0", R_0), check_positive("R_inf", R_inf), check_positive("k", k)
    return R_inf * (R_0 / R_inf) ** np.exp(-k * np.asarray(t, dtype=float))


def flow_fixed_point(R_0: float, beta: float) -> float:
    """Where the anchored flow from R_0 ends: its first fixed point above R_0, or 1 where a weak anchor leaves none.

    It solves 1 / sqrt(p (1-p)) = beta (theta - theta_ref), theta = logit(p) (theory, section 4). The left side grows
    like exp(theta / 2) at large theta, so that there are two such points or none; only the first is stable.
    """
    check_positive("R_0", R_0)
    if beta <= 0:
        return 1.0
    start = logit(R_0)

    def left_over(theta: float) -> float:  # of sign of the drift
        return 1 - beta * np.sqrt(expit(theta) * expit(-theta)) * (theta - start)

    # The anchor's pull, sqrt(p (1-p)) (theta - theta_ref), is largest where (theta - theta_ref) tanh(theta / 2) = 2.
    peak = brentq(
        lambda theta: (theta - start) * np.tanh(theta / 2) - 2, max(start, 0.0), max(start, 0.0) + 6 - min(start, 0.0)
    )
    return float(expit(brentq(left_over, start, peak))) if left_over(peak) < 0 else 1.0


def flow(t: ArrayLike, R_0: float, beta: float, k: float) -> Array:
    """The mean-field flow of binary-reward GRPO without momentum (theory, sections 4 and 6, B5).

        theta' = k ( sqrt(p (1-p)) - beta p (1-p) (theta - theta_ref) ),    p = sigmoid(theta),   theta_ref = theta(0)

    Parameters
    ----------
    t : array_like
        Steps, 0 or more.
    R_0 : float
        Reward at the start, which is also the reference policy's; strictly between 0 and 1.
    beta : float
        Weight of the KL anchor, 0 or more.
    k : float
        Rate, 1/step, above 0.
    """
    t = np.asarray(t, dtype=float)
    start, rate = logit(R_0), float(check_positive("k", k))

    def slope(_: float, theta: Array) -> Array:
        spread = expit(theta) * expit(-theta)
        return np.sqrt(spread) - beta * spread * (theta - start)

    times, back = np.unique(rate * t, return_inverse=True)
    span = (0.0, max(float(times[-1]), 1e-12))
    found = solve_ivp(slope, span, [start], method="DOP853", t_eval=np.clip(times, *span), rtol=1e-11, atol=1e-12)
    return expit(found.y[0])[back].reshape(t.shape)


def flow_ceiling(t: ArrayLike, R_0: ArrayLike, R_inf: ArrayLike, k: ArrayLike) -> Array:
    """The flow without anchor below a ceiling: p = R / R_inf obeys p' = k (p (1-p))^(3/2), whose solution is

        p(t) = (1 + S / sqrt(1 + S^2)) / 2,    S = S(0) + k t / 4,    S = sinh(logit(p) / 2)

    The ceiling stands for problems that the model cannot solve. Parameters as in `logistic`, with R_0 < R_inf.
    """
    R_0, R_inf, k = check_positive("R_0", R_0), check_positive("R_inf", R_inf), check_positive("k", k)
    p = R_0 / R_inf
    if not np.all(p < 1):
        raise ValueError(f"R_0, R_inf: found {R_0} and {R_inf}, expected R_0 below R_inf: the flow only rises")
    S = (2 * p - 1) / (2 * np.sqrt(p * (1 - p))) + k * np.asarray(t, dtype=float) / 4
    return R_inf * (1 + S / np.hypot(1, S)) / 2
