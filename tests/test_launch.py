"""How a run is started: in several processes, on several nodes, beside a vLLM server; and what signals it gets."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
import torch
from conftest import ROOT
from tiny_runs import GRPO, ONE, arguments_of, finish, make_place, start, trained
from transformers import AutoModelForCausalLM

from grpo_dynamics.command import InputError
from grpo_dynamics.training import arguments, launch


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("place"))


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


def test_two_processes_that_are_told_to_end_save_first(place, on_cpus, tmp_path):
    """SLURM signals every process of a job: the one that starts it, torch's launcher, and those that train."""
    how = ONE | {"accelerate": "several_gpus", "processes": 2}
    process = start(how, arguments_of(place, "llama", tmp_path, steps=4000), on_cpus)
    while not list(tmp_path.glob("checkpoints/checkpoint-*/complete")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    for started in [process, *psutil.Process(process.pid).children(recursive=True)]:
        os.kill(started.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    step = int(re.search(r"error: stopped by SIGTERM: saved after step (\d+),", said)[1])
    assert (tmp_path / "checkpoints" / f"checkpoint-{step}" / "complete").exists()
    assert not (tmp_path / "log.csv").exists()


@pytest.mark.parametrize(("limit", "saves"), [({}, True), ({"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}, False)])
def test_the_time_to_save_is_the_scheduler_s(on_cpus, tmp_path, monkeypatch, limit, saves):
    """Torch's launcher would kill what it started after 30 s; the limit of 1 s shows that it heeds the variable."""
    (tmp_path / "slow.py").write_text(
        "import os, signal, sys, time\nfrom pathlib import Path\nhere = Path(__file__).parent\n"
        "def save(*_):\n    time.sleep(3)\n"
        "    (here / 'saved').write_text(os.environ['TORCH_ELASTIC_SHUTDOWN_TIMEOUT'])\n    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, save)\n(here / 'ready').touch()\ntime.sleep(60)\n"
    )
    how = {"accelerate": "several_gpus", "processes": 2, "nodes": 1}
    monkeypatch.setattr(launch, "_RUN", "slow")
    training = launch.training_command(how, on_cpus, [], port=launch.free_port())
    driver = (
        f"import os, sys\nfrom grpo_dynamics.training import launch\nsys.exit(launch.run({training!r}, os.environ))"
    )
    path = os.pathsep.join([str(ROOT / "workflow"), str(tmp_path)])
    process = subprocess.Popen([sys.executable, "-c", driver], env={**os.environ, "PYTHONPATH": path, **limit})
    while not (tmp_path / "ready").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    assert (tmp_path / "saved").exists() == saves
    if saves:
        assert int((tmp_path / "saved").read_text()) >= 3600


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


def test_a_run_and_all_its_processes_end_with_the_server(fake_server, tmp_path):
    fake_server("raise SystemExit(3)")
    # As accelerate's launcher: its processes are in sessions of their own, and take their time at SIGTERM.
    worker = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    launcher = (
        "import subprocess, sys\nfrom pathlib import Path\n"
        f"worker = subprocess.Popen([sys.executable, '-c', {worker!r}], start_new_session=True)\n"
        f"Path({str(tmp_path / 'worker')!r}).write_text(str(worker.pid))\nworker.wait()"
    )
    with (
        launch.vllm_server(VLLM | {"mode": "server"}, ROOT / "base") as (server, environment),
        pytest.raises(InputError, match="the server ended with status 3"),
    ):
        launch.run([sys.executable, "-c", launcher], environment, server)
    worker = int((tmp_path / "worker").read_text())
    assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE


def test_signals_reach_the_run(tmp_path):
    ready = tmp_path / "ready"
    child = (
        "import signal, sys, time\nfrom pathlib import Path\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
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
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 9
