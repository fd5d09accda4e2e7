"""A run as the readers of the formats hand it on: rows of keys and values, not yet interpreted."""

from __future__ import annotations

from dataclasses import dataclass, field

from grpo_dynamics.runlog.keys import SUMMARY, number, resolve


@dataclass
class Raw:
    """A run's rows as they stand in a log.

    Attributes
    ----------
    name : str
    format : str
        What it was read as, in words.
    rows : list of dict
        Key -> value, in the log's order; a key whose value is None was written as null.
    stated : dict
        Hyperparameters that the log states: dotted key -> value.
    notes : list of str
    steps : list of float or None
        Steps of the rows where they stand outside them (progress bars), and in `axis` what they are.
    axis : str
    logging_steps : float or None
        Optimiser steps between two rows, where the log says so.
    """

    name: str
    format: str
    rows: list[dict[str, object]]
    stated: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    steps: list[float] | None = None
    axis: str = ""
    logging_steps: float | None = None

    def has(self, key: str, renames: dict[str, str]) -> bool:
        """Whether a key stands for the reward."""
        found = resolve(key)
        return key == renames.get("reward") or ("reward" not in renames and found is not None and found[0] == "reward")

    def rewarded(self, renames: dict[str, str]) -> int:
        """Rows with a number for the reward."""
        return sum(
            any(self.has(key, renames) and number(value) is not None for key, value in row.items())
            for row in self.rows
            if SUMMARY not in row
        )

    def numbers(self) -> int:
        """Numbers in the rows."""
        return sum(number(value) is not None for row in self.rows for value in row.values())


def flatten(node: dict, prefix: str = "", separator: str = "/", depth: int = 6) -> dict[str, object]:
    """Scalars of nested dicts, by the path of their keys; lists and what is too deep are left out."""
    flat = {}
    for key, value in node.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth:
                flat |= flatten(value, path + separator, separator, depth - 1)
        elif not isinstance(value, (list, tuple)):
            flat[path] = value
    return flat


def best(runs: list[Raw], renames: dict[str, str]) -> list[Raw]:
    """The runs that have a reward; if none has, the one with most numbers, for the sentence that refuses it."""
    rewarded = [run for run in runs if run.rewarded(renames)]
    if len(rewarded) < len(runs) and rewarded:
        left = len(runs) - len(rewarded)
        if any(run.numbers() > 5 for run in runs if run not in rewarded):
            for run in rewarded:
                run.notes.append(f"Other series of the log without a reward: {left}, left out.")
    return rewarded or sorted(runs, key=Raw.numbers)[-1:]
