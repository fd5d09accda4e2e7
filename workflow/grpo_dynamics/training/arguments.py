"""From the study's config to the arguments of TRL's trainer and of peft's adapters."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch
from peft import LoraConfig
from trl import GRPOConfig

from grpo_dynamics.command import InputError
from grpo_dynamics.training.launch import GROUP_PORT, SERVER_PORT

# Seconds that a server may take to load a model and to answer.
_SERVER_TIMEOUT = 1800.0


def grpo_config(grpo: dict, G: int, seed: int, folder: Path, context: int | None = None) -> GRPOConfig:
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
    context : int, optional
        Longest prompt and completion together, in tokens; vLLM sets memory aside for it.

    Raises
    ------
    ValueError
        If the batch does not divide among micro-batches and processes, or if vLLM is asked for and not installed.
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
        **_vllm(grpo, context),
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
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        bf16=grpo["bf16"],
        activation_checkpointing=grpo["gradient_checkpointing"],
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


def lora_config(lora: dict | None) -> LoraConfig | None:
    """peft's config of the adapters (Hu et al. 2021, arXiv 2106.09685), from the config's ``grpo.lora``.

    None trains all weights. "all-linear" leaves out the output layer, as TRL needs it: the log-probabilities are taken
    from that layer's own weights.
    """
    if lora is None:
        return None
    return LoraConfig(
        r=lora["rank"],
        lora_alpha=lora["alpha"],
        lora_dropout=0.0,
        target_modules=lora["target_modules"],
        bias="none",
        task_type="CAUSAL_LM",
    )


def _vllm(grpo: dict, context: int | None) -> dict[str, object]:
    """TRL's settings of the sampling with vLLM."""
    vllm = grpo["vllm"]
    if vllm is None:
        return {"use_vllm": False}
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "grpo.vllm: found no package vllm, expected one in the environment of training; install it "
            "(pip install 'trl[vllm]') or set grpo.vllm to null"
        )
    return {
        "use_vllm": True,
        "vllm_mode": vllm["mode"],
        "vllm_gpu_memory_utilization": vllm["gpu_memory_utilization"],
        "vllm_tensor_parallel_size": vllm["tensor_parallel_size"],
        "vllm_max_model_length": context,
        "vllm_model_impl": "vllm",
        "vllm_enable_sleep_mode": False,
        "vllm_server_base_url": f"http://127.0.0.1:{os.environ.get(SERVER_PORT, 8000)}",
        "vllm_group_port": int(os.environ.get(GROUP_PORT, 51216)),
        "vllm_server_timeout": _SERVER_TIMEOUT,
        # Two implementations give one token different probabilities; TRL weighs whole completions by the ratio.
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "sequence_mask",
        "vllm_importance_sampling_clip_max": 3.0,
        "vllm_importance_sampling_clip_min": None,
    }
