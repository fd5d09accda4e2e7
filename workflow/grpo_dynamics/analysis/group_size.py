"""What the group size changes, per model, at equal completions and at equal prompts per step (claims C3, C4, C5, B3).

Plateau, mean reward and mean trajectory are compared by Welch's interval and by TOST (group_means.py); scatter between
runs by ratios of variances (group_scatter.py); the time of the rise and the spread within groups with the exact
finite-group sums (finite_group_runs.py). Tests are those of one row; corrections over models and comparisons are the
ledger's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.finite_group_runs import gradient_norm, log_ratio, rise_time, smooth_reward, within_groups
from grpo_dynamics.analysis.group_means import compare_means, compare_trajectories
from grpo_dynamics.analysis.group_scatter import (
    blocks,
    corrected_ratio,
    effective_blocks,
    exponent,
    scatter,
    variance_ratio,
)
from grpo_dynamics.analysis.series import STUDY, cell_mean, each_run, train_reward
from grpo_dynamics.analysis.tables_groups import (
    ALL_MODELS,
    EQUAL_COMPLETIONS,
    EQUAL_PROMPTS,
    GROUP_SIZE,
    RATIOS,
    VARIANT,
)
from grpo_dynamics.tables import check
from grpo_dynamics.theory.finite_group import v_G

NAN = float("nan")


@dataclass(frozen=True, eq=False)  # compared by identity, as tables have no truth value
class Pair:
    """The two cells of one model that a comparison sets side by side, and their fitted runs (law)."""

    model: str
    comparison: str
    runs: tuple[pd.DataFrame, pd.DataFrame]
    fits: tuple[pd.DataFrame, pd.DataFrame]

    @property
    def key(self) -> dict[str, object]:
        low, high = self.runs
        return {
            "model": self.model,
            "comparison": self.comparison,
            "G_low": int(low["G"].iloc[0]),
            "G_high": int(high["G"].iloc[0]),
            "groups_low": int(low["groups"].median()),
            "groups_high": int(high["groups"].median()),
            "n_low": low["seed"].nunique(),
            "n_high": high["seed"].nunique(),
        }


def pairs(runs: pd.DataFrame, variants: pd.DataFrame, fits: pd.DataFrame) -> Iterator[Pair]:
    """What is compared, per comparison and model; cells without runs are left out."""
    sizes = sorted(runs["G"].unique())
    if len(sizes) < 2:
        return
    laws = fits[(fits["series"] == "run") & (fits["curve"] == "law")]
    of_variant = variants[variants["variant"] == VARIANT].drop(columns="variant")
    for comparison, log, name in ((EQUAL_COMPLETIONS, runs, STUDY), (EQUAL_PROMPTS, of_variant, VARIANT)):
        for model in runs["model"].unique():
            cells, fitted = [], []
            for table, variant, size in ((log, name, sizes[0]), (runs, STUDY, sizes[-1])):
                cells.append(table[(table["model"] == model) & (table["G"] == size)])
                fitted.append(laws[(laws["variant"] == variant) & (laws["model"] == model) & (laws["G"] == size)])
            if all(map(len, cells)):
                yield Pair(str(model), comparison, tuple(cells), tuple(fitted))


def compare(runs: pd.DataFrame, variants: pd.DataFrame, fits: pd.DataFrame, options: dict) -> pd.DataFrame:
    """The GROUP_SIZE table: the smallest against the largest group size, per comparison and model.

    Parameters
    ----------
    runs, variants, fits : DataFrame
        RUN_LOG, VARIANT_LOG and FITS.
    options : dict
        alpha, equivalence_margin and max_grad_norm, as in the config.

    Returns
    -------
    DataFrame
        Without rows when the run log holds one group size.
    """
    compared = list(pairs(runs, variants, fits))
    rows = []
    for comparison in dict.fromkeys(pair.comparison for pair in compared):
        same = [pair for pair in compared if pair.comparison == comparison]
        for pair in same:
            rows += [pair.key | row for row in _differences(pair, options)]
        rows += [*_scatters(same, options["alpha"]), *_ratios(same, options)]
    return check(pd.DataFrame(rows, columns=list(GROUP_SIZE.columns)), GROUP_SIZE)


def _sizes(low: np.ndarray, high: np.ndarray) -> dict[str, float]:
    means = (float(np.mean(side)) if len(side) else NAN for side in (low, high))
    return {"n_low": len(low), "n_high": len(high), **dict(zip(("value_low", "value_high"), means, strict=True))}


def _no_interval(n_low: int, n_high: int) -> str:
    if min(n_low, n_high) < 2:
        return "no interval: needs two runs or more at each G"
    return "no interval: the runs do not differ"


def _left_out(fits: pd.DataFrame, G: int) -> str:
    out = int((~fits["identifiable"].astype(bool)).sum())
    return f"{out} of {len(fits)} runs at G = {G} left out: plateau not identifiable" if out else ""


def _notes(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _differences(pair: Pair, options: dict) -> Iterator[dict]:
    margin, alpha = options["equivalence_margin"], options["alpha"]
    sizes = (pair.key["G_low"], pair.key["G_high"])
    usable = [fits.loc[fits["identifiable"].astype(bool), "R_inf"].to_numpy(float) for fits in pair.fits]
    means = [np.array([train_reward(run)[1].mean() for _, run in each_run(cell)]) for cell in pair.runs]
    out = [_left_out(fits, size) for fits, size in zip(pair.fits, sizes, strict=True)]
    for quantity, sides, notes in (("plateau", usable, out), ("mean_reward", means, [])):
        result = compare_means(*sides, margin, alpha)
        why = "" if np.isfinite(result["low"]) else _no_interval(*map(len, sides))
        zero = {"expected": 0.0, "expected_leading_order": 0.0}
        yield {"quantity": quantity, **_sizes(*sides), **zero, **result, "note": _notes(*notes, why)}
    (low, steps), (high, _) = (blocks(cell) for cell in pair.runs)
    number = min(low.shape[1], high.shape[1])
    result, place = compare_trajectories(low[:, :number], high[:, :number], margin, alpha)
    why = "" if np.isfinite(result["p"]) else _no_interval(len(low), len(high))
    where = dict(zip(("first_step", "last_step"), steps[place], strict=True))
    yield {"quantity": "trajectory", **_sizes(low[:, place], high[:, place]), **zero, **result, **where, "note": why}


def _forcing_ratio(pair: Pair) -> float:
    """Ratio low / high of the gradient's variance in the bandit, v_G(p) / prompts per step, mean over the run.

    p is each cell's smoothed mean reward. The forcing alone: what the runs make of it is taken as the same at both G.
    """
    low, high = (
        np.mean(v_G(smooth_reward(cell_mean(cell)[1])[0], int(cell["G"].iloc[0]), "unbiased")) / cell["groups"].median()
        for cell in pair.runs
    )
    return float(low / high) if low > 0 and high > 0 else NAN


def _scatters(same: list[Pair], alpha: float) -> Iterator[dict]:
    """Rows of SCATTERS of each model and pooled: every model on its own scale, with equal weight."""
    usable = [pair for pair in same if min(pair.key["n_low"], pair.key["n_high"]) > 1]
    m = effective_blocks([blocks(cell)[0] for pair in usable for cell in pair.runs])
    for several in [[pair] for pair in same] + ([same] if len(same) > 1 else []):
        row = _joint(several)
        row["expected"] = float(np.exp(np.mean([np.log(_forcing_ratio(pair)) for pair in several])))
        row["expected_leading_order"] = row["groups_high"] * row["G_high"] / (row["groups_low"] * row["G_low"])
        kinds = (
            ("scatter_raw", variance_ratio, m),
            ("scatter_runs", variance_ratio, 1.0),
            ("scatter", corrected_ratio, m),
        )
        for quantity, function, counted in kinds:
            both = [tuple(scatter(cell, counted) for cell in pair.runs) for pair in several if pair in usable]
            own = [[x.own if quantity == "scatter" else x.variance for x in sides] for sides in both]
            used = [sides for sides, values in zip(both, own, strict=True) if min(values) > 0]
            values = (
                dict(zip(("value_low", "value_high"), own[0], strict=True)) if len(several) == len(own) == 1 else {}
            )
            result = function(used, alpha)
            shape = exponent(result, row["G_low"], row["G_high"])
            note = _no_ratio(row, len(several), len(used), quantity)
            blocks_counted = {"effective_blocks": counted if usable else NAN}
            yield row | {"quantity": quantity, **values, **result, **shape, **blocks_counted, "note": note}


def _joint(several: list[Pair]) -> dict:
    """Key of a row of one model, or of the row pooled over several."""
    key = several[0].key
    if len(several) > 1:
        key |= {name: sum(pair.key[name] for pair in several) for name in ("n_low", "n_high")}
        key["model"] = ALL_MODELS
    return key


def _no_ratio(row: dict, models: int, used: int, quantity: str) -> str:
    if used == models:
        return ""
    if models > 1:
        return f"{models - used} of {models} models left out: no ratio of variances"
    if min(row["n_low"], row["n_high"]) < 2 or quantity != "scatter":
        return _no_interval(row["n_low"], row["n_high"])
    return "no ratio: the batches' sampling noise makes all of the scatter"


def _half_rise(pair: Pair, max_grad_norm: float) -> tuple[dict[str, tuple], float, str]:
    """Per quantity and side the runs' (value, expectation); the leading order's ratio; and a note.

    From the start R_0, the mean over all runs as all start from one base model, to half-way to each side's own mean
    R_inf, as the fits measure it.
    """
    usable = [fits[fits["identifiable"].astype(bool) & (fits["half_rise"] > 0)] for fits in pair.fits]
    sizes = [pair.key["G_low"], pair.key["G_high"]]
    note = _notes(*(_left_out(fits, size) for fits, size in zip(pair.fits, sizes, strict=True)))
    if not all(map(len, usable)):
        return {}, NAN, note or "no run has a half-rise"
    start = float(pd.concat(usable)["R_0"].mean())
    ends = [(start + side["R_inf"].mean()) / 2 for side in usable]
    plain = [rise_time(start, end, None) for end in ends]
    finite = [rise_time(start, end, size) for end, size in zip(ends, sizes, strict=True)]
    if not np.all(np.isfinite(plain)):
        return {}, NAN, _notes(note, "no expectation: the fitted start and half-way point are no rise within 0 to 1")
    values = {"half_rise": [], "half_rise_adam": []}
    for fits, cell, time in zip(usable, pair.runs, finite, strict=True):
        measured = fits["half_rise"].to_numpy(float)
        seeds = zip(fits["seed"], measured, strict=True)
        norms = np.array([gradient_norm(cell[cell["seed"] == seed], until, max_grad_norm) for seed, until in seeds])
        values["half_rise"].append(np.column_stack([measured, np.full(len(fits), time)]))
        values["half_rise_adam"].append(np.column_stack([measured, time * norms])[norms > 0])
    found = {name: tuple(sides) for name, sides in values.items() if all(map(len, sides))}
    return found, plain[0] / plain[1], note


def _ratios(same: list[Pair], options: dict) -> Iterator[dict]:
    """Rows half_rise, half_rise_adam, spread and variance of each model and pooled over those that have them."""
    found: dict[str, list[tuple[Pair, tuple, float]]] = {quantity: [] for quantity in RATIOS}
    for pair in same:
        rises, leading, note = _half_rise(pair, options["max_grad_norm"])
        inside = {name: sides for name, sides in within_groups(*pair.runs).items() if all(map(len, sides))}
        for quantity in RATIOS:
            of_rise = quantity.startswith("half_rise")
            sides = (rises if of_rise else inside).get(quantity)
            why = note if of_rise else "" if sides else "no reward that every run of both cells passes through"
            row = pair.key | {"quantity": quantity, "note": why}
            if sides is None:
                yield row
                continue
            order = leading if of_rise else 1.0
            found[quantity].append((pair, sides, order))
            result = log_ratio([sides[0]], [sides[1]], [order], options["alpha"])
            values = {
                name: float(np.exp(np.mean(np.log(side[:, 0]))))
                for name, side in zip(("value_low", "value_high"), sides, strict=True)
            }
            why = _notes(why, "" if np.isfinite(result["low"]) else _no_interval(*map(len, sides)))
            yield row | {"n_low": len(sides[0]), "n_high": len(sides[1]), **values, **result, "note": why}
    for quantity, parts in found.items():
        if len(same) > 1 and parts:
            used, sides, orders = zip(*parts, strict=True)
            low, high = zip(*sides, strict=True)
            counts = {"n_low": sum(map(len, low)), "n_high": sum(map(len, high))}
            result = log_ratio(low, high, orders, options["alpha"])
            out = len(same) - len(used)
            why = f"{out} of {len(same)} models left out: no ratio" if out else ""
            if not np.isfinite(result["low"]):
                why = _notes(why, "no interval: needs two runs or more in every cell, that differ")
            yield _joint(same) | {"quantity": quantity, **counts, **result, "note": why}
