"""How many seeds? Power of the study's tests on the group size, and what the runs cost.

The powers of Welch's tests are exact for normal values, as computed by numerical integration over the sampling
distribution of the two variances (Phillips 1990, J. Pharmacokin. Biopharm. 18, 137, for TOST). That of the variances
takes the F distribution by which the test itself is judged, with which simulations agree to 0.01.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from grpo_dynamics.analysis.group_scatter import matched_dof
from grpo_dynamics.analysis.tables_groups import POWER
from grpo_dynamics.tables import check

NODES = 100  # per variance; the powers then agree to 1e-3 with those of 400


def _welch(sd_low: float, sd_high: float, n: int, level: float) -> tuple[np.ndarray, float]:
    """Half widths t * se of Welch's intervals over equally likely pairs of variances, and the mean's true error.

    `level` is the quantile of t that the half width takes.
    """
    for name, value, least in (("sd_low", sd_low, 0), ("sd_high", sd_high, 0), ("n", n, 1)):
        if not value > least:
            raise ValueError(f"{name}: found {value}, expected a number above {least}")
    share = stats.chi2.ppf((np.arange(NODES) + 0.5) / NODES, n - 1) / (n - 1)
    low, high = sd_low**2 * share[:, None] / n, sd_high**2 * share[None, :] / n
    dof = (low + high) ** 2 * (n - 1) / (low**2 + high**2)
    return stats.t.ppf(level, dof) * np.sqrt(low + high), float(np.hypot(sd_low, sd_high) / np.sqrt(n))


def equivalence_power(
    sd_low: float, sd_high: float, n: int, margin: float, alpha: float, difference: float = 0.0
) -> float:
    """Probability that Welch's TOST finds two means of `n` runs each to differ by less than `margin`.

    Parameters
    ----------
    sd_low, sd_high : float
        True standard deviations between runs.
    n : int
        Runs per cell, 2 or more.
    margin, alpha : float
        Margin and level of TOST.
    difference : float
        True difference of the means.

    Raises
    ------
    ValueError
        If a standard deviation is not positive or n is below 2.
    """
    half, error = _welch(sd_low, sd_high, n, 1 - alpha)
    reach = np.maximum(margin - half, 0.0)
    inside = stats.norm.cdf((reach - difference) / error) - stats.norm.cdf((-reach - difference) / error)
    return float(np.mean(inside))


def outside_power(sd_low: float, sd_high: float, n: int, margin: float, alpha: float, difference: float) -> float:
    """Probability that Welch's one-sided test finds the means to differ by more than `margin`. As `equivalence_power`.

    Of a single comparison: the ledger's adjustment for several of them (Holm) can only lower it.
    """
    half, error = _welch(sd_low, sd_high, n, 1 - alpha)
    above = stats.norm.sf((margin + half - difference) / error)
    below = stats.norm.cdf((-margin - half - difference) / error)
    return float(np.mean(above + below))


def variance_ratio_power(ratio: float, n: int, models: int, alpha: float) -> float:
    """Probability that variances of true ratio `ratio` between `n` runs each, in `models` models, are found unequal.

    Every run counts once, however many independent tenths it has, as C5 asks for its best verdict
    (`group_scatter.variance_ratio`, two-sided).
    """
    dof = matched_dof([n - 1] * 2 * models, models)
    f = stats.f(dof, dof)
    return float(f.cdf(f.ppf(alpha / 2) / ratio) + f.sf(f.ppf(1 - alpha / 2) / ratio))


def minutes(seeds: int, cost: dict, models: int, group_sizes: int, small_runs: int) -> float:
    """Wall time of the study in minutes.

    Parameters
    ----------
    cost : dict
        The config's `power.cost`: minutes of one core per run, per small run (equal prompts), per evaluation of a
        run, and for all that does not grow with the seeds; cores.
    models, group_sizes : int
        Numbers of models and group sizes.
    small_runs : int
        Runs at equal prompts per seed.
    """
    runs = models * group_sizes
    per_seed = runs * (cost["run"] + cost["evaluation"]) + small_runs * cost["small_run"]
    return (cost["fixed"] + seeds * per_seed) / cost["cores"]


def _powers(n: int, options: dict, margin: float, alpha: float, models: int) -> list[dict]:
    rows = []
    for quantity, pilot in options["pilot"].items():
        largest, partner, median = pilot["sd_largest"], pilot["sd_partner"], pilot["sd_median"]
        pairs = {
            "noisiest model": (partner, largest),
            "noisiest cell": (largest, largest),
            "median cell": (median, median),
        }
        for case, sds in pairs.items():
            key = {"case": case, "sd_low": sds[0], "sd_high": sds[1]}
            found = {
                "equivalent": (0.0, equivalence_power(*sds, n, margin, alpha)),
                "outside": (pilot["effect"], outside_power(*sds, n, margin, alpha, pilot["effect"])),
            }
            rows += [
                key | {"question": f"{quantity}_{kind}", "true_effect": effect, "power": power}
                for kind, (effect, power) in found.items()
            ]
    ratio = options["variance_ratio"]
    power = variance_ratio_power(ratio, n, models, alpha)
    return [*rows, {"question": "variance_ratio", "case": "any", "true_effect": ratio, "power": power}]


def power_table(
    options: dict, margin: float, alpha: float, models: int, group_sizes: int, small_runs: int
) -> pd.DataFrame:
    """The POWER table: per question, case and number of seeds the power and what the study costs.

    Parameters
    ----------
    options : dict
        The config's `power`.
    margin, alpha : float
        analysis.equivalence_margin and analysis.alpha.
    models, group_sizes, small_runs : int
        As in `minutes`.
    """
    rows = []
    for n in options["seeds"]:
        time = minutes(n, options["cost"], models, group_sizes, small_runs)
        cost = {"seeds": n, "minutes": time, "within_limit": time <= options["cost"]["limit"]}
        rows += [row | cost for row in _powers(n, options, margin, alpha, models)]
    table = pd.DataFrame(rows)
    table["reaches_target"] = table["power"] >= options["target"]
    needed = table[table["reaches_target"]].groupby(["question", "case"])["seeds"].min().rename("seeds_needed")
    table = table.join(needed, on=["question", "case"]).astype({"seeds_needed": "Int64"})
    table = table.sort_values(["question", "case", "seeds"], ignore_index=True)
    return check(table[list(POWER.columns)], POWER)
