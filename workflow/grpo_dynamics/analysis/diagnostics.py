"""The four diagnostics of a run (claim C13, theory.md section 5): numbers with intervals, thresholds and verdicts.

A diagnostic fires only when its whole interval lies beyond the threshold, so that a noisy number does not fire by
chance. Each number is relative to the run itself: a ratio, or a change over the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from scipy import stats

from grpo_dynamics.analysis.fit_table import covered_at, identify
from grpo_dynamics.analysis.fits import fit
from grpo_dynamics.analysis.noise import inflation, lag1
from grpo_dynamics.analysis.series import each_run, heldout_reward, train_reward
from grpo_dynamics.analysis.tables import DIAGNOSTICS
from grpo_dynamics.theory.finite_group import h_G

NAN = float("nan")
MIN_HELDOUT = 8  # measurements that the two held-out numbers need; the second half then has four
MIN_CURVED = 40  # points from which a cubic leaves enough residuals to measure their autocorrelation
ENTROPY_FLOOR = 1e-6  # nats, so that a policy without any randomness has a logarithm
LEAST_SIGNAL = 0.05  # share of groups with a signal below which collapse says nothing about the policy

# (group, diagnostic, side on which it fires)
NUMBERS = [
    ("decoupling", "rate_ratio", "above"),
    ("decoupling", "heldout_change", "below"),
    ("degeneracy", "signal_share", "below"),
    ("degeneracy", "within_group_spread", "below"),
    ("concentration", "entropy_log_change", "below"),
    ("instability", "grad_norm_log_growth", "above"),
    ("instability", "ratio_log_growth", "above"),
]


@dataclass(frozen=True)
class Number:
    """A number with its interval; `missing` says why it cannot be assessed, `excuse` why it is not a failure."""

    value: float = NAN
    low: float = NAN
    high: float = NAN
    missing: str = ""
    excuse: str = ""


def judge(number: Number, threshold: float, fires_when: str) -> tuple[str, str]:
    """(verdict, reason) of a number against its threshold."""
    if number.missing or not (np.isfinite(number.low) and np.isfinite(number.high)):
        return "not assessable", number.missing or "no interval"
    beyond = number.low > threshold if fires_when == "above" else number.high < threshold
    if not beyond:
        return "ok", ""
    if number.excuse:
        return "ok", number.excuse
    return "fires", f"{number.value:.3g} [{number.low:.3g}, {number.high:.3g}] lies {fires_when} {threshold:g}"


def change(t: np.ndarray, y: np.ndarray, level: float) -> Number:
    """Change of y over its whole time by the Theil-Sen slope.

    Sen's interval takes residuals as independent; it is widened about the slope for their autocorrelation. In a
    series long enough that is the autocorrelation about a cubic, which follows a slow start and a plateau: about the
    line, such a curve's lack of fit would pass for autocorrelation.
    """
    slope, intercept, low, high = stats.theilslopes(y, t, alpha=level)
    trend = Polynomial.fit(t, y, 3)(t) if len(t) >= MIN_CURVED else intercept + slope * t
    rest = y - trend
    wider = np.sqrt(inflation(lag1(rest - rest.mean())))
    duration = t[-1] - t[0]
    ends = (slope + wider * (end - slope) for end in (low, high))
    return Number(float(slope * duration), *(float(end * duration) for end in ends))


def ratio_of_means(found: np.ndarray, expected: np.ndarray, level: float) -> Number:
    """mean(found) / mean(expected), its interval by linearisation, widened for autocorrelation."""
    ratio = float(np.mean(found) / np.mean(expected))
    rest = found - ratio * expected
    error = np.std(rest, ddof=1) * np.sqrt(inflation(lag1(rest - rest.mean())) / len(rest)) / np.mean(expected)
    half = stats.t.ppf((1 + level) / 2, len(rest) - 1) * error
    return Number(ratio, float(ratio - half), float(ratio + half))


def collapse_expected(p: np.ndarray, G: int) -> np.ndarray:
    """Probability that G independent binary rewards of mean p are all equal, p^G + (1 - p)^G."""
    return p**G + (1 - p) ** G


def _rate_ratio(run: pd.DataFrame, level: float) -> Number:
    """Fitted saturation rate of the train reward over that of the held-out reward (single exponentials)."""
    rates = []
    for name, (t, y) in (("train", train_reward(run)), ("held-out", heldout_reward(run))):
        if len(t) < MIN_HELDOUT:
            return Number(missing=f"{name} reward: {len(t)} measurements, {MIN_HELDOUT} needed")
        single = fit("exponential", t, y)
        rise = single.estimates["R_inf"] - single.estimates["R_0"]
        noise = np.std(single.residuals)
        if abs(rise) < 2 * noise / np.sqrt(len(t)) or np.ptp(y) == 0:
            return Number(missing=f"{name} reward: no trend")
        k = single.estimates["k"]
        if k * (t[-1] - t[0]) < 1:
            return Number(missing=f"{name} reward: plateau not reached")
        if not np.isfinite(single.se["k"]):
            return Number(missing=f"{name} reward: rate not identifiable")
        rates.append((np.log(k), single.se["k"] / k))
    (train, train_error), (heldout, heldout_error) = rates
    half = stats.norm.ppf((1 + level) / 2) * np.hypot(train_error, heldout_error)
    ratio = train - heldout
    return Number(float(np.exp(ratio)), float(np.exp(ratio - half)), float(np.exp(ratio + half)))


def _heldout_change(run: pd.DataFrame, level: float) -> Number:
    """Change of the held-out reward over the second half of the run; no failure where the train reward falls too."""
    t, y = heldout_reward(run)
    if len(t) < MIN_HELDOUT:
        return Number(missing=f"held-out reward: {len(t)} measurements, {MIN_HELDOUT} needed")
    middle = run["step"].max() / 2
    number = change(t[t >= middle], y[t >= middle], level)
    t, y = train_reward(run)
    excuse = "the train reward falls too" if change(t[t >= middle], y[t >= middle], level).high < 0 else ""
    return Number(number.value, number.low, number.high, excuse=excuse)


def _fresh_tail(run: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """The second half of the freshly sampled batches, and the reward there averaged over nine batches.

    The average, and not a batch's own mean, stands for p: the expectations below are curved in p.
    """
    fresh = run[run["sample_age"] == 0].sort_values("step")
    p = fresh["reward"].rolling(9, center=True, min_periods=1).mean().clip(0, 1).to_numpy()
    tail = len(fresh) - max(len(fresh) // 2, 3)
    return fresh.iloc[max(tail, 0) :], p[max(tail, 0) :]


def _signal_share(run: pd.DataFrame, level: float) -> Number:
    """Share of groups with unequal rewards over the share that independent rewards would leave, second half."""
    tail, p = _fresh_tail(run)
    expected = 1 - collapse_expected(p, int(run["G"].iloc[0]))
    if len(tail) < 3 or expected.mean() < LEAST_SIGNAL:
        return Number(missing=f"reward {p.mean():.3f}: groups of this reward collapse by chance")
    return ratio_of_means(1 - tail["collapsed_share"].to_numpy(float), expected, level)


def _within_group_spread(run: pd.DataFrame, level: float) -> Number:
    """Within-group standard deviation of the reward over that of independent rewards, second half."""
    tail, p = _fresh_tail(run)
    expected = h_G(p, int(run["G"].iloc[0]))  # E sqrt(k (G - k)) / G, the population standard deviation
    if len(tail) < 3 or expected.mean() < LEAST_SIGNAL / 2:
        return Number(missing=f"reward {p.mean():.3f}: hardly any spread is left to expect")
    return ratio_of_means(tail["reward_std"].to_numpy(float), expected, level)


def _entropy_log_change(run: pd.DataFrame, level: float, options: dict) -> Number:
    """Change of log entropy while the reward rises: up to the fitted start of the plateau, or the run's end."""
    t, y = train_reward(run)
    if len(t) < options["min_points"]:
        return Number(missing="the reward does not rise")
    law, _, _, reason = identify(t, y, options)
    if reason in ("no trend", "no independent points") or law.estimates["R_inf"] <= law.estimates["R_0"]:
        return Number(missing="the reward does not rise")
    rising = run[(run["step"] - 1 <= covered_at(law, 0.95)) & run["entropy"].notna()].sort_values("step")
    if len(rising) < MIN_HELDOUT:
        return Number(missing=f"rise with {len(rising)} entropies, {MIN_HELDOUT} needed")
    entropy = np.log(np.maximum(rising["entropy"].to_numpy(float), ENTROPY_FLOOR))
    return change(rising["step"].to_numpy(float), entropy, level)


def _grad_norm_log_growth(run: pd.DataFrame, level: float) -> Number:
    """Change of the log gradient norm over the second half of the run.

    The first half is left out: there the norm grows in a healthy run too, as ever fewer groups are all wrong.
    """
    rows = run[(run["step"] > run["step"].max() / 2) & (run["grad_norm"] > 0)].sort_values("step")
    if len(rows) < MIN_HELDOUT:
        return Number(missing=f"{len(rows)} gradient norms above 0 in the second half, {MIN_HELDOUT} needed")
    return change(rows["step"].to_numpy(float), np.log(rows["grad_norm"].to_numpy(float)), level)


def _ratio_log_growth(run: pd.DataFrame, level: float) -> Number:
    """Change of the log of the largest importance ratio over the run, at the oldest sample age."""
    oldest = run["sample_age"].max()
    if oldest == 0:
        return Number(missing="K_ref = 1: the ratio is 1 by construction")
    rows = run[(run["sample_age"] == oldest) & (run["ratio_max"] > 0)].sort_values("step")
    if len(rows) < MIN_HELDOUT:
        return Number(missing=f"{len(rows)} batches at age {oldest}, {MIN_HELDOUT} needed")
    return change(rows["step"].to_numpy(float), np.log(rows["ratio_max"].to_numpy(float)), level)


def numbers(run: pd.DataFrame, options: dict) -> dict[str, Number]:
    """All diagnostics of one run (rows of RUN_LOG), by name; `options` is the config's `analysis`."""
    level = 1 - options["alpha"]
    return {
        "rate_ratio": _rate_ratio(run, level),
        "heldout_change": _heldout_change(run, level),
        "signal_share": _signal_share(run, level),
        "within_group_spread": _within_group_spread(run, level),
        "entropy_log_change": _entropy_log_change(run, level, options),
        "grad_norm_log_growth": _grad_norm_log_growth(run, level),
        "ratio_log_growth": _ratio_log_growth(run, level),
    }


def diagnose(runs: pd.DataFrame, options: dict, thresholds: dict[str, float]) -> pd.DataFrame:
    """The DIAGNOSTICS table of a run log.

    Parameters
    ----------
    runs : DataFrame
        RUN_LOG.
    options, thresholds : dict
        The config's `analysis` and `diagnostics`; the latter names a threshold for every diagnostic.
    """
    rows = []
    for (model, size, seed), run in each_run(runs):
        found = numbers(run, options)
        for group, name, side in NUMBERS:
            number, threshold = found[name], float(thresholds[name])
            verdict, reason = judge(number, threshold, side)
            rows.append(
                {
                    "model": model,
                    "G": size,
                    "seed": seed,
                    "group": group,
                    "diagnostic": name,
                    "value": number.value,
                    "low": number.low,
                    "high": number.high,
                    "threshold": threshold,
                    "fires_when": side,
                    "verdict": verdict,
                    "reason": reason,
                }
            )
    return pd.DataFrame(rows, columns=list(DIAGNOSTICS.columns))
