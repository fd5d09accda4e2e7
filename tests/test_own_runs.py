"""The target own_runs: one's own logs in the DAG."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

from grpo_dynamics import demo, tables
from grpo_dynamics.config import ConfigError, resolve
from grpo_dynamics.runlog.log import OWN_LOG


def snakemake(folder, *arguments):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "1", *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with two logs, one of which needs a renaming, and the study's overlay."""
    folder = tmp_path_factory.mktemp("own")
    demo.write("decoupling", folder / "hack.json")
    lines = [f"{step},{0.2 + 0.6 * (1 - 0.97**step):.4f}" for step in range(1, 101)]
    (folder / "rise.csv").write_text("\n".join(["step,wins", *lines]))
    entries = {
        "hack": {"path": "hack.json", "group_size": demo.G},
        "rise": {"path": "rise.csv", "rename": {"reward": "wins"}, "reward_range": [0, 1]},
    }
    (folder / "own.yaml").write_text(yaml.safe_dump({"study": "own", "own_runs": entries}))
    return folder


def test_own_logs_become_pages_and_data(folder):
    done = snakemake(folder, "own_runs", "--configfile", "own.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    results = folder / "results" / "own" / "own_runs"
    diagnosis = json.loads((results / "hack" / "diagnosis.json").read_text())["diagnosis"]
    assert (diagnosis["primary"], diagnosis["verdict"]) == ("decoupling", "critical")
    assert len(tables.read(results / "hack" / "log.csv", OWN_LOG)) == demo.STEPS
    fitted = json.loads((results / "rise" / "fit.json").read_text())["fit"]
    plateau = fitted["estimates"]["R_inf"]
    assert plateau["low"] <= 0.8 <= plateau["high"]
    for name in ("hack", "rise"):
        page = (results / name / "report.html").read_text()
        assert "data:image/svg+xml;base64," in page
        assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_second_run_does_nothing(folder):
    done = snakemake(folder, "own_runs", "--configfile", "own.yaml")
    assert "Nothing to be done" in done.stdout + done.stderr


def test_a_log_that_grows_within_its_folder_is_read_again(tmp_path):
    state = tmp_path / "run" / "checkpoint-200" / "trainer_state.json"
    state.parent.mkdir(parents=True)
    demo.write("healthy", state)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"study": "own", "own_runs": {"mine": {"path": "run"}}}))
    assert snakemake(tmp_path, "own_runs", "--configfile", "own.yaml").returncode == 0
    with state.open("a") as file:  # in place: the time of its folder stays
        file.write("\n")
    done = snakemake(tmp_path, "-n", "own_runs", "--configfile", "own.yaml")
    assert "own_run " in done.stdout + done.stderr


def test_a_log_that_is_not_there_is_refused_before_anything_runs(config):
    config["own_runs"] = {"mine": {"path": "no/such.json"}}
    with pytest.raises(ConfigError, match=r'own_runs\.mine\.path: found "no/such.json", allowed: a file or folder'):
        resolve(config, ROOT)
