"""One GRPO run as read from a log: a table of the study's names, and what was done to get there."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from grpo_dynamics.tables import NOT_NEGATIVE, POSITIVE, SHARE, column, schema

# Every column but `step`, `t` and `non_finite` is empty where the log has no such number.
OWN_LOG = schema(
    "log of a run",
    {
        "step": column(float, "optimiser step as the log counts it, or the row's number (the axis says which)"),
        "t": column(float, "optimiser steps made before the measurement, mean over the row's steps", NOT_NEGATIVE),
        "sample_age": column(float, "optimiser steps since the batch was sampled", NOT_NEGATIVE, nullable=True),
        "groups": column(float, "prompts of the batch", POSITIVE, nullable=True),
        "reward": column(float, "mean reward of the batch's completions, in the log's unit", nullable=True),
        "reward_std": column(
            float,
            "within-group standard deviation of the reward (population), mean over groups",
            NOT_NEGATIVE,
            nullable=True,
        ),
        "any_spread": column(
            float,
            "0 where the rewards of the row do not differ at all (reward_std of 0, however defined; the largest reward "
            "no larger than the smallest; a mean at a bound of the reward's range or the same in all rows), else 1",
            SHARE,
            nullable=True,
        ),
        "collapsed_share": column(float, "share of groups whose rewards are all equal", SHARE, nullable=True),
        "entropy": column(float, "policy entropy, nats per token", nullable=True),
        "kl": column(float, "KL to the reference policy, nats per token, by the log's estimator", nullable=True),
        "grad_norm": column(float, "norm of the gradient", NOT_NEGATIVE, nullable=True),
        "clip_share": column(float, "share of tokens whose ratio was clipped", SHARE, nullable=True),
        "ratio_max": column(float, "largest importance ratio pi/pi_old", NOT_NEGATIVE, nullable=True),
        "heldout_reward": column(float, "reward or accuracy on held-out problems, in the log's unit", nullable=True),
        "learning_rate": column(float, "eta", NOT_NEGATIVE, nullable=True),
        "loss": column(float, "the trainer's loss", nullable=True),
        "completion_length": column(float, "tokens per completion, mean", NOT_NEGATIVE, nullable=True),
        "truncated_share": column(float, "share of completions cut at the length limit", SHARE, nullable=True),
        "seconds": column(float, "wall time of the step", NOT_NEGATIVE, nullable=True),
        "non_finite": column(
            str,
            "columns whose number in this row was NaN or infinite, joined by spaces; empty if none",
            nullable=True,
        ),
    },
    unique=["step"],
)


@dataclass(frozen=True)
class Mapped:
    """A column of OWN_LOG, the log's key it was taken from, and what was done to it (empty if nothing)."""

    column: str
    key: str
    note: str = ""


@dataclass(frozen=True)
class RunLog:
    """A run out of a log.

    Attributes
    ----------
    name : str
        The run's name in its file where that holds several, else the name of the file.
    source : str
        The file or folder.
    format : str
        What it was read as, in words.
    table : DataFrame
        OWN_LOG, a row per logged step in order, train and held-out measurements of a step in one row.
    axis : str
        What `step` is, in words.
    reward_range : (low, high)
        Range that the reward can take: given, or [0, 1] where all rewards lie in it, or that of the rewards seen.
    G : int or None
        Group size, where it is given or the log says so.
    not_binary : str
        Why the reward cannot be binary (0 or 1 for each completion); empty if it may be.
    settings : dict
        Other hyperparameters that the log states: mu, K_ref, beta, loss_type and the like, by the study's names.
    mapping : tuple of Mapped
    ignored : tuple of str
        Keys of the log that were not used.
    notes : tuple of str
        What was found and done: seams, duplicates, gaps, summary rows, cut-off files; a sentence each.
    """

    name: str
    source: str
    format: str
    table: pd.DataFrame
    axis: str
    reward_range: tuple[float, float]
    G: int | None = None
    not_binary: str = ""
    settings: dict[str, float | str] = field(default_factory=dict)
    mapping: tuple[Mapped, ...] = ()
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
