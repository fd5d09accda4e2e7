"""Read the runs of a GRPO log, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.log import RunLog
from grpo_dynamics.runlog.sources import raw_runs
from grpo_dynamics.runlog.table import run_logs


def read(
    path: Path,
    renames: Mapping[str, str] = {},
    group_size: int | None = None,
    reward_range: tuple[float, float] | None = None,
) -> list[RunLog]:
    """Read all runs of a file or folder, in its order.

    Formats: TRL's trainer_state.json, folders of checkpoints, log_history lists, JSON Lines, columnar JSON, JSON with
    several runs, tables with a delimiter (own columns, W&B's and TensorBoard's exports, this study's run logs),
    TensorBoard event files, and the console output of TRL and verl; each also compressed by gzip.

    Parameters
    ----------
    path : Path
        File or folder.
    renames : mapping
        Column of OWN_LOG -> key of the log, where the key's name does not tell.
    group_size : int, optional
        Completions per prompt, if the log does not state it.
    reward_range : (low, high), optional
        Range that the reward can take; if not given, [0, 1] where all rewards lie in it, else that of the rewards.

    Returns
    -------
    list of RunLog

    Raises
    ------
    InputError
        One sentence: the file cannot be read, has no reward, has groups of one completion, lacks a renamed key, or has
        rewards outside `reward_range`.
    """
    path = Path(path)
    logs: list[RunLog] = []
    refused: list[InputError] = []
    for raw in raw_runs(path, dict(renames)):
        try:
            logs += run_logs(raw, str(path), renames, group_size, reward_range)
        except InputError as error:
            refused.append(error)
    if not logs:
        raise refused[0]
    if refused:
        note = f"{len(refused)} other runs of the log cannot be used, first: {refused[0]}."
        logs = [replace(log, notes=(*log.notes, note)) for log in logs]
    return logs


def choose(runs: list[RunLog], name: str | None) -> tuple[RunLog, str]:
    """One run of several: that of a name or number (from 1), or the one with most rewards.

    Returns
    -------
    (run, which of how many it is; empty if there is one)

    Raises
    ------
    InputError
        If there is no run of that name or number.
    """
    if name is None:
        lengths = [int(np.isfinite(run.table["reward"].to_numpy()).sum()) for run in runs]
        index = int(np.argmax(lengths))
        said = f"run {index + 1} of {len(runs)}, {runs[index].name}: the longest, {lengths[index]} rewards"
        return runs[index], said if len(runs) > 1 else ""
    names = [run.name for run in runs]
    if name in names:
        index = names.index(name)
    elif name.isascii() and name.isdigit() and 1 <= int(name[:9]) <= len(runs):
        index = int(name) - 1
    else:
        raise InputError(
            f"{runs[0].source}: found no run {name}, expected one of {', '.join(names[:20])}, "
            f"or a number up to {len(runs)}"
        )
    return runs[index], f"run {index + 1} of {len(runs)}, {runs[index].name}" if len(runs) > 1 else ""
