"""Problems that induce a failure: far too hard for the models that train on them (claim C13)."""

from __future__ import annotations

import random

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import ladder


def hard_problems(low: int, high: int, n: int, seed: int) -> list[dict]:
    """The training task with other operands, as rows of a problem file (tasks.problems).

    Parameters
    ----------
    low, high : int
        Smallest and largest operand.
    n : int
        Number of problems, whose questions differ.
    seed : int

    Raises
    ------
    ValueError
        If so few operands do not give so many problems.
    """
    rng = random.Random(seed)
    problems: dict[str, ladder.Problem] = {}
    for _ in range(50 * n + 1000):
        if len(problems) == n:
            return ladder.rows(list(problems.values()))
        problem = ladder.in_distribution(rng, low=low, high=high)
        problems.setdefault(problem.question, problem)
    raise InputError(f"operands: found {low} to {high}, expected a range that gives {n} problems")
