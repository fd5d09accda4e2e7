"""Simulated runs and evaluations for the tests of the analysis: binomial rewards around a three-phase rise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa
import yaml

from grpo_dynamics.analysis.tables import DIAGNOSTICS, TRANSFER, TRANSFER_SUMMARY
from grpo_dynamics.analysis.tables_failures import CONFUSION, FAILURE_RUNS
from grpo_dynamics.analysis.tables_fits import CALIBRATION, FITS
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE
from grpo_dynamics.analysis.tables_predictions import RUN_PREDICTIONS
from grpo_dynamics.bandit import tables as bandit
from grpo_dynamics.tables import EVALUATION_ITEMS, EVALUATIONS, RUN_LOG, check
from grpo_dynamics.theory import oscillator
from grpo_dynamics.theory.finite_group import h_G, v_G
from grpo_dynamics.theory.law import phi

CONFIG = yaml.safe_load((Path(__file__).parents[1] / "config" / "config.yaml").read_text())
OPTIONS = CONFIG["analysis"] | {"bootstrap_replicates": 400}  # fewer, for speed
THRESHOLDS = CONFIG["diagnostics"]

# Of the tables that the claims rest on.
SCHEMAS = {
    "fits": FITS,
    "calibration": CALIBRATION,
    "run_predictions": RUN_PREDICTIONS,
    "group_size": GROUP_SIZE,
    "transfer": TRANSFER,
    "transfer_summary": TRANSFER_SUMMARY,
    "diagnostics": DIAGNOSTICS,
    "failure_runs": FAILURE_RUNS,
    "confusion": CONFUSION,
    "fixed_point": bandit.FIXED_POINT,
    "thresholds": bandit.THRESHOLDS,
    "trajectories": bandit.TRAJECTORIES,
    "finite_step": bandit.FINITE_STEP,
    "drift": bandit.DRIFT,
    "stationary_variance": bandit.STATIONARY_VARIANCE,
    "predictions": bandit.PREDICTIONS,
    "overdamped_limit": bandit.OVERDAMPED_LIMIT,
}


def run_log(
    model="llama", G=4, seed=0, steps=150, K_ref=1, R_0=0.08, R_inf=0.8, w0=0.1, zeta=1.3, completions=64, failure=""
) -> pd.DataFrame:
    """A run log of one run; `failure` induces one of decoupling, degeneracy, concentration, instability."""
    rng = np.random.default_rng([seed, G, sum(map(ord, model))])
    t = np.arange(steps)
    p = R_inf + (R_0 - R_inf) * phi(t, w0, zeta) + rng.normal(0, 0.08 / G**0.5) * (1 - phi(t, w0, zeta)) * 0.5
    groups = completions // G
    k = rng.binomial(G, np.clip(p, 0, 1)[:, None], size=(steps, groups)).astype(float)
    if failure == "degeneracy":  # from the middle on nearly every group gives one answer G times
        same = (rng.random((steps, groups)) < 0.95) & (t[:, None] > steps / 3)
        k = np.where(same, G * rng.binomial(1, np.clip(p, 0, 1)[:, None], size=k.shape), k)
    age = t % K_ref
    k = k[t - age]
    heldout = np.full(steps, np.nan)
    at = (t + 1) % 10 == 0
    q = np.where(t > steps / 3, np.maximum(p - 0.006 * (t - steps / 3), 0.05), p) if failure == "decoupling" else p
    heldout[at] = rng.binomial(128, np.clip(q, 0, 1)[at]) / 128
    progress = 1 - phi(t, w0, zeta)
    loss_of_entropy = 5.0 if failure == "concentration" else 0.8
    growth = np.exp(6.0 * t / steps) if failure == "instability" else 1.0
    log = pd.DataFrame(
        {
            "model": model,
            "G": G,
            "seed": seed,
            "step": t + 1,
            "sample_age": age,
            "groups": groups,
            "reward": k.mean(axis=1) / G,
            "reward_std": (np.sqrt(k * (G - k)) / G).mean(axis=1),
            "reward_variance": (k * (G - k) / G**2).mean(axis=1),
            "advantage_variance": (1 - np.isin(k, [0, G])).mean(axis=1),
            "collapsed_share": np.isin(k, [0, G]).mean(axis=1),
            "entropy": 0.5 * np.exp(-loss_of_entropy * progress + rng.normal(0, 0.05, steps)),
            "kl": 0.05 * progress,
            "grad_norm": (0.3 + 2 * p * (1 - p)) * growth * np.exp(rng.normal(0, 0.2, steps)),
            "clip_low": 0.0,
            "clip_high": 0.0,
            "ratio_min": 1.0,
            "ratio_mean": 1.0,
            "ratio_max": 1 + age * 0.2 * growth * np.exp(rng.normal(0, 0.2, steps)),
            "heldout_reward": heldout,
            "learning_rate": 3e-4,
            "loss": 0.0,
            "completion_length": 20.0,
            "truncated_share": 0.0,
            "tokens": 1280,
            "seconds": 0.8,
        }
    )
    return check(log, RUN_LOG)


def study(models=("nemotron", "llama", "qwen2"), sizes=(4, 16), seeds=(0, 1, 2), **options) -> pd.DataFrame:
    """Run logs of a whole study, concatenated."""
    return pd.concat(
        [run_log(model, G, seed, **options) for model in models for G in sizes for seed in seeds], ignore_index=True
    )


BENCHMARKS = ["ladder", "names", "templates", "numbers", "operands", "distractors", "operations", "two-step", "nested"]


def evaluations(
    models=("nemotron", "llama", "qwen2"), sizes=(4, 16), seeds=(0, 1, 2), items=60, gain=0.5, decay=0.05
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(EVALUATIONS, EVALUATION_ITEMS) with gains that fall by `decay` per rank of distance."""
    rows = []
    for model in models:
        for G, seed in [(None, None), *((G, seed) for G in sizes for seed in seeds)]:
            for distance, benchmark in enumerate(BENCHMARKS):
                rng = np.random.default_rng([distance, seed or 0, G or 0, sum(map(ord, model))])
                p = 0.1 + (0 if seed is None else max(gain - decay * distance, 0))
                rows += [
                    (model, G, seed, benchmark, str(item), "", str(item), 0, "1", "1", "box", float(reward), "text")
                    for item, reward in enumerate(rng.binomial(1, p, items))
                ]
    table = pd.DataFrame(rows, columns=list(EVALUATION_ITEMS.columns))
    table = check(table.astype({"G": "Int64", "seed": "Int64"}), EVALUATION_ITEMS)
    summary = (
        table.groupby(["model", "G", "seed", "benchmark"], dropna=False, sort=False)
        .agg(items=("item", "size"), accuracy=("reward", "mean"))
        .reset_index()
    )
    summary["distance"] = summary["benchmark"].map(BENCHMARKS.index)
    summary["standard_error"] = np.sqrt(summary["accuracy"] * (1 - summary["accuracy"]) / summary["items"])
    summary = summary.assign(samples=1, no_answer_share=0.0, unscorable=0, timeouts=0)
    return check(summary[list(EVALUATIONS.columns)], EVALUATIONS), table


def complete(table: pd.DataFrame, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """`table` checked against its schema, after a column that it lacks is filled with an allowed value."""
    filler = {"int64": 2, "float64": 0.5}
    lacking = {
        name: np.nan if column.nullable else filler.get(str(column.dtype).lower(), "none")
        for name, column in schema.columns.items()
        if name not in table
    }
    return check(table.assign(**lacking)[list(schema.columns)], schema)


def _threshold_tables() -> dict[str, pd.DataFrame]:
    """Exact thresholds 5 % above the closed form for the fixed lag, 5 % below it for periodic refresh."""
    thresholds = pd.DataFrame(
        [
            (schedule, mu, K_ref, K_ref if schedule == "fixed_lag" else (K_ref - 1) / 2, 0.3)
            for schedule in ("fixed_lag", "periodic")
            for mu in (0.0, 0.5)
            for K_ref in (1, 2, 4)
        ],
        columns=["schedule", "mu", "K_ref", "mean_age", "K"],
    )
    side = np.where(thresholds["schedule"] == "fixed_lag", 1.05, 0.95)
    for kind, closed in (("stability", oscillator.stability_threshold), ("onset", oscillator.onset_threshold)):
        thresholds[f"a_{kind}_closed"] = closed(thresholds["mu"], thresholds["K_ref"])
        thresholds[f"a_{kind}_closed_at_age"] = closed(thresholds["mu"], thresholds["mean_age"])
        for suffix, factor in (("measured", 1.001), ("low", 0.999), ("high", 1.003), ("exact", 1.0)):
            thresholds[f"a_{kind}_{suffix}"] = factor * side * thresholds[f"a_{kind}_closed"]
    at_age = thresholds["a_stability_closed_at_age"]
    thresholds["a_stability_closed_at_age"] = at_age.where(np.isfinite(at_age))
    steps = pd.DataFrame(
        [
            (mu, K_ref, share, share * (1 - mu) / K_ref)
            for mu in (0.0, 0.5)
            for K_ref in (1, 4)
            for share in (0.05, 0.1, 0.3, 0.8)
        ],
        columns=["mu", "K_ref", "share", "a"],
    )
    rate = steps["a"] / (1 - steps["mu"])
    # Off by 10 % from a share of 0.2 at K_ref = 4 and of 0.5 at K_ref = 1.
    closed = rate * (1 - steps["share"] / np.where(steps["K_ref"] == 4, 2, 5))
    steps = steps.assign(rate_measured=rate, rate_exact=rate, rate_closed=closed, regime_closed="overdamped")
    return {"thresholds": thresholds, "finite_step": steps}


def _group_tables() -> dict[str, pd.DataFrame]:
    """Measured values 0.1 % beside the exact ones, in intervals of 0.5 %; the variance's leading order off by 1.5/G."""
    drift = pd.DataFrame(
        [(std, G, p) for std in ("population", "unbiased") for G in (4, 16, 64) for p in (0.1, 0.5, 0.9)],
        columns=["std", "G", "p"],
    )
    spread = drift["p"] * (1 - drift["p"])
    exact = [(float(h_G(p, G, std)), G * float(v_G(p, G, std))) for std, G, p in drift.itertuples(index=False)]
    leading = np.sqrt(spread), (1 - 2 * drift["p"]) ** 2 / 4
    for name, value, limit in zip(("drift", "noise"), np.transpose(exact), leading, strict=True):
        drift[f"{name}_exact"], drift[f"{name}_leading_order"] = value, limit
        drift[name], drift[f"{name}_low"], drift[f"{name}_high"] = 1.001 * value, 0.996 * value, 1.006 * value
    variance = pd.DataFrame(
        [(schedule, G) for schedule in ("fixed_lag", "periodic") for G in (2, 4, 8, 16, 32)], columns=["schedule", "G"]
    )
    G = variance["G"]
    variance = variance.assign(
        variance=0.1001 / G, low=0.0996 / G, high=0.1006 / G, error=0.0002 / G, variance_exact=0.1 / G,
        variance_leading_order=0.1 / G * (1 - 1.5 / G), replicas=64, p_mean=0.701, p_star=0.7,
    )  # fmt: skip
    G = pd.array([None, 4, 16, 64], dtype="Int64")
    K = np.array([0.13, 0.16, 0.14, 0.132])
    fixed_point = pd.DataFrame({"G": G, "p_star": [0.74, 0.70, 0.72, 0.735], "K": K, "K_analytic": K})
    for name, factor in (("", 1.001), ("_low", 0.99), ("_high", 1.01)):
        fixed_point[f"K_perturbation{name}"] = factor * K
    fixed_point = fixed_point.assign(std="population", drive_ratio=0.9, noise=0.1)
    return {"drift": drift, "stationary_variance": variance, "fixed_point": fixed_point}


def bandit_tables() -> dict[str, pd.DataFrame]:
    """Bandit tables in which every claim about the bandit holds."""
    predictions = pd.DataFrame(
        [
            (0.1 * i, 0.5, 1, 0.1, G, calibration, 0.99 - 0.01 * i, 20.0, 20.5)
            for i in range(1, 6)
            for G, calibration in [(None, "mean field"), (4, "mean field"), (4, "finite group")]
        ],
        columns=["eta", "mu", "K_ref", "start", "G", "calibration", "r2", "half_rise_measured", "half_rise_predicted"],
    ).astype({"G": "Int64"})
    steps = np.arange(400)
    trajectories = pd.concat(
        [
            pd.DataFrame(
                {
                    "K_ref": K_ref,
                    "eta": 0.3,
                    "mu": 0.5,
                    "schedule": "fixed_lag",
                    "step": steps,
                    "p": 0.6 - 0.4 * phi(steps, 0.1, zeta),
                    "p_predicted": 0.6 - 0.4 * phi(steps, 0.1, zeta),
                    "regime": regime,
                    "regime_closed": regime,
                }
            )
            for K_ref, zeta, regime in [(1, 2.0, "overdamped"), (4, 0.5, "underdamped"), (8, 0.2, "underdamped")]
        ],
        ignore_index=True,
    )
    zeta = np.array([2.0, 5.0, 20.0, 100.0])
    limit = pd.DataFrame(
        {
            "zeta": zeta,
            "k": 0.03,
            "max_abs_difference": 0.25 / zeta**2 * (1 + 0.1 / zeta),
            "leading_order": 0.25 / zeta**2,
        }
    )
    found = {
        **_threshold_tables(),
        **_group_tables(),
        "predictions": predictions,
        "trajectories": trajectories,
        "overdamped_limit": limit,
    }
    return {name: complete(table, SCHEMAS[name]) for name, table in found.items()}
