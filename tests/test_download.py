"""What a study needs from the hub: fetched by the real clients from a small hub here, then used without any."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import real_formats
import yaml
from conftest import ROOT
from fake_hub import FakeHub, write_model_repo

from grpo_dynamics import tables
from grpo_dynamics.hub import needed
from grpo_dynamics.tasks import benchmarks, problems

SCRIPTS = ROOT / "workflow" / "scripts"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = bytes(range(256)) * 4096 * 12  # 12 MiB: the client keeps what has come in pieces of 10 MiB
MODEL = {
    "config.json": b"{}",
    "tokenizer.json": b"[]",
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"the same weights once more",
    "pytorch_model.bin.index.json": b"{}",
    "original/model.safetensors": b"and once more",
    "model.gguf": b"for another program",
}


@pytest.fixture
def hub(tmp_path):
    """A hub with a model of several formats, at its branch main and at a commit."""
    for name, content in MODEL.items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    write_model_repo(tmp_path / "hub", "owner/model", tmp_path / "model")
    write_model_repo(tmp_path / "hub", "owner/model", tmp_path / "model", COMMIT)
    with FakeHub(tmp_path / "hub") as hub:
        yield hub


def environment(tmp_path, url):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": path, "PYTHONPATH": str(ROOT / "workflow"), "HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": url}
    return kept | own


def run(tmp_path, url, script, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPTS / f"{script}.py", *map(str, arguments)],
        env=environment(tmp_path, url),
        capture_output=True,
        text=True,
    )


def fetch_model(tmp_path, hub, model="owner/model", revision="main"):
    folder, record = tmp_path / "base", tmp_path / "download.json"
    done = run(
        *(tmp_path, hub.url, "download_model", "--model", model, "--revision", revision),
        *("--folder", folder, "--record", record),
    )
    return done, folder, json.loads(record.read_text()) if record.exists() else None


def files_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_model_is_fetched_once_in_the_best_format_and_recorded(tmp_path, hub):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "model-00001-of-00002.safetensors").write_text("left by another revision")
    done, folder, record = fetch_model(tmp_path, hub, revision=COMMIT)
    assert done.returncode == 0, done.stderr
    names = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
    assert files_in(folder) == names == sorted(record["files"])
    assert (record["hub"], record["revision"], record["commit"]) == ("owner/model", COMMIT, COMMIT)
    expected = {"bytes": len(WEIGHTS), "sha256": hashlib.sha256(WEIGHTS).hexdigest()}
    assert record["files"]["model.safetensors"] == expected
    hub.requests.clear()
    assert fetch_model(tmp_path, hub, revision=COMMIT)[2] == record
    assert hub.fetched("model.safetensors") == []


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        (["pytorch_model.bin", "training_args.bin"], ["pytorch_model.bin"]),
        (
            ["pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json", "onnx/model.onnx", "README.md"],
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin"],
        ),
        (
            ["consolidated.safetensors", "model.safetensors", "tokenizer.model"],
            ["tokenizer.model", "model.safetensors"],
        ),
        (["model.safetensors", "model.safetensors.index.json"], ["model.safetensors.index.json", "model.safetensors"]),
    ],
)
def test_of_several_formats_one_is_needed(there, taken):
    assert needed(there) == taken


def test_a_transfer_that_is_cut_off_goes_on(tmp_path, hub):
    hub.cut["model.safetensors"] = len(WEIGHTS) - 1
    done, folder, _ = fetch_model(tmp_path, hub)
    assert done.returncode == 0, done.stderr
    assert [part for _, part in hub.fetched("model.safetensors")] == [None, f"bytes={10 * 2**20}-"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_download_that_fails_leaves_nothing_half_written_and_goes_on_when_run_again(tmp_path, hub):
    hub.cut["model.safetensors"], hub.down_after_cut = 1000, True
    done, folder, record = fetch_model(tmp_path, hub)
    assert done.returncode == 1 and record is None
    assert "owner/model: found" in done.stderr and "the same command goes on where this one stopped" in done.stderr
    complete = files_in(folder)
    assert "model.safetensors" not in complete
    killed = folder / ".cache" / "huggingface" / "download" / "abc.0.incomplete"
    killed.write_bytes(b"of a process that was killed")
    hub.down = False
    hub.requests.clear()
    done, folder, record = fetch_model(tmp_path, hub)
    assert done.returncode == 0, done.stderr
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert not any(hub.fetched(name) for name in complete)
    assert not killed.exists()


def test_a_file_that_differs_from_the_hub_s_is_found_and_fetched_anew(tmp_path, hub):
    _, folder, record = fetch_model(tmp_path, hub)
    weights = folder / "model.safetensors"
    times = weights.stat()
    weights.write_bytes(WEIGHTS[::-1])
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a failing disk changes it
    done, folder, _ = fetch_model(tmp_path, hub)
    assert done.returncode == 1 and "as on the hub; the file is removed" in done.stderr
    done, folder, again = fetch_model(tmp_path, hub)
    assert done.returncode == 0 and again == record and weights.read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("model", "revision", "message"),
    [
        ("owner/modle", "main", "owner/modle: found no such repository on http://127.0.0.1"),
        ("owner/model", "v2", "owner/model: found no revision 'v2', expected a branch, tag or commit"),
        ("owner/gated", "main", "owner/gated: found a gated repository, expected access to it: accept its terms"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(tmp_path, hub, model, revision, message):
    hub.gated.add("owner/gated")
    done, folder, record = fetch_model(tmp_path, hub, model, revision)
    assert done.returncode == 1 and record is None and not folder.exists()
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")
    assert "Traceback" not in done.stderr


def test_without_a_network_the_sentence_says_where_to_run_it(tmp_path, hub):
    hub.down = True
    done, folder, record = fetch_model(tmp_path, hub)
    assert done.returncode == 1 and record is None and not folder.exists()
    assert "run this where the hub can be reached, such as a cluster's login node" in done.stderr.splitlines()[-1]


def overlay(tmp_path):
    """The paper's study with only what the tests need of it changed: one model, with a commit as revision."""
    paper = yaml.safe_load((ROOT / "config" / "studies" / "paper.yaml").read_text())
    paper["models"] = ["r1-distill-qwen-1.5b"]
    paper["grpo"]["heldout_problems"] = 8
    path = tmp_path / "paper.yaml"
    path.write_text(yaml.safe_dump(paper))
    return path, paper


def snakemake(tmp_path, url, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *map(str, arguments), "--directory", tmp_path / "work"],
        cwd=ROOT,
        env=environment(tmp_path, url),
        capture_output=True,
        text=True,
    )


def test_download_then_offline(tmp_path, hub, default_config):
    """`snakemake download` fetches all that the study needs; without the hub its problems are then made and checked."""
    path, paper = overlay(tmp_path)
    config = {key: {**value, **paper.get(key, {})} for key, value in default_config.items() if isinstance(value, dict)}
    config |= {"task": paper["task"]}
    commits = real_formats.write_hub_data(tmp_path / "hub", config)
    entry = paper["catalogue"]["r1-distill-qwen-1.5b"]
    write_model_repo(tmp_path / "hub", entry["hub"], tmp_path / "model", entry["revision"])

    done = snakemake(tmp_path, hub.url, "download", "--configfile", path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    results = tmp_path / "work" / "results" / "paper"
    assert set(commits) == {"gsm8k_train", *benchmarks.BENCHMARKS}
    for name, commit in commits.items():
        record = json.loads((results / "data" / "hub" / f"{name}.json").read_text())
        rows = results / "data" / "hub" / f"{name}.jsonl"
        assert record["commit"] == commit and record["rows"] == len(real_formats.rows(name))
        assert record["files"][rows.name]["sha256"] == hashlib.sha256(rows.read_bytes()).hexdigest()
        assert problems.read(rows) == json.loads(json.dumps(real_formats.rows(name)))
    model = results / "models" / "r1-distill-qwen-1.5b"
    assert json.loads((model / "download.json").read_text())["commit"] == entry["revision"]
    assert (model / "base" / "model.safetensors").read_bytes() == WEIGHTS

    hub.down = True
    hub.requests.clear()
    targets = [f"results/paper/{name}" for name in ("data/train.jsonl", "benchmark_checks.csv")]
    done = snakemake(tmp_path, hub.url, *targets, "--configfile", path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert hub.requests == []
    train, heldout = (problems.read(results / "data" / f"{name}.jsonl") for name in ("train", "heldout"))
    assert (len(train), len(heldout)) == (40, 8)
    checks = tables.read(results / "benchmark_checks.csv", tables.BENCHMARK_CHECKS)
    assert list(checks["benchmark"].unique()) == paper["evaluation"]["benchmarks"]
    done = snakemake(tmp_path, hub.url, "download", "--configfile", path)
    assert "Nothing to be done" in done.stdout + done.stderr
