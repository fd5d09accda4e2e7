r"""The verifiable reward: one function scores a completion, in training and in evaluation alike.

What counts as the answer
-------------------------
The thinking part, up to the last ``</think>``, is cut; a thinking part that never ends holds no answer. Then the first
of these that is found:

1. the last box, ``\boxed{...}``, that is not empty. A box that is opened and never closed (a completion cut short) is
   no answer, whatever stands before it;
2. the last marked answer: ``#### 7``, ``the answer is 7``, ``Answer: 7``. A marker without an answer in its sentence
   is passed over, and the one before it counts. A line that starts with ``####`` and goes on with words or with the
   number of a heading (``#### Conclusion``, ``#### 2. Add them``) is a Markdown heading and no marker; a number with a
   unit behind it (``#### 7 apples``) is an answer. If no marker has an answer, but one of them is ``####`` (a
   completion cut short), there is no answer;
3. the last number of the text, found by "last number" so that it can be counted apart.

How answers compare
-------------------
"number": numbers by value (`numbers.agree`). In a box the content as a whole must be one number, with a currency sign
or code, a left-hand side, a percent sign, a unit in words or words before it at most: ``18``, ``18.0``, ``$18``,
``USD 18``, ``5¢``, ``1,234``, ``1 234``, ``1234.``, ``**277**``, ``{18}``, ``079``, ``m+n = 79``, ``x = 5``, ``-3``,
``5/2``, ``3 1/2``, ``1/2 cup``, ``50\%``, ``\text{Answer: } 7`` and ``\text{Janet makes } \$18`` are numbers; ``0,1``,
``3, 4``, ``2\sqrt{3}``, ``2x``, ``minus 7`` and ``at least 7`` are not, and score 0. Behind a marker it is the first
number, or the first one after the last equals sign. Number words, powers of ten and ratios are not read. A sign for
cents is a unit: ``5¢`` is 5.

"latex": numbers by value if both are numbers; else `math_verify`, gold first, on the found answer alone. Behind a
marker that is what stands between the first pair of dollar signs (and those joined to it by a comma, "and" or "or"),
else what comes before ", which", "because" and the like; of a sentence, if the gold answer is a number, it is the first
number. A final full stop does not matter. No tolerance is taken from the benchmark.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import latex, numbers

Kind = Literal["number", "latex"]
FoundBy = Literal["box", "marker", "last number", "none", "timeout"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MARKER = re.compile(r"#{4,}|\banswer\b[^.\n:=#]{0,60}?(?:\bis\b|[:=])[:*\s]*", re.IGNORECASE)
_SENTENCE_END = re.compile(r"\n|(?<!\bRs)\.(?:\s|$)|####")
_ENUMERATION = re.compile(r"\d+(?:\.\d+)*[.):]\s+\S")
_WORD = re.compile(r"[A-Za-z]{2}|[AI]\s")
_BRACKETS = re.compile(r"(?<!\\)\\[()\[\]]")
_FORMULA = re.compile(r"\$+([^$]+)\$+")
_JOINED = re.compile(r"\s*,?\s*(?:and|or)?\s*")
# Up to the words that go on about the answer; not those in a formula, and not those of a second answer.
_CLAUSE = re.compile(
    r"(?:\\.|\$[^$]*\$|(?!,\s+(?!and\b|or\b)[A-Za-z]{2}|\s(?:because|since|which|where)\b).)*", re.DOTALL
)


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
    answer, number, found_by = _find(completion, kind, right is not None)
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


def _find(text: str, kind: Kind, numeric: bool) -> tuple[str | None, numbers.Number | None, FoundBy]:
    """The answer in a completion, the number it is (if it is one), and where it was found.

    `numeric` tells whether the gold answer is a number.
    """
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
            if content := content.strip():
                number = numbers.whole_number(content, kind == "latex")
                if kind == "number" and number is None:
                    number = numbers.behind_words(content)
                return content, number, "box"
    cut_short = False
    for marker in reversed(list(_MARKER.finditer(text))):
        hashes = marker.group().startswith("#")
        if hashes and _is_heading(text, marker):
            continue
        segment = _SENTENCE_END.split(text[marker.end() :].lstrip(), maxsplit=1)[0].strip(" :*")
        found = _marked_formula(segment, numeric) if kind == "latex" else numbers.first_number(segment)
        if found:
            return *found, "marker"
        cut_short = cut_short or hashes
    if cut_short:
        return nothing
    found = numbers.last_number(text)
    return (*found, "last number") if found else nothing


def _is_heading(text: str, hashes: re.Match) -> bool:
    """Whether ``####`` begins a Markdown heading: a line of words or with a number of its own, not an answer."""
    if text[: hashes.start()].rpartition("\n")[2].strip():
        return False
    line = numbers.plain(text[hashes.end() :].partition("\n")[0]).strip("* ")
    if _ENUMERATION.match(line):
        return True
    return bool(_WORD.match(line)) and numbers.whole_number(line) is None


def _marked_formula(segment: str, numeric: bool) -> tuple[str, numbers.Number | None] | None:
    """The formula behind a marker: a number, what stands between dollar signs, or an expression without words.

    Words that go on about the answer are cut. Of a sentence it is the first number, if the gold answer is one
    (`numeric`).
    """
    clause = _CLAUSE.match(_BRACKETS.sub("$", segment)).group().strip(" ,")
    if number := numbers.whole_number(clause):
        return clause, number
    if formula := _between_dollars(clause):
        return formula, numbers.whole_number(formula, latex=True)
    if numeric and (found := numbers.in_words(clause)):
        return found
    if "$" in clause:
        return clause[clause.index("$") :].strip("$ "), None
    if clause and (re.search(r"[\d\\]", clause) or " " not in segment):
        return clause, None
    return None


def _between_dollars(clause: str) -> str | None:
    """What stands between the first pair of dollar signs, and between those joined to it: ``$3$ and $4$`` is 3, 4."""
    formulas, end = [], None
    for pair in _FORMULA.finditer(clause.replace("\\$", "")):
        if end is not None and not _JOINED.fullmatch(pair.string[end : pair.start()]):
            break
        formulas.append(pair[1].strip())
        end = pair.end()
    return ", ".join(formulas) or None


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
