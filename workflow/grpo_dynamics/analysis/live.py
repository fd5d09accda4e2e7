"""The diagnostics of a run while it goes on: checked now and then, alarms only when two checks agree.

Checking often gives chance many occasions. An alarm therefore needs the same failure in two checks in a row; how often
healthy runs are alarmed all the same is measured on real runs (claim C13).
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from grpo_dynamics.analysis.diagnosis import Diagnosis, diagnose_run

FIRST_CHECK = 20  # rows; before, the diagnostics have too little to say
EVERY = 10  # rows between two checks


def due(rows: int) -> bool:
    """Whether a run is checked after so many rows."""
    return rows >= FIRST_CHECK and rows % EVERY == 0


class LiveMonitor:
    """Diagnoses a run again and again, and says what is new.

    Parameters
    ----------
    options, thresholds : mapping
        The config's `analysis` and `diagnostics`.
    """

    def __init__(self, options: dict, thresholds: Mapping[str, Mapping[str, float]]):
        self._options, self._thresholds = options, thresholds
        self._fired: set[str] = set()
        self._alarmed: set[str] = set()

    def check(
        self, table: pd.DataFrame, G: int | None, reward_range: tuple[float, float], not_binary: str = ""
    ) -> list[Diagnosis]:
        """Diagnose what has been logged so far.

        Parameters
        ----------
        table : DataFrame
            OWN_LOG.
        G : int or None
            Group size, if known.
        reward_range : (low, high)
            Range of the reward.
        not_binary : str
            Why the reward cannot be binary; empty if it may be.

        Returns
        -------
        list of Diagnosis
            The new alarms: of each failure that fires in this check and the one before, and that was not given
            already, the first diagnosis.
        """
        fired: dict[str, Diagnosis] = {}
        for one in diagnose_run(table, G, reward_range, self._options, self._thresholds, not_binary):
            if one.fired:
                fired.setdefault(one.group, one)
        alarms = [one for group, one in fired.items() if group in self._fired - self._alarmed]
        self._fired = set(fired)
        self._alarmed |= {one.group for one in alarms}
        return alarms
