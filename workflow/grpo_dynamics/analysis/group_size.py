"""What the group size changes: plateau, mean trajectory, and scatter between seeds (claims C3, C4, C5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans

from grpo_dynamics.analysis.series import each_run, train_reward
from grpo_dynamics.analysis.tables import GROUP_SIZE
from grpo_dynamics.tables import check

NAN = float("nan")
BLOCKS = 10


def compare_means(low: np.ndarray, high: np.ndarray, margin: float, alpha: float) -> dict[str, float]:
    """Difference of means high - low: Welch's interval and test, and TOST equivalence.

    Parameters
    ----------
    low, high : arrays of one number per run
    margin : float
        The means count as equivalent when their difference lies within (-margin, margin).
    alpha : float
        The interval has level 1 - alpha.

    Returns
    -------
    dict
        effect, low, high, p, p_equivalence; only the effect with fewer than two runs on a side or without any
        variance, all empty without runs.
    """
    result = dict.fromkeys(("effect", "low", "high", "p", "p_equivalence"), NAN)
    if not len(low) or not len(high):
        return result
    result["effect"] = float(np.mean(high) - np.mean(low))
    if min(len(low), len(high)) < 2 or np.var(low) + np.var(high) == 0:
        return result
    comparison = CompareMeans.from_data(high, low)
    result["low"], result["high"] = map(float, comparison.tconfint_diff(alpha=alpha, usevar="unequal"))
    result["p"] = float(comparison.ttest_ind(usevar="unequal")[1])
    result["p_equivalence"] = float(comparison.ttost_ind(-margin, margin, usevar="unequal")[0])
    return result


def variance_ratio(low: np.ndarray, high: np.ndarray, alpha: float) -> dict[str, float]:
    """Ratio of variances between seeds, low / high, with its F interval and two-sided F-test of equality.

    Parameters
    ----------
    low, high : (runs, blocks) arrays
        Variances are taken over runs and averaged over blocks. The blocks of a run move together, so that the
        degrees of freedom are those of the runs alone: the interval is wide rather than too narrow.
    """
    result = dict.fromkeys(("value_low", "value_high", "effect", "low", "high", "p"), NAN)
    if min(len(low), len(high)) < 2:
        return result
    result["value_low"], result["value_high"] = (float(np.mean(np.var(x, axis=0, ddof=1))) for x in (low, high))
    if not result["value_high"] > 0:
        return result
    ratio = result["value_low"] / result["value_high"]
    f = stats.f(len(low) - 1, len(high) - 1)
    p = 2 * min(f.cdf(ratio), f.sf(ratio))
    return result | {
        "effect": ratio,
        "low": float(ratio / f.ppf(1 - alpha / 2)),
        "high": float(ratio / f.ppf(alpha / 2)),
        "p": float(min(p, 1.0)),
    }


def block_means(runs: pd.DataFrame, blocks: int = BLOCKS) -> np.ndarray:
    """(runs, blocks) mean rewards over equal parts of each run, of one cell.

    Averaging takes most of the batch's own sampling noise out. What is left of it depends on the completions per step,
    which are equal at every G, and so pulls a ratio of variances towards 1.
    """
    rewards = [train_reward(run)[1] for _, run in each_run(runs)]
    length = min(map(len, rewards), default=0)
    parts = [np.array_split(reward[:length], min(blocks, max(length, 1))) for reward in rewards]
    return np.array([[part.mean() for part in row] for row in parts])


def _plateaus(fits: pd.DataFrame, model: str, size: int) -> tuple[np.ndarray, str]:
    cell = fits[(fits["model"] == model) & (fits["G"] == size) & (fits["series"] == "run")]
    usable = cell[cell["identifiable"]]
    left_out = len(cell) - len(usable)
    note = f"{left_out} of {len(cell)} runs at G = {size} left out: plateau not identifiable" if left_out else ""
    return usable["R_inf"].to_numpy(float), note


def compare(runs: pd.DataFrame, fits: pd.DataFrame, options: dict) -> pd.DataFrame:
    """The GROUP_SIZE table: the smallest against the largest group size, per model.

    Parameters
    ----------
    runs, fits : DataFrame
        RUN_LOG and FITS.
    options : dict
        The config's `analysis`: alpha, equivalence_margin.

    Returns
    -------
    DataFrame
        Without rows when the run log holds one group size.
    """
    sizes = sorted(runs["G"].unique())
    if len(sizes) < 2:
        return check(pd.DataFrame(columns=list(GROUP_SIZE.columns)), GROUP_SIZE)
    small, large = int(sizes[0]), int(sizes[-1])
    margin, alpha = options["equivalence_margin"], options["alpha"]
    rows = []
    for model in runs["model"].unique():
        cells = [runs[(runs["model"] == model) & (runs["G"] == size)] for size in (small, large)]
        key = {"model": model, "G_low": small, "G_high": large}
        (low, note_low), (high, note_high) = (_plateaus(fits, model, size) for size in (small, large))
        notes = [note for note in (note_low, note_high) if note]
        rows.append(key | _means("plateau", low, high, margin, alpha, notes))
        low, high = (np.array([train_reward(run)[1].mean() for _, run in each_run(cell)]) for cell in cells)
        rows.append(key | _means("trajectory", low, high, margin, alpha, []))
        low, high = map(block_means, cells)
        ratio = variance_ratio(low, high, alpha)
        counts = {"n_low": len(low), "n_high": len(high)}
        # Each group's noise goes as 1/G, and completions_per_step / G groups are averaged in a step: the two cancel.
        note = "" if np.isfinite(ratio["effect"]) else _no_interval(low, high)
        rows.append(key | {"quantity": "scatter", **counts, "expected": 1.0, "note": note} | ratio)
    return pd.DataFrame(rows).reindex(columns=list(GROUP_SIZE.columns))


def _no_interval(low: np.ndarray, high: np.ndarray) -> str:
    if min(len(low), len(high)) < 2:
        return "no interval: needs two runs or more at each G"
    return "no interval: the runs do not differ"


def _means(quantity: str, low: np.ndarray, high: np.ndarray, margin: float, alpha: float, notes: list[str]) -> dict:
    result = compare_means(low, high, margin, alpha)
    if not np.isfinite(result["low"]):
        notes = [*notes, _no_interval(low, high)]
    return {
        "quantity": quantity,
        "n_low": len(low),
        "n_high": len(high),
        "value_low": float(np.mean(low)) if len(low) else NAN,
        "value_high": float(np.mean(high)) if len(high) else NAN,
        "expected": 0.0,
        "note": "; ".join(notes),
    } | result
