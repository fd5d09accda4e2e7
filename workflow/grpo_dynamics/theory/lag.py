"""The linear update under a lag as matrices, where the oscillator is an expansion (theory, section 3).

Three schedules of the gradient that acts on e[n]:

* fixed_lag: the one of K_ref steps ago, e[n - K_ref];
* periodic: frozen at the last refresh, a multiple of K_ref;
* importance_corrected: as periodic, but only a share s = a_stale/a of the stiffness is frozen, the rest is current.

With v[n] = e[n] - e[n-1] and noise xi: v[n+1] = mu v[n] - a e[.] + xi, e[n+1] = e[n] + v[n+1].
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov

from grpo_dynamics.theory.oscillator import Array, Mode, check_momentum, check_positive

Schedule = Literal["fixed_lag", "periodic", "importance_corrected"]
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)


def check_schedule(schedule: str, K_ref: ArrayLike) -> None:
    """Raise ValueError unless `schedule` is known and `K_ref` fits it: integers, 0 or more for fixed_lag, else 1."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule: found {schedule!r}, expected one of {SCHEDULES}")
    least = 0 if schedule == "fixed_lag" else 1
    steps = np.asarray(K_ref, dtype=float)
    if not np.all(np.isfinite(steps) & (steps >= least) & (steps == np.floor(steps))):
        raise ValueError(f"K_ref: found {K_ref}, expected an integer of {least} or more for {schedule}")


def check_share(stale_share: ArrayLike) -> Array:
    """Return a_stale / a as an array of floats.

    Raises
    ------
    ValueError
        Unless it is finite and 1 or less everywhere: the current stiffness restores, so it is not negative.
    """
    share = np.asarray(stale_share, dtype=float)
    if not np.all(np.isfinite(share) & (share <= 1)):
        raise ValueError(f"stale_share: found {share}, expected a finite number of 1 or less")
    return share


def mean_age(schedule: Schedule, K_ref: ArrayLike) -> Array:
    """Mean age of the gradient that acts, steps: K_ref under a fixed lag, (K_ref - 1)/2 when refreshed every K_ref."""
    check_schedule(schedule, K_ref)
    steps = np.asarray(K_ref, dtype=float)
    return steps if schedule == "fixed_lag" else (steps - 1) / 2


def companion(a: float, mu: float, K_ref: int) -> Array:
    """Matrix that maps (e[n], e[n-1], ...) to (e[n+1], e[n], ...) under a fixed lag.

    Its eigenvalues are the roots of z^(L+1) - (1+mu) z^L + mu z^(L-1) + a, L = K_ref >= 1, or of
    z^2 - (1+mu-a) z + mu for L = 0. Shape (max(L, 1) + 1,) * 2.
    """
    check_positive("a", a), check_momentum(mu), check_schedule("fixed_lag", K_ref)
    matrix = np.eye(max(K_ref, 1) + 1, k=-1)
    matrix[0, 0] += 1 + mu
    matrix[0, 1] -= mu
    matrix[0, K_ref] -= a
    return matrix


def _period(a_now: float, a_stale: float, mu: float, K_ref: int) -> Array:
    """(e, v) after each of a period's K_ref steps, shape (K_ref, 2, 3): from e = 1, from v = 1, and from xi = 1."""
    check_positive("a_now + a_stale", a_now + a_stale)
    check_momentum(mu), check_schedule("periodic", K_ref)
    frozen, v, xi = np.eye(3)
    e, steps = frozen, []
    for _ in range(K_ref):
        v = mu * v - a_now * e - a_stale * frozen + xi
        e = e + v
        steps.append([e, v])
    return np.array(steps)


def monodromy(a_now: float, a_stale: float, mu: float, K_ref: int) -> Array:
    """Matrix that maps (e, v) from one refresh to the next, shape (2, 2).

    Parameters
    ----------
    a_now, a_stale : float
        Stiffness per step that acts on the current and on the last refreshed error; their sum is above 0. The plain
        periodic refresh has a_now = 0.
    mu : float
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : int
        Steps per refresh, 1 or more.
    """
    return _period(a_now, a_stale, mu, K_ref)[-1, :, :2]


def spectral_radius(matrix: Array) -> float:
    """Largest modulus of an eigenvalue; the linear update is stable iff it is below 1."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))


def _split(schedule: Schedule, a: float, stale_share: float) -> tuple[float, float]:
    """a_now and a_stale of a refreshing schedule."""
    check_positive("a", a)
    share = 1.0 if schedule == "periodic" else float(check_share(stale_share))
    return (1 - share) * a, share * a


def slowest_mode(schedule: Schedule, a: float, mu: float, K_ref: int, stale_share: float = 1.0) -> Mode:
    """Exact decay rate and angular frequency, 1/step, of the mode that outlives the others.

    They are -ln|z| and |arg z| of the eigenvalue z of largest modulus; when refreshed, of a period and over its K_ref
    steps. A turn of more than half a circle within a period is folded back.

    Parameters
    ----------
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    a : float
        Stiffness per step, eta K, above 0.
    mu : float
        Heavy-ball momentum, 0 <= mu < 1.
    K_ref : int
        Lag (0 or more) or refresh interval (1 or more), steps.
    stale_share : float
        a_stale / a, 1 or less; used by importance_corrected only.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    check_schedule(schedule, K_ref)
    if schedule == "fixed_lag":
        matrix, steps = companion(a, mu, K_ref), 1
    else:
        matrix, steps = monodromy(*_split(schedule, a, stale_share), mu, K_ref), K_ref
    roots = np.linalg.eigvals(matrix)
    leading = roots[np.argmax(np.abs(roots))]
    with np.errstate(divide="ignore"):  # an update that ends in one step has an infinite rate
        return Mode(-np.log(np.abs(leading)) / steps, np.abs(np.angle(leading)) / steps)


def stationary_variance(
    schedule: Schedule, a: float, mu: float, K_ref: int, noise: float, stale_share: float = 1.0
) -> float:
    """Exact stationary variance of e, by the discrete Lyapunov equation.

    A sampled batch adds one zero-mean noise to v. Under a fixed lag each step has a batch of its own. A refreshing
    schedule reuses one for K_ref steps: the same noise acts at each of them, and the result is the mean over the phases
    of the period.

    Parameters
    ----------
    schedule, a, mu, K_ref, stale_share
        As in `slowest_mode`.
    noise : float
        Variance of the noise, in the error's unit squared, above 0.

    Raises
    ------
    ValueError
        If a parameter is outside its domain, or the update is unstable, so that no stationary state exists.
    """
    check_schedule(schedule, K_ref)
    check_positive("noise", noise)
    if schedule == "fixed_lag":
        matrix = companion(a, mu, K_ref)
        forcing = np.eye(len(matrix), 1)
    else:
        period = _period(*_split(schedule, a, stale_share), mu, K_ref)
        matrix, forcing = period[-1, :, :2], period[-1, :, 2:]
    if spectral_radius(matrix) >= 1:
        raise ValueError(f"a = {a:g}, mu = {mu:g}, K_ref = {K_ref}, {schedule}: unstable, no stationary state exists")
    state = solve_discrete_lyapunov(matrix, noise * forcing @ forcing.T)
    if schedule == "fixed_lag":
        return float(state[0, 0])
    e, from_noise = period[:, 0, :2], period[:, 0, 2]
    return float(np.mean(np.einsum("ki,ij,kj->k", e, state, e) + noise * from_noise**2))
