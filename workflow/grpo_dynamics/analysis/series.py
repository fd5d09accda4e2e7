"""Reward series out of the run log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from grpo_dynamics.runlog.log import OWN_LOG
from grpo_dynamics.tables import check

STUDY = "study"  # the variant that stands for the study's own runs
CELL = ["variant", "model", "G"]
RUN = ["model", "G", "seed"]


@dataclass(frozen=True)
class Series:
    """A reward series: time in optimiser steps made before the measurement, and the reward then."""

    variant: str
    model: str
    G: int
    seed: int | None
    t: np.ndarray
    y: np.ndarray


def train_reward(run: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Time and reward of one run where the batch was freshly sampled.

    A batch at step n is sampled from a policy that has been updated n - 1 times, so its time is n - 1.
    """
    fresh = run[run["sample_age"] == 0].sort_values("step")
    return fresh["step"].to_numpy(float) - 1, fresh["reward"].to_numpy(float)


def as_own_log(run: pd.DataFrame) -> pd.DataFrame:
    """Rows of one run of RUN_LOG with the columns of OWN_LOG; an empty measurement is one that was not finite."""
    measured = ["entropy", "kl", "grad_norm", "ratio_max", "loss"]
    table = run.sort_values("step", ignore_index=True)
    bad = [" ".join(name for name in measured if np.isnan(row[name])) for _, row in table[measured].iterrows()]
    table = table.assign(t=table["step"] - 1.0, clip_share=table["clip_low"] + table["clip_high"], non_finite=bad)
    table["any_spread"] = (table["collapsed_share"] < 1).astype(float)
    return check(table[list(OWN_LOG.columns)], OWN_LOG)


def heldout_reward(run: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Time and held-out reward of one run where it was measured: after step n, so its time is n."""
    measured = run[run["heldout_reward"].notna()].sort_values("step")
    return measured["step"].to_numpy(float), measured["heldout_reward"].to_numpy(float)


def each_run(runs: pd.DataFrame) -> Iterator[tuple[tuple[str, int, int], pd.DataFrame]]:
    """The runs of a run log, in the log's order, as ((model, G, seed), rows)."""
    for (model, size, seed), run in runs.groupby(RUN, sort=False):
        yield (str(model), int(size), int(seed)), run


def cell_mean(cell: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Time and mean reward over the seeds of one cell, at the times that every run has."""
    curves = [pd.Series(y, index=t) for _, run in each_run(cell) for t, y in [train_reward(run)]]
    table = pd.concat(curves, axis=1, join="inner").sort_index()
    return table.index.to_numpy(float), table.mean(axis=1).to_numpy(float)


def with_variants(runs: pd.DataFrame, variants: pd.DataFrame) -> pd.DataFrame:
    """The study's own runs (RUN_LOG) and the variants' (VARIANT_LOG) in one VARIANT_LOG."""
    return pd.concat([runs.assign(variant=STUDY), variants], ignore_index=True)


def all_series(runs: pd.DataFrame) -> Iterator[Series]:
    """Every run's series, and after the runs of a cell their mean (seed None); `runs` is a VARIANT_LOG."""
    for (variant, model, size), cell in runs.groupby(CELL, sort=False):
        for (_, _, seed), run in each_run(cell):
            yield Series(str(variant), str(model), int(size), seed, *train_reward(run))
        yield Series(str(variant), str(model), int(size), None, *cell_mean(cell))
