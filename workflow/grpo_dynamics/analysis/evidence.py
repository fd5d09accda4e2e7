"""What the claims are judged on, and the register of claims.

A claim is a function from the evidence to a finding. It is registered with its id, its short wording, its test in
words and its scope; the verdict follows from the tables by the rule that the test states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

VERDICTS = REPRODUCED, PARTLY, NOT_REPRODUCED, NOT_TESTED = "reproduced", "partly", "not reproduced", "not tested here"


@dataclass(frozen=True)
class Evidence:
    """The tables and the config that the verdicts rest on.

    Attributes
    ----------
    fits, group_size, transfer, transfer_summary, diagnostics : DataFrame
        The analysis's tables (analysis/tables.py).
    thresholds, stationary_variance, predictions, trajectories, overdamped_limit : DataFrame
        The bandit's tables (bandit/tables.py).
    analysis, claims : dict
        The config's sections of these names.
    distilled : sequence of str
        Models of the catalogue that are marked as distilled.
    """

    fits: pd.DataFrame
    group_size: pd.DataFrame
    transfer: pd.DataFrame
    transfer_summary: pd.DataFrame
    diagnostics: pd.DataFrame
    thresholds: pd.DataFrame
    stationary_variance: pd.DataFrame
    predictions: pd.DataFrame
    trajectories: pd.DataFrame
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
    """Verdict and the numbers behind it, as text."""

    verdict: str
    numbers: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: `test` is a format string over the config's `analysis` and `claims`."""

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


def all_or_some(part: int, whole: int, some: float = 0.0) -> str:
    """Reproduced when all agree, partly when more than the share `some` do, else not; not tested without any."""
    if whole == 0:
        return NOT_TESTED
    if part == whole:
        return REPRODUCED
    return PARTLY if part > some * whole else NOT_REPRODUCED
