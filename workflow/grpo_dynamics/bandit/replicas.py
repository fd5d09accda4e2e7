"""Independent replicas: their seeds, and intervals over them that hold together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from grpo_dynamics.command import InputError
from grpo_dynamics.seeds import derive

ALPHA = 0.05  # the bandit's intervals have level 1 - ALPHA


def seeds(seed: int, replicas: int, *names: object) -> NDArray[np.int64]:
    """Seeds of the replicas of what is called `names`, from the study's seed; two replicas or more."""
    if replicas < 2:
        raise InputError(f"replicas: found {replicas}, expected 2 or more, since intervals rest on them")
    return np.array([derive(seed, *names, replica) for replica in range(replicas)], dtype=np.int64)


def sidak(alpha: float, count: int) -> float:
    """Level at which each of `count` independent intervals misses, so that all hold together with 1 - alpha."""
    return 1 - (1 - alpha) ** (1 / count)


def half_width(values: NDArray[np.float64], alpha: float) -> float:
    """Half the width of Student's interval of the mean of `values` at level 1 - alpha."""
    return float(stats.t.ppf(1 - alpha / 2, len(values) - 1) * stats.sem(values))
