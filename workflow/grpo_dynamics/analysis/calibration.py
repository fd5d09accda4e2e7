"""How often the intervals of the fits contain the truth, on simulated runs (the target `calibration`).

A simulated run has a reward that follows the law, plus a first-order process for the policy's own wandering, and binary
rewards of prompts that differ: a prompt's probability is drawn from a beta distribution around the mean, so that the
completions of one prompt are correlated. The fits know none of this.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from statsmodels.stats.proportion import proportion_confint

from grpo_dynamics import seeds
from grpo_dynamics.analysis.bootstrap import bootstrap_intervals
from grpo_dynamics.analysis.fit_table import PARAMETERS, identify
from grpo_dynamics.analysis.tables_fits import CALIBRATION, LEAST_IDENTIFIABLE
from grpo_dynamics.theory.law import three_phase

METHODS = ("profile", "bootstrap")


def simulate(rng: np.random.Generator, truth: dict, steps: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Time and mean reward of one simulated run.

    Parameters
    ----------
    truth : dict
        A scenario of the config: R_0, R_inf, w0, zeta, G, prompts, wander, memory.
    steps : int
    correlation : float
        Of the rewards of one prompt's completions; their number of successes is beta-binomial with this intraclass
        correlation, whose variance is 1 + (G - 1) correlation times the binomial.
    """
    t = np.arange(steps, dtype=float)
    p = three_phase(t, truth["R_0"], truth["R_inf"], truth["w0"], truth["zeta"])
    memory, burn_in = truth["memory"], 200
    drawn = rng.normal(0, np.sqrt(1 - memory**2), steps + burn_in)
    wander = lfilter([1.0], [1.0, -memory], drawn)[burn_in:]
    p = np.clip(p + truth["wander"] * 2 * np.sqrt(p * (1 - p)) * wander, 1e-6, 1 - 1e-6)[:, None]
    if correlation > 0:
        weight = 1 / correlation - 1
        p = rng.beta(np.maximum(weight * p, 1e-9), np.maximum(weight * (1 - p), 1e-9), size=(steps, truth["prompts"]))
    successes = rng.binomial(truth["G"], p, size=(steps, truth["prompts"]))
    return t, successes.mean(axis=1) / truth["G"]


def _coverage(intervals: np.ndarray, value: float, alpha: float) -> dict:
    """Of intervals (runs, 2), NaN where none is given."""
    given = intervals[~np.isnan(intervals).any(axis=1)]
    below, above = int((value < given[:, 0]).sum()), int((value > given[:, 1]).sum())
    n, covered = len(given), len(given) - below - above
    row = {"intervals": n, "covered": covered, "missed_below": below, "missed_above": above}
    if n:
        low, high = proportion_confint(covered, n, alpha=alpha, method="wilson")
        width = given[:, 1] - given[:, 0]
        row |= {
            "coverage": covered / n,
            "low": float(low),
            "high": float(high),
            "median_width": float(np.median(width)),
        }
        row["open_share"] = float(np.mean(np.isinf(width)))
    return row


def calibrate(options: dict, study: dict, seed: int, report: Callable[[int], None] = lambda done: None) -> pd.DataFrame:
    """The CALIBRATION table.

    Parameters
    ----------
    options : dict
        The config's `analysis`.
    study : dict
        The config's `calibration`.
    seed : int
        The study's seed.
    report : callable
        Called with the number of simulated runs done.
    """
    rows, done, level = [], 0, 1 - options["alpha"]
    for name, truth in study["scenarios"].items():
        found: dict[tuple[str, str], list] = {(method, key): [] for method in METHODS for key in PARAMETERS}
        reasons, estimates = [], []
        for replica in range(study["replicas"]):
            own = seeds.derive(seed, "calibration", name, replica)
            t, y = simulate(np.random.default_rng(own), truth, study["steps"], study["prompts_correlation"])
            law, _, profiles, reason = identify(t, y, options)
            done += 1
            report(done)
            reasons.append(reason)
            if reason:  # an interval that is not given cannot be wrong
                continue
            estimates.append([law.estimates[key] for key in PARAMETERS])
            sets = {"profile": profiles}
            if replica < study["bootstrap_replicas"]:
                sets["bootstrap"] = bootstrap_intervals(
                    law, options["fit_replicates"], options["block_length"], level, own
                )
            for method, intervals in sets.items():
                for key in PARAMETERS:
                    found[method, key].append(intervals[key])
        common = {"scenario": name, "runs": len(reasons), "identifiable": reasons.count("")}
        common["reason"] = max({*reasons} - {""}, key=reasons.count, default="")
        medians = np.median(estimates, axis=0) if estimates else np.full(len(PARAMETERS), np.nan)
        for (method, key), intervals in found.items():
            row = common | {"parameter": key, "method": method, "truth": float(truth[key])}
            row["median_estimate"] = float(medians[PARAMETERS.index(key)])
            given = np.array(intervals, float).reshape(-1, 2)
            row |= _coverage(given, truth[key], options["alpha"])
            if row["intervals"] and row["identifiable"] >= LEAST_IDENTIFIABLE * row["runs"]:
                low, high = study["accepted"]
                row["accepted"] = low <= row["coverage"] <= high
            rows.append(row)
    table = pd.DataFrame(rows).reindex(columns=list(CALIBRATION.columns))
    return table.astype({"accepted": "boolean"})
