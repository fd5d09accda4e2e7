"""From scored completions to the evaluation tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics.command import InputError
from grpo_dynamics.tables import EVALUATIONS, EVALUATIONS_BY_GROUP


def item_table(samples: dict[str, list[dict]], model: str, group_size: int | None, seed: int | None) -> pd.DataFrame:
    """The completions as a table (`tables.EVALUATION_ITEMS`), from lm-eval's samples by benchmark."""
    return pd.DataFrame(
        [
            {
                "model": model,
                "G": group_size,
                "seed": seed,
                "benchmark": benchmark,
                "item": sample["doc"]["id"],
                "group": sample["doc"]["group"],
                "cluster": sample["doc"]["cluster"],
                "sample": sample["doc"]["sample"],
                "gold": sample["doc"]["answer"],
                "answer": sample["score"]["answer"],
                "found_by": sample["score"]["found_by"],
                "reward": sample["score"]["reward"],
                "completion": sample["resps"][0][0],
            }
            for benchmark, rows in samples.items()
            for sample in rows
        ]
    ).astype({"G": "Int64", "seed": "Int64", "reward": float})


def summarise(items: pd.DataFrame, benchmarks: list[str]) -> pd.DataFrame:
    """Accuracy by benchmark (`tables.EVALUATIONS`) of one checkpoint's completions.

    Accuracy is the mean over problems of a problem's mean reward over its samples. Its standard error is over clusters
    of problems (`clustered_error`), so that neither several samples of one problem nor the variants of one question
    pass for several problems. Problems whose gold answer cannot be scored and comparisons that timed out are left out,
    and counted.

    Parameters
    ----------
    items : DataFrame
        `tables.EVALUATION_ITEMS` of one checkpoint.
    benchmarks : list of str
        By growing distance from the training task.

    Raises
    ------
    ValueError
        If no completion of a benchmark could be scored.
    """
    rows = []
    for distance, benchmark in enumerate(benchmarks):
        table = items[items["benchmark"] == benchmark]
        found = _accuracy(table)
        if not found["items"]:
            raise InputError(f"{benchmark}: found no completion that can be scored, expected at least one")
        named = {**table.iloc[0][["model", "G", "seed"]].to_dict(), "benchmark": benchmark, "distance": distance}
        rows.append({**named, "samples": table["sample"].max() + 1, **found})
    return pd.DataFrame(rows).reindex(columns=list(EVALUATIONS.columns)).astype({"G": "Int64", "seed": "Int64"})


def summarise_groups(items: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by kind of problem (`tables.EVALUATIONS_BY_GROUP`), for the benchmarks that have several kinds.

    Parameters
    ----------
    items : DataFrame
        `tables.EVALUATION_ITEMS` of any checkpoints.
    """
    keys = ["model", "G", "seed", "benchmark", "group"]
    grouped = items[items["group"].fillna("") != ""].groupby(keys, dropna=False, sort=False)
    rows = [{**dict(zip(keys, names, strict=True)), **_accuracy(table)} for names, table in grouped]
    return pd.DataFrame(rows, columns=list(EVALUATIONS_BY_GROUP.columns)).astype({"G": "Int64", "seed": "Int64"})


def _accuracy(table: pd.DataFrame) -> dict[str, float]:
    problems = table.dropna(subset="reward").groupby("item").agg({"reward": "mean", "cluster": "first"})
    can_score = table[table["found_by"] != "unscorable"]
    return {
        "items": len(problems),
        "accuracy": problems["reward"].mean(),
        "standard_error": clustered_error(problems["reward"], problems["cluster"]),
        "no_answer_share": (can_score["found_by"] == "none").mean(),
        "unscorable": table.loc[table["found_by"] == "unscorable", "item"].nunique(),
        "timeouts": (table["found_by"] == "timeout").sum(),
    }


def clustered_error(values: pd.Series, clusters: pd.Series) -> float:
    """Standard error of the mean of `values` whose clusters are independent; NaN for fewer than two clusters.

    The root of C / (C - 1) times the sum over the C clusters of their summed deviations from the mean, squared, over
    n squared: the clustered error of Miller 2024 (*Adding Error Bars to Evals*, arXiv 2411.00640), with the correction
    for few clusters, so that it is the ordinary standard error where every value is a cluster of its own.

    Parameters
    ----------
    values, clusters : Series (n,)
        Values, and the name of each one's cluster.
    """
    deviations = (values - values.mean()).groupby(clusters).sum()
    count = len(deviations)
    if count < 2:
        return float("nan")
    return float(np.sqrt(count / (count - 1) * np.sum(deviations**2)) / len(values))
