"""How fast the command line starts, and how fast it reads a long console log.

python benchmarks/command_line.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

KEYS = ("actor/entropy", "actor/kl_loss", "actor/grad_norm", "critic/score/mean", "critic/rewards/mean",
        "response_length/mean", "response_length/clip_ratio", "perf/time_per_step")  # fmt: skip


def console(size: int) -> str:
    """A log as verl's trainer writes it, with the noise of its workers, of at least `size` characters."""
    rng = np.random.default_rng(0)
    lines, length, step = ["(TaskRunner pid=1) {'actor_rollout_ref': {'rollout': {'n': 8}}}"], 0, 0
    while length < size:
        step += 1
        values = [f"{key}:{value:.6f}" for key, value in zip(KEYS, rng.random(len(KEYS)), strict=True)]
        values += [f"timing_s/part_{part}:np.float64({value:.12f})" for part, value in enumerate(rng.random(40))]
        lines.append(f"\x1b[36m(TaskRunner pid=1)\x1b[0m step:{step} - " + " - ".join(values))
        lines.append(f"\x1b[36m(WorkerDict pid=2)\x1b[0m Training Progress: {step}/400 [00:10<00:20, 3.2s/it]")
        length += len(lines[-1]) + len(lines[-2])
    return "\n".join(lines)


def best(action, times: int) -> float:
    """Shortest of several times, s."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    command = [sys.executable, "-m", "grpo_dynamics.cli", "--help"]
    seconds = best(lambda: subprocess.run(command, check=True, capture_output=True), 3)
    print(f"grpo-dynamics --help: {seconds:.2f} s")
    from grpo_dynamics.runlog.read import read

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "console.txt"
        path.write_text(console(570_000))
        rows = len(read(path)[0].table)
        seconds = best(lambda: read(path), 3)
        print(f"a console log of verl, {path.stat().st_size // 1000} kB, {rows} steps: read in {seconds:.2f} s")


if __name__ == "__main__":
    main()
