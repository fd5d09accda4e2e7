"""The claims ledger: a verdict on every claim of the paper, by rule, from the study's tables."""

from __future__ import annotations

import pandas as pd

from grpo_dynamics.analysis import claims_bandit, claims_runs
from grpo_dynamics.analysis.evidence import REGISTER, Evidence
from grpo_dynamics.analysis.tables import CLAIMS

__all__ = ["claims_bandit", "claims_runs", "ledger"]  # importing the two modules registers their claims


def ledger(evidence: Evidence) -> pd.DataFrame:
    """The CLAIMS table, C1 first."""
    rows = []
    for entry in sorted(REGISTER.values(), key=lambda entry: int(entry.id[1:])):
        finding = entry.judge(evidence)
        rows.append(
            {
                "id": entry.id,
                "claim": entry.claim,
                "test": entry.test.format_map(evidence.words),
                "numbers": finding.numbers,
                "verdict": finding.verdict,
                "scope": entry.scope,
            }
        )
    return pd.DataFrame(rows, columns=list(CLAIMS.columns))
