"""What exact finite-group sums predict of the real runs: time of the rise, and the spread within groups (claim B3).

Without anchor and momentum the logit moves as theta' = eta h_G(p), so that p' = eta p (1-p) h_G(p); TRL divides by the
unbiased standard deviation, hence that convention of h_G here. Adam divides the gradient by its own root mean square
over steps: it hides a constant factor in h_G, and where noise is the larger part of the gradient, it slows the runs
with more of it. The second prediction, half_rise_adam, divides the drift by the measured norm of the gradient.

Within a group of one prompt, k ~ Binomial(G, p). Prompts differ in p, which makes rewards within a group more alike:
E[k (G-k)] / G^2 = (1 - 1/G) (1 - rho) p (1-p) with the intraclass correlation rho = Var(p over prompts) / (p (1-p)).
The ratio of the variances at two G is free of rho where the runs have the same; the standard deviation's expectation
is the sum over the beta-binomial distribution of k with that rho (the binomial's h_G at rho = 0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import integrate, signal, stats

from grpo_dynamics.analysis.group_scatter import white_variance
from grpo_dynamics.analysis.series import each_run
from grpo_dynamics.theory.finite_group import group_gradient, h_G

WINDOW = 15  # freshly sampled batches of the local fits that give p
BINS = np.linspace(0, 1, 11)
LEAST = 5  # batches that a run needs in a bin of p
NAN = float("nan")
_SMALLEST = 1e-6  # intraclass correlations below it count as 0


def rise_time(start: float, end: float, G: int | None) -> float:
    """Time of p' = p (1-p) h_G(p) from `start` to `end`, in units of 1/eta; G None: h = sqrt(p (1-p)).

    Source: theory, section 4. Empty unless 0 < start < end < 1.
    """
    if not 0 < start < end < 1:
        return NAN

    def slowness(p: np.ndarray) -> np.ndarray:
        drift = np.sqrt(p * (1 - p)) if G is None else h_G(p, G, "unbiased")
        return 1 / (p * (1 - p) * drift)

    return float(integrate.fixed_quad(slowness, start, end, n=40)[0])


def group_spread(p: float, rho: float, G: int) -> float:
    """Expected within-group population standard deviation of G rewards, over sqrt(p (1-p)), for 0 < p < 1.

    k is beta-binomial with mean G p and intraclass correlation `rho` in [0, 1); binomial at rho = 0.
    """
    value = group_gradient(G)
    if rho < _SMALLEST:
        return float(h_G(p, G) / np.sqrt(p * (1 - p)))
    size = (1 - rho) / rho
    weight = stats.betabinom.pmf(np.arange(G + 1), G, p * size, (1 - p) * size)
    return float(weight @ value / np.sqrt(p * (1 - p)))


def smooth_reward(reward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local quadratic fit (Savitzky-Golay) of a reward series over WINDOW batches, and its noise.

    Returns
    -------
    p : array
        Within [0, 1]; the mean of a series of fewer than five batches.
    share : array
        Variance of p over the variance of the white part of a reward.
    """
    n = len(reward)
    window = min(WINDOW, n - 1 + n % 2)
    if window < 5:
        return np.full(n, np.clip(np.mean(reward), 0, 1)), np.full(n, 1 / n)
    half = window // 2
    places = np.clip(np.arange(n), half, n - 1 - half)  # the centres of the windows, whole ones at the ends too
    weights = np.array([signal.savgol_coeffs(window, 2, pos=pos, use="dot") for pos in range(window)])
    own = weights[np.arange(n) - places + half]
    series = np.lib.stride_tricks.sliding_window_view(reward, window)[places - half]
    return np.clip(np.sum(own * series, axis=1), 0, 1), np.sum(own**2, axis=1)


def by_reward(run: pd.DataFrame) -> pd.DataFrame:
    """Within-group variance and standard deviation of one run per bin of the reward p, over p(1-p) and its root.

    p is the run's own smoothed reward; p(1-p) of it is too small by the variance of its noise, which is added back.
    Columns p, variance, spread; only bins with LEAST batches or more.
    """
    fresh = run[run["sample_age"] == 0].sort_values("step")
    reward = fresh["reward"].to_numpy(float)
    p, share = smooth_reward(reward)
    table = pd.DataFrame(
        {
            "bin": np.clip(np.digitize(p, BINS) - 1, 0, len(BINS) - 2),
            "p": p,
            "binomial": p * (1 - p) + np.nan_to_num(white_variance(reward)) * share,
            "variance": fresh["reward_variance"].to_numpy(float),
            "spread": fresh["reward_std"].to_numpy(float),
        }
    )
    table["root"] = np.sqrt(table["binomial"])
    grouped = table.groupby("bin")
    sums = grouped.sum()[grouped.size() >= LEAST]
    found = pd.DataFrame(
        {
            "p": grouped["p"].mean(),
            "variance": sums["variance"] / sums["binomial"],
            "spread": sums["spread"] / sums["root"],
        }
    )
    return found[(found["variance"] > 0) & (found["p"] > 0) & (found["p"] < 1)]


def _run_values(table: pd.DataFrame, bins: pd.Index, G: int) -> dict[str, tuple[float, float]]:
    """Measured value and expectation of spread and variance of one run, means over `bins`."""
    rows = table.loc[bins]
    rho = np.clip(1 - rows["variance"] * G / (G - 1), 0, 1 - _SMALLEST)
    spread = [group_spread(p, r, G) for p, r in zip(rows["p"], rho, strict=True)]
    return {
        "spread": (float(rows["spread"].mean()), float(np.mean(spread))),
        "variance": (float(rows["variance"].mean()), 1 - 1 / G),
    }


def within_groups(low: pd.DataFrame, high: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Spread and variance within groups at two group sizes, compared at equal reward.

    Parameters
    ----------
    low, high : DataFrame
        RUN_LOG rows of one cell each.

    Returns
    -------
    dict
        Per quantity (spread, variance) and side an array (runs, 2): value and expectation. Without rows where no bin
        of the reward is held by every run of both cells: the runs are compared in equal phases only.
    """
    tables = [[by_reward(run) for _, run in each_run(cell)] for cell in (low, high)]
    sizes = [int(cell["G"].iloc[0]) for cell in (low, high)]
    bins = pd.Index(range(len(BINS) - 1))
    for table in (table for side in tables for table in side):
        bins = bins.intersection(table.index)
    if bins.empty:
        return {name: (np.empty((0, 2)), np.empty((0, 2))) for name in ("spread", "variance")}
    values = [[_run_values(table, bins, G) for table in side] for side, G in zip(tables, sizes, strict=True)]
    return {name: tuple(np.array([run[name] for run in side]) for side in values) for name in ("spread", "variance")}


def gradient_norm(run: pd.DataFrame, until: float, max_grad_norm: float) -> float:
    """Root mean square of the clipped gradient's norm up to step `until`: what Adam divides by as beta2 -> 1."""
    norm = run.loc[run["step"] <= max(until, 1.0), "grad_norm"].dropna().clip(upper=max_grad_norm)
    return float(np.sqrt(np.mean(norm**2))) if len(norm) else NAN


def contrast(
    low: Sequence[np.ndarray], high: Sequence[np.ndarray], alpha: float
) -> tuple[float, float, float, float, float]:
    """Mean over pairs of mean(low) - mean(high): estimate, interval, standard error and degrees of freedom.

    With one pair this is Welch's interval; with several, Satterthwaite's degrees of freedom serve the weighted sum of
    all variances. No interval where a side has fewer than two values or no variance is left.
    """
    estimate = float(np.mean([np.mean(a) - np.mean(b) for a, b in zip(low, high, strict=True)]))
    sides = [*low, *high]
    if min(map(len, sides)) < 2:
        return estimate, NAN, NAN, NAN, NAN
    parts = np.array([np.var(x, ddof=1) / len(x) for x in sides]) / len(low) ** 2
    if not parts.sum() > 0:
        return estimate, NAN, NAN, NAN, NAN
    dof = float(parts.sum() ** 2 / np.sum(parts**2 / np.array([len(x) - 1 for x in sides])))
    error = float(np.sqrt(parts.sum()))
    half = stats.t.ppf(1 - alpha / 2, dof) * error
    return estimate, estimate - half, estimate + half, error, dof


def log_ratio(
    low: Sequence[np.ndarray], high: Sequence[np.ndarray], leading: Sequence[float], alpha: float
) -> dict[str, float]:
    """Ratio low / high of the geometric means against its expectation, over one or several models.

    Parameters
    ----------
    low, high : sequences of (runs, 2) arrays, one per model
        Value and expectation of each run, positive.
    leading : sequence of float
        Each model's ratio at leading order.
    alpha : float
        The interval has level 1 - alpha.

    Returns
    -------
    dict
        effect, low, high, p, expected, expected_leading_order, p_expected, as in GROUP_SIZE; the effect is expected
        times the geometric mean of the runs' values over their expectations, and its interval likewise.
    """
    logs = [[np.log(side) for side in sides] for sides in (low, high)]
    rest = [[side[:, 0] - side[:, 1] for side in sides] for sides in logs]
    expected = float(np.mean([np.mean(a[:, 1]) - np.mean(b[:, 1]) for a, b in zip(*logs, strict=True)]))
    order = float(np.mean(np.log(leading)))
    estimate, lower, upper, error, dof = contrast(*rest, alpha)
    distances = np.abs([expected + estimate - order, estimate]) / error
    p, p_expected = 2 * stats.t.sf(distances, dof)
    values = np.exp([expected + estimate, expected + lower, expected + upper, expected, order])
    names = ("effect", "low", "high", "expected", "expected_leading_order")
    return dict(zip(names, map(float, values), strict=True)) | {"p": float(p), "p_expected": float(p_expected)}
