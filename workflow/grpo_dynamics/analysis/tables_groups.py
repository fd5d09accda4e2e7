"""The tables on the group size and on the number of seeds: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.tables import number
from grpo_dynamics.tables import NOT_NEGATIVE, POSITIVE, SHARE, G, column, schema

EQUAL_COMPLETIONS, EQUAL_PROMPTS = "equal completions", "equal prompts"
COMPARISONS = (EQUAL_COMPLETIONS, EQUAL_PROMPTS)
VARIANT = "equal_prompts"  # whose runs at the smallest G have the prompts per step of the study's own at the largest
DIFFERENCES = ("plateau", "mean_reward", "trajectory")
SCATTERS = ("scatter_raw", "scatter_runs", "scatter")
RATIOS = ("half_rise", "half_rise_adam", "spread", "variance")
ALL_MODELS = "all"  # the rows pooled over the models

GROUP_SIZE = schema(
    "group size",
    {
        "model": column(str, "name of the model in the config's catalogue; all: pooled over the models"),
        "comparison": column(
            str,
            "equal completions: the study's own runs, with equally many completions per step; equal prompts: runs of "
            "the variant equal_prompts at G_low and the study's own at G_high, with equally many prompts per step",
            pa.Check.isin(COMPARISONS),
        ),
        "quantity": column(
            str,
            "what is compared: plateau (R_inf of the identifiable runs), mean_reward (over all steps), trajectory (the "
            "mean reward in each tenth of the run), scatter_raw (variance between runs, mean over the tenths), "
            "scatter_runs (the same with every run counted once, however many independent tenths it has), scatter "
            "(scatter_raw without the batches' sampling noise), half_rise (steps to half of the rise), half_rise_adam "
            "(the same, expected with Adam's normalisation), spread (within-group standard deviation over "
            "sqrt(p(1-p)), at equal reward p), variance (within-group variance over p(1-p), at equal p)",
            pa.Check.isin(DIFFERENCES + SCATTERS + RATIOS),
        ),
        "G_low": G,
        "G_high": G,
        "groups_low": column("Int64", "prompts per step at G_low", POSITIVE),
        "groups_high": column("Int64", "prompts per step at G_high", POSITIVE),
        "n_low": column("Int64", "runs at G_low", NOT_NEGATIVE),
        "n_high": column("Int64", "runs at G_high", NOT_NEGATIVE),
        "value_low": number(
            "value at G_low: mean over runs (trajectory: in the tenth of the effect), variance (scatter), or geometric "
            "mean over runs (half_rise, spread, variance); empty in pooled rows"
        ),
        "value_high": number("value at G_high"),
        "effect": number(
            "difference G_high - G_low (plateau, mean_reward, trajectory: that of the tenth with the smallest "
            "p_different, or where these do not differ the largest one), else the ratio G_low / G_high; in pooled rows "
            "the geometric mean of the models' ratios"
        ),
        "low": number(
            "lower end of the effect's interval (trajectory: it holds in all tenths together; half_rise, spread, "
            "variance: expected times the interval of effect / expected)"
        ),
        "high": number("upper end of it; inf where the data set none"),
        "p": number(
            "p-value of no dependence on G: that the difference is 0, that the variances are equal (scatter_raw, "
            "scatter_runs), or "
            "that the ratio is expected_leading_order (half_rise, spread, variance)",
            SHARE,
        ),
        "p_equivalence": number("p-value of TOST: the difference lies within the margin (in every tenth)", SHARE),
        "p_different": number("p-value of the test that it lies outside the margin (in some tenth)", SHARE),
        "expected": number(
            "effect expected from exact finite-group sums; 0 for a difference, whose theory is the leading order alone"
        ),
        "expected_leading_order": number("effect expected where G only sets the temperature of the noise"),
        "p_expected": number("p-value of the effect being the expected one (half_rise, spread, variance)", SHARE),
        "exponent": number("a in variance ~ G^-a, as the effect implies (scatter)"),
        "exponent_low": number("lower end of its interval"),
        "exponent_high": number("upper end of it; inf where the data set none"),
        "effective_blocks": number("independent tenths per run that their correlation leaves (scatter)", POSITIVE),
        "first_step": column("Int64", "first step of the tenth of the effect (trajectory)", POSITIVE, nullable=True),
        "last_step": column("Int64", "last step of it", POSITIVE, nullable=True),
        "note": column(str, "what limits the comparison; empty for nothing", nullable=True),
    },
    unique=["model", "comparison", "quantity"],
)

QUESTIONS = ("plateau_equivalent", "mean_reward_equivalent", "plateau_outside", "mean_reward_outside", "variance_ratio")

POWER = schema(
    "power",
    {
        "question": column(
            str,
            "what is to be found: plateau_equivalent and mean_reward_equivalent (TOST, at a true difference of 0), "
            "plateau_outside and mean_reward_outside (an interval wholly outside the margin, at the pilot's effect), "
            "variance_ratio (F-test pooled over the models)",
            pa.Check.isin(QUESTIONS),
        ),
        "case": column(
            str,
            "standard deviations taken from the pilot: noisiest model (its own two cells), noisiest cell (its standard "
            "deviation at both G), median cell (at both G); any for variance_ratio",
            pa.Check.isin(["noisiest model", "noisiest cell", "median cell", "any"]),
        ),
        "seeds": column("Int64", "runs per cell", pa.Check.ge(2)),
        "sd_low": number("standard deviation between runs assumed at the smallest G", POSITIVE),
        "sd_high": number("the same at the largest G", POSITIVE),
        "true_effect": column(float, "true difference, or true ratio of variances"),
        "power": column(float, "probability of finding it", SHARE),
        "reaches_target": column(bool, "whether that is the target power or more"),
        "seeds_needed": column(
            "Int64", "smallest listed number of seeds that reaches the target; empty for none", nullable=True
        ),
        "minutes": column(float, "wall time of the study with that many seeds, minutes", POSITIVE),
        "within_limit": column(bool, "whether that is within the time limit"),
    },
    unique=["question", "case", "seeds"],
)
