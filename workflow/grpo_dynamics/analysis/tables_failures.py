"""The tables of the runs with induced failures (claim C13)."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.tables import DIAGNOSTICS, GROUPS, number
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, POSITIVE, RUN_LOG, SEED, SHARE, G, column, schema

NONE = "none"
FAILURES = GROUPS[:4]  # the paper's four
CALLS = [NONE, *GROUPS]

KIND = {
    "kind": column(str, "kind of run, as named in the config's failures.runs"),
    "induces": column(str, "the failure that it induces", pa.Check.isin([NONE, *FAILURES])),
}

FAILURE_LOG = schema(
    "log of the runs with induced failures",
    {**KIND, **RUN_LOG.columns},
    unique=["kind", "model", "G", "seed", "step"],
)

FAILURE_DIAGNOSTICS = schema(
    "diagnostics of the runs with induced failures",
    {**KIND, **DIAGNOSTICS.columns},
    unique=["kind", "model", "G", "seed", "diagnostic"],
)

FAILURE_RUNS = schema(
    "runs with induced failures",
    {
        **KIND,
        "model": MODEL,
        "G": G,
        "seed": SEED,
        "steps": column("Int64", "optimiser steps of the run", POSITIVE),
        "called": column(str, "failure that the whole run is diagnosed with: the primary one", pa.Check.isin(CALLS)),
        "fires": column(str, "all failures that fire, joined by spaces; empty if none", nullable=True),
        "onset": number("step at which the primary failure began"),
        "live_called": column(
            str, "first alarm while the run went on, symptoms (kl, truncation) aside", pa.Check.isin(CALLS)
        ),
        "live_step": number("step of that alarm"),
        "alarm_step": number("step of the first alarm, symptoms included"),
    },
    unique=["kind", "model", "G", "seed"],
)

CONFUSION = schema(
    "confusion matrix",
    {
        "induces": column(str, "the failure that was induced; none: healthy runs", pa.Check.isin([NONE, *FAILURES])),
        "by": column(
            str,
            "whole run: diagnosed at its end; live: first alarm while it went on",
            pa.Check.isin(["whole run", "live"]),
        ),
        "called": column(str, "the failure that was found", pa.Check.isin(CALLS)),
        "runs": column("Int64", "runs with the induced failure", POSITIVE),
        "count": column("Int64", "of them, those called so", NOT_NEGATIVE),
        "share": column(float, "count / runs", SHARE),
        "low": column(float, "lower end of the share's exact (Clopper-Pearson) interval", SHARE),
        "high": column(float, "upper end", SHARE),
    },
    unique=["induces", "by", "called"],
)
