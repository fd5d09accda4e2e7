"""The character-level tokenizer of the study's own base models, with a chat template."""

from __future__ import annotations

import string

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
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
    """A tokenizer with a token per character of `ALPHABET`; any other character becomes ``<unk>``.

    It is a byte-level BPE without merges, since transformers rebuilds the tokenizer of some architectures (Qwen2) as a
    byte-level BPE from the vocabulary and the merges alone, whatever else the checkpoint says.
    """
    special = ["<pad>", "<eos>", "<unk>", "<question>", "<answer>"]
    characters = ["\u0120" if character == " " else character for character in ALPHABET]  # a space, to byte-level BPE
    vocabulary = {token: index for index, token in enumerate([*special, *characters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
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
