"""The reward series of one's own log, as a fit takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo_dynamics.runlog.log import RunLog


@dataclass(frozen=True)
class Series:
    """A reward series out of a log.

    Attributes
    ----------
    t, y : (n,) ndarray
        Optimiser steps made (mean over the steps that a row averages), and the reward in the log's unit, raw.
    width : (n,) ndarray of int
        Steps that a row averages, 1 where it does not or where its t does not tell.
    origin : float
        t from which a fit counts time: 0, the start of training, unless the log begins long after it.
    limits : (low, high)
        Range within which a fit looks for R_0 and R_inf.
    notes : tuple of str
    """

    t: np.ndarray
    y: np.ndarray
    width: np.ndarray
    origin: float
    limits: tuple[float, float]
    notes: tuple[str, ...]

    @property
    def last(self) -> np.ndarray:
        """The last of the steps that a row averages, from the origin on: the time that `fit` takes."""
        return self.t + (self.width - 1) / 2 - self.origin


def time_unit(log: RunLog) -> str:
    """What the log's steps count: row (of a log without steps), rollout or (optimiser) step.

    verl, known by the names of its numbers, counts rollouts, on each of which it makes K_ref optimiser steps.
    """
    if "number of the row" in log.axis:  # the reader's words
        return "row"
    verl = any(one.key.startswith(("critic/", "actor/")) for one in log.mapping)
    return "rollout" if verl and log.settings.get("K_ref") != 1 else "step"


def learning_rates(log: RunLog) -> np.ndarray:
    """The log's learning rates above 0, in its order."""
    rates = log.table["learning_rate"].to_numpy(float)
    return rates[np.isfinite(rates) & (rates > 0)]


def changes(rates: np.ndarray) -> bool:
    """Whether learning rates differ by more than 5 %."""
    return bool(len(rates) and rates.max() > 1.05 * rates.min())


def reward_series(log: RunLog) -> Series:
    """The freshly sampled train rewards of a log, as a fit takes them."""
    table = log.table[~(log.table["sample_age"] > 0)].sort_values("step")
    step, t, y = (table[name].to_numpy(float) for name in ("step", "t", "reward"))
    notes = []
    good = np.isfinite(y) & np.isfinite(t) & (np.diff(np.maximum.accumulate(t), prepend=-np.inf) > 0)
    if not good.all():
        notes.append(
            f"{int((~good).sum())} of {len(good)} rows have no reward or no time of their own, and are left out."
        )
    step, t, y = step[good], t[good], y[good]
    width = _widths(step, t)
    if len(width) and width.max() > 1:
        notes.append(f"Rows average up to {width.max()} steps; the curves are fitted as such averages.")
    first = t - (width - 1) / 2
    origin = 0.0
    if len(t) > 1 and first[0] > (t[-1] - t[0]) / 2:
        origin = float(np.floor(first[0]))
        notes.append(
            f"The log begins {first[0]:g} steps after the start of training, of which it tells nothing: "
            "R_0 and the slow start are those of the log."
        )
    low, high = log.reward_range
    rewards = log.table[["reward", "heldout_reward"]].to_numpy(float)
    rewards = rewards[np.isfinite(rewards)]
    if (low, high) != (0.0, 1.0) and len(rewards) and low >= rewards.min() and high <= rewards.max():
        span = (high - low) or 1.0
        low, high = low - span, high + span
        notes.append(
            f"The reward's range is not known; a plateau is looked for between {low:.3g} and {high:.3g}. "
            "Give it with --reward-range."
        )
    return Series(t, y, width, origin, (float(low), float(high)), tuple(notes))


def _widths(step: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Steps that each row averages: a row at step n over w steps has t = n - (w + 1)/2; 1 where no integer w fits."""
    w = 2 * (step - t) - 1
    most = np.floor(np.diff(step, prepend=0.0))  # averages do not overlap
    fits = (np.abs(w - np.round(w)) < 1e-6) & (w >= 1)
    return np.where(fits, np.clip(np.round(w), 1, np.maximum(most, 1)), 1).astype(np.int64)
