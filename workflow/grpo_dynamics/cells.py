"""The runs that a study has beyond its own cells, and the settings of each: variants, induced failures, evaluations."""

from __future__ import annotations

import math


def failure_kinds(config: dict) -> dict[str, dict]:
    """The kinds of runs with an induced failure by name, as far as the study has their models and starting points."""
    failures = config["failures"] or {"runs": {}}
    return {
        name: kind
        for name, kind in failures["runs"].items()
        if kind is not None
        and kind.get("model", failures["model"]) in config["models"]
        and (not kind.get("trained") or failures["G"] in config["group_sizes"])
    }


def failure_grpo(config: dict, name: str) -> dict:
    """The section grpo of the runs of one kind of induced failure."""
    failures = config["failures"]
    return config["grpo"] | failures["grpo"] | failures["runs"][name].get("grpo", {})


def evaluation_settings(config: dict, model: str) -> dict:
    """The section evaluation for the checkpoints of one model."""
    return config["evaluation"] | config["catalogue"][model].get("evaluation", {})


def failure_cells(config: dict) -> list[tuple[str, str, int, int]]:
    """The runs with an induced failure, and the healthy ones beside them, as (kind, model, G, seed)."""
    failures = config["failures"]
    return [
        (name, kind.get("model", failures["model"]), failures["G"], seed)
        for name, kind in failure_kinds(config).items()
        for seed in kind["seeds"]
    ]


def variant_grpo(config: dict, name: str, G: int) -> dict:
    """The section grpo of a variant's runs with group size `G`."""
    variant, grpo = config["variants"][name], dict(config["grpo"])
    grpo["learning_rate"] *= variant.get("eta_factor", 1.0)
    if variant.get("equal_prompts", False):
        grpo["completions_per_step"] = grpo["completions_per_step"] // max(config["group_sizes"]) * G
        grpo["micro_batch_size"] = math.gcd(grpo["micro_batch_size"], grpo["completions_per_step"])
    return grpo


def variant_cells(config: dict) -> list[tuple[str, str, int, int]]:
    """The variants' runs as (variant, model, G, seed), without those whose settings are the study's own."""
    return [
        (name, model, G, seed)
        for name, variant in config["variants"].items()
        if variant is not None
        for model in config["models"]
        for G in config["group_sizes"]
        for seed in config["seeds"]
        if model in variant.get("models", config["models"])
        and seed in variant.get("seeds", config["seeds"])
        and variant_grpo(config, name, G) != config["grpo"]
    ]
