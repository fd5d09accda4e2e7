"""Evidence for the tests of the ledger, in which every claim that can be reproduced is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from simulated import CONFIG, SCHEMAS, bandit_tables, complete

from grpo_dynamics.analysis.evidence import Evidence
from grpo_dynamics.analysis.ledger import ledger
from grpo_dynamics.analysis.tables import DIAGNOSTICS, GROUP_SIZE
from grpo_dynamics.tables import check

MODELS = ["llama", "qwen2"]
SERIES = [("run", 0), ("run", 1), ("mean", None)]
YES, PARTLY, NO, UNTESTED = "reproduced", "partly", "not reproduced", "not tested here"
HOLDS, FAILS = "holds", "does not hold"


@cache
def evidence() -> Evidence:
    """Tables, as their schemas have them, in which every claim that can be reproduced is."""
    cells = [(model, G, series, seed) for model in MODELS for G in (4, 16) for series, seed in SERIES]
    fits = pd.DataFrame(cells, columns=["model", "G", "series", "seed"]).astype({"seed": "Int64"})
    wobble = 1 + 0.01 * np.arange(len(fits))
    fits = fits.assign(
        n=150, n_early=30, r2=0.95, autocorrelation=0.0, aicc=-900.0, aicc_exponential=-880.0, f_p_effective=1e-4,
        sse=0.4, sse_exponential=0.4 + 0.06 * wobble, sse_early=0.08, sse_early_exponential=0.08 + 0.05 * wobble,
        zeta=1.5, zeta_low=1.2, zeta_high=2.0, identifiable=True,
    )  # fmt: skip
    group_size = pd.DataFrame(
        [
            (model, quantity, 4, 16, 12, 12, *numbers, "")
            for model in MODELS
            for quantity, numbers in {
                "plateau": (0.80, 0.81, 0.01, -0.01, 0.03, 0.3, 0.001, 0.0),
                "trajectory": (0.60, 0.61, 0.01, -0.01, 0.03, 0.3, 0.001, 0.0),
                "scatter": (0.004, 0.001, 4.0, 1.2, 14.0, 0.03, np.nan, 1.0),
            }.items()
        ],
        columns=list(GROUP_SIZE.columns),
    )
    transfer = pd.DataFrame(
        [
            (model, G, f"benchmark {distance}", distance, 0.4 - 0.04 * distance, 0.001)
            for model in MODELS
            for G in (4, 16)
            for distance in range(9)
        ],
        columns=["model", "G", "benchmark", "distance", "gain", "p_holm"],
    )
    summary = pd.DataFrame({"model": MODELS, "benchmarks": 8, "robustness": [0.5, 0.8], "best_share": [0.01, 0.99]})
    summary = summary.assign(
        rank_correlation=-0.9, rank_low=-1.0, rank_high=-0.6, gain_out=0.3, gain_out_low=0.25, gain_out_high=0.35,
        gain_near=0.3, gain_near_low=0.2, gain_near_high=0.4, robustness_low=0.4, robustness_high=0.9,
    )  # fmt: skip
    diagnostics = pd.DataFrame(
        [
            (model, G, seed, group, name, 1.0, 0.9, 1.1, 2.0, "above", "ok", "")
            for model in MODELS
            for G in (4, 16)
            for seed in (0, 1)
            for group, name in [("instability", "grad_norm_log_growth"), ("decoupling", "rate_ratio")]
        ],
        columns=list(DIAGNOSTICS.columns),
    )
    tables = {
        "fits": fits,
        "group_size": group_size,
        "transfer": transfer,
        "transfer_summary": summary,
        "diagnostics": diagnostics,
    }
    return Evidence(
        **{name: complete(table, SCHEMAS[name]) for name, table in tables.items()},
        **bandit_tables(),
        analysis=CONFIG["analysis"],
        claims=CONFIG["claims"],
        distilled=["qwen2"],
    )


def verdicts(found: Evidence) -> dict[str, str]:
    return dict(ledger(found)[["id", "verdict"]].itertuples(index=False))


def changed(table: str, **values) -> Evidence:
    """The evidence with columns of one table set; a value may be a function of the table."""
    base = evidence()
    frame = getattr(base, table).copy()
    for column, value in values.items():
        frame[column] = value(frame) if callable(value) else value
    return replace(base, **{table: check(frame, SCHEMAS[table])})


def numbers(found: Evidence, id: str) -> str:
    return ledger(found).set_index("id").loc[id, "numbers"]
