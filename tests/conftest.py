"""What several tests share."""

import copy
import os
import shutil
from pathlib import Path

import pytest
import yaml

# Two test processes on two cores, without oversubscription; nothing is fetched from a hub.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parents[1]


def copy_project(folder):
    """Copy the project, without what was made in it, into a new folder; return that."""
    ignore = shutil.ignore_patterns(".git", ".venv", ".snakemake", "results", "*cache*", ".hypothesis")
    return shutil.copytree(ROOT, folder, ignore=ignore)


@pytest.fixture(scope="session")
def default_config():
    return yaml.safe_load((ROOT / "config" / "config.yaml").read_text())


@pytest.fixture
def config(default_config):
    """The default config, to be changed by a test."""
    return copy.deepcopy(default_config)
