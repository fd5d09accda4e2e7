"""Rules of the house: imports go one way, rules are complete, pins agree."""

import ast
import re
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT

LIBRARY = ROOT / "workflow" / "grpo_dynamics"
# In the order in which data flows; a package imports only from those before it.
ORDER = ["theory", "bandit", "tasks", "training", "evaluation", "runlog", "analysis", "figures", "reports"]
SHARED = {"seeds", "tables", "cells", "config", "progress", "command", "files", "provenance"}


def imported_packages(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "grpo_dynamics":
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("grpo_dynamics."):
            names = [node.module.split(".")[1]]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("grpo_dynamics.")]
        yield from names


@pytest.mark.parametrize("package", ORDER)
def test_imports_go_one_way(package):
    allowed = set(ORDER[: ORDER.index(package) + 1]) | SHARED
    if package == "theory":
        allowed = {"theory"}
    for path in (LIBRARY / package).glob("*.py"):
        assert set(imported_packages(path)) <= allowed, path


def test_the_library_knows_no_snakemake():
    for path in LIBRARY.rglob("*.py"):
        assert not re.search(r"^\s*(import|from) snakemake", path.read_text(), re.MULTILINE), path


def test_analysis_and_figures_import_no_torch():
    modules = ["grpo_dynamics.analysis.ledger", "grpo_dynamics.analysis.fits", "grpo_dynamics.figures.style"]
    code = f"import sys, {', '.join(modules)}; print([m for m in ('torch', 'transformers', 'trl') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "workflow", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def rules():
    """Text of every rule that runs something, by name."""
    found = {}
    for path in [ROOT / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]:
        for match in re.finditer(r"^rule (\w+):\n((?:[ \t]+.*\n|\n)+)", path.read_text(), re.MULTILINE):
            name, text = match.groups()
            if re.search(r"^    (shell|script|run):", text, re.MULTILINE):
                found[name] = text
    return found


@pytest.mark.parametrize("name", rules())
def test_every_rule_is_complete(name):
    for directive in ("conda", "log", "benchmark", "threads", "resources", "message"):
        assert f"    {directive}:" in rules()[name], f"rule {name} lacks {directive}:"


def test_the_slurm_profile_groups_every_small_job():
    groups = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())["groups"]
    trained = {"grpo", "evaluate_base", "evaluate_run"}  # grpo_variant and grpo_failure are made from grpo
    long = trained | {"pretrain", "calibration_table"}
    local = {"download_model", "download_data", "plan"}
    assert set(groups) == set(rules()) - long - local
