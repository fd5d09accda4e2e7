"""Reading numbers as people and models write them, and comparing two of them."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

# Thousands commas only where they separate thousands: "1,234" is one number, "0,1" and "1,2345" are not.
_PLAIN = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
# Spaces separate thousands only in a text that is one number as a whole: in running text they may separate numbers.
_SPACED = rf"(?:[1-9]\d{{0,2}}(?:\s\d{{3}})+(?!\d)(?:\.\d+)?|{_PLAIN})"
_WHOLE = r"(?P<whole>[1-9]\d{0,2}(?:,\d{3})+|\d+)"
_CURRENCY = r"(?:[$€£¥]\s*)?"
_CODE = r"(?:(?:USD?|EUR|GBP|INR|Rs\.?)\s*)?"
_UNIT = r"(?:(?:\s[A-Za-z(]|[A-Za-z]{2})[A-Za-z\s/.()'-]*(?:(?<=[A-Za-z])\^?\{?[23]\}?)?)?"
_NUMBER = (
    rf"(?P<sign>[-+]?)\s*{_CODE}{_CURRENCY}(?:{_WHOLE}\s+(?=\d+\s*/))?"
    rf"(?P<top>{_SPACED})(?:\s*/\s*(?P<bottom>{_PLAIN}))?\s*(?P<percent>%|percent\b)?\s*[¢€£¥]?"
)
_WITH_UNIT = re.compile(rf"{_NUMBER}\s*{_UNIT}\s*\.?")
_WITHOUT_UNIT = re.compile(rf"{_NUMBER}\s*\.?")
_BEHIND_WORDS = re.compile(rf"(?P<words>(?:(?:[A-Za-z][A-Za-z'-]+|[AaI])(?:[,:]\s*|\s+))+){_NUMBER}\s*{_UNIT}\s*\.?")
# Words that may make another number of the one behind them, or another one besides it.
_OTHER_NUMBER = re.compile(
    r"\b(?:minus|negative|plus|times|half|third|quarter|double|twice|triple|square|root|sqrt|log|ln|sin|cos|tan|mod"
    r"|than|least|most|not|over|under|between|and|or|zero|one|two|three|four|five|six|seven|eight|nine|ten)\b",
    re.IGNORECASE,
)
# A minus belongs to a number in running text unless something stands before it from which to subtract: "5-3" ends in 3.
_IN_TEXT = re.compile(
    rf"(?P<sign>(?<![\w)\]}}%])-)?{_CURRENCY}(?<![\d.])(?:{_WHOLE} (?=\d+/\d))?"
    rf"(?P<top>{_PLAIN})(?:\s?/\s?(?P<bottom>{_PLAIN}))?\s?(?P<percent>%)?"
)
# A number in a sentence without a formula in it: no letter, sign or second number joined to it.
_IN_WORDS = re.compile(
    rf"(?P<words>(?:[A-Za-z]{{2}}|[AaI]\b)[A-Za-z\s,:'-]*\s){_CURRENCY}(?P<number>-?{_PLAIN}%?)"
    r"(?:\s+(?!(?:and|or|to)\s+\W?\d|plus\b|minus\b|times\b)[A-Za-z]{2}[^\\^+=*/]*|[\s.]*)"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{\s*(-?[\d.]+)\s*\}|(\d))\s*(?:\{\s*([\d.]+)\s*\}|(\d))")
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textbf|mathbf)\s*\{([^{}]*)\}")
_DECORATION = re.compile(r"\\!\s*|\\,|\\;|\\ |\\[()\[\]]|\*\*|\^\s*\{?\s*\\circ\s*\}?|°|\\left|\\right")
_SPACE = re.compile(r"~|\\q?quad(?![A-Za-z])")
_POUNDS = re.compile(r"\\(?:pounds|textsterling)(?![A-Za-z])\s*")
_GROUP = re.compile(r"\\underline\s*\{([^{}]*)\}|(?<![\w}^\\])\{([^{}]*)\}")
_EQUALS = re.compile(r"=|\\approx|≈")
_VARIABLE = re.compile(r"\s*[A-Za-z](?:_\{?\w+\}?)?\s*(?:=|\\approx|≈)")
_PLAIN_INTEGER = re.compile(r"-?\d{1,300}")


class Number(NamedTuple):
    """A number as it was written.

    Attributes
    ----------
    value : int or float
        Its value; an int if it was written as one, so that integers compare exactly.
    decimals : int
        Digits after the decimal point; 0 for integers and fractions.
    percent : bool
        Whether a percent sign followed. The value is not divided by 100.
    """

    value: int | float
    decimals: int
    percent: bool


def plain(text: str, keep_text: bool = True) -> str:
    r"""`text` without LaTeX and Markdown decoration: ``\$1{,}234`` is 1,234 and ``\frac{1}{2}`` is 1/2.

    `keep_text` keeps what stands in ``\text{...}`` (a unit, say); otherwise it is dropped.
    """
    for minus in ("\N{MINUS SIGN}", "\N{EN DASH}"):
        text = text.replace(minus, "-")
    if any(sign in text for sign in "\\{*°$~"):
        text = text.replace("{,}", ",").replace("\\$", "").replace("$", "").replace("\\%", "%")
        text = _POUNDS.sub("£", _SPACE.sub(" ", text))
        text = _TEXT.sub(r" \1" if keep_text else "", text)
        text = _DECORATION.sub("", text)
        text = _FRACTION.sub(lambda match: " {}/{}".format(*[group for group in match.groups() if group]), text)
        while (inner := _GROUP.sub(lambda match: match[1] or match[2] or "", text)) != text:
            text = inner
    return text.strip()


@lru_cache(maxsize=16384)
def whole_number(text: str, latex: bool = False) -> Number | None:
    r"""The number that `text` as a whole is, or None.

    Currency signs or codes (``USD 18``), a left-hand side (``m+n = 79``), a percent sign, a unit in words (``1/2 cup``)
    and a final full stop are allowed around it, and spaces between its thousands. More than one number (``3, 4``;
    ``7 or 8``), a root, a product or a one-letter unit written without a space (``2x``) make it no number.

    Parameters
    ----------
    text : str
        What stands in a box, or a gold answer.
    latex : bool
        Read it as a formula: no unit outside ``\text{...}``, and only a single variable as left-hand side, since
        ``2k`` and ``f(x) = 2`` are formulas.
    """
    if _PLAIN_INTEGER.fullmatch(text):
        return Number(int(text), 0, False)
    # A run of spaces, which several parts of the patterns could share out among them, would take long not to match.
    text = " ".join(plain(text, keep_text=not latex).split())
    if latex:
        text = _VARIABLE.sub("", text, count=1)
        match = _WITHOUT_UNIT.fullmatch(text.strip())
    else:
        match = _WITH_UNIT.fullmatch(_EQUALS.split(text)[-1].strip())
    return match and _number(match)


def behind_words(text: str) -> Number | None:
    """The number behind a label or the words of a sentence, as in ``Answer: 7`` or ``Janet makes $18 a day``, or None.

    It must be the only number, with at most a unit behind it, and no word before it may change it, as in ``minus 7`` or
    ``at least 7``.
    """
    match = _BEHIND_WORDS.fullmatch(" ".join(plain(text).split()))
    return _number(match) if match and not _OTHER_NUMBER.search(match["words"]) else None


def in_words(text: str) -> tuple[str, Number] | None:
    """The first number of a sentence that has words before it and no formula: ``that there are 12 ways`` gives 12."""
    match = _IN_WORDS.fullmatch(plain(text))
    return first_number(match["number"]) if match and not _OTHER_NUMBER.search(match["words"]) else None


def first_number(text: str) -> tuple[str, Number] | None:
    """The first number of running text, behind the last equals sign if there is one: ``3 + 4 = 7 apples`` gives 7."""
    for match in _IN_TEXT.finditer(_EQUALS.split(plain(text))[-1]):
        if number := _number(match):
            return match.group().strip(), number
    return None


def last_number(text: str) -> tuple[str, Number] | None:
    """The last number of running text."""
    for match in reversed(list(_IN_TEXT.finditer(plain(text)))):
        if number := _number(match):
            return match.group().strip(), number
    return None


def agree(answer: Number, gold: Number) -> bool:
    """Whether `answer` is right where `gold` is.

    * Integers compare exactly; a decimal answer to an integer gold may be off by 1e-6.
    * Any other gold: relative tolerance 1e-5. A gold written with two or more decimals may itself have been rounded, so
      an answer that rounds to it is right (13/3 for 4.33).
    * Percent: with a sign on one side only, both readings of it count (50 % agrees with 50 and with 0.5); with a sign
      on both sides the numbers before it are compared.
    """
    if answer.percent != gold.percent:
        other = answer.value / 100 if answer.percent else answer.value * 100
        if _close(other, gold):
            return True
    return _close(answer.value, gold)


def _close(value: int | float, gold: Number) -> bool:
    if isinstance(value, int) and isinstance(gold.value, int):
        return value == gold.value
    try:
        value, right = float(value), float(gold.value)
    except OverflowError:
        return False
    if not (math.isfinite(value) and math.isfinite(right)):
        return False
    if right.is_integer():
        return abs(value - right) <= 1e-6
    rounding = 0.5 * 10.0**-gold.decimals * (1 + 1e-9) if gold.decimals >= 2 else 0.0
    return abs(value - right) <= max(1e-5 * abs(right), rounding)


def _number(match: re.Match) -> Number | None:
    """The number that a match of one of the patterns above stands for; None for a division by zero."""
    groups = match.groupdict()
    value, decimals = _value(groups["top"])
    if groups["bottom"]:
        bottom, _ = _value(groups["bottom"])
        if not bottom:
            return None
        value, decimals = value / bottom if math.inf not in (value, bottom) else math.nan, 0
        if whole := groups.get("whole"):
            value += _value(whole)[0]
    if groups["sign"] == "-":
        value = -value
    return Number(value, decimals, bool(groups["percent"]))


def _value(text: str) -> tuple[int | float, int]:
    text = "".join(text.replace(",", "").split())
    if "." in text:
        return float(text), len(text) - text.index(".") - 1
    # A degenerate completion can hold a run of digits too long to convert; nothing agrees with infinity.
    return (int(text) if len(text) <= 300 else math.inf), 0
