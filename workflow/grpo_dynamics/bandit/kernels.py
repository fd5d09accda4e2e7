"""Compiled loops of the bandit's simulations (numba); `simulate` checks their arguments and explains them.

    v[n+1] = mu v[n] + eta g,      theta[n+1] = theta[n] + v[n+1]

No loop allocates memory that grows with the number of steps: the past that a lag needs lives in a ring, and what is
wanted of a trajectory is accumulated on the way, unless `path` has room for all of it. All of them release Python's
lock, so that replicas run in threads.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from grpo_dynamics.theory.lag import SCHEDULES

FIXED_LAG, PERIODIC, CORRECTED = range(len(SCHEDULES))
compiled = njit(cache=True, nogil=True, error_model="numpy")


# Rows of a mean-field block's state; a replica is a column.
E, V, ETA, MU, SIGN, HELD, WIDTH, WIDE, LEAST, MOST, EARLY, LOW, HIGH, CROSSED, LENGTH, REPLICA = range(16)


@compiled
def _excess(h):
    """exp(h) - 1 at full relative accuracy; its series costs no exponential where the error is small."""
    if abs(h) > 0.03:
        return math.exp(h) - 1
    tail = 1 / 120 + h * (1 / 720 + h * (1 / 5040 + h * (1 / 40320)))
    return h * (1 + h * (1 / 2 + h * (1 / 6 + h * (1 / 24 + h * tail))))


@compiled
def _gradient(e, u, beta):
    """The mean-field gradient at the error e = theta - theta*, where u = exp(theta*/2).

    It is s^2 (1/s - 1/s* - beta e), s = sqrt(p(1-p)) = 1/(2 cosh(theta/2)) and 1/s* = beta (theta* - theta_ref). With
    y = exp(e/2) - 1 and x = exp(theta/2) = u (1+y) the difference 1/s - 1/s* is y (u - 1/x), which keeps its relative
    accuracy as e vanishes.
    """
    y = _excess(0.5 * e)
    x = u * (1 + y)
    d = 1 + x * x
    return x / (d * d) * (y * (u * x - 1) - beta * e * x)


# One optimiser step of the first `count` replicas, side by side: the processor works on several exponentials at once.
# The rows come as arrays of their own, which is twice as fast as the indexing of a matrix.


@compiled
def _step_fixed_lag(e, v, eta, mu, least, most, newest, oldest, count, u, beta):
    for i in range(count):
        newest[i] = _gradient(e[i], u, beta)
        v[i] = mu[i] * v[i] + eta[i] * oldest[i]
        e[i] += v[i]
        least[i], most[i] = min(least[i], e[i]), max(most[i], e[i])


@compiled
def _step_periodic(e, v, eta, mu, least, most, held, refresh, count, u, beta):
    """`held` is the gradient of the last refresh."""
    if refresh:
        for i in range(count):
            held[i] = _gradient(e[i], u, beta)
    for i in range(count):
        v[i] = mu[i] * v[i] + eta[i] * held[i]
        e[i] += v[i]
        least[i], most[i] = min(least[i], e[i]), max(most[i], e[i])


@compiled
def _step_corrected(e, v, eta, mu, least, most, held, width, wide, refresh, count, u, beta, clip):
    """The gradient is s^2 (1/s_old - 1/s* - beta e); `held`, `width` and `wide` are 1/s_old - 1/s*, s_old and x_old."""
    for i in range(count):
        y = _excess(0.5 * e[i])
        x = u * (1 + y)
        s = x / (1 + x * x)
        if refresh:
            held[i], width[i], wide[i] = y * (u - 1 / x), s, x
        g = held[i] - beta * e[i]
        if clip < np.inf and x > wide[i]:
            # Only a policy whose p rose since the sampling can be clipped: ratio p/p_old of the rewarded arm above
            # 1 + clip, ratio (1-p)/(1-p_old) of the other below 1 - clip.
            p, p_old = x * s, wide[i] * width[i]
            kept = (1 - p_old) * (p <= (1 + clip) * p_old) + p_old * (1 - p >= (1 - clip) * (1 - p_old))
            g -= (1 - kept) / width[i]
        v[i] = mu[i] * v[i] + eta[i] * s * s * g
        e[i] += v[i]
        least[i], most[i] = min(least[i], e[i]), max(most[i], e[i])


@compiled
def mean_field(state, ring, K_ref, u, beta, schedule, clip, steps, highest, quiet, path):
    """Advance a block of replicas of one K_ref from rest; in place.

    Extremes are folded over windows: EARLY takes the largest |e| of those in the second quarter of the steps, LOW and
    HIGH the extremes of those in the last quarter, CROSSED the end of the last one in which e changed its sign above
    `quiet`, LENGTH is the number of steps taken. A replica that has ended is swapped behind the others.
    """
    count = state.shape[1]
    quarter = steps // 4
    # An oscillation is small in passing whenever it crosses zero; a quiet window means that it died out.
    window = max(1, min(max(64, 10 * (K_ref + 1)), steps // 8))
    if schedule == FIXED_LAG:
        for i in range(count):
            ring[:, i] = _gradient(state[E, i], u, beta)  # a fixed lag sees the start as the whole past
    e, v, eta, mu, least, most = state[E], state[V], state[ETA], state[MU], state[LEAST], state[MOST]
    held, width, wide = state[HELD], state[WIDTH], state[WIDE]
    opened = 0
    for n in range(steps):
        if schedule == FIXED_LAG:
            newest, oldest = ring[n % (K_ref + 1)], ring[(n + 1) % (K_ref + 1)]
            _step_fixed_lag(e, v, eta, mu, least, most, newest, oldest, count, u, beta)
        elif schedule == PERIODIC:
            _step_periodic(e, v, eta, mu, least, most, held, n % K_ref == 0, count, u, beta)
        else:
            refresh = n % K_ref == 0
            _step_corrected(e, v, eta, mu, least, most, held, width, wide, refresh, count, u, beta, clip)
        if path.size:
            for i in range(count):
                path[int(state[REPLICA, i]), n + 1] = e[i]
        if n + 1 - opened < window and n + 1 < steps:
            continue
        i = 0
        while i < count:
            loudest = max(most[i], -least[i])
            if opened >= quarter and n < 2 * quarter:
                state[EARLY, i] = max(state[EARLY, i], loudest)
            if opened >= steps - quarter:
                state[LOW, i], state[HIGH, i] = min(state[LOW, i], least[i]), max(state[HIGH, i], most[i])
            if (-least[i] if state[SIGN, i] > 0 else most[i]) > quiet:
                state[CROSSED, i] = n + 1
            if abs(e[i]) > quiet:
                state[SIGN, i] = np.sign(e[i])
            state[LENGTH, i] = n + 1
            least[i], most[i] = np.inf, -np.inf
            if not abs(e[i]) <= highest or loudest < quiet:
                count -= 1
                for row in range(state.shape[0]):
                    state[row, i], state[row, count] = state[row, count], state[row, i]
                for slot in range(ring.shape[0]):
                    ring[slot, i], ring[slot, count] = ring[slot, count], ring[slot, i]
            else:
                i += 1
        opened = n + 1
        if count == 0:
            break


@compiled
def fill_cdf(cdf, choices, odds):
    """Weight of k or fewer among G, for k = 0 .. G, as sums of C(G, k) odds^k with odds <= 1 and `choices` C(G, k).

    Divided by the last one they are the binomial's cdf at q = odds/(1 + odds).
    """
    weight, total = 1.0, 0.0
    for k in range(cdf.size):
        total += choices[k] * weight
        weight *= odds
        cdf[k] = total


@compiled
def group_gradients(uniforms, cdf, value, rising):
    """Sum and sum of squares of the gradients of groups, one for each uniform, by inversion of `cdf`.

    The cdf is that of the rarer outcome. `rising` says whether it is the success, so that of one uniform the number of
    successes never falls as p rises; `value` does not tell k from G - k.
    """
    first, second = 0.0, 0.0
    top = cdf[cdf.size - 1]
    for i in range(uniforms.size):
        uniform = uniforms[i] * top if rising else top - uniforms[i] * top
        k = 0
        while uniform > cdf[k]:
            k += 1
        first += value[k]
        second += value[k] * value[k]
    return first, second


@compiled
def signal(uniforms, cdf, increments, rising):
    """The first of the sums of `group_gradients`, from value[k] = sum of the `increments` of all j < k.

    The uniforms above each step of the cdf are counted. Without a branch that goes either way, and in vectors, this is
    faster than a search for each uniform, up to G = 250.
    """
    total = 0.0
    scale = 1 / cdf[cdf.size - 1]
    for j in range(increments.size):
        above = 0
        if rising:
            level = cdf[j] * scale
            for i in range(uniforms.size):
                above += uniforms[i] > level
        else:
            level = 1 - cdf[j] * scale
            for i in range(uniforms.size):
                above += uniforms[i] < level
        total += increments[j] * above
    return total


# Rows of a block of sampled replicas; OLD, P_OLD and ODDS_OLD belong to the sampling policy, ODDS to the rarer outcome.
THETA, P, ODDS, SPEED, OLD, P_OLD, ODDS_OLD, SIGNAL, FIRST, SECOND = range(10)


@compiled
def sampled(state, past, uniforms, begin, end, theta_ref, beta, eta, mu, K_ref, schedule, clip, increments, choices,
            burn_in, centre, path):  # fmt: skip
    """Advance a block of replicas from step `begin` to step `end` on groups sampled by `uniforms`; in place.

    `uniforms` has a row per replica and batch, a column per group. FIRST and SECOND add up p - centre and its square
    after `burn_in`. `past` is the ring of THETA, P and ODDS that a fixed lag sees.
    """
    theta, p, odds, v, old = state[THETA], state[P], state[ODDS], state[SPEED], state[OLD]
    p_old, odds_old, drive = state[P_OLD], state[ODDS_OLD], state[SIGNAL]
    first, second = state[FIRST], state[SECOND]
    cdf = np.empty(choices.size)
    groups = uniforms.shape[2]
    batch = -1
    for n in range(begin, end):
        newest, oldest = past[n % (K_ref + 1)], past[(n + 1) % (K_ref + 1)]
        refresh = schedule == FIXED_LAG or n % K_ref == 0
        if schedule != FIXED_LAG:
            oldest = newest
        if refresh:
            batch += 1
            for i in range(theta.size):
                newest[0, i], newest[1, i], newest[2, i] = theta[i], p[i], odds[i]
                old[i], p_old[i], odds_old[i] = oldest[0, i], oldest[1, i], oldest[2, i]
                fill_cdf(cdf, choices, odds_old[i])
                drive[i] = signal(uniforms[i, batch], cdf, increments, old[i] <= 0) / groups
        for i in range(theta.size):
            if schedule == CORRECTED:
                kept = (1 - p_old[i]) * (p[i] <= (1 + clip) * p_old[i]) + p_old[i] * (
                    1 - p[i] >= (1 - clip) * (1 - p_old[i])
                )
                g = kept * drive[i] / (p_old[i] * (1 - p_old[i])) - beta * (theta[i] - theta_ref)
                g *= p[i] * (1 - p[i])
            else:
                g = drive[i] - beta * p_old[i] * (1 - p_old[i]) * (old[i] - theta_ref)
            v[i] = mu * v[i] + eta * g
            theta[i] += v[i]
            odds[i] = math.exp(-abs(theta[i]))
            p[i] = (1.0 if theta[i] > 0 else odds[i]) / (1 + odds[i])
        if path.size:
            path[:, n + 1] = p
        if n >= burn_in:
            for i in range(theta.size):
                first[i] += p[i] - centre
                second[i] += (p[i] - centre) ** 2
