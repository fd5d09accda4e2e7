"""What was found in a run, and what it comes to in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grpo_dynamics.analysis.diagnosis import Diagnosis, primary
from grpo_dynamics.analysis.own_band import Estimate, number, span
from grpo_dynamics.analysis.own_fit import REJECTED, OwnFit
from grpo_dynamics.analysis.own_predict import Forecast
from grpo_dynamics.analysis.own_reach import Reach
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


def largest(K_ref: float, searched: int) -> str:
    """The largest K_ref that is allowed, in words where it is no number."""
    if K_ref == 0:
        return "none"
    return f"> {searched}" if np.isinf(K_ref) else number(K_ref)


def worst(diagnoses: Sequence[Diagnosis]) -> str:
    """The highest severity that fired, or ok."""
    fired = [SEVERITIES.index(one.verdict) for one in diagnoses if one.fired]
    return SEVERITIES[max(fired)] if fired else "ok"


def onset(one: Diagnosis) -> str:
    """Where a diagnosis began, in words."""
    return f"since step {one.onset:g}" if np.isfinite(one.onset) else "over the run"


def verdict(log: RunLog, diagnoses: Sequence[Diagnosis]) -> str:
    """What the diagnoses come to: what is wrong and since when, how much could not be seen, on how few points."""
    total, blind = len(diagnoses), sum(one.verdict == "not assessable" for one in diagnoses)
    said = [_fired(diagnoses, severity) for severity in reversed(SEVERITIES)]
    count = int(log.table["reward"].notna().sum())
    if worst(diagnoses) == "ok":
        seen = f"none of the {total - blind} numbers that could be assessed fires"
        healthy = f"Healthy as far as the log tells: {seen}." if count >= FEW else f"{seen.capitalize()}."
        said = ["Nothing can be said of this run." if blind == total else healthy]
    if blind:
        unseen = {one.group for one in diagnoses} - {one.group for one in diagnoses if one.verdict != "not assessable"}
        of = f", among them all of {', '.join(name for key, name in NAMES.items() if key in unseen)}" if unseen else ""
        said.append(f"{blind} of {total} numbers could not be assessed{of}.")
    if count < FEW:
        said.append(f"It rests on {count} reward{'s' if count > 1 else ''}: too few to call it healthy or not.")
    return " ".join(filter(None, said))


def _fired(diagnoses: Sequence[Diagnosis], severity: str) -> str:
    """The failures whose highest severity is this one, each with its earliest onset, in the order of onset."""
    found: dict[str, Diagnosis] = {}
    for one in sorted(diagnoses, key=lambda one: np.nan_to_num(one.onset, nan=np.inf)):
        group = [other for other in diagnoses if other.group == one.group]
        if one.verdict == severity and worst(group) == severity:
            found.setdefault(one.group, one)
    named = ", ".join(f"{NAMES[group]} {onset(one)}" for group, one in found.items())
    return f"{severity.capitalize()}: {named}." if named else ""


def cause(diagnoses: Sequence[Diagnosis]) -> str:
    """The likely cause of what fired, in a sentence; empty if nothing did."""
    first = primary(list(diagnoses))
    if first is None:
        return ""
    others = any(one.fired and one.group != first.group for one in diagnoses)
    rest = ", which the others may follow from" if others else ""
    return f"Likely cause: {NAMES[first.group]} (seen in {first.diagnostic}, {onset(first)}){rest}."


def outlook(fit: OwnFit) -> str:
    """What the fit comes to: where the run ends, and when, or why that cannot be known."""
    if not fit.identifiable:
        return f"Not identifiable: {fit.explanation}"
    end = f"Plateau at {span(fit.estimates['R_inf'])}; 95 % of the way at {fit.time_unit} "
    return f"{end}{span(fit.times['plateau_start'])}; {100 * fit.covered:.0f} % covered at the last row."


def readable(fit: OwnFit, name: str) -> bool:
    """Whether an estimate of the law can be read as what it is called."""
    return fit.identifiable or not (name == "R_inf" or fit.reason == REJECTED)


def weighting(fit: OwnFit) -> str:
    """How the weights of the curves allow for autocorrelation; empty where they need not."""
    if not fit.independent < 1:
        return ""
    return (
        f"Weights allow for autocorrelation: differences in AICc count by {fit.independent:.2g}, the share of the rows "
        "that is left as independent."
    )


def rejected(forecast: Forecast) -> bool:
    """Whether the run that K is calibrated on has a shape that the theory does not give."""
    return forecast.calibration is not None and not forecast.reason and not forecast.calibration.described


def standing(forecast: Forecast) -> str:
    """The severity of a prediction: critical for instability, warning where the theory does not describe the run."""
    if forecast.reason:
        return "not assessable"
    return "critical" if forecast.regime == "unstable" else "warning" if rejected(forecast) else "ok"


def regime(forecast: Forecast) -> str:
    """What the prediction comes to: the regime, or why it is not known, and the room that eta has."""
    if forecast.reason:
        return f"No prediction: {forecast.reason}"
    doubt = "The theory does not describe this run's shape, so that this need not hold. " if rejected(forecast) else ""
    closed, *exact = forecast.reaches
    nearest = min(exact, key=lambda one: one.stability_factor)
    farthest = max(exact, key=lambda one: one.stability_factor)
    bounds = " to ".join(dict.fromkeys(number(one.stability_factor) for one in (nearest, farthest)))
    return (
        f"{doubt}{forecast.regime.capitalize()} by the closed form: stability is lost at "
        f"{number(closed.stability_factor)} times this eta; exactly, at {bounds} times, by how samples age."
    )


def limits(one: Reach) -> list[tuple[str, float, Estimate, float, float]]:
    """The two thresholds of a schedule as (name, a, eta, times the setting's eta, largest K_ref)."""
    return [
        ("oscillates from", one.onset_a, one.onset_eta, one.onset_factor, one.onset_K_ref),
        ("unstable from", one.stability_a, one.stability_eta, one.stability_factor, one.stability_K_ref),
    ]
