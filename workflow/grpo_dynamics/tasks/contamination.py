"""Benchmark problems that training gives away: the same text, the same but for its numbers, or shared n-grams.

Texts are compared as sequences of words and numbers, without case, punctuation and white space. Of the criteria below
the first that holds is given:

identical
    The same sequence as a training problem's.
same but for numbers
    The same once numbers, in digits or in words, are replaced by one sign: a template filled in twice.
n-gram overlap
    At least one n-gram stands in a training problem as well. The convention, and the choice of n, are those of Brown et
    al. (2020), Language Models are Few-Shot Learners (GPT-3), section 4 and appendix C: n is the 5th percentile of the
    lengths of the benchmark's problems in words, but at least 8, since shorter n-grams collide by chance, and at most
    13; a problem that is shorter than n counts as one n-gram as a whole. It is a low bar on purpose: an overlap is a
    reason to look, not a proof.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

Criterion = Literal["identical", "same but for numbers", "n-gram overlap"]
CRITERIA: tuple[Criterion, ...] = ("identical", "same but for numbers", "n-gram overlap")
SHORTEST, LONGEST = 8, 13
PERCENTILE = 5

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_TENS = "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million"
_NUMBER_WORDS = frozenset(f"{_ONES} {_TENS}".split())


class Match(NamedTuple):
    """A benchmark problem that a training problem gives away.

    Attributes
    ----------
    index : int
        Of the problem among the benchmark's.
    criterion : str
        One of `CRITERIA`.
    training_index : int
        Of the most similar training problem: the first that matches, or of those that share n-grams the one that holds
        most of the problem's.
    shared : float
        Share of the problem's n-grams that this training problem holds.
    """

    index: int
    criterion: Criterion
    training_index: int
    shared: float


def words(text: str) -> list[str]:
    """The words and numbers of a text in lower case; a number stays whole, without thousands commas."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return [token.replace(",", "") if token[0].isdigit() else token for token in _TOKEN.findall(text)]


def masked(tokens: Sequence[str]) -> list[str]:
    """The same with every run of numbers, in digits or in words, replaced by one sign."""
    found: list[str] = []
    for token in tokens:
        number = token[0].isdigit() or token in _NUMBER_WORDS
        if not number or found[-1:] != ["#"]:
            found.append("#" if number else token)
    return found


def ngram_length(lengths: Sequence[int]) -> int:
    """n for a benchmark whose problems have these lengths in words (see above)."""
    ordered = sorted(lengths)
    return min(max(ordered[math.ceil(PERCENTILE / 100 * len(ordered)) - 1], SHORTEST), LONGEST)


class Training:
    """The training problems, prepared for comparison.

    Parameters
    ----------
    texts : sequence of str
        Questions of the training problems.
    """

    def __init__(self, texts: Sequence[str]):
        self._tokens = [words(text) for text in texts]
        self._texts = [" ".join(tokens) for tokens in self._tokens]
        # Backwards, so that of equal texts the first stays.
        self._whole = {text: index for index, text in reversed(list(enumerate(self._texts)))}
        self._masked = {" ".join(masked(tokens)): i for i, tokens in reversed(list(enumerate(self._tokens)))}
        self._indices: dict[int, dict[str, list[int]]] = {}

    def matches(self, questions: Sequence[str]) -> list[Match]:
        """The problems of a benchmark that the training problems give away, in their order.

        Takes seconds for thousands of problems on either side.
        """
        tokens = [words(question) for question in questions]
        n = ngram_length([len(text) for text in tokens]) if tokens else LONGEST
        found = (self._match(index, text, n) for index, text in enumerate(tokens) if text)
        return [match for match in found if match]

    def _match(self, index: int, tokens: list[str], n: int) -> Match | None:
        shared = self._shared(tokens, n)
        for criterion, table, text in (
            ("identical", self._whole, " ".join(tokens)),
            ("same but for numbers", self._masked, " ".join(masked(tokens))),
        ):
            if text in table:
                return Match(index, criterion, table[text], shared.get(table[text], 0.0))
        if not shared:
            return None
        most = max(shared.values())
        nearest = min(training for training, share in shared.items() if share == most)
        return Match(index, "n-gram overlap", nearest, most)

    def _shared(self, tokens: list[str], n: int) -> dict[int, float]:
        """By training problem that holds any, the share of the n-grams that it holds; a short text is one by itself."""
        if len(tokens) < n:
            whole = f" {' '.join(tokens)} "
            return {index: 1.0 for index, text in enumerate(self._texts) if whole in f" {text} "}
        ngrams, holders = _ngrams(tokens, n), self._index(n)
        counts = Counter(holder for ngram in ngrams for holder in holders.get(ngram, ()))
        return {holder: count / len(ngrams) for holder, count in counts.items()}

    def _index(self, n: int) -> dict[str, list[int]]:
        """By n-gram, the training problems that hold it."""
        if n not in self._indices:
            index = defaultdict(list)
            for holder, tokens in enumerate(self._tokens):
                for ngram in _ngrams(tokens, n):
                    index[ngram].append(holder)
            self._indices[n] = dict(index)
        return self._indices[n]


def _ngrams(tokens: list[str], n: int) -> set[str]:
    return {" ".join(tokens[start : start + n]) for start in range(len(tokens) - n + 1)}
