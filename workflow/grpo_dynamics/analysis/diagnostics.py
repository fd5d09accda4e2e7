"""The numbers that the diagnostics of a run rest on (claim C13, theory.md section 5), with intervals and onsets.

Each number is relative to the run itself: a ratio, a share, a change over the run, or a fall from the best that the run
had reached. Numbers of the same failure complement each other: a run need not have what one of them asks for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from grpo_dynamics.analysis.fits import fit
from grpo_dynamics.analysis.onset import Fall, fall, first_beyond, running
from grpo_dynamics.analysis.subject import (
    FEWEST,
    NAN,
    Number,
    Subject,
    change,
    level_of,
    log_change,
    log_growth,
    mean,
    ratio_of_means,
    shift,
)
from grpo_dynamics.theory.finite_group import h_G

HELD = 0.1  # share of its level that the train reward may lose while it still counts as held
QUARTER, FIFTH = 0.25, 0.2  # parts of a run that are compared with each other
ENTROPY_FLOOR = 1e-6  # nats, so that a policy without any randomness has a logarithm
SMALL_KL = 0.05  # nats per token: a healthy run of the study ends at 0.08 to 0.16
LEAST_SIGNAL = 0.05  # share of groups with a signal below which collapse says nothing about the policy


def collapse_expected(p: np.ndarray, G: int) -> np.ndarray:
    """Probability that G independent binary rewards of mean p are all equal, p^G + (1 - p)^G."""
    return p**G + (1 - p) ** G


def rate_ratio(subject: Subject) -> Number:
    """Fitted saturation rate of the train reward over that of the held-out reward (single exponentials)."""
    if other := subject.other_scale(subject.rows("heldout_reward")["heldout_reward"]):
        return Number(missing=f"{other}: their scales may differ")
    rates = []
    for name, column in (("train", "reward"), ("held-out", "heldout_reward")):
        rows = subject.rows(column)
        t = (rows["t"] if column == "reward" else rows["step"]).to_numpy(float)
        y = rows[column].to_numpy(float)
        if len(t) < FEWEST:
            return Number(missing=f"{name} reward: {len(t)} measurements, {FEWEST} needed")
        limits = (min(subject.reward_range[0], y.min()), max(subject.reward_range[1], y.max()))
        if np.ptp(y) == 0:
            return Number(missing=f"{name} reward: no trend")
        single = fit("exponential", t, y, limits)
        rise = single.estimates["R_inf"] - single.estimates["R_0"]
        if rise < 2 * np.std(single.residuals) / np.sqrt(len(t)):
            return Number(missing=f"{name} reward: no rise")
        k = single.estimates["k"]
        if k * (t[-1] - t[0]) < 1:
            return Number(missing=f"{name} reward: plateau not reached")
        if not np.isfinite(single.se["k"]):
            return Number(missing=f"{name} reward: rate not identifiable")
        rates.append((np.log(k), single.se["k"] / k))
    (train, train_error), (heldout, heldout_error) = rates
    half = stats.norm.ppf((1 + subject.level) / 2) * np.hypot(train_error, heldout_error)
    ratio = train - heldout
    return Number(float(np.exp(ratio)), float(np.exp(ratio - half)), float(np.exp(ratio + half)))


def _course(found: Fall, step: np.ndarray) -> str:
    if found.low <= 0:
        return f"from {found.best:.3g} to {found.end:.3g} at the end"
    return (
        f"from {found.best:.3g} (last reached at step {step[found.top]:g}) to {found.end:.3g} at the end, a third of "
        f"the way down from step {step[found.since]:g} on"
    )


def heldout_fall(subject: Subject) -> Number:
    """Share of the best held-out reward that the last measurements have lost, while the train reward has not."""
    rows, train = subject.rows("heldout_reward"), subject.rows("reward")
    if len(rows) < 4:
        return Number(missing=f"held-out reward: {len(rows)} measurements, 4 needed")
    step, y = rows["step"].to_numpy(float), rows["heldout_reward"].to_numpy(float)
    floor = min(0.0, float(y.min()))
    found = fall(y, floor, subject.level)
    if found is None:
        return Number(missing="held-out reward: never above its lowest")
    detail = _course(found, step)
    number = Number(found.value, found.low, found.high, step[found.since], detail=detail)
    # Where half of the fall has happened: there the train reward is compared with what it was at the held-out best.
    there = step[found.since :][y[found.since :] < (found.best + found.end) / 2]
    if len(there) == 0 or len(train) == 0:
        return number
    spacing = max(float(np.median(np.diff(step))), 1.0)
    before, then = (_around(train, at, spacing) for at in (step[found.top], there[0]))
    if not np.isfinite(before + then):
        return replace(number, missing="no train reward where the held-out reward fell")
    number = replace(number, detail=f"{detail}, train reward {before:.3g} and {then:.3g} around the fall")
    base = min(0.0, float(train["reward"].min()), subject.floor)
    fell_too = before > base and (before - then) / (before - base) > HELD
    return replace(number, excuse="the train reward fell with it") if fell_too else number


def heldout_gain_share(subject: Subject) -> Number:
    """Gain of the held-out reward over that of the train reward, between the first and last quarter of evaluations."""
    heldout, train = subject.rows("heldout_reward"), subject.rows("reward")
    if len(heldout) < FEWEST or len(train) < FEWEST:
        return Number(missing=f"{len(heldout)} held-out and {len(train)} train rewards, {FEWEST} of each needed")
    if other := subject.other_scale(heldout["heldout_reward"]):
        return Number(missing=f"{other}: their scales may differ")
    # An evaluation that begins late sees only what is left of the rise.
    train = train[train["step"].between(heldout["step"].iloc[0], heldout["step"].iloc[-1])]
    if len(train) < FEWEST:
        return Number(missing=f"{len(train)} train rewards while the held-out reward was measured, {FEWEST} needed")
    gains = [shift(rows[name].to_numpy(float), subject.level, QUARTER)
             for rows, name in ((train, "reward"), (heldout, "heldout_reward"))]  # fmt: skip
    if gains[0].low <= 0:
        return Number(missing="the train reward does not rise while the held-out reward is measured")
    # Fieller would be exact; the train gain is far from 0 where it counts, so that linearisation does.
    value = gains[1].value / gains[0].value
    half = np.hypot(gains[1].high - gains[1].value, value * (gains[0].high - gains[0].value)) / gains[0].value
    detail = f"train {gains[0].value:+.3g}, held-out {gains[1].value:+.3g}"
    return Number(value, float(value - half), float(value + half), detail=detail)


def _around(train: pd.DataFrame, at: float, spacing: float) -> float:
    """Mean train reward of the rows that lead up to a step."""
    near = train[(train["step"] > at - spacing) & (train["step"] <= at)]["reward"]
    return float(near.mean()) if len(near) else NAN


def signal_share(subject: Subject, name: str, threshold: float) -> Number:
    """Share with a signal, second half; no failure if a quarter of the run before it had one.

    Parameters
    ----------
    subject : Subject
    name : {"collapsed_share", "any_spread"}
        collapsed_share: share of groups whose rewards differ. any_spread: share of rows in which those of any group do,
        which a log tells that has a standard deviation of the reward, of whatever definition.
    threshold : float
        Below which it fires.
    """
    rows = subject.rows(name, "reward")
    if len(rows) < FEWEST:
        what = "share of collapsed groups" if name == "collapsed_share" else "standard deviation of the reward"
        return Number(missing=f"{what}: {len(rows)} rows in the log, {FEWEST} needed")
    signal, step = rows[name].to_numpy(float), rows["step"].to_numpy(float)
    signal = 1 - signal if name == "collapsed_share" else signal
    late = rows.index.isin(subject.second_half(rows).index) | (np.arange(len(rows)) >= len(rows) - 3)
    p = subject.share(rows["reward"].to_numpy(float))
    known = name == "collapsed_share" and subject.reward_range == (0.0, 1.0) and not subject.not_binary
    number = replace(
        mean(signal[late], subject.level),
        onset=first_beyond(step, running(signal) < threshold),
        detail=easy_or_hard(float(p[late].mean()), float(signal[late].mean()), subject.G) if known else "",
    )
    quarter = len(rows) // 4
    before = np.convolve(signal[~late], np.full(quarter, 1 / quarter), "valid") if (~late).sum() >= quarter else [0.0]
    best = int(np.argmax(before))
    if before[best] < threshold:
        return number
    way = "was learned" if p[late].mean() > p[best : best + quarter].mean() else "was lost"
    where = f"over steps {step[best]:g} to {step[best + quarter - 1]:g}"
    return replace(number, excuse=f"there was a signal ({before[best]:.2f} {where}), which {way}")


def easy_or_hard(p: float, signal: float, G: int | None) -> str:
    """What the collapsed groups are, from the mean of binary rewards and the share of groups with a signal.

    A group of binary rewards that is not collapsed has a mean between 1/G and 1 - 1/G, so that the share of collapsed
    groups with all rewards right lies between two bounds.
    """
    if signal >= 1:
        return ""
    edge = 1 / G if G else 0.0
    low, high = ((p - signal * (1 - edge)) / (1 - signal), (p - signal * edge) / (1 - signal))
    low, high = (min(max(end, 0.0), 1.0) for end in (low, high))
    kind = "easy (all right)" if low + high > 1 else "hard (all wrong)"
    return f"collapsed groups mostly {kind}: {100 * low:.0f} to {100 * high:.0f} % of them are all right"


def over_chance(subject: Subject, name: str, threshold: float) -> Number:
    """A statistic of the groups, second half, over what independent binary rewards of the same mean would give.

    Parameters
    ----------
    subject : Subject
    name : {"collapsed_share", "reward_std"}
        collapsed_share: share of groups that are not collapsed, over 1 - p^G - (1-p)^G. reward_std: within-group
        standard deviation over h_G(p) = E sqrt(k (G - k)) / G. The reward averaged over nine rows, and not a row's
        own, stands for p: the expectations are curved in p.
    threshold : float
        Ratio below which it fires.
    """
    rows = subject.rows(name, "reward")
    if subject.G is None:
        return Number(missing="the group size is not known: give it with --group-size")
    if subject.reward_range != (0.0, 1.0):
        return Number(missing="the reward is not between 0 and 1, where chance has no expectation")
    if subject.not_binary:
        return Number(missing=f"the reward is not binary ({subject.not_binary}), so that chance has no expectation")
    if len(rows) < 6:
        what = "share of collapsed groups" if name == "collapsed_share" else "within-group spread"
        return Number(missing=f"{what}: {len(rows)} rows in the log, 6 needed")
    p = np.clip(running(rows["reward"].to_numpy(float)), 0, 1)
    found = rows[name].to_numpy(float)
    if name == "collapsed_share":
        found, expected, least = 1 - found, 1 - collapse_expected(p, subject.G), LEAST_SIGNAL
    else:
        expected, least = h_G(p, subject.G), LEAST_SIGNAL / 2
    tail = slice(len(rows) - max(len(rows) // 2, 3), None)
    if expected[tail].mean() < least:
        return Number(missing=f"reward {p[tail].mean():.3f}: groups of this reward collapse by chance")
    low = running(found) < threshold * np.maximum(expected, least)
    onset = first_beyond(rows["step"].to_numpy(float), low)
    detail = f"{found[tail].mean():.3g} found, {expected[tail].mean():.3g} by chance"
    return replace(ratio_of_means(found[tail], expected[tail], subject.level), onset=onset, detail=detail)


def entropy_log_change(subject: Subject, threshold: float) -> Number:
    """Change of log entropy while the reward rises: up to the fitted start of the plateau, or the run's end."""
    end = subject.rise_end
    if end is None:
        return Number(missing="the reward does not rise")
    rows = subject.rows("entropy")
    return _entropy_change(subject, rows[rows["t"] <= end], threshold)


def entropy_lost(subject: Subject, threshold: float, collapsed: bool) -> Number:
    """Change of log entropy where nothing justifies a loss: no rise, after the rise, or groups collapsed beyond chance.

    Some entropy is the price of a rise. A policy that loses it without one, or after it, has concentrated on what it
    did before. And groups that collapse beyond chance while the entropy goes have lost their signal to the policy, not
    to the prompts: then the whole run counts.
    """
    rows, end = subject.rows("entropy"), subject.rise_end
    if not collapsed and end is not None:
        rows = rows[rows["t"] > end]
        if rows.empty:
            return Number(missing="the reward rises to the end, and the groups have not collapsed beyond chance")
    return _entropy_change(subject, rows, threshold)


def _entropy_change(subject: Subject, rows: pd.DataFrame, threshold: float) -> Number:
    if len(rows) < FEWEST:
        return Number(missing=f"{len(rows)} entropies in the stretch that counts, {FEWEST} needed")
    log = np.log(np.maximum(rows["entropy"].to_numpy(float), ENTROPY_FLOOR))
    return log_change(shift(log, subject.level, FIFTH), rows["step"].to_numpy(float), log, threshold)


def reward_fall(subject: Subject) -> Number:
    """Share of the best train reward, over the lowest possible, that the last rows have lost."""
    rows = subject.rows("reward")
    if len(rows) < 4:
        return Number(missing=f"reward: {len(rows)} rows, 4 needed")
    step, y = rows["step"].to_numpy(float), rows["reward"].to_numpy(float)
    floor = min(subject.floor, float(y.min()))
    found = fall(y, floor, subject.level)
    if found is None:
        return Number(missing="the reward was never above its lowest")
    over = "" if subject.range_known or floor == 0 else f", over the lowest reward seen, {floor:.3g}"
    return Number(found.value, found.low, found.high, step[found.since], detail=_course(found, step) + over)


def kl_unrewarded(subject: Subject, threshold: float) -> Number:
    """KL to the reference at the end of a run whose reward does not rise: a policy that moves far for nothing."""
    number = level_of(subject, "kl", threshold, "KLs")
    if number.missing or subject.rise_end is None:
        return number
    return Number(missing="the reward rises")


def kl_log_growth(subject: Subject, threshold: float) -> Number:
    """Change of the log KL over the second half, no failure where the KL is still small at the end.

    The first half is left out: every policy starts at its reference, where the KL is 0.
    """
    number = log_growth(subject.second_half(subject.rows("kl")), "kl", subject.level, threshold, "KLs")
    end = level_of(subject, "kl", SMALL_KL, "KLs")
    small = not end.missing and end.high < SMALL_KL
    return replace(number, excuse=f"the KL is still below {SMALL_KL:g} nats at the end") if small else number


def ratio_log_growth(subject: Subject, threshold: float) -> Number:
    """Change of the log of the largest importance ratio over the run, at the oldest sample age."""
    rows = subject.rows("ratio_max")
    if len(rows) == 0:
        return Number(missing="no importance ratios in the log")
    oldest = rows["sample_age"].max()
    if (rows["ratio_max"] == 1).all():
        return Number(missing="every ratio is 1: each batch is used for one step")
    rows = rows if np.isnan(oldest) else rows[rows["sample_age"] == oldest]
    return log_growth(rows, "ratio_max", subject.level, threshold, "importance ratios")


def non_finite_share(subject: Subject) -> Number:
    """Share of rows with a NaN or an infinity; a count, so that the interval is the number."""
    named = subject.table["non_finite"].fillna("")
    bad = named.ne("")
    value = float(bad.mean())
    onset = float(subject.table.loc[bad, "step"].iloc[0]) if bad.any() else NAN
    names = sorted(set(" ".join(named).split()))
    detail = f"{int(bad.sum())} of {len(bad)} rows, in {', '.join(names)}" if names else ""
    return Number(value, value, value, onset, detail=detail)


def truncated_growth(subject: Subject, threshold: float) -> Number:
    """Change of the share of truncated completions over the run."""
    rows = subject.rows("truncated_share")
    if len(rows) < FEWEST:
        return Number(missing=f"share of truncated completions: {len(rows)} rows in the log, {FEWEST} needed")
    step, y = rows["step"].to_numpy(float), rows["truncated_share"].to_numpy(float)
    smooth = running(y)
    onset = first_beyond(step, smooth > smooth[0] + threshold)
    return replace(change(step, y, subject.level), onset=onset, detail=f"from {smooth[0]:.3g} to {smooth[-1]:.3g}")
