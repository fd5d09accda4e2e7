"""What the claims are judged on, and the register of claims.

A claim is a function from the evidence to a finding. It is registered with its id, its short wording, its test in
words and its scope; the verdict follows from the tables by the rule that the test states. Ids of the paper's claims
start with C, those of the study's own claims, which go beyond the paper, with B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

REPRODUCED, HOLDS, PARTLY = "reproduced", "holds", "partly"
NOT_REPRODUCED, DOES_NOT_HOLD, NOT_TESTED = "not reproduced", "does not hold", "not tested here"
# Only what the paper claims can be reproduced; a claim beyond it holds or does not.
PAPER = REPRODUCED, PARTLY, NOT_REPRODUCED, NOT_TESTED
BEYOND = HOLDS, PARTLY, DOES_NOT_HOLD, NOT_TESTED
VERDICTS = REPRODUCED, HOLDS, PARTLY, NOT_REPRODUCED, DOES_NOT_HOLD, NOT_TESTED

OWN_RUNS = "A verdict is about this study's runs; other models can behave differently."
ONE_SIZE = "one group size: nothing to compare"


@dataclass(frozen=True)
class Evidence:
    """The tables and the config that the verdicts rest on.

    Attributes
    ----------
    fits, calibration, group_size, run_predictions, transfer, transfer_summary, diagnostics : DataFrame
    failure_runs, confusion : DataFrame
        The analysis's tables (analysis/tables*.py); run_predictions are those of the runs, predictions the bandit's.
    fixed_point, thresholds, trajectories, finite_step, drift, stationary_variance, predictions : DataFrame
    overdamped_limit : DataFrame
        The bandit's tables (bandit/tables.py).
    analysis, claims : dict
        The config's sections of these names.
    distilled : sequence of str
        Models of the catalogue that are marked as distilled.
    """

    fits: pd.DataFrame
    calibration: pd.DataFrame
    group_size: pd.DataFrame
    run_predictions: pd.DataFrame
    transfer: pd.DataFrame
    transfer_summary: pd.DataFrame
    diagnostics: pd.DataFrame
    failure_runs: pd.DataFrame
    confusion: pd.DataFrame
    fixed_point: pd.DataFrame
    thresholds: pd.DataFrame
    trajectories: pd.DataFrame
    finite_step: pd.DataFrame
    drift: pd.DataFrame
    stationary_variance: pd.DataFrame
    predictions: pd.DataFrame
    overdamped_limit: pd.DataFrame
    analysis: dict
    claims: dict
    distilled: Sequence[str] = field(default=())

    @property
    def level(self) -> str:
        """The intervals' level as text, such as 95 %."""
        return f"{100 * (1 - self.analysis['alpha']):g} %"

    @property
    def words(self) -> dict[str, object]:
        """Values that the tests in words may name."""
        return {**self.analysis, **self.claims, "level": self.level}


@dataclass(frozen=True)
class Finding:
    """Verdict, the numbers behind it as text, and the reason for it where explanations differ by the reason."""

    verdict: str
    numbers: str
    why: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim, of the paper or beyond it: `test` is a format string over the config's `analysis` and `claims`."""

    id: str
    claim: str
    test: str
    scope: str
    judge: Callable[[Evidence], Finding]


REGISTER: dict[str, Claim] = {}


def claim(id: str, claim: str, test: str, scope: str) -> Callable:
    """Register the decorated function as the judge of a claim."""

    def register(judge: Callable[[Evidence], Finding]) -> Callable[[Evidence], Finding]:
        REGISTER[id] = Claim(id, claim, test, scope, judge)
        return judge

    return register


def span(value: float, low: float, high: float, digits: int = 3) -> str:
    """A number with its interval: 0.81 [0.78, 0.84]; says so when there is none."""
    if not np.isfinite(value):
        return "no value"
    if np.isnan(low) or np.isnan(high):
        return f"{value:.{digits}g} (no interval)"
    return f"{value:.{digits}g} [{low:.{digits}g}, {high:.{digits}g}]"


def of(part: int, whole: int, what: str) -> str:
    """A count as text: 5 of 6 cells."""
    return f"{part} of {whole} {what}"


def extent(values: pd.Series, digits: int = 3) -> str:
    """The range of some numbers as text: 0.81 to 0.97; a single number where they do not differ at these digits."""
    low, high = (f"{end:.{digits}g}" for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def all_or_some(part: int, whole: int, some: float = 0.0, words: Sequence[str] = PAPER, undecided: int = 0) -> str:
    """The first of `words` when all agree, partly when more than the share `some` do, else not; not tested without any.

    Nor is it tested where those that are undecided, of those that do not agree, could still make it partly: noise that
    hides an effect is no refutation. `words` are PAPER or BEYOND.
    """
    full, partly, no, untested = words
    if whole == 0:
        return untested
    if part == whole:
        return full
    if part > some * whole:
        return partly
    return untested if part + undecided > some * whole else no
