"""Progress of long work, one line now and then on standard output; everything else a job says goes to its log."""

from __future__ import annotations

import time


class Progress:
    """Reports steps done, some values and the time that is left.

    Parameters
    ----------
    label : str
        What is worked on; starts every line.
    total : int
        Number of steps.
    done : int
        Steps done before, by an interrupted job.
    seconds : float
        Least time between two lines; the last step is always reported.
    """

    def __init__(self, label: str, total: int, done: int = 0, seconds: float = 15.0):
        self._label, self._total, self._before, self._seconds = label, total, done, seconds
        self._started = self._reported = time.monotonic()

    def report(self, step: int, **values: float) -> None:
        """Print a line if one is due after `step` steps; `values` are shown by name with three decimals."""
        now = time.monotonic()
        if step < self._total and now - self._reported < self._seconds:
            return
        self._reported = now
        left = (now - self._started) / (step - self._before) * (self._total - step)
        shown = "".join(f"  {name} {value:.3f}" for name, value in values.items())
        print(f"{self._label}: {step}/{self._total}{shown}  {left:.0f} s left", flush=True)
