r"""The verifiable reward: one function scores a completion, in training and in evaluation alike.

What counts as the answer
-------------------------
The thinking part, up to the last ``</think>``, is cut; a thinking part that never ends holds no answer. Then the first
of these that is found:

1. the last box, ``\boxed{...}``, that is not empty. A box that is opened and never closed (a completion cut short) is
   no answer, whatever stands before it;
2. the last marked answer: ``#### 7``, ``the answer is 7``, ``Answer: 7``. ``####`` with nothing behind it is no answer;
   another marker without a number in its sentence is only prose, and the one before it counts;
3. the last number of the text, found by "last number" so that it can be counted apart.

How answers compare
-------------------
"number": numbers by value (`numbers.agree`). In a box the content as a whole must be one number, with a currency sign,
a left-hand side, a percent sign or a unit in words around it at most: ``18``, ``18.0``, ``$18``, ``1,234``, ``1234.``,
``**277**``, ``079``, ``m+n = 79``, ``x = 5``, ``-3``, ``5/2``, ``1/2 cup`` and ``50\%`` are numbers; ``0,1``, ``3, 4``,
``2\sqrt{3}`` and ``2x`` are not, and score 0. Behind a marker it is the first number, or the first one after the last
equals sign. Number words, powers of ten and ratios are not read.

"latex": numbers by value if both are numbers; else `math_verify`, gold first, on the found answer alone.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import latex, numbers

Kind = Literal["number", "latex"]
FoundBy = Literal["box", "marker", "last number", "none", "timeout"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MARKER = re.compile(r"####|\banswer\b[^.\n:=#]{0,60}?(?:\bis\b|[:=])[:*\s]*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"\n|\.(?:\s|$)|####")


class Score(NamedTuple):
    """What a completion is worth.

    Attributes
    ----------
    reward : float
        1 if the answer is right, else 0 (also without an answer, and after a timeout).
    answer : str or None
        The answer as found in the completion.
    found_by : {"box", "marker", "last number", "none", "timeout"}
        Where it was found; "timeout" if it was found but the comparison did not end in time.
    """

    reward: float
    answer: str | None
    found_by: FoundBy


def score(completion: str, gold: str, kind: Kind = "number") -> Score:
    """Score a completion against the gold answer, by the rules of this module.

    Parameters
    ----------
    completion : str
        What the model wrote, without the prompt.
    gold : str
        Right answer, without a box or marker around it.
    kind : {"number", "latex"}
        How answers compare. "number" takes microseconds; "latex" may take up to 20 seconds, then times out.

    Returns
    -------
    Score

    Raises
    ------
    ValueError
        If `kind` is neither, or if `gold` is not a number where a number is asked for.
    """
    if kind not in ("number", "latex"):
        raise InputError(f"kind of answer: found {kind!r}, expected 'number' or 'latex'")
    right = numbers.whole_number(gold, kind == "latex")
    if kind == "number" and right is None:
        raise InputError(f"gold answer: found {gold!r}, expected a number")
    answer, number, found_by = _find(completion, kind)
    if answer is None:
        return Score(0.0, None, "none")
    if number is not None and right is not None:
        return Score(float(numbers.agree(number, right)), answer, found_by)
    if kind == "number":
        return Score(0.0, answer, found_by)
    equal = latex.equivalent(gold, answer)
    return Score(0.0, answer, "timeout") if equal is None else Score(float(equal), answer, found_by)


def scorable(gold: str, kind: Kind = "number") -> bool:
    """Whether the gold answer, given as the boxed answer, scores as right against itself."""
    if kind == "number" and numbers.whole_number(gold) is None:
        return False
    return score(f"\\boxed{{{gold}}}", gold, kind).reward == 1.0


def verifiable_reward(
    prompts: list, completions: list, answer: list[str], kind: list[Kind], **columns: object
) -> list[float]:
    """The scorer as a reward function of TRL's GRPOTrainer (``reward_funcs=[verifiable_reward]``).

    The data set's columns ``answer`` and ``kind`` hold the gold answers and how they compare. Completions are strings,
    or conversations whose last message is the model's. A comparison that times out is worth 0.
    """
    texts = (item if isinstance(item, str) else item[-1]["content"] for item in completions)
    return [score(text, gold, how).reward for text, gold, how in zip(texts, answer, kind, strict=True)]


def _find(text: str, kind: Kind) -> tuple[str | None, numbers.Number | None, FoundBy]:
    """The answer in a completion, the number it is (if it is one), and where it was found."""
    nothing = (None, None, "none")
    if "think>" in text:
        _, ended, text = text.rpartition("</think>")
        if not ended and "<think>" in text:
            return nothing
    if "\\boxed" in text or "\\fbox" in text:
        for box in reversed(list(_BOX.finditer(text))):
            content = _balanced(text, box.end())
            if content is None:
                return nothing
            if content.strip():
                return content.strip(), numbers.whole_number(content.strip(), kind == "latex"), "box"
    for marker in reversed(list(_MARKER.finditer(text))):
        segment = _SENTENCE_END.split(text[marker.end() :].lstrip(), maxsplit=1)[0].strip(" :*")
        found = _marked_formula(segment) if kind == "latex" else numbers.first_number(segment)
        if found:
            return *found, "marker"
        if marker.group() == "####":
            return nothing
    found = numbers.last_number(text)
    return (*found, "last number") if found else nothing


def _marked_formula(segment: str) -> tuple[str, numbers.Number | None] | None:
    """The formula behind a marker: a number, what stands between dollar signs, or an expression without words."""
    if number := numbers.whole_number(segment):
        return segment, number
    if "$" in segment:
        return segment[segment.index("$") :].strip("$ "), None
    if segment and (re.search(r"[\d\\]", segment) or " " not in segment):
        return segment, None
    return None


def _balanced(text: str, start: int) -> str | None:
    """What stands from `start` to the brace that closes the one before it; None if it is never closed."""
    depth = 1
    for position in range(start, len(text)):
        if text[position] == "{" and text[position - 1] != "\\":
            depth += 1
        elif text[position] == "}" and text[position - 1] != "\\":
            depth -= 1
            if depth == 0:
                return text[start:position]
    return None
