"""The target `plan`: all jobs of a study, warnings where they do not fit, totals."""

import json
import random
import re

import pytest
from conftest import ROOT
from seven_billion import ADAPTERS, GPU, PARAMETERS, SHAPE, VLLM, job, planned, study
from test_study import job_counts, overlay, snakemake

from grpo_dynamics import tables
from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import ladder
from grpo_dynamics.training import model_shape, plan, plan_advice, plan_jobs, plan_text
from grpo_dynamics.training.estimate import GB, Hardware


@pytest.fixture
def large(config):
    return study(config)


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
