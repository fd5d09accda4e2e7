"""Makes results/<study>/manifest.json: what the results were made with."""

import json
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command
from grpo_dynamics.files import replacing


def main(
    settings: Annotated[str, typer.Option(help="JSON: the whole config")],
    lock: Annotated[Path, typer.Option(help="requirements.lock")],
    output: Annotated[Path, typer.Option()],
) -> None:
    """Write the config, the commit, the versions and the hardware."""
    names = [line.split("==")[0] for line in lock.read_text().splitlines() if "==" in line]
    cpu = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    found = {
        "commit": _commit(lock.parent),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": cpu[0] if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "packages": {name: version for name in names if (version := _version(name))},
        "config": json.loads(settings),
    }
    with replacing(output) as temporary:
        temporary.write_text(json.dumps(found, indent=2) + "\n")


def _commit(folder: Path) -> str | None:
    if not shutil.which("git"):
        return None
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip() or None


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    command.run(main)
