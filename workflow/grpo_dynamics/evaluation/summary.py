"""From scored completions to the evaluation tables."""

from __future__ import annotations

import pandas as pd

from grpo_dynamics.command import InputError


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

    Accuracy is the mean over problems of a problem's mean reward over its samples; its standard error is over
    problems, so that several samples of one problem do not pass for several problems. Problems whose gold answer cannot
    be scored and comparisons that timed out are left out, and counted.

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
        rewards = table.dropna(subset="reward").groupby("item")["reward"].mean()
        if rewards.empty:
            raise InputError(f"{benchmark}: found no completion that can be scored, expected at least one")
        can_score = table[table["found_by"] != "unscorable"]
        rows.append(
            {
                **table.iloc[0][["model", "G", "seed"]].to_dict(),
                "benchmark": benchmark,
                "distance": distance,
                "items": len(rewards),
                "samples": table["sample"].max() + 1,
                "accuracy": rewards.mean(),
                "standard_error": rewards.sem(),
                "no_answer_share": (can_score["found_by"] == "none").mean(),
                "unscorable": table.loc[table["found_by"] == "unscorable", "item"].nunique(),
                "timeouts": (table["found_by"] == "timeout").sum(),
            }
        )
    return pd.DataFrame(rows).astype({"G": "Int64", "seed": "Int64"})
