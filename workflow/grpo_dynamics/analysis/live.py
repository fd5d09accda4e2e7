"""The diagnostics of a run while it goes on: checked now and then, alarms only when two checks agree.

Checking often gives chance many occasions. An alarm therefore needs the same failure in two checks in a row; how often
healthy runs are alarmed all the same is measured on real runs (claim C13).
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from grpo_dynamics.analysis.diagnosis import Diagnosis, diagnose_run
from grpo_dynamics.runlog.log import OWN_LOG

FIRST_CHECK = 20  # rows; before, the diagnostics have too little to say
EVERY = 10  # rows between two checks


class LiveMonitor:
    """Collects the rows of a run and diagnoses what has been logged so far.

    Parameters
    ----------
    G : int or None
        Group size, if known.
    reward_range : (low, high)
        Range of the reward.
    options, thresholds : mapping
        The config's `analysis` and `diagnostics`.
    """

    def __init__(
        self,
        G: int | None,
        reward_range: tuple[float, float],
        options: dict,
        thresholds: Mapping[str, Mapping[str, float]],
    ):
        self._G, self._range, self._options, self._thresholds = G, reward_range, options, thresholds
        self._rows: list[Mapping] = []
        self._fired: dict[str, Diagnosis] = {}
        self._alarmed: set[str] = set()

    def add(self, row: Mapping) -> None:
        """Add a row: columns of OWN_LOG, those that are missing are empty."""
        self._rows.append(row)

    @property
    def due(self) -> bool:
        """Whether the last row is one after which to check."""
        return len(self._rows) >= FIRST_CHECK and len(self._rows) % EVERY == 0

    def check(self) -> list[Diagnosis]:
        """Diagnose the rows so far; returns the new alarms, the first diagnosis that fired of each new failure."""
        table = pd.DataFrame(self._rows).reindex(columns=list(OWN_LOG.columns))
        table["non_finite"] = table["non_finite"].fillna("")
        found = diagnose_run(table, self._G, self._range, self._options, self._thresholds)
        fired: dict[str, Diagnosis] = {}
        for one in found:
            if one.fired:
                fired.setdefault(one.group, one)
        alarms = [one for group, one in fired.items() if group in self._fired and group not in self._alarmed]
        self._fired = fired
        self._alarmed |= {one.group for one in alarms}
        return alarms
