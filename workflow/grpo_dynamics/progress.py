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
    every : int
        Steps between two lines.
    done : int
        Steps done before, by an interrupted job.
    """

    def __init__(self, label: str, total: int, every: int, done: int = 0):
        self._label, self._total, self._every, self._before = label, total, every, done
        self._started = time.monotonic()

    def report(self, step: int, **values: float) -> None:
        """Print a line if `step` (from 1) is due; `values` are shown by name with three decimals."""
        if step % self._every and step != self._total:
            return
        left = (time.monotonic() - self._started) / (step - self._before) * (self._total - step)
        shown = "".join(f"  {name} {value:.3f}" for name, value in values.items())
        print(f"{self._label}: step {step}/{self._total}{shown}  {left:.0f} s left", flush=True)
