"""Transfer from the training task to the other benchmarks (claims C6, C7, C8).

Gains are paired: each problem's reward after training minus that of the base model. Intervals are over runs and
problems at once, variants of one question counting as one cluster of problems, for the base model as given: a bootstrap
with Gaussian weights on the runs' and on the problems' deviations from the mean, each divided by the root of a chi-
square draw. The error of a mean then has Student's distribution with n - 1 degrees of freedom from n runs and likewise
from the problems, and the sum of the two is the Behrens-Fisher distribution. With three or four runs that matters:
resampling runs with replacement leaves out the factor n / (n - 1) of their variance and Student's tails. What is
particular to one run on one problem is counted in both parts, so that an interval is on the safe side (Owen 2007, The
pigeonhole bootstrap). In simulations with four runs and 200 problems, 95 % intervals cover 96 to 98.5 %. A single run
shows no scatter between runs: its intervals are over problems alone, for that run.

A weight drawn for a problem serves all models, and one drawn for a run all benchmarks, so that differences and ratios
between them keep their pairing. The benchmarks are fixed and no sample of benchmarks: no interval says anything about
others. Their order by distance is that of the config's evaluation.benchmarks, set before any result.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from grpo_dynamics import seeds
from grpo_dynamics.analysis.tables import TRANSFER, TRANSFER_SUMMARY

NAN = float("nan")
ORDERS = 50_000  # at most so many orders of the benchmarks are gone through: all of them up to eight
Errors = dict[tuple[str, int, str], np.ndarray]


def gains(items: pd.DataFrame, model: str, size: int, benchmark: str) -> tuple[pd.DataFrame, pd.Series]:
    """Rewards after training, (runs, problems), and before, (problems,), for problems scored in all of them."""
    rows = items[(items["model"] == model) & (items["benchmark"] == benchmark) & items["reward"].notna()]
    base = rows[rows["seed"].isna()].groupby("item")["reward"].mean()
    trained = rows[rows["G"] == size].groupby(["seed", "item"])["reward"].mean().unstack("item")
    shared = trained.dropna(axis="columns").columns.intersection(base.index)
    return trained[shared], base[shared]


def unanswered(completions: pd.DataFrame) -> float:
    """Share without an answer, of the completions of problems that can be scored."""
    return float((completions.loc[completions["found_by"] != "unscorable", "found_by"] == "none").mean())


def weights(rng: np.random.Generator, replicates: int, n: int) -> np.ndarray:
    """(replicates, n) weights whose product with n values less their mean is a draw of the mean's error.

    The error's distribution is Student's with n - 1 degrees of freedom, scaled by the standard error. Zero for n = 1,
    which shows no error.
    """
    if n == 1:
        return np.zeros((replicates, 1))
    return rng.standard_normal((replicates, n)) / np.sqrt(n * rng.chisquare(n - 1, (replicates, 1)))


def mean_errors(paired: np.ndarray, of_runs: np.ndarray, of_clusters: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """(replicates,) draws of the error of the mean of `paired`, (runs, problems).

    Parameters
    ----------
    paired : ndarray (runs, problems)
        Rewards after training minus before.
    of_runs, of_clusters : ndarray (replicates, runs), (replicates, clusters)
        `weights`.
    cluster : ndarray (problems,)
        The column of `of_clusters` that is each problem's.
    """
    mean, clusters = paired.mean(), of_clusters.shape[1]
    # The mean over the clusters of these is the mean over problems, however many problems a cluster has.
    of_cluster = np.bincount(cluster, paired.mean(axis=0) - mean, minlength=clusters) * clusters / len(cluster)
    return of_runs @ (paired.mean(axis=1) - mean) + of_clusters @ of_cluster


def p_value(value: float, errors: np.ndarray) -> float:
    """Two-sided p-value of a value that is not 0, from draws of its error; never 0, and 1 where nothing varies."""
    if not errors.any():
        return 1.0
    return float((1 + np.sum(np.abs(errors) >= abs(value))) / (len(errors) + 1))


def interval(replicates: np.ndarray, alpha: float) -> tuple[float, float]:
    """Percentile interval; empty when more than alpha / 2 of the replicates are empty."""
    if np.mean(~np.isfinite(replicates)) > alpha / 2:
        return NAN, NAN
    low, high = np.nanquantile(replicates, [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def around(value: float, errors: np.ndarray, alpha: float) -> tuple[float, float]:
    """Interval of a value from draws of its error; empty where nothing varies."""
    return interval(value + errors, alpha) if errors.any() else (NAN, NAN)


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
    sizes = sorted(int(size) for size in evaluations["G"].dropna().unique())
    cells = [(model, size) for model in evaluations["model"].unique() for size in sizes]
    rows: dict[tuple[str, int], list[dict]] = {cell: [] for cell in cells}
    errors: Errors = {}
    for benchmark in distance.index:
        of_benchmark = items[items["benchmark"] == benchmark]
        cluster = of_benchmark.drop_duplicates("item").set_index("item")["cluster"]
        clusters = pd.Index(sorted(cluster.unique()))
        rng = np.random.default_rng(seeds.derive(seed, "transfer problems", benchmark))
        drawn = weights(rng, options["bootstrap_replicates"], len(clusters))
        for model, size in cells:
            after, before = gains(of_benchmark, model, size, benchmark)
            if after.size == 0:
                raise ValueError(
                    f"evaluation items: {model}, G = {size}, {benchmark}: found no problem scored for the base "
                    "model and every run, expected at least one"
                )
            of_runs = weights(
                np.random.default_rng(seeds.derive(seed, "transfer runs", model, size)),
                options["bootstrap_replicates"],
                len(after),
            )
            paired = after.to_numpy(float) - before.to_numpy(float)
            error = mean_errors(paired, of_runs, *_of(drawn, clusters, cluster[after.columns]))
            errors[model, size, benchmark] = error
            gain = float(paired.mean())
            chosen = of_benchmark["model"] == model
            low, high = around(gain, error, options["alpha"])
            rows[model, size].append(
                {
                    "model": model,
                    "G": size,
                    "benchmark": benchmark,
                    "distance": distance[benchmark],
                    "items": after.shape[1],
                    "seeds": len(after),
                    "base": float(before.mean()),
                    "final": float(after.to_numpy(float).mean()),
                    "gain": gain,
                    "no_answer_base": unanswered(of_benchmark[chosen & of_benchmark["seed"].isna()]),
                    "no_answer_final": unanswered(of_benchmark[chosen & (of_benchmark["G"] == size)]),
                    "low": low,
                    "high": high,
                    "p": p_value(gain, error),
                }
            )
    table = pd.DataFrame([row for cell in cells for row in _holm(rows[cell])]).reindex(columns=list(TRANSFER.columns))
    return table, _summary(table, errors, options["alpha"])


def _of(drawn: np.ndarray, clusters: pd.Index, scored: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The weights of the clusters of scored problems, scaled to their number, and each such problem's cluster."""
    own, found = pd.factorize(scored)
    n, m = len(clusters), len(found)
    scale = np.sqrt(n * (n - 1) / (m * (m - 1))) if m > 1 else 0.0
    return drawn[:, clusters.get_indexer(found)] * scale, own


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


def order_p(values: np.ndarray, distance: np.ndarray) -> float:
    """Share of the orders of the benchmarks in which `values` falls with distance at least as much; exact up to eight.

    It takes the gains as they are, and asks whether another order of the benchmarks would have done as well.
    """
    other = stats.rankdata(distance)
    test = stats.permutation_test(
        (stats.rankdata(values),),
        lambda ranks, axis: np.sum(np.moveaxis(ranks, axis, -1) * other, axis=-1),
        permutation_type="pairings",
        alternative="less",
        n_resamples=ORDERS,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)


def _ratio(gain_out: np.ndarray, gain_in: np.ndarray) -> np.ndarray:
    return np.divide(gain_out, gain_in, out=np.full(len(gain_in), NAN), where=gain_in > 0)


def _summary(table: pd.DataFrame, errors: Errors, alpha: float) -> pd.DataFrame:
    """A row per model. Gains are means over G; the runs of different G are independent, the problems are
    shared between G as between models."""
    rows, ratios = [], {}
    for model, part in table.groupby("model", sort=False):
        sizes = part["G"].unique()
        distance = part.groupby("benchmark")["distance"].first().sort_values()
        outside, inside = distance[distance > 0], distance.index[distance == 0]
        mean = part.groupby("benchmark")["gain"].mean()
        error = pd.DataFrame(
            {name: np.mean([errors[model, size, name] for size in sizes], axis=0) for name in distance.index}
        )
        row = {"model": model, "benchmarks": len(outside), "runs": int(part.groupby("G")["seeds"].max().sum())}
        if len(inside):
            row["gain_in"], drawn_in = float(mean[inside].mean()), error[inside].mean(axis=1).to_numpy()
            row["gain_in_low"], row["gain_in_high"] = around(row["gain_in"], drawn_in, alpha)
        if len(outside):
            point, drawn = mean[outside.index].to_numpy(), error[outside.index].to_numpy()
            row["gain_out"] = float(point.mean())
            row["gain_out_low"], row["gain_out_high"] = around(row["gain_out"], drawn.mean(axis=1), alpha)
            row["gain_near"] = float(point[0] - point[-1])
            row["gain_near_low"], row["gain_near_high"] = around(row["gain_near"], drawn[:, 0] - drawn[:, -1], alpha)
            row |= _ranks(point, drawn, outside.to_numpy(), alpha)
        # A ratio to a gain that may be none says nothing.
        if len(outside) and len(inside) and row["gain_in"] > 0 and not row["gain_in_low"] <= 0:
            ratio = _ratio(point.mean() + drawn.mean(axis=1), row["gain_in"] + drawn_in)
            row["robustness"] = float(point.mean() / row["gain_in"])
            row["robustness_low"], row["robustness_high"] = interval(ratio, alpha) if drawn.any() else (NAN, NAN)
            ratios[model] = ratio
        rows.append(row)
    rows = _adjusted(_leads(rows, ratios, alpha))
    return pd.DataFrame(rows).reindex(columns=list(TRANSFER_SUMMARY.columns))


def _ranks(point: np.ndarray, drawn: np.ndarray, distance: np.ndarray, alpha: float) -> dict[str, float]:
    """Rank correlation of the gains with distance, its interval, and the permutation test's p-value."""
    if len(point) < 3 or np.ptp(point) == 0:
        return {}
    low, high = interval(rank_correlation(point + drawn, distance), alpha) if drawn.any() else (NAN, NAN)
    correlation = float(rank_correlation(point[None], distance)[0])
    return {"rank_correlation": correlation, "rank_low": low, "rank_high": high, "rank_p": order_p(point, distance)}


def _adjusted(rows: list[dict]) -> list[dict]:
    known = [row for row in rows if "rank_p" in row]
    if known:
        for row, p in zip(known, multipletests([row["rank_p"] for row in known], method="holm")[1], strict=True):
            row["rank_p_holm"] = float(p)
    return rows


def _leads(rows: list[dict], ratios: dict[str, np.ndarray], alpha: float) -> list[dict]:
    """Each model's robustness less that of the most robust other one.

    The interval is that of the smallest difference from any other model: at the lower end each difference must keep
    alpha / 2 (an intersection-union test), at the upper end one of them is enough (Bonferroni).
    """
    known = {row["model"]: row for row in rows if np.isfinite(row.get("robustness", NAN))}
    for model, row in known.items():
        others = [other for other in known if other != model]
        if not others:
            continue
        row["rival"] = max(others, key=lambda other: known[other]["robustness"])
        row["lead"] = row["robustness"] - known[row["rival"]]["robustness"]
        differences = [ratios[model] - ratios[other] for other in others]
        row["lead_low"] = float(np.min([interval(each, alpha)[0] for each in differences]))
        row["lead_high"] = float(np.min([interval(each, alpha / len(others))[1] for each in differences]))
    return rows
