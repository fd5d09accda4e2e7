"""JSON in every shape that logs come in: bytes that hold it -> the runs' rows."""

from __future__ import annotations

import json
import re
from collections import Counter

from grpo_dynamics.runlog.keys import number
from grpo_dynamics.runlog.raw import Raw, best, flatten

DEPTH = 12  # levels of nesting that are searched for rows
HOLDERS = {"log_history", "history", "logs", "log", "rows", "data", "merged", "metrics", "records", "results", "train"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)


def parse(text: str) -> object:
    """JSON; every number is a float, so that none can be too long.

    Raises
    ------
    ValueError
        Also where it is nested too deeply.
    """
    try:
        return json.loads(text, parse_int=float)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_json(text: str, name: str, renames: dict[str, str]) -> list[Raw] | None:
    """Runs of a JSON document, of JSON Lines, or of what is whole in a damaged document; None if it is no JSON."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return _runs(parse(text), name, renames)
    except ValueError as error:
        damage = getattr(error, "pos", None)
    lines = _lines(text, name)
    if lines or damage is None:
        return lines
    document, entries = recover(text[:damage])
    if document is None:
        return None
    runs = _runs(document, name, renames)
    line = text.count("\n", 0, damage) + 1
    for run in runs:
        run.notes.append(f"The file is cut off or damaged at line {line}: what is complete before it is used.")
    return runs if entries else None


def recover(text: str) -> tuple[object | None, int]:
    """What is complete in JSON that breaks off: everything up to the last whole element of a list or whole object.

    Returns
    -------
    (document, number of complete elements); the document is None if there is none.
    """
    stack: list[str] = []
    end, closers, complete = 0, "", 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "{[":
            stack.append("}" if mark == "{" else "]")
            continue
        if mark in "}]":
            if not stack or stack.pop() != mark:
                break
            if not stack:
                end, closers = token.end(), ""
                break
            end, closers, complete = token.end(), "".join(reversed(stack)), complete + 1
        elif mark == "," and stack and stack[-1] == "]":
            end, closers, complete = token.start(), "".join(reversed(stack)), complete + 1
    if not end:
        return None, 0
    try:
        return parse(text[:end] + closers), complete
    except ValueError:
        return None, 0


def _lines(text: str, name: str) -> list[Raw] | None:
    rows, stated, broken = [], {}, 0
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        try:
            entry = parse(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            broken += 1
            continue
        flat = flatten(entry)
        if any(number(value) is not None for value in flat.values()):
            rows.append(flat)
        stated |= flatten({key: value for key, value in entry.items() if isinstance(value, dict)}, separator=".")
    if not rows or broken > len(lines) / 2 or len(lines) < 2:
        return None
    run = Raw(name, "JSON Lines", rows, stated)
    if broken:
        last = " (the last is cut off)" if not lines[-1].rstrip().endswith("}") else ""
        run.notes.append(f"{broken} of {len(lines)} lines are no JSON objects: left out{last}.")
    return [run]


def _runs(document: object, name: str, renames: dict[str, str]) -> list[Raw]:
    found = best(_find(document, (), renames, DEPTH), renames)
    names = Counter()
    for run in found:
        own = [part for part in run.name.split("/") if part and part.lower() not in HOLDERS]
        run.name = own[-1] if own and len(found) > 1 else name
        names[run.name] += 1
        if names[run.name] > 1:
            run.name += f" ({names[run.name]})"
    if len(found) == 1 and isinstance(document, dict):
        found[0].stated = _outside(document) | found[0].stated
    return found


def _outside(node: object, depth: int = DEPTH) -> dict[str, object]:
    """Scalars of a document that lie in no list."""
    return flatten(node, separator=".", depth=depth) if isinstance(node, dict) else {}


def _find(node: object, path: tuple[str, ...], renames: dict[str, str], depth: int) -> list[Raw]:
    """Everything in a document that looks like a run's rows."""
    if depth == 0:
        return []
    if isinstance(node, list):
        return _find_in_list(node, path, renames, depth)
    if not isinstance(node, dict):
        return []
    history = node.get("log_history")
    if isinstance(history, list):
        trainer = "global_step" in node
        run = _rows(history, path, "TRL trainer_state.json" if trainer else "log_history in JSON")
        run.stated = _outside({key: value for key, value in node.items() if key != "log_history"})
        spacing = number(node.get("logging_steps"))
        run.logging_steps = spacing if spacing is not None and 1 <= spacing < float("inf") else None
        return [run]
    columns = _columns(node)
    if columns:
        run = Raw("/".join(path), "columnar JSON", columns, _outside(node))
        if run.rewarded(renames) or not any(isinstance(value, (dict, list)) and value for value in node.values()):
            return [run]
    inner = [run for key, value in node.items() for run in _find(value, (*path, str(key)), renames, depth - 1)]
    if columns and not any(one.rewarded(renames) for one in inner):
        return [run, *inner]
    if inner and len(inner) < len(node):
        for one in inner:
            one.stated = _outside({k: v for k, v in node.items() if not isinstance(v, dict)}) | one.stated
    keyed = _keyed(node)
    if keyed and not any(one.rewarded(renames) for one in inner):
        return [Raw("/".join(path), "JSON, a mapping from steps to rows", keyed), *inner]
    if not path and not inner and any(number(value) is not None for value in flatten(node).values()):
        return [Raw("", "JSON, one row", [flatten(node)])]
    return inner


def _find_in_list(node: list, path: tuple[str, ...], renames: dict[str, str], depth: int) -> list[Raw]:
    run = _rows(node, path, "list of rows in JSON")
    if run.rewarded(renames):
        return [run]
    inner = []
    for index, value in enumerate(node):
        named = value.get("name", value.get("run", index + 1)) if isinstance(value, dict) else index + 1
        inner += _find(value, (*path, str(named)), renames, depth - 1)
    if any(one.rewarded(renames) for one in inner):
        return inner
    return [run] if run.numbers() else inner


def _rows(entries: list, path: tuple[str, ...], what: str) -> Raw:
    rows = [flatten(entry) for entry in entries if isinstance(entry, dict)]
    run = Raw("/".join(path), what, rows)
    if rows and len(rows) < len(entries):
        run.notes.append(f"{len(entries) - len(rows)} of {len(entries)} entries are no rows: left out.")
    return run


def _columns(node: dict) -> list[dict[str, object]]:
    """Rows of a dict whose values are columns: lists of one length, or mappings from the row's number."""
    lists = {}
    for key, value in node.items():
        if isinstance(value, dict) and value and all(str(index).isdigit() for index in value):
            value = [value[index] for index in sorted(value, key=lambda index: int(str(index)[:15]))]
        if isinstance(value, list) and any(number(one) is not None for one in value):
            lists[str(key)] = value
    if not lists:
        return []
    length = Counter(len(value) for value in lists.values()).most_common(1)[0][0]
    kept = {key: value for key, value in lists.items() if len(value) == length}
    return [{key: value[index] for key, value in kept.items()} for index in range(length)]


def _keyed(node: dict) -> list[dict[str, object]]:
    """Rows of a mapping from the step to a row."""
    if not node or not all(isinstance(value, dict) and str(key)[:15].isdigit() for key, value in node.items()):
        return []
    return [{"step": str(key)} | flatten(value) for key, value in node.items()]
