"""The claims that need runs made for them: C13 and C16."""

from __future__ import annotations

from grpo_dynamics.analysis.evidence import (
    NOT_TESTED,
    Evidence,
    Finding,
    claim,
    of,
)


@claim(
    "C13",
    "Four diagnostics tell train-eval decoupling, advantage degeneracy, policy concentration and instability apart.",
    "Needs runs in which each failure is induced on purpose. The counts of what fires in the study's runs are given.",
    "No failure is induced in this study's runs. The package's tests check on simulated runs that each diagnostic "
    "fires on its own failure and on none of the others.",
)
def c13(evidence: Evidence) -> Finding:
    runs = evidence.diagnostics.groupby(["group", "model", "G", "seed"], sort=False)["verdict"].agg(set)
    counts = []
    for group, verdicts in runs.groupby(level="group", sort=False):
        fires = sum("fires" in found for found in verdicts)
        blind = sum(found == {"not assessable"} for found in verdicts)
        counts.append(f"{group}: fires in {of(fires, len(verdicts), 'runs')}, not assessable in {blind}")
    return Finding(NOT_TESTED, "; ".join(counts))


@claim(
    "C16",
    "The empirical law's size exponent is the exponent of the curvature with model size.",
    "Needs the curvature of models of one family at several sizes.",
    "No curvature is measured in the study's models, whatever their sizes.",
)
def c16(evidence: Evidence) -> Finding:
    return Finding(NOT_TESTED, f"{evidence.fits['model'].nunique()} models, no curvature against size")
