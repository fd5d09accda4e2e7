"""What a run can be asked for beyond the default: adapters, bfloat16, chat templates. Launching: test_launch.py."""

import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pandas as pd
import pytest
import tiny_models
import torch
from conftest import ROOT
from peft import PeftModel
from tiny_runs import GRPO, LORA, ONE, arguments_of, finish, make_place, start, train, trained
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import chat, problems
from grpo_dynamics.training import arguments, checkpoints, run
from grpo_dynamics.training.trainer import InstrumentedGRPOTrainer


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize("kind", tiny_models.KINDS)
def test_adapters_in_bfloat16_train_every_architecture(place, kind, tmp_path):
    grpo = {"lora": LORA, "bf16": True, "gradient_checkpointing": True}
    train(*arguments_of(place, kind, tmp_path, **grpo))
    log, final = trained(tmp_path)
    # On a fresh batch the policy is the one that sampled it; on a reused one the adapters have moved.
    assert (log["ratio_max"][log["sample_age"] == 0] - 1).abs().max() < 0.05
    assert (log["ratio_max"][log["sample_age"] == 1] > 1.0001).all()
    # Merged: an ordinary checkpoint with the base model's tensors, moved, in the precision of the run.
    base = AutoModelForCausalLM.from_pretrained(place / kind)
    assert final.dtype == torch.bfloat16
    assert {name: tensor.shape for name, tensor in final.state_dict().items()} == {
        name: tensor.shape for name, tensor in base.state_dict().items()
    }
    for name, tensor in base.named_parameters():
        # "all-linear" adapts the layers' projections; embeddings, norms and the output layer stay.
        moved = not torch.equal(final.get_parameter(name), tensor.bfloat16())
        assert moved == ("proj" in name and "bias" not in name), name
    assert AutoTokenizer.from_pretrained(tmp_path / "final").chat_template == tiny_models.KINDS[kind][2]


def test_adapters_are_merged_on_the_cpu(tmp_path):
    """In float32 the weights may not fit on a GPU: the model, here one that notes its calls, leaves it before."""
    model = Mock()
    for name in ("cpu", "float", "merge_and_unload", "to"):
        getattr(model, name).return_value = model
    model.save_pretrained.side_effect = Path.mkdir
    accelerator = Mock(unwrap_model=lambda given: given, is_main_process=True)
    trainer = SimpleNamespace(accelerator=accelerator, model=model, args=SimpleNamespace(bf16=True))
    checkpoints.save_final(trainer, Mock(), tmp_path / "final")
    calls = [name for name, *_ in model.method_calls]
    assert calls == ["cpu", "float", "merge_and_unload", "to", "save_pretrained"]
    assert (tmp_path / "final").is_dir()


def test_the_reference_of_adapters_is_the_base_model(place, tmp_path):
    """The KL to the reference is zero before the first step and not after it, though no second model is loaded."""
    trainer = InstrumentedGRPOTrainer(
        model=run.load_policy(place / "llama", GRPO),
        reward_funcs=[lambda completions, **columns: [float("1" in item[-1]["content"]) for item in completions]],
        args=arguments.grpo_config(GRPO | {"K_ref": 1, "checkpoint_every": 9}, 4, 1, tmp_path),
        train_dataset=run.dataset(place / "train.jsonl"),
        processing_class=AutoTokenizer.from_pretrained(place / "llama", padding_side="left"),
        peft_config=arguments.lora_config(LORA),
        heldout=run.dataset(place / "heldout.jsonl"),
        heldout_every=9,
    )
    assert isinstance(trainer.model, PeftModel) and trainer.ref_model is None
    trainer.train()
    first, *rest = [entry["measured/kl"] for entry in trainer.state.log_history if "grad_norm" in entry]
    assert first == pytest.approx(0, abs=1e-9)
    assert min(rest) > 1e-7


@pytest.mark.parametrize("kind", tiny_models.KINDS)
def test_layers_that_no_adapter_fits_are_refused_before_training(place, kind, tmp_path):
    layers = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    layers -= {"gate_proj"} if kind == "nemotron" else set()
    # One name would do for peft; the output layer, of which TRL uses the weights alone, would do nothing.
    lora = LORA | {"target_modules": ["q_proj", "gate", "lm_head", "norm"]}
    expected = (
        "grpo.lora.target_modules: found gate, lm_head, norm, expected all-linear or some of the layers of "
        f"{place / kind}: {', '.join(sorted(layers))}"
    )
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        train(*arguments_of(place, kind, tmp_path, lora=lora))
    assert not list(tmp_path.glob("checkpoints/checkpoint-*"))
    run.load_policy(place / kind, GRPO | {"lora": LORA | {"target_modules": sorted(layers)}})


def test_adapters_resume_as_if_never_interrupted(place, tmp_path, monkeypatch):
    """A run that is stopped behind a checkpoint and started again ends where an undisturbed one does."""
    given = {"lora": LORA, "steps": 4}
    train(*arguments_of(place, "llama", tmp_path / "whole", **given))
    broken = tmp_path / "broken"
    process = start(ONE, arguments_of(place, "llama", broken, **given))
    while not list(broken.glob("checkpoints/checkpoint-2/complete")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    output = finish(start(ONE, arguments_of(place, "llama", broken, **given)))
    assert "resuming from" in output
    (whole, model), (resumed, other) = trained(tmp_path / "whole"), trained(broken)
    pd.testing.assert_frame_equal(whole.drop(columns="seconds"), resumed.drop(columns="seconds"), rtol=1e-5)
    for name, tensor in model.named_parameters():
        assert torch.allclose(tensor, other.get_parameter(name), atol=1e-6), name


# ---------------------------------------------------------------- chat templates


def test_the_prompt_that_opens_the_thinking_part_is_known(place):
    found = {kind: chat.opens_thinking(AutoTokenizer.from_pretrained(place / kind)) for kind in tiny_models.KINDS}
    assert found == {"nemotron": False, "llama": False, "qwen2": True}


@pytest.mark.parametrize(
    ("completion", "opened", "expected"),
    [
        ("3 + 4 = 7 ... \\boxed{7}", True, 0.0),  # still thinking when it was cut off
        ("\\boxed{6}, no: 7</think>\\boxed{7}", True, 1.0),
        ("\\boxed{7}</think>so it is \\boxed{6}", True, 0.0),
        ("\\boxed{7}", False, 1.0),
    ],
)
def test_an_unfinished_thought_is_no_answer(completion, opened, expected):
    from grpo_dynamics.tasks.rewards import verifiable_reward

    reward = run.behind_opening(verifiable_reward) if opened else verifiable_reward
    answers = [[{"role": "assistant", "content": completion}]]
    assert reward(prompts=[None], completions=answers, answer=["7"], kind=["number"]) == [expected]
    assert reward.__name__ == "verifiable_reward"


def test_evaluation_scores_an_unfinished_thought_as_training_does(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "workflow" / "benchmarks"))
    import utils

    row = {"id": "0", "question": "3 + 4?", "answer": "7", "kind": "number", "group": ""}
    path = tmp_path / "ladder_names.jsonl"
    problems.write([row], path)
    for opened, expected in ((True, 0.0), (False, 1.0)):
        (doc,) = utils.load("ladder_names", {"ladder_names": str(path)}, opens_thinking=opened)["test"]
        assert utils.process_results(doc, ["it is \\boxed{7}"])["score"]["reward"] == expected


def test_a_template_from_a_file_replaces_the_model_s_own(place, tmp_path):
    template = tmp_path / "own.jinja"
    template.write_text("{% for message in messages %}Q: {{ message['content'] }}{% endfor %}A:")
    folder = tmp_path / "run"
    train(*arguments_of(place, "llama", folder), "--chat-template", str(template))
    assert AutoTokenizer.from_pretrained(folder / "final").chat_template == template.read_text()


def test_a_model_without_a_template_is_refused(place):
    tokenizer = AutoTokenizer.from_pretrained(place / "llama")
    tokenizer.chat_template = None
    with pytest.raises(InputError, match="found a tokenizer without a chat template, expected one; name a file"):
        chat.set_template(tokenizer, None, "base")
    with pytest.raises(InputError, match="No such file"):
        chat.set_template(tokenizer, "none.jinja", "base")


def test_a_prompt_that_does_not_fit_is_refused_before_training(place, tmp_path):
    expected = (
        r"train.jsonl: problem \d+: found a prompt of \d\d tokens and completions of up to 4090, expected no more than "
        r"the model's context of 4096 together"
    )
    with pytest.raises(InputError, match=expected):
        train(*arguments_of(place, "llama", tmp_path, max_completion_length=4090))
    assert not (tmp_path / "checkpoints").exists()


def test_the_longest_prompt_is_found(place):
    tokenizer = AutoTokenizer.from_pretrained(place / "llama")
    rows = [{"id": "a", "question": "x" * 10}, {"id": "b", "question": "x" * 30}]
    # A token per byte: <bos>, "User: ", the question, two line breaks, "Assistant:".
    assert chat.check_context(tokenizer, rows, 100, 149, "here") == 1 + 6 + 30 + 2 + 10
    with pytest.raises(InputError, match="here: problem b: found a prompt of 49 tokens"):
        chat.check_context(tokenizer, rows, 100, 148, "here")


def test_only_complete_checkpoints_count(tmp_path):
    for step in (2, 4, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert checkpoints.last_checkpoint(tmp_path) is None
    checkpoints.mark_complete(tmp_path, 2)
    checkpoints.mark_complete(tmp_path, 10)
    checkpoints.remove_incomplete(tmp_path)
    assert checkpoints.last_checkpoint(tmp_path).name == "checkpoint-10"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-2"]
