"""Where a job's needs do not fit what it asks for: a line each, with what to change in the config."""

from __future__ import annotations

import math

from grpo_dynamics.training.estimate import GB, Hardware, Run

# Share of a GPU's memory that a job can count on: allocations leave gaps.
_USABLE = 0.9

# What to change if this is the largest part of the memory, beside what cannot be changed.
_STATES = ("weights", "optimiser", "reference", "gradient buckets", "gradients", "bf16 copies", "output layer")
_SAMPLING = ("cached keys and values", "sampling")


def context(section: str, prompts: dict[str, int], length: int, most: int) -> list[str]:
    """A warning if a prompt and its completion do not fit into the model's context.

    Parameters
    ----------
    section : {"grpo", "evaluation"}
        Section of the config that has the limit.
    prompts : dict
        Tokens of the longest prompt by task or benchmark.
    length, most : int
        Tokens of the longest completion, and of the context.
    """
    name = max(prompts, key=prompts.__getitem__)
    if prompts[name] + length <= most:
        return []
    room = (
        f"set {section}.max_completion_length: {most - prompts[name]}" if prompts[name] < most else f"leave out {name}"
    )
    return [f"about {prompts[name]} tokens of prompt ({name}) and {length} exceed the context of {most}: {room}"]


def _relief(run: Run, parts: dict[str, float]) -> str:
    """What to change so that a run needs less memory on a GPU, after what takes most of it."""
    grouped = {
        "states": sum(parts.get(name, 0) for name in _STATES),
        "sampling": sum(parts.get(name, 0) for name in _SAMPLING),
        "activations": parts.get("activations", 0),
        "vLLM": parts.get("vLLM", 0),
    }
    match max(grouped, key=grouped.__getitem__):
        case "sampling":
            return "set grpo.vllm, train on more GPUs (launch), or lower grpo.completions_per_step"
        case "activations" if not run.grpo["gradient_checkpointing"]:
            return "set grpo.gradient_checkpointing"
        case "activations":
            return "lower grpo.micro_batch_size"
        case "vLLM":
            return "lower grpo.vllm.gpu_memory_utilization"
        case _ if run.grpo["lora"] is None:
            return "set grpo.lora, or launch.accelerate: sharded on more GPUs"
    return "take GPUs with more memory"


def training_gpus(run: Run, parts: dict[str, float], hardware: Hardware) -> list[str]:
    """Warnings about the memory of a run's GPUs, and vLLM's share of it.

    Parameters
    ----------
    parts : dict
        Bytes at the peak by what they are for (`estimate.training_memory`).
    """
    found, peak = [], sum(parts.values()) / GB
    if peak > _USABLE * hardware.memory_gb:
        largest = max(parts, key=parts.__getitem__)
        found.append(
            f"about {peak:.0f} GB on a GPU with {hardware.memory_gb:.0f}, most of it {largest} "
            f"({parts[largest] / GB:.0f} GB): {_relief(run, parts)}"
        )
    vllm = run.grpo["vllm"]
    if vllm:
        own = vllm["gpu_memory_utilization"] * hardware.memory_gb * vllm["tensor_parallel_size"]
        sequence = (run.prompt + run.grpo["max_completion_length"]) * run.shape.cache_bytes(2, 2)
        least = (2 * run.shape.parameters + 8 * sequence) / GB
        if own < least:
            share = math.ceil(100 * least / hardware.memory_gb / vllm["tensor_parallel_size"]) / 100
            found.append(
                f"vLLM's {own:.0f} GB do not hold the weights and the cache of eight completions: set "
                f"grpo.vllm.gpu_memory_utilization: {share:.2f}"
            )
    elif run.shards > 1:
        found.append(
            "sharded weights are gathered for every token that is sampled, which the time leaves out: set grpo.vllm"
        )
    return found


def evaluation_gpu(peak: float, hardware: Hardware) -> list[str]:
    """A warning if an evaluation needs `peak` GB on a GPU that has less."""
    if peak <= _USABLE * hardware.memory_gb:
        return []
    return [f"about {peak:.0f} GB on a GPU with {hardware.memory_gb:.0f}: lower evaluation.batch_size"]


def asked(stage: str, memory: float, hours: float, job: dict, limits: dict) -> list[str]:
    """Warnings if a job needs more memory or time than it asks for at its first attempt.

    Parameters
    ----------
    stage : {"training", "evaluation"}
        Section of the config's resources.
    memory, hours : float
        What is needed, GB and h.
    job : dict
        With ``mem_mb`` and ``runtime`` (minutes), as asked for.
    limits : dict
        The most of both that a job can get, or None: the config's ``resources.limits``.
    """
    shortage = {
        "mem_mb": (math.ceil(memory) * 1000, f"about {memory:.1f} GB of memory, asks for {job['mem_mb'] / 1000:g}"),
        "runtime": (math.ceil(hours * 6) * 10, f"up to {hours * 60:.0f} minutes, asks for {job['runtime']}"),
    }
    beyond = {
        ("training", "runtime"): "the run stops before its limit, is requeued and goes on",
        ("evaluation", "runtime"): "lower evaluation.samples, items or max_completion_length",
    }
    needed = {"mem_mb": memory * 1000, "runtime": hours * 60}
    found = []
    for name, (enough, text) in shortage.items():
        limit = limits[name]
        if needed[name] <= job[name]:
            continue
        if limit is None or needed[name] <= limit:
            suggested = enough if limit is None else min(enough, limit)  # rounded up, though not beyond the limit
            found.append(f"{text}: set resources.{stage}.{name}: {suggested}")
        else:
            relief = beyond.get((stage, name), "take nodes with more memory")
            found.append(f"{text}, the limit is {limit} (resources.limits.{name}): {relief}")
    return found
