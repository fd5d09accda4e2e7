"""The generated word problems: right answers, wrong strategies, no leakage."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_dynamics.tasks import ladder
from grpo_dynamics.tasks.scoring import score


@pytest.mark.parametrize("benchmark", ladder.LADDER)
@given(seed=st.integers(0, 2**31))
def test_solutions_score_as_they_should(benchmark, seed):
    problem = ladder.LADDER[benchmark](random.Random(seed))
    gold = str(problem.answer)
    assert score(problem.right, gold).reward == 1
    assert score(problem.worked, gold).reward == 1
    assert problem.wrong, "a problem without a wrong strategy teaches no latent skill"
    assert all(score(text, gold).reward == 0 for text in problem.wrong)


@pytest.mark.parametrize("benchmark", ladder.LADDER)
@given(seed=st.integers(0, 2**31))
def test_every_expression_is_evaluated_rightly(benchmark, seed):
    problem = ladder.LADDER[benchmark](random.Random(seed))
    for text in (problem.right, problem.worked, *problem.wrong):
        steps = text.split(" #### ")[0].split(", ")
        for step in steps:
            expression, value = step.split("=")
            assert re.fullmatch(r"[-+*\d]+", expression)
            assert eval(expression) == int(value)


def test_the_numbers_of_a_question_give_its_answer():
    rng = random.Random(1)
    for _ in range(50):
        problem = ladder.two_step(rng)
        a, b = map(int, re.findall(r"\d+", problem.question))
        assert problem.answer == a + (a + b)
        problem = ladder.other_operations(rng)
        a, b = map(int, re.findall(r"\d+", problem.question))
        assert problem.answer == a * b


def test_generate_gives_different_problems_and_respects_exclusions():
    first = ladder.generate("ladder_in_distribution", 200, seed=1)
    seen = frozenset(problem.question for problem in first)
    assert len(seen) == 200
    second = ladder.generate("ladder_in_distribution", 200, seed=1, exclude=seen)
    assert not seen & {problem.question for problem in second}
    assert ladder.generate("ladder_in_distribution", 200, seed=1) == first


def test_generate_says_when_a_benchmark_is_exhausted():
    with pytest.raises(ValueError, match="different problems were asked for"):
        ladder.generate("ladder_other_operations", 10**5, seed=1)


def test_right_share_of_the_corpus():
    rng = random.Random(0)
    problem = ladder.nested(rng)
    drawn = [ladder.solution(problem, rng, right_share=0.2, worked_share=0.5) for _ in range(4000)]
    # Three standard errors of a binomial share.
    assert drawn.count(problem.right) / 4000 == pytest.approx(0.1, abs=0.015)
    assert drawn.count(problem.worked) / 4000 == pytest.approx(0.1, abs=0.015)
