"""Every mistake in the config gives one line that names the key, the value and what is allowed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from grpo_dynamics.cells import failure_cells, failure_grpo, failure_kinds, variant_cells, variant_grpo
from grpo_dynamics.config import (
    ConfigError,
    grown,
    resolve,
)


def test_the_default_config_is_valid(config):
    assert resolve(config, ROOT) is config


@pytest.mark.parametrize("overlay", sorted(path.name for path in (ROOT / "config" / "studies").glob("*.yaml")))
def test_overlays_are_valid(config, overlay):
    resolve(merge(config, yaml.safe_load((ROOT / "config" / "studies" / overlay).read_text())), ROOT)


# What the documents give as overlays: those of docs/hpc.md upon the paper's study, the README's upon the default one.
EXAMPLES = [
    (name, study, block)
    for name, study in (("README.md", None), ("docs/hpc.md", "paper.yaml"))
    for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize(
    ("name", "study", "block"), EXAMPLES, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(EXAMPLES)]
)
def test_the_documents_overlays_are_valid(config, tmp_path, name, study, block):
    if study:
        merge(config, yaml.safe_load((ROOT / "config" / "studies" / study).read_text()))
    # The reader's own files and checkpoints.
    for own in re.findall(r"(?<=: )/[\w./-]+", block):
        file = tmp_path / own[1:] if Path(own).suffix in (".json", ".jsonl") else tmp_path / own[1:] / "config.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        block = block.replace(f": {own}", f": {tmp_path}{own}")
    resolve(merge(config, yaml.safe_load(block)), ROOT)


def merge(config, changes):
    """Snakemake's rule: mappings merge, everything else is replaced."""
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            merge(config[key], value)
        else:
            config[key] = value
    return config


LORA = {"rank": 8, "alpha": 16, "target_modules": "all-linear"}
VLLM = {"mode": "colocate", "gpu_memory_utilization": 0.3, "tensor_parallel_size": 1}
SHAPE = {"hidden_size": 64, "layers": 3, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 192}
SHAPE |= {"gated": True, "vocabulary": 75, "tied": True, "context": 512}
MISTAKES = {
    "more memory than a partition gives": (
        {"resources": {"limits": {"mem_mb": 2000}}},
        "resources.training.mem_mb: found 3000, allowed: at most resources.limits.mem_mb = 2000",
    ),
    "no time between start and stop": (
        {"resources": {"training": {"runtime": 10}}},
        "resources.training.stop_before: found 10, allowed: less than resources.training.runtime = 10",
    ),
    "unknown key at the top": ({"sede": 1}, "the top level: unknown key sede; allowed: analysis,"),
    "unknown key in a section": ({"grpo": {"lr": 1}}, "grpo: unknown key lr; allowed: K_ref,"),
    "G below 2": ({"group_sizes": [1]}, "group_sizes.0: found 1, allowed: a value >= 2"),
    "G does not divide": (
        {"group_sizes": [4, 5]},
        "group_sizes: found 5, allowed: a divisor of grpo.completions_per_step = 96",
    ),
    "mu of one": ({"grpo": {"mu": 1}}, "grpo.mu: found 1, allowed: a value < 1 and a value >= 0"),
    "mu below zero": ({"grpo": {"mu": -0.1}}, "grpo.mu: found -0.1, allowed: a value >= 0 and a value < 1"),
    "K_ref below 1": ({"grpo": {"K_ref": 0}}, "grpo.K_ref: found 0, allowed: a value >= 1"),
    "K_ref does not divide": ({"grpo": {"K_ref": 7}}, "allowed: a multiple of grpo.K_ref = 7"),
    "not a number": ({"grpo": {"mu": float("nan")}}, "grpo.mu: found nan, allowed: a finite number"),
    "micro-batches do not divide": ({"grpo": {"micro_batch_size": 36}}, "grpo.micro_batch_size: found 36, allowed: a"),
    "heads do not divide": ({"pretraining": {"hidden_size": 30, "heads": 4}}, "pretraining.hidden_size: found 30"),
    "greedy samples": (
        {"evaluation": {"samples": 4, "temperature": 0}},
        "evaluation.temperature: found 0, allowed: a value > 0, since evaluation.samples asks for 4",
    ),
    "an endless ladder": ({"evaluation": {"items": None}}, "evaluation.items: found null, allowed: a number"),
    "another task's benchmark first": (
        {"task": "gsm8k"},
        'evaluation.benchmarks: found "ladder_in_distribution" first, allowed: gsm8k first',
    ),
    "samples of an unknown benchmark": (
        {"evaluation": {"samples": {"gsm9k": 2}}},
        'evaluation.samples: found "gsm9k", allowed: ',
    ),
    "a key that is no text": ({1: 2}, "the top level: unknown key 1; allowed: "),
    "a name that no folder should have": ({"study": "My study"}, 'study: found "My study", allowed: text that matches'),
    "a momentum twice": (
        {"bandit": {"thresholds": {"mus": [0.5, 0.5]}}},
        "bandit.thresholds.mus: found [0.5, 0.5], allowed: different items",
    ),
    "two processes without accelerate": (
        {"launch": {"processes": 2}},
        "launch.accelerate: found null, allowed: several_gpus, sharded or several_nodes for 2 processes",
    ),
    "several GPUs on one": (
        {"launch": {"accelerate": "several_gpus"}},
        "launch: found 1 processes on 1 nodes, allowed: several processes on one node for several_gpus",
    ),
    "several nodes that are one": (
        {"launch": {"accelerate": "several_nodes", "processes": 2}},
        "launch.nodes: found 1, allowed: a value >= 2 for several_nodes",
    ),
    "adapters in shards": (
        {"launch": {"accelerate": "sharded", "processes": 2}, "grpo": {"lora": LORA, "micro_batch_size": 12}},
        "launch.accelerate: found sharded, allowed: several_gpus or several_nodes with grpo.lora",
    ),
    "a server for several nodes": (
        {"launch": {"accelerate": "several_nodes", "nodes": 2}, "grpo": {"vllm": VLLM | {"mode": "server"}}},
        "grpo.vllm.mode: found server, allowed: colocate with launch.nodes > 1",
    ),
    "vLLM on more GPUs than processes": (
        {"grpo": {"vllm": VLLM | {"tensor_parallel_size": 2}}},
        "grpo.vllm.tensor_parallel_size: found 2, allowed: a divisor of the 1 processes of launch",
    ),
    "no GPU for the server": (
        {"grpo": {"vllm": VLLM | {"mode": "server"}}, "resources": {"training": {"gpu": 1}}},
        "resources.training.gpu: found 1, allowed: 2, one for each process of launch and 1 for the vLLM server",
    ),
    "a batch that processes cannot share": (
        {"launch": {"accelerate": "several_gpus", "processes": 2}},
        "grpo: found 96 completions per step in micro-batches of 96, allowed: a multiple of a micro-batch on each of 2",
    ),
    "completions longer than a model's context": (
        {"catalogue": {"llama-tiny": {"shape": SHAPE}}, "evaluation": {"max_completion_length": 512}},
        "evaluation.max_completion_length: found 512, allowed: less than the context of 512 tokens of llama-tiny",
    ),
    "a model's own evaluation longer than its context": (
        {"catalogue": {"llama-tiny": {"shape": SHAPE, "evaluation": {"max_completion_length": 512}}}},
        "catalogue.llama-tiny.evaluation.max_completion_length: found 512, allowed: less than the context of 512",
    ),
    "a chat template that is not there": (
        {"catalogue": {"llama-tiny": {"chat_template": "none.jinja"}}},
        'catalogue.llama-tiny.chat_template: found "none.jinja", allowed: a file that exists',
    ),
    "adapters without a rank": ({"grpo": {"lora": {"alpha": 1}}}, "grpo.lora: missing key rank, target_modules"),
    "layers that no adapter names": (
        {"grpo": {"lora": LORA | {"target_modules": "some"}}},
        'grpo.lora.target_modules: found "some", allowed: text that matches ^all-linear$',
    ),
    "adapters for no layer": (
        {"grpo": {"lora": LORA | {"target_modules": []}}},
        "grpo.lora.target_modules: found [], allowed: at least 1 item(s)",
    ),
    "an image without a name": ({"container": ""}, 'container: found "", allowed: at least 1 character(s)'),
    "no seeds": ({"seeds": []}, "seeds: found [], allowed: at least 1 item(s)"),
    "a seed twice": ({"seeds": [0, 0]}, "seeds: found [0, 0], allowed: different items"),
    "a word for a number": ({"grpo": {"steps": "many"}}, 'grpo.steps: found "many", allowed: integer'),
    "unknown model": ({"models": ["gpt"]}, 'models: found "gpt", allowed: a model of the catalogue: llama-tiny,'),
    "unknown benchmark": (
        {"evaluation": {"benchmarks": ["gsm9k"]}},
        'evaluation.benchmarks: found "gsm9k", allowed: ',
    ),
    "unknown architecture": (
        {"catalogue": {"llama-tiny": {"architecture": "mamba"}}},
        'catalogue.llama-tiny.architecture: found "mamba", allowed: one of nemotron, llama, qwen2',
    ),
    "two sources for a model": (
        {"catalogue": {"llama-tiny": {"path": "somewhere"}}},
        "catalogue.llama-tiny: found keys",
    ),
    "a checkpoint that is not there": (
        {"models": ["mine"], "catalogue": {"mine": {"label": "Mine", "path": "no/such/folder"}}},
        'catalogue.mine.path: found "no/such/folder", allowed: a folder with a checkpoint',
    ),
    "a data file that is not there": (
        {"task": "gsm8k", "evaluation": {"benchmarks": ["gsm8k"]}, "training_data": {"train": "no/such.jsonl"}},
        'training_data.train: found "no/such.jsonl", allowed: a file that exists',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gives_one_clear_line(config, name):
    changes, expected = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        resolve(merge(config, changes), ROOT)
    line = str(caught.value)
    assert expected in line
    assert line.startswith("config: ")
    assert "\n" not in line


def test_every_key_is_described():
    schema = yaml.safe_load((ROOT / "config" / "schema.yaml").read_text())

    def undescribed(part, path):
        for name, entry in part.get("properties", {}).items():
            if "description" not in entry:
                yield f"{path}.{name}"
            for inner in (entry, entry.get("additionalProperties"), entry.get("items")):
                if isinstance(inner, dict):
                    yield from undescribed(inner, f"{path}.{name}")

    assert list(undescribed(schema, "config")) == []


def test_what_a_job_asks_for_doubles_up_to_the_limit():
    assert [grown(60, attempt, limit=200) for attempt in (1, 2, 3)] == [60, 120, 200]
    assert grown(60, 3, limit=None) == 240


def test_snakemake_stops_with_that_line_and_runs_nothing(tmp_path):
    overlay = tmp_path / "wrong.yaml"
    overlay.write_text("study: wrong\ngrpo: {mu: 1.5}\n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", "-n", "--configfile", str(overlay)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "config: grpo.mu: found 1.5, allowed: a value < 1 and a value >= 0" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / "results" / "wrong").exists()


def test_variants_change_what_they_say(config):
    equal = variant_grpo(config, "equal_prompts", 4)
    assert equal["completions_per_step"] == 24  # 6 prompts, as 96 completions make at G = 16
    assert equal["completions_per_step"] % equal["micro_batch_size"] == 0
    assert {**equal, "completions_per_step": 96, "micro_batch_size": 96} == config["grpo"]
    half = variant_grpo(config, "eta_half", 16)
    assert half == config["grpo"] | {"learning_rate": 1.5e-4}


def test_variants_run_what_the_study_has_and_nothing_twice(config):
    cells = variant_cells(config)
    # At the largest G equal prompts are equal completions: that cell is the study's own.
    assert {G for name, _, G, _ in cells if name == "equal_prompts"} == {4}
    assert {(model, seed) for name, model, _, seed in cells if name == "eta_double"} == {
        ("llama-tiny", seed) for seed in (0, 1, 2)
    }
    config |= {"models": ["qwen2-tiny"], "seeds": [5]}
    assert variant_cells(config) == [("equal_prompts", "qwen2-tiny", 4, 5)]
    config["variants"]["equal_prompts"] = None
    assert variant_cells(config) == []


def test_a_variant_of_an_unknown_model_is_refused(config):
    config["variants"]["eta_half"]["models"] = ["lama-tiny"]
    with pytest.raises(ConfigError, match=r"variants.eta_half.models: found \"lama-tiny\", allowed: "):
        resolve(config, ROOT)


def test_failures_change_what_they_say(config):
    grpo = failure_grpo(config, "hackable_reward")
    assert grpo == config["grpo"] | config["failures"]["grpo"] | {"reward": "fails_open"}
    cells = failure_cells(config)
    assert len(cells) == 8 + 5 * 4
    assert ("easy_prompts", "qwen2-tiny", 4, 23) in cells
    config["failures"]["runs"]["healthy"] = None
    assert len(failure_cells(config)) == 5 * 4
    config["failures"] = None
    assert failure_cells(config) == []
    resolve(config, ROOT)


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        ("healthy", {"grpo": {"eta": 1.0}}, "failures.runs.healthy.grpo: unknown key eta; allowed: K_ref, "),
        ("healthy", {"grpo": {"steps": 0}}, "failures.runs.healthy.grpo.steps: found 0, allowed: a value >= 1"),
        ("healthy", {"grpo": {"steps": "many"}}, 'failures.runs.healthy.grpo.steps: found "many", allowed: integer'),
        (
            "healthy",
            {"grpo": {"vllm": VLLM | {"mode": "server"}}},
            'failures.runs.healthy.grpo.vllm: found {"mode": "server", "gpu_memory_utilization": 0.3, '
            '"tensor_parallel_size": 1}, allowed: null as in grpo.vllm',
        ),
        ("healthy", {"model": "gpt"}, 'failures.runs.healthy: found the model "gpt", allowed: nemotron'),
        (
            "large_eta",
            {"grpo": {"completions_per_step": 66}},
            "failures.G: found 4, allowed: a divisor of failures.runs.",
        ),
    ],
)
def test_mistakes_in_failures_give_one_clear_line(config, kind, change, expected):
    config["failures"]["runs"][kind] |= change
    with pytest.raises(ConfigError) as caught:
        resolve(config, ROOT)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_failures_share_their_batches_among_the_processes_too(config):
    merge(config, {"launch": {"accelerate": "several_gpus", "processes": 2}, "grpo": {"micro_batch_size": 12}})
    with pytest.raises(ConfigError) as caught:
        resolve(config, ROOT)
    assert str(caught.value) == (
        "config: failures.runs.healthy.grpo: found 64 completions per step in micro-batches of 64, "
        "allowed: a multiple of a micro-batch on each of 2 processes"
    )
    config["failures"]["grpo"]["micro_batch_size"] = 32
    resolve(config, ROOT)
    config["failures"]["runs"]["large_eta"]["grpo"]["micro_batch_size"] = 64
    with pytest.raises(ConfigError, match=r"failures.runs.large_eta.grpo: found 64 completions per step"):
        resolve(config, ROOT)


def test_adapters_of_failures_are_not_sharded_either(config):
    merge(config, {"launch": {"accelerate": "sharded", "processes": 2}, "grpo": {"micro_batch_size": 12}})
    merge(config, {"failures": {"grpo": {"micro_batch_size": 32, "lora": LORA}}})
    with pytest.raises(ConfigError, match=r"found sharded, allowed: .* with failures.runs.healthy.grpo.lora"):
        resolve(config, ROOT)


def test_failures_are_run_as_far_as_the_study_has_their_models_and_runs(config):
    config["group_sizes"] = [16]
    assert "easy_prompts" not in failure_kinds(config)
    config["models"] = ["nemotron-tiny"]
    assert failure_cells(config) == []
    resolve(config, ROOT)
