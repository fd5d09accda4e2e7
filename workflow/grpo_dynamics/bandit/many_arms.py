"""The softmax bandit with a logit per arm (numba), where the one-logit bandit's assumption can be dropped.

Arms that start equal within their class have the expected dynamics of the one-logit bandit at eta times the gain
1/n_good + 1/n_bad, KL anchor included (theory, section 4); sampled groups let them drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from grpo_dynamics.bandit import kernels
from grpo_dynamics.bandit.kernels import fill_cdf
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.bandit.simulate import Array, Sampled, check, in_threads, sampler
from grpo_dynamics.command import InputError
from grpo_dynamics.theory.lag import Schedule


@kernels.compiled
def _successes(rng, cdf, rising):
    """Number of successes in one group, as in `kernels.group_gradients`."""
    G = cdf.size - 1
    uniform = rng.random() * cdf[G]
    if not rising:
        uniform = cdf[G] - uniform
    k = 0
    for j in range(G):
        k += uniform > cdf[j]
    return k if rising else G - k


@kernels.compiled
def _softmax(logits, policy):
    """Fill `policy` with the softmax of `logits`."""
    policy[:] = np.exp(logits - logits.max())
    policy /= policy.sum()


@kernels.compiled
def _arm_weights(rng, policy, n_good, value, choices, cdf, groups, weights):
    """Fill `weights` with the mean over groups of each arm's advantage times its count, over G.

    Without groups it is the expectation in the mean field, pi (r - p)/sqrt(p(1-p)).
    """
    p = min(policy[:n_good].sum(), 1.0)
    if groups == 0:
        spread = math.sqrt(p * (1 - p))
        weights[:n_good] = policy[:n_good] * (1 - p) / spread
        weights[n_good:] = -policy[n_good:] * p / spread
        return
    G = cdf.size - 1
    fill_cdf(cdf, choices, min(p, 1 - p) / max(p, 1 - p))
    weights[:] = 0.0
    for _ in range(groups):
        good = _successes(rng, cdf, p <= 0.5)
        if good == 0 or good == G:
            continue
        for first, last, left, rest, weight in (
            (0, n_good, good, p, value[good] / good),
            (n_good, policy.size, G - good, 1 - p, -value[good] / (G - good)),
        ):
            for i in range(first, last):  # a multinomial count, arm by arm
                share = min(policy[i] / rest, 1.0) if i + 1 < last else 1.0
                count = left if share >= 1.0 else rng.binomial(left, share)
                weights[i] += weight * count / groups
                left -= count
                rest -= policy[i]
                if left == 0:
                    break


@kernels.compiled
def _follow(rng, logits, reference, n_good, beta, eta, mu, K_ref, schedule, clip, value, choices, groups, steps,
            burn_in, centre, path):  # fmt: skip
    """Advance the logits of one many-armed bandit, rewarded arms first; in place.

    Returns the mean of p - centre and of its square after burn-in. `reference` holds the logarithms of the reference
    policy.
    """
    M = logits.size
    cdf = np.empty(value.size)
    ring = np.empty((K_ref + 1, M))
    ring[:] = logits
    v, policy, sampler, weights = np.zeros(M), np.empty(M), np.empty(M), np.empty(M)
    first, second = 0.0, 0.0
    _softmax(logits, sampler)
    for n in range(steps):
        slot = n % (K_ref + 1)
        ring[slot] = logits
        if schedule == kernels.FIXED_LAG or n % K_ref == 0:
            _softmax(ring[slot + 1 if slot < K_ref else 0] if schedule == kernels.FIXED_LAG else logits, sampler)
            _arm_weights(rng, sampler, n_good, value, choices, cdf, groups, weights)
        if schedule == kernels.CORRECTED:
            _softmax(logits, policy)
        else:
            policy[:] = sampler
        total, divergence = 0.0, 0.0
        for i in range(M):
            divergence += policy[i] * (math.log(policy[i]) - reference[i])
            ratio = policy[i] / sampler[i]
            kept = ratio <= 1 + clip if i < n_good else ratio >= 1 - clip
            total += kept * ratio * weights[i]
        for i in range(M):
            ratio = policy[i] / sampler[i]
            kept = ratio <= 1 + clip if i < n_good else ratio >= 1 - clip
            anchor = policy[i] * (math.log(policy[i]) - reference[i] - divergence)
            v[i] = mu * v[i] + eta * (kept * ratio * weights[i] - policy[i] * total - beta * anchor)
        logits += v
        _softmax(logits, policy)
        p = policy[:n_good].sum()
        if path.size:
            path[n + 1] = p
        if n >= burn_in:
            first += p - centre
            second += (p - centre) ** 2
    kept_steps = max(steps - burn_in, 1)
    return first / kept_steps, second / kept_steps


def arms(
    bandit: Bandit,
    *,
    n_good: int,
    n_bad: int,
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
    """Replicas with a logit per arm, `n_good` rewarded and `n_bad` not, that start equal within their class.

    Parameters
    ----------
    n_good, n_bad : int
        Arms of each class, 1 or more.
    start : float
        Logit of the expected reward at the start.
    groups_per_step : int
        Groups per sampled batch; with `bandit.G` None it is 0, and the arms follow their mean field.
    bandit, eta, mu, K_ref, schedule, steps, seeds, clip, burn_in, centre, record, threads
        As in `groups`.

    Raises
    ------
    ValueError
        If a parameter is outside its domain.
    """
    code = check(eta, mu, K_ref, schedule, steps, clip)
    if n_good < 1 or n_bad < 1:
        raise InputError(f"arms: found {n_good} good and {n_bad} bad ones, expected 1 or more of each")
    if bandit.G is None and groups_per_step:
        raise InputError(f"groups_per_step: found {groups_per_step} without G, expected 0 for the mean field")
    value, choices = (np.zeros(1), np.zeros(0)) if bandit.G is None else sampler(bandit, groups_per_step)

    def logits(p: float) -> Array:
        return np.log(np.r_[np.full(n_good, p / n_good), np.full(n_bad, (1 - p) / n_bad)])

    reference, first = logits(bandit.p_ref), logits(float(expit(start)))
    path = np.empty((len(seeds), steps + 1) if record else (len(seeds), 0))
    path[:, :1] = expit(start)
    last, mean, square = np.empty((3, len(seeds)))

    def advance(replica: int) -> None:
        own = first.copy()
        mean[replica], square[replica] = _follow(
            np.random.default_rng(seeds[replica]), own, reference, n_good, bandit.beta, eta, mu, K_ref, code,
            np.inf if clip is None else clip, value, choices, groups_per_step, steps, burn_in, centre, path[replica],
        )  # fmt: skip
        policy = np.exp(own - own.max())
        last[replica] = policy[:n_good].sum() / policy.sum()

    in_threads(advance, len(seeds), threads)
    return Sampled(last, mean, square, path if record else None)
