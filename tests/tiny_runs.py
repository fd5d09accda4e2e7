"""Runs of GRPO on tiny models, for the tests of what a run can be asked for and of how it is launched."""

import json
import os
import subprocess
import sys
from pathlib import Path

import tiny_models
from conftest import ROOT
from transformers import AutoModelForCausalLM

from grpo_dynamics import tables
from grpo_dynamics.tasks import problems
from grpo_dynamics.training import run

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


def make_place(folder):
    """Fill a folder with problems and a base model of each architecture."""
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
