"""The claims that need runs made for them: C13 and C16."""

from __future__ import annotations

import pandas as pd

from grpo_dynamics.analysis.evidence import (
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTLY,
    REPRODUCED,
    Evidence,
    Finding,
    claim,
    extent,
    of,
)
from grpo_dynamics.analysis.tables import FIRED
from grpo_dynamics.analysis.tables_failures import FAILURES, NONE


@claim(
    "C13",
    "Four diagnostics tell train-eval decoupling, advantage degeneracy, policy concentration and instability apart.",
    "Each failure is induced on purpose, several seeds each. A run is called by its primary diagnosis: of those "
    "that fire, and that no other explains, the one with the earliest onset. Reproduced if every run with an "
    "induced failure is called by that failure, and at most {false_alarms:.0%} of the healthy runs made beside "
    "them fire anything; partly if of each failure more than {majority:.0%} of the runs are called right; "
    "otherwise not. Not tested unless all four failures are induced, and healthy runs are made. Intervals are "
    "exact (Clopper-Pearson, {level}).",
    "The numbers, thresholds and rules were settled on the study's own runs, on pilot runs, and on two earlier sets "
    "of these runs, in which 18 and 16 of 20 failures were called right at first: then the rules on a KL without a "
    "rise and on entropy lost with collapsing groups were added. How an onset is dated, entropy after the rise and the "
    "growth of a small KL were changed once more when the runs judged here were known; no call and no alarm changed. "
    "These runs have other seeds, but are of the same tiny models and of few kinds: one loophole, one learning "
    "rate, one penalty. Failures that come slowly or together are not tried, and few runs leave the intervals wide.",
)
def c13(evidence: Evidence) -> Finding:
    table = evidence.confusion
    whole = table[table["by"] == "whole run"]
    right = whole[whole["called"] == whole["induces"]].set_index("induces")
    if set(right.index) != {NONE, *FAILURES}:
        missing = [name for name in (*FAILURES, NONE) if name not in right.index]
        words = ", ".join("healthy runs" if name == NONE else name for name in missing)
        return Finding(NOT_TESTED, f"not made: {words}")
    failures, healthy = right.loc[FAILURES], right.loc[NONE]
    numbers = "; ".join(
        [
            *(f"{row.Index}: {_called(row)}" for row in failures.itertuples()),
            f"healthy: {_false_alarms(healthy)}",
            _fires(evidence),
            _live(evidence),
            _own_runs(evidence),
        ]
    )
    quiet = healthy["runs"] - healthy["count"] <= evidence.claims["false_alarms"] * healthy["runs"]
    if (failures["count"] == failures["runs"]).all() and quiet:
        return Finding(REPRODUCED, numbers)
    if not (failures["share"] > evidence.claims["majority"]).all():
        return Finding(NOT_REPRODUCED, numbers)
    all_called = (failures["count"] == failures["runs"]).all()
    return Finding(PARTLY, numbers, "missed" if quiet else "alarms" if all_called else "both")


def _called(row) -> str:
    return f"{of(row.count, row.runs, 'called right')} {_share(row.low, row.high)}"


def _share(low: float, high: float) -> str:
    return f"[{100 * low:.0f}, {100 * high:.0f}] %"


def _false_alarms(row: pd.Series) -> str:
    return f"{of(int(row['runs'] - row['count']), int(row['runs']), 'fire')} {_share(1 - row['high'], 1 - row['low'])}"


def _fires(evidence: Evidence) -> str:
    """Runs in which the induced failure fires, whatever the run is called."""
    induced = evidence.failure_runs[evidence.failure_runs["induces"] != NONE]
    found = sum(row.induces in str(row.fires).split() for row in induced.itertuples())
    return f"the induced failure fires, whatever the run is called, in {of(found, len(induced), 'runs')}"


def _live(evidence: Evidence) -> str:
    """How early the alarms come while a run goes on."""
    runs = evidence.failure_runs
    induced, healthy = runs[runs["induces"] != NONE], runs[runs["induces"] == NONE]
    alarmed = of(int(healthy["alarm_step"].notna().sum()), len(healthy), "healthy runs")
    found = induced[induced["live_called"] == induced["induces"]]
    steps = extent(found["live_step"]) if len(found) else "none"
    return (
        f"live, the first alarm is the induced failure in {of(len(found), len(induced), 'runs')} (at step {steps} of "
        f"{extent(induced['steps'])}), and {alarmed} are alarmed"
    )


def _own_runs(evidence: Evidence) -> str:
    """Runs of the study in which anything fires: no test, since the thresholds were settled on them."""
    runs = evidence.diagnostics.groupby(["model", "G", "seed"])["verdict"].agg(set)
    fires = sum(bool(found & set(FIRED)) for found in runs)
    return f"in the study's own runs, on which thresholds were settled: {of(fires, len(runs), 'fire')}"


@claim(
    "C16",
    "The empirical law's size exponent is the exponent of the curvature with model size.",
    "Needs the curvature of models of one family at several sizes.",
    "The curvatures that are calibrated in the study's models (C15, B4) are of different families, from which their "
    "sizes cannot be told apart.",
)
def c16(evidence: Evidence) -> Finding:
    return Finding(NOT_TESTED, f"{evidence.fits['model'].nunique()} models, no curvature against size")
