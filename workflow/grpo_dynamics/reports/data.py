"""Findings as data: plain values that JSON can hold."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.diagnosis import Diagnosis, primary
from grpo_dynamics.reports.findings import Findings, cause, outlook, regime, verdict, worst
from grpo_dynamics.runlog.log import RunLog


def plain(value: object) -> object:
    """`value` with dataclasses, arrays and tables as dicts and lists; what is not a finite number becomes null."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, pd.DataFrame):
        return {str(name): plain(value[name].to_numpy()) for name in value.columns}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def about(log: RunLog, chosen: str) -> dict[str, object]:
    """How a log was read, without its rows."""
    rows = {"rows": len(log.table), "rewards": int(log.table["reward"].notna().sum()), "chosen": chosen}
    return {name: part for name, part in plain(log).items() if name != "table"} | rows


def diagnosis(log: RunLog, diagnoses: Sequence[Diagnosis]) -> dict[str, object]:
    """Verdict, likely cause and all numbers of a run."""
    first = primary(list(diagnoses))
    return {
        "verdict": worst(diagnoses),
        "summary": verdict(log, diagnoses),
        "primary": first and first.group,
        "cause": cause(diagnoses),
        "numbers": plain(diagnoses),
    }


def to_json(found: Findings) -> str:
    """The findings as JSON text.

    `log` says how the log was read, and has its rows (`table`) where nothing else was asked for; `fit`, `diagnosis` and
    `forecast` are there as far as they were asked for.
    """
    parts: dict[str, object] = {"log": found.log and about(found.log, found.chosen)}
    if found.fit:
        parts["fit"] = {"summary": outlook(found.fit)} | plain(found.fit)
    if found.diagnoses is not None:
        parts["diagnosis"] = diagnosis(found.log, found.diagnoses)
    if found.forecast:
        parts["forecast"] = {"summary": regime(found.forecast)} | plain(found.forecast)
    if found.log and len(parts) == 1:
        parts["log"]["table"] = plain(found.log.table)
    return json.dumps(parts, indent=1, allow_nan=False)
