"""The two-arm softmax bandit with binary rewards: mean-field gradient, fixed point and stiffness (theory, section 4).

The policy has one logit theta, p = sigmoid(theta). With n_g good and n_b bad arms that start equal within their class
the expected dynamics are the same, with eta multiplied by the gain 1/n_g + 1/n_b (`simulate.arms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from grpo_dynamics.command import InputError
from grpo_dynamics.theory import finite_group
from grpo_dynamics.theory.finite_group import Std

_HIGHEST_LOGIT = 30.0  # 1 - p = 1e-13; a fixed point beyond it counts as none
_SCAN_STEP = 0.005  # in theta; two zeros closer than this have a stiffness of nearly 0


@dataclass(frozen=True)
class Bandit:
    """A softmax bandit under a KL anchor.

    Parameters
    ----------
    beta : float
        Weight of the KL anchor, above 0.
    p_ref : float
        Expected reward of the reference policy, theta_ref = logit(p_ref), strictly between 0 and 1.
    G : int or None
        Group size of the exact finite-group drift h_G(p); None is the mean field's sqrt(p(1-p)).
    std : {"population", "unbiased"}
        Standard deviation that a finite group's advantages are divided by.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """

    beta: float
    p_ref: float
    G: int | None = None
    std: Std = "population"

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise InputError(f"beta: found {self.beta}, expected a number above 0")
        if not 0 < self.p_ref < 1:
            raise InputError(f"p_ref: found {self.p_ref}, expected a probability strictly between 0 and 1")
        finite_group.group_gradient(2 if self.G is None else self.G, self.std)  # refuses G and std outside their domain

    @property
    def theta_ref(self) -> float:
        """Logit of the reference policy."""
        return float(logit(self.p_ref))

    def gradient(self, theta: np.ndarray | float) -> np.ndarray:
        """g(theta) = h(p) - beta p (1-p) (theta - theta_ref), with h = sqrt(p(1-p)), or h_G for a finite group."""
        p = expit(theta)
        drive = np.sqrt(p * (1 - p)) if self.G is None else finite_group.h_G(p, self.G, self.std)
        return drive - self.beta * p * (1 - p) * (np.asarray(theta) - self.theta_ref)

    def fixed_point(self) -> float:
        """theta*, the first zero of the gradient above theta_ref.

        Raises
        ------
        ValueError
            If there is none: the anchor is too weak to hold the reward, and p goes to 1.
        """
        return _fixed_point(self)

    def _drive(self, p: float) -> tuple[float, float]:
        """The drive h and its slope dh/dtheta at p."""
        spread = p * (1 - p)  # dp/dtheta
        if self.G is None:
            return float(np.sqrt(spread)), float((1 - 2 * p) * np.sqrt(spread) / 2)
        slope = finite_group.h_G_slope(p, self.G, self.std)
        return float(finite_group.h_G(p, self.G, self.std)), float(slope * spread)

    def stiffness(self) -> float:
        """K = -g'(theta*), analytically, per unit of eta and step; theta and p have the same linear dynamics."""
        theta = self.fixed_point()
        p = expit(theta)
        anchor_slope = self.beta * p * (1 - p) * (1 + (1 - 2 * p) * (theta - self.theta_ref))
        return float(anchor_slope) - self._drive(p)[1]

    def stale_share(self) -> float:
        """a_stale / a of the importance-corrected schedule: the part of K that acts on the sampling policy's error.

        The drive enters as h(p_old) p(1-p) / (p_old (1-p_old)), so that a_stale/eta = (1-2p*) h - dh/dtheta at p*,
        which is (1/2)(1-2p*) sqrt(p*(1-p*)) in the mean field (theory, section 3).
        """
        p = float(expit(self.fixed_point()))
        h, slope = self._drive(p)
        return ((1 - 2 * p) * h - slope) / self.stiffness()

    def stiffness_by_difference(self, step: float = 1e-4) -> float:
        """K measured at theta* by a central difference of the gradient, with no formula for its slope."""
        theta = self.fixed_point()
        return float(-(self.gradient(theta + step) - self.gradient(theta - step)) / (2 * step))


@lru_cache
def _fixed_point(bandit: Bandit) -> float:
    grid = np.arange(bandit.theta_ref, max(_HIGHEST_LOGIT, bandit.theta_ref + 1), _SCAN_STEP)
    below = np.flatnonzero(bandit.gradient(grid) < 0)
    if not below.size:
        raise InputError(
            f"bandit: found no fixed point above p_ref = {bandit.p_ref} at beta = {bandit.beta} (p goes to 1), "
            "expected a larger beta"
        )
    return float(brentq(lambda theta: float(bandit.gradient(theta)), grid[below[0] - 1], grid[below[0]], xtol=1e-15))
