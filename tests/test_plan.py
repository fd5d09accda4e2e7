"""The target `plan`: all jobs of a study, warnings where they do not fit, totals."""

import json
import random
import re

import pytest
import yaml
from conftest import ROOT
from test_study import job_counts, overlay, snakemake

from grpo_dynamics import tables
from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import ladder
from grpo_dynamics.training import model_shape, plan, plan_advice, plan_jobs, plan_text, timing
from grpo_dynamics.training.estimate import GB, Hardware, Run, host_memory, training_memory
from grpo_dynamics.training.model_shape import ModelShape

# Sizes of deepseek-llm-7b-chat: 6.91e9 parameters.
SHAPE = {"hidden_size": 4096, "layers": 30, "heads": 32, "kv_heads": 32, "head_dim": 128, "intermediate_size": 11008}
SHAPE |= {"gated": True, "vocabulary": 102400, "tied": False, "context": 4096}
LORA = {"rank": 32, "alpha": 64, "target_modules": "all-linear"}
VLLM = {"mode": "colocate", "gpu_memory_utilization": 0.5, "tensor_parallel_size": 1}
GPU = {"label": "a GPU", "memory_gb": 80, "bandwidth_gb_s": 3000, "peak_tflops": 1000, "bandwidth_share": 0.5}
GPU |= {"compute_share": 0.5, "layer_ms": 1.0, "at_once": 8, "shortest_share": 0.5}


@pytest.fixture
def large(config):
    """A study of one 7B model on one GPU, which fits."""
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


def warning(config, **changed):
    return planned(config, job(**changed))["warning"].iloc[0]


def test_nothing_to_warn_of(large):
    table = planned(large, job(), job("evaluate_base"))
    assert table["warning"].isna().all()
    assert table["gpu_memory_gb"].between(20, 72).all()


@pytest.mark.parametrize(
    ("changed", "relief"),
    [
        ({"lora": None}, "optimiser .* set grpo.lora, or launch.accelerate: sharded on more GPUs"),
        ({"vllm": None}, "cached keys and values .* set grpo.vllm, train on more GPUs"),
        ({"micro_batch_size": 64, "gradient_checkpointing": False}, "activations .* set grpo.gradient_checkpointing$"),
        ({"micro_batch_size": 128}, "activations .* lower grpo.micro_batch_size$"),
        ({"vllm": {**VLLM, "gpu_memory_utilization": 0.9}}, "vLLM .* lower grpo.vllm.gpu_memory_utilization$"),
    ],
)
def test_a_run_too_large_for_its_gpu_says_what_helps(large, changed, relief):
    large["grpo"] |= changed
    assert re.search(rf"^about \d+ GB on a GPU with 80, most of it {relief}", warning(large).partition(";")[0])


def test_a_share_in_which_vllm_cannot_sample(large):
    large["grpo"]["vllm"] = VLLM | {"gpu_memory_utilization": 0.1}
    least = re.search(r"vLLM's 8 GB do not hold .*gpu_memory_utilization: (0\.\d\d)", warning(large))[1]
    large["grpo"]["vllm"] = VLLM | {"gpu_memory_utilization": float(least)}
    assert planned(large, job())["warning"].isna().all()


def test_asked_memory_and_time_that_do_not_suffice(large):
    found = warning(large, mem_mb=8000, runtime=60)
    assert re.search(r"GB of memory, asks for 8: set resources.training.mem_mb: \d+000; up to \d+ minutes", found)
    enough = {name: int(value) for name, value in re.findall(r"resources\.training\.(\w+): (\d+)", found)}
    assert planned(large, job(**enough))["warning"].isna().all()


@pytest.mark.parametrize(
    ("stage", "relief"),
    [
        ("grpo", "the run stops before its limit, is requeued and goes on"),
        ("evaluate_base", "lower evaluation.samples"),
    ],
)
def test_time_beyond_the_partitions_limit(large, stage, relief):
    large["resources"]["limits"] = {"mem_mb": None, "runtime": 60}
    found = warning(large, stage=stage, runtime=60)
    assert re.search(rf"asks for 60, the limit is 60 \(resources.limits.runtime\): {relief}", found)


@pytest.mark.parametrize(
    ("limit", "mem_mb", "runtime"), [(None, 65000, 720), ({"mem_mb": 64500, "runtime": 719}, 64500, 719)]
)
def test_what_fits_the_limit_is_asked_for_up_to_it(limit, mem_mb, runtime):
    limits = limit or {"mem_mb": None, "runtime": None}
    found = plan_advice.asked("evaluation", 64.3, 717 / 60, {"mem_mb": 32000, "runtime": 600}, limits)
    assert [text.partition(": ")[2] for text in found] == [
        f"set resources.evaluation.mem_mb: {mem_mb}",
        f"set resources.evaluation.runtime: {runtime}",
    ]


def test_what_exceeds_the_limit_by_little_is_not_asked_for():
    limits = {"mem_mb": 64500, "runtime": 719}
    memory, time = plan_advice.asked("evaluation", 64.6, 12, {"mem_mb": 32000, "runtime": 600}, limits)
    assert memory.endswith("the limit is 64500 (resources.limits.mem_mb): take nodes with more memory")
    assert "the limit is 719 (resources.limits.runtime): lower evaluation.samples" in time


@pytest.mark.parametrize(("stage", "section"), [("grpo", "grpo"), ("evaluate_run", "evaluation")])
def test_prompt_and_completion_that_exceed_the_context(large, stage, section):
    large[section]["max_completion_length"] = 4000
    found = warning(large, stage=stage, runtime=10**6)
    assert "and 4000 exceed the context of 4096" in found
    enough = int(re.search(rf"set {section}.max_completion_length: (\d+)", found)[1])
    large[section]["max_completion_length"] = enough
    assert "exceed" not in str(planned(large, job(stage, runtime=10**6))["warning"].iloc[0])


def test_a_model_that_thinks_is_evaluated_as_its_entry_says(large):
    study = planned(large, job("evaluate_run", runtime=10**6))["sampled_tokens"].iloc[0]
    limit = large["evaluation"]["max_completion_length"]
    large["catalogue"]["seven"]["evaluation"] = {"max_completion_length": limit // 2}
    own = planned(large, job("evaluate_run", runtime=10**6))["sampled_tokens"].iloc[0]
    assert own == pytest.approx(study / 2)


def test_an_evaluation_too_large_for_its_gpu(large):
    large["evaluation"]["batch_size"] = 64
    assert re.match(r"about \d+ GB on a GPU with 80: lower evaluation.batch_size", warning(large, stage="evaluate_run"))


def test_a_model_of_unknown_shape_is_listed_and_named(large):
    del large["catalogue"]["seven"]["shape"]
    table, unknown = plan.plan(large, [job(), job("runs", model=None, G=None, gpu=0)], {"seven": "models/seven"})
    assert table["jobs"].tolist() == [2, 2]
    assert table["gpu_memory_gb"].isna().all()
    assert len(unknown) == 1
    assert "catalogue.seven: found no shape, and no download of a/b in models/seven" in unknown[0]
    hardware = Hardware(**GPU)
    text = plan_text.text("paper", table, plan.totals(table, 8), hardware, unknown)
    assert unknown[0] in text


def test_a_downloaded_model_needs_no_shape(large, tmp_path):
    del large["catalogue"]["seven"]["shape"]
    stored = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 30, "num_attention_heads": 32}
    stored |= {"intermediate_size": 11008, "vocab_size": 102400, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    found, unknown = plan.plan(large, [job()], {"seven": str(tmp_path)})
    large["catalogue"]["seven"]["shape"] = SHAPE
    assert not unknown
    assert found.equals(planned(large, job()))


def test_a_shape_stands_before_the_models_own_config(large, tmp_path):
    expected = planned(large, job())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    downloaded, _ = plan.plan(large, [job()], {"seven": str(tmp_path)})
    large["catalogue"]["seven"] = {"label": "7B", "path": str(tmp_path), "shape": SHAPE}
    local, _ = plan.plan(large, [job()], {"seven": str(tmp_path)})
    assert downloaded.equals(expected)
    assert local.equals(expected)


def test_an_unknown_architecture_asks_for_its_shape(large, tmp_path):
    del large["catalogue"]["seven"]["shape"]
    stored = {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 30, "num_attention_heads": 32}
    stored |= {"intermediate_size": 11008, "vocab_size": 102400, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match=r"found qwen3, expected .* give the sizes .* as shape of the model in the"):
        plan.plan(large, [job()], {"seven": str(tmp_path)})


PARAMETERS = 6_910_365_696
ADAPTERS = 30 * 32 * (4 * (4096 + 4096) + 3 * (4096 + 11008))


def run_of(config, launch=None, gpu=True, **changed):
    launch = {"accelerate": None, "processes": 1, "nodes": 1} | (launch or {})
    return Run(ModelShape(**SHAPE), config["grpo"] | changed, launch, prompt=400, gpu=gpu)


def peak(run):
    return sum(training_memory(run, Hardware(**GPU)).values()) / GB


def test_full_weights_take_sixteen_bytes_and_the_reference_four(large):
    parts = training_memory(run_of(large, lora=None, vllm=None, completions_per_step=4), Hardware(**GPU))
    held = sum(parts[name] for name in ("weights", "optimiser", "gradients", "reference"))
    assert held == 20 * PARAMETERS


def test_only_sharded_processes_share_weights(large):
    settings = {"lora": None, "vllm": None, "completions_per_step": 32}
    alone = training_memory(run_of(large, **settings), Hardware(**GPU))
    for accelerate, shards in (("several_gpus", 1), ("sharded", 4)):
        run = run_of(large, {"accelerate": accelerate, "processes": 4}, **settings)
        parts = training_memory(run, Hardware(**GPU))
        for name in ("weights", "optimiser", "reference"):
            assert parts[name] == alone[name] / shards


@pytest.mark.parametrize(
    ("launch", "lora", "expected"),
    [
        ({}, None, 0),
        ({"accelerate": "several_gpus", "processes": 4}, None, 4 * PARAMETERS),
        ({"accelerate": "several_nodes", "nodes": 2}, None, 4 * PARAMETERS),
        ({"accelerate": "several_gpus", "processes": 4}, LORA, 4 * ADAPTERS),
        ({"accelerate": "sharded", "processes": 4}, None, 0),
    ],
)
def test_copies_of_the_model_sum_their_gradients_in_buckets(large, launch, lora, expected):
    parts = training_memory(run_of(large, launch, lora=lora), Hardware(**GPU))
    assert parts["gradient buckets"] == expected


def test_merging_adapters_in_float32_takes_the_nodes_memory(large):
    assert host_memory(run_of(large)) == 4 * (PARAMETERS + ADAPTERS) + 5 * GB
    # Four processes load two bytes per weight each, which is more than the first one merges.
    four = {"accelerate": "several_gpus", "processes": 4}
    assert host_memory(run_of(large, four)) == 4 * (2 * PARAMETERS + 5 * GB)
    assert host_memory(run_of(large, lora=None)) == 8 * PARAMETERS + 5 * GB


def test_merging_adapters_without_a_gpu_is_the_peak_of_a_small_batch(large):
    small = {"vllm": None, "completions_per_step": 1, "micro_batch_size": 1}
    parts = training_memory(run_of(large, gpu=False, **small), Hardware(**GPU))
    assert sum(parts.values()) == 4 * PARAMETERS + 12 * ADAPTERS
    float32 = training_memory(run_of(large, gpu=False, bf16=False, **small), Hardware(**GPU))
    assert sum(float32.values()) > 4 * PARAMETERS + 12 * ADAPTERS
    assert "merging in float32" not in float32


def test_a_server_of_its_own_frees_the_gpus_that_train(large):
    server = run_of(large, vllm=VLLM | {"mode": "server"})
    assert peak(run_of(large)) - peak(server) == pytest.approx(40)
    table = planned(large | {"grpo": server.grpo}, job(gpu=2))
    assert table["devices"].tolist() == [2]


SERVED = {"heldout_every": 10, "heldout_problems": 128}


@pytest.mark.parametrize(
    ("mode", "gpus", "together", "rounds"),
    [
        ("colocate", 1, 32, 1),
        ("colocate", 2, 64, 1),
        ("server", 1, 128, 4),
        ("server", 2, 128, 2),
    ],
)
def test_a_vllm_samples_for_all_processes_that_it_serves(large, mode, gpus, together, rounds):
    """Four processes with 32 completions each. A token of one completion caches 30 x 32 x 128 x 4 bytes; beside the
    weights a GPU has room for 37 completions of 1424 tokens, two have room for 94."""
    vllm = VLLM | {"mode": mode, "tensor_parallel_size": gpus}
    run = run_of(large, {"accelerate": "several_gpus", "processes": 4}, vllm=vllm, **SERVED)
    layers, head = 30 * (4 * 4096**2 + 3 * 4096 * 11008), 102400 * 4096
    batch = together / rounds
    token = (2 * (layers + head) + batch * (400 + 512) * 491520) / 1.5e12
    prefill = batch * (400 * (2 * layers + 4 * 400 * 4096 * 30) + 2 * head) / 5e14
    found = timing.step_seconds(run, Hardware(**GPU), 1024)
    assert found["sampling"] == pytest.approx(rounds * (1024 * token + prefill) / gpus)
    assert found["held out"] == pytest.approx(found["sampling"] / 10)


def test_recomputation_starts_the_kernels_of_a_forward_pass_again(large):
    """Adapters on all matrices count 30 layers as 60, in each of 32 micro-batches; a second per layer."""
    slow = Hardware(**GPU | {"layer_ms": 1000})
    for checkpointing, passes in ((False, 3), (True, 4)):
        parts = timing.step_seconds(run_of(large, gradient_checkpointing=checkpointing), slow, 1024)
        assert parts["loss and gradient"] == pytest.approx(passes * 32 * 60)


def hours(run):
    return sum(timing.step_seconds(run, Hardware(**GPU), 1024).values())


@pytest.mark.parametrize(
    ("changed", "longer"),
    [
        ({"gradient_checkpointing": False}, False),
        ({"lora": None}, True),
        ({"vllm": None}, True),
        ({"K_ref": 4}, False),
        ({"heldout_every": 1}, True),
        ({"completions_per_step": 64}, False),
    ],
)
def test_what_makes_a_step_longer(large, changed, longer):
    assert (hours(run_of(large, **changed)) > hours(run_of(large))) == longer


def test_more_processes_share_the_work(large):
    alone = timing.step_seconds(run_of(large), Hardware(**GPU), 1024)
    four = timing.step_seconds(run_of(large, {"accelerate": "several_gpus", "processes": 4}), Hardware(**GPU), 1024)
    assert four["loss and gradient"] == pytest.approx(alone["loss and gradient"] / 4)
    assert alone["held out"] / 4 == pytest.approx(four["held out"])


def test_tokens_by_hand(large):
    grpo = {"steps": 10, "K_ref": 2, "completions_per_step": 8, "heldout_every": 5, "heldout_problems": 3}
    run = run_of(large, **grpo, max_completion_length=100)
    assert timing.training_tokens(run) == ((5 * 8 + 2 * 3) * 100, 10 * 8 * 500)


def test_hardware_is_bound_by_the_slowest_of_three():
    hardware = Hardware(**GPU)
    assert hardware.seconds(traffic=3e12) == pytest.approx(2)
    assert hardware.seconds(flops=1e15) == pytest.approx(2)
    assert hardware.seconds(launches=2000) == pytest.approx(2)
    assert hardware.seconds(traffic=3e12, flops=2e15, launches=1) == pytest.approx(4)


def test_variants_and_failures_are_planned_with_their_own_settings(config):
    asked = {"model": "llama-tiny", "gpu": 0}
    kinds = [job(**asked), job("grpo_variant", variant="equal_prompts", **asked)]
    kinds.append(job("grpo_failure", variant="healthy", **asked))
    table, _ = plan.plan(config, kinds, {"llama-tiny": "unused"})
    steps = [240, 240, 100]
    completions = [96, 24, 64]
    length = config["grpo"]["max_completion_length"] + plan_jobs.training_prompt(config)
    expected = [number * each * length for number, each in zip(steps, completions, strict=True)]
    assert table["trained_tokens"].tolist() == expected
    assert table["gpu_memory_gb"].isna().all()


def test_totals_by_hand(large):
    table = planned(large, job(jobs=12), job("evaluate_run", jobs=12), job("download_model", gpu=0, jobs=1))
    table[["hours_low", "hours_high"]] = [[2.0, 4.0], [1.0, 3.0], [float("nan")] * 2]
    table["disk_running_gb"], table["disk_kept_gb"] = [30.0, 0.0, 0.0], [10.0, 0.5, 14.0]
    found = plan.totals(table, at_once=8)
    assert found == plan.Totals(
        jobs=25,
        device_hours=(36.0, 84.0),
        wall_hours=(4.5, 10.5),
        models_gb=14.0,
        checkpoints_gb=240.0,
        finals_gb=120.0,
        completions_gb=6.0,
    )
    assert plan.totals(table, at_once=100).wall_hours == (3.0, 7.0)  # a run and its evaluation, one after the other


@pytest.mark.parametrize(("at_once", "expected"), [(8, 50 + 2 * 30 + 2 * 10), (2, 2 * 30), (1, 50), (100, 230)])
def test_checkpoints_are_of_all_runs_at_a_time(large, at_once, expected):
    table = planned(large, job(G=4, jobs=12), job(G=16, jobs=1), job("grpo_failure", variant="healthy", jobs=2))
    table["disk_running_gb"], table["devices"] = [10.0, 50.0, 30.0], [1, 4, 1]
    assert plan.totals(table, at_once).checkpoints_gb == expected


def test_a_job_without_a_gpu_uses_its_cores(config):
    asked = {"model": "llama-tiny", "gpu": 0, "threads": 4}
    stages = ("grpo", "evaluate_base", "pretrain", "runs")
    table, _ = plan.plan(config, [job(stage, **asked) for stage in stages], {"llama-tiny": "unused"})
    assert table["devices"].tolist() == [4] * 4


def test_every_process_without_a_gpu_takes_memory(large):
    large["grpo"] |= {"vllm": None, "completions_per_step": 32}
    alone = planned(large, job(gpu=0))["memory_gb"].iloc[0]
    large["launch"] = {"accelerate": "several_gpus", "processes": 2, "nodes": 1}
    large["grpo"] |= {"completions_per_step": 64}
    both = planned(large, job(gpu=0))["memory_gb"].iloc[0]
    assert both == pytest.approx(2 * (alone + 4 * ADAPTERS / GB))


@pytest.mark.parametrize(
    ("stage", "bf16", "accelerate", "element"),
    [
        ("evaluate_base", True, None, 2),
        ("evaluate_base", False, None, 2),
        ("evaluate_run", True, None, 2),
        ("evaluate_run", False, None, 4),
        ("evaluate_run", True, "sharded", 4),
    ],
)
def test_evaluation_computes_in_the_type_of_the_checkpoint(large, stage, bf16, accelerate, element):
    large["grpo"]["bf16"] = bf16
    large["launch"] |= {"accelerate": accelerate}
    assert planned(large, job(stage))["memory_gb"].iloc[0] == pytest.approx(element * PARAMETERS / GB + 5)


def test_an_own_base_model_is_in_float32_and_what_is_trained_on_it_as_the_run_says(config):
    config["grpo"]["bf16"] = True
    asked = {"model": "llama-tiny", "gpu": 1}
    stages = [job(stage, **asked) for stage in ("evaluate_base", "evaluate_run")]
    table, _ = plan.plan(config, stages, {"llama-tiny": "unused"})
    parameters = model_shape.own_shape("llama", config["pretraining"]).parameters
    assert table["memory_gb"].tolist() == pytest.approx([(size * parameters) / GB + 5 for size in (4, 2)], abs=1e-9)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0344, "0.034"), (1.25, "1.2"), (46.2, "46"), (1340.0, "1300"), (0, "0"), (float("nan"), "-")],
)
def test_numbers_show_no_more_than_is_known(value, shown):
    assert plan_text.amount(value) == shown


def test_benchmarks_have_their_sizes(large, default_config):
    large["evaluation"]["samples"] = {"amc23": 8}
    completions = plan_jobs.benchmark_completions(large)
    assert (completions["gsm8k"], completions["amc23"]) == (1319, 320)
    assert set(plan_jobs.benchmark_completions(default_config).values()) == {200}
    known = {path.stem for path in (ROOT / "workflow" / "benchmarks").glob("[!_]*.yaml")}
    assert all(plan_jobs.longest_prompt(name) > 0 for name in known)


@pytest.mark.parametrize("name", [path.stem for path in (ROOT / "workflow" / "benchmarks").glob("ladder_*.yaml")])
def test_no_generated_prompt_is_longer_than_planned(name):
    draw = random.Random(0)
    longest = max(len(ladder.LADDER[name](draw).question) for _ in range(2000))
    assert longest + 2 == plan_jobs.longest_prompt(name)


@pytest.mark.parametrize("study", ["cpu", "ci", "paper"])
def test_the_target_lists_every_job_of_the_dry_run(study, tmp_path):
    done = snakemake(ROOT, "plan", "--cores", "1", *overlay(study), directory=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    table = tables.read(tmp_path / "results" / study / "plan.csv", plan.PLAN)
    dry = snakemake(ROOT, "-n", "--cores", "1", *overlay(study), directory=tmp_path)
    counts = job_counts(dry.stdout + dry.stderr)
    del counts["all"]
    assert table.groupby("stage")["jobs"].sum().to_dict() == counts
    for stage in counts:
        assert stage in done.stdout
    assert re.search(rf"^Jobs: {sum(counts.values())}$", done.stdout, re.MULTILINE)
