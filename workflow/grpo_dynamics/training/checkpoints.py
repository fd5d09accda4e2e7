"""Checkpoints of a run: which of them may be resumed, when one is complete, and the final model."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase
from trl import GRPOTrainer

from grpo_dynamics.files import replacing
from grpo_dynamics.provenance import sha256

logger = logging.getLogger(__name__)

# Written into a checkpoint folder when all of it is on disk: a kill while it is written leaves it without.
_COMPLETE = "complete"


def keep_only_own(checkpoints: Path, settings: str, G: int, seed: int, inputs: list[Path]) -> None:
    """Make the folder of checkpoints, and empty it first if what is in it is from another config, model or data.

    Resuming such a checkpoint would mix two runs in one log.
    """
    contents = {path.name: sha256(path) for path in inputs}
    own = json.dumps({"settings": json.loads(settings), "G": G, "seed": seed, "inputs": contents}, sort_keys=True)
    stamp = checkpoints / "made-from.json"
    if checkpoints.exists() and not (stamp.exists() and stamp.read_text() == own):
        logger.info("%s: checkpoints of another config, model or data: starting afresh", checkpoints)
        shutil.rmtree(checkpoints)
    checkpoints.mkdir(parents=True, exist_ok=True)
    if not stamp.exists():  # never written again in place: a kill in between would make these checkpoints foreign
        with replacing(stamp) as path:
            path.write_text(own)


def mark_complete(checkpoints: Path, step: int) -> None:
    """Note that the checkpoint of `step` is whole."""
    (checkpoints / f"checkpoint-{step}" / _COMPLETE).touch()


def remove_incomplete(checkpoints: Path) -> None:
    """Remove the checkpoints that were cut off while being written."""
    for path in checkpoints.glob("checkpoint-*"):
        if not (path / _COMPLETE).exists():
            shutil.rmtree(path)


def last_checkpoint(checkpoints: Path) -> Path | None:
    """The newest complete checkpoint; None if there is none."""
    complete = [path.parent for path in checkpoints.glob(f"checkpoint-*/{_COMPLETE}")]
    return max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def save_final(trainer: GRPOTrainer, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Save the trained model in one step, as an ordinary checkpoint: adapters are merged into the weights.

    All processes call it; the first one writes. A run in bfloat16 is saved in bfloat16, as base models come, which
    halves the space.
    """
    temporary = folder.with_name(f".{folder.name}.part")
    main = trainer.accelerator.is_main_process
    if main:
        shutil.rmtree(temporary, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    model = trainer.accelerator.unwrap_model(trainer.model)
    dtype = torch.bfloat16 if trainer.args.bf16 else torch.float32
    if hasattr(model, "merge_and_unload"):
        if main:
            # Adapters are small beside the weights: merging in bfloat16 would round most of them away. In float32 the
            # weights may not fit on the GPU, where vLLM and the optimiser's moments still are.
            model.cpu().float().merge_and_unload().to(dtype).save_pretrained(temporary)
    elif trainer.is_fsdp_enabled:
        trainer.save_model(str(temporary))  # gathers the shards; stays in float32
    else:
        model.to(dtype)
        trainer.save_model(str(temporary))
    if main:
        tokenizer.save_pretrained(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
