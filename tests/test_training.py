"""The instrumented trainer and the run: TRL's own numbers, resume after SIGKILL."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
import tiny_runs
import torch
from conftest import ROOT
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_dynamics import tables
from grpo_dynamics.tasks import ladder, problems
from grpo_dynamics.training import checkpoints, pretraining, run
from grpo_dynamics.training.arguments import grpo_config
from grpo_dynamics.training.tokenizer import ALPHABET, character_tokenizer
from grpo_dynamics.training.trainer import PREFIX, InstrumentedGRPOTrainer

SIZES = {"steps": 20, "batch_size": 8, "learning_rate": 1e-3, "hidden_size": 16, "layers": 1, "heads": 2}
GRPO = tiny_runs.GRPO | {
    "steps": 24,
    "micro_batch_size": 16,
    "max_completion_length": 12,
    "heldout_every": 6,
    "heldout_problems": 8,
    "checkpoint_every": 8,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    pretraining.pretrain("llama", {"right_share": 0.2, "worked_share": 0.0}, SIZES, seed=0, folder=folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = ladder.rows(ladder.generate("ladder_in_distribution", 264, seed=0))
    problems.write(rows[8:], folder / "train.jsonl")
    problems.write(rows[:8], folder / "heldout.jsonl")
    return folder


def test_tokenizer_is_lossless_on_its_alphabet():
    tokenizer = character_tokenizer()
    ids = tokenizer(ALPHABET, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(ALPHABET)
    assert tokenizer.decode(ids) == ALPHABET
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "1+1?"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt == "<question>1+1?<answer>"


@pytest.mark.parametrize("architecture", pretraining.ARCHITECTURES)
def test_tokenizer_survives_a_checkpoint_of_every_architecture(architecture, tmp_path):
    tokenizer = character_tokenizer()
    pretraining.build(architecture, tokenizer, SIZES).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = f"<question>{ALPHABET} Tom's 12+3?<answer>12 #### 15<eos>"
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.decode(loaded(ALPHABET)["input_ids"]) == ALPHABET
    assert loaded.padding_side == "left"
    messages = [{"role": "user", "content": "1+1?"}]
    assert loaded.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == "<question>1+1?<answer>"


@pytest.mark.parametrize("architecture", pretraining.ARCHITECTURES)
def test_architectures_build_at_their_stated_size(architecture, config):
    model = pretraining.build(architecture, character_tokenizer(), config["pretraining"])
    assert model.config.model_type == architecture
    assert 0.1e6 < model.num_parameters() < 0.3e6


def test_base_model_is_an_ordinary_checkpoint(base):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(base), AutoTokenizer.from_pretrained(base)
    assert tokenizer.chat_template
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.max_new_tokens is None, "would silently cap every evaluation"


def test_corpus_batch_learns_solutions_only():
    tokenizer = character_tokenizer()
    ids, labels = pretraining.corpus_batch(random.Random(0), tokenizer, 4, {"right_share": 1.0, "worked_share": 0.0})
    for row, target in zip(ids, labels, strict=True):
        text = tokenizer.decode(row[row != tokenizer.pad_token_id])
        learnt = tokenizer.decode(target[target != -100])
        assert text.startswith("<question>")
        assert text.split("<answer>")[1] == learnt
        assert learnt.endswith("<eos>")


def test_parts_of_a_batch_add_up_to_its_mean_loss():
    tokenizer = character_tokenizer()
    model = pretraining.build("llama", tokenizer, SIZES)
    ids, labels = pretraining.corpus_batch(random.Random(0), tokenizer, 10, {"right_share": 0.5, "worked_share": 0.5})
    mask = (ids != tokenizer.pad_token_id).long()
    whole = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    whole.backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    assert pretraining._backward(model, ids, labels, tokenizer.pad_token_id) == pytest.approx(whole.item(), rel=1e-5)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)


def parity(prompts, completions, **columns):
    return [float(len(completion[-1]["content"]) % 2) for completion in completions]


@pytest.fixture(scope="module")
def history(base, data, tmp_path_factory):
    """Log of a run in four micro-batches per step, with a reward that varies within groups."""
    settings = {**GRPO, "steps": 6, "micro_batch_size": 4, "clip_epsilon": 0.01}
    trainer = InstrumentedGRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base),
        reward_funcs=[parity],
        args=grpo_config(settings, 4, 1, tmp_path_factory.mktemp("run")),
        train_dataset=run.dataset(data / "train.jsonl"),
        processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
        heldout=run.dataset(data / "heldout.jsonl"),
        heldout_every=3,
    )
    trainer.train()
    return [entry for entry in trainer.state.log_history if "grad_norm" in entry]


def test_measurements_agree_with_trl_where_trl_measures_the_same(history):
    for entry in history:
        if entry[PREFIX + "sample_age"] == 0:
            for name, theirs in {
                "reward": "reward",
                "collapsed_share": "frac_reward_zero_std",
                "completion_length": "completions/mean_length",
                "truncated_share": "completions/clipped_ratio",
            }.items():
                assert entry[PREFIX + name] == pytest.approx(entry[theirs], rel=1e-6), name
        # TRL averages over micro-batches, the study over tokens: equal up to their unequal lengths.
        assert entry[PREFIX + "entropy"] == pytest.approx(entry["entropy"], rel=0.05)
        assert entry[PREFIX + "kl"] == pytest.approx(entry["kl"], rel=0.5, abs=1e-4)
        clipped = entry[PREFIX + "clip_low"] + entry[PREFIX + "clip_high"]
        assert clipped == pytest.approx(entry["clip_ratio/region_mean"], abs=0.05)


def test_ratio_is_one_on_a_fresh_batch_and_moves_on_a_reused_one(history):
    assert [entry[PREFIX + "sample_age"] for entry in history] == [0, 1, 0, 1, 0, 1]
    for entry in history:
        low, mean, high = (entry[PREFIX + f"ratio_{name}"] for name in ("min", "mean", "max"))
        if entry[PREFIX + "sample_age"] == 0:
            assert (low, mean, high) == pytest.approx((1, 1, 1), abs=1e-4)
        else:
            assert low < 1 - 1e-3 < 1 + 1e-3 < high
            assert low < mean < high


def test_heldout_reward_is_measured_when_due(history):
    due = [entry["step"] for entry in history if PREFIX + "heldout_reward" in entry]
    assert due == [3, 6]


def command(base, data, folder):
    settings = json.dumps({"seed": 1, "grpo": GRPO, "variant": None})
    return [
        *(sys.executable, "-m", "grpo_dynamics.training.run", "--model", "tiny", "--base", str(base)),
        *("--group-size", "4", "--seed", "0", "--settings", settings),
        *("--train", str(data / "train.jsonl"), "--heldout", str(data / "heldout.jsonl")),
        *("--folder", str(folder), "--log", str(folder / "log.csv")),
    ]


def test_a_run_that_is_killed_resumes_without_gap_or_duplicate(base, data, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    subprocess.run(command(base, data, tmp_path / "whole"), env=environment, check=True, capture_output=True)

    killed = tmp_path / "killed"
    process = subprocess.Popen(command(base, data, killed), env=environment, stderr=subprocess.DEVNULL)
    while not (killed / "checkpoints" / "checkpoint-8" / "complete").exists():
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "log.csv").exists()
    # A checkpoint that a kill cut off: newer, and without the mark of a complete one.
    (killed / "checkpoints" / "checkpoint-9999").mkdir()

    # The next attempt trains to the end and cannot write its log: the one after that must not train a step too many.
    (killed / "log.csv").mkdir()
    done = subprocess.run(command(base, data, killed), env=environment, capture_output=True, text=True)
    assert "checkpoint-8" in done.stderr.split("resuming from")[1] and done.returncode != 0
    (killed / "log.csv").rmdir()

    done = subprocess.run(command(base, data, killed), env=environment, check=True, capture_output=True, text=True)
    assert "checkpoint-16" in done.stderr.split("resuming from")[1]
    whole = tables.read(tmp_path / "whole" / "log.csv", tables.RUN_LOG)
    resumed = tables.read(killed / "log.csv", tables.RUN_LOG)
    assert list(resumed["step"]) == list(range(1, GRPO["steps"] + 1))
    # The same random numbers, the same steps: an interruption leaves no trace in the results.
    pd.testing.assert_frame_equal(whole.drop(columns="seconds"), resumed.drop(columns="seconds"), rtol=1e-6)


def test_checkpoints_of_another_config_are_not_resumed(tmp_path):
    folder, data = tmp_path / "checkpoints", tmp_path / "train.jsonl"
    data.write_text("one")
    settings = json.dumps({"seed": 1, "grpo": GRPO, "variant": None})

    def saved():
        checkpoints.keep_only_own(folder, settings, 4, 0, [data])
        (folder / "checkpoint-8").mkdir(exist_ok=True)
        checkpoints.mark_complete(folder, 8)

    saved()
    stamp = (folder / "made-from.json").stat()
    checkpoints.keep_only_own(folder, settings, 4, 0, [data])
    assert checkpoints.last_checkpoint(folder).name == "checkpoint-8"
    assert (folder / "made-from.json").stat() == stamp  # a kill while it was written again would lose the checkpoint
    checkpoints.keep_only_own(folder, settings, 16, 0, [data])
    assert checkpoints.last_checkpoint(folder) is None
    saved()
    data.write_text("two")
    checkpoints.keep_only_own(folder, settings, 4, 0, [data])
    assert checkpoints.last_checkpoint(folder) is None


def test_a_diverged_step_becomes_empty_cells(tmp_path, history):
    broken = {**history[0], "grad_norm": float("inf"), PREFIX + "kl": float("nan")}
    log = run.run_log([broken, {"train_loss": 1.0}, *history[1:]], "tiny", 4, 0)
    tables.write(log, tmp_path / "log.csv", tables.RUN_LOG)
    read = tables.read(tmp_path / "log.csv", tables.RUN_LOG)
    assert len(read) == len(history)
    assert read.loc[0, ["grad_norm", "kl"]].isna().all()


def test_dataset_keeps_answers_as_text(tmp_path):
    problems.write([{"id": "1", "question": "q", "answer": "007", "kind": "number"}], tmp_path / "p.jsonl")
    rows = run.dataset(tmp_path / "p.jsonl")
    assert isinstance(rows, Dataset)
    assert rows[0] == {"prompt": [{"role": "user", "content": "q"}], "answer": "007", "kind": "number"}
