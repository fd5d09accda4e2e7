"""Simulated runs, one per failure and a healthy one, written as TRL writes its log history.

They go through the reader and the diagnostics like anyone's log, so that a newcomer sees the format and the tool can
test itself. The rewards are binomial around a three-phase rise.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from grpo_dynamics.command import InputError
from grpo_dynamics.files import replacing
from grpo_dynamics.runlog.log import RunLog
from grpo_dynamics.runlog.read import read
from grpo_dynamics.theory.law import phi

STEPS, G, PROMPTS, SEED = 200, 8, 16, 1

Columns = dict[str, np.ndarray]


class Run(NamedTuple):
    """A simulated run: what it shows, which failures are to be found, and what is changed in the healthy one."""

    about: str
    expected: frozenset[str]
    change: Callable[[np.random.Generator, Columns], Columns]


def _grouped(rng: np.random.Generator, p: np.ndarray, same: float = 0.0) -> Columns:
    """Rewards of groups of mean p; in the share `same` of them all completions get one reward."""
    k = rng.binomial(G, np.clip(p, 0, 1)[:, None], (len(p), PROMPTS))
    one = G * rng.binomial(1, np.clip(p, 0, 1)[:, None], k.shape)
    k = np.where(rng.random(k.shape) < same, one, k)
    return {"reward": k.mean(axis=1) / G, "frac_reward_zero_std": np.isin(k, [0, G]).mean(axis=1)}


def _healthy(rng: np.random.Generator) -> Columns:
    t = np.arange(STEPS)
    rise = 1 - phi(t, 0.06, 1.3)
    p = 0.15 + 0.7 * rise

    def noise(size: float) -> np.ndarray:
        return np.exp(rng.normal(0, size, STEPS))

    return _grouped(rng, p) | {
        "p": p,
        "eval_reward": p,
        "entropy": 0.6 * np.exp(-rise) * noise(0.05),
        "kl": (1e-4 + 0.08 * rise) * noise(0.1),
        "grad_norm": (0.4 + p * (1 - p)) * noise(0.15),
        "loss": 1e-3 * rng.normal(0, 1, STEPS),
        "completions/mean_length": 180 + 40 * rise + rng.normal(0, 4, STEPS),
        "completions/clipped_ratio": np.clip(0.02 + rng.normal(0, 0.005, STEPS), 0, 1),
    }


def _decoupling(rng: np.random.Generator, log: Columns) -> Columns:
    t = np.arange(STEPS)
    return {"eval_reward": np.where(t > 80, np.maximum(log["p"] - 0.006 * (t - 80), 0.05), log["p"])}


def _flat(rng: np.random.Generator, p: float) -> Columns:
    level = np.full(STEPS, p)
    return _grouped(rng, level) | {"eval_reward": level}


def _concentration(rng: np.random.Generator, log: Columns) -> Columns:
    t = np.arange(STEPS)
    return _flat(rng, 0.3) | _grouped(rng, np.full(STEPS, 0.3), same=0.9) | {
        "entropy": 0.6 * np.exp(-np.minimum(t, 100) / 25) * np.exp(rng.normal(0, 0.05, STEPS))
    }  # fmt: skip


def _instability(rng: np.random.Generator, log: Columns) -> Columns:
    t = np.arange(STEPS)
    fall = 1 / (1 + np.exp(-(t - 90) / 6))
    p = log["p"] * (1 - 0.97 * fall)
    grown = {"kl": log["kl"] + 0.5 * fall, "entropy": log["entropy"] + fall, "grad_norm": log["grad_norm"] * 20**fall}
    return _grouped(rng, p) | {"eval_reward": p} | grown


def _non_finite(rng: np.random.Generator, log: Columns) -> Columns:
    broken = np.isin(np.arange(STEPS), [120, 121, 130])
    return {name: np.where(broken, np.nan, log[name]) for name in ("loss", "grad_norm")}


def _kl(rng: np.random.Generator, log: Columns) -> Columns:
    return {"kl": log["kl"] * np.exp(np.maximum(np.arange(STEPS) - 100, 0) / 20)}


def _truncation(rng: np.random.Generator, log: Columns) -> Columns:
    return {"completions/clipped_ratio": np.clip((np.arange(STEPS) - 60) / 160, 0.02, 1)}


RUNS = {
    "healthy": Run("a rise to a plateau, in which nothing is wrong", frozenset(), lambda rng, log: {}),
    "decoupling": Run(
        "the train reward rises on while the held-out reward falls", frozenset({"decoupling"}), _decoupling
    ),
    "easy-prompts": Run(
        "prompts that are almost always solved", frozenset({"degeneracy"}), lambda rng, log: _flat(rng, 0.992)
    ),
    "hard-prompts": Run(
        "prompts that are hardly ever solved", frozenset({"degeneracy"}), lambda rng, log: _flat(rng, 0.004)
    ),
    "concentration": Run("the entropy goes, and the reward stays", frozenset({"concentration"}), _concentration),
    "instability": Run("a rise, then a collapse with growing gradients", frozenset({"instability"}), _instability),
    "non-finite": Run("loss and gradient norm are NaN in some steps", frozenset({"non_finite"}), _non_finite),
    "kl": Run("the policy runs away from its reference", frozenset({"kl"}), _kl),
    "truncation": Run("ever more completions reach the length limit", frozenset({"truncation"}), _truncation),
}


def history(name: str) -> list[dict[str, float]]:
    """TRL's log history of a simulated run: train rows at every step, rows of the evaluation at every tenth."""
    rng = np.random.default_rng(SEED)
    log = _healthy(rng)
    log |= RUNS[name].change(rng, log)
    heldout = rng.binomial(200, np.clip(log.pop("eval_reward"), 0, 1)) / 200
    del log["p"]
    rows: list[dict[str, float]] = []
    for t in range(STEPS):
        row = {"epoch": round(0.01 * (t + 1), 2), "step": t + 1, "learning_rate": 1e-6}
        rows.append(row | {key: round(float(column[t]), 7) for key, column in log.items()})
        if (t + 1) % 10 == 0:
            rows.append({"epoch": row["epoch"], "step": t + 1, "eval_reward": float(heldout[t])})
    return rows


def write(name: str, path: Path) -> None:
    """Write a simulated run as a trainer_state.json, in one step.

    Raises
    ------
    InputError
        If no file can be written there.
    """
    try:
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({"global_step": STEPS, "log_history": history(name)}, indent=1))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'error').lower()}, expected a file to write") from error


def load(name: str) -> RunLog:
    """A simulated run as the reader sees it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trainer_state.json"
        write(name, path)
        return replace(read(path, group_size=G)[0], name=name, source=f"simulated run, {name}")
