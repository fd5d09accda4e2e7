"""A file or folder -> the runs' rows: what it is, is told by its content."""

from __future__ import annotations

import itertools
import zlib
from pathlib import Path

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.delimited import is_scalar_export, read_table, scalar_name, scalar_rows, table_of
from grpo_dynamics.runlog.events import MAGIC, event_folders, read_events
from grpo_dynamics.runlog.keys import number
from grpo_dynamics.runlog.raw import Raw, best
from grpo_dynamics.runlog.structured import read_json
from grpo_dynamics.runlog.text import read_text

SUFFIXES = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".log", ".out", ".gz"}
STATE = "trainer_state.json"
KINDS = "JSON, JSON Lines, a table, TensorBoard events, or the console output of TRL or verl"
CONTROL = {chr(code) for code in range(32)} - set("\t\n\r\x0b\x0c\x1b\x08\x07\x00")


def raw_runs(path: Path, renames: dict[str, str]) -> list[Raw]:
    """The rows of all runs in a file or folder.

    Raises
    ------
    InputError
        If it is missing, empty, or holds no log.
    """
    try:
        if path.is_dir():
            return _folder(path, renames)
        return _file(path, renames)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or type(error).__name__).lower()}") from error
    except ValueError as error:  # a name with a zero byte
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: found a name that no file can have") from error


def stem(path: Path) -> str:
    """Name of a file without its endings."""
    name = path.name.removesuffix(".gz")
    known = Path(name).suffix.lower() in SUFFIXES
    return (Path(name).stem if known else name) or str(path)


def _file(path: Path, renames: dict[str, str]) -> list[Raw]:
    with open(path, "rb") as file:
        data = file.read()
    notes = []
    if data[:2] == b"\x1f\x8b":
        data, whole = _unzip(data)
        if not whole:
            notes.append("The compressed file is cut off or damaged: what could be read is used.")
    if MAGIC in data[:64]:
        runs = [read_events(path, stem(path))]
        if not runs[0].rows:
            raise InputError(f"{path}: found no scalars in the TensorBoard event file")
        return runs
    text = _decoded(data, path)
    runs = (
        read_json(text, stem(path), renames)
        or read_table(text, stem(path), renames, sure=True)
        or read_text(text, stem(path), renames)
        or read_table(text, stem(path), renames, sure=False)
    )
    if not runs:
        raise InputError(f"{path}: found no logged rows, expected {KINDS}")
    for run in runs:
        run.notes += notes
    return best(runs, renames)


def _unzip(data: bytes) -> tuple[bytes, bool]:
    """Content of gzip data, and whether all of it could be read."""
    parts = []
    try:
        while data[:2] == b"\x1f\x8b":
            member = zlib.decompressobj(31)
            parts.append(member.decompress(data))
            if not member.eof:
                return b"".join(parts), False
            data = member.unused_data
    except zlib.error:
        return b"".join(parts), False
    return b"".join(parts), True


def _decoded(data: bytes, path: Path) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", errors="replace")
    elif len(data) > 3 and data[1::2][:500].count(0) > 0.4 * len(data[1::2][:500]):
        text = data.decode("utf-16-le", errors="replace")
    else:
        text = data.decode("utf-8-sig", errors="replace")
    text = text.replace("\r\n", "\n").strip("\x00\ufeff \t\r\n")
    if not text:
        raise InputError(f"{path}: found an empty file, expected {KINDS}")
    sample = text[:20_000]
    strange = sum(character in CONTROL or character in "\ufffd\x00" for character in sample)
    if strange > 0.05 * len(sample):
        raise InputError(f"{path}: found a binary file, expected {KINDS}")
    return text


def _folder(folder: Path, renames: dict[str, str]) -> list[Raw]:
    runs = _states(folder, renames)
    if runs:
        return runs
    events = event_folders(folder)
    if events:
        names = {path: str(path.relative_to(folder)) if path != folder else folder.name for path in events}
        runs = [run for path in events if (run := read_events(path, names[path])).rows]
        if runs:
            return best(runs, renames)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in SUFFIXES)
    runs = _scalars(folder, files)
    if runs:
        return runs
    left = []
    for path in files:
        try:
            runs += [run for run in _file(path, renames) if run.rewarded(renames)]
        except InputError:
            left.append(path.name)
    if not runs:
        raise InputError(
            f"{folder}: found no log in the folder, expected {STATE}, checkpoint-*/{STATE}, TensorBoard events, "
            f"or files ending in {', '.join(sorted(SUFFIXES))} with a reward"
        )
    if left:
        runs[0].notes.append(f"{len(left)} files of the folder hold no log, first {left[0]}.")
    return runs


def _states(folder: Path, renames: dict[str, str]) -> list[Raw]:
    """The runs whose trainer states lie in a folder: of a run's checkpoints the one with the longest history."""
    groups: dict[Path, list[Path]] = {}
    for path in sorted(folder.rglob(STATE)):
        run = path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent
        groups.setdefault(run, []).append(path)
    runs = []
    for run, paths in groups.items():
        states, damaged = [], []
        for path in paths:
            try:
                states += [(len(one.rows), path.parent.name, one) for one in _file(path, renames)]
            except InputError:
                damaged.append(path.parent.name)
        if not states:
            continue
        rows, where, longest = max(states, key=lambda state: state[0])
        longest.name = folder.name if run == folder else str(run.relative_to(folder))
        if len(paths) > 1:
            longest.notes.append(f"Of {len(paths)} trainer states, the longest is used: {where}, {rows} rows.")
        if damaged:
            longest.notes.append(f"{len(damaged)} trainer states cannot be read, first {damaged[0]}.")
        runs.append(longest)
    return best(runs, renames)


def _scalars(folder: Path, files: list[Path]) -> list[Raw]:
    """The run in a folder of TensorBoard's CSV exports, one scalar each."""
    found = {}
    for path in files:
        if path.suffix.lower() != ".csv":
            continue
        try:
            table = table_of(_decoded(path.read_bytes(), path))
        except InputError:
            continue
        if table and is_scalar_export(table[0]):
            found[stem(path)] = table[1]
    if not found:
        return []
    shared = _common_words(list(found))
    rows: dict[float, dict[str, object]] = {}
    back = []
    for name, entries in found.items():
        key = scalar_name(name) if "-tag-" in name or len(found) == 1 else name.removeprefix(shared)
        last = -float("inf")
        for entry in scalar_rows(entries, key):
            step = number(entry["step"])
            if step is None:
                continue
            if step < last and name not in back:
                back.append(name)
            last = step
            rows.setdefault(step, {}).update(entry)
    run = Raw(folder.name, "folder of TensorBoard CSV exports", [rows[step] for step in sorted(rows)])
    if back:
        run.notes.append(f"The steps go back in {len(back)} files, first {back[0]}: the last value of a step counts.")
    return [run]


def _common_words(names: list[str]) -> str:
    """The words, joined by underscores, with which all names begin; empty for one name."""
    words = [name.split("_") for name in names]
    shared = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False))
    return "".join(f"{column[0]}_" for column in shared) if len(names) > 1 else ""
