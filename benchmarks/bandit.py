"""Speed of the bandit's simulations, as ratios within one run.

* mean field: a step and replica against a compiled loop that evaluates one exponential and one square root, the least
  that the gradient's formula asks for, and against a plain NumPy loop over the steps of one replica;
* sampled groups: against the same compiled simulation with G uniforms per group, and against the NumPy loop;
* two threads against one; memory at ten times the steps.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numba import njit

from grpo_dynamics.bandit import simulate
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.theory.finite_group import group_gradient

REPEATS = 5
BANDIT = Bandit(beta=1.0, p_ref=0.2)
START = -1.5  # an error of theta that stays large enough for every step to evaluate its exponential
REPLICAS, STEPS = 2048, 4000
GROUP_REPLICAS, GROUP_STEPS = 64, 8000


def best(work: Callable[[], object]) -> float:
    """Shortest of several runs, seconds, after one that compiles."""
    work()
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


@njit
def exponentials_and_roots(x: np.ndarray, steps: int) -> float:
    total = 0.0
    for _ in range(steps):
        for i in range(x.size):
            total += math.sqrt(math.exp(x[i]))
    return total


@njit
def with_uniforms(rng, theta, theta_ref, beta, eta, mu, value, groups, steps):
    """The sampled bandit under a fixed lag of 1, with a uniform per completion."""
    G = value.size - 1
    old, v, total = theta, 0.0, 0.0
    for _ in range(steps):
        p = 1 / (1 + math.exp(-old))
        signal = 0.0
        for _ in range(groups):
            k = 0
            for _ in range(G):
                k += rng.random() < p
            signal += value[k]
        v = mu * v + eta * (signal / groups - beta * p * (1 - p) * (old - theta_ref))
        old = theta
        theta += v
        total += p
    return total


def numpy_mean_field(eta: float, mu: float, steps: int) -> float:
    """One replica of the mean field under a fixed lag of 1, a step at a time."""
    theta = old = BANDIT.fixed_point() + START
    v = 0.0
    for _ in range(steps):
        p = 1 / (1 + np.exp(-old))
        v = mu * v + eta * (np.sqrt(p * (1 - p)) - BANDIT.beta * p * (1 - p) * (old - BANDIT.theta_ref))
        old, theta = theta, theta + v
    return theta


def numpy_groups(rng: np.random.Generator, G: int, eta: float, mu: float, groups: int, steps: int) -> float:
    """One replica on sampled groups under a fixed lag of 1, a step at a time."""
    theta = old = 0.0
    v = 0.0
    for _ in range(steps):
        p = 1 / (1 + np.exp(-old))
        k = rng.binomial(G, p, size=groups)
        signal = np.mean(np.sqrt(k * (G - k))) / G
        v = mu * v + eta * (signal - BANDIT.beta * p * (1 - p) * (old - BANDIT.theta_ref))
        old, theta = theta, theta + v
    return theta


def mean_field() -> None:
    eta, x = np.linspace(0.001, 0.002, REPLICAS), np.random.default_rng(0).normal(size=REPLICAS)
    bare = best(lambda: exponentials_and_roots(x, STEPS)) / REPLICAS / STEPS
    plain = best(lambda: numpy_mean_field(0.01, 0.5, STEPS)) / STEPS
    print(f"one exp and one sqrt                    {1e9 * bare:8.2f} ns")
    for schedule, K_ref in (("fixed_lag", 1), ("fixed_lag", 4), ("periodic", 1), ("importance_corrected", 4)):
        setting = {"eta": eta, "mu": 0.5, "K_ref": K_ref, "schedule": schedule, "start": START, "steps": STEPS}
        seconds = [best(lambda s=setting, n=n: simulate.mean_field(BANDIT, **s, threads=n)) for n in (1, 2)]
        own = seconds[0] / REPLICAS / STEPS
        print(
            f"mean field, {schedule}, K_ref = {K_ref}".ljust(40)
            + f"{1e9 * own:8.2f} ns a step: {own / bare:.2f} times "
            f"exp and sqrt, 1/{plain / own:.0f} of NumPy, two threads {seconds[0] / seconds[1]:.2f} times one"
        )


def groups() -> None:
    for G, groups_per_step in ((4, 1), (16, 1), (4, 16), (4, 64), (16, 16), (16, 64), (64, 64)):
        bandit = Bandit(BANDIT.beta, BANDIT.p_ref, G)
        seeds = np.arange(GROUP_REPLICAS)
        setting = {"eta": 0.02, "mu": 0.5, "K_ref": 1, "schedule": "fixed_lag", "start": 0.0, "steps": GROUP_STEPS}
        draws = GROUP_REPLICAS * GROUP_STEPS * groups_per_step

        def own(threads: int, bandit=bandit, setting=setting, N=groups_per_step, seeds=seeds) -> None:
            simulate.groups(bandit, **setting, groups_per_step=N, seeds=seeds, threads=threads)

        def uniforms(G=G, N=groups_per_step, seeds=seeds) -> None:
            for seed in seeds:
                rng = np.random.default_rng(seed)
                with_uniforms(rng, 0.0, BANDIT.theta_ref, BANDIT.beta, 0.02, 0.5, group_gradient(G), N, GROUP_STEPS)

        one, two = best(lambda own=own: own(1)), best(lambda own=own: own(2))
        each = best(uniforms)
        rng = np.random.default_rng(0)
        plain = best(lambda G=G, N=groups_per_step, rng=rng: numpy_groups(rng, G, 0.02, 0.5, N, 200)) / 200
        print(
            f"groups, G = {G}, {groups_per_step} per step".ljust(40) + f"{1e9 * one / draws:8.2f} ns a group: "
            f"{each / one:.2f} times as fast as G uniforms, 1/{plain * GROUP_STEPS * GROUP_REPLICAS / one:.0f} of "
            f"NumPy, two threads {one / two:.2f} times one"
        )


def memory() -> None:
    def simulations(steps: int) -> float:
        """Peak memory, kB."""
        tracemalloc.start()
        simulate.mean_field(
            BANDIT, eta=np.full(64, 0.01), mu=0.5, K_ref=4, schedule="fixed_lag", start=START, steps=steps, quiet=0.0
        )
        simulate.groups(
            Bandit(1.0, 0.2, 16), eta=0.02, mu=0.5, K_ref=4, schedule="fixed_lag", start=0.0, steps=steps,
            groups_per_step=4, seeds=np.arange(8),
        )  # fmt: skip
        peak = tracemalloc.get_traced_memory()[1] / 1e3
        tracemalloc.stop()
        return peak

    simulations(100)  # compiles
    few, many = simulations(20_000), simulations(200_000)
    print(f"peak memory of simulations              {few:8.0f} kB, at ten times the steps {many:.0f} kB")


if __name__ == "__main__":
    mean_field()
    groups()
    memory()
