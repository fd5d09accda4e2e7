"""The paper's study from the hub to the ledger, unchanged but for the models' size and the lengths.

A local server stands for the hub: under the names of the paper's models it has tiny ones of the same architectures, and
under those of the data sets a few problems in the same columns.
"""

import pandas as pd
import pytest
import real_formats
import tiny_models
import yaml
from conftest import ROOT, copy_project
from fake_hub import FakeHub, write_model_repo
from test_config import merge
from test_study import snakemake
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_dynamics import tables
from grpo_dynamics.tasks import benchmarks

ARCHITECTURES = {"nemotron-mini-4b": "nemotron", "deepseek-llm-7b": "llama", "r1-distill-qwen-1.5b": "qwen2"}

# Smaller, not other: in bfloat16, with adapters, on nine benchmarks, as the overlay says. A run has one process, for
# want of cores; tests/test_launch.py has those of two.
SMALLER = {
    "seeds": [0, 1],
    "grpo": {
        "steps": 8,
        "completions_per_step": 32,
        "micro_batch_size": 16,
        "learning_rate": 1.0e-2,
        "max_completion_length": 16,
        "heldout_every": 4,
        "heldout_problems": 8,
        "checkpoint_every": 4,
        "lora": {"rank": 4, "alpha": 8},
    },
    "evaluation": {"max_completion_length": 16, "batch_size": 32},
    "catalogue": {"r1-distill-qwen-1.5b": {"evaluation": {"max_completion_length": 24, "batch_size": 32}}},
    "launch": {"accelerate": "one_gpu", "processes": 1},
    "resources": {"training": {"gpu": 1, "threads": 1}, "evaluation": {"threads": 1}},
    "analysis": {"min_points": 8, "fit_replicates": 100},
    "calibration": {"replicas": 20, "bootstrap_replicas": 5},
}
CONFIG = ["--configfile", "config/studies/paper.yaml", "smaller.yaml"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A copy of the project in which the study was downloaded, and then ran without the hub; with its config."""
    folder = tmp_path_factory.mktemp("rehearsal")
    project = copy_project(folder / "project")
    (project / "smaller.yaml").write_text(yaml.safe_dump(SMALLER))
    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    merge(config, yaml.safe_load((ROOT / "config" / "studies" / "paper.yaml").read_text()))
    merge(config, SMALLER)

    questions = [benchmarks.prompt("gsm8k", row) for row in real_formats.rows("gsm8k_train")]
    commits = real_formats.write_hub_data(folder / "hub", config)
    for model, kind in ARCHITECTURES.items():
        entry = config["catalogue"][model]
        files = tiny_models.make(kind, folder / "models" / model, questions, digits=8)
        commits[model] = write_model_repo(folder / "hub", entry["hub"], files, entry["revision"])
    with FakeHub(folder / "hub") as hub:
        done = snakemake(project, "--cores", "2", "download", *CONFIG, HF_ENDPOINT=hub.url)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    done = snakemake(project, "--cores", "2", *CONFIG, HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return project / "results" / "paper", config, commits


@pytest.mark.study
def test_every_run_is_logged_and_ends_in_an_ordinary_checkpoint(study):
    results, config, _ = study
    runs = tables.read(results / "runs.csv", tables.RUN_LOG)
    assert len(runs) == 3 * 2 * 2 * SMALLER["grpo"]["steps"]
    assert (runs["groups"] * runs["G"] == SMALLER["grpo"]["completions_per_step"]).all()
    assert runs.groupby("model")["reward"].mean().between(0.01, 0.99).all(), "sometimes right, sometimes wrong"
    for model, kind in ARCHITECTURES.items():
        final = AutoModelForCausalLM.from_pretrained(results / "runs" / model / "G4" / "seed0" / "final")
        assert final.config.model_type == kind
        assert final.config.max_position_embeddings == config["catalogue"][model]["shape"]["context"]
        tokenizer = AutoTokenizer.from_pretrained(results / "runs" / model / "G4" / "seed0" / "final")
        assert tokenizer.chat_template == tiny_models.KINDS[kind][2]


@pytest.mark.study
def test_every_checkpoint_is_evaluated_on_all_nine_benchmarks(study):
    results, config, _ = study
    evaluations = tables.read(results / "evaluations.csv", tables.EVALUATIONS)
    assert len(evaluations) == (3 + 12) * 9
    asked = config["evaluation"]["samples"]
    for row in evaluations.itertuples():
        assert row.samples == asked.get(row.benchmark, 1)
        assert row.items + row.unscorable == len(real_formats.rows(row.benchmark))
    items = tables.read(results / "evaluations" / "items.parquet", tables.EVALUATION_ITEMS)
    assert set(items["found_by"]) >= {"box", "unscorable"}
    groups = tables.read(results / "evaluations_by_group.csv", tables.EVALUATIONS_BY_GROUP)
    assert len(groups) == (3 + 12) * len(real_formats.PERTURBATIONS) and set(groups["benchmark"]) == {"gsm_plus"}
    kind = groups[groups["group"] == "critical thinking"]
    assert (kind["items"] == 0).all() and kind["accuracy"].isna().all() and (kind["unscorable"] == 3).all()
    # The thinking part of the distilled model stands in the completions, and does not count.
    thought = items[(items["model"] == "r1-distill-qwen-1.5b") & (items["found_by"] == "box")]["completion"]
    assert len(thought) and thought.str.contains("</think>").all()


@pytest.mark.study
def test_the_ledger_has_every_claim(study):
    results, *_ = study
    claims = pd.read_csv(results / "claims.csv")
    assert list(claims["id"]) == [*(f"C{number}" for number in range(1, 17)), "B2", "B3", "B4", "B5"]
    for name in ("reward_curves", "group_size", "transfer", "diagnostics"):
        assert (results / "figures" / f"{name}.pdf").stat().st_size > 1000


@pytest.mark.study
def test_the_manifest_names_what_the_hub_gave(study):
    results, _, commits = study
    text = (results / "manifest.json").read_text()
    for name, commit in commits.items():
        assert commit in text, name
