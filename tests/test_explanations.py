"""Every claim and each verdict that its judge can return is explained in two sentences."""

from __future__ import annotations

import ast
import inspect
import re
import sys

import pytest

from grpo_dynamics.analysis import evidence
from grpo_dynamics.analysis.evidence import BEYOND, PAPER, REGISTER
from grpo_dynamics.analysis.explanations import EXPLANATIONS, explain
from grpo_dynamics.analysis.ledger import ledger  # noqa: F401  registers the claims

WORDS = {
    name: getattr(evidence, name)
    for name in ("REPRODUCED", "PARTLY", "NOT_REPRODUCED", "NOT_TESTED", "HOLDS", "DOES_NOT_HOLD")
}


def verdicts_of(judge) -> set[str]:
    """Verdicts that a judge's code, and that of the functions of its module which it calls, names."""
    module = sys.modules[judge.__module__]
    names, todo, seen = set(), [judge.__name__], set()
    while todo:
        name = todo.pop()
        seen.add(name)
        found = {
            node.id
            for node in ast.walk(ast.parse(inspect.getsource(getattr(module, name))))
            if isinstance(node, ast.Name)
        }
        names |= found
        todo += [other for other in found - seen if inspect.isfunction(getattr(module, other, None))
                 and getattr(module, other).__module__ == module.__name__]  # fmt: skip
    found = {WORDS[name] for name in names & set(WORDS)}
    if "all_or_some" in names:
        found |= set(BEYOND if "BEYOND" in names else PAPER)
    return found


@pytest.mark.parametrize("id", REGISTER)
def test_each_verdict_that_a_judge_can_return_is_explained(id):
    allowed = set(PAPER if id.startswith("C") else BEYOND)
    possible = verdicts_of(REGISTER[id].judge)
    assert possible
    assert possible <= set(EXPLANATIONS[id][1]) <= allowed


def test_nothing_is_explained_that_is_not_claimed():
    assert set(EXPLANATIONS) == set(REGISTER)


def sentences(text: str) -> list[str]:
    return re.findall(r"[A-Z][^.?!]*[.?!](?=\s|$)", text)


@pytest.mark.parametrize("id", EXPLANATIONS)
def test_an_explanation_is_two_short_sentences_without_numbers(id):
    claim, meaning = EXPLANATIONS[id]
    by_reason = [
        (verdict, why, second)
        for verdict, reasons in meaning.items()
        for why, second in ({"": reasons} if isinstance(reasons, str) else reasons).items()
    ]
    for verdict, why, second in by_reason:
        text = explain(id, verdict, why)
        assert sentences(text) == [claim, second], text
        assert max(len(claim.split()), len(second.split())) <= 40
        assert not re.search(r"\d", re.sub(r"\bB\d\b", "", text)), text
    assert len({second for *_, second in by_reason}) == len(by_reason)


def test_a_missing_explanation_is_a_clear_error():
    with pytest.raises(ValueError, match="found none of the claim C99, expected one for every registered claim"):
        explain("C99", "partly")
    with pytest.raises(ValueError, match="C5: found no sentence for 'holds', expected one of reproduced"):
        explain("C5", "holds")
    with pytest.raises(ValueError, match=r"C2, not tested here: found no sentence for 'rain', expected one of .*open"):
        explain("C2", "not tested here", "rain")
