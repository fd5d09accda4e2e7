"""Where a log's steps go back: runs appended to each other, and runs that were resumed."""

from __future__ import annotations

import numpy as np


def split(position: list[float], train: list[bool]) -> tuple[list[list[int]], list[str]]:
    """Rows of each run of a log, by the steps' order.

    A row at or before the first step of the rows so far begins another run. A row in their middle resumes the run: the
    rows from there on count, those that they replace do not. Steps in no order at all are rows that were not sorted.

    Parameters
    ----------
    position : list of float
        Step of each row, finite.
    train : list of bool
        Whether the row is one of training; held-out measurements may stand anywhere.

    Returns
    -------
    (runs, notes)
        Indices of the rows of each run, and a sentence per seam.
    """
    order = [index for index, is_train in enumerate(train) if is_train]
    steps = np.array([position[index] for index in order])
    back = int((np.diff(steps) < 0).sum())
    if back > 1 and len(steps) < 3 * (back + 1):
        return [sorted(range(len(position)), key=lambda index: position[index])], [
            f"The rows are not in the order of their steps ({back} of {len(steps)} go back): sorted."
        ]

    runs: list[list[int]] = [[]]
    notes = []
    first, last = None, -np.inf
    for index, (step, is_train) in enumerate(zip(position, train, strict=True)):
        if is_train and first is not None and step < last:
            if step <= first:
                notes.append(f"The steps go back from {last:g} to {step:g}: another run begins there.")
                runs.append([])
                first = step
            else:
                replaced = [one for one in runs[-1] if position[one] >= step]
                notes.append(
                    f"The steps go back from {last:g} to {step:g}: taken as a run that was resumed; the "
                    f"{len(replaced)} earlier rows from there on are replaced by the later ones."
                )
                runs[-1] = [one for one in runs[-1] if position[one] < step]
        if is_train:
            first = step if first is None else first
            last = step
        runs[-1].append(index)
    return runs, notes


def spacing(steps: np.ndarray) -> float:
    """The usual distance of two logged steps, the smaller one of two equally frequent; 1 for fewer than two steps."""
    distances = np.diff(np.unique(steps))
    if not len(distances):
        return 1.0
    values, counts = np.unique(distances, return_counts=True)
    return float(values[counts.argmax()])


def gaps(steps: np.ndarray) -> str:
    """A sentence on the steps that are missing between the rows; empty if none is."""
    steps = np.unique(steps)
    usual = spacing(steps)
    distances = np.diff(steps)
    wide = np.flatnonzero(distances > 1.5 * usual)
    if not len(wide):
        return ""
    missing = np.round(distances[wide] / usual - 1).sum()
    at = wide[0]
    return (
        f"Rows are missing in {len(wide)} {'place' if len(wide) == 1 else 'places'}, first between the steps "
        f"{steps[at]:g} and {steps[at + 1]:g}: {missing:g} in all, by the usual distance of {usual:g}."
    )
