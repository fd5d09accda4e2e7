"""Tables with a delimiter: own columns, W&B and TensorBoard exports, this study's run logs -> the runs' rows."""

from __future__ import annotations

import csv
import io
import re

from grpo_dynamics.runlog.keys import PER_RUN, number, resolve
from grpo_dynamics.runlog.raw import Raw

DELIMITERS = ",\t;|"
STUDY = {"model", "G", "seed", "step", "sample_age", "clip_low", "clip_high", "advantage_variance"}
# Columns of this study's run logs that are empty where the number was not finite.
EMPTY_IS_NOT_FINITE = ("entropy", "kl", "grad_norm", "ratio_max", "loss")


def table_of(text: str) -> tuple[list[str], list[dict[str, object]], int] | None:
    """Header, rows without their empty cells, and the number of rows with cells missing or too many.

    None if the text is no table: no delimiter, a header of numbers, or no number below the header.
    """
    head = text.lstrip("\n").split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=head.count)
    if len(head) > 100_000:
        return None
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return None
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if len(lines) < 2:
        return None
    header = [cell.strip() for cell in lines[0]]
    if not all(header) and header[0] == "":
        header[0] = "row"  # the index of a data frame
    if any(number(name) is not None for name in header) or len(set(header)) < len(header):
        return None
    rows, ragged = [], 0
    for line in lines[1:]:
        ragged += len(line) != len(header)
        cells = (cell.strip() for cell in line)
        if delimiter == ";":
            cells = (re.sub(r"^([+-]?\d+),(\d+)", r"\1.\2", cell) for cell in cells)
        rows.append({key: cell for key, cell in zip(header, cells, strict=False) if key and cell})
    if ragged > len(rows) / 2 or not any(number(value) is not None for row in rows for value in row.values()):
        return None
    return header, rows, ragged


def is_scalar_export(header: list[str]) -> bool:
    """Whether this is the header of TensorBoard's CSV export: one scalar per file."""
    return [name.lower() for name in header] == ["wall time", "step", "value"]


def known(header: list[str], renames: dict[str, str]) -> bool:
    """Whether a header has a column that is certainly a log's."""
    names = [name.rsplit(" - ", 1)[-1] for name in header]
    return is_scalar_export(header) or any(name in renames.values() or resolve(name) for name in names)


def read_table(text: str, name: str, renames: dict[str, str], sure: bool) -> list[Raw] | None:
    """Runs of a table; None if the text is none. `sure`: take it only if a column's name is known."""
    found = table_of(text)
    if found is None or (sure and not known(found[0], renames)):
        return None
    header, rows, ragged = found
    if is_scalar_export(header):
        return [Raw(name, "TensorBoard CSV export", scalar_rows(rows, scalar_name(name)))]
    split = _wandb if any(" - " in key for key in header) else _per_run
    runs = split(header, rows, name)
    if ragged:
        for run in runs:
            run.notes.append(f"{ragged} rows have not as many cells as the header: the missing ones count as empty.")
    return runs


def scalar_name(stem: str) -> str:
    """Key of a TensorBoard CSV export, out of the file's name: run-NAME-tag-KEY, or what of its end is known."""
    if "-tag-" in stem:
        return stem.rsplit("-tag-", 1)[1]
    words = stem.split("_")
    for start in range(len(words)):
        if resolve("_".join(words[start:])):
            return "_".join(words[start:])
    return stem


def scalar_rows(rows: list[dict[str, object]], key: str) -> list[dict[str, object]]:
    """Rows of one scalar's export, its value under the scalar's own key."""
    renamed = ({name.lower(): value for name, value in row.items()} for row in rows)
    return [{"step": row["step"], key: row["value"]} for row in renamed if "step" in row and "value" in row]


def _wandb(header: list[str], rows: list[dict[str, object]], name: str) -> list[Raw]:
    """Runs of a W&B export: columns "run - key", beside them __MIN and __MAX, and one axis for all runs."""
    parts = {key: key.rsplit(" - ", 1) for key in header if " - " in key and not re.search(r"__(MIN|MAX)$", key)}
    shared = [key for key in header if " - " not in key]
    runs = []
    for run in dict.fromkeys(run for run, _ in parts.values()):
        own = {key: short for key, (of, short) in parts.items() if of == run}
        kept = [
            {own.get(key, key): value for key, value in row.items() if key in own or key in shared}
            for row in rows
            if any(key in own for key in row)
        ]
        raw = Raw(run, "W&B export", kept)
        binned = any(
            row.get(f"{key}__MIN", row[key]) != row.get(f"{key}__MAX", row[key])
            for row in rows
            for key in own
            if key in row
        )
        if binned:
            raw.notes.append("The values are W&B's averages over bins of steps: the minimum and maximum differ.")
        runs.append(raw)
    if len(runs) == 1:
        runs[0].name = name
    return runs


def _per_run(header: list[str], rows: list[dict[str, object]], name: str) -> list[Raw]:
    study = set(header) >= STUDY
    keys = [key for key in PER_RUN if key in header]
    parts: dict[tuple, list[dict[str, object]]] = {}
    for row in rows:
        parts.setdefault(tuple(str(row.get(key, "")) for key in keys), []).append(row)
    if len(parts) > len(rows) / 2:  # a seed or a name per row tells no runs apart
        parts = {(): rows}
    varied = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    runs = []
    for values, own in parts.items():
        stated = dict(zip(keys, values, strict=False))
        told = [f"{key} {value}" for key, value, varies in zip(keys, values, varied, strict=False) if varies]
        raw = Raw(", ".join(told) or name, "table", [_without(row, keys if values else ()) for row in own], stated)
        if study:
            raw.format = "this study's run log"
            raw.rows = [_study_row(row) for row in raw.rows]
        runs.append(raw)
    return runs


def _without(row: dict[str, object], keys: list[str] | tuple) -> dict[str, object]:
    return {key: value for key, value in row.items() if key not in keys}


def _study_row(row: dict[str, object]) -> dict[str, object]:
    low, high = number(row.get("clip_low")), number(row.get("clip_high"))
    clipped = {} if low is None or high is None else {"clip_share": low + high}
    return dict.fromkeys(EMPTY_IS_NOT_FINITE, "nan") | row | clipped
