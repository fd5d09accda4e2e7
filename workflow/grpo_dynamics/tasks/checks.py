"""What is wrong with benchmarks before anything is evaluated: gold answers that cannot be scored, known problems."""

from __future__ import annotations

import re

import pandas as pd

from grpo_dynamics.tasks import benchmarks, contamination


def check(loaded: dict[str, list[dict]], training: list[dict]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Check benchmarks for gold answers that do not score as right, and for problems known from training.

    Parameters
    ----------
    loaded : dict
        Benchmark to its problems, in the form of `benchmarks.load`.
    training : list of dict
        The problems trained on, with ``id`` and ``question``.

    Returns
    -------
    checks, unscorable, contamination : DataFrame
        `tables.BENCHMARK_CHECKS`, `tables.UNSCORABLE` and `tables.CONTAMINATION`.
    """
    known = contamination.Training([benchmarks.without_instruction(problem["question"]) for problem in training])
    checks, unscorable, matches = [], [], []
    for name, problems in loaded.items():
        reasons = benchmarks.unscorable(problems)
        found = known.matches([problem["question"] for problem in problems])
        unscorable += [
            {"benchmark": name, **_item(problem), "reason": reasons[problem["id"]]}
            for problem in problems
            if problem["id"] in reasons
        ]
        matches += [
            {
                "benchmark": name,
                **_item(problems[match.index]),
                "criterion": match.criterion,
                "training_item": training[match.training_index]["id"],
                "shared": match.shared,
            }
            for match in found
        ]
        criteria = {problems[match.index]["id"]: match.criterion for match in found}
        groups = sorted({problem["group"] for problem in problems} - {""})
        for group in ["", *groups]:
            members = [problem["id"] for problem in problems if group in ("", problem["group"])]
            checks.append({"benchmark": name, "group": group, **_counts(members, reasons, criteria)})
    return pd.DataFrame(checks), _table(unscorable, "reason"), _table(matches, "criterion", "training_item", "shared")


def _item(problem: dict) -> dict:
    return {"item": problem["id"], "group": problem["group"]}


def _counts(members: list[str], reasons: dict[str, str], criteria: dict[str, str]) -> dict:
    found = [criteria[member] for member in members if member in criteria]
    return {
        "items": len(members),
        "unscorable": sum(member in reasons for member in members),
        **{re.sub(r"\W", "_", criterion): found.count(criterion) for criterion in contamination.CRITERIA},
        "known_share": len(found) / len(members),
    }


def _table(rows: list[dict], *columns: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["benchmark", "item", "group", *columns])
