"""The character-level tokenizer of the study's own base models, with a chat template."""

from __future__ import annotations

import string

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

ALPHABET = string.ascii_letters + string.digits + " .,?'+-*/=#"

# A question is framed by two special tokens, the answer ends with <eos>: short prompts for small models.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<answer>{% generation %}{{ message['content'] }}<eos>{% endgeneration %}"
    "{% else %}<question>{{ message['content'] }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<answer>{% endif %}"
)


def character_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with a token per character of `ALPHABET`; any other character becomes ``<unk>``."""
    special = ["<pad>", "<eos>", "<unk>", "<question>", "<answer>"]
    vocabulary = {token: index for index, token in enumerate([*special, *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=["<question>", "<answer>"],
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=512,
    )
