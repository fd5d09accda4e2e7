"""What a job ran with: commit, packages, hardware. The job itself records it, on the machine where it runs.

Neither host names nor user names are recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from grpo_dynamics.files import replacing

NAME = "provenance.json"
ROOT = Path(__file__).resolve().parents[2]
# What results follow from, besides the config, which the manifest holds itself.
_SOURCES = ["Snakefile", "workflow", "envs", "requirements.lock", "config/accelerate"]


def environment() -> dict:
    """What this process runs with.

    Returns
    -------
    dict
        ``time`` (UTC, ISO 8601), ``code`` (see `code_version`), ``python``, ``platform``, ``packages`` (name to version
        of everything installed), ``hardware`` (see `hardware`) and ``processes`` (of the training, on all nodes).
    """
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_version(ROOT),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages(),
        "hardware": hardware(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
    }


def record(folder: str | Path, resumed: bool = False) -> None:
    """Write this process's environment to provenance.json beside a job's results, a list with an entry per session.

    A job that goes on from a checkpoint adds its entry to those of the sessions before; otherwise the list starts anew.
    """
    path = Path(folder, NAME)
    before = json.loads(path.read_text()) if resumed and path.exists() else []
    with replacing(path) as temporary:
        temporary.write_text(json.dumps([*before, environment()], indent=1) + "\n")


def code_version(folder: Path) -> dict:
    """The git commit of the project in `folder`, and its files that differ from it.

    Returns
    -------
    dict
        ``commit`` (40 hex digits) and ``uncommitted``: changed or new files among those that results follow from
        (Snakefile, workflow/, envs/, requirements.lock, config/accelerate/). Both are None if `folder` is not the root
        of a git repository, or git is not installed.
    """
    if not shutil.which("git") or _git(folder, "rev-parse", "--show-toplevel") != str(folder.resolve()):
        return {"commit": None, "uncommitted": None}
    # -z: paths as they are, without quotes.
    status = _git(folder, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *_SOURCES)
    changed = sorted(entry[3:] for entry in (status or "").split("\0") if entry)
    return {"commit": _git(folder, "rev-parse", "HEAD"), "uncommitted": changed}


def _git(folder: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def packages() -> dict[str, str]:
    """Version of every installed package, by its normalised name."""
    found = {distribution.metadata["Name"]: distribution.version for distribution in metadata.distributions()}
    return dict(sorted((re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in found.items() if name))


def hardware() -> dict:
    """Processor (its name), cores (those that this process may use), memory_gb, and gpus (see `_gpus`)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"processor": _processor(), "cores": cores, "memory_gb": round(memory, 1), "gpus": _gpus()}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpus() -> list[dict]:
    """Name, memory_gb and driver of each GPU.

    Those that torch sees, where a job has loaded it, which are the ones that the job may use; else all of nvidia-smi.
    """
    drivers, listed = set(), []
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
        done = subprocess.run(query, capture_output=True, text=True)
        rows = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
        # Without a GPU there is a sentence in place of the rows.
        for name, mebibytes, driver in (row for row in rows if len(row) == 3):
            drivers.add(driver)
            listed.append({"name": name, "memory_gb": _gigabytes(mebibytes), "driver": driver})
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return listed
    seen = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    driver = min(drivers, default=None)
    return [{"name": gpu.name, "memory_gb": round(gpu.total_memory / 1e9, 1), "driver": driver} for gpu in seen]


def _gigabytes(mebibytes: str) -> float | None:
    """GB of a number of MiB as text; None where the driver says [N/A]."""
    return round(int(mebibytes) * 2**20 / 1e9, 1) if mebibytes.isdigit() else None


def sha256(path: str | Path) -> str:
    """SHA-256 of a file's contents, in hex."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
