"""The callback in a real TRL run: alarms, advice and the stop."""

from __future__ import annotations

import logging

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from grpo_dynamics.callback import HealthCallback
from grpo_dynamics.command import InputError
from grpo_dynamics.training import pretraining

SIZES = {"steps": 2, "batch_size": 4, "learning_rate": 1e-3, "hidden_size": 16, "layers": 1, "heads": 2}
STEPS = 45


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "base"
    pretraining.pretrain("llama", {"right_share": 0.2, "worked_share": 0.0}, SIZES, seed=0, folder=folder)
    return folder


def train(base, folder, reward, callback):
    arguments = GRPOConfig(
        output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=8, num_generations=4, beta=0.01,
        max_completion_length=4, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
        bf16=False, seed=0,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(base),
        processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
        reward_funcs=[reward],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": f"{n}+1?"} for n in range(20)]),
        callbacks=[callback],
    )
    trainer.train()
    return trainer.state


def hopeless(completions, **columns):
    return [0.0] * len(completions)


def lively(completions, **columns):
    return [float(len(set(text)) % 2) for text in completions]


def test_prompts_without_a_signal_stop_the_run(base, tmp_path, caplog):
    callback = HealthCallback(stop_on="critical", share=1.0)
    with caplog.at_level(logging.WARNING, logger="grpo_dynamics.callback"):
        state = train(base, tmp_path, hopeless, callback)
    assert state.global_step == 30  # the second check
    # An untrained model does not end within four tokens: that is seen too.
    assert [(one.group, one.onset) for one in callback.alarms] == [("degeneracy", 1), ("truncation", 1)]
    message = caplog.messages[0]
    assert message.startswith("step 30: critical, degeneracy since step 1: ")
    assert "mostly hard (all wrong)" in message
    assert "What to do: Choose prompts by pass rate" in message


def test_without_stop_on_an_alarm_is_only_said(base, tmp_path):
    callback = HealthCallback(share=1.0)
    assert train(base, tmp_path, hopeless, callback).global_step == STEPS
    assert [one.group for one in callback.alarms] == ["degeneracy", "truncation"]


def test_a_run_with_a_signal_goes_on(base, tmp_path):
    callback = HealthCallback(share=1.0)
    assert train(base, tmp_path, lively, callback).global_step == STEPS
    assert [one.group for one in callback.alarms] == ["truncation"]
    assert callback.seconds > 0


def test_checks_that_would_take_too_much_time_are_left_out(base, tmp_path):
    callback = HealthCallback(stop_on="critical", share=1e-9)
    assert train(base, tmp_path, hopeless, callback).global_step == STEPS
    assert callback.alarms == []  # the first check uses the share up, and one alone gives no alarm


def test_an_unknown_severity_is_refused():
    with pytest.raises(InputError, match="stop_on: found 'error', expected warning, critical or None"):
        HealthCallback(stop_on="error")
