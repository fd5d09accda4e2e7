"""Each rule's environment file installs what the rule imports, and each rule's inputs hold the code it runs."""

import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, ResourceSettings

WORKFLOW = ROOT / "workflow"
LIBRARY = WORKFLOW / "grpo_dynamics"
ENVIRONMENTS = sorted((ROOT / "envs").glob("*.yaml"))
# Imported only where a GPU is, and installed there by hand (docs/hpc.md): there is no vLLM for other machines.
ONLY_WITH_A_GPU = {"vllm"}
# Not among a rule's inputs on purpose, as common.smk's code() explains; modules named tables... are schemas.
LEFT_OUT = {"__init__.py", "cells.py", "command.py", "config.py", "files.py", "progress.py", "provenance.py"}
# The problems of one task do not depend on the other's code, which would otherwise retrain every model.
OTHER_TASK = {
    ("training_data", "ci"): {"benchmarks.py", "scoring.py", "numbers.py", "latex.py"},
    ("training_data", "paper"): {"ladder.py"},
}


@functools.cache
def rules():
    """Every rule that runs something: environment file, command and code inputs; over studies, whose inputs differ."""
    found = {}
    for study in ("ci", "paper"):
        overlay = ConfigSettings(configfiles=[ROOT / "config" / "studies" / f"{study}.yaml"])
        with SnakemakeApi(OutputSettings(quiet={"all"})) as api:
            loaded = api.workflow(ResourceSettings(cores=1), config_settings=overlay, snakefile=ROOT / "Snakefile")
            for rule in loaded._workflow.rules:
                if rule.shellcmd:
                    files = [Path(text).resolve() for text in rule.input if isinstance(text, str)]
                    inputs = {path for path in files if path.suffix == ".py"}
                    found[rule.name, study] = (Path(rule.conda_env).name, rule.shellcmd, inputs)
    return found


def module_file(name):
    """The file of grpo_dynamics.x.y, or of the package of that name; None if there is none."""
    path = WORKFLOW.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


@functools.cache
def imports(path):
    """Names of the modules that a file imports, also within its functions, or names in a text to be run by `-m`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            # A name imported from a module may be a module itself.
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(re.findall(r"^grpo_dynamics(?:\.\w+)+$", node.value))
    return frozenset(names)


def left_out(path):
    return (path.parent == LIBRARY and path.name in LEFT_OUT) or path.name.startswith("tables")


def closure(files, but=lambda path: False):
    """The given files and all of the library that they import, directly or not, without and not through some."""
    found, waiting = set(), list(files)
    while waiting:
        path = waiting.pop()
        if path not in found and not but(path):
            found.add(path)
            waiting += filter(None, map(module_file, (n for n in imports(path) if n.startswith("grpo_dynamics"))))
    return found


def started_by(command, inputs):
    """The files that a rule's command starts: its script or module, and lm-eval's, which a task file names."""
    scripts = [path for path in inputs if path.parent.name in ("scripts", "benchmarks")]
    return scripts + [module_file(name) for name in re.findall(r"-m (grpo_dynamics[\w.]+)", command)]


def runs_something(path):
    """Whether a file holds more than a docstring."""
    body = ast.parse(path.read_text()).body
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in body)


# What has been fetched is not fetched again because code changed.
@pytest.mark.parametrize("rule", [rule for rule in rules() if not rule[0].startswith("download_")], ids=" ".join)
def test_a_rule_s_inputs_hold_the_code_it_runs(rule):
    _, command, inputs = rules()[rule]
    started = started_by(command, inputs)
    assert started
    shows_schemas = rule[0] == "table_page"
    but = (lambda path: left_out(path) and not path.name.startswith("tables")) if shows_schemas else left_out
    needed = {path for path in closure(started, but) if runs_something(path)}
    missing = {str(path.relative_to(WORKFLOW)) for path in needed - inputs if path.name not in OTHER_TASK.get(rule, [])}
    assert missing == set()


def pins(lines):
    """Version by normalised name, from lines like name[extra]==version."""
    found = {}
    for line in lines:
        name, version = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.+!]+)", line).groups()
        found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


def lock():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return pins(line for line in lines if line and not line.startswith("#"))


def pip_section(path):
    return yaml.safe_load(path.read_text())["dependencies"][2]["pip"]


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_environment_files_have_the_form_that_conda_takes_and_the_lock_s_pins(path):
    environment = yaml.safe_load(path.read_text())
    # conda looks for a channel called nodefaults, and conda-forge has Python and pip; the rest comes from PyPI.
    assert environment["channels"] == ["conda-forge"]
    python, pip, packages = environment["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    assert list(packages) == ["pip"]
    assert packages["pip"] == sorted(packages["pip"])
    assert pins(packages["pip"]).items() <= lock().items()


def test_pyproject_agrees_with_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(pin for extra in extras for pin in extra)]
    assert pins(wanted).items() <= lock().items()


def test_every_environment_file_is_some_rule_s():
    assert {environment for environment, _, _ in rules().values()} == {path.name for path in ENVIRONMENTS}


def test_the_container_recipe_builds_every_environment(tmp_path):
    # Writing the recipe takes no more of conda than its version, where it is installed, and one setting.
    conda = tmp_path / "conda"
    answer = {
        "platform": "linux-64",
        "conda_prefix": "/opt",
        "root_prefix": "/opt",
        "get": {"channel_priority": "strict"},
    }
    conda.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo conda 26.7.0 || echo '{json.dumps(answer)}'\n")
    conda.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    command = [sys.executable, "-m", "snakemake", "--containerize"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    copied = dict(re.findall(r"^COPY envs/(\S+) (\S+)$", done.stdout, re.MULTILINE))
    assert set(copied) == {path.name for path in ENVIRONMENTS}
    assert all(
        f"conda env create --prefix {Path(file).parent} --file {file}" in done.stdout for file in copied.values()
    )


# Run in the fresh environment: imports modules by name and files by path, and prints what does not import.
IMPORT = """
import importlib, importlib.util, json, sys, traceback
for target in json.loads(sys.argv[1]):
    try:
        if target.endswith(".py"):
            spec = importlib.util.spec_from_file_location("checked", target)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        else:
            importlib.import_module(target)
    except Exception:
        print(f"{target}: {traceback.format_exc(limit=-1)}")
"""


def module_name(path):
    name = ".".join(path.relative_to(WORKFLOW).with_suffix("").parts)
    return name.removesuffix(".__init__") if name.startswith("grpo_dynamics") else str(path)


@pytest.mark.environments
@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_file_alone_installs_what_its_rules_import(path, tmp_path):
    started = [started_by(command, inputs) for name, command, inputs in rules().values() if name == path.name]
    files = closure(file for group in started for file in group)
    packages = {name.split(".")[0] for file in files for name in imports(file)}
    packages -= {*sys.stdlib_module_names, "grpo_dynamics", *ONLY_WITH_A_GPU}

    python = tmp_path / "venv" / "bin" / "python"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*arguments, **more):
        return subprocess.run(
            arguments, cwd=tmp_path, env=environ | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    try:
        run(sys.executable, "-m", "venv", "venv")
        installed = run(python, "-m", "pip", "install", "--quiet", *pip_section(path))
        assert installed.returncode == 0, installed.stdout[-3000:]
        checked = run(python, "-m", "pip", "check")
        assert checked.returncode == 0, checked.stdout
        targets = json.dumps(sorted(packages) + sorted(map(module_name, files)))
        imported = run(python, "-c", IMPORT, targets, PYTHONPATH=str(WORKFLOW))
        assert imported.returncode == 0, imported.stdout[-3000:]
        assert not [line for line in imported.stdout.splitlines() if "Error" in line], imported.stdout[-3000:]
    finally:
        shutil.rmtree(tmp_path / "venv", ignore_errors=True)
