"""Hyperparameters that a log states, by the study's names."""

from __future__ import annotations

import re

from grpo_dynamics.runlog.keys import number

# The study's name -> endings of dotted keys (TRL's GRPOConfig, verl's and OpenRLHF's configs), the preferred first.
NAMES: dict[str, tuple[str, ...]] = {
    "G": (
        "num_generations", "rollout.n", "rollout_n", "n_samples_per_prompt", "group_size", "rollouts_per_prompt",
        "completions_per_prompt", "generations_per_prompt", "samples_per_prompt", "rollouts per prompt",
        "completions per prompt", "generations per prompt", "samples per prompt", "G",
    ),
    "beta": ("beta", "kl_coef", "init_kl_coef", "kl_beta"),
    "mu": ("adam_beta1", "mu"),
    "K_ref": ("num_iterations", "K_ref"),
    "eta": ("learning_rate", "optim.lr", "actor_learning_rate", "lr", "eta"),
    "loss_type": ("loss_type",),
    "scale_rewards": ("scale_rewards",),
    "clip_epsilon": ("epsilon", "clip_epsilon"),
    "max_completion_length": ("max_completion_length", "max_response_length", "generate_max_len"),
    "trl_version": ("trl_version",),
}  # fmt: skip
WORDS = ("loss_type", "scale_rewards", "trl_version")
OTHERS = (
    "gradient_accumulation_steps", "steps_per_generation", "ppo_epochs", "ppo_mini_batch_size", "data.train_batch_size",
)  # fmt: skip

_ENDINGS = sorted({key for keys in NAMES.values() for key in keys if len(key) > 3} | set(OTHERS), key=len, reverse=True)
STATED = re.compile(
    rf"(?<![\w-])((?:[\w.]{{0,100}}\.)?(?:{'|'.join(re.escape(key) for key in _ENDINGS)}))['\"]?\s*[=:]\s*"
    r"(['\"]?[\w.+-]{1,40}['\"]?)",
    re.IGNORECASE,
)


def _ending(stated: dict[str, object], ending: str) -> list[object]:
    """Values of the keys that end like this."""
    low = ending.lower()
    return [value for key, value in stated.items() if key.lower() == low or key.lower().endswith(f".{low}")]


def _number(stated: dict[str, object], *endings: str) -> float | None:
    for ending in endings:
        values = {number(value) for value in _ending(stated, ending)} - {None}
        if len(values) == 1:
            value = values.pop()
            return value if abs(value) < float("inf") else None
    return None


def is_verl(stated: dict[str, object]) -> bool:
    return any(key.startswith("actor_rollout_ref.") for key in stated)


def settings(stated: dict[str, object]) -> tuple[dict[str, float | str], list[str]]:
    """Settings by the study's names, and a sentence on each that the log contradicts itself about.

    Parameters
    ----------
    stated : dict
        Dotted key -> value.
    """
    verl = is_verl(stated)
    found: dict[str, float | str] = {}
    notes = []
    for name, endings in NAMES.items():
        if verl and name in ("beta", "mu", "eta"):
            continue
        for ending in endings:
            values = _ending(stated, ending)
            kept = {str(v) for v in values if v is not None} if name in WORDS else {number(v) for v in values} - {None}
            if not kept:
                continue
            if len(kept) == 1:
                found[name] = kept.pop()
            else:
                notes.append(f"The log states several values of {ending} ({_list(kept)}): not used.")
            break
    if verl:
        found |= _verl(stated)
    else:
        found |= _updates(stated, found)
    numbers = {name: value for name, value in found.items() if isinstance(value, str) or abs(value) < float("inf")}
    return numbers, notes


def _list(values: set) -> str:
    shown = sorted(map(str, values))
    return ", ".join(shown[:4]) + (", ..." if len(shown) > 4 else "")


def _updates(stated: dict[str, object], found: dict[str, float | str]) -> dict[str, float]:
    """TRL: updates made on one sampling = num_iterations x steps_per_generation / gradient_accumulation_steps.

    num_iterations is 1 where it is not stated, as is TRL's default.
    """
    iterations = found.get("K_ref", None if _ending(stated, "num_iterations") else 1.0)
    per_generation = _number(stated, "steps_per_generation")
    accumulated = _number(stated, "gradient_accumulation_steps")
    if not isinstance(iterations, float) or not per_generation or not accumulated:
        return {}
    return {"K_ref": iterations * per_generation / accumulated}


def _verl(stated: dict[str, object]) -> dict[str, float]:
    """verl: the actor's settings; updates per sampling = ppo_epochs x train_batch_size / ppo_mini_batch_size.

    ppo_epochs is 1 where it is not stated, as is verl's default.
    """
    actor = {key: value for key, value in stated.items() if key.startswith("actor_rollout_ref.actor.")}
    found = {}
    rate = _number(actor, "optim.lr")
    if rate is not None:
        found["eta"] = rate
    if any(value is True for value in _ending(actor, "use_kl_loss")):
        beta = _number(actor, "kl_loss_coef")
        if beta is not None:
            found["beta"] = beta
    batch = _number(stated, "data.train_batch_size")
    mini = _number(actor, "ppo_mini_batch_size")
    epochs = _number(actor, "ppo_epochs") if _ending(actor, "ppo_epochs") else 1.0
    if batch and mini and epochs:
        found["K_ref"] = epochs * max(batch / mini, 1.0)
    if batch and batch > 0:
        found["prompts"] = batch
    return found
