"""What was found in a run, and what it comes to in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grpo_dynamics.analysis.diagnosis import Diagnosis, primary
from grpo_dynamics.analysis.own_fit import OwnFit
from grpo_dynamics.analysis.own_predict import Forecast
from grpo_dynamics.runlog.log import RunLog

FEW = 20  # rewards below which a diagnosis is said to rest on few points
NAMES = {
    "decoupling": "train-eval decoupling",
    "degeneracy": "advantage degeneracy",
    "concentration": "policy concentration",
    "instability": "dynamical instability",
    "non_finite": "non-finite values",
    "kl": "KL to the reference",
    "truncation": "truncated completions",
}
SEVERITIES = ("warning", "critical")


@dataclass(frozen=True)
class Findings:
    """A log, and what was asked of it; a part that was not asked for is None.

    Attributes
    ----------
    log : RunLog or None
        None for a prediction without a log.
    chosen : str
        Which run of several was taken; empty if there is one.
    fit : OwnFit or None
    diagnoses : tuple of Diagnosis or None
    forecast : Forecast or None
    """

    log: RunLog | None = None
    chosen: str = ""
    fit: OwnFit | None = None
    diagnoses: tuple[Diagnosis, ...] | None = None
    forecast: Forecast | None = None


def worst(diagnoses: Sequence[Diagnosis]) -> str:
    """The highest severity that fired, or ok."""
    fired = [SEVERITIES.index(one.verdict) for one in diagnoses if one.fired]
    return SEVERITIES[max(fired)] if fired else "ok"


def onset(one: Diagnosis) -> str:
    """Where a diagnosis began, in words."""
    return f"since step {one.onset:g}" if np.isfinite(one.onset) else "over the run"


def verdict(log: RunLog, diagnoses: Sequence[Diagnosis]) -> str:
    """The diagnoses in a sentence or two."""
    blind = sum(one.verdict == "not assessable" for one in diagnoses)
    seen = f"{blind} of {len(diagnoses)} numbers could not be assessed" if blind else "all numbers could be assessed"
    count = int(log.table["reward"].notna().sum())
    few = f" It rests on {count} rewards, which are few." if count < FEW else ""
    cause = primary(list(diagnoses))
    if cause is None:
        if blind == len(diagnoses):
            return f"Nothing can be said: {seen}.{few}"
        return f"Nothing fires; {seen}, and what is not seen is not known to be healthy.{few}"
    others = sorted({NAMES[one.group] for one in diagnoses if one.fired and one.group != cause.group})
    rest = f" Beside it: {', '.join(others)}." if others else ""
    return f"{worst(diagnoses).capitalize()}: {NAMES[cause.group]}, {onset(cause)}.{rest} {seen.capitalize()}.{few}"
