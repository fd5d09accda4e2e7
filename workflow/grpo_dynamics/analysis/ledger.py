"""The claims ledger: a verdict on every claim of the paper and on those beyond it, by rule, from the study's tables."""

from __future__ import annotations

import pandas as pd

from grpo_dynamics.analysis import (
    claims_bandit,
    claims_beyond,
    claims_fits,
    claims_groups,
    claims_predictions,
    claims_runs,
    claims_transfer,
)
from grpo_dynamics.analysis.evidence import REGISTER, Evidence
from grpo_dynamics.analysis.explanations import explain
from grpo_dynamics.analysis.tables import CLAIMS

# Importing the modules registers their claims.
__all__ = [
    "claims_bandit",
    "claims_beyond",
    "claims_fits",
    "claims_groups",
    "claims_predictions",
    "claims_runs",
    "claims_transfer",
    "ledger",
]


def ledger(evidence: Evidence) -> pd.DataFrame:
    """The CLAIMS table: the paper's claims from C1 on, then those beyond it from B2 on."""
    rows = []
    for entry in sorted(REGISTER.values(), key=lambda entry: (entry.id[0] != "C", int(entry.id[1:]))):
        finding = entry.judge(evidence)
        rows.append(
            {
                "id": entry.id,
                "claim": entry.claim,
                "explanation": explain(entry.id, finding.verdict, finding.why),
                "test": entry.test.format_map(evidence.words),
                "numbers": finding.numbers,
                "verdict": finding.verdict,
                "scope": entry.scope,
            }
        )
    return pd.DataFrame(rows, columns=list(CLAIMS.columns))
