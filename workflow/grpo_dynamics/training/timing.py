"""The arithmetic and the time of a job, before it runs, from a formula in the model's sizes and the hardware's.

Arithmetic (`forward_flops`, `training_flops`)
    2 operations per weight and token forward and twice that backward (Kaplan et al. 2020, arXiv 2001.08361; weights
    that LoRA freezes have no gradient), the forward pass again under gradient checkpointing, and 4 x length x width of
    all heads per token and layer for attention. Time: at a stated share of the hardware's peak.
Sampling (`sampling_seconds`)
    Every token reads all weights, and all keys and values so far (Pope et al. 2022, arXiv 2211.05102): at a stated
    share of the memory's bandwidth. transformers starts every kernel anew for every token, which on a fast GPU takes
    longer than the kernels (``hardware.layer_ms`` per layer); vLLM does not. TRL hands a vLLM the prompts of all
    processes that it serves: a server those of all, a colocated one those of its ``tensor_parallel_size`` processes.
A step (`step_seconds`)
    Sampling once in K_ref steps, the reference model's pass (and the old policy's, with vLLM or K_ref > 1), loss and
    gradient in micro-batches, the optimiser's update, and the held-out measurement, spread evenly.

Left out: scoring, saving, starting, moving weights to vLLM, and all that processes say to each other.
"""

from __future__ import annotations

from grpo_dynamics.training.estimate import GB, Hardware, Run, cache_bytes
from grpo_dynamics.training.model_shape import ModelShape

# transformers appends to its cache by copying it: read, written, and read again by attention.
_CACHE_PASSES = 3

# Bytes that AdamW's update reads and writes per trained parameter: weight, gradient and two moments.
_UPDATE_BYTES = 28


def forward_flops(shape: ModelShape, tokens: float, length: float, scored: float) -> float:
    """Operations of a forward pass over `tokens` in sequences of `length`, of which `scored` reach the output layer."""
    attention = 4 * length * shape.attention_size * shape.layers
    return tokens * (2 * shape.layer_weights + attention) + 2 * shape.head_weights * scored


def training_flops(run: Run, length: int) -> float:
    """Operations per process and optimiser step of the loss and its gradient, for sequences of `length` tokens."""
    shape, lora = run.shape, run.grpo["lora"] is not None
    tokens, scored = run.completions * length, run.completions * scored_tokens(run, length)
    weights = tokens * 2 * shape.layer_weights
    attention = tokens * 4 * length * shape.attention_size * shape.layers
    again = 1 if run.grpo["gradient_checkpointing"] else 0
    # Recomputation ends before the last matrix of a layer, whose output nobody needs, unless it has an adapter.
    spared = 0 if lora else again * tokens * 2 * shape.layers * shape.intermediate_size * shape.hidden_size
    adapters = (6 + 2 * again) * tokens * run.trained if lora else 0
    # The output layer's tiles are computed again in the backward pass; a frozen one gets no gradient.
    head = 2 * shape.head_weights * scored * (3 if lora else 4)
    return weights * ((2 if lora else 3) + again) + attention * (3 + again) - spared + adapters + head


def scored_tokens(run: Run, length: int) -> int:
    """Tokens per sequence that reach the output layer: the completion's; on a CPU, the prompt's too."""
    return length - run.prompt if run.gpu else length - 1


def launched_layers(run: Run) -> float:
    """Layers whose kernels a forward pass starts; adapters on all matrices make twice as many kernels as there were.

    Measured on tiny models of the three architectures: 1.92 to 1.96 times the time per layer and token.
    """
    adapted = run.shape.adapted(run.grpo["lora"]["target_modules"]) if run.grpo["lora"] else []
    return run.shape.layers * (1 + len(adapted) / len(run.shape.matrices))


def sampling_seconds(
    shape: ModelShape,
    hardware: Hardware,
    batch: float,
    prompt: int,
    length: int,
    weight_traffic: float,
    cache_traffic: float,
    launches: float,
) -> float:
    """Time to sample `batch` completions of `length` tokens together, all behind prompts of `prompt` tokens.

    Parameters
    ----------
    weight_traffic, cache_traffic : float
        Bytes moved for every token: per weight, and per token that is cached.
    launches : float
        Layers whose kernels are started anew for every token, as transformers does.
    """
    seen = prompt + length / 2  # on average
    weights = shape.layer_weights + shape.head_weights
    traffic = weights * weight_traffic + batch * seen * cache_traffic
    flops = forward_flops(shape, batch, seen, batch)
    token = hardware.seconds(traffic, flops, launches)
    return hardware.seconds(flops=forward_flops(shape, batch * prompt, prompt, batch)) + length * token


def generation_seconds(run: Run, hardware: Hardware, batch: int, length: int) -> float:
    """Time in which every process gets `batch` completions of `length` tokens."""
    shape, vllm = run.shape, run.grpo["vllm"]
    if vllm is None:
        # Autocast reads float32 weights, writes a copy and reads that.
        traffic = 8 if run.casts else run.weight_bytes
        cache = _CACHE_PASSES * cache_bytes(run)
        return sampling_seconds(shape, hardware, batch, run.prompt, length, traffic, cache, launched_layers(run))
    per_token, gpus = shape.cache_bytes(2, 2), vllm["tensor_parallel_size"]
    together = batch * (run.processes if run.server_gpus else gpus)
    share = vllm["gpu_memory_utilization"] * hardware.memory_gb * GB * gpus
    room = max(share - 2 * shape.parameters, 0) // (per_token * (run.prompt + length))
    rounds = -(-together // max(int(room), 1))  # completions for which the cache has no room wait
    # The GPUs of one vLLM divide weights, cache and arithmetic; no time goes into starting kernels.
    one_gpu = sampling_seconds(shape, hardware, together / rounds, run.prompt, length, 2, per_token, 0)
    return rounds * one_gpu / gpus


def step_seconds(run: Run, hardware: Hardware, length: int) -> dict[str, float]:
    """Time of an optimiser step by part, for completions of `length` tokens."""
    grpo, shape = run.grpo, run.shape
    whole = run.prompt + length
    launches = run.completions // grpo["micro_batch_size"] * launched_layers(run)
    passes = 4 if grpo["gradient_checkpointing"] else 3  # forward, again forward, and backward as two
    scored = run.completions * scored_tokens(run, whole)
    forward = hardware.seconds(flops=forward_flops(shape, run.completions * whole, whole, scored), launches=launches)
    old_policy = grpo["K_ref"] > 1 or grpo["vllm"] is not None
    share = -(-grpo["heldout_problems"] // run.processes)
    batch = min(run.completions, share)
    heldout = -(-share // batch) * generation_seconds(run, hardware, batch, length)
    return {
        "sampling": generation_seconds(run, hardware, run.completions, length) / grpo["K_ref"],
        "reference and old policy": forward * (2 if old_policy else 1) / grpo["K_ref"],
        "loss and gradient": hardware.seconds(flops=training_flops(run, whole), launches=passes * launches),
        "update": hardware.seconds(traffic=_UPDATE_BYTES * run.trained / run.shards),
        "held out": heldout / grpo["heldout_every"],
    }


def training_tokens(run: Run) -> tuple[int, int]:
    """Tokens that a run samples (held out too) and trains on, over all processes, prompts included in the second."""
    grpo, length = run.grpo, run.grpo["max_completion_length"]
    measured = grpo["steps"] // grpo["heldout_every"] * grpo["heldout_problems"]
    sampled = grpo["steps"] // grpo["K_ref"] * grpo["completions_per_step"] + measured
    return sampled * length, grpo["steps"] * grpo["completions_per_step"] * (run.prompt + length)


def evaluation_seconds(
    shape: ModelShape,
    hardware: Hardware,
    completions: int,
    batch: int,
    prompt: int,
    length: int,
    weight_bytes: int,
) -> float:
    """Time in which lm-eval's transformers model samples `completions` of `length` tokens, `batch` at a time."""
    cache = _CACHE_PASSES * shape.cache_bytes(weight_bytes, weight_bytes)
    one = sampling_seconds(shape, hardware, batch, prompt, length, weight_bytes, cache, shape.layers)
    return -(-completions // batch) * one


def pretraining_seconds(shape: ModelShape, hardware: Hardware, steps: int, batch: int, length: int) -> float:
    """Time in which one of the study's own base models is pretrained on `steps` batches of sequences of `length`."""
    flops = 3 * forward_flops(shape, batch * length, length, batch * length)
    return steps * hardware.seconds(flops=flops, launches=3 * 4 * shape.layers)  # a batch goes through in four parts
