"""The tables that the analysis makes: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.evidence import VERDICTS
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, SEED, SHARE, G, column, schema

# What the diagnostics watch for: the paper's four failures, and what accompanies them.
FIRED = ("warning", "critical")  # verdicts of a number that fires
GROUPS = ["decoupling", "degeneracy", "concentration", "instability", "non_finite", "kl", "truncation"]


def number(description: str, *checks: pa.Check) -> pa.Column:
    """A number that can be empty, because it cannot be computed from every run."""
    return column(float, description, *checks, nullable=True)


TRANSFER = schema(
    "transfer",
    {
        "model": MODEL,
        "G": G,
        "benchmark": column(str, "benchmark, as listed in the config"),
        "distance": column(
            "Int64",
            "rank of distance from the training task, 0 = in distribution: the place in the config's "
            "evaluation.benchmarks, set before any result",
            NOT_NEGATIVE,
        ),
        "items": column("Int64", "problems scored for both the base model and the trained ones", NOT_NEGATIVE),
        "seeds": column("Int64", "trained runs", NOT_NEGATIVE),
        "base": number("accuracy of the base model", SHARE),
        "final": number("accuracy after training, mean over runs", SHARE),
        "gain": number("final - base"),
        "no_answer_base": number("share of the base model's completions without an answer", SHARE),
        "no_answer_final": number("the same after training, mean over runs", SHARE),
        "low": number(
            "lower end of the gain's paired interval over runs and problems, for the base model as given (over "
            "problems alone with one run; empty where no reward changes)"
        ),
        "high": number("upper end of the interval"),
        "p": number("p-value of a gain that is not 0, two-sided; 1 where no reward changes", SHARE),
        "p_holm": number("the same, Holm-adjusted over the out-of-distribution benchmarks of the cell", SHARE),
    },
    unique=["model", "G", "benchmark"],
)

TRANSFER_SUMMARY = schema(
    "transfer summary",
    {
        "model": MODEL,
        "benchmarks": column("Int64", "out-of-distribution benchmarks", NOT_NEGATIVE),
        "runs": column("Int64", "trained runs, over all G", NOT_NEGATIVE),
        "rank_correlation": number(
            "Spearman correlation of gain (mean over G) and distance over these benchmarks; empty where all gains tie"
        ),
        "rank_low": number(
            "lower end of its interval over runs and problems, for these benchmarks in this order; gains that nearly "
            "tie change ranks from draw to draw, which draws the interval towards 0: its end nearer to 0 is a bound, "
            "its other end is not"
        ),
        "rank_high": number("upper end of its interval"),
        "rank_p": number(
            "share of all orders of these benchmarks in which the gain falls with distance at least as much "
            "(permutation test, one-sided, exact up to eight benchmarks, for the gains as they are)",
            SHARE,
        ),
        "rank_p_holm": number("the same, Holm-adjusted over the models", SHARE),
        "gain_in": number("gain in distribution, mean over G"),
        "gain_in_low": number("lower end of its interval over runs and problems"),
        "gain_in_high": number("upper end of its interval"),
        "gain_out": number("mean gain over the out-of-distribution benchmarks and G"),
        "gain_out_low": number("lower end of its interval over runs and problems"),
        "gain_out_high": number("upper end of its interval"),
        "robustness": number(
            "gain_out / gain_in: mean gain out of distribution over gain in distribution, each the mean over G; empty "
            "where gain_in or the lower end of its interval is not above 0"
        ),
        "robustness_low": number(
            "lower end of its interval over runs and problems; empty as above, or where gain_in nearly reaches 0"
        ),
        "robustness_high": number("upper end of its interval"),
        "rival": column(str, "the most robust of the other models; empty without one", nullable=True),
        "lead": number("robustness less the rival's"),
        "lead_low": number(
            "lower end of the interval of the smallest difference in robustness from any other model (every single "
            "difference keeps alpha / 2)"
        ),
        "lead_high": number("upper end of that interval (Bonferroni over the other models)"),
        "gain_near": number("mean gain on the nearest out-of-distribution benchmark minus that on the farthest"),
        "gain_near_low": number("lower end of its interval over runs and problems"),
        "gain_near_high": number("upper end of its interval"),
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
            pa.Check.isin(GROUPS),
        ),
        "diagnostic": column(str, "name of the number"),
        "value": number("the number"),
        "low": number("lower end of its interval"),
        "high": number("upper end of its interval"),
        "warning": column(float, "threshold of a warning, from the config"),
        "critical": column(float, "threshold beyond which it is critical"),
        "fires_when": column(str, "side on which it fires", pa.Check.isin(["above", "below"])),
        "verdict": column(
            str,
            "ok; warning or critical: fires; not assessable",
            pa.Check.isin(["ok", "warning", "critical", "not assessable"]),
        ),
        "onset": number("step at which it began; empty unless it fires"),
        "reason": column(
            str,
            "why it cannot be assessed, or is no failure although beyond the threshold; empty otherwise",
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
        "explanation": column(str, "what the claim and its verdict mean for someone who trains with GRPO"),
        "test": column(str, "the rule that gives the verdict, with its thresholds"),
        "numbers": column(str, "what was found, with intervals and sizes"),
        "verdict": column(str, ", ".join(VERDICTS), pa.Check.isin(VERDICTS)),
        "scope": column(str, "what the test can and cannot say"),
    },
    unique=["id"],
)
