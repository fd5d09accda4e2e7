"""What the keys of other people's logs mean: one table of synonyms, and how a key is looked up in it.

A key is compared in its canonical form: lower case, every separator an underscore, and without the words mean, avg and
average ("critic/score/mean" is critic_score, "rewards_avg" is rewards). Where the full form is not in the table, it is
tried without a leading train_. The names are those of TRL, transformers, verl, OpenRLHF, this study's own logs, and
the ones that people's own loops use.
"""

from __future__ import annotations

import re
from functools import lru_cache

# Column of OWN_LOG -> canonical keys, the preferred first. An entry with a * is a pattern in which * is anything.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "step": (
        "global_step", "training_global_step", "trainer_global_step", "train_global_step", "train_step", "step",
        "steps", "optimizer_step", "optimiser_step", "training_step", "update", "updates", "iteration", "iter", "_step",
    ),
    "reward": (
        # verl's critic/rewards has the KL penalty taken off where that is in the reward; critic/score has not.
        "reward", "rewards", "critic_score", "critic_rewards", "train_reward", "train_rewards", "total_reward",
        "reward_total", "r_total", "env_reward", "episode_reward", "objective_scores", "train_score", "score", "scores",
        "success_rate", "train_success_rate", "solve_rate", "pass_rate", "train_accuracy", "train_accuracies",
    ),
    "reward_std": ("reward_std",),
    "collapsed_share": ("frac_reward_zero_std", "collapsed_share", "zero_std_ratio", "frac_zero_std"),
    "entropy": (
        "entropy", "actor_entropy", "actor_entropy_loss", "policy_entropy", "entropy_loss", "objective_entropy",
        "token_entropy",
    ),
    # actor/ppo_kl is left out: it is the distance to the policy that sampled the batch, not to the reference.
    "kl": (
        "kl", "actor_kl_loss", "kl_loss", "actor_reward_kl_penalty", "critic_kl", "kl_div", "kl_divergence", "kl_ref",
        "ref_kl", "objective_kl", "kl_to_ref", "policy_kl",
    ),
    "grad_norm": ("grad_norm", "actor_grad_norm", "gradient_norm", "policy_grad_norm", "total_grad_norm"),
    "clip_share": (
        "clip_share", "clip_ratio_region", "clip_ratio", "actor_pg_clipfrac", "pg_clipfrac", "clipfrac",
        "clip_fraction", "clip_frac", "policy_clipfrac",
    ),
    # TRL's sampling/importance_sampling_ratio is left out: it compares sampler and trainer, not pi and pi_old.
    "ratio_max": ("ratio_max", "max_ratio", "importance_ratio_max", "actor_ratio_max"),
    "heldout_reward": (
        "heldout_reward", "held_out_reward", "eval_reward", "val_reward", "validation_reward", "test_reward",
        "eval_score", "val_score", "test_score", "val_core_*_reward_mean@*", "val_core_*_acc_mean@*",
        "val_core_*mean@*", "val_test_score", "val_test_score_*", "eval_accuracy", "eval_acc", "val_accuracy",
        "val_accuracies", "val_acc", "validation_accuracy", "test_accuracy", "test_acc", "heldout_accuracy",
        "eval_success_rate", "eval_exact_match", "eval_em", "exact_match", "em", "accuracy", "accuracies", "acc",
        "pass@1", "eval_pass@1", "val_*_accuracy", "eval_*_accuracy", "eval_*_acc", "eval_*_pass1", "eval_*_em",
    ),
    "learning_rate": ("learning_rate", "lr", "actor_lr", "policy_lr"),
    "loss": ("loss", "actor_pg_loss", "actor_loss", "policy_loss", "pg_loss"),
    "completion_length": (
        "completions_length", "completion_length", "response_length", "completion_len", "response_len",
        "num_completion_tokens", "generation_length",
    ),
    "truncated_share": (
        "completions_clipped_ratio", "truncated_share", "clipped_ratio", "response_length_clip_ratio", "truncated_rate",
        "truncation_rate", "truncated_ratio", "truncate_ratio",
    ),
    "seconds": ("step_time", "perf_time_per_step", "timing_s_step", "seconds", "time_per_step", "step_seconds"),
    "sample_age": ("sample_age",),
    "groups": ("groups",),
}  # fmt: skip

PER_RUN = ("variant", "model", "G", "seed", "run", "run_id", "run_name", "experiment")  # tell the runs of a table apart
SUMMARY = "train_runtime"  # transformers writes it once, into the row that sums a run up

_EXACT = {key: (column, rank) for column, keys in SYNONYMS.items() for rank, key in enumerate(keys) if "*" not in key}
_PATTERNS = [
    (re.compile(re.escape(key).replace(r"\*", ".*")), column, rank)
    for column, keys in SYNONYMS.items()
    for rank, key in enumerate(keys)
    if "*" in key
]


def canonical(key: str) -> str:
    """The form in which keys are compared."""
    words = re.sub(r"[^a-z0-9@]+", "_", key.strip().lower())
    kept = "_".join(word for word in words.strip("_").split("_") if word not in ("mean", "avg", "average"))
    return "_step" if words == "_step" else kept


@lru_cache(maxsize=10_000)
def resolve(key: str) -> tuple[str, int] | None:
    """Column of OWN_LOG that a key stands for, and its place in the order of preference; None if it stands for none."""
    name = canonical(key)
    for form in dict.fromkeys((name, name.removeprefix("train_"))):
        if form in _EXACT:
            return _EXACT[form]
        for pattern, column, rank in _PATTERNS:
            if pattern.fullmatch(form):
                return column, rank
    return None


_NUMBER = r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)"
_WRAPPED = re.compile(rf"\s*(?:(?:np|numpy)\.\w+\(|tensor\()?\s*({_NUMBER})\s*\)?\s*", re.IGNORECASE)
NUMBER = re.compile(_NUMBER, re.IGNORECASE)


def number(value: object) -> float | None:
    """A log's value as a number, quoted ones included; None where it is no number (True and False are none)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    if isinstance(value, str) and (found := _WRAPPED.fullmatch(value[:100])):
        return float(found[1].replace("_", "")) if not found[1].endswith("_") else None
    return None
