"""What became of the jobs that failed in an invocation of Snakemake, and the one command that goes on from there.

Reads Snakemake's own log of the invocation, the logs that it names, and nothing else; works with and without SLURM.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grpo_dynamics.config import grown

# An error in Snakemake's log: the line that opens it, and the indented lines below. Jobs of a group come indented.
_BLOCK = re.compile(r"^(?:Error in rule|    message: Error in (group)) ([^\s:]+):?\n((?: .*\n)+)", re.MULTILINE)
_LOGS = re.compile(r"^\s+log: (.*?)(?: \(check log file\(s\) for error details\))?$", re.MULTILINE)
# The log of a failed job, shown within that of Snakemake; a job's own Snakemake reports errors there, too.
_SHOWN = re.compile(r"^Logfile [^\n]*:\n={80}\n.*?^={80}\n", re.MULTILINE | re.DOTALL)
_FINISHED = re.compile(r"^Finished jobid: (\d+) ", re.MULTILINE)
_STATE = re.compile(r"SLURM status is: '(\w+)'")
_REFUSED = re.compile(r"SLURM sbatch failed\. The error message was '(.*?)'", re.DOTALL)
# Of a group that sbatch refused, Snakemake's log holds neither sbatch's words nor, for want of a job, a log of SLURM's.
_ON_SLURM = re.compile(r"^SLURM run ID: ", re.MULTILINE)
_NOT_STARTED = "SLURM did not start it"

# Words of SLURM, its daemons and Python in the logs, by what they mean; the first that is found counts.
_WORDS = {
    "out of GPU memory": r"CUDA out of memory|OutOfMemoryError: (?:CUDA|HIP)",
    "out of memory": r"exceeded memory limit|Exceeded job memory limit|oom.kill|OOM Killed|out.of.memory handler"
    r"|^MemoryError|can't allocate memory|Cannot allocate memory",
    "out of time": r"DUE TO TIME LIMIT",
    "cancelled": r"(?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ \*\*\*",
}
_STATES = {
    "OUT_OF_MEMORY": "out of memory",
    "TIMEOUT": "out of time",
    "DEADLINE": "out of time",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node failed",
}
# What helps against a failure: more of the resource with this name.
_MORE = {"out of memory": "mem_mb", "out of time": "runtime"}
_UNITS = {"mem_mb": "MB", "runtime": "minutes"}
# What helps against too little GPU memory, by the beginning of a rule's name.
_LESS = {
    "grpo": "a smaller grpo.micro_batch_size, grpo.gradient_checkpointing or grpo.lora needs less",
    "evaluate": "a smaller evaluation.batch_size needs less",
}


@dataclass(frozen=True)
class Failure:
    """A job, or a group of jobs, that failed and did not succeed later.

    Attributes
    ----------
    name : str
        The rule or the group, as a title.
    jobs : tuple of int
        Snakemake's numbers of the jobs: of a group those that failed, or all if the group failed as a whole.
    what : str
        What happened: a value of `_STATES`, a key of `_WORDS`, ``refused by SLURM: ...``, `_NOT_STARTED` or ``failed``.
    logs : tuple of Path
        The logs of the rules and SLURM's, as far as they exist.
    """

    name: str
    jobs: tuple[int, ...]
    what: str
    logs: tuple[Path, ...]


def failures(text: str, folder: Path) -> list[Failure]:
    """The jobs that failed for good, from the text of Snakemake's log; paths in it are relative to `folder`."""
    text = _SHOWN.sub("Logfile\n", text)
    found = {}
    for match in _BLOCK.finditer(text):
        group, name, block = match.groups()
        numbers = tuple(map(int, re.findall(r"^\s+jobid: (\d+)$", block, re.MULTILINE)))
        # A job that was tried again is listed by its last try alone.
        found.pop(numbers, None)
        if set(numbers) <= set(map(int, _FINISHED.findall(text, match.end()))):
            continue
        title = f"group {name}" if group else name
        if group and _ON_SLURM.search(text) and not _LOGS.search(block.partition("    jobs:\n")[0]):
            found[numbers] = Failure(_named(title, numbers), numbers, _NOT_STARTED, ())
            continue
        names, jobs = _split(_LOGS.findall(block)), numbers
        if group:
            # First SLURM's log of the group, in which its failed jobs are named, then those of its jobs.
            inner = _read(folder / names[0])
            failed = set(_split(line for part in _BLOCK.findall(inner) for line in _LOGS.findall(part[2])))
            names = [names[0], *(name for name in names[1:] if name in failed)]
            parts = re.findall(r"^ +jobid: (\d+)\n(?: +output: .*\n)?( +log: .*\n)", block, re.MULTILINE)
            jobs = tuple(int(job) for job, line in parts if failed & set(_split(_LOGS.findall(line)))) or jobs
        logs = tuple(path for path in (folder / name for name in dict.fromkeys(names)) if path.is_file())
        found[numbers] = Failure(_named(title, jobs), jobs, _what(block, logs), logs)
    return list(found.values())


def _named(title: str, jobs: tuple[int, ...]) -> str:
    return f"{title} (job {', '.join(map(str, jobs))})"


def _split(lines: Iterable[str]) -> list[str]:
    return [name for line in lines for name in line.split(", ")]


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _what(block: str, logs: tuple[Path, ...]) -> str:
    refused = _REFUSED.search(block)
    if refused:
        return "refused by SLURM: " + " ".join(refused[1].replace("sbatch: error:", "").split())
    state = _STATE.search(block)
    if state and state[1] in _STATES:
        return _STATES[state[1]]
    # Where the memory limit is not kept by cgroups, or a group has failed, only the logs tell what happened. Those of
    # rules hold what earlier tries wrote, too; SLURM's, which are named by its number of the job, do not.
    written = "\n".join(_read(path)[-20_000 if path.stem.isdigit() else -2_000 :] for path in logs)
    found = (what for what, words in _WORDS.items() if re.search(words, written, re.MULTILINE))
    return next(found, "cancelled" if state and state[1] == "CANCELLED" else "failed")


def advice(
    text: str,
    folder: Path,
    argv: list[str],
    asked: dict[int, dict],
    limits: dict[str, int | None],
    fixed: dict[str, dict[str, str]],
) -> str:
    """What happened to each failed job, and the command that goes on.

    Parameters
    ----------
    text : str
        Snakemake's log of the invocation.
    folder : Path
        Working directory of the invocation.
    argv : list of str
        Its command line.
    asked : dict
        By Snakemake's number of a job, its ``rule`` and the ``mem_mb`` (MB) and ``runtime`` (minutes) of its last try.
    limits : dict
        The most ``mem_mb`` and ``runtime`` that a job may ask for; None: no limit.
    fixed : dict
        By rule, the resources that the command line or its profile fixes: ``--set-resources`` replaces all of them.

    Returns
    -------
    str
        Lines for a terminal; the last one is the command.
    """
    lines, wanted, hopeless = [], {}, False
    for failure in failures(text, folder):
        lines.append(f"{failure.name}: {failure.what}")
        name = _MORE.get(failure.what)
        for job in failure.jobs if name else ():
            rule, had = asked[job]["rule"], asked[job][name]
            more = grown(had, 2, limits[name])
            lines.append(f"  {rule} had asked for {had} {_UNITS[name]}")
            if more > had:
                wanted[rule, name] = max(more, wanted.get((rule, name), 0))
            else:
                hopeless = True
                lines[-1] += f", and resources.limits.{name} allows no more"
        rules = list(dict.fromkeys(asked[job]["rule"] for job in failure.jobs))
        if failure.what == "out of GPU memory":
            less = [hint for start, hint in _LESS.items() if any(rule.startswith(start) for rule in rules)]
            hopeless = hopeless or bool(less)
            lines += [f"  {hint}" for hint in less]
        if failure.what == _NOT_STARTED:
            hopeless = True
            lines.append(f"  its jobs: {', '.join(rules)}")
            lines.append("  check slurm_partition and slurm_account at the top of the profile;")
            lines.append("  sbatch --test-only --partition=<partition> --wrap=true says what SLURM has against them")
        lines += [f"  log: {path}" for path in failure.logs]
    resources = {rule: dict(values) for rule, values in fixed.items()}
    for (rule, name), value in wanted.items():
        resources.setdefault(rule, {})[name] = str(value)
    lines = ["", "What happened:", *(f"  {line}" for line in lines or ["Snakemake was stopped before the end"]), ""]
    if hopeless:
        lines.append("First change the config or the profile as said above. Then, from the last checkpoints:")
    else:
        lines.append("To go on, from the last checkpoints of the runs that were cut off:")
    return "\n".join([*lines, f"  {command(argv, resources if wanted else {})}"])


def command(argv: list[str], resources: dict[str, dict[str, str]]) -> str:
    """The command line `argv` of Snakemake with other ``--set-resources``; without any, as it was."""
    program = Path(argv[0])
    start = ["python", "-m", "snakemake"] if program.name == "__main__.py" else [program.name]
    if not resources:
        return shlex.join([*start, *argv[1:]])
    kept, dropping = [], False
    for word in argv[1:]:
        if word.startswith("-"):
            dropping = word == "--set-resources" or word.startswith("--set-resources=")
        if not dropping:
            kept.append(word)
    more = [f"{rule}:{name}={value}" for rule, values in resources.items() for name, value in values.items()]
    # Before a `--`, behind which only targets stand.
    end = kept.index("--") if "--" in kept else len(kept)
    return shlex.join([*start, *kept[:end], "--set-resources", *more, *kept[end:]])
