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
from tqdm import tqdm
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    NemotronConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    get_cosine_schedule_with_warmup,
)

from grpo_dynamics import seeds
from grpo_dynamics.tasks import ladder
from grpo_dynamics.training.tokenizer import character_tokenizer

ARCHITECTURES = {"nemotron": NemotronConfig, "llama": LlamaConfig, "qwen2": Qwen2Config}

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
        intermediate_size=3 * hidden,
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["heads"],
        head_dim=hidden // sizes["heads"],
        max_position_embeddings=512,
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
    progress = tqdm(range(sizes["steps"]), desc=f"pretraining {architecture}", mininterval=5)
    for step in progress:
        ids, labels = corpus_batch(rng, tokenizer, sizes["batch_size"], mixture)
        # Padding stands on the right and has no labels: under causal attention it needs no mask, and none is faster.
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            progress.set_postfix(loss=f"{loss.item():.3f}")

    temporary = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def main(
    name: Annotated[str, typer.Option(help="name of the model in the catalogue")],
    settings: Annotated[str, typer.Option(help="JSON: architecture, mixture, sizes and the study's seed")],
    output: Annotated[Path, typer.Option(help="folder of the checkpoint")],
) -> None:
    """Pretrain one base model."""
    values = json.loads(settings)
    output.parent.mkdir(parents=True, exist_ok=True)
    seed = seeds.derive(values["seed"], "pretraining", name)
    pretrain(values["architecture"], values["mixture"], values["sizes"], seed, output)


if __name__ == "__main__":
    typer.run(main)
