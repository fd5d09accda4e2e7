"""The manifest: what results were made with, as the jobs recorded it, and where they differ."""

import ast
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from snakemake.api import SnakemakeApi
from snakemake.io import is_flagged
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

from grpo_dynamics import manifest, provenance, seeds
from grpo_dynamics.derived_seeds import derived_seeds


def git(folder, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    (folder / "workflow").mkdir(parents=True)
    (folder / "workflow" / "a b.py").write_text("x = 1\n")
    (folder / "README.md").write_text("text\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def test_the_commit_and_what_differs_from_it(repository):
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "README.md").write_text("results do not follow from it\n")
    assert provenance.code_version(repository) == {"commit": commit, "uncommitted": []}
    (repository / "workflow" / "a b.py").write_text("x = 2\n")
    (repository / "workflow" / "new.py").touch()
    # A file that the config names; the config itself is in the manifest.
    for path in ("config/accelerate/several_gpus.yaml", "config/studies/mine.yaml"):
        (repository / path).parent.mkdir(parents=True)
        (repository / path).touch()
    assert provenance.code_version(repository)["uncommitted"] == [
        *("config/accelerate/several_gpus.yaml", "workflow/a b.py", "workflow/new.py")
    ]


def test_no_commit_is_claimed_for_a_folder_that_only_lies_within_a_repository(repository):
    assert provenance.code_version(repository / "workflow") == {"commit": None, "uncommitted": None}


def test_environment_names_versions_and_hardware_but_no_host_and_no_user(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    found = provenance.environment()
    assert found["packages"]["pandas"] == pd.__version__
    assert found["python"] == sys.version.split()[0]
    assert found["processes"] == 4
    assert found["hardware"]["processor"]
    assert 1 <= found["hardware"]["cores"] <= os.cpu_count()
    assert 0.5 < found["hardware"]["memory_gb"] < 1e5
    assert set(found) == {"time", "code", "python", "platform", "packages", "hardware", "processes"}
    assert set(found["hardware"]) == {"processor", "cores", "memory_gb", "gpus"}


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("NVIDIA H200, 143771, 570.86.15", [{"name": "NVIDIA H200", "memory_gb": 150.8, "driver": "570.86.15"}]),
        ("NVIDIA GB10, [N/A], 580.95", [{"name": "NVIDIA GB10", "memory_gb": None, "driver": "580.95"}]),
        ("No devices were found", []),
    ],
)
def test_gpus_as_nvidia_smi_lists_them(says, expected, tmp_path, monkeypatch):
    fake = tmp_path / "nvidia-smi"
    fake.write_text(f"#!/bin/sh\necho '{says}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert provenance.hardware()["gpus"] == expected


def test_a_resumed_job_keeps_the_record_of_its_sessions(tmp_path, monkeypatch):
    for session, resumed in [(1, False), (2, False), (3, True)]:
        monkeypatch.setattr(provenance, "environment", lambda session=session: {"session": session})
        provenance.record(tmp_path, resumed)
    assert json.loads((tmp_path / "provenance.json").read_text()) == [{"session": 2}, {"session": 3}]


def environment(commit="a", uncommitted=(), packages=(), processor="cpu", gpus=(), time="2026-01-01"):
    return {
        "time": time,
        "code": {"commit": commit, "uncommitted": list(uncommitted)},
        "python": "3.11.7",
        "platform": "Linux",
        "packages": dict(packages),
        "hardware": {"processor": processor, "cores": 2, "memory_gb": 8.0, "gpus": list(gpus)},
        "processes": 1,
    }


def test_differences_name_each_value_and_its_jobs():
    gpu = {"name": "H200", "memory_gb": 150.8, "driver": "570"}
    first = environment("a", packages={"torch": "2.13.0", "trl": "1.16.0"}, gpus=[gpu])
    # Went on elsewhere, at another commit; its environment lacks trl, which is no difference.
    second = environment("b", packages={"torch": "2.14.0"}, gpus=[gpu, gpu])
    collector = environment("a", processor="another cpu")
    found = manifest.differences([(manifest.SUMMARY, [collector]), ("run 0", [first]), ("run 1", [first, second])])
    values = {entry["what"]: {row["value"]: row["jobs"] for row in entry["values"]} for entry in found}
    assert values == {
        "commit": {"a": [manifest.SUMMARY, "run 0", "run 1"], "b": ["run 1"]},
        "package torch": {"2.13.0": ["run 0", "run 1"], "2.14.0": ["run 1"]},
        "gpus": {"H200 (driver 570)": ["run 0", "run 1"], "H200 (driver 570), H200 (driver 570)": ["run 1"]},
    }


@pytest.fixture
def study(tmp_path, config, monkeypatch):
    """A study of one local model with one run and its evaluation, the run at another commit than the rest."""
    monkeypatch.setattr(provenance, "environment", lambda: environment("b", time="2026-01-03"))
    model, folder = tmp_path / "model", tmp_path / "results"
    model.mkdir()
    (model / "model.safetensors").write_bytes(b"abc")
    config["catalogue"]["mine"] = {"path": str(model)}
    config |= {"models": ["mine"], "group_sizes": [4], "seeds": [0], "variants": {}, "failures": None}
    for job, result, recorded in [
        ("runs/mine/G4/seed0", "log.csv", environment("a", ["workflow/x.py"])),
        ("evaluations/mine/G4/seed0", "summary.csv", environment("b", time="2026-01-02")),
        ("evaluations/mine/base", "summary.csv", None),
    ]:
        (folder / job).mkdir(parents=True)
        (folder / job / result).touch()
        if recorded:
            (folder / job / provenance.NAME).write_text(json.dumps([recorded]))
    return config, folder


def test_the_manifest_collects_what_the_jobs_recorded(study):
    config, folder = study
    manifest.write(config, folder)
    found = json.loads((folder / "manifest.json").read_text())
    assert found["config"] == config
    assert found["jobs"] == {"planned": 3, "done": 3, "without_record": ["evaluations/mine/base"]}
    assert [(one["code"]["commit"], one["jobs"], one["first"], one["last"]) for one in found["environments"]] == [
        ("b", [manifest.SUMMARY, "evaluations/mine/G4/seed0"], "2026-01-02", "2026-01-03"),
        ("a", ["runs/mine/G4/seed0"], "2026-01-01", "2026-01-01"),
    ]
    assert [entry["what"] for entry in found["differences"]] == ["commit", "uncommitted changes"]


def test_files_are_known_by_their_checksum_and_read_again_when_they_change(study, monkeypatch):
    config, folder = study
    path = config["catalogue"]["mine"]["path"] + "/model.safetensors"

    def files():
        return manifest.write(config, folder)["models"]["mine"]["files"]

    # FIPS 180-2, appendix B.1
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files()[path] | {"changed": None} == {"bytes": 3, "changed": None, "sha256": known}
    with monkeypatch.context() as patched:  # weights of many GB are not read at the end of every run of the workflow
        patched.setattr(provenance, "sha256", None)
        assert files()[path]["sha256"] == known
    with open(path, "wb") as file:
        file.write(b"abcd")
    assert files()[path]["sha256"] == hashlib.sha256(b"abcd").hexdigest()


def test_what_was_fetched_from_the_hub_is_named_with_its_commit_and_checksums(study):
    config, folder = study
    config["catalogue"]["mine"] = {"hub": "owner/mine", "revision": "main"}
    before = manifest.write(config, folder)["models"]["mine"]
    assert before == {"source": "hub", "hub": "owner/mine", "revision": "main", "files": {}}
    fetched = {"hub": "owner/mine", "revision": "main", "commit": "c" * 40}
    fetched["files"] = {"model.safetensors": {"bytes": 3, "sha256": "a" * 64}}
    for path in ("models/mine/download.json", "data/hub/gsm8k.json"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(json.dumps(fetched))
    found = manifest.write(config, folder)
    assert found["models"]["mine"] == found["data"]["gsm8k"] == {"source": "hub", **fetched}


def test_derived_seeds_are_those_of_the_stages(config):
    listed = derived_seeds(config)
    found = {tuple(entry["names"]): entry["seed"] for entry in listed}
    assert found["grpo", "llama-tiny", 4, 0] == seeds.derive(config["seed"], "grpo", "llama-tiny", 4, 0)
    assert found["calibration", "no_trend"] == seeds.derive(config["seed"], "calibration", "no_trend", 0)
    assert len(found) == len(set(found.values())) == len(listed)
    runs = [names for names in found if names[0] == "grpo"]
    assert len(runs) == 24 + 24 + 28  # the study's own, the variants', those with an induced failure


def literal_first_names():
    """The first name in every call that derives seeds, where it is written out."""
    for path in (ROOT / "workflow").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            # seeds() of the bandit also takes the number of replicas.
            at = {"derive": 1, "seeds.derive": 1, "seeds": 2}.get(called)
            if at and len(call.args) > at and isinstance(call.args[at], ast.Constant):
                yield call.args[at].value


def test_every_stage_that_derives_a_seed_is_listed(config):
    config["evaluation"]["benchmarks"].append("gsm8k")
    listed = {entry["names"][0] for entry in derived_seeds(config)}
    in_variables = {"grpo", "predictions"} | {name for name in listed if name.startswith("ladder_")}
    # The held-out completions' seed derives from the run's own.
    assert listed - in_variables == set(literal_first_names()) - {"heldout"}


def test_problems_are_chosen_among_those_that_are_not_made_in_the_number_asked_for(config):
    config["evaluation"] |= {"benchmarks": ["ladder_in_distribution", "ladder_names", "gsm8k"], "items": 7}
    config["evaluation"]["data_files"] = {"ladder_names": "names.jsonl"}
    names = [tuple(entry["names"]) for entry in derived_seeds(config)]
    assert [name for name in names if name[0] == "items"] == [("items", "ladder_names"), ("items", "gsm8k")]
    assert ("ladder_in_distribution",) in names


def test_the_page_shows_every_part(study, tmp_path):
    config, folder = study
    page = tmp_path / "page.html"
    options = {"settings": json.dumps(config), "folder": folder, "page": page}
    options["template"] = ROOT / "workflow" / "report" / "manifest.html.j2"
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    script = ROOT / "workflow" / "scripts" / "manifest.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    subprocess.run([sys.executable, script, *arguments], check=True, env=env)
    text = page.read_text()
    recorded = json.loads((folder / "manifest.json").read_text())
    for part in ("workflow/x.py", "ba7816bf8f01cfea", str(seeds.derive(config["seed"], "grpo", "mine", 4, 0))):
        assert part in text
    assert all(entry["what"] in text for entry in recorded["differences"])
    assert yaml.safe_load(text.split("<pre>")[1].split("</pre>")[0].replace("&#39;", "'")) == config


def rules(**overlay):
    """The workflow's rules by name, under the default config with an overlay."""
    with SnakemakeApi(OutputSettings(quiet={"all"})) as api:
        settings = {"config_settings": ConfigSettings(config=overlay), "snakefile": ROOT / "Snakefile"}
        loaded = api.workflow(ResourceSettings(cores=1), **settings)
        return {rule.name: rule for rule in loaded._workflow.rules}


def test_the_default_target_finds_the_checksums_of_the_last_manifest():
    """Snakemake removes what a job makes before it starts, unless it is marked."""
    assert is_flagged(rules()["manifest"].output.manifest, "update")


def test_an_edit_of_accelerate_s_file_repeats_the_runs_that_it_started():
    launch = {"accelerate": "several_gpus", "processes": 2}
    failures = {"grpo": {"micro_batch_size": 32}}
    found = rules(launch=launch, grpo={"micro_batch_size": 12}, failures=failures)
    for name in ("grpo", "grpo_variant", "grpo_failure"):
        inputs = [Path(path).resolve() for path in found[name].input if isinstance(path, str)]
        assert ROOT / "config" / "accelerate" / "several_gpus.yaml" in inputs
    assert not any("accelerate" in str(path) for path in rules()["grpo"].input if isinstance(path, str))


def test_a_target_leaves_a_manifest_and_a_run_with_nothing_to_do_leaves_it_alone(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "snakemake", "--cores", "1", "--directory", str(tmp_path), *arguments]
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PATH": path})
        assert done.returncode == 0, done.stderr[-3000:]

    path = tmp_path / "results" / "cpu" / "manifest.json"
    target = "results/cpu/bandit/overdamped_limit.csv"
    run("--dry-run", target)
    assert not path.exists()
    run(target)
    found = json.loads(path.read_text())
    assert found["config"] == yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    assert found["jobs"]["done"] == 0
    written = path.stat().st_mtime_ns
    run(target)
    assert path.stat().st_mtime_ns == written
