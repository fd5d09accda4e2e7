"""Diagnoses of a run: the diagnostics' numbers judged against thresholds, with onset, evidence and advice (C13).

A number fires only when its whole interval lies beyond the threshold, so that a noisy number does not fire by chance. A
failure brings others with it: a policy that has concentrated or blown up also collapses its groups. What one diagnosis
explains is therefore no second one; `_explained` says what explains what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from grpo_dynamics.analysis import diagnostics as d
from grpo_dynamics.analysis.advice import ADVICE
from grpo_dynamics.analysis.series import as_own_log, each_run
from grpo_dynamics.analysis.subject import NAN, Number, Subject, level_of, log_growth
from grpo_dynamics.analysis.tables import DIAGNOSTICS, FIRED

SYMPTOMS = ("kl", "truncation")  # accompany a failure rather than cause one

# (group, diagnostic, side on which it fires)
NUMBERS = [
    ("decoupling", "rate_ratio", "above"),
    ("decoupling", "heldout_fall", "above"),
    ("decoupling", "heldout_gain_share", "below"),
    ("degeneracy", "signal_share", "below"),
    ("degeneracy", "signal_rows", "below"),
    ("degeneracy", "signal_over_chance", "below"),
    ("degeneracy", "spread_over_chance", "below"),
    ("concentration", "entropy_log_change", "below"),
    ("concentration", "entropy_lost", "below"),
    ("instability", "reward_fall", "above"),
    ("instability", "kl_unrewarded", "above"),
    ("instability", "grad_norm_log_growth", "above"),
    ("instability", "ratio_log_growth", "above"),
    ("non_finite", "non_finite_share", "above"),
    ("kl", "kl_level", "above"),
    ("kl", "kl_log_growth", "above"),
    ("truncation", "truncated_share", "above"),
    ("truncation", "truncated_growth", "above"),
]


@dataclass(frozen=True)
class Diagnosis:
    """One number of a run, judged.

    Attributes
    ----------
    group : str
        The failure that the number watches: decoupling, degeneracy, concentration, instability, non_finite, kl or
        truncation.
    diagnostic : str
        Name of the number.
    value, low, high : float
        The number and its interval; NaN if it cannot be assessed.
    warning, critical : float
        Thresholds.
    fires_when : {"above", "below"}
    verdict : {"ok", "warning", "critical", "not assessable"}
    onset : float
        Step at which it began; NaN unless fired.
    evidence : str
        The numbers in a sentence.
    reason : str
        Why it cannot be assessed, or why it is no failure although beyond its threshold.
    confused_with, remedy : str
        What else looks like it, and what to do; empty unless fired.
    """

    group: str
    diagnostic: str
    value: float
    low: float
    high: float
    warning: float
    critical: float
    fires_when: str
    verdict: str
    onset: float
    evidence: str
    reason: str
    confused_with: str
    remedy: str

    @property
    def fired(self) -> bool:
        return self.verdict in FIRED


def judge(number: Number, warning: float, critical: float, fires_when: str) -> tuple[str, str]:
    """(verdict, reason) of a number against its thresholds."""
    if number.missing or not (np.isfinite(number.low) and np.isfinite(number.high)):
        return "not assessable", number.missing or "no interval"

    def beyond(threshold: float) -> bool:
        return number.low > threshold if fires_when == "above" else number.high < threshold

    if not beyond(warning):
        return "ok", ""
    if number.excuse:
        return "ok", number.excuse
    return ("critical" if beyond(critical) else "warning"), ""


def _numbers(subject: Subject, warning: Mapping[str, float]) -> dict[str, Number]:
    level = subject.level
    over_chance = {
        "signal_over_chance": d.over_chance(subject, "collapsed_share", warning["signal_over_chance"]),
        "spread_over_chance": d.over_chance(subject, "reward_std", warning["spread_over_chance"]),
    }
    collapsed = any(judge(one, warning[name], warning[name], "below")[0] in FIRED for name, one in over_chance.items())
    half = subject.second_half
    return {
        "rate_ratio": d.rate_ratio(subject),
        "heldout_fall": d.heldout_fall(subject),
        "heldout_gain_share": d.heldout_gain_share(subject),
        "signal_share": d.signal_share(subject, "collapsed_share", warning["signal_share"]),
        "signal_rows": d.signal_share(subject, "any_spread", warning["signal_rows"]),
        **over_chance,
        "entropy_log_change": d.entropy_log_change(subject, warning["entropy_log_change"]),
        "entropy_lost": d.entropy_lost(subject, warning["entropy_lost"], collapsed),
        "reward_fall": d.reward_fall(subject),
        "kl_unrewarded": d.kl_unrewarded(subject, warning["kl_unrewarded"]),
        # The first half is left out: there the norm grows in a healthy run too, as ever fewer groups are all wrong.
        "grad_norm_log_growth": log_growth(
            half(subject.rows("grad_norm")), "grad_norm", level, warning["grad_norm_log_growth"], "gradient norms"
        ),
        "ratio_log_growth": d.ratio_log_growth(subject, warning["ratio_log_growth"]),
        "non_finite_share": d.non_finite_share(subject),
        "kl_level": level_of(subject, "kl", warning["kl_level"], "KLs"),
        "kl_log_growth": d.kl_log_growth(subject, warning["kl_log_growth"]),
        "truncated_share": level_of(
            subject, "truncated_share", warning["truncated_share"], "shares of truncated completions"
        ),
        "truncated_growth": d.truncated_growth(subject, warning["truncated_growth"]),
    }


def _explained(found: dict[str, Diagnosis]) -> dict[str, str]:
    """Diagnostics that another diagnosis explains, and how; only those that fired are looked at."""
    fired = {name for name, one in found.items() if one.fired}
    reasons = {}
    entropy = fired & {"entropy_log_change", "entropy_lost"}
    far, concentrated = "kl_unrewarded" in fired, bool(entropy)
    # Sharpening what the reference does leaves the policy near it; a policy that has blown up is far away.
    if far and concentrated:
        concentrated = False
        reasons |= dict.fromkeys(entropy, "the policy has left its reference (KL): see instability")
    if far:
        apart = fired & {"rate_ratio", "heldout_fall", "heldout_gain_share"}
        reasons |= dict.fromkeys(apart, "the policy has left its reference (KL) without a rise: see instability")
    if concentrated and "reward_fall" in fired:
        reasons["reward_fall"] = "the policy had concentrated: see concentration"
    if far or concentrated or "reward_fall" in fired:
        cause = "concentration" if concentrated else "instability"
        for name in ("signal_share", "signal_rows", "signal_over_chance", "spread_over_chance"):
            if name in fired:
                reasons[name] = f"the groups collapsed with the policy: see {cause}"
    return reasons


def diagnose_run(
    table: pd.DataFrame,
    G: int | None,
    reward_range: tuple[float, float],
    options: dict,
    thresholds: Mapping[str, Mapping[str, float]],
    not_binary: str = "",
) -> list[Diagnosis]:
    """Diagnose one run.

    Parameters
    ----------
    table : DataFrame
        OWN_LOG.
    G : int or None
        Group size, if known.
    reward_range : (low, high)
        Range of the reward.
    options, thresholds : mapping
        The config's `analysis` and `diagnostics`; the latter has the thresholds `warning` and `critical` of every
        number.
    not_binary : str
        Why the reward cannot be binary, as RunLog has it; empty if it may be.

    Returns
    -------
    list of Diagnosis
        One per number, in the order of NUMBERS.
    """
    subject = Subject(table.sort_values("step", ignore_index=True), G, reward_range, options, not_binary)
    numbers = _numbers(subject, {name: float(pair["warning"]) for name, pair in thresholds.items()})
    found = {}
    for group, name, side in NUMBERS:
        number, pair, advice = numbers[name], thresholds[name], ADVICE[name]
        verdict, reason = judge(number, pair["warning"], pair["critical"], side)
        fired = verdict in FIRED
        shown = f"{number.value:.3g} [{number.low:.3g}, {number.high:.3g}]"
        evidence = f"{advice.says.format(value=shown)}{'; ' if number.detail else ''}{number.detail}."
        found[name] = Diagnosis(
            group=group,
            diagnostic=name,
            value=number.value,
            low=number.low,
            high=number.high,
            warning=float(pair["warning"]),
            critical=float(pair["critical"]),
            fires_when=side,
            verdict=verdict,
            onset=number.onset if fired else NAN,
            evidence="" if verdict == "not assessable" else evidence,
            reason=reason,
            confused_with=advice.confused_with if fired else "",
            remedy=advice.remedy if fired else "",
        )
    for name, reason in _explained(found).items():
        found[name] = replace(found[name], verdict="ok", reason=reason, onset=NAN, confused_with="", remedy="")
    return list(found.values())


def primary(found: list[Diagnosis]) -> Diagnosis | None:
    """The likely cause: of what fired, the one with the earliest onset; None for a run in which nothing fired.

    The paper's four failures and non-finite values come before the symptoms, KL and truncated completions.
    """
    fired = [one for one in found if one.fired]
    causes = [one for one in fired if one.group not in SYMPTOMS] or fired
    return min(causes, key=lambda one: np.inf if np.isnan(one.onset) else one.onset, default=None)


def diagnose(runs: pd.DataFrame, options: dict, thresholds: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """The DIAGNOSTICS table of a run log.

    Parameters
    ----------
    runs : DataFrame
        RUN_LOG.
    options, thresholds : mapping
        As in `diagnose_run`.
    """
    rows = []
    for (model, size, seed), run in each_run(runs):
        for one in diagnose_run(as_own_log(run), size, (0.0, 1.0), options, thresholds):
            rows.append({"model": model, "G": size, "seed": seed} | {key: getattr(one, key) for key in KEPT})
    return pd.DataFrame(rows, columns=list(DIAGNOSTICS.columns))


KEPT = [name for name in DIAGNOSTICS.columns if name not in ("model", "G", "seed")]
