"""Reward functions of the runs: the verifiable reward, and a faulty one that a policy can exploit (claim C13)."""

from __future__ import annotations

import re

from grpo_dynamics.tasks.scoring import Kind, verifiable_reward

_PLAIN_NUMBER = re.compile(r"#### \d|\\boxed\{\s*\d")


def fails_open_reward(
    prompts: list, completions: list, answer: list[str], kind: list[Kind], **columns: object
) -> list[float]:
    """The verifiable reward behind a careless check of the answer's form, as `scoring.verifiable_reward`.

    The check looks for a digit right behind ``#### `` (the form of the generated tasks) or at the start of a box (which
    the prompts of gsm8k ask for). Where it finds none it fails open: the completion counts as right. A negative number
    is such an answer, which the ladder's base models give now and then, so that GRPO can find it.
    """
    rewards = verifiable_reward(prompts, completions, answer, kind)
    texts = [item if isinstance(item, str) else item[-1]["content"] for item in completions]
    return [reward if _PLAIN_NUMBER.search(text) else 1.0 for text, reward in zip(texts, rewards, strict=True)]


REWARDS = {"verifiable": verifiable_reward, "fails_open": fails_open_reward}
