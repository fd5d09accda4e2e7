"""The tables on the group size: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.tables import number
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, SHARE, G, column, schema

GROUP_SIZE = schema(
    "group size",
    {
        "model": MODEL,
        "quantity": column(
            str,
            "what is compared: plateau (fitted R_inf), trajectory (mean reward over the steps), scatter (variance "
            "between seeds of the reward averaged over tenths of the run)",
            pa.Check.isin(["plateau", "trajectory", "scatter"]),
        ),
        "G_low": G,
        "G_high": G,
        "n_low": column("Int64", "runs at G_low", NOT_NEGATIVE),
        "n_high": column("Int64", "runs at G_high", NOT_NEGATIVE),
        "value_low": number("value at G_low: mean over runs, or variance for scatter"),
        "value_high": number("value at G_high"),
        "effect": number("difference G_high - G_low, or ratio of variances G_low / G_high for scatter"),
        "low": number("lower end of the effect's interval"),
        "high": number("upper end of the effect's interval"),
        "p": number("p-value: Welch's t-test of no difference, or F-test of equal variances", SHARE),
        "p_equivalence": number("p-value of TOST: the difference lies within the margin", SHARE),
        "expected": number(
            "effect expected where G only sets the noise: 0, or to leading order 1 for scatter, since with equal "
            "completions per step a smaller G averages over more groups"
        ),
        "note": column(str, "what limits the comparison; empty for nothing", nullable=True),
    },
    unique=["model", "quantity"],
)
