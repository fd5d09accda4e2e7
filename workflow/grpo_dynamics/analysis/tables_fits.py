"""The tables on the fits: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.tables import number
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, POSITIVE, SHARE, G, column, schema

# The law and its rivals, as in theory.law and theory.rivals.
CURVES = ("law", "law_overdamped", "exponential", "logistic", "gompertz", "flow", "flow_ceiling")
LEAST_IDENTIFIABLE = 0.5  # share of a scenario's runs from which its coverage is judged: fewer are chance finds
REASONS = ("", "too short", "no trend", "no independent points", "reward falls", "plateau not reached")


def _parameter(name: str, meaning: str, *checks: pa.Check) -> dict[str, pa.Column]:
    return {
        name: number(meaning, *checks),
        f"{name}_se": number(f"standard error of {name}; empty at a bound or when the Jacobian is singular"),
        f"{name}_low": number(f"lower end of {name}'s profile interval (curve law only)"),
        f"{name}_high": number("upper end of it; inf where the data set none"),
        f"{name}_boot_low": number(f"lower end of {name}'s moving-block bootstrap interval"),
        f"{name}_boot_high": number("upper end of it"),
    }


FITS = schema(
    "fits",
    {
        "variant": column(str, "study: the study's own runs; else the name of the variant in the config"),
        "model": MODEL,
        "G": G,
        "series": column(str, "run: one run; mean: the mean over the cell's seeds", pa.Check.isin(["run", "mean"])),
        "seed": column("Int64", "seed of the run; empty for the mean over the seeds of a cell", nullable=True),
        "curve": column(
            str,
            "law: the three-phase law; law_overdamped: the same with zeta >= 1; exponential: its limit; logistic and "
            "gompertz growth; flow: anchored mean-field flow without momentum; flow_ceiling: the flow without anchor "
            "below a ceiling",
            pa.Check.isin(CURVES),
        ),
        "n": column("Int64", "freshly sampled rewards fitted", NOT_NEGATIVE),
        "parameters": column("Int64", "fitted parameters, the variance of the noise not counted", POSITIVE),
        **_parameter("R_0", "reward at the start, fitted"),
        **_parameter("R_inf", "plateau of the reward, fitted"),
        **_parameter("w0", "natural frequency of the law, 1/step", POSITIVE),
        **_parameter("zeta", "damping ratio of the law", POSITIVE),
        **_parameter("k", "rate of the exponential, logistic, Gompertz curve or flow, 1/step", POSITIVE),
        "beta": number("weight of the flow's KL anchor", NOT_NEGATIVE),
        "beta_se": number("standard error of beta; empty at a bound"),
        "r2": number("R^2 on the raw series"),
        "r2_attainable": number(
            "R^2 that the true curve would have on it: the rest is noise that is independent from reward to reward "
            "(successive differences)",
            SHARE,
        ),
        "r2_smoothed": number("R^2 on the running mean over smoothing rewards, of the curve fitted to the raw ones"),
        "r2_early": number("R^2 over the early phase (first early_share of the series)"),
        "r2_forecast": number("R^2 on the rest of the curve fitted to the first forecast_share of the series alone"),
        "rmse_forecast": number("root mean square error of that forecast, in units of reward", NOT_NEGATIVE),
        "sse": number("residual sum of squares", NOT_NEGATIVE),
        "sse_early": number("residual sum of squares in the early phase", NOT_NEGATIVE),
        "n_early": column("Int64", "rewards of the early phase", NOT_NEGATIVE),
        "aicc": number("corrected Akaike criterion (the parameters and the variance)"),
        "f_p": number("p-value of the F-test against the exponential, residuals taken as independent (laws only)"),
        "f_p_effective": number(
            "the same with the noise's autocorrelation; empty where no independent point carries zeta"
        ),
        "autocorrelation": number("lag-1 autocorrelation of the residuals"),
        "n_effective": number("independent points that the residuals' autocorrelation leaves", POSITIVE),
        "slow_start_end": number("steps until the fitted rate of rise first reaches half of its maximum (laws only)"),
        "half_rise": number("steps until half of the fitted way from R_0 to R_inf is covered"),
        "plateau_start": number("steps until 95 % of the fitted way is covered"),
        "evaluations": column("Int64", "evaluations of the curve, all starts together", NOT_NEGATIVE),
        "start": column(str, "start values of the best search"),
        "at_bound": column(str, "parameters that ended at a bound, empty for none", nullable=True),
        "identifiable": column(bool, "whether plateau and rate can be read from this series, judged by the law"),
        "reason": column(str, "why not identifiable; empty otherwise", pa.Check.isin(REASONS), nullable=True),
    },
    unique=["variant", "model", "G", "series", "seed", "curve"],
)

CALIBRATION = schema(
    "calibration",
    {
        "scenario": column(str, "name of the scenario in the config"),
        "runs": column("Int64", "simulated runs", POSITIVE),
        "identifiable": column("Int64", "of them, with plateau and rate identifiable", NOT_NEGATIVE),
        "reason": column(
            str, "the most frequent reason why not; empty for none", pa.Check.isin(REASONS), nullable=True
        ),
        "parameter": column(str, "parameter of the law"),
        "method": column(
            str,
            "profile: the interval that verdicts rest on; bootstrap: moving blocks",
            pa.Check.isin(["profile", "bootstrap"]),
        ),
        "truth": column(float, "true value"),
        "median_estimate": number("median of the estimates"),
        "intervals": column("Int64", "intervals given: those of identifiable runs that have one", NOT_NEGATIVE),
        "covered": column("Int64", "intervals that contain the truth", NOT_NEGATIVE),
        "missed_below": column("Int64", "intervals that lie above the truth", NOT_NEGATIVE),
        "missed_above": column("Int64", "intervals that lie below the truth", NOT_NEGATIVE),
        "coverage": number("covered / intervals", SHARE),
        "low": number("lower end of its Wilson interval", SHARE),
        "high": number("upper end of its Wilson interval", SHARE),
        "accepted": column(
            "boolean",
            "whether the coverage lies in the config's range of right ones; empty where fewer than half of the runs "
            "are identifiable",
            nullable=True,
        ),
        "median_width": number("median width of the intervals; inf where most are open"),
        "open_share": number("share of the intervals with an end that the data do not set", SHARE),
    },
    unique=["scenario", "parameter", "method"],
)
