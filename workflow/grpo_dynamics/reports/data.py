"""Findings as data: plain values that JSON can hold."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.diagnosis import primary
from grpo_dynamics.reports.findings import Findings, verdict, worst


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


def to_json(found: Findings) -> str:
    """The findings as JSON text: `log`, and `fit`, `diagnosis` or `forecast` as far as they were asked for."""
    parts: dict[str, object] = {"log": found.log and plain(found.log) | {"chosen": found.chosen}}
    if found.fit:
        parts["fit"] = plain(found.fit)
    if found.diagnoses is not None:
        cause = primary(list(found.diagnoses))
        parts["diagnosis"] = {
            "verdict": worst(found.diagnoses),
            "summary": verdict(found.log, found.diagnoses),
            "primary": cause and cause.group,
            "numbers": plain(found.diagnoses),
        }
    if found.forecast:
        parts["forecast"] = plain(found.forecast)
    return json.dumps(parts, indent=1, allow_nan=False)
