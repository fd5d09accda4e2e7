"""What the law allows at any time: profile intervals of its curve, and of the times of its phases.

A value that the law gives, such as R(t) at a step after the last row, is allowed if some law with this value has a
residual sum of squares within the F quantile of the smallest, as for the parameters (analysis.profile). The laws are
those of a grid of (k, zeta), refined around the allowed ones; at each, R_0 and R_inf enter linearly, so that the
extremes of R(t) over them are those of a linear function over an ellipse within the reward's range, in closed form.

Below zeta = 1 the law overshoots R_inf: where phi has its smallest value q < 0, R = E = R_0 q + R_inf (1 - q). A law
that is to stay in the range until a given time has R_0 and E in it, q being phi's smallest value until then, and R_inf
lies between them. In R_0 and E it is R = R_0 psi + E (1 - psi) with 1 - psi = (1 - phi) / (1 - q), so that all else is
as without overshoot (q = 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from grpo_dynamics.analysis import kernels
from grpo_dynamics.analysis.fits import Fit
from grpo_dynamics.analysis.noise import covariance, local_variance
from grpo_dynamics.theory import law

_COARSE, _FINE = 25, 61  # grid points per coordinate, while the grid shrinks, and at the end
_LEVELS = 8  # of shrinking, at most
_SHRINK = 0.7  # of the grid's area; a level that shrinks it by less is the last


def noise_along(fit: Fit, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Widening of the variance of functions of the law's coordinates by the noise, and the points that carry them.

    Parameters
    ----------
    fit : Fit
        Of the curve law.
    gradient : (m, 4) ndarray
        Of the functions, by the search's coordinates. Coordinates at a bound, and zeta where the Jacobian with it is
        singular, are left out.

    Returns
    -------
    widening, points : (m,) ndarray
        As in `Fit`; NaN where no coordinate is free.
    """
    p, n = fit.problem, len(fit.problem.t)
    value, slope = np.empty(n), np.empty((n, 4))
    kernels.evaluate(p.code, fit.u, p.t, p.width, *p.limits, value, slope)
    norms = np.linalg.norm(slope, axis=0)
    free = [j for j, name in enumerate(p.names) if name not in fit.at_bound and np.isfinite(norms[j]) and norms[j] > 0]
    if 3 in free and np.linalg.cond(slope[:, free] / norms[free]) > 1e7:
        free.remove(3)
    nothing = np.full(len(gradient), np.nan)
    if not free or n <= 4 or np.linalg.cond(slope[:, free] / norms[free]) > 1e7:
        return nothing, nothing
    jacobian, along = slope[:, free] / norms[free], gradient[:, free] / norms[free]
    found, _, n_effective = covariance(jacobian, fit.residuals)
    bread = np.linalg.inv(jacobian.T @ jacobian)
    plain = np.einsum("mi,ij,mj->m", along, bread, along) * fit.sse / (n - 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        widening = np.where(plain > 0, np.einsum("mi,ij,mj->m", along, found, along) / plain, 1.0)
        share = (jacobian @ bread @ along.T * np.sqrt(local_variance(fit.residuals))[:, None]) ** 2
        points = share.sum(axis=0) ** 2 / (share**2).sum(axis=0) * n_effective / n
    return widening, np.where(np.isfinite(points), points, n_effective)  # no residuals: every point carries


def ceiling(fit: Fit, widening: np.ndarray, points: np.ndarray, level: float) -> np.ndarray:
    """Largest residual sum of squares that is allowed; NaN where no independent point carries the function."""
    dof = np.minimum(points, fit.n_effective - len(fit.u))
    quantile = stats.f.ppf(level, 1, np.where(dof >= 1, dof, np.nan))
    return fit.sse * (1 + widening * quantile / (len(fit.problem.t) - len(fit.u))) + 1e-15


@dataclass(frozen=True)
class Allowed:
    """Laws of the grid whose smallest residual sum of squares is allowed.

    Attributes
    ----------
    fit : Fit
    logs : (m, 2) ndarray
        log k and log zeta; the first law is the fit's own.
    sse : (m,) ndarray
        Smallest residual sum of squares, over R_0 and E within the reward's range.
    free_sse, levels : (m,), (m, 2) ndarray
        The same, and its R_0 and E, without that range.
    gram : (m, 3) ndarray
        Of the law's two columns psi and 1 - psi at the rows: psi.psi, psi.(1 - psi) and (1 - psi).(1 - psi).
    best : (m, 2) ndarray
        R_0 and E of `sse`.
    until : float
        Time until which the laws stay in the range; 0 where R_0 and R_inf alone have to.
    """

    fit: Fit
    logs: np.ndarray
    sse: np.ndarray
    free_sse: np.ndarray
    levels: np.ndarray
    gram: np.ndarray
    best: np.ndarray
    until: float

    @property
    def w0(self) -> np.ndarray:
        return 2 * np.exp(self.logs.sum(axis=1))

    @property
    def zeta(self) -> np.ndarray:
        return np.exp(self.logs[:, 1])

    def _psi(self, t: np.ndarray) -> np.ndarray:
        """psi of every law (m, T) at times `t`."""
        q = np.array([_lowest(w0, zeta, self.until) for w0, zeta in zip(self.w0, self.zeta, strict=True)])[:, None]
        return 1 - (1 - law.phi(t, self.w0[:, None], self.zeta[:, None])) / (1 - q)

    def central(self, t: np.ndarray) -> np.ndarray:
        """R(t) of the law with the smallest sum of squares."""
        at = int(np.argmin(self.sse))
        psi = self._psi(t)[at]
        return self.best[at, 0] * psi + self.best[at, 1] * (1 - psi)

    def curve(self, t: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest R(t) of the laws whose sum of squares is at most `limit` (T,), at times `t` (T,)."""
        psi = self._psi(t)
        a, b, c = (column[:, None] for column in self.gram.T)
        start, end = (column[:, None] for column in self.levels.T)
        room = limit - self.free_sse[:, None]
        low, high = self.fit.problem.limits
        smallest = largest = self.central(t)
        for R_0, E, possible in _candidates(psi, a, b, c, start, end, room, low, high):
            value = R_0 * psi + E * (1 - psi)
            smallest = np.minimum(smallest, np.where(possible, value, np.inf).min(axis=0))
            largest = np.maximum(largest, np.where(possible, value, -np.inf).max(axis=0))
        given = np.isfinite(limit)
        return np.where(given, smallest, np.nan), np.where(given, largest, np.nan)

    def time(self, unit: Callable[[float], float], limit: float, vanishes: bool) -> tuple[float, float]:
        """Smallest and largest time of the laws whose sum of squares is at most `limit`.

        Parameters
        ----------
        unit : callable
            The time as a function of zeta, in units of 1 / w0.
        limit : float
        vanishes : bool
            Whether the time goes to 0 in the limit of the exponential.

        Returns
        -------
        low, high : float
            0 and inf stand for ends that the search's bounds, and not the data, would set.
        """
        if not np.isfinite(limit):
            return float("nan"), float("nan")
        zetas, place = np.unique(self.zeta, return_inverse=True)
        times = np.array([unit(zeta) for zeta in zetas])[place] / self.w0
        inside = np.flatnonzero(self.sse <= limit)
        first, last = inside[np.argmin(times[inside])], inside[np.argmax(times[inside])]
        lower, upper = self.fit.problem.lower[2:], self.fit.problem.upper[2:]
        at_zero = self.logs[first] >= upper - 1e-9
        opened = at_zero[0] or (vanishes and at_zero[1])
        return 0.0 if opened else float(times[first]), (
            float("inf") if self.logs[last][0] <= lower[0] + 1e-9 else float(times[last])
        )


def _cut(a: np.ndarray, b: np.ndarray, c: np.ndarray, y: np.ndarray, room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends in x of a x^2 + 2 b x y + c y^2 <= room; NaN where it has none."""
    root = np.sqrt((b * y) ** 2 - a * (c * y**2 - room))
    return (-b * y - root) / a, (-b * y + root) / a


def _within(value: np.ndarray, low: float, high: float) -> np.ndarray:
    return (value >= low) & (value <= high)


@np.errstate(divide="ignore", invalid="ignore")
def _candidates(phi, a, b, c, start, end, room, low, high) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(R_0, R_inf, whether allowed) among which the extremes of R_0 phi + R_inf (1 - phi) lie.

    Allowed are those in the box [low, high]^2 within the ellipse a x^2 + 2 b x y + c y^2 <= room about (start, end).
    The extremes are the ellipse's own, or lie on an edge of the box, at an end of what the ellipse cuts out of it.
    """
    by_start, by_end = (c * phi - b * (1 - phi)) / (a * c - b**2), (a * (1 - phi) - b * phi) / (a * c - b**2)
    size = np.sqrt(room / (phi * by_start + (1 - phi) * by_end))
    found = []
    for sign in (-1, 1):
        R_0, R_inf = start + sign * size * by_start, end + sign * size * by_end
        found.append((R_0, R_inf, _within(R_0, low, high) & _within(R_inf, low, high)))
    for edge in (low, high):
        first, last = _cut(a, b, c, edge - end, room)
        first, last = np.maximum(start + first, low), np.minimum(start + last, high)
        found += [(first, np.full_like(first, edge), first <= last), (last, np.full_like(last, edge), first <= last)]
        first, last = _cut(c, b, a, edge - start, room)
        first, last = np.maximum(end + first, low), np.minimum(end + last, high)
        found += [(np.full_like(first, edge), first, first <= last), (np.full_like(last, edge), last, first <= last)]
    return found


def _lowest(w0: float, zeta: float, until: float) -> float:
    """Smallest phi until a time, or 0 where that is above it: the first swing's, if it is over by then."""
    if zeta >= 1 or until <= 0:
        return 0.0
    root = np.sqrt(1 - zeta**2)
    turn = np.pi / (w0 * root)
    if turn <= until:
        return float(-np.exp(-np.pi * zeta / root))
    return min(float(law.phi(until, w0, zeta)), 0.0)


def allowed(fit: Fit, limit: float, until: float = 0.0) -> Allowed | None:
    """The laws whose sum of squares is at most `limit`, on a grid that is refined around them.

    Parameters
    ----------
    fit : Fit
        Of the curve law.
    limit : float
        From `ceiling`.
    until : float
        Time until which the laws have to stay in the reward's range; by default R_0 and R_inf alone have to.

    Returns
    -------
    Allowed or None
        None where no law remains.
    """
    p = fit.problem
    lower, upper, own = p.lower[2:], p.upper[2:], fit.u[2:]
    box_low, box_high = lower.copy(), upper.copy()
    value, slope = np.empty(len(p.t)), np.empty((len(p.t), 4))

    def look(logs: np.ndarray) -> np.ndarray:
        """log k, log zeta, smallest sum of squares within the range, without it, its levels, gram, levels within."""
        kernels.evaluate(p.code, np.array([1.0, 0.0, *logs]), p.t, p.width, *p.limits, value, slope)
        rest = slope[:, 1] / (1 - _lowest(2 * np.exp(logs.sum()), np.exp(logs[1]), until))
        psi = 1 - rest
        gram = psi @ psi, psi @ rest, rest @ rest
        best = kernels.project(psi, p.y, *p.limits, False, False, 0.0, 0.0)
        free = kernels.project(psi, p.y, -np.inf, np.inf, False, False, *best)
        sse = [float(np.sum((p.y - R_0 * psi - E * rest) ** 2)) for R_0, E in (best, free)]
        return np.array([*logs, *sse, *free, *gram, *best])

    def grid(side: int) -> np.ndarray:
        axes = [np.linspace(low, high, side) for low, high in zip(box_low, box_high, strict=True)]
        rows = np.array([look(logs) for logs in np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)])
        return rows[rows[:, 2] <= limit]

    found = [look(own)]
    for _ in range(_LEVELS):
        inside = grid(_COARSE)
        found += list(inside)
        near = np.vstack([inside[:, :2], own])
        cell = (box_high - box_low) / (_COARSE - 1)
        new_low, new_high = np.maximum(near.min(axis=0) - cell, box_low), np.minimum(near.max(axis=0) + cell, box_high)
        shrunk = np.prod(new_high - new_low) / np.prod(box_high - box_low)
        box_low, box_high = new_low, new_high
        if shrunk > _SHRINK:
            break
    found += list(grid(_FINE))
    table = np.array(found)
    if table[:, 2].min() > limit:
        return None
    return Allowed(fit, table[:, :2], table[:, 2], table[:, 3], table[:, 4:6], table[:, 6:9], table[:, 9:], until)
