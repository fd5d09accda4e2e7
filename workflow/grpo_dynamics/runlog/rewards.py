"""What the rewards of a log are: whether those of a row differ at all, and whether they can be binary."""

from __future__ import annotations

import numpy as np
import pandas as pd

SAME = 20  # rows of one and the same mean from which on the reward counts as constant
ROUNDED = 0.01  # share by which a standard deviation may lie below its bound by rounding
MOST_COMPLETIONS = 2**16  # completions in a row, at most, that a mean of binary rewards is looked for in


def fill_spread(table: pd.DataFrame, limits: tuple[float, float], known: bool) -> pd.Series:
    """`any_spread`, filled where nothing tells it directly: by a mean at a bound, or by one that never changes.

    Parameters
    ----------
    table : DataFrame
        OWN_LOG.
    limits : (low, high)
        Range of the reward.
    known : bool
        Whether that is the reward's own range, and not that of the rewards seen.
    """
    reward = table["reward"]
    measured = reward.dropna()
    if len(measured) >= SAME and measured.nunique() == 1:
        differ = pd.Series(0.0, table.index)
    elif known:
        differ = (~reward.isin(limits)).astype(float)
    else:
        return table["any_spread"]
    return table["any_spread"].fillna(differ.where(reward.notna()))


def not_binary(
    table: pd.DataFrame, G: int | None, limits: tuple[float, float], components: dict[str, np.ndarray]
) -> str:
    """Why a reward cannot be binary (0 or 1 for each completion); empty if it may be.

    A group of binary rewards that do not all agree has a standard deviation of sqrt(G - 1)/G or more. Where the share
    of such groups is not known, the means themselves are looked at: of binary rewards they are shares of one number of
    completions.

    Parameters
    ----------
    table : DataFrame
        OWN_LOG.
    G : int or None
        Group size, if known.
    limits : (low, high)
        Range of the reward.
    components : dict
        Reward of each function that the reward is put together from, by its name; an array like the table's `reward`.
    """
    if limits != (0.0, 1.0):
        return "its range is not 0 to 1"
    used = {name: values for name, values in components.items() if np.nanmax(np.abs(values), initial=0) > 0}
    reward = table["reward"].to_numpy(float)
    if len(used) > 1 and not any(np.allclose(reward, values, atol=1e-6, equal_nan=True) for values in used.values()):
        return f"it is the sum of {len(used)} rewards"
    if G is None:
        return ""
    least = np.sqrt(G - 1) / G
    rows = table[table[["reward", "reward_std", "collapsed_share"]].notna().all(axis=1)]
    if len(rows):
        found, bound = float(rows["reward_std"].mean()), float((1 - rows["collapsed_share"]).mean() * least)
        small = found < (1 - ROUNDED) * bound - 1e-6
        return f"its spread within groups is {found:.3g}, and that of binary ones {bound:.3g} or more" if small else ""
    if table["reward_std"].notna().any() and not _are_shares(table["reward"].dropna().to_numpy(float), G):
        return "its means are no shares of one number of completions"
    return ""


def _are_shares(means: np.ndarray, G: int) -> bool:
    """Whether all means are, to the digits that they have, whole numbers over one multiple of the group size."""
    decimals = next((digits for digits in range(7) if np.allclose(means, np.round(means, digits), 0, 1e-9)), 7)
    completions = np.arange(G, MOST_COMPLETIONS + 1, G, dtype=float)
    for mean in means:
        count = mean * completions
        completions = completions[np.abs(count - np.round(count)) <= completions * 0.5 * 10.0**-decimals + 1e-6]
    return len(completions) > 0
