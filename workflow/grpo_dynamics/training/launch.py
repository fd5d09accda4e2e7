"""Start a GRPO run: in one process, or in several with accelerate, beside a vLLM server if the config asks for one.

``python -m grpo_dynamics.training.launch --launch JSON --configs config/accelerate -- [arguments of training.run]``.
What is started gets the signals that a scheduler sends, and its exit status is passed on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import psutil
import typer

from grpo_dynamics import command
from grpo_dynamics.command import InputError

# Ports of the job's vLLM server, for the processes that train.
SERVER_PORT, GROUP_PORT = "GRPO_DYNAMICS_VLLM_PORT", "GRPO_DYNAMICS_VLLM_GROUP_PORT"

_RUN = "grpo_dynamics.training.run"

# torch's launcher of several processes passes SIGTERM on to them, and kills those that are not done after 30 s, which
# is too short for a batch and a checkpoint. A day leaves it to the scheduler how long they may take.
_TIME_TO_SAVE = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "86400"}


def training_command(
    launch: dict, configs: Path, arguments: list[str], rank: int = 0, address: str = "127.0.0.1", port: int = 0
) -> list[str]:
    """The command that starts the training processes of one node.

    Parameters
    ----------
    launch : dict
        The config's section ``launch``.
    configs : Path
        Folder of accelerate's config files.
    arguments : list of str
        Arguments of `grpo_dynamics.training.run`.
    rank : int
        Number of this node, from 0.
    address, port
        Where the processes of all nodes meet.
    """
    if launch["accelerate"] is None:
        return [sys.executable, "-m", _RUN, *arguments]
    return [
        *(sys.executable, "-m", "accelerate.commands.launch"),
        *("--config_file", str(configs / f"{launch['accelerate']}.yaml")),
        *("--num_processes", str(launch["processes"] * launch["nodes"]), "--num_machines", str(launch["nodes"])),
        *("--machine_rank", str(rank), "--main_process_ip", address, "--main_process_port", str(port)),
        *("--module", _RUN, *arguments),
    ]


def node_command(nodes: int, configs: Path, launch: str, arguments: list[str]) -> list[str]:
    """The command that starts this module once on every node of a SLURM job."""
    task = [sys.executable, "-m", "grpo_dynamics.training.launch", "--launch", launch, "--configs", str(configs)]
    spread = ["--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=1"]
    return ["srun", *spread, *task, "--on-node", "--", *arguments]


def split_gpus(environment: Mapping[str, str], server: int) -> tuple[str, str]:
    """The GPUs that train and those of the vLLM server, the last ones, as values of CUDA_VISIBLE_DEVICES.

    Raises
    ------
    ValueError
        If no GPU is left to train on.
    """
    if visible := environment.get("CUDA_VISIBLE_DEVICES"):
        gpus = visible.split(",")
    else:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True).stdout
        gpus = [str(index) for index in range(len(listed.splitlines()))]
    if len(gpus) <= server:
        raise InputError(
            f"grpo.vllm: found {len(gpus)} GPUs, expected more than the {server} of the server (tensor_parallel_size)"
        )
    return ",".join(gpus[:-server]), ",".join(gpus[-server:])


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def vllm_server(vllm: dict, base: Path) -> Iterator[tuple[subprocess.Popen, dict[str, str]]]:
    """A vLLM server as TRL's trainer wants it, on the last GPUs, and the environment of the processes that train.

    The trainer waits until it answers (`arguments.grpo_config`); `run` watches for its end.
    """
    from trl.scripts.vllm_serve import ScriptArguments, build_command

    gpus = vllm["tensor_parallel_size"]
    training, serving = split_gpus(os.environ, gpus)
    ports = {SERVER_PORT: str(free_port()), GROUP_PORT: str(free_port())}
    served = build_command(
        ScriptArguments(
            model=str(base),
            host="127.0.0.1",
            port=int(ports[SERVER_PORT]),
            tensor_parallel_size=gpus,
            gpu_memory_utilization=vllm["gpu_memory_utilization"],
        )
    )
    # The endpoints that take new weights stand behind vLLM's development mode.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": serving, "VLLM_SERVER_DEV_MODE": "1"}
    server = subprocess.Popen(served, env=environment, stdout=sys.stderr)
    try:
        yield server, {**os.environ, **ports, "CUDA_VISIBLE_DEVICES": training}
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            _kill_all(server)


def run(training: list[str], environment: Mapping[str, str], server: subprocess.Popen | None = None) -> int:
    """Run a command to its end, pass on the signals that ask it to save or to stop, and return its exit status.

    Raises
    ------
    ValueError
        If the server that it needs ends before it does.
    """
    process = subprocess.Popen(training, env={**_TIME_TO_SAVE, **environment})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, frame: process.send_signal(received))
    while True:
        try:
            status = process.wait(timeout=5)
            return status if status >= 0 else 128 - status
        except subprocess.TimeoutExpired:
            if server is not None and server.poll() is not None:
                _kill_all(process)
                raise InputError(
                    f"grpo.vllm: the server ended with status {server.returncode}, expected it to serve until the run "
                    "ends; the log above says why"
                ) from None


def _kill_all(process: subprocess.Popen) -> None:
    """Kill a process and all that it started.

    A launcher's processes are in sessions of their own; asked to end, they would first wait for a batch that the server
    no longer samples.
    """
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in started:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.wait()
    psutil.wait_procs(started, timeout=30)


def main(
    launch: Annotated[str, typer.Option(help="JSON: the config's section launch, and vllm of its section grpo")],
    configs: Annotated[Path, typer.Option(help="folder of accelerate's config files")],
    arguments: Annotated[list[str], typer.Argument(help="arguments of grpo_dynamics.training.run, behind --")],
    on_node: Annotated[bool, typer.Option("--on-node", help="start the processes of this node only")] = False,
) -> None:
    """Start a GRPO run as the config says."""
    values = json.loads(launch)
    vllm = values["vllm"]
    if values["nodes"] > 1 and not on_node:
        sys.exit(run(node_command(values["nodes"], configs, launch, arguments), os.environ))
    if values["nodes"] > 1:
        # All nodes must name one port without asking each other; two jobs of one node rarely share it.
        port = 20000 + int(os.environ["SLURM_JOB_ID"]) % 20000
        rank, address = int(os.environ["SLURM_NODEID"]), os.environ["SLURM_LAUNCH_NODE_IPADDR"]
    else:
        rank, address, port = 0, "127.0.0.1", free_port()
    training = training_command(values, configs, arguments, rank, address, port)
    if vllm is not None and vllm["mode"] == "server":
        with vllm_server(vllm, Path(arguments[arguments.index("--base") + 1])) as (server, environment):
            sys.exit(run(training, environment, server))
    if values["accelerate"] is None:
        os.execv(training[0], training)  # nothing to watch: this process becomes the run
    sys.exit(run(training, os.environ))


if __name__ == "__main__":
    command.run(main)
