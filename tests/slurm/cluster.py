"""A real SLURM cluster of one node, this machine, for the tests: as root, without systemd, cgroups and slurmdbd.

``python tests/slurm/cluster.py start`` starts munged, slurmctld and slurmd and waits until the node is idle; ``stop``
ends exactly these processes. ``packages`` names the Debian packages that this needs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGES = ["slurmctld", "slurmd", "slurm-client", "munge"]
PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "srun"]
FOLDER = Path(tempfile.gettempdir()) / "grpo-dynamics-slurm"
# The plugin that starts the jobs' steps drops SLURM_CONF: the configuration is found only here. A link to ours.
SYSTEM_CONFIG = Path("/etc/slurm/slurm.conf")
# As in profiles/slurm/config.yaml.
PARTITIONS = ["cpu", "gpu"]

# cred_expire: seconds that a requeued job must wait before it starts again (120 by default).
# OverMemoryKill: a job that uses more memory than it asked for is killed, which elsewhere cgroups do.
CONFIG = """\
ClusterName=grpo-dynamics
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MinJobAge=600
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName={cpu} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName={gpu} Nodes=ALL MaxTime=INFINITE State=UP
"""


class Unavailable(RuntimeError):
    """Why no cluster can be started here, and what would make it possible."""


def check() -> None:
    """Raise `Unavailable` unless this machine can become the cluster."""
    if os.geteuid() != 0:
        raise Unavailable("starting SLURM needs root")
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        raise Unavailable(f"{', '.join(missing)} not found: apt-get install {' '.join(PACKAGES)}")
    ours = SYSTEM_CONFIG.is_symlink() and Path(os.readlink(SYSTEM_CONFIG)) == FOLDER / "slurm.conf"
    if (SYSTEM_CONFIG.exists() or SYSTEM_CONFIG.is_symlink()) and not ours:
        raise Unavailable(f"{SYSTEM_CONFIG} belongs to another cluster")


def start(cpus: int = 8) -> None:
    """Start the cluster; `cpus` may exceed the machine's cores: the node then runs as many jobs at a time."""
    check()
    stop()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ("munge", "state", "spool"):
        (FOLDER / name).mkdir(parents=True)
    FOLDER.chmod(0o755)
    host = socket.gethostname().partition(".")[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    values = {"host": host, "folder": FOLDER, "cpus": cpus, "memory": memory}
    (FOLDER / "slurm.conf").write_text(CONFIG.format(**values, **{name: name for name in PARTITIONS}))

    munge = FOLDER / "munge"
    (munge / "key").touch(mode=0o600)
    (munge / "key").write_bytes(secrets.token_bytes(1024))
    names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    subprocess.run(["munged", "--force", *(f"--{key}={munge / name}" for key, name in names.items())], check=True)
    SYSTEM_CONFIG.parent.mkdir(exist_ok=True)
    SYSTEM_CONFIG.symlink_to(FOLDER / "slurm.conf")
    subprocess.run(["slurmctld", "-c"], check=True)
    subprocess.run(["slurmd", "-N", host], check=True)
    wait_until_idle()


def wait_until_idle(seconds: float = 30.0) -> None:
    """Wait until the node takes jobs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True).stdout.split()
        if state and set(state) == {"idle"}:
            return
        time.sleep(0.1)
    logs = "".join((FOLDER / f"{name}.log").read_text()[-2000:] for name in ("slurmctld", "slurmd"))
    stop()
    raise RuntimeError(f"the SLURM node did not become idle within {seconds:.0f} s:\n{logs}")


def stop() -> None:
    """Cancel all jobs and end the processes that `start` started, and only those."""
    if (FOLDER / "slurmctld.pid").exists():
        subprocess.run(["scancel", "--state=RUNNING,PENDING", "--user=root"], capture_output=True, timeout=30)
        time.sleep(0.5)
    for program, file in {"slurmd": "slurmd.pid", "slurmctld": "slurmctld.pid", "munged": "munge/pid"}.items():
        _end(FOLDER / file, program)
    if SYSTEM_CONFIG.is_symlink() and Path(os.readlink(SYSTEM_CONFIG)) == FOLDER / "slurm.conf":
        SYSTEM_CONFIG.unlink()


def _end(file: Path, program: str) -> None:
    """End the process whose id is in `file`, if it still is `program`."""
    if not file.exists() or not file.read_text().strip():
        return
    pid = int(file.read_text())
    for number in [signal.SIGTERM] + [0] * 50 + [signal.SIGKILL]:
        name = Path(f"/proc/{pid}/comm")
        if not name.exists() or name.read_text().strip() != program:
            break
        os.kill(pid, number)
        time.sleep(0.1)
    file.unlink(missing_ok=True)


if __name__ == "__main__":
    {"start": start, "stop": stop, "packages": lambda: print(*PACKAGES)}[sys.argv[1]]()
