"""Speed of the exact thresholds, as ratios within one run.

One line per schedule: both thresholds on a map of 200 x 200 (K_ref = 1 .. 200, momentum 0 .. 0.99) against a plain loop
of scalar calls over every 20th row and column of it, per threshold.
"""

from __future__ import annotations

import time

import numpy as np

from grpo_dynamics.theory import thresholds
from grpo_dynamics.theory.lag import SCHEDULES

K_REFS = np.arange(1, 201)
MUS = np.linspace(0, 0.99, 200)
SHARE = -0.64  # a_stale / a of a bandit with beta = 1 and p_ref = 0.2
EVERY = 20
BOTH = (thresholds.stability_threshold, thresholds.onset_threshold)


def main() -> None:
    total = 0.0
    for schedule in SCHEDULES:
        started = time.perf_counter()
        for threshold in BOTH:
            threshold(schedule, MUS[:, np.newaxis], K_REFS, SHARE)
        seconds = time.perf_counter() - started
        each = seconds / (len(BOTH) * MUS.size * K_REFS.size)
        started = time.perf_counter()
        for threshold in BOTH:
            for mu in MUS[::EVERY]:
                for K_ref in K_REFS[::EVERY]:
                    threshold(schedule, mu, K_ref, SHARE)
        alone = (time.perf_counter() - started) / (len(BOTH) * MUS[::EVERY].size * K_REFS[::EVERY].size)
        print(
            f"{schedule}, 200 x 200".ljust(32) + f"{seconds:8.3f} s: {1 / each:.3g} thresholds a second, "
            f"{alone / each:.0f} times a loop of scalar calls"
        )
        total += seconds
    print("all three".ljust(32) + f"{total:8.3f} s")


if __name__ == "__main__":
    main()
