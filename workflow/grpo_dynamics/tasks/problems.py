"""Files of problems: JSON Lines, a problem per line with id, question, answer and kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from grpo_dynamics.command import InputError
from grpo_dynamics.files import replacing


def read(path: str | Path) -> list[dict]:
    """Rows of a JSON Lines file, or of a JSON file that holds a list.

    Raises
    ------
    ValueError
        If the file cannot be read as either, or if a row is not an object.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:
            # Not splitlines(), which also breaks a line at a U+2028 within a string.
            rows = [_row(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: found {error}, expected a JSON list or JSON Lines") from error
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"{path}: row {index}: found {json.dumps(row)}, expected an object")
    return rows


def write(rows: Iterable[dict], path: str | Path) -> None:
    """Write rows as JSON Lines, in one step."""
    with replacing(path) as temporary:
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _row(line: str, number: int) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} in line {number}, column {error.colno}") from error
