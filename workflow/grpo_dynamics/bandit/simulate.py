"""Simulation of the softmax bandit: many replicas at once, under heavy-ball momentum and the three lag schedules.

    v[n+1] = mu v[n] + eta g,      theta[n+1] = theta[n] + v[n+1]

    g = p_now (1-p_now) (s / (p_old (1-p_old)) - beta (theta_now - theta_ref))

where s is sqrt(p_old (1-p_old)) in the mean field and the mean of sqrt(k (G-k))/G over the step's groups,
k ~ Binomial(G, p_old), otherwise. `old` is the sampling policy. fixed_lag and periodic take the whole gradient at it
(now = old); importance_corrected takes `now` as current, and its ratios may be clipped as in PPO. Source: theory,
sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from grpo_dynamics.bandit import kernels
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.command import InputError
from grpo_dynamics.theory.finite_group import group_gradient
from grpo_dynamics.theory.lag import SCHEDULES, Schedule, check_schedule
from grpo_dynamics.theory.oscillator import check_momentum, check_positive

Array = NDArray[np.float64]
QUIET = 1e-290  # smallest error that is followed; below it doubles lose their precision
_BLOCK = 256  # replicas, at most, that a thread advances side by side
_SAMPLED_BLOCK = 16  # the same for sampled groups
_UNIFORMS = 32_768  # that a sampled replica draws at a time
_LARGEST_G = 1000  # the sampler's weights, up to 2^G, must be doubles


class MeanField(NamedTuple):
    """What a mean-field simulation accumulates; arrays of the replicas' broadcast shape unless said otherwise.

    Attributes
    ----------
    e : ndarray
        Last error theta - theta*.
    length : ndarray of int
        Steps taken; fewer than asked for where the replica has died out or exceeded `highest`.
    crossed : ndarray of int
        Step by which the error last changed its sign, to within 64 steps or ten lags; 0 if it never did.
    early : ndarray
        Largest modulus of the error in the second quarter of the steps; 0 if it was not reached.
    low, high : ndarray
        Extremes of the error in the last quarter; inf and -inf if it was not reached.
    path : ndarray, shape (..., steps + 1), or None
        Errors of all steps, if asked for; 0 after a replica has died out, NaN after it has ended otherwise.
    """

    e: Array
    length: NDArray[np.int64]
    crossed: NDArray[np.int64]
    early: Array
    low: Array
    high: Array
    path: Array | None


class Sampled(NamedTuple):
    """What a simulation on sampled groups accumulates, arrays of shape (replicas,) unless said otherwise.

    Attributes
    ----------
    p : ndarray
        Expected reward after the last step.
    mean, square : ndarray
        Mean of p - centre and of its square over the steps after `burn_in`.
    path : ndarray, shape (replicas, steps + 1), or None
        Expected reward p after every step, from the start, if asked for.
    """

    p: Array
    mean: Array
    square: Array
    path: Array | None


def check(eta: ArrayLike, mu: ArrayLike, K_ref: ArrayLike, schedule: str, steps: int, clip: float | None) -> int:
    """Refuse settings outside their domain; the number of the schedule in the compiled loops."""
    check_positive("eta", eta), check_momentum(mu)
    for interval in np.unique(K_ref):
        check_schedule(schedule, interval)
    if steps < 1:
        raise InputError(f"steps: found {steps}, expected 1 or more")
    if clip is not None and (schedule != "importance_corrected" or not 0 < clip < 1):
        raise InputError(f"clip: found {clip} with {schedule}, expected 0 < clip < 1 with importance_corrected")
    return SCHEDULES.index(schedule)


def in_threads(work: Callable[[int], None], jobs: int, threads: int) -> None:
    """Do `work` for 0 .. jobs - 1; the compiled loops release the lock, so that threads run at once."""
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, range(jobs)):
            pass


def mean_field(
    bandit: Bandit,
    *,
    eta: ArrayLike,
    mu: ArrayLike,
    K_ref: ArrayLike,
    schedule: Schedule,
    start: ArrayLike,
    steps: int,
    clip: float | None = None,
    highest: float = np.inf,
    quiet: float = QUIET,
    record: bool = False,
    threads: int = 1,
) -> MeanField:
    """Deterministic mean field of replicas that differ in eta, mu, K_ref or start, from rest.

    Parameters
    ----------
    bandit : Bandit
        With G = None.
    eta, mu : array_like
        Learning rate above 0 and heavy-ball momentum, 0 <= mu < 1.
    K_ref : array_like of int
        Lag or refresh interval in optimiser steps.
    schedule : {"fixed_lag", "periodic", "importance_corrected"}
    start : array_like
        Initial error in theta; a fixed lag sees it as the whole past.
    steps : int
        Optimiser steps, 1 or more.
    clip : float, optional
        Ratios p/p_old of the rewarded arm above 1 + clip and of the other below 1 - clip have no gradient; with
        importance_corrected only.
    highest : float
        End a replica once its error's modulus exceeds this.
    quiet : float
        End a replica whose error stays below this; changes of sign below it are not counted.
    record : bool
        Keep all errors; memory grows with the number of steps only then.
    threads : int
        Blocks of replicas are spread over them; the numbers do not depend on it.

    Raises
    ------
    ValueError
        If a parameter is outside its domain, or the bandit has no fixed point.
    """
    code = check(eta, mu, K_ref, schedule, steps, clip)
    if bandit.G is not None:
        raise InputError(f"bandit: found G = {bandit.G}, expected None for the mean field")
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (eta, mu, K_ref, start)))
    shape = arrays[0].shape
    eta, mu, K_ref, start = (np.ravel(value) for value in arrays)
    state = np.zeros((kernels.REPLICA + 1, start.size))
    state[kernels.E], state[kernels.ETA], state[kernels.MU], state[kernels.SIGN] = start, eta, mu, np.sign(start)
    state[[kernels.LEAST, kernels.LOW]], state[[kernels.MOST, kernels.HIGH]] = np.inf, -np.inf
    state[kernels.REPLICA] = np.arange(start.size)
    path = np.full((start.size, steps + 1), np.nan) if record else np.empty((0, 0))
    if record:
        path[:, 0] = start
    u = float(np.exp(bandit.fixed_point() / 2))
    # A block holds replicas of one K_ref, which then share their place in the ring of past gradients.
    members = [np.flatnonzero(K_ref == interval) for interval in np.unique(K_ref)]
    blocks = [
        part for same in members for part in np.array_split(same, min(same.size, max(threads, -(-same.size // _BLOCK))))
    ]

    def advance(block: int) -> None:
        replicas = blocks[block]
        own, lag = np.ascontiguousarray(state[:, replicas]), int(K_ref[replicas[0]])
        kernels.mean_field(
            own, np.empty((lag + 1, replicas.size)), lag, u, bandit.beta, code, np.inf if clip is None else clip, steps,
            highest, quiet, path,
        )  # fmt: skip
        state[:, own[kernels.REPLICA].astype(int)] = own

    in_threads(advance, len(blocks), threads)
    if record:
        path[np.isnan(path) & (np.abs(state[kernels.E]) < quiet)[:, np.newaxis]] = 0.0
    e, early, low, high = (state[row].reshape(shape) for row in (kernels.E, kernels.EARLY, kernels.LOW, kernels.HIGH))
    crossed, length = (state[row].reshape(shape).astype(np.int64) for row in (kernels.CROSSED, kernels.LENGTH))
    return MeanField(e, length, crossed, early, low, high, path.reshape(*shape, steps + 1) if record else None)


def sampler(bandit: Bandit, groups_per_step: int) -> tuple[Array, Array]:
    """The group gradient at k = 0 .. G successes, and the binomial coefficients C(G, k)."""
    if bandit.G is None or groups_per_step < 1 or bandit.G > _LARGEST_G:
        raise InputError(
            f"groups: found G = {bandit.G} and {groups_per_step} groups per step, expected G up to {_LARGEST_G} and 1 "
            "group or more"
        )
    return group_gradient(bandit.G, bandit.std), comb(bandit.G, np.arange(bandit.G + 1))


def groups(
    bandit: Bandit,
    *,
    eta: float,
    mu: float,
    K_ref: int,
    schedule: Schedule,
    start: float,
    steps: int,
    groups_per_step: int,
    seeds: Sequence[int],
    clip: float | None = None,
    burn_in: int = 0,
    centre: float = 0.0,
    record: bool = False,
    threads: int = 1,
) -> Sampled:
    """Replicas trained on sampled groups of `bandit.G` completions, from the logit `start` at rest.

    A binomial is drawn by inversion from one uniform and never falls as p rises, so that replicas of one seed which
    start at different logits stay coupled.

    Parameters
    ----------
    groups_per_step : int
        Groups per sampled batch, whose gradients are averaged, 1 or more.
    seeds : sequence of int, length replicas
        One seed per replica.
    burn_in : int
        Steps that precede the accumulated ones.
    centre : float
        Deviations of p are taken from it.
    bandit, eta, mu, K_ref, schedule, steps, clip, record, threads
        As in `mean_field`, except that `bandit.G` is a number, 1000 at most, and that the other parameters are scalars.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    code = check(eta, mu, K_ref, schedule, steps, clip)
    value, choices = sampler(bandit, groups_per_step)
    K_ref, theta = int(K_ref), float(start)
    odds = float(np.exp(-abs(theta)))
    p = (1.0 if theta > 0 else odds) / (1 + odds)
    state = np.zeros((kernels.SECOND + 1, len(seeds)))
    state[: kernels.ODDS + 1] = np.array([theta, p, odds])[:, np.newaxis]
    path = np.full((len(seeds), steps + 1), p) if record else np.empty((len(seeds), 0))
    blocks = np.array_split(np.arange(len(seeds)), max(threads, -(-len(seeds) // _SAMPLED_BLOCK)))
    per_batch = 1 if schedule == "fixed_lag" else K_ref

    def advance(block: int) -> None:
        replicas = blocks[block]
        if not replicas.size:
            return
        rngs = [np.random.default_rng(seeds[replica]) for replica in replicas]
        own, own_path = np.ascontiguousarray(state[:, replicas]), path[replicas[0] : replicas[-1] + 1]
        past = np.empty((K_ref + 1, 3, replicas.size))
        past[:] = own[:3]
        batches = min(max(1, _UNIFORMS // groups_per_step), -(-steps // per_batch))
        uniforms = np.empty((replicas.size, batches, groups_per_step))
        for begin in range(0, steps, batches * per_batch):
            for rng, own_uniforms in zip(rngs, uniforms, strict=True):
                rng.random(out=own_uniforms)
            kernels.sampled(
                own, past, uniforms, begin, min(begin + batches * per_batch, steps), bandit.theta_ref, bandit.beta, eta,
                mu, K_ref, code, np.inf if clip is None else clip, np.diff(value), choices, burn_in, centre, own_path,
            )  # fmt: skip
        state[:, replicas] = own

    in_threads(advance, len(blocks), threads)
    kept = max(steps - burn_in, 1)
    mean, square = state[kernels.FIRST] / kept, state[kernels.SECOND] / kept
    return Sampled(state[kernels.P], mean, square, path if record else None)


def group_gradients(
    bandit: Bandit, *, p: float, groups: int, seeds: Sequence[int], threads: int = 1
) -> tuple[Array, Array]:
    """Mean and variance over sampled groups of one group's gradient, per unit of theta, for each seed.

    Parameters
    ----------
    p : float
        Probability of success of the sampling policy.
    groups : int
        Groups drawn for each seed, 2 or more.
    bandit, seeds, threads
        As in `groups`.
    """
    value, choices = sampler(bandit, groups)
    mean, square = np.empty((2, len(seeds)))

    def draw(replica: int) -> None:
        cdf = np.empty(value.size)
        kernels.fill_cdf(cdf, choices, min(p, 1 - p) / max(p, 1 - p))
        uniforms = np.random.default_rng(seeds[replica]).random(groups)
        sums = kernels.group_gradients(uniforms, cdf, value, p <= 0.5)
        mean[replica], square[replica] = sums[0] / groups, sums[1] / groups

    in_threads(draw, len(seeds), threads)
    return mean, (square - mean**2) * groups / (groups - 1)
