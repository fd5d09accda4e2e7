"""What must fit together in a config beyond its schema: references between keys, sizes, files that must exist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_dynamics.cells import evaluation_settings, failure_grpo, failure_kinds, variant_cells, variant_grpo


def show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def semantic_errors(config: dict, root: Path) -> Iterator[str]:
    """What a schema cannot say: references between keys, and files that must exist."""
    catalogue = config["catalogue"]
    for name in config["models"]:
        if name not in catalogue:
            yield f"models: found {show(name)}, allowed: a model of the catalogue: {', '.join(sorted(catalogue))}"
        elif "path" in catalogue[name] and not Path(catalogue[name]["path"], "config.json").is_file():
            path = catalogue[name]["path"]
            yield f"catalogue.{name}.path: found {show(path)}, allowed: a folder with a checkpoint (config.json)"
    for name, variant in config["variants"].items():
        for model in (variant or {}).get("models", []):
            if model not in catalogue:
                yield f"variants.{name}.models: found {show(model)}, allowed: {', '.join(sorted(catalogue))}"
    for name in config["models"]:
        template = catalogue.get(name, {}).get("chat_template")
        if template and not Path(template).is_file():
            yield f"catalogue.{name}.chat_template: found {show(template)}, allowed: a file that exists"
    yield from _grpo_errors(config["grpo"], config["group_sizes"], "grpo", "group_sizes")
    pretraining = config["pretraining"]
    if pretraining["hidden_size"] % (2 * pretraining["heads"]):
        yield (
            f"pretraining.hidden_size: found {pretraining['hidden_size']}, allowed: a multiple of "
            f"2 * pretraining.heads = {2 * pretraining['heads']}"
        )
    evaluation = config["evaluation"]
    known = sorted(path.stem for path in (root / "workflow" / "benchmarks").glob("[!_]*.yaml"))
    named = {"benchmarks": evaluation["benchmarks"], "data_files": evaluation["data_files"]}
    named |= {"revisions": evaluation["revisions"]}
    if isinstance(evaluation["samples"], dict):
        named["samples"] = evaluation["samples"]
    for key, name in ((key, name) for key, names in named.items() for name in names):
        if name not in known:
            yield f"evaluation.{key}: found {show(name)}, allowed: {', '.join(known)}"
    own = {"ladder": "ladder_in_distribution", "gsm8k": "gsm8k"}[config["task"]]
    if evaluation["benchmarks"][0] != own:
        yield (
            f"evaluation.benchmarks: found {show(evaluation['benchmarks'][0])} first, allowed: {own} first, since "
            f"the order is the distance from task = {config['task']}"
        )
    if evaluation["items"] is None and any(name.startswith("ladder_") for name in evaluation["benchmarks"]):
        yield "evaluation.items: found null, allowed: a number, since the ladder's problems are generated"
    sampled = (
        evaluation["samples"]
        if isinstance(evaluation["samples"], int)
        else max(evaluation["samples"].values(), default=1)
    )
    if sampled > 1 and evaluation["temperature"] == 0:
        yield f"evaluation.temperature: found 0, allowed: a value > 0, since evaluation.samples asks for {sampled}"
    files = {f"evaluation.data_files.{name}": path for name, path in evaluation["data_files"].items()}
    data = {name: config["training_data"][name] for name in ("train", "heldout") if config["training_data"][name]}
    files |= {f"training_data.{name}": path for name, path in data.items()}
    if config["task"] == "ladder" and data:
        name = min(data)
        yield f"training_data.{name}: found {show(data[name])}, allowed: null, since task = ladder makes its own"
    for key, path in files.items():
        if not Path(path).is_file():
            yield f"{key}: found {show(path)}, allowed: a file that exists"
    yield from _failure_errors(config)
    yield from _launch_errors(config)
    yield from _context_errors(config)
    yield from _resource_errors(config["resources"])
    for name, entry in config["own_runs"].items():
        if not Path(entry["path"]).exists():
            yield f"own_runs.{name}.path: found {show(entry['path'])}, allowed: a file or folder that exists"


def _grpo_errors(grpo: dict, sizes: list[int], key: str, sizes_key: str) -> Iterator[str]:
    """What must fit together within a section grpo."""
    for G in sizes:
        if grpo["completions_per_step"] % G:
            yield (
                f"{sizes_key}: found {G}, allowed: a divisor of {key}.completions_per_step "
                f"= {grpo['completions_per_step']}, so that every group is complete"
            )
    if grpo["completions_per_step"] % grpo["micro_batch_size"]:
        yield (
            f"{key}.micro_batch_size: found {grpo['micro_batch_size']}, allowed: a divisor of "
            f"{key}.completions_per_step = {grpo['completions_per_step']}"
        )
    for name in ("steps", "checkpoint_every"):
        if grpo[name] % grpo["K_ref"]:
            yield f"{key}.{name}: found {grpo[name]}, allowed: a multiple of {key}.K_ref = {grpo['K_ref']}"


def _launch_errors(config: dict) -> Iterator[str]:
    """What must fit together between the processes of a training job, its GPUs and its batches."""
    launch, grpo, gpus = config["launch"], config["grpo"], config["resources"]["training"]["gpu"]
    how, per_node, nodes = launch["accelerate"], launch["processes"], launch["nodes"]
    processes = per_node * nodes
    if how in (None, "one_gpu") and processes > 1:
        several = "several_gpus, sharded or several_nodes"
        yield f"launch.accelerate: found {show(how)}, allowed: {several} for {processes} processes"
    if how in ("several_gpus", "sharded") and (per_node == 1 or nodes > 1):
        yield f"launch: found {per_node} processes on {nodes} nodes, allowed: several processes on one node for {how}"
    if how == "several_nodes" and nodes == 1:
        yield "launch.nodes: found 1, allowed: a value >= 2 for several_nodes"
    vllm = grpo["vllm"]
    server = vllm["tensor_parallel_size"] if vllm and vllm["mode"] == "server" else 0
    if server and nodes > 1:
        yield "grpo.vllm.mode: found server, allowed: colocate with launch.nodes > 1"
    if vllm and not server and processes % vllm["tensor_parallel_size"]:
        yield (
            f"grpo.vllm.tensor_parallel_size: found {vllm['tensor_parallel_size']}, allowed: a divisor of the "
            f"{processes} processes of launch"
        )
    if gpus and gpus != processes + server:
        yield (
            f"resources.training.gpu: found {gpus}, allowed: {processes + server}, one for each process of launch and "
            f"{server} for the vLLM server"
        )
    for key, settings in _grpo_sections(config):
        if how == "sharded" and settings["lora"]:
            yield f"launch.accelerate: found sharded, allowed: several_gpus or several_nodes with {key}.lora"
        if settings["vllm"] != vllm:
            yield (
                f"{key}.vllm: found {show(settings['vllm'])}, allowed: {show(vllm)} as in grpo.vllm, since all "
                "training jobs of a study start their processes alike"
            )
        if settings["completions_per_step"] % (settings["micro_batch_size"] * processes):
            yield (
                f"{key}: found {settings['completions_per_step']} completions per step in micro-batches of "
                f"{settings['micro_batch_size']}, allowed: a multiple of a micro-batch on each of {processes} processes"
            )


def _grpo_sections(config: dict) -> Iterator[tuple[str, dict]]:
    """The settings of all GRPO runs of a study, each with the config's key: its own, the variants', the failures'."""
    yield "grpo", config["grpo"]
    for name, G in dict.fromkeys((name, G) for name, model, G, seed in variant_cells(config)):
        yield f"variants.{name}", variant_grpo(config, name, G)
    for name in failure_kinds(config):
        yield f"failures.runs.{name}.grpo", failure_grpo(config, name)


def _context_errors(config: dict) -> Iterator[str]:
    """Completions that cannot fit into a model's context; with their prompts they are checked when the job starts."""
    for name in filter(config["catalogue"].__contains__, config["models"]):
        context = config["catalogue"][name].get("shape", {}).get("context")
        own = "evaluation" in config["catalogue"][name]
        evaluated = f"catalogue.{name}.evaluation" if own else "evaluation", evaluation_settings(config, name)
        for section, settings in [*_grpo_sections(config), evaluated]:
            length = settings["max_completion_length"]
            if context and length >= context:
                yield (
                    f"{section}.max_completion_length: found {length}, allowed: less than the context of {context} "
                    f"tokens of {name}"
                )


def _failure_errors(config: dict) -> Iterator[str]:
    failures = config["failures"] or {"runs": {}}
    for name, kind in failures["runs"].items():
        model = (kind or {}).get("model", failures["model"])
        if model not in config["catalogue"]:
            yield f"failures.runs.{name}: found the model {show(model)}, allowed: {', '.join(config['catalogue'])}"
    for name, kind in failure_kinds(config).items():
        key = f"failures.runs.{name}"
        yield from _grpo_errors(failure_grpo(config, name), [failures["G"]], f"{key}.grpo", "failures.G")
        if "operands" in kind and config["task"] != "ladder":
            yield f"{key}.operands: found {kind['operands']}, allowed: only with task = ladder"


def _resource_errors(resources: dict) -> Iterator[str]:
    for stage in ("training", "evaluation"):
        for name, limit in resources["limits"].items():
            if limit is not None and resources[stage][name] > limit:
                yield (
                    f"resources.{stage}.{name}: found {resources[stage][name]}, "
                    f"allowed: at most resources.limits.{name} = {limit}"
                )
    training = resources["training"]
    if training["stop_before"] >= training["runtime"]:
        yield (
            f"resources.training.stop_before: found {training['stop_before']}, "
            f"allowed: less than resources.training.runtime = {training['runtime']}"
        )
