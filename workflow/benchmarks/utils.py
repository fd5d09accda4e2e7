"""What the task files in this folder call: problems in, scores out."""

from __future__ import annotations

import random

import datasets

from grpo_dynamics.command import InputError
from grpo_dynamics.seeds import derive
from grpo_dynamics.tasks import benchmarks
from grpo_dynamics.tasks.chat import scored_text
from grpo_dynamics.tasks.scoring import score


def load(
    benchmark: str,
    data_files: dict[str, str] | None = None,
    items: int | None = None,
    samples: int | dict[str, int] = 1,
    seed: int = 0,
    opens_thinking: bool = False,
    **metadata: object,
) -> dict[str, datasets.Dataset]:
    """The documents of one task: a row for each problem and sample.

    lm-eval calls this with the task's `dataset_kwargs` (benchmark) and the TaskManager's metadata (the rest). A problem
    that is sampled several times stands there several times, with its sample's index, since lm-eval keeps only the
    first of its own repeats.

    Parameters
    ----------
    benchmark : str
        Name of the benchmark.
    data_files : dict, optional
        Benchmark to the file of its problems.
    items : int, optional
        At most so many problems, the same random choice for every checkpoint.
    samples : int or dict
        Completions per problem, for all benchmarks or by benchmark (1 where it is not named).
    seed : int
        The study's seed, from which the choice of problems derives.
    opens_thinking : bool
        Whether the chat template's generation prompt opens the thinking part (`chat.opens_thinking`).
    """
    path = (data_files or {}).get(benchmark)
    if path is None:
        raise InputError(f"{benchmark}: found no file of its problems, expected one in data_files")
    problems = benchmarks.load(benchmark, path)
    if items is not None and items < len(problems):
        chosen = sorted(random.Random(derive(seed, "items", benchmark)).sample(range(len(problems)), items))
        problems = [problems[index] for index in chosen]
    without_score = benchmarks.unscorable(problems)
    repeats = samples.get(benchmark, 1) if isinstance(samples, dict) else samples
    rows = [
        {
            **problem,
            "prompt": benchmarks.prompt(benchmark, problem),
            "sample": sample,
            "scorable": problem["id"] not in without_score,
            "opens_thinking": opens_thinking,
        }
        for problem in problems
        for sample in range(repeats)
    ]
    return {"test": datasets.Dataset.from_list(rows)}


def process_results(doc: dict, results: list[str]) -> dict[str, dict]:
    """Score one completion; the reward is None where the gold answer cannot be scored or the comparison timed out."""
    if not doc["scorable"]:
        return {"score": {"reward": None, "answer": None, "found_by": "unscorable"}}
    result = score(scored_text(results[0], doc["opens_thinking"]), doc["answer"], doc["kind"])
    reward = None if result.found_by == "timeout" else result.reward
    return {"score": {"reward": reward, "answer": result.answer, "found_by": result.found_by}}


def accuracy(scores: list[dict]) -> float:
    """Mean reward of the completions that have one."""
    rewards = [item["reward"] for item in scores if item["reward"] is not None]
    return sum(rewards) / len(rewards) if rewards else float("nan")
