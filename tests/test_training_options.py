"""What a run can be asked for beyond the default: adapters, bfloat16, several processes, chat templates, vLLM."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
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
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo_dynamics import tables
from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import chat, problems
from grpo_dynamics.training import arguments, checkpoints, launch, run
from grpo_dynamics.training.trainer import InstrumentedGRPOTrainer

QUESTIONS = [f"Tom has {i} pens and {j} cups. How many things does he have?" for i in range(2) for j in range(2)] * 12
LORA = {"rank": 4, "alpha": 8, "target_modules": "all-linear"}
GRPO = {
    "steps": 4,
    "completions_per_step": 16,
    "micro_batch_size": 8,
    "learning_rate": 1e-3,
    "mu": 0.9,
    "K_ref": 2,
    "reward": "verifiable",
    "entropy_coef": 0.0,
    "beta": 0.01,
    "clip_epsilon": 0.2,
    "max_grad_norm": 1.0,
    "temperature": 1.0,
    "max_completion_length": 16,
    "heldout_every": 2,
    "heldout_problems": 5,
    "checkpoint_every": 2,
    "bf16": False,
    "gradient_checkpointing": False,
    "lora": None,
    "vllm": None,
}
ONE = {"accelerate": None, "processes": 1, "nodes": 1, "vllm": None}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with problems and a base model of each architecture."""
    folder = tmp_path_factory.mktemp("options")
    rows = [
        {"id": str(index), "question": question, "answer": str(index % 4), "kind": "number"}
        for index, question in enumerate(QUESTIONS)
    ]
    problems.write(rows[5:], folder / "train.jsonl")
    problems.write(rows[:5], folder / "heldout.jsonl")
    for kind in tiny_models.KINDS:
        tiny_models.make(kind, folder / kind, QUESTIONS)
    return folder


def arguments_of(place, kind, folder, **grpo):
    settings = json.dumps({"seed": 1, "grpo": GRPO | grpo, "variant": None})
    return [
        *("--model", "tiny", "--base", str(place / kind), "--group-size", "4", "--seed", "0", "--settings", settings),
        *("--train", str(place / "train.jsonl"), "--heldout", str(place / "heldout.jsonl")),
        *("--folder", str(folder), "--log", str(folder / "log.csv")),
    ]


def train(*given):
    """Run the command line's main function in this process."""
    options = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(given[::2], given[1::2], strict=True)
    }
    paths = ("base", "train", "heldout", "folder", "log", "chat_template")
    options |= {name: Path(options[name]) for name in paths if name in options}
    run.main(**options | {"group_size": int(options["group_size"]), "seed": int(options["seed"])})


def start(how, given, configs=ROOT / "config" / "accelerate", **environment):
    command = ["-m", "grpo_dynamics.training.launch", "--launch", json.dumps(how), "--configs", str(configs)]
    return subprocess.Popen(
        [sys.executable, *command, *(["--on-node"] if how["nodes"] > 1 else []), "--", *given],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-3000:]
    return output


def trained(folder):
    log = tables.read(folder / "log.csv", tables.RUN_LOG)
    assert list(log["step"]) == [1, 2, 3, 4]
    return log, AutoModelForCausalLM.from_pretrained(folder / "final", dtype="auto")


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


@pytest.fixture(scope="module")
def on_cpus(tmp_path_factory):
    """The project's accelerate files, changed in one point: processes compute on the CPU."""
    folder = tmp_path_factory.mktemp("accelerate")
    for path in (ROOT / "config" / "accelerate").glob("*.yaml"):
        text, changed = re.subn(r"^use_cpu: false$", "use_cpu: true", path.read_text(), flags=re.MULTILINE)
        assert changed == 1, path
        (folder / path.name).write_text(text)
    return folder


def check_two_processes(folder, place):
    log, final = trained(folder)
    assert list(log["groups"]) == [4] * 4, "the batch of all processes, not of one"
    assert (log["tokens"] > 16 * 5).all(), "the tokens of all 16 completions"
    assert log["tokens"].tolist() == pytest.approx((16 * log["completion_length"]).tolist())
    assert (log["ratio_mean"][log["sample_age"] == 0] - 1).abs().max() < 1e-4
    # Five held-out problems on two processes: each counts once.
    assert (log["heldout_reward"].dropna() * 5).tolist() == pytest.approx((log["heldout_reward"].dropna() * 5).round())
    assert not torch.equal(
        final.get_input_embeddings().weight,
        AutoModelForCausalLM.from_pretrained(place / "llama").get_input_embeddings().weight,
    )


def test_two_processes_make_one_run(place, on_cpus, tmp_path):
    how = ONE | {"accelerate": "several_gpus", "processes": 2}
    finish(start(how, arguments_of(place, "llama", tmp_path), on_cpus))
    check_two_processes(tmp_path, place)


def test_two_nodes_make_one_run(place, on_cpus, tmp_path):
    """Two launchers, as srun starts one per node, meet at the first node's address."""
    how = ONE | {"accelerate": "several_nodes", "nodes": 2}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        number = listener.getsockname()[1] - 20000
    tasks = [
        start(
            how,
            arguments_of(place, "llama", tmp_path),
            on_cpus,
            SLURM_JOB_ID=str(number if number > 0 else number + 20000),
            SLURM_NODEID=str(node),
            SLURM_LAUNCH_NODE_IPADDR="127.0.0.1",
        )
        for node in (0, 1)
    ]
    for task in tasks:
        finish(task)
    check_two_processes(tmp_path, place)


def test_one_gpu_s_file_starts_one_process(place, on_cpus, tmp_path):
    finish(start(ONE | {"accelerate": "one_gpu"}, arguments_of(place, "nemotron", tmp_path), on_cpus))
    trained(tmp_path)


def test_every_accelerate_file_is_one_that_accelerate_reads():
    from accelerate.commands.config.config_args import load_config_from_file

    kinds = {"one_gpu": "NO", "several_gpus": "MULTI_GPU", "several_nodes": "MULTI_GPU", "sharded": "FSDP"}
    found = {path.stem: load_config_from_file(str(path)) for path in (ROOT / "config" / "accelerate").glob("*.yaml")}
    assert {name: config.distributed_type.value for name, config in found.items()} == kinds


def test_several_nodes_are_started_through_srun():
    command = launch.node_command(2, ROOT, "{}", ["--model", "m"])
    assert command[:4] == ["srun", "--overlap", "--nodes=2", "--ntasks=2"]
    assert command[-4:] == ["--on-node", "--", "--model", "m"]


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


# ---------------------------------------------------------------- vLLM (its package needs a GPU)

VLLM = {"mode": "colocate", "gpu_memory_utilization": 0.4, "tensor_parallel_size": 1}


def test_vllm_is_asked_for_as_trl_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(arguments.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv(launch.SERVER_PORT, "8123")
    config = arguments.grpo_config(GRPO | {"vllm": VLLM | {"mode": "server"}}, 4, 1, tmp_path, context=700)
    assert (config.use_vllm, config.vllm_mode, config.vllm_gpu_memory_utilization) == (True, "server", 0.4)
    assert (config.vllm_max_model_length, config.vllm_server_base_url) == (700, "http://127.0.0.1:8123")
    assert not arguments.grpo_config(GRPO, 4, 1, tmp_path).use_vllm


def test_vllm_that_is_not_installed_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"grpo.vllm: found no package vllm, expected one .* 'trl\[vllm\]'"):
        arguments.grpo_config(GRPO | {"vllm": VLLM}, 4, 1, tmp_path)


def test_the_server_gets_the_last_gpus():
    assert launch.split_gpus({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 1) == ("4,5,6", "7")
    assert launch.split_gpus({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, 2) == ("0,1", "2,3")
    with pytest.raises(InputError, match="found 1 GPUs, expected more than the 1 of the server"):
        launch.split_gpus({"CUDA_VISIBLE_DEVICES": "3"}, 1)


@pytest.fixture
def fake_server(tmp_path, monkeypatch):
    """A program in vLLM's place that writes down how it was started and then waits, or ends at once."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")

    def install(code):
        program = tmp_path / "server.py"
        program.write_text(
            "import json, os, sys, time\n"
            f"json.dump([sys.argv, dict(os.environ)], open({str(tmp_path / 'started.json')!r}, 'w'))\n{code}"
        )
        import trl.scripts.vllm_serve as served

        real = served.build_command
        monkeypatch.setattr(served, "build_command", lambda *given: [sys.executable, str(program), *real(*given)[1:]])
        return tmp_path / "started.json"

    return install


def test_a_vllm_server_lives_as_long_as_the_run(fake_server):
    started = fake_server("time.sleep(60)")
    with launch.vllm_server(VLLM | {"mode": "server"}, ROOT / "base") as (server, environment):
        wait = f"import os, time\nwhile not os.path.exists({str(started)!r}): time.sleep(0.01)\nraise SystemExit(7)"
        assert launch.run([sys.executable, "-c", wait], environment, server) == 7
        time.sleep(0.1)
        assert server.poll() is None
    assert server.poll() is not None
    served, its_environment = json.loads(started.read_text())
    assert served[served.index("serve") + 1] == str(ROOT / "base")
    assert served[served.index("--port") + 1] == environment[launch.SERVER_PORT]
    assert (environment["CUDA_VISIBLE_DEVICES"], its_environment["CUDA_VISIBLE_DEVICES"]) == ("0,1", "2")
    assert its_environment["VLLM_SERVER_DEV_MODE"] == "1"


def test_a_run_does_not_wait_for_a_dead_server(fake_server, monkeypatch):
    fake_server("raise SystemExit(3)")
    with (
        launch.vllm_server(VLLM | {"mode": "server"}, ROOT / "base") as (server, environment),
        pytest.raises(InputError, match="the server ended with status 3"),
    ):
        launch.run([sys.executable, "-c", "import time; time.sleep(60)"], environment, server)


def test_signals_reach_the_run(tmp_path):
    ready = tmp_path / "ready"
    child = (
        "import signal, sys, time\nfrom pathlib import Path\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
        f"Path({str(ready)!r}).touch()\ntime.sleep(60)"
    )
    parent = (
        "import os, sys\nfrom grpo_dynamics.training import launch\n"
        f"sys.exit(launch.run([sys.executable, '-c', {child!r}], os.environ))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    process = subprocess.Popen([sys.executable, "-c", parent], env=environment)
    while not ready.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=30) == 9


def test_only_complete_checkpoints_count(tmp_path):
    for step in (2, 4, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert checkpoints.last_checkpoint(tmp_path) is None
    checkpoints.mark_complete(tmp_path, 2)
    checkpoints.mark_complete(tmp_path, 10)
    checkpoints.remove_incomplete(tmp_path)
    assert checkpoints.last_checkpoint(tmp_path).name == "checkpoint-10"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-2"]
