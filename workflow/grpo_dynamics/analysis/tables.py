"""The tables that the analysis makes: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.evidence import VERDICTS
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, SEED, SHARE, G, column, schema


def number(description: str, *checks: pa.Check) -> pa.Column:
    """A number that can be empty, because it cannot be computed from every run."""
    return column(float, description, *checks, nullable=True)


TRANSFER = schema(
    "transfer",
    {
        "model": MODEL,
        "G": G,
        "benchmark": column(str, "benchmark, as listed in the config"),
        "distance": column("Int64", "rank of distance from the training task, 0 = in distribution", NOT_NEGATIVE),
        "items": column("Int64", "problems scored for both the base model and the trained ones", NOT_NEGATIVE),
        "seeds": column("Int64", "trained runs", NOT_NEGATIVE),
        "base": number("accuracy of the base model", SHARE),
        "final": number("accuracy after training, mean over runs", SHARE),
        "gain": number("final - base"),
        "low": number("lower end of the gain's paired bootstrap interval over problems and runs"),
        "high": number("upper end of the interval"),
        "p": number("bootstrap p-value of a gain that is not 0, two-sided", SHARE),
        "p_holm": number("the same, Holm-adjusted over the out-of-distribution benchmarks of the cell", SHARE),
    },
    unique=["model", "G", "benchmark"],
)

TRANSFER_SUMMARY = schema(
    "transfer summary",
    {
        "model": MODEL,
        "benchmarks": column("Int64", "out-of-distribution benchmarks", NOT_NEGATIVE),
        "rank_correlation": number("Spearman correlation of gain and distance over these benchmarks"),
        "rank_low": number("lower end of its bootstrap interval"),
        "rank_high": number("upper end of its bootstrap interval"),
        "gain_in": number("gain in distribution, mean over G"),
        "gain_out": number("mean gain over the out-of-distribution benchmarks and G"),
        "gain_out_low": number("lower end of its bootstrap interval"),
        "gain_out_high": number("upper end of its bootstrap interval"),
        "robustness": number("gain_out / gain_in; empty where gain_in is not above 0"),
        "robustness_low": number("lower end of its bootstrap interval"),
        "robustness_high": number("upper end of its bootstrap interval"),
        "best_share": number("share of bootstrap replicates in which this model is the most robust", SHARE),
        "gain_near": number("mean gain on the nearest out-of-distribution benchmark minus that on the farthest"),
        "gain_near_low": number("lower end of its bootstrap interval"),
        "gain_near_high": number("upper end of its bootstrap interval"),
    },
    unique=["model"],
)

DIAGNOSTICS = schema(
    "diagnostics",
    {
        "model": MODEL,
        "G": G,
        "seed": SEED,
        "group": column(
            str,
            "the failure that it watches",
            pa.Check.isin(["decoupling", "degeneracy", "concentration", "instability"]),
        ),
        "diagnostic": column(str, "name of the number"),
        "value": number("the number"),
        "low": number("lower end of its interval"),
        "high": number("upper end of its interval"),
        "threshold": column(float, "threshold from the config"),
        "fires_when": column(str, "side on which it fires", pa.Check.isin(["above", "below"])),
        "verdict": column(str, "ok, fires, not assessable", pa.Check.isin(["ok", "fires", "not assessable"])),
        "reason": column(
            str,
            "why it fires, cannot be assessed, or is no failure although beyond the threshold; empty otherwise",
            nullable=True,
        ),
    },
    unique=["model", "G", "seed", "diagnostic"],
)

CLAIMS = schema(
    "claims",
    {
        "id": column(
            str, "the study's id of the claim: C of the paper, B beyond it", pa.Check.str_matches("^[BC][0-9]+$")
        ),
        "claim": column(str, "the claim, in short"),
        "test": column(str, "the rule that gives the verdict, with its thresholds"),
        "numbers": column(str, "what was found, with intervals and sizes"),
        "verdict": column(str, ", ".join(VERDICTS), pa.Check.isin(VERDICTS)),
        "scope": column(str, "what the test can and cannot say"),
    },
    unique=["id"],
)
