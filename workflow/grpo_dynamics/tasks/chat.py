"""Chat templates: what a model's own template does to a question, and to how its answer is scored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_dynamics.command import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_OPENING = "<think>"


def conversation(question: str) -> list[dict[str, str]]:
    """A question as the messages that a chat template takes."""
    return [{"role": "user", "content": question}]


def set_template(tokenizer: PreTrainedTokenizerBase, template: str | Path | None, source: str | Path) -> None:
    """Give the tokenizer the chat template in a file, if one is named, and make sure that it has one.

    Raises
    ------
    ValueError
        If the file cannot be read, or if there is no template.
    """
    if template is not None:
        try:
            tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"chat_template: found {error}, expected a file with a jinja template") from error
    if not tokenizer.chat_template:
        raise InputError(
            f"{source}: found a tokenizer without a chat template, expected one; name a file with a template as "
            "chat_template of the model in the catalogue"
        )


def opens_thinking(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the template's generation prompt itself opens the thinking part, as that of DeepSeek-R1's models does.

    Completions of such a model hold no ``<think>``. One that is cut off while it thinks would pass for an answer,
    unless it is scored behind the opening (`scored_text`).
    """
    rendered = tokenizer.apply_chat_template(conversation("?"), add_generation_prompt=True, tokenize=False)
    return rendered.rstrip().endswith(_OPENING)


def scored_text(completion: str, opened: bool) -> str:
    """The completion as the scorer must see it: behind the opening of the thinking part if the prompt holds that."""
    return _OPENING + completion if opened else completion


def check_context(
    tokenizer: PreTrainedTokenizerBase, problems: Iterable[dict], max_completion_length: int, context: int, source: str
) -> int:
    """Refuse problems whose prompt and longest completion do not fit into the model's context.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
    problems : iterable of dict
        With ``id`` and ``question``.
    max_completion_length, context : int
        Tokens.
    source : str
        What the message starts with.

    Returns
    -------
    int
        Tokens of the longest prompt.

    Raises
    ------
    ValueError
        Naming the problem with the longest prompt.
    """
    rows = list(problems)
    rendered = [
        tokenizer.apply_chat_template(conversation(row["question"]), add_generation_prompt=True, tokenize=False)
        for row in rows
    ]
    # The template has written all special tokens already.
    lengths = [len(ids) for ids in tokenizer(rendered, add_special_tokens=False)["input_ids"]]
    longest = max(lengths)
    if longest + max_completion_length > context:
        identifier = rows[lengths.index(longest)]["id"]
        raise InputError(
            f"{source}: problem {identifier}: found a prompt of {longest} tokens and completions of up to "
            f"{max_completion_length}, expected no more than the model's context of {context} together"
        )
    return longest
