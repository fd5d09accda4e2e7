"""Tiny models of the paper's three architectures, with chat templates and contexts like those of the real models.

A tokenizer has a token per byte. The models have learnt to box a digit, whatever the question, so that a reward varies.
"""

import random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, NemotronConfig, PreTrainedTokenizerFast, Qwen2Config

NEMOTRON = (
    "<extra_id_0>System\n\n"
    "{% for message in messages %}<extra_id_1>{{ message['role'] | capitalize }}\n"
    "{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<extra_id_1>Assistant\n{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}User: {{ message['content'] }}\n\n"
    "{% else %}Assistant: {{ message['content'] }}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
# Like DeepSeek-R1's: the generation prompt opens the thinking part itself.
R1 = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}<|User|>{{ message['content'] }}"
    "{% else %}<|Assistant|>{{ message['content'] }}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
)

# Architecture: config, special tokens of the template, template, longest context, what stands before the box.
KINDS = {
    "nemotron": (NemotronConfig, ["<extra_id_0>", "<extra_id_1>"], NEMOTRON, 4096, ""),
    "llama": (LlamaConfig, [], DEEPSEEK, 4096, " "),
    "qwen2": (Qwen2Config, ["<|User|>", "<|Assistant|>", "<think>", "</think>"], R1, 131072, "ok</think>"),
}


def tokenizer(kind):
    """A token per byte, and the special tokens of the kind's template."""
    _, special, template, _, _ = KINDS[kind]
    names = ["<bos>", "<eos>", "<pad>", "<unk>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*names, *special, *alphabet])}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(special)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        chat_template=template,
    )


def build(kind, hidden_size=32, layers=2):
    """A model of the kind with random weights, and its tokenizer."""
    config, _, _, context, _ = KINDS[kind]
    words = tokenizer(kind)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        config(
            vocab_size=len(words),
            hidden_size=hidden_size,
            intermediate_size=3 * hidden_size,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=1 if kind == "qwen2" else 2,
            head_dim=hidden_size // 2,
            max_position_embeddings=context,
            initializer_range=0.05,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            tie_word_embeddings=False,
        )
    )
    return model, words


def teach(model, words, kind, questions, steps=120, digits=4):
    """Train the model to answer any question with a box around a digit below `digits`."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    rng = random.Random(0)
    before = KINDS[kind][4]
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(4):
            prompt = words.apply_chat_template(
                [{"role": "user", "content": rng.choice(questions)}], add_generation_prompt=True, tokenize=False
            )
            answer = f"{before}\\boxed{{{rng.randrange(digits)}}}{words.eos_token}"
            prompt_ids, answer_ids = (words(text, add_special_tokens=False)["input_ids"] for text in (prompt, answer))
            ids = torch.tensor([prompt_ids + answer_ids])
            labels = ids.clone()
            labels[:, : len(prompt_ids)] = -100
            (model(input_ids=ids, labels=labels).loss / 4).backward()
        optimizer.step()


def make(kind, folder, questions, **teaching):
    """Build, teach and save a model with its tokenizer."""
    model, words = build(kind)
    teach(model, words, kind, questions, **teaching)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
