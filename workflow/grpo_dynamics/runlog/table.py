"""Rows of a log -> its runs in the study's columns, and what was done to get there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog import seams
from grpo_dynamics.runlog.columns import COMPONENT, Columns, map_columns
from grpo_dynamics.runlog.keys import SUMMARY, number
from grpo_dynamics.runlog.log import OWN_LOG, Mapped, RunLog
from grpo_dynamics.runlog.raw import Raw
from grpo_dynamics.runlog.rewards import fill_spread, not_binary
from grpo_dynamics.runlog.settings import settings
from grpo_dynamics.runlog.spread import within_group
from grpo_dynamics.tables import check

TRAIN_ONLY = {"loss", "grad_norm", "learning_rate", "kl", "entropy", "clip_share"}
BOUNDS = {
    "reward_std": (0, np.inf), "collapsed_share": (0, 1), "grad_norm": (0, np.inf), "clip_share": (0, 1),
    "ratio_max": (0, np.inf), "learning_rate": (0, np.inf), "completion_length": (0, np.inf), "truncated_share": (0, 1),
    "seconds": (0, np.inf), "sample_age": (0, np.inf), "groups": (0, np.inf),
}  # fmt: skip
ROUNDING = 1e-6  # by which a share may lie outside [0, 1]


def run_logs(
    raw: Raw,
    source: str,
    renames: Mapping[str, str],
    group_size: int | None,
    reward_range: tuple[float, float] | None,
) -> list[RunLog]:
    """The runs in the rows of one log: one, or several that were appended to each other.

    Raises
    ------
    InputError
        No reward, a group size of 1, a renaming to a key that is not there, or rewards outside the range given.
    """
    notes = list(raw.notes)
    rows = [(index, row) for index, row in enumerate(raw.rows) if SUMMARY not in row]
    if len(rows) < len(raw.rows):
        notes.append(f"{_rows(len(raw.rows) - len(rows))} with the run's summary: left out.")
    columns = map_columns([row for _, row in rows], renames, source)
    stated, contradictions = settings(raw.stated)
    notes += contradictions
    G = _group_size(stated, group_size, source, notes)
    stated.pop("G", None)
    position, axis, kept = _positions(raw, rows, columns, notes)

    values = [columns.read(rows[index][1]) for index in kept]
    measured = [bool(value.numbers or value.broken) for value in values]
    if not all(measured):
        notes.append(f"{_rows(measured.count(False))} without a number that is known: left out.")
    kept = [index for index, good in enumerate(measured) if good]
    values, position = [values[index] for index in kept], [position[index] for index in kept]
    train = [value.is_train for value in values]
    runs, found = seams.split(position, train)
    notes += found

    logs = []
    for part, indices in enumerate(runs):
        own_notes = list(notes)
        steps = [position[index] for index in indices]
        if not columns.step and raw.steps is None:
            # A held-out row stands at the training row before it.
            steps = list(np.maximum(np.cumsum([values[index].is_train for index in indices], dtype=float), 1.0))
        merged = _merge(steps, [values[index] for index in indices], own_notes)
        if not any(np.isfinite(one.numbers.get("reward", np.nan)) for one in merged.values()):
            continue
        table, changes = _table(merged, raw, columns, stated, G, axis, own_notes)
        limits, known = _range(table, reward_range, source, own_notes)
        table["any_spread"] = fill_spread(table, limits, known)
        logs.append(
            RunLog(
                name=raw.name if len(runs) == 1 else f"{raw.name}, run {part + 1}",
                source=source,
                format=raw.format,
                table=table,
                axis=axis,
                reward_range=limits,
                not_binary=not_binary(table, G, limits, _components(merged, columns)),
                G=G,
                settings=stated,
                mapping=tuple(
                    Mapped(one.column, one.key, "; ".join(filter(None, (one.note, changes.get(one.column, "")))))
                    for one in columns.mapping
                ),
                ignored=columns.ignored,
                notes=tuple(own_notes),
            )
        )
    if not logs:
        raise InputError(f"{source}: found no row with a number for the reward, expected at least one")
    return logs


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _group_size(stated: dict[str, float | str], given: int | None, source: str, notes: list[str]) -> int | None:
    value = stated.get("G")
    found = int(value) if isinstance(value, float) and value >= 1 and value == int(value) else None
    if found == 1 or given == 1:
        said = f"the log's own settings say so, whatever --group-size {given} says" if given not in (None, 1) else ""
        raise InputError(
            f"{source}: found a group size of 1{f' ({said})' if said else ''}, expected at least 2 completions per "
            "prompt: without groups there is no group-relative advantage, and the run is no GRPO"
        )
    if given is not None and given < 1:
        raise InputError(f"--group-size: found {given}, expected at least 2")
    if given is not None and found is not None and given != found:
        notes.append(f"The log states a group size of {found}; the {given} that was given is used.")
    return found if given is None else given


def _positions(
    raw: Raw, rows: list[tuple[int, dict]], columns: Columns, notes: list[str]
) -> tuple[list[float], str, list[int]]:
    """Step of each row, what it is in words, and the rows that have one."""
    steps: list[float] = []
    axis = ""
    if columns.step:
        found = [number(row.get(columns.step)) for _, row in rows]
        steps = [np.nan if value is None or not np.isfinite(value) else value for value in found]
        axis = f"the log's {columns.step}"
        if np.isfinite(steps).sum() < len(steps) / 2:
            notes.append(f"{columns.step} has a number in fewer than half of the rows: not used as the axis.")
            columns.step, steps = "", []
    elif raw.steps is not None:
        steps, axis = [raw.steps[index] for index, _ in rows], raw.axis
    if not steps:
        raw.steps = None
        epochs = [number(row.get("epoch", row.get("train/epoch"))) for _, row in rows]
        clock = "optimiser steps are not in the log; the number of the row, from 1"
        if len(rows) and all(value is not None and np.isfinite(value) for value in epochs):
            return epochs, f"{clock} (epochs are no steps)", list(range(len(rows)))
        return [float(index) for index in range(len(rows))], clock, list(range(len(rows)))
    kept = [index for index, step in enumerate(steps) if np.isfinite(step)]
    if len(kept) < len(steps):
        notes.append(f"{_rows(len(steps) - len(kept))} without a step: left out.")
    return [steps[index] for index in kept], axis, kept


def _merge(steps: list[float], values: list, notes: list[str]) -> dict[float, object]:
    """One entry per step: what stands in several rows of a step is put together; of two numbers the last counts."""
    merged: dict[float, object] = {}
    replaced = []
    for step, value in zip(steps, values, strict=True):
        if step not in merged:
            merged[step] = value
            continue
        merged[step], clash = merged[step].joined(value)
        if clash:
            replaced.append(step)
    if replaced:
        notes.append(f"{_rows(len(replaced))} of a step that had one, first {replaced[0]:g}: a step's last counts.")
    return dict(sorted(merged.items()))


def _table(
    merged: dict, raw: Raw, columns: Columns, stated: dict, G: int | None, axis: str, notes: list[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The OWN_LOG table, and what was done to its columns."""
    entries = list(merged.values())
    step = np.array(list(merged))
    table = pd.DataFrame(
        {name: [entry.numbers.get(name, np.nan) for entry in entries] for name in OWN_LOG.columns}, dtype=float
    )
    table["step"] = step
    if stated.get("prompts") and table["groups"].isna().all():
        table["groups"] = float(stated["prompts"])
    nulls = sum(len(entry.nulls) for entry in entries)
    if nulls:
        said = "1 value is" if nulls == 1 else f"{nulls} values are"
        notes.append(f"{said} null (TRL writes null where no number was finite): empty.")
    table["non_finite"] = [" ".join(sorted(entry.broken & set(OWN_LOG.columns))) for entry in entries]
    broken = sum(map(bool, table["non_finite"]))
    if broken:
        notes.append(f"{_rows(broken)} with numbers that are NaN or infinite: empty there, and named in non_finite.")
    if message := seams.gaps(step[[entry.is_train for entry in entries]]):
        notes.append(message)
    changes = _time(table, entries, raw, columns, notes)
    if "reward_std" in columns.columns:
        differ = (table["reward_std"] > 0).astype(float).where(table["reward_std"].notna())
        table["any_spread"] = table["any_spread"].fillna(differ)
        study = raw.format == "this study's run log"
        spread = within_group(columns.keys, columns.has_nulls, G, stated, study, columns.trl)
        table["reward_std"] = table["reward_std"] * spread.factor if spread.used else np.nan
        changes["reward_std"] = spread.note
    for name, (low, high) in BOUNDS.items():
        value = table[name]
        slack = ROUNDING if high == 1 else 0.0
        bad = (value < low - slack) | (value > high + slack) | ((name == "groups") & (value <= 0))
        if bad.any():
            where = table.loc[bad, "step"].iloc[0]
            changes[name] = f"not used: {value[bad].iloc[0]:g} at step {where:g}, outside [{low}, {high:g}]"
            notes.append(f"{name} is {changes[name]}.")
            table[name] = np.nan
        else:
            table[name] = value.clip(low, high)
    return check(table, OWN_LOG, axis), changes


def _components(merged: dict, columns: Columns) -> dict[str, np.ndarray]:
    """Reward of each function per row of the table."""
    return {
        name: np.array([entry.numbers.get(COMPONENT + name, np.nan) for entry in merged.values()])
        for name in columns.components
    }


def _time(table: pd.DataFrame, entries: list, raw: Raw, columns: Columns, notes: list[str]) -> dict[str, str]:
    """Set `t`: optimiser steps made before the measurement."""
    step = table["step"].to_numpy()
    train = np.array([entry.is_train for entry in entries])
    changes = {}
    logged = step[train]
    usual = seams.spacing(logged)
    if columns.trl and (columns.step or raw.steps is not None):
        # TRL's row at step n is the mean over the steps since the row before; a batch is sampled before its step.
        most = raw.logging_steps or usual
        width = np.full(len(step), 1.0)
        width[train] = np.clip(np.diff(logged, prepend=0.0), 1.0, max(most, 1.0))
        t = step - (width + 1) / 2
        if width.max() > 1:
            notes.append(f"A row is TRL's mean over the steps since the row before, {width.max():g} at most.")
    elif _measured_on_checkpoints(table, columns, usual):
        t = step.copy()
        changes["t"] = "measured on checkpoints"
        notes.append("The rewards were measured on checkpoints, after the step they stand at.")
    elif len(logged) and logged.min() <= 0:
        t = step - min(logged.min(), 0.0)
    else:
        t = step - 1
    t[~train] = step[~train]
    table["t"] = np.maximum(t, 0.0)
    return changes


def _measured_on_checkpoints(table: pd.DataFrame, columns: Columns, usual: float) -> bool:
    """Whether every row is a checkpoint: far apart, each with a held-out number, and none of the trainer's numbers."""
    return (
        bool(columns.step)
        and usual > 1
        and not TRAIN_ONLY & columns.columns
        and "heldout_reward" in columns.columns
        and bool(table["heldout_reward"].notna().all())
    )


def _range(
    table: pd.DataFrame, given: tuple[float, float] | None, source: str, notes: list[str]
) -> tuple[tuple[float, float], bool]:
    """The reward's range, and whether that is its own or only that of the rewards seen."""
    low, high = float(table["reward"].min()), float(table["reward"].max())
    if given is not None:
        if not given[0] < given[1]:
            raise InputError(f"--reward-range: found {given[0]:g} to {given[1]:g}, expected the lower bound first")
        if low < given[0] - ROUNDING or high > given[1] + ROUNDING:
            raise InputError(
                f"{source}: found rewards from {low:g} to {high:g}, expected all within --reward-range "
                f"{given[0]:g} to {given[1]:g}"
            )
        return (float(given[0]), float(given[1])), True
    if low >= 0 and high <= 1:
        return (0.0, 1.0), True
    notes.append(
        "The reward's range is not known; it is taken as that of the rewards seen, "
        f"{low:.3g} to {high:.3g} (--reward-range)."
    )
    return (low, high), False
