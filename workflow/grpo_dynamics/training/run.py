"""One GRPO run: from a base model to a run log and a final checkpoint, resumed if it was interrupted.

``python -m grpo_dynamics.training.run --help`` shows the command line.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch
import typer
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig

from grpo_dynamics import command, seeds, tables
from grpo_dynamics.command import InputError
from grpo_dynamics.progress import Progress
from grpo_dynamics.tasks.rewards import REWARDS
from grpo_dynamics.training.trainer import PREFIX, InstrumentedGRPOTrainer

logger = logging.getLogger(__name__)

# Written into a checkpoint folder when all of it is on disk: a kill while it is written leaves it without.
_COMPLETE = "complete"


def grpo_config(grpo: dict, G: int, seed: int, folder: Path) -> GRPOConfig:
    """TRL's config for a run, with every setting that differs between TRL releases set explicitly.

    Parameters
    ----------
    grpo : dict
        The study config's section ``grpo``.
    G : int
        Group size.
    seed : int
        Seed of sampling and of the order of prompts.
    folder : Path
        Folder of the checkpoints.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    micro_batches, rest = divmod(grpo["completions_per_step"], grpo["micro_batch_size"] * processes)
    if rest:
        raise InputError(
            f"grpo.completions_per_step: found {grpo['completions_per_step']}, expected a multiple of "
            f"grpo.micro_batch_size = {grpo['micro_batch_size']} times {processes} processes"
        )
    return GRPOConfig(
        output_dir=str(folder),
        seed=seed,
        max_steps=grpo["steps"],
        # The batch: `completions_per_step` completions, sampled at once and used for K_ref optimiser steps.
        per_device_train_batch_size=grpo["micro_batch_size"],
        gradient_accumulation_steps=micro_batches,
        steps_per_generation=micro_batches,
        num_iterations=grpo["K_ref"],
        num_generations=G,
        shuffle_dataset=True,
        # The loss: GRPO as in Shao et al. (2024), arXiv 2402.03300, with the KL anchor in the loss.
        loss_type="grpo",
        scale_rewards="group",
        multi_objective_aggregation="sum_then_normalize",
        importance_sampling_level="token",
        beta=grpo["beta"],
        epsilon=grpo["clip_epsilon"],
        epsilon_high=grpo["clip_epsilon"],
        delta=None,
        mask_truncated_completions=False,
        top_entropy_quantile=1.0,
        entropy_coef=grpo["entropy_coef"],
        use_adaptive_entropy=False,
        reward_weights=None,
        use_bias_correction_kl=False,
        sync_ref_model=False,
        off_policy_mask_threshold=None,
        disable_dropout=True,
        # Sampling from the policy itself, undistorted.
        temperature=grpo["temperature"],
        top_p=1.0,
        top_k=0,
        min_p=None,
        repetition_penalty=1.0,
        max_completion_length=grpo["max_completion_length"],
        generation_kwargs=None,
        cache_implementation=None,
        use_transformers_continuous_batching=False,
        use_vllm=False,
        # The optimiser: constant learning rate, so that eta is one number; beta1 is the momentum mu.
        optim="adamw_torch",
        learning_rate=grpo["learning_rate"],
        lr_scheduler_type="constant",
        lr_scheduler_kwargs=None,
        warmup_steps=0,
        adam_beta1=grpo["mu"],
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        weight_decay=0.0,
        max_grad_norm=grpo["max_grad_norm"],
        use_liger_kernel=False,
        bf16=grpo["bf16"],
        activation_checkpointing=grpo["bf16"],
        # One log row per optimiser step; a checkpoint only where a new batch is about to be sampled.
        logging_strategy="steps",
        logging_steps=1,
        logging_first_step=True,
        save_strategy="steps",
        save_steps=grpo["checkpoint_every"],
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
    )


def keep_only_own(checkpoints: Path, settings: str, G: int, seed: int, inputs: list[Path]) -> None:
    """Make the folder of checkpoints, and empty it first if what is in it is from another config, model or data.

    Resuming such a checkpoint would mix two runs in one log.
    """
    contents = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs}
    own = json.dumps({"settings": json.loads(settings), "G": G, "seed": seed, "inputs": contents}, sort_keys=True)
    stamp = checkpoints / "made-from.json"
    if checkpoints.exists() and not (stamp.exists() and stamp.read_text() == own):
        logger.info("%s: checkpoints of another config, model or data: starting afresh", checkpoints)
        shutil.rmtree(checkpoints)
    checkpoints.mkdir(parents=True, exist_ok=True)
    stamp.write_text(own)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint in `folder`; those that were cut off while being written are removed."""
    complete = []
    for path in folder.glob("checkpoint-*"):
        if (path / _COMPLETE).exists():
            complete.append(path)
        else:
            shutil.rmtree(path)
    return max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


class _Reporter(TrainerCallback):
    """Reports progress, and marks finished checkpoints."""

    def __init__(self, label: str):
        self._label = label
        self._progress: Progress | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        self._progress = Progress(self._label, state.max_steps, done=state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "grad_norm" in logs and state.is_world_process_zero:
            shown = ("reward", "collapsed_share", "entropy", "kl", "heldout_reward")
            values = {name: logs[PREFIX + name] for name in shown if PREFIX + name in logs}
            self._progress.report(state.global_step, **values)

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            Path(args.output_dir, f"checkpoint-{state.global_step}", _COMPLETE).touch()


def dataset(path: Path) -> Dataset:
    """Problems (JSON Lines with id, question, answer, kind) as TRL's conversational prompts."""
    rows = pd.read_json(path, lines=True, dtype={"id": str, "answer": str})
    return Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": row.question}], "answer": row.answer, "kind": row.kind}
            for row in rows.itertuples()
        ]
    )


def run_log(history: list[dict], model: str, G: int, seed: int) -> pd.DataFrame:
    """The trainer's log history as a table with the columns of `tables.RUN_LOG`, a row per optimiser step."""
    rows = []
    for entry in history:
        if "grad_norm" in entry:
            measured = {name.removeprefix(PREFIX): value for name, value in entry.items() if name.startswith(PREFIX)}
            rows.append(
                {"model": model, "G": G, "seed": seed, "heldout_reward": float("nan")}
                | {name: entry[name] for name in ("step", "grad_norm", "learning_rate", "loss")}
                | measured
            )
    # A diverged run's infinities become empty cells: they are data, and must not end the study.
    return pd.DataFrame(rows)[list(tables.RUN_LOG.columns)].replace([np.inf, -np.inf], np.nan)


def main(
    model: Annotated[str, typer.Option(help="name of the model")],
    base: Annotated[Path, typer.Option(help="checkpoint of the base model", exists=True, file_okay=False)],
    group_size: Annotated[int, typer.Option(help="G, completions per prompt")],
    seed: Annotated[int, typer.Option(help="seed of the run, as listed in the config")],
    train: Annotated[Path, typer.Option(help="training problems, JSON Lines", exists=True)],
    heldout: Annotated[Path, typer.Option(help="held-out problems, JSON Lines", exists=True)],
    settings: Annotated[
        str, typer.Option(help="JSON: the study's seed, the settings of grpo, the variant's name or null")
    ],
    folder: Annotated[Path, typer.Option(help="folder of the run: checkpoints and the final model")],
    log: Annotated[Path, typer.Option(help="the run log to write, CSV")],
) -> None:
    """Train one model with GRPO; run again after an interruption, it goes on from the last checkpoint."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    values = json.loads(settings)
    grpo = values["grpo"]
    checkpoints = folder / "checkpoints"
    keep_only_own(checkpoints, settings, group_size, seed, [train, heldout, *sorted(base.glob("*.safetensors"))])

    names = ["grpo", model, group_size, seed]
    if values["variant"]:
        names.append(values["variant"])
    derived = seeds.derive(values["seed"], *names)
    tokenizer = AutoTokenizer.from_pretrained(base, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    # Weights stay in float32 also under bf16: Adam's small steps would vanish in bfloat16's spacing.
    policy = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    trainer = InstrumentedGRPOTrainer(
        model=policy,
        reward_funcs=[REWARDS[grpo["reward"]]],
        args=grpo_config(grpo, group_size, derived, checkpoints),
        train_dataset=dataset(train),
        processing_class=tokenizer,
        heldout=dataset(heldout),
        heldout_every=grpo["heldout_every"],
        callbacks=[_Reporter(" ".join([model, f"G={group_size} seed={seed}", values["variant"] or ""]).strip())],
    )
    trainer.remove_callback(PrinterCallback)  # _Reporter says it shorter
    resume = last_checkpoint(checkpoints)
    if resume:
        logger.info("resuming from %s", resume)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)

    final = folder / "final"
    temporary = folder / ".final.part"
    shutil.rmtree(temporary, ignore_errors=True)
    trainer.save_model(str(temporary))
    if trainer.accelerator.is_main_process:
        tokenizer.save_pretrained(temporary)
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        tables.write(run_log(trainer.state.log_history, model, group_size, seed), log, tables.RUN_LOG)
        shutil.rmtree(checkpoints)


if __name__ == "__main__":
    command.run(main)
