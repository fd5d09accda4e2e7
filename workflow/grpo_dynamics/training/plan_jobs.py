"""What one job of each stage needs, by the estimates, and where that does not fit what it asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from grpo_dynamics.cells import evaluation_settings, failure_grpo, variant_grpo
from grpo_dynamics.training import estimate, plan_advice, timing
from grpo_dynamics.training.estimate import GB, GPU_BASE, GPU_HOST_BASE, HOST_BASE, Hardware, Run
from grpo_dynamics.training.model_shape import ModelShape

# Problems of the benchmarks whose number is theirs.
_ITEMS = {
    "gsm8k": 1319,
    "gsm_plus": 2400,
    "asdiv": 2305,
    "svamp": 300,
    "math500": 500,
    "amc23": 40,
    "olympiadbench": 674,
    "aime2025": 30,
    "aime2026": 30,
}
# Characters of the longest question; GSM8K's is in its training problems, AIME 2026 is taken to be like 2025.
_LONGEST = {
    "gsm8k": 985,
    "gsm_plus": 915,
    "asdiv": 453,
    "svamp": 330,
    "math500": 1733,
    "amc23": 1376,
    "olympiadbench": 4415,
    "aime2025": 1484,
    "aime2026": 1484,
    "ladder_in_distribution": 53,
    "ladder_names": 53,
    "ladder_templates": 70,
    "ladder_larger_numbers": 53,
    "ladder_more_operands": 68,
    "ladder_distractors": 70,
    "ladder_other_operations": 47,
    "ladder_two_step": 62,
    "ladder_nested": 88,
}
# Characters per token of mathematical text (English has about 4), and tokens of a chat template with its instruction.
_CHARACTERS_PER_TOKEN, _TEMPLATE = 3, 50
# The study's own tokenizer has a token per character, and two that frame a question.
_OWN_TEMPLATE = 2

# Tokens of a problem with its solution, in pretraining.
_CORPUS_LENGTH = 90

# Bytes on disk per token of a completion.
_TEXT_BYTES = 4


@dataclass
class Needs:
    """What one job needs; a memory or a time that is not estimated is NaN.

    Attributes
    ----------
    devices : int
        GPUs; `plan.plan` puts the cores of a job without a GPU in their place.
    gpu_memory_gb, memory_gb : float
        Peak of each GPU's memory and of the node's.
    hours_low, hours_high : float
        Time if the longest completions are ``hardware.shortest_share`` of the limit, and if they reach it.
    sampled_tokens, trained_tokens : int
        At most.
    disk_running_gb, disk_kept_gb : float
        Disk while the job runs, and of what it leaves.
    warnings : list of str
        Where the needs do not fit what is asked for, and what to change.
    """

    devices: int = 1
    gpu_memory_gb: float = math.nan
    memory_gb: float = math.nan
    hours_low: float = math.nan
    hours_high: float = math.nan
    sampled_tokens: int = 0
    trained_tokens: int = 0
    disk_running_gb: float = 0.0
    disk_kept_gb: float = 0.0
    warnings: list[str] = field(default_factory=list)


def longest_prompt(name: str) -> int:
    """Tokens of the longest prompt of a benchmark, estimated from its characters from above."""
    if name.startswith("ladder_"):
        return _LONGEST[name] + _OWN_TEMPLATE
    return math.ceil(_LONGEST[name] / _CHARACTERS_PER_TOKEN) + _TEMPLATE


def training_prompt(config: dict) -> int:
    """Tokens of the longest prompt in training."""
    return longest_prompt({"ladder": "ladder_in_distribution", "gsm8k": "gsm8k"}[config["task"]])


def benchmark_completions(config: dict) -> dict[str, int]:
    """Completions that a checkpoint's evaluation samples, per benchmark of the config."""
    items, samples = config["evaluation"]["items"], config["evaluation"]["samples"]
    found = {}
    for name in config["evaluation"]["benchmarks"]:
        problems = min(size for size in (_ITEMS.get(name), items) if size is not None)
        found[name] = problems * (samples if isinstance(samples, int) else samples.get(name, 1))
    return found


def lengths(limit: int, hardware: Hardware) -> tuple[int, int]:
    """The shorter and the longer length of the longest completions, for which times are given."""
    return max(1, round(limit * hardware.shortest_share)), limit


def run_settings(config: dict, job: dict) -> dict:
    """The section grpo of a training job."""
    match job["stage"]:
        case "grpo_variant":
            return variant_grpo(config, job["variant"], job["G"])
        case "grpo_failure":
            return failure_grpo(config, job["variant"])
    return config["grpo"]


def training(config: dict, shape: ModelShape, job: dict, hardware: Hardware) -> Needs:
    """What a GRPO run needs."""
    grpo, launch = run_settings(config, job), config["launch"]
    run = Run(shape, grpo, launch, training_prompt(config), gpu=job["gpu"] > 0)
    parts = estimate.training_memory(run, hardware)
    peak = sum(parts.values()) / GB
    low, high = (
        grpo["steps"] * sum(timing.step_seconds(run, hardware, length).values()) / 3600
        for length in lengths(grpo["max_completion_length"], hardware)
    )
    sampled, trained = timing.training_tokens(run)
    needs = Needs(
        devices=run.processes + run.server_gpus,
        gpu_memory_gb=peak if run.gpu else math.nan,
        memory_gb=estimate.host_memory(run) / GB if run.gpu else launch["processes"] * (peak + HOST_BASE / GB),
        hours_low=low,
        hours_high=high,
        sampled_tokens=sampled,
        trained_tokens=trained,
        # Two checkpoints are kept while a third is written.
        disk_running_gb=3 * estimate.checkpoint_bytes(run) / GB if grpo["steps"] >= grpo["checkpoint_every"] else 0.0,
        disk_kept_gb=estimate.final_bytes(run) / GB,
    )
    needs.warnings += plan_advice.context(
        "grpo", {config["task"]: run.prompt}, grpo["max_completion_length"], shape.context
    )
    if run.gpu:
        needs.warnings += plan_advice.training_gpus(run, parts, hardware)
    needs.warnings += plan_advice.asked("training", needs.memory_gb, high, job, config["resources"]["limits"])
    return needs


def evaluation(config: dict, entry: dict, shape: ModelShape, job: dict, hardware: Hardware) -> Needs:
    """What the evaluation of a checkpoint needs, in the type that the checkpoint is saved in.

    The study's own base models are saved in float32; all others are taken to be in bfloat16, or in float16, as the
    hub's usually are. For a trained model the run decides (`estimate.final_bytes`).
    """
    settings, gpu = evaluation_settings(config, job["model"]), job["gpu"] > 0
    completions = benchmark_completions(config)
    prompts = {name: longest_prompt(name) for name in completions}
    if job["stage"] == "evaluate_run":
        halved = config["grpo"]["bf16"] and config["launch"]["accelerate"] != "sharded"
    else:
        halved = "pretraining" not in entry
    element = 2 if halved else 4
    batch, limit = settings["batch_size"], settings["max_completion_length"]
    longest = max(prompts.values())
    weights = element * shape.parameters
    cached = shape.cache_bytes(element, element)
    sampling = estimate.sampling_memory(shape, batch, longest, longest + limit, cached, element)
    peak = (weights + sum(sampling.values())) / GB
    low, high = (
        sum(
            timing.evaluation_seconds(shape, hardware, number, min(batch, number), prompts[name], length, element)
            for name, number in completions.items()
        )
        / 3600
        for length in lengths(limit, hardware)
    )
    sampled = sum(completions.values()) * limit
    needs = Needs(
        gpu_memory_gb=peak + GPU_BASE / GB if gpu else math.nan,
        memory_gb=(weights + GPU_HOST_BASE) / GB if gpu else peak + HOST_BASE / GB,
        hours_low=low,
        hours_high=high,
        sampled_tokens=sampled,
        disk_kept_gb=sampled * _TEXT_BYTES / GB,
    )
    needs.warnings += plan_advice.context("evaluation", prompts, limit, shape.context)
    if gpu:
        needs.warnings += plan_advice.evaluation_gpu(needs.gpu_memory_gb, hardware)
    needs.warnings += plan_advice.asked("evaluation", needs.memory_gb, high, job, config["resources"]["limits"])
    return needs


def pretraining(config: dict, shape: ModelShape, hardware: Hardware) -> Needs:
    """What the pretraining of one of the study's own base models needs."""
    sizes = config["pretraining"]
    grpo = {"bf16": False, "lora": None, "gradient_checkpointing": False, "micro_batch_size": sizes["batch_size"] // 4}
    held = 16 * shape.parameters + estimate.activations(Run(shape, grpo, {}, 0, gpu=False), _CORPUS_LENGTH)
    hours = timing.pretraining_seconds(shape, hardware, sizes["steps"], sizes["batch_size"], _CORPUS_LENGTH) / 3600
    return Needs(
        memory_gb=(held + HOST_BASE) / GB,
        hours_low=hours,
        hours_high=hours,
        trained_tokens=sizes["steps"] * sizes["batch_size"] * _CORPUS_LENGTH,
        disk_kept_gb=4 * shape.parameters / GB,
    )


def download(shape: ModelShape) -> Needs:
    """What a model from the hub needs: its disk, in bf16. The time is the network's."""
    return Needs(disk_kept_gb=2 * shape.parameters / GB)
