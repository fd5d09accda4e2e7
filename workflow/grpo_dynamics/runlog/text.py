"""Console output: TRL's dicts between progress bars, verl's "step:N - key:value", and lines of key=value."""

from __future__ import annotations

import ast
import re
from collections import Counter

from grpo_dynamics.runlog.keys import NUMBER, SUMMARY, number, resolve
from grpo_dynamics.runlog.raw import Raw, flatten
from grpo_dynamics.runlog.settings import STATED

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RAY = re.compile(r"^\([^()\n]{1,80}pid=\d+[^()\n]{0,40}\) ?", re.MULTILINE)
_BAR = re.compile(  # "  5%|#   | 5/100 [00:10<03:10, 2.0s/it]", in narrow windows "5/100 [00:10<03:10, 2.0s/it]"
    r"(?:\r? {0,3}\d{1,3}%\|[^|\n]{0,200}\|\s*|(?<![\w./])(?=\d{1,12}/\d{1,12} \[\d+:\d\d))"
    r"(\d{1,12})/(\d{1,12})\s*\[[^\]\n]{0,80}\]?"
)
_DICT = re.compile(r"\{\s*['\"][^{}]{3,20000}\}")
_VALUE = rf"(?:np\.\w+\(|tensor\()?['\"]?(?:{NUMBER.pattern}|None|null)(?![\w.])"
_PAIR = re.compile(rf"['\"]([^'\"\n]{{1,200}})['\"]\s*:\s*({_VALUE})", re.IGNORECASE)
_VERL = re.compile(r"step:(\d{1,15}) - (.+)")
_WORDS = re.compile(rf"(?<![\w./@-])([A-Za-z_][\w./@-]*)['\"]?\s*[:=]\s*({NUMBER.pattern})(?![\w.])", re.IGNORECASE)
_ADJUSTED = re.compile(r"\b(step|iter(?:ation)?|update)\s+(\d{1,12})\b", re.IGNORECASE)
LONGEST = 400_000  # characters of a config that is printed over several lines
MOST_UNCLOSED = 5  # configs that do not end, after which no more are looked for


def clean(text: str) -> str:
    """Text without colour codes and Ray's prefixes."""
    return _RAY.sub("", _ANSI.sub("", text))


def read_text(text: str, name: str, renames: dict[str, str]) -> list[Raw] | None:
    """The run in a console's output; None if it has no rows."""
    text = clean(text)
    lines = text.replace("\r", "\n")
    run = _verl(lines, name) or _dicts(text, name, renames) or _words(lines, name, renames)
    return [run] if run else None


def _verl(text: str, name: str) -> Raw | None:
    rows = []
    for line in _VERL.finditer(text):
        pairs = (part.rpartition(":") for part in line[2].split(" - "))
        values = {key.strip(): value for key, _, value in pairs if key and number(value) is not None}
        if values:
            values.pop("training/global_step", None)  # the same, but absent before the first step
            rows.append({"step": line[1]} | values)
    if not rows:
        return None
    return Raw(name, "verl console output", rows, _printed(text) | _assigned(text))


def _dicts(text: str, name: str, renames: dict[str, str]) -> Raw | None:
    """TRL's rows. Progress bars are taken out first, as they also land in the middle of a row."""
    plain, bars, offset, at = [], [], 0, 0
    for bar in _BAR.finditer(text):
        line = max(text.rfind("\n", at, bar.start()), text.rfind("\r", at, bar.start())) + 1
        before = text[max(line, at) : bar.start()]
        plain.append(text[at : bar.start()])
        offset += bar.start() - at
        at = bar.end()
        if not before.rstrip().endswith(":"):  # "Map: 10%|" is no training
            bars.append((offset, int(bar[1]), int(bar[2])))
    text = "".join([*plain, text[at:]]).replace("\r", "\n")

    rows, places, kept, end = [], [], [], 0
    for found in _DICT.finditer(text):
        row = {key: value.strip("'\"") for key, value in _PAIR.findall(found[0])}
        if _is_row(row, renames):
            rows.append({key: None if value.lower() in ("none", "null") else value for key, value in row.items()})
            places.append(found.start())
            kept.append(text[end : found.start()])
            end = found.end()
    if not rows:
        return None
    rest = "".join([*kept, text[end:]])
    run = Raw(name, "TRL console output", rows, _printed(rest) | _assigned(rest))
    tail = text[end:]
    cut = tail.rfind("{'")
    if cut >= 0 and "}" not in tail[cut:] and any(resolve(key) for key, _ in _PAIR.findall(tail[cut:])):
        run.notes.append("The last entry is cut off: left out.")
    _steps_of_bars(run, places, bars)
    return run


def _is_row(row: dict[str, str], renames: dict[str, str]) -> bool:
    """Whether a printed dict is a logged row: it has a number that was measured, not the learning rate of a config."""
    columns = {found[0] for key in row if (found := resolve(key))}
    return bool(columns - {"learning_rate", "step"}) or SUMMARY in row or any(key in renames.values() for key in row)


def _steps_of_bars(run: Raw, places: list[int], bars: list[tuple[int, int, int]]) -> None:
    """Set the rows' steps from the training's progress bar where the rows stand between its states."""
    if not bars or any("step" in row for row in run.rows):
        return
    last, index = [], 0
    for place in places:
        while index < len(bars) and bars[index][0] <= place:
            index += 1
        last.append(bars[index - 1] if index else (0, 0, 0))
    total = Counter(bar[2] for bar in last).most_common(1)[0][0]
    training = [bar for bar in bars if bar[2] == total]
    steps, index = [], 0
    for place in places:
        while index < len(training) and training[index][0] <= place:
            index += 1
        steps.append(float(training[index - 1][1]) if index else float("nan"))
    rewarded = [(step, row) for step, row in zip(steps, run.rows, strict=True) if SUMMARY not in row]
    if len(rewarded) < 2 or len({step for step, _ in rewarded}) > 0.5 * len(rewarded):
        run.steps, run.axis = steps, f"optimiser steps, read off the progress bar (n/{total})"
        return
    # The rows stand together, away from the bars: the output and the bars were buffered apart.
    done, n = training[-1][1], len(rewarded)
    spacings = [w for w in range(max(done // (n + 1), 1), done // n + 1) if w * n <= done < w * (n + 1)]
    if done == total and done % n == 0:
        spacings = [done // n]
    if len(spacings) == 1:
        w = spacings[0]
        counted = iter(range(1, n + 1))
        run.steps = [float(w * n if SUMMARY in row else w * next(counted)) for row in run.rows]
        run.axis = f"optimiser steps, {w} per row: {n} rows, and a progress bar that ends at {done}/{total}"
        run.logging_steps = float(w)


def _words(text: str, name: str, renames: dict[str, str]) -> Raw | None:
    """Lines with key=value or key: value that have a reward among them."""
    rows = []
    for line in text.splitlines():
        pairs = _WORDS.findall(line[:5000])
        row = dict(pairs)
        if place := _ADJUSTED.search(line[:200]):
            row.setdefault("step", place[2])
        if any(Raw("", "", []).has(key, renames) for key in row):
            rows.append(row)
    return Raw(name, "lines of key and value", rows, _assigned(text)) if len(rows) > 1 else None


def _printed(text: str) -> dict[str, object]:
    """Settings of configs that were printed as Python dicts over several lines."""
    stated: dict[str, object] = {}
    unclosed = 0
    for start in re.finditer(r"^\{'", text, re.MULTILINE):
        block = text[start.start() : start.start() + LONGEST]
        depth, end = 0, 0
        for brace in re.finditer(r"[{}]", block):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = brace.end()
                break
        unclosed += not end
        if unclosed > MOST_UNCLOSED:
            break
        if "\n" not in block[:end]:
            continue
        try:
            found = ast.literal_eval(block[:end])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, dict):
            stated |= flatten(found, separator=".", depth=12)
    return stated


def _assigned(text: str) -> dict[str, object]:
    """Settings that are printed as name=value or name: value; a name with several values is left out."""
    found: dict[str, set[str]] = {}
    for name, value in STATED.findall(text):
        found.setdefault(name.lower(), set()).add(value.strip("'\""))
    return {name: values.pop() for name, values in found.items() if len(values) == 1}
