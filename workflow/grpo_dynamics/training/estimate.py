"""The memory and the disk that a GRPO run needs, before it runs, from a formula in the model's sizes.

Every completion is taken to be as long as ``max_completion_length`` and every prompt as long as the longest, so that
the estimate is the peak. With P parameters, T of them trained:

What stays (`states`)
    Weights and Adam's two moments in float32, 4 P + 8 T bytes, and 4 T for the gradients in the backward pass: 16
    bytes per trained parameter (Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054). Weights that LoRA freezes take 2
    bytes under bf16. The KL anchor's reference model is another copy of the weights; with LoRA it is the model itself
    with its adapters switched off. The launch `sharded` divides all of this among the processes; with copies of the
    model, DistributedDataParallel keeps 4 T more, the buckets in which it sums the gradients of all processes.
Activations (`activations`)
    Counted tensor by tensor as Korthikanti et al. (2022, arXiv 2205.05198) do for GPT, with attention that does not
    keep its scores (Dao et al. 2022, FlashAttention, arXiv 2205.14135). Gradient checkpointing keeps the input of
    every layer and the activations of one (Chen et al. 2016, arXiv 1604.06174).
Output layer
    TRL takes log-probabilities in tiles of 4096 tokens x 32768 words and never holds all logits. What a large
    vocabulary costs is a float32 gradient of the output layer beside the one that accumulates, and the last token's
    logits of every completion that is sampled.
Sampling (`generation_memory`)
    Keys and values of every token of a process's whole batch. vLLM has a fixed share of the GPU instead.
The end (`host_memory`)
    Adapters are merged on the CPU, in float32 (`checkpoints.save_final`): 4 P + 4 T, on the first process alone.

The time is in `grpo_dynamics.training.timing`.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_dynamics.training.model_shape import ModelShape

GB = 1e9

# TRL's tiles of the output layer (trl.kernels.chunked_logprob): tokens x vocabulary.
_TILE = (4096, 32768)

# Memory of a process besides the model, bytes: Python, torch and, on a GPU, CUDA's libraries and context.
HOST_BASE, GPU_HOST_BASE, GPU_BASE = 0.7 * GB, 5 * GB, 1 * GB

# Bytes per word of the vocabulary and completion while a token is sampled: logits, their float32 copy, probabilities.
_SAMPLING_BYTES = 16


@dataclass(frozen=True)
class Hardware:
    """A GPU (or, for jobs without one, a CPU core), as the config's section ``hardware`` describes it.

    Times are those of one core also for a job or a process with several: what they gain depends on the model.

    Attributes
    ----------
    label : str
    memory_gb, bandwidth_gb_s, peak_tflops : float
        Memory in GB, its bandwidth in GB/s, and 10^12 operations per second in the data type that is computed in.
    bandwidth_share, compute_share : float
        Shares of the two that are reached.
    layer_ms : float
        Least time of one layer's forward pass with transformers: starting its kernels, ms.
    at_once : int
        GPUs (or cores) in use at a time.
    shortest_share : float
        The shorter of the two lengths of the longest completion for which times are given, over max_completion_length.
    """

    label: str
    memory_gb: float
    bandwidth_gb_s: float
    peak_tflops: float
    bandwidth_share: float
    compute_share: float
    layer_ms: float
    at_once: int
    shortest_share: float

    def seconds(self, traffic: float = 0.0, flops: float = 0.0, launches: float = 0.0) -> float:
        """Time to move `traffic` bytes, compute `flops` and start `launches` layers, whichever takes longest."""
        return max(
            traffic / (self.bandwidth_gb_s * GB * self.bandwidth_share),
            flops / (self.peak_tflops * 1e12 * self.compute_share),
            launches * self.layer_ms / 1e3,
        )


@dataclass(frozen=True)
class Run:
    """What of a GRPO run's settings decides its cost.

    Attributes
    ----------
    shape : ModelShape
    grpo, launch : dict
        The config's sections ``grpo`` (of this run) and ``launch``.
    prompt : int
        Tokens of the longest prompt.
    gpu : bool
        Whether the run is on GPUs; there, the output layer scores completions only, and not prompts and padding.
    """

    shape: ModelShape
    grpo: dict
    launch: dict
    prompt: int
    gpu: bool

    @property
    def processes(self) -> int:
        return self.launch["processes"] * self.launch["nodes"]

    @property
    def shards(self) -> int:
        return self.processes if self.launch["accelerate"] == "sharded" else 1

    @property
    def replicas(self) -> int:
        """Processes that hold the same weights, and sum their gradients."""
        return self.processes // self.shards

    @property
    def server_gpus(self) -> int:
        vllm = self.grpo["vllm"]
        return vllm["tensor_parallel_size"] if vllm and vllm["mode"] == "server" else 0

    @property
    def completions(self) -> int:
        """Completions per step that a process samples and trains on."""
        return self.grpo["completions_per_step"] // self.processes

    @property
    def trained(self) -> int:
        lora = self.grpo["lora"]
        return self.shape.adapter_parameters(lora["rank"], lora["target_modules"]) if lora else self.shape.parameters

    @property
    def compute_bytes(self) -> int:
        """Bytes of an element that is computed with."""
        return 2 if self.grpo["bf16"] else 4

    @property
    def weight_bytes(self) -> int:
        """Bytes of an element of the base model's weights, and of what runs along the layers."""
        return 2 if self.grpo["bf16"] and self.grpo["lora"] else 4

    @property
    def casts(self) -> bool:
        """Whether autocast makes copies of float32 weights in bf16, which it keeps until the forward pass is over."""
        return self.compute_bytes < self.weight_bytes


def states(run: Run) -> dict[str, float]:
    """Bytes per process that stay for the whole run: weights, Adam's moments, reference model, gradient buckets."""
    base = run.weight_bytes * run.shape.parameters
    adapters = 4 * run.trained if run.grpo["lora"] else 0
    return {
        "weights": (base + adapters) / run.shards,
        "optimiser": 8 * run.trained / run.shards,
        "reference": 0.0 if run.grpo["lora"] else base / run.shards,
        # accelerate leaves gradient_as_bucket_view off, so that the gradients lie beside their buckets.
        "gradient buckets": 4 * run.trained if run.replicas > 1 else 0,
    }


def activations(run: Run, length: int) -> float:
    """Bytes that a micro-batch of sequences of `length` tokens keeps for its backward pass."""
    shape, e, along = run.shape, run.compute_bytes, run.weight_bytes
    h, attention = shape.hidden_size, shape.attention_size
    lora = run.grpo["lora"] is not None
    # A norm keeps its input; an RMS norm in float32, and normalised too if its weights are trained.
    norms = 2 * h * (along if shape.norm_bias else 4 * (1 if lora else 2))
    # Autocast gives every linear map a copy of its input; without it, those of one norm share theirs.
    inputs = h * e * ((5 if shape.gated else 4) if run.grpo["bf16"] else 2)
    # Queries, keys and values of all heads, what they return, its copy for o_proj, and the row of the mask.
    heads = (5 * attention + length) * e + 4 * shape.heads
    layer = norms + inputs + heads + (4 if shape.gated else 2) * shape.intermediate_size * e
    kept = shape.layers * h * along + layer if run.grpo["gradient_checkpointing"] else shape.layers * layer
    return run.grpo["micro_batch_size"] * length * (kept + h * (2 * along + 4))  # the last norm and the output layer


def backward_memory(run: Run, length: int) -> dict[str, float]:
    """Bytes per process that the backward pass needs beside `states`."""
    shape, batch = run.shape, run.grpo["micro_batch_size"]
    tile = min(batch * length, _TILE[0]) * min(shape.vocabulary, _TILE[1]) * run.compute_bytes
    return {
        "gradients": 4 * run.trained / run.shards,
        "activations": activations(run, length),
        "bf16 copies": 2 * shape.layer_weights if run.casts else 0,
        "output layer": tile + (0 if run.grpo["lora"] else 4 * shape.head_weights),
    }


def cache_bytes(run: Run) -> int:
    """Bytes of cached keys and values per token in transformers' generation.

    Rotary positions are float32 where weights are, which under autocast makes the keys float32 and the values bf16.
    """
    return run.shape.cache_bytes(run.weight_bytes, run.compute_bytes)


def sampling_memory(
    shape: ModelShape, completions: int, prompt: int, length: int, cached: int, element: int
) -> dict[str, float]:
    """Bytes that transformers needs beside the weights while it samples `completions` together.

    Parameters
    ----------
    prompt, length : int
        Tokens of the prompts, and of prompt and completion together.
    cached : int
        Bytes of cached keys and values per token.
    element : int
        Bytes of an element that is computed with.
    """
    prefill = prompt * (3 if shape.gated else 2) * shape.intermediate_size * element
    return {
        "cached keys and values": completions * length * cached,
        "sampling": completions * (shape.vocabulary * _SAMPLING_BYTES + prefill),
    }


def generation_memory(run: Run, length: int) -> dict[str, float]:
    """Bytes per process that sampling its batch needs beside `states`; vLLM has a share of the GPU for it."""
    if run.grpo["vllm"]:
        return {}
    copies = 2 * (run.shape.layer_weights + run.shape.head_weights) if run.casts else 0
    sampled = sampling_memory(run.shape, run.completions, run.prompt, length, cache_bytes(run), run.compute_bytes)
    return sampled | {"bf16 copies": copies}


def training_memory(run: Run, hardware: Hardware) -> dict[str, float]:
    """Bytes at the peak of a run on each of its devices, by what they are for.

    Sampling and backward pass take turns: the larger counts, beside what stays. Without a GPU the merging of adapters
    at the end is a third.
    """
    length = run.prompt + run.grpo["max_completion_length"]
    phases = [backward_memory(run, length), generation_memory(run, length)]
    if not run.gpu:
        phases.append({"merging in float32": (4 - run.weight_bytes) * run.shape.parameters})
    parts = states(run) | max(phases, key=lambda phase: sum(phase.values()))
    if run.gpu:
        parts["CUDA"] = GPU_BASE
        if run.grpo["vllm"] and not run.server_gpus:
            parts["vLLM"] = run.grpo["vllm"]["gpu_memory_utilization"] * hardware.memory_gb * GB
    return parts


def host_memory(run: Run) -> float:
    """Bytes of a node's memory that a run on GPUs needs: weights pass through it, the reference model's too.

    Merging adapters comes after loading, whose memory is free by then: the larger of the two counts.
    """
    lora = run.grpo["lora"] is not None
    loaded = run.launch["processes"] * run.weight_bytes * run.shape.parameters * (1 if lora else 2)
    merged = 4 * (run.shape.parameters + run.trained) if lora else 0
    server = 2 * run.shape.parameters + GPU_HOST_BASE if run.server_gpus else 0
    gathered = checkpoint_bytes(run) if run.shards > 1 else 0  # on the first process, to be saved
    return run.launch["processes"] * GPU_HOST_BASE + max(loaded, merged) + server + gathered


def checkpoint_bytes(run: Run) -> int:
    """Bytes of one checkpoint on disk: what is trained, with Adam's moments."""
    return 12 * run.trained


def final_bytes(run: Run) -> int:
    """Bytes of the trained model on disk, adapters merged; sharded ones stay in float32."""
    return run.shape.parameters * (2 if run.grpo["bf16"] and run.shards == 1 else 4)
