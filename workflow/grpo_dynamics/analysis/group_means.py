"""Differences of means and of mean trajectories at two group sizes, with intervals and equivalence tests (C3, C4)."""

from __future__ import annotations

import numpy as np
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans

NAN = float("nan")


def compare_means(low: np.ndarray, high: np.ndarray, margin: float, alpha: float, tests: int = 1) -> dict[str, float]:
    """Difference of means high - low: Welch's interval and test, and tests against a margin.

    Parameters
    ----------
    low, high : arrays of one number per run
    margin : float
        The means count as equivalent when their difference lies within (-margin, margin).
    alpha : float
        The interval has level 1 - alpha / tests (Bonferroni).
    tests : int
        Comparisons among which the interval and the p-values other than p_equivalence are to hold together.

    Returns
    -------
    dict
        effect, low, high, p, p_equivalence (TOST), p_different (the difference lies outside the margin; its null
        hypothesis is that it lies inside); only the effect with fewer than two runs on a side or without any variance,
        all empty without runs.
    """
    result = dict.fromkeys(("effect", "low", "high", "p", "p_equivalence", "p_different"), NAN)
    if not len(low) or not len(high):
        return result
    result["effect"] = float(np.mean(high) - np.mean(low))
    if min(len(low), len(high)) < 2 or np.var(low) + np.var(high) == 0:
        return result
    comparison = CompareMeans.from_data(high, low)
    result["low"], result["high"] = map(float, comparison.tconfint_diff(alpha=alpha / tests, usevar="unequal"))
    t, p, dof = comparison.ttest_ind(usevar="unequal")
    outside = stats.t.sf((abs(result["effect"]) - margin) * abs(t / result["effect"]), dof) if t else 1.0
    result["p"], result["p_different"] = min(tests * float(p), 1.0), min(tests * float(outside), 1.0)
    result["p_equivalence"] = float(comparison.ttost_ind(-margin, margin, usevar="unequal")[0])
    return result


def compare_trajectories(low: np.ndarray, high: np.ndarray, margin: float, alpha: float) -> tuple[dict, int]:
    """Differences of the mean trajectories over blocks, of (runs, blocks) arrays.

    They are equivalent if they are in every block: an intersection-union test, whose p-value is the largest of the
    blocks' and needs no correction (Berger and Hsu 1996, Statist. Sci. 11, 283). Its other answers are about some
    block, so that the interval and the p-values carry Bonferroni's correction over the blocks.

    Returns
    -------
    dict, int
        As `compare_means`, for the block that lies outside the margin with the smallest p-value, or, where these do not
        differ, the one with the largest difference in magnitude; and the place of that block.
    """
    found = [compare_means(*pair, margin, alpha, low.shape[1]) for pair in zip(low.T, high.T, strict=True)]
    joint = {"p_equivalence": max} | dict.fromkeys(("p", "p_different"), min)
    complete = all(np.isfinite(block["p"]) for block in found)
    place = min(
        range(len(found)),
        key=lambda i: (found[i]["p_different"] if complete else 0.0, -abs(found[i]["effect"])),
    )
    p_values = {name: pick(block[name] for block in found) if complete else NAN for name, pick in joint.items()}
    return found[place] | p_values, place
