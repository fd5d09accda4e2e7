"""The tables that the analysis makes: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.evidence import VERDICTS
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, POSITIVE, SEED, SHARE, G, column, schema

_OPEN_SEED = column("Int64", "seed of the run; empty for the mean over the seeds of a cell", nullable=True)


def _number(description: str, *checks: pa.Check) -> pa.Column:
    """A number that can be empty, because it cannot be computed from every run."""
    return column(float, description, *checks, nullable=True)


FITS = schema(
    "fits",
    {
        "model": MODEL,
        "G": G,
        "series": column(str, "run: one run; mean: the mean over the cell's seeds", pa.Check.isin(["run", "mean"])),
        "seed": _OPEN_SEED,
        "n": column("Int64", "freshly sampled rewards fitted", NOT_NEGATIVE),
        "R_0": _number("reward before training, fitted", SHARE),
        "R_0_se": _number("standard error of R_0"),
        "R_inf": _number("plateau of the reward, fitted", SHARE),
        "R_inf_se": _number("standard error of R_inf; empty at a bound or when the Jacobian is singular"),
        "w0": _number("natural frequency, 1/step", POSITIVE),
        "w0_se": _number("standard error of w0"),
        "zeta": _number("damping ratio", POSITIVE),
        "zeta_se": _number("standard error of zeta"),
        "zeta_low": _number("lower end of zeta's profile interval; 0 where the data set none", NOT_NEGATIVE),
        "zeta_high": _number("upper end of zeta's profile interval; inf where the data set none", POSITIVE),
        "k": _number("rate of the single exponential, 1/step", POSITIVE),
        "k_se": _number("standard error of k"),
        "R_0_exponential": _number("R_0 of the single exponential", SHARE),
        "R_inf_exponential": _number("R_inf of the single exponential", SHARE),
        "r2": _number("R^2 of the three-phase law on the raw series, never smoothed"),
        "r2_exponential": _number("R^2 of the single exponential on the raw series"),
        "r2_early": _number("R^2 of the law over the early phase (first early_share of the series)"),
        "r2_early_exponential": _number("R^2 of the single exponential over the early phase"),
        "sse": _number("residual sum of squares of the law", NOT_NEGATIVE),
        "sse_exponential": _number("residual sum of squares of the single exponential", NOT_NEGATIVE),
        "sse_early": _number("the law's residual sum of squares in the early phase", NOT_NEGATIVE),
        "sse_early_exponential": _number("the exponential's residual sum of squares in the early phase", NOT_NEGATIVE),
        "n_early": column("Int64", "points of the early phase", NOT_NEGATIVE),
        "aicc": _number("corrected Akaike criterion of the law (4 parameters and the variance)"),
        "aicc_exponential": _number("corrected Akaike criterion of the exponential (3 parameters and the variance)"),
        "f_p": _number("p-value of the F-test of the law against the exponential, taking residuals as independent"),
        "f_p_effective": _number("the same with the effective number of points that the autocorrelation leaves"),
        "autocorrelation": _number("lag-1 autocorrelation of the law's residuals"),
        "slow_start_end": _number(
            "steps after the start until the fitted rate of rise first reaches half of its maximum"
        ),
        "plateau_start": _number("steps after the start until 95 % of the fitted way is covered"),
        "evaluations": column("Int64", "evaluations of the residuals, all starts together", NOT_NEGATIVE),
        "start": column(str, "start values of the best search"),
        "at_bound": column(str, "parameters that ended at a bound, empty for none", nullable=True),
        "identifiable": column(bool, "whether plateau and rate can be read from this series"),
        "reason": column(
            str,
            "why not identifiable; empty otherwise",
            pa.Check.isin(["", "too short", "no trend", "plateau not reached"]),
            nullable=True,
        ),
    },
    unique=["model", "G", "series", "seed"],
)

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
        "value_low": _number("value at G_low: mean over runs, or variance for scatter"),
        "value_high": _number("value at G_high"),
        "effect": _number("difference G_high - G_low, or ratio of variances G_low / G_high for scatter"),
        "low": _number("lower end of the effect's interval"),
        "high": _number("upper end of the effect's interval"),
        "p": _number("p-value: Welch's t-test of no difference, or F-test of equal variances", SHARE),
        "p_equivalence": _number("p-value of TOST: the difference lies within the margin", SHARE),
        "expected": _number(
            "effect expected where G only sets the noise: 0, or to leading order 1 for scatter, since with equal "
            "completions per step a smaller G averages over more groups"
        ),
        "note": column(str, "what limits the comparison; empty for nothing", nullable=True),
    },
    unique=["model", "quantity"],
)

TRANSFER = schema(
    "transfer",
    {
        "model": MODEL,
        "G": G,
        "benchmark": column(str, "benchmark, as listed in the config"),
        "distance": column("Int64", "rank of distance from the training task, 0 = in distribution", NOT_NEGATIVE),
        "items": column("Int64", "problems scored for both the base model and the trained ones", NOT_NEGATIVE),
        "seeds": column("Int64", "trained runs", NOT_NEGATIVE),
        "base": _number("accuracy of the base model", SHARE),
        "final": _number("accuracy after training, mean over runs", SHARE),
        "gain": _number("final - base"),
        "low": _number("lower end of the gain's paired bootstrap interval over problems and runs"),
        "high": _number("upper end of the interval"),
        "p": _number("bootstrap p-value of a gain that is not 0, two-sided", SHARE),
        "p_holm": _number("the same, Holm-adjusted over the out-of-distribution benchmarks of the cell", SHARE),
    },
    unique=["model", "G", "benchmark"],
)

TRANSFER_SUMMARY = schema(
    "transfer summary",
    {
        "model": MODEL,
        "benchmarks": column("Int64", "out-of-distribution benchmarks", NOT_NEGATIVE),
        "rank_correlation": _number("Spearman correlation of gain and distance over these benchmarks"),
        "rank_low": _number("lower end of its bootstrap interval"),
        "rank_high": _number("upper end of its bootstrap interval"),
        "gain_in": _number("gain in distribution, mean over G"),
        "gain_out": _number("mean gain over the out-of-distribution benchmarks and G"),
        "gain_out_low": _number("lower end of its bootstrap interval"),
        "gain_out_high": _number("upper end of its bootstrap interval"),
        "robustness": _number("gain_out / gain_in; empty where gain_in is not above 0"),
        "robustness_low": _number("lower end of its bootstrap interval"),
        "robustness_high": _number("upper end of its bootstrap interval"),
        "best_share": _number("share of bootstrap replicates in which this model is the most robust", SHARE),
        "gain_near": _number("mean gain on the nearest out-of-distribution benchmark minus that on the farthest"),
        "gain_near_low": _number("lower end of its bootstrap interval"),
        "gain_near_high": _number("upper end of its bootstrap interval"),
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
        "value": _number("the number"),
        "low": _number("lower end of its interval"),
        "high": _number("upper end of its interval"),
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
