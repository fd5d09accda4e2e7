"""What the diagnostics make of runs in which a failure was induced, and of healthy ones (claim C13)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from grpo_dynamics.analysis.diagnosis import KEPT, SYMPTOMS, diagnose_run, primary
from grpo_dynamics.analysis.live import LiveMonitor, due
from grpo_dynamics.analysis.series import as_own_log
from grpo_dynamics.analysis.tables_failures import (
    CALLS,
    CONFUSION,
    FAILURE_DIAGNOSTICS,
    FAILURE_RUNS,
    FAILURES,
    NONE,
)

RUN = ["kind", "induces", "model", "G", "seed"]


def _live(table: pd.DataFrame, G: int, monitor: LiveMonitor) -> dict[str, str | float]:
    """Replays a finished run row by row: step of the first alarm, and failure and step of the first that is a cause."""
    alarm = np.nan
    for rows in filter(due, range(len(table) + 1)):
        if first := primary(monitor.check(table[:rows], G, (0.0, 1.0))):
            step = float(table["step"][rows - 1])
            alarm = step if np.isnan(alarm) else alarm
            if first.group not in SYMPTOMS:
                return {"live_called": first.group, "live_step": step, "alarm_step": alarm}
    return {"live_called": NONE, "live_step": np.nan, "alarm_step": alarm}


def diagnose_failures(
    log: pd.DataFrame, options: dict, thresholds: Mapping[str, Mapping[str, float]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(FAILURE_RUNS, FAILURE_DIAGNOSTICS) of a FAILURE_LOG.

    Parameters
    ----------
    log : DataFrame
        FAILURE_LOG.
    options, thresholds : mapping
        The config's `analysis` and `diagnostics`.
    """
    runs, numbers = [], []
    for key, run in log.groupby(RUN, sort=False):
        named, table = dict(zip(RUN, key, strict=True)), as_own_log(run)
        size = int(named["G"])
        found = diagnose_run(table, size, (0.0, 1.0), options, thresholds)
        first = primary(found)
        runs.append(
            named
            | {
                "steps": len(run),
                "called": first.group if first else NONE,
                "fires": " ".join(dict.fromkeys(one.group for one in found if one.fired)),
                "onset": first.onset if first else np.nan,
            }
            | _live(table, size, LiveMonitor(options, thresholds))
        )
        numbers += [named | {name: getattr(one, name) for name in KEPT} for one in found]
    return (
        pd.DataFrame(runs, columns=list(FAILURE_RUNS.columns)),
        pd.DataFrame(numbers, columns=list(FAILURE_DIAGNOSTICS.columns)),
    )


def confusion(runs: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """The CONFUSION table: what runs with each induced failure were called, with exact intervals of level 1 - alpha.

    Parameters
    ----------
    runs : DataFrame
        FAILURE_RUNS.
    alpha : float
    """
    rows = []
    for induces in [NONE, *FAILURES]:
        these = runs[runs["induces"] == induces]
        for by, column in (("whole run", "called"), ("live", "live_called")) if len(these) else ():
            for called in CALLS:
                count = int((these[column] == called).sum())
                low, high = proportion_confint(count, len(these), alpha, method="beta")
                share = count / len(these)
                rows.append((induces, by, called, len(these), count, share, float(low), float(high)))
    return pd.DataFrame(rows, columns=list(CONFUSION.columns))
