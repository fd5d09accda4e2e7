"""The problems that GRPO trains on, and those that it holds out."""

from __future__ import annotations

import random

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import benchmarks, ladder


def problems(task: str, source: dict, heldout: int, seed: int) -> tuple[list[dict], list[dict]]:
    """Training and held-out problems; no question is in both.

    Parameters
    ----------
    task : {"ladder", "gsm8k"}
        Generated word problems, or GSM8K's training split.
    source : dict
        ``problems``, how many to generate (ladder); ``train``, a file of GSM8K's training split, and ``heldout``, one
        for the held-out problems or None (gsm8k).
    heldout : int
        Number of held-out problems. Without a file of their own they are drawn from the training problems, and taken
        out of them, so that the test split stays unseen until evaluation.
    seed : int
        Seed of the draws.

    Returns
    -------
    train, heldout : list of dict
        Rows with ``id``, ``question``, ``answer`` and ``kind``. Questions carry the instruction on the answer's form
        that the evaluation uses.

    Raises
    ------
    ValueError
        If there are not enough problems.
    """
    if task == "ladder":
        rows = ladder.rows(ladder.generate("ladder_in_distribution", source["problems"] + heldout, seed))
        return rows[heldout:], rows[:heldout]

    train = benchmarks.load("gsm8k", source["train"])
    own = benchmarks.load("gsm8k", source["heldout"]) if source["heldout"] else train
    if len(own) < heldout or (own is train and len(train) <= heldout):
        raise InputError(f"grpo.heldout_problems: found {heldout}, expected fewer than the {len(own)} problems given")
    for source_name, rows in (("training_data.train", train), ("training_data.heldout", own)):
        if bad := benchmarks.unscorable(rows):
            identifier, reason = next(iter(bad.items()))
            raise InputError(f"{source_name}: problem {identifier}: {reason} ({len(bad)} such problems)")
    held = random.Random(seed).sample(own, heldout)
    questions = {row["question"] for row in held}
    train = [row for row in train if row["question"] not in questions]
    return _asked(train), _asked(held)


def _asked(rows: list[dict]) -> list[dict]:
    fields = ("id", "answer", "kind")
    return [{"question": benchmarks.prompt("gsm8k", row)} | {name: row[name] for name in fields} for row in rows]
