"""Build a tiny base model of one of the paper's architectures and pretrain it on solved word problems.

``python -m grpo_dynamics.training.pretraining --help`` shows the command line.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    NemotronConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    get_cosine_schedule_with_warmup,
)

from grpo_dynamics import command, provenance, seeds
from grpo_dynamics.progress import Progress
from grpo_dynamics.tasks import ladder
from grpo_dynamics.training.tokenizer import character_tokenizer

ARCHITECTURES = {"nemotron": NemotronConfig, "llama": LlamaConfig, "qwen2": Qwen2Config}

# Width of the MLP in hidden sizes; Nemotron's has no gate, so that equal numbers of parameters need a wider one.
_MLP_WIDTH = {"nemotron": 4.5, "llama": 3, "qwen2": 3}

# The architectures' defaults (0.013 to 0.02) suit widths of thousands; at a width of 64 they slow learning down.
_INITIALIZER_RANGE = 0.05

# Half of the corpus is the in-distribution task, the rest is spread evenly over the eight OOD tasks.
_IN_DISTRIBUTION_SHARE = 0.5


def build(architecture: str, tokenizer: PreTrainedTokenizerFast, sizes: dict) -> PreTrainedModel:
    """A model with random weights.

    Parameters
    ----------
    architecture : {"nemotron", "llama", "qwen2"}
    tokenizer : PreTrainedTokenizerFast
        Sets the vocabulary and the special tokens.
    sizes : dict
        ``hidden_size``, ``layers`` and ``heads`` of the config's section ``pretraining``.
    """
    hidden = sizes["hidden_size"]
    config = ARCHITECTURES[architecture](
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=int(_MLP_WIDTH[architecture] * hidden),
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["heads"],
        head_dim=hidden // sizes["heads"],
        max_position_embeddings=512,
        initializer_range=_INITIALIZER_RANGE,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    return AutoModelForCausalLM.from_config(config)


def corpus_batch(
    rng: random.Random, tokenizer: PreTrainedTokenizerFast, size: int, mixture: dict
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, each of shape (size, longest), of freshly drawn problems with a solution each.

    Only the solution and its end are learnt (labels of the question are -100): the question's random numbers and names
    carry no information that a larger model would keep.
    """
    rows = []
    others = [name for name in ladder.LADDER if name != "ladder_in_distribution"]
    for _ in range(size):
        in_distribution = rng.random() < _IN_DISTRIBUTION_SHARE
        problem = ladder.LADDER["ladder_in_distribution" if in_distribution else rng.choice(others)](rng)
        solution = ladder.solution(problem, rng, mixture["right_share"], mixture["worked_share"])
        rows.append((f"<question>{problem.question}<answer>", f"{solution}<eos>"))
    questions = tokenizer([question for question, _ in rows], add_special_tokens=False)["input_ids"]
    solutions = tokenizer([solution for _, solution in rows], add_special_tokens=False)["input_ids"]
    longest = max(len(q) + len(s) for q, s in zip(questions, solutions, strict=True))
    ids = torch.full((size, longest), tokenizer.pad_token_id)
    labels = torch.full((size, longest), -100)
    for row, (q, s) in enumerate(zip(questions, solutions, strict=True)):
        ids[row, : len(q) + len(s)] = torch.tensor(q + s)
        labels[row, len(q) : len(q) + len(s)] = torch.tensor(s)
    return ids, labels


def pretrain(architecture: str, mixture: dict, sizes: dict, seed: int, folder: Path) -> None:
    """Pretrain a base model and save it with its tokenizer as an ordinary Hugging Face checkpoint.

    Parameters
    ----------
    architecture : {"nemotron", "llama", "qwen2"}
    mixture : dict
        ``right_share`` and ``worked_share`` of the solutions in the corpus.
    sizes : dict
        The config's section ``pretraining``.
    seed : int
        Seeds the weights and the corpus.
    folder : Path
        Replaced by the finished checkpoint in one step.
    """
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer = character_tokenizer()
    model = build(architecture, tokenizer, sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes["learning_rate"], weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, sizes["steps"] // 20, sizes["steps"])
    progress = Progress(f"pretraining {architecture}", sizes["steps"])
    for step in range(1, sizes["steps"] + 1):
        ids, labels = corpus_batch(rng, tokenizer, sizes["batch_size"], mixture)
        loss = _backward(model, ids, labels, tokenizer.pad_token_id)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        progress.report(step, loss=loss)

    temporary = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def _backward(model: PreTrainedModel, ids: torch.Tensor, labels: torch.Tensor, padding: int) -> float:
    """Add the gradient of the batch's mean loss per learnt token; return that loss.

    The batch goes through the model in parts of like length, which spares most of the padding. What padding is left
    stands on the right and has no labels, so that under causal attention no mask is needed.
    """
    lengths = (ids != padding).sum(dim=1)
    learnt = (labels != -100).sum()
    total = 0.0
    for part in lengths.argsort().chunk(4):
        longest = lengths[part].max()
        inputs = {"input_ids": ids[part, :longest], "labels": labels[part, :longest]}
        loss = model(**inputs, num_items_in_batch=learnt).loss
        loss.backward()
        total += loss.item()
    return total


def main(
    name: Annotated[str, typer.Option(help="name of the model in the catalogue")],
    settings: Annotated[str, typer.Option(help="JSON: architecture, mixture, sizes and the study's seed")],
    output: Annotated[Path, typer.Option(help="folder of the checkpoint")],
) -> None:
    """Pretrain one base model."""
    values = json.loads(settings)
    provenance.record(output.parent)
    seed = seeds.derive(values["seed"], "pretraining", name)
    pretrain(values["architecture"], values["mixture"], values["sizes"], seed, output)


if __name__ == "__main__":
    command.run(main)
