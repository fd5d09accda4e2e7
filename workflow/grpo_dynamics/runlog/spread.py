"""Whether a log's reward_std is the within-group standard deviation, by who wrote it and when.

TRL v0.14 to v0.21 write the mean over the groups of the within-group standard deviation. v0.22 to v0.26 write that of
the whole batch under scale_rewards="batch", and v0.27 on always do. The versions are told apart by the keys that came
with them: frac_reward_zero_std with v0.18, entropy with v0.20, step_time with v0.26, null for what has no number with
v1.0. TRL's standard deviation divides by G - 1; the study's, by G.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Whether reward_std is used, the factor to the population's value, and why."""

    used: bool
    factor: float
    note: str


def within_group(
    keys: set[str], nulls: bool, G: int | None, settings: dict[str, float | str], study: bool, trl: bool
) -> Spread:
    """What reward_std of a log is.

    Parameters
    ----------
    keys : set of str
        The log's keys in canonical form, without a leading train_.
    nulls : bool
        Whether the log has nulls.
    G : int or None
        Group size.
    settings : dict
        trl_version and scale_rewards, where stated.
    study : bool
        Whether it is this study's own run log.
    trl : bool
        Whether TRL wrote it.
    """
    if study:
        return Spread(True, 1.0, "")
    if not trl:
        return Spread(False, 1.0, "not used: whose standard deviation it is, a group's or the batch's, is not known")
    era, pooled = _era(keys, nulls, settings)
    if pooled:
        return Spread(False, 1.0, f"not used: {pooled}")
    if G is None:
        unknown = "divided by G - 1, and the group size is not known (--group-size)"
        return Spread(False, 1.0, f"not used: within groups ({era}), but {unknown}")
    return Spread(True, ((G - 1) / G) ** 0.5, f"within groups ({era}); times sqrt((G - 1)/G), to divide by G = {G}")


def _era(keys: set[str], nulls: bool, settings: dict[str, float | str]) -> tuple[str, str]:
    """The era in words, and why its reward_std is not, or not certainly, within groups (empty if it is)."""
    by_batch = str(settings.get("scale_rewards", "")).lower() == "batch"
    version = re.match(r"v?(\d+)\.(\d+)", str(settings.get("trl_version", "")))
    if version:
        found = (int(version[1]), int(version[2]))
        era = f"TRL {found[0]}.{found[1]}"
        if found >= (0, 27):
            return era, f"{era} pools it over the batch"
        return era, "scale_rewards is batch" if by_batch and found >= (0, 22) else ""
    if nulls or "step_time" in keys:
        return "", "the keys are those of TRL 0.26 or later, which from 0.27 on pools it over the batch"
    if by_batch:
        return "", "scale_rewards is batch"
    if "frac_reward_zero_std" not in keys:
        return "TRL 0.14 to 0.17, by its keys", ""
    if "entropy" not in keys:
        return "TRL 0.18 or 0.19, by its keys", ""
    return "TRL 0.20 to 0.25, by its keys, and unless scale_rewards is batch", ""
