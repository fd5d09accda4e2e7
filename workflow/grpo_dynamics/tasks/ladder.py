"""The arithmetic ladder: generated word problems at nine distances from the training task.

The in-distribution task is a one-step addition or subtraction. The eight out-of-distribution (OOD) tasks change one
thing each, from other names (nearest) to nested quantities (farthest). Every problem comes with one right solution and
with the solutions of several wrong strategies, which the base models also learn (training.pretraining): the right
strategy is then a latent skill that GRPO can amplify.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from grpo_dynamics.command import InputError

NAMES = ("Tom", "Ann", "Sam", "Eve", "Max", "Lea")
OTHER_NAMES = ("Raj", "Zoe", "Ivo", "Uma", "Kai", "Noa")
OBJECTS = ("figs", "hats", "pens", "eggs", "cups", "keys")
OTHER_OBJECTS = ("jars", "maps", "toys", "rugs", "bows", "logs")

MARKER = " #### "


@dataclass(frozen=True)
class Problem:
    """A word problem with its solutions.

    Attributes
    ----------
    question : str
        The text shown to the model.
    answer : int
        The right answer.
    right : str
        The right solution in one expression, such as ``"3+5=8 #### 8"``.
    worked : str
        The right solution with one step per operation; equal to `right` for one-step problems that need none.
    wrong : tuple of str
        Solutions by wrong strategies, none of which ends in the right answer.
    """

    question: str
    answer: int
    right: str
    worked: str
    wrong: tuple[str, ...]


def _solution(expression: str, value: int) -> str:
    return f"{expression}={value}{MARKER}{value}"


def _problem(
    question: str, expression: str, value: int, steps: list[tuple[str, int]], wrong: dict[str, int]
) -> Problem:
    """Assemble a problem; a wrong strategy that happens to give the right answer is left out."""
    worked = ", ".join(f"{left}={result}" for left, result in steps) + f"{MARKER}{value}"
    return Problem(
        question=question,
        answer=value,
        right=_solution(expression, value),
        worked=worked,
        wrong=tuple(_solution(left, result) for left, result in wrong.items() if result != value),
    )


def _one_step(rng: random.Random, question: Callable[[int, int, bool], str], low: int, high: int) -> Problem:
    """a + b or a - b with operands in low .. high; the larger comes first when subtracting."""
    add = rng.random() < 0.5
    a, b = rng.randint(low, high), rng.randint(low, high)
    if not add and a <= b:
        a, b = b + 1, a
    signs = ("+", "-") if add else ("-", "+")
    value, swapped = (a + b, a - b) if add else (a - b, a + b)
    expression = f"{a}{signs[0]}{b}"
    # Dropping an operand and taking the other operation are the commonest slips of weak solvers.
    wrong = {f"{a}": a, f"{b}": b, f"{a}{signs[1]}{b}": swapped}
    worked = [(f"{a}", a), (expression, value)]
    return _problem(question(a, b, add), expression, value, worked, wrong)


def in_distribution(rng: random.Random, names=NAMES, objects=OBJECTS, low: int = 1, high: int = 12) -> Problem:
    """One addition or subtraction: ``Tom has 3 figs. Tom gets 5 more. How many figs now?``."""
    name, thing = rng.choice(names), rng.choice(objects)

    def question(a: int, b: int, add: bool) -> str:
        return f"{name} has {a} {thing}. {name} {f'gets {b} more' if add else f'loses {b}'}. How many {thing} now?"

    return _one_step(rng, question, low, high)


def names(rng: random.Random) -> Problem:
    """Other names and objects, everything else as in distribution."""
    return in_distribution(rng, names=OTHER_NAMES, objects=OTHER_OBJECTS)


def templates(rng: random.Random) -> Problem:
    """Another wording of the same one-step problem."""
    thing = rng.choice(OBJECTS)

    def question(a: int, b: int, add: bool) -> str:
        change = f"{b} are put in" if add else f"{b} are taken out"
        return f"A box holds {a} {thing}. Then {change}. Count the {thing} left in it."

    return _one_step(rng, question, 1, 12)


def larger_numbers(rng: random.Random) -> Problem:
    """Operands from 13 to 40."""
    return in_distribution(rng, low=13, high=40)


def more_operands(rng: random.Random) -> Problem:
    """Two changes instead of one."""
    name, thing = rng.choice(NAMES), rng.choice(OBJECTS)
    a, b, c = (rng.randint(1, 9) for _ in range(3))
    add = rng.random() < 0.5 or a + b <= c
    sign, last = ("+", a + b + c) if add else ("-", a + b - c)
    change = f"gets {c} more" if add else f"loses {c}"
    question = f"{name} has {a} {thing}. {name} gets {b} more. {name} {change}. How many {thing} now?"
    steps = [(f"{a}+{b}", a + b), (f"{a + b}{sign}{c}", last)]
    wrong = {f"{a}": a, f"{c}": c, f"{a}+{b}": a + b}
    return _problem(question, f"{a}+{b}{sign}{c}", last, steps, wrong)


def distractors(rng: random.Random) -> Problem:
    """A fact that does not matter stands between the facts that do."""
    name, other = rng.sample(NAMES, 2)
    thing, other_thing = rng.sample(OBJECTS, 2)
    c = rng.randint(1, 12)

    def question(a: int, b: int, add: bool) -> str:
        change = f"gets {b} more" if add else f"loses {b}"
        return f"{name} has {a} {thing}. {other} has {c} {other_thing}. {name} {change}. How many {thing} now?"

    return _one_step(rng, question, 1, 12)


def other_operations(rng: random.Random) -> Problem:
    """A multiplication."""
    name, thing = rng.choice(NAMES), rng.choice(OBJECTS)
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    question = f"{name} has {a} bags of {b} {thing}. How many {thing} in all?"
    wrong = {f"{a}": a, f"{b}": b, f"{a}+{b}": a + b}
    return _problem(question, f"{a}*{b}", a * b, [(f"{a}", a), (f"{a}*{b}", a * b)], wrong)


def two_step(rng: random.Random) -> Problem:
    """A comparison, then a total."""
    name, other = rng.sample(NAMES, 2)
    thing = rng.choice(OBJECTS)
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    question = f"{name} has {a} {thing}. {other} has {b} more than {name}. How many {thing} in all?"
    steps = [(f"{a}+{b}", a + b), (f"{a}+{a + b}", 2 * a + b)]
    wrong = {f"{a}": a, f"{b}": b, f"{a}+{b}": a + b}
    return _problem(question, f"{a}+{a}+{b}", 2 * a + b, steps, wrong)


def nested(rng: random.Random) -> Problem:
    """A quantity defined by another, itself defined by a third."""
    first, second, third = rng.sample(NAMES, 3)
    thing = rng.choice(OBJECTS)
    a, b, c = (rng.randint(1, 9) for _ in range(3))
    less = c < a + b and rng.random() < 0.5
    sign, value = ("-", a + b - c) if less else ("+", a + b + c)
    question = (
        f"{first} has {a} {thing}. {second} has {b} more than {first}. "
        f"{third} has {c} {'less' if less else 'more'} than {second}. How many {thing} has {third}?"
    )
    steps = [(f"{a}+{b}", a + b), (f"{a + b}{sign}{c}", value)]
    wrong = {f"{a}": a, f"{c}": c, f"{a}+{b}": a + b}
    return _problem(question, f"{a}+{b}{sign}{c}", value, steps, wrong)


# In order of distance from the training task, which comes first. The order is the study's, fixed before any result.
LADDER: dict[str, Callable[[random.Random], Problem]] = {
    "ladder_in_distribution": in_distribution,
    "ladder_names": names,
    "ladder_templates": templates,
    "ladder_larger_numbers": larger_numbers,
    "ladder_more_operands": more_operands,
    "ladder_distractors": distractors,
    "ladder_other_operations": other_operations,
    "ladder_two_step": two_step,
    "ladder_nested": nested,
}


def generate(benchmark: str, n: int, seed: int, exclude: frozenset[str] = frozenset()) -> list[Problem]:
    """Draw `n` problems with different questions, none of which is in `exclude`.

    Parameters
    ----------
    benchmark : str
        A key of `LADDER`.
    n : int
        Number of problems.
    seed : int
        Seed of the draw.
    exclude : frozenset of str
        Questions that must not appear, such as those of the training set.

    Raises
    ------
    ValueError
        If the benchmark has too few different questions.
    """
    rng = random.Random(seed)
    problems: dict[str, Problem] = {}
    for _ in range(50 * n + 1000):
        if len(problems) == n:
            return list(problems.values())
        problem = LADDER[benchmark](rng)
        if problem.question not in exclude:
            problems.setdefault(problem.question, problem)
    raise InputError(f"{benchmark}: {n} different problems were asked for, only {len(problems)} were found")


def solution(problem: Problem, rng: random.Random, right_share: float, worked_share: float) -> str:
    """A solution as the pretraining corpus shows it: right with probability `right_share`, else by a wrong strategy.

    A right solution is worked step by step with probability `worked_share`.
    """
    if rng.random() < right_share:
        return problem.worked if rng.random() < worked_share else problem.right
    return rng.choice(problem.wrong)


def rows(problems: list[Problem]) -> list[dict]:
    """Problems in the form of a problem file (tasks.problems)."""
    return [
        {"id": f"{index:05d}", "question": problem.question, "answer": str(problem.answer), "kind": "number"}
        for index, problem in enumerate(problems)
    ]
