"""One GRPO run: from a base model to a run log and a final checkpoint, resumed if it was interrupted.

``python -m grpo_dynamics.training.run --help`` shows the command line.
"""

from __future__ import annotations

import functools
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch
import typer
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PrinterCallback,
    TrainerCallback,
    set_seed,
)

from grpo_dynamics import command, provenance, seeds, tables
from grpo_dynamics.command import InputError
from grpo_dynamics.progress import Progress
from grpo_dynamics.tasks import chat, problems
from grpo_dynamics.tasks.rewards import REWARDS
from grpo_dynamics.training import checkpoints, deadline
from grpo_dynamics.training.arguments import grpo_config, lora_config
from grpo_dynamics.training.trainer import PREFIX, InstrumentedGRPOTrainer

logger = logging.getLogger(__name__)


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
        args.distributed_state.wait_for_everyone()  # every process writes its random state
        # Not the last: the trainer, resumed there, would take one step more before it looks at max_steps.
        if state.is_world_process_zero and state.global_step < state.max_steps:
            checkpoints.mark_complete(Path(args.output_dir), state.global_step)


def dataset(path: Path) -> Dataset:
    """Problems (JSON Lines with id, question, answer, kind) as TRL's conversational prompts."""
    rows = pd.read_json(path, lines=True, dtype={"id": str, "answer": str})
    return Dataset.from_list(
        [
            {"prompt": chat.conversation(row.question), "answer": row.answer, "kind": row.kind}
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


def behind_opening(reward: Callable[..., list[float]]) -> Callable[..., list[float]]:
    """A reward function that sees completions behind the opening of their thinking part (`chat.opens_thinking`)."""

    @functools.wraps(reward)  # TRL logs a reward by its function's name
    def opened(prompts: list, completions: list, **columns: object) -> list[float]:
        texts = [chat.scored_text(completion[-1]["content"], True) for completion in completions]
        return reward(prompts, texts, **columns)

    return opened


def load_policy(base: Path, grpo: dict) -> PreTrainedModel:
    """The model to train. Weights that are trained stay in float32 also under bf16: Adam's small steps would vanish in
    bfloat16's spacing. Those that LoRA freezes do not move, and peft keeps the adapters in float32.

    Raises
    ------
    InputError
        If ``grpo.lora.target_modules`` names what is no layer of the model that an adapter fits.
    """
    lora = grpo["lora"]
    frozen = lora is not None and grpo["bf16"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16 if frozen else torch.float32)
    if lora is not None and lora["target_modules"] != "all-linear":
        # peft passes over a name that fits nothing if another one fits, and TRL over an adapter of the output layer.
        output = model.get_output_embeddings()
        linear = [
            name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear) and part is not output
        ]
        layers = {name.rpartition(".")[2] for name in linear}
        if unknown := [name for name in lora["target_modules"] if name not in layers]:
            raise InputError(
                f"grpo.lora.target_modules: found {', '.join(unknown)}, expected all-linear or some of the layers of "
                f"{base}: {', '.join(sorted(layers))}"
            )
    return model


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
    chat_template: Annotated[
        Path | None, typer.Option(help="file with a chat template, if not the model's own")
    ] = None,
    stop_before: Annotated[
        int, typer.Option(help="minutes of the SLURM job's time to be left when an unfinished run stops to be requeued")
    ] = 10,
) -> None:
    """Train one model with GRPO; run again after an interruption, it goes on from the last checkpoint."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    values = json.loads(settings)
    grpo = values["grpo"]
    saved = folder / "checkpoints"

    names = ["grpo", model, group_size, seed]
    if values["variant"]:
        names.append(values["variant"])
    derived = seeds.derive(values["seed"], *names)
    tokenizer = AutoTokenizer.from_pretrained(base, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    chat.set_template(tokenizer, chat_template, base)
    context = AutoConfig.from_pretrained(base).max_position_embeddings
    asked = problems.read(train) + problems.read(heldout)
    longest = chat.check_context(tokenizer, asked, grpo["max_completion_length"], context, str(train))
    arguments = grpo_config(grpo, group_size, derived, saved, longest + grpo["max_completion_length"])

    processes = arguments.distributed_state
    if processes.is_main_process:
        templates = [chat_template] if chat_template else []
        inputs = [train, heldout, *templates, *sorted([*base.glob("*.safetensors"), *base.glob("*.bin")])]
        checkpoints.keep_only_own(saved, settings, group_size, seed, inputs)
        checkpoints.remove_incomplete(saved)
    processes.wait_for_everyone()

    stopping = deadline.StopInTime(grpo["K_ref"], 60 * stop_before, deadline.seconds_left())
    set_seed(derived)  # TRL draws the adapters before it sets the seed itself
    reward, opened = REWARDS[grpo["reward"]], chat.opens_thinking(tokenizer)
    trainer = InstrumentedGRPOTrainer(
        model=load_policy(base, grpo),
        reward_funcs=[behind_opening(reward) if opened else reward],
        args=arguments,
        train_dataset=dataset(train),
        processing_class=tokenizer,
        peft_config=lora_config(grpo["lora"]),
        heldout=dataset(heldout),
        heldout_every=grpo["heldout_every"],
        opens_thinking=opened,
        callbacks=[
            _Reporter(" ".join([model, f"G={group_size} seed={seed}", values["variant"] or ""]).strip()),
            stopping,
        ],
    )
    trainer.remove_callback(PrinterCallback)  # _Reporter says it shorter
    resume = checkpoints.last_checkpoint(saved)
    if resume:
        logger.info("resuming from %s", resume)
    if processes.is_main_process:
        provenance.record(folder, resumed=resume is not None)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if stopping.reason:
        deadline.leave(stopping.reason, trainer.state.global_step, requeue=processes.is_main_process)

    checkpoints.save_final(trainer, tokenizer, folder / "final")
    if processes.is_main_process:
        tables.write(run_log(trainer.state.log_history, model, group_size, seed), log, tables.RUN_LOG)
        shutil.rmtree(saved)


if __name__ == "__main__":
    command.run(main)
