"""A run under diagnosis, and the statistics that its numbers are made with: each gives a Number with its interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from scipy import signal, stats

from grpo_dynamics.analysis.fit_table import covered_at, identify
from grpo_dynamics.analysis.noise import inflation, lag1
from grpo_dynamics.analysis.onset import first_beyond, running

NAN = float("nan")
FEWEST = 8  # rows that a slope or a fitted rate needs
SAMPLED = {"reward", "reward_std", "collapsed_share"}  # the same in all steps on one batch
MIN_CURVED = 40  # points from which a cubic leaves enough residuals to measure their autocorrelation


@dataclass(frozen=True)
class Number:
    """A number with its interval.

    Attributes
    ----------
    value, low, high : float
    onset : float
        Step at which it began to deviate; NaN if it did not.
    missing : str
        Why it cannot be assessed.
    excuse : str
        Why it is no failure even beyond its threshold.
    detail : str
        What else was measured, for the evidence.
    """

    value: float = NAN
    low: float = NAN
    high: float = NAN
    onset: float = NAN
    missing: str = ""
    excuse: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Subject:
    """A run to be diagnosed.

    Attributes
    ----------
    table : DataFrame
        OWN_LOG.
    G : int or None
        Group size, if known.
    reward_range : (low, high)
        Range of the reward.
    options : dict
        The config's `analysis`.
    not_binary : str
        Why the reward cannot be binary; empty if it may be.
    """

    table: pd.DataFrame
    G: int | None
    reward_range: tuple[float, float]
    options: dict
    not_binary: str = ""

    @property
    def level(self) -> float:
        return 1 - self.options["alpha"]

    @cached_property
    def range_known(self) -> bool:
        """Whether the range is the reward's own, and not merely that of the rewards seen."""
        reward = self.table["reward"]
        return self.reward_range == (0.0, 1.0) or self.reward_range != (reward.min(), reward.max())

    @property
    def floor(self) -> float:
        """Lowest reward there is, as far as known: 0 for one that was never seen below."""
        return self.reward_range[0] if self.range_known else min(0.0, self.reward_range[0])

    def other_scale(self, heldout: pd.Series) -> str:
        """Why the held-out reward is on another scale than the train reward, as percent and share are; or empty."""
        if heldout.empty:
            return ""
        low, high = self.reward_range
        room = 0.0 if self.range_known else high - low
        if heldout.min() < low - room or heldout.max() > high + room:
            return f"the held-out measure reaches {heldout.max():.3g}, the reward lies in [{low:.3g}, {high:.3g}]"
        if self.reward_range != (0.0, 1.0) and heldout.between(0, 1).all():
            return "the held-out measure lies in [0, 1], the reward does not"
        return ""

    def rows(self, *columns: str) -> pd.DataFrame:
        """Rows that have all of `columns`; only those of a fresh sample if the sample is what is measured."""
        kept = self.table[list(columns)].notna().all(axis=1)
        if SAMPLED & set(columns):
            kept &= ~(self.table["sample_age"] > 0)
        return self.table[kept]

    def second_half(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows[rows["step"] > (self.table["step"].min() + self.table["step"].max()) / 2]

    @cached_property
    def rise_end(self) -> float | None:
        """Steps up to the fitted start of the plateau, infinite if not reached; None if the reward does not rise."""
        train = self.rows("reward")
        if len(train) < self.options["min_points"] or np.ptp(train["reward"]) == 0:
            return None
        t, y = train["t"].to_numpy(float), train["reward"].to_numpy(float)
        law, _, _, reason = identify(t, y, self.options, self.reward_range)
        if reason in ("no trend", "no independent points") or law.estimates["R_inf"] <= law.estimates["R_0"]:
            return None
        end = covered_at(law, 0.95)
        return end if np.isfinite(end) else np.inf

    def share(self, reward: np.ndarray) -> np.ndarray:
        """Rewards as shares of their range."""
        low, high = self.reward_range
        return (reward - low) / (high - low) if high > low else np.zeros(len(reward))


def change(t: np.ndarray, y: np.ndarray, level: float) -> Number:
    """Change of y over its whole time by the Theil-Sen slope.

    Sen's interval takes residuals as independent; it is widened about the slope for their autocorrelation. In a
    series long enough that is the autocorrelation about a cubic, which follows a slow start and a plateau: about the
    line, such a curve's lack of fit would pass for autocorrelation.

    Parameters
    ----------
    t, y : (n,) arrays
        Steps, increasing, and the series there.
    level : float
        Of the interval.
    """
    slope, intercept, low, high = stats.theilslopes(y, t, alpha=level)
    trend = Polynomial.fit(t, y, 3)(t) if len(t) >= MIN_CURVED else intercept + slope * t
    rest = y - trend
    wider = np.sqrt(inflation(lag1(rest - rest.mean())))
    duration = t[-1] - t[0]
    ends = (slope + wider * (end - slope) for end in (low, high))
    return Number(float(slope * duration), *(float(end * duration) for end in ends))


def ratio_of_means(found: np.ndarray, expected: np.ndarray, level: float) -> Number:
    """mean(found) / mean(expected), its interval by linearisation, widened for autocorrelation.

    Parameters
    ----------
    found, expected : (n,) arrays
        n of 2 or more; the mean of `expected` is not 0.
    level : float
        Of the interval.
    """
    ratio = float(np.mean(found) / np.mean(expected))
    rest = found - ratio * expected
    error = np.std(rest, ddof=1) * np.sqrt(inflation(lag1(rest - rest.mean())) / len(rest)) / np.mean(expected)
    half = stats.t.ppf((1 + level) / 2, len(rest) - 1) * error
    return Number(ratio, float(ratio - half), float(ratio + half))


def mean(values: np.ndarray, level: float) -> Number:
    """Mean of a series with its interval, widened for autocorrelation."""
    return ratio_of_means(values, np.ones(len(values)), level)


def shift(y: np.ndarray, level: float, part: float) -> Number:
    """Mean of the last part of a series minus that of its first.

    The interval rests on the residuals about a line in each part, widened for their autocorrelation.

    Parameters
    ----------
    y : (n,) array
        n of 3 or more.
    level : float
        Of the interval.
    part : float
        Share of the series that each part has, at least three rows.
    """
    size = max(int(len(y) * part), 3)
    ends, variance = [y[:size], y[-size:]], 0.0
    for values in ends:
        rest = signal.detrend(values)
        variance += np.sum(rest**2) / (size - 2) * inflation(lag1(rest)) / size
    half = stats.t.ppf((1 + level) / 2, 2 * (size - 2)) * np.sqrt(variance)
    value = float(ends[1].mean() - ends[0].mean())
    return Number(value, float(value - half), float(value + half))


def log_growth(rows: pd.DataFrame, name: str, level: float, threshold: float, what: str) -> Number:
    """Change of the log (natural) of a column over `rows`, and where it passed `threshold`.

    Parameters
    ----------
    rows : DataFrame
        Rows of OWN_LOG; those whose number is not above 0 are left out.
    name, what : str
        The column, and its numbers in words.
    level : float
        Of the interval.
    threshold : float
        Change from the first rows at which the onset lies; below 0 for a fall.
    """
    rows = rows[rows[name] > 0]
    if len(rows) < FEWEST:
        return Number(missing=f"{len(rows)} {what} above 0 {'' if len(rows) else '(or none logged) '}in the stretch "
                      f"that counts, {FEWEST} needed")  # fmt: skip
    step, log = rows["step"].to_numpy(float), np.log(rows[name].to_numpy(float))
    return log_change(change(step, log, level), step, log, threshold)


def log_change(number: Number, step: np.ndarray, log: np.ndarray, threshold: float) -> Number:
    """`number` with the first step at which a logarithm had changed by `threshold`, and its course in words."""
    smooth = running(log)
    beyond = (smooth - smooth[0]) * np.sign(threshold) > abs(threshold)
    detail = f"from {np.exp(smooth[0]):.3g} to {np.exp(smooth[-1]):.3g} over steps {step[0]:g} to {step[-1]:g}"
    return replace(number, onset=first_beyond(step, beyond), detail=detail)


def level_of(subject: Subject, name: str, threshold: float, what: str) -> Number:
    """Mean of a column over the last quarter of its rows."""
    rows = subject.rows(name)
    last = rows[name].to_numpy(float)[-max(len(rows) // 4, 3) :]
    if len(rows) < 3:
        return Number(missing=f"{len(rows)} {what} in the log, 3 needed")
    onset = first_beyond(rows["step"].to_numpy(float), running(rows[name].to_numpy(float)) > threshold)
    return replace(mean(last, subject.level), onset=onset, detail=f"mean over the last {len(last)} rows")
