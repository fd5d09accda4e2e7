"""A model of seven billion parameters, a GPU, and a study of them that fits: for the tests of the plan."""

import yaml
from conftest import ROOT

from grpo_dynamics.training import plan

# Sizes of deepseek-llm-7b-chat.
PARAMETERS = 6_910_365_696
SHAPE = {"hidden_size": 4096, "layers": 30, "heads": 32, "kv_heads": 32, "head_dim": 128, "intermediate_size": 11008}
SHAPE |= {"gated": True, "vocabulary": 102400, "tied": False, "context": 4096}
ADAPTERS = 30 * 32 * (4 * (4096 + 4096) + 3 * (4096 + 11008))  # parameters of those of rank 32
LORA = {"rank": 32, "alpha": 64, "target_modules": "all-linear"}
VLLM = {"mode": "colocate", "gpu_memory_utilization": 0.5, "tensor_parallel_size": 1}
GPU = {"label": "a GPU", "memory_gb": 80, "bandwidth_gb_s": 3000, "peak_tflops": 1000, "bandwidth_share": 0.5}
GPU |= {"compute_share": 0.5, "layer_ms": 1.0, "at_once": 8, "shortest_share": 0.5}


def study(config):
    """The default config, changed into a study of the model on one GPU."""
    paper = yaml.safe_load((ROOT / "config" / "studies" / "paper.yaml").read_text())
    config["catalogue"] = {"seven": {"label": "7B", "hub": "a/b", "revision": "main", "shape": SHAPE}}
    config |= {"models": ["seven"], "task": "gsm8k", "hardware": GPU}
    config["grpo"] |= {"steps": 100, "completions_per_step": 128, "micro_batch_size": 4, "bf16": True}
    config["grpo"] |= {"max_completion_length": 1024, "gradient_checkpointing": True, "lora": LORA, "vllm": VLLM}
    config["evaluation"] |= paper["evaluation"] | {"batch_size": 16}
    return config


def job(stage="grpo", **changed):
    asked = {"gpu": 1, "threads": 4, "mem_mb": 64000, "runtime": 2880}
    return {"stage": stage, "variant": None, "model": "seven", "G": 4, "jobs": 2} | asked | changed


def planned(config, *jobs):
    table, unknown = plan.plan(config, list(jobs), {"seven": "models/seven"})
    assert not unknown
    return table
