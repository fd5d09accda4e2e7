"""Transfer from the training task to the other benchmarks (claims C6, C7, C8).

Gains are paired: each problem's reward after training minus that of the base model. Intervals come from a bootstrap
over problems and runs at once (the pigeonhole bootstrap, Owen 2007, whose variance is on the safe side). A problem
drawn for one model is drawn for all, and a run drawn for one benchmark is drawn for all, so that differences and ratios
between them keep their pairing. (Where a model lacks a problem that cannot be scored, its draws are its own.)
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from grpo_dynamics import seeds
from grpo_dynamics.analysis.tables import TRANSFER, TRANSFER_SUMMARY

NAN = float("nan")
Replicates = dict[tuple[str, int, str], np.ndarray]


def gains(items: pd.DataFrame, model: str, size: int, benchmark: str) -> tuple[pd.DataFrame, pd.Series]:
    """Rewards after training, (runs, problems), and before, (problems,), for problems scored in all of them."""
    rows = items[(items["model"] == model) & (items["benchmark"] == benchmark) & items["reward"].notna()]
    base = rows[rows["seed"].isna()].groupby("item")["reward"].mean()
    trained = rows[rows["G"] == size].groupby(["seed", "item"])["reward"].mean().unstack("item")
    shared = trained.dropna(axis="columns").columns.intersection(base.index)
    return trained[shared], base[shared]


def counts(rng: np.random.Generator, replicates: int, n: int) -> np.ndarray:
    """(replicates, n) shares with which each of n things is drawn, n at a time with replacement."""
    return rng.multinomial(n, np.full(n, 1 / n), size=replicates) / n


def bootstrap_p(replicates: np.ndarray) -> float:
    """Two-sided p-value of a value that is not 0, from its bootstrap replicates; never 0."""
    below, above = np.sum(replicates <= 0), np.sum(replicates >= 0)
    return float(min(1.0, 2 * (1 + min(below, above)) / (len(replicates) + 1)))


def interval(replicates: np.ndarray, alpha: float) -> tuple[float, float]:
    """Percentile interval; empty when more than alpha / 2 of the replicates are empty."""
    if np.mean(~np.isfinite(replicates)) > alpha / 2:
        return NAN, NAN
    low, high = np.nanquantile(replicates, [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def transfer(
    evaluations: pd.DataFrame, items: pd.DataFrame, options: dict, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The TRANSFER and TRANSFER_SUMMARY tables.

    Parameters
    ----------
    evaluations, items : DataFrame
        EVALUATIONS (for the distances) and EVALUATION_ITEMS.
    options : dict
        The config's `analysis`: alpha, bootstrap_replicates.
    seed : int
        The study's seed.

    Raises
    ------
    ValueError
        When a cell has a benchmark without a problem that both base and trained model were scored on.
    """
    distance = evaluations.groupby("benchmark")["distance"].first().sort_values()
    models = list(evaluations["model"].unique())
    sizes = sorted(int(size) for size in evaluations["G"].dropna().unique())
    drawn: dict[str, np.ndarray] = {}
    rows, replicates = [], {}
    for model in models:
        for size in sizes:
            cell = []
            for benchmark in distance.index:
                after, before = gains(items, model, size, benchmark)
                if after.size == 0:
                    raise ValueError(
                        f"evaluation items: {model}, G = {size}, {benchmark}: found no problem scored for the base "
                        "model and every run, expected at least one"
                    )
                draws = _draws(drawn, benchmark, after.columns, options["bootstrap_replicates"], seed)
                runs = counts(
                    np.random.default_rng(seeds.derive(seed, "transfer runs", model, size)),
                    options["bootstrap_replicates"],
                    len(after),
                )
                paired = after.to_numpy(float) - before.to_numpy(float)
                replicate = np.sum((draws @ paired.T) * runs, axis=1)
                replicates[model, size, benchmark] = replicate
                low, high = interval(replicate, options["alpha"])
                cell.append(
                    {
                        "model": model,
                        "G": size,
                        "benchmark": benchmark,
                        "distance": distance[benchmark],
                        "items": after.shape[1],
                        "seeds": len(after),
                        "base": float(before.mean()),
                        "final": float(after.to_numpy(float).mean()),
                        "gain": float(paired.mean()),
                        "low": low,
                        "high": high,
                        "p": bootstrap_p(replicate),
                    }
                )
            rows += _holm(cell)
    table = pd.DataFrame(rows).reindex(columns=list(TRANSFER.columns))
    return table, _summary(table, replicates, options["alpha"])


def _draws(drawn: dict[str, np.ndarray], benchmark: str, problems: pd.Index, replicates: int, seed: int) -> np.ndarray:
    """The draws of a benchmark's problems, (replicates, problems).

    They are drawn once per benchmark and number of problems, so that all models and G that were scored on the same
    problems share them.
    """
    key = f"{benchmark}/{len(problems)}"
    if key not in drawn:
        rng = np.random.default_rng(seeds.derive(seed, "transfer problems", benchmark))
        drawn[key] = counts(rng, replicates, len(problems))
    return drawn[key]


def _holm(cell: list[dict]) -> list[dict]:
    outside = [row for row in cell if row["distance"] > 0]
    if outside:
        adjusted = multipletests([row["p"] for row in outside], method="holm")[1]
        for row, p in zip(outside, adjusted, strict=True):
            row["p_holm"] = float(p)
    return cell


def rank_correlation(values: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Spearman correlation of every row of `values` (replicates, benchmarks) with `distance` (benchmarks,)."""
    ranks = stats.rankdata(values, axis=1)
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    other = stats.rankdata(distance)
    other = other - other.mean()
    norm = np.sqrt(np.sum(ranks**2, axis=1) * np.sum(other**2))
    return np.divide(ranks @ other, norm, out=np.full(len(ranks), NAN), where=norm > 0)


def _ratio(gain_out: np.ndarray, gain_in: np.ndarray) -> np.ndarray:
    return np.divide(gain_out, gain_in, out=np.full(len(gain_in), NAN), where=gain_in > 0)


def _summary(table: pd.DataFrame, replicates: Replicates, alpha: float) -> pd.DataFrame:
    rows, robust = [], {}
    for model, part in table.groupby("model", sort=False):
        sizes = part["G"].unique()
        outside = part[part["distance"] > 0].groupby("benchmark", sort=False)["distance"].first().sort_values()
        row: dict = {"model": model, "benchmarks": len(outside)}
        inside = part.loc[part["distance"] == 0, "benchmark"].unique()

        def drawn(benchmark: str, model=model, sizes=sizes) -> np.ndarray:
            return np.mean([replicates[model, size, benchmark] for size in sizes], axis=0)

        mean = part.groupby("benchmark")["gain"].mean()
        if len(inside):
            row["gain_in"] = float(mean[inside].mean())
        if len(outside):
            values = np.stack([drawn(benchmark) for benchmark in outside.index], axis=1)
            point = mean[outside.index].to_numpy()
            row["gain_out"] = float(point.mean())
            row["gain_out_low"], row["gain_out_high"] = interval(values.mean(axis=1), alpha)
            row["gain_near"] = float(point[0] - point[-1])
            row["gain_near_low"], row["gain_near_high"] = interval(values[:, 0] - values[:, -1], alpha)
            if len(outside) >= 3:
                row["rank_correlation"] = float(rank_correlation(point[None], outside.to_numpy())[0])
                correlations = rank_correlation(values, outside.to_numpy())
                row["rank_low"], row["rank_high"] = interval(correlations, alpha)
            if len(inside):
                ratio = _ratio(values.mean(axis=1), np.mean([drawn(b) for b in inside], axis=0))
                row["robustness"] = float(_ratio(point.mean(keepdims=True), np.array([row["gain_in"]]))[0])
                row["robustness_low"], row["robustness_high"] = interval(ratio, alpha)
                robust[model] = np.nan_to_num(ratio, nan=-np.inf)
        rows.append(row)
    summary = pd.DataFrame(rows).reindex(columns=list(TRANSFER_SUMMARY.columns))
    if len(robust) > 1:
        stack = np.stack(list(robust.values()))
        best = (stack == stack.max(axis=0)) & np.isfinite(stack)
        summary["best_share"] = summary["model"].map(dict(zip(robust, best.mean(axis=1), strict=True)))
    return summary
