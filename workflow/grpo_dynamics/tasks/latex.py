"""Whether two formulas mean the same, by math_verify, within a time limit that also holds off the main thread."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import cache, lru_cache

PARSING_SECONDS = 5
COMPARISON_SECONDS = 5


def equivalent(gold: str, answer: str) -> bool | None:
    """Whether `answer` means the same as `gold`; None if parsing or comparing did not end in time.

    The comparison is not symmetric: the gold answer may be an equation (``y = 2x + 3``) of which the answer gives the
    right-hand side, and several answers separated by commas compare as a set.

    math_verify's time limits are signals, which Python delivers to the main thread only. Called from another thread,
    this function asks a child process, whose main thread is free.

    Parameters
    ----------
    gold, answer : str
        LaTeX, without a box; dollar signs and a final full stop do not matter.
    """
    if threading.current_thread() is threading.main_thread():
        return _equivalent(gold, answer)
    return _child().submit(_equivalent, gold, answer).result()


def _equivalent(gold: str, answer: str) -> bool | None:
    from math_verify import verify
    from math_verify.errors import TimeoutException

    try:
        left, right = _parse(gold), _parse(answer)
        return bool(left and right) and verify(left, right, timeout_seconds=COMPARISON_SECONDS, raise_on_error=True)
    except TimeoutException:
        return None
    except Exception:
        # Whatever a malformed formula makes sympy raise: it is not equivalent to the gold answer.
        return False


@lru_cache(maxsize=1024)
def _parse(text: str) -> list:
    """The parsed formula in a list, or an empty list. The text itself is never the fallback: a formula that cannot be
    parsed must not pass as equal to itself."""
    from math_verify import parse

    body = text.replace("\\$", "").replace("$", "").strip().removesuffix(".")
    return parse(f"${body}$", fallback_mode="no_fallback", parsing_timeout=PARSING_SECONDS, raise_on_error=True)


@cache
def _child() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
