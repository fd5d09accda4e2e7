"""Simulated runs, one per failure and a healthy one, written as TRL writes its log history.

They go through the reader and the diagnostics like anyone's log, so that a newcomer sees the format and the tool can
test itself. The rewards are binomial around a three-phase rise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from grpo_dynamics.theory.law import phi

STEPS, G, PROMPTS, SEED = 200, 8, 16, 1

Columns = dict[str, np.ndarray]


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
    return _grouped(rng, p) | {"eval_reward": p, "kl": log["kl"] + 5 * fall, "entropy": log["entropy"] + fall}


def _non_finite(rng: np.random.Generator, log: Columns) -> Columns:
    broken = np.isin(np.arange(STEPS), [120, 121, 130])
    return {name: np.where(broken, np.nan, log[name]) for name in ("loss", "grad_norm")}


def _kl(rng: np.random.Generator, log: Columns) -> Columns:
    return {"kl": log["kl"] * np.exp(np.maximum(np.arange(STEPS) - 100, 0) / 20)}


def _truncation(rng: np.random.Generator, log: Columns) -> Columns:
    return {"completions/clipped_ratio": np.clip((np.arange(STEPS) - 60) / 160, 0.02, 1)}


# Kind: (the group that is to be found; what is changed in the healthy run, whose columns are given)
KINDS: dict[str, tuple[str, Callable[[np.random.Generator, Columns], Columns]]] = {
    "healthy": ("none", lambda rng, log: {}),
    "decoupling": ("decoupling", _decoupling),
    "easy-prompts": ("degeneracy", lambda rng, log: _flat(rng, 0.992)),
    "hard-prompts": ("degeneracy", lambda rng, log: _flat(rng, 0.004)),
    "concentration": ("concentration", _concentration),
    "instability": ("instability", _instability),
    "non-finite": ("non_finite", _non_finite),
    "kl": ("kl", _kl),
    "truncation": ("truncation", _truncation),
}


def history(kind: str) -> list[dict[str, float]]:
    """TRL's log history of a simulated run: train rows at every step, rows of the evaluation at every tenth."""
    rng = np.random.default_rng(SEED)
    log = _healthy(rng)
    log |= KINDS[kind][1](rng, log)
    heldout = rng.binomial(200, np.clip(log.pop("eval_reward"), 0, 1)) / 200
    del log["p"]
    rows: list[dict[str, float]] = []
    for t in range(STEPS):
        rows.append({"step": t + 1, "learning_rate": 1e-6} | {name: float(column[t]) for name, column in log.items()})
        if (t + 1) % 10 == 0:
            rows.append({"step": t + 1, "eval_reward": float(heldout[t])})
    return rows


def write(kind: str, path: Path) -> None:
    """Write a simulated run as a trainer_state.json, in one step."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps({"global_step": STEPS, "log_history": history(kind)}, indent=1))
    os.replace(temporary, path)
