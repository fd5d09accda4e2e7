"""The manifest of a results folder: what its results were made with, and where its jobs differ in that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from grpo_dynamics import provenance
from grpo_dynamics.cells import failure_cells, failure_kinds, variant_cells
from grpo_dynamics.derived_seeds import derived_seeds
from grpo_dynamics.files import replacing

NAME = "manifest.json"
SUMMARY = "this manifest"  # stands among the jobs for the process that collects


def write(config: dict, folder: str | Path) -> dict:
    """Collect the manifest of a results folder, write it to manifest.json there, and return it.

    Parameters
    ----------
    config : dict
        The study's config, defaults included.
    folder : str or Path
        ``results/<study>``; what is not there yet is left out.
    """
    folder = Path(folder)
    found = collect(config, folder)
    with replacing(folder / NAME) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    return found


def collect(config: dict, folder: Path) -> dict:
    """The manifest as a dict, ready for JSON.

    Returns
    -------
    dict
        ``study``, ``time``; ``jobs`` (numbers of training and evaluation jobs that the study has and that are done, and
        the names of those done that left no record); ``environments`` (each different one once, as
        `provenance.environment` gives it, with the jobs that ran in it and when the first and the last of them
        started); ``differences``; ``models``; ``data``; ``seeds``; ``config``.
    """
    own = provenance.environment()
    planned = list(_jobs(config))
    done = [name for name, result in planned if (folder / result).exists()]
    sessions = [(name, _read(folder / name / provenance.NAME)) for name in done]
    jobs = [(SUMMARY, [own]), *((name, found) for name, found in sessions if found)]
    checksums = _Checksums(_read(folder / NAME) or {})
    return {
        "study": config["study"],
        "time": own["time"],
        "jobs": {
            "planned": len(planned),
            "done": len(done),
            "without_record": [name for name, found in sessions if not found],
        },
        "environments": _environments(jobs),
        "differences": differences(jobs),
        "models": {name: _model(config["catalogue"][name], name, folder, checksums) for name in config["models"]},
        "data": _data(config, folder, checksums),
        "seeds": {"seed": config["seed"], "runs": config["seeds"], "derived": derived_seeds(config)},
        "config": config,
    }


def _jobs(config: dict) -> Iterator[tuple[str, str]]:
    """Folder, which is the job's name, and result of every training and evaluation job, within the results folder."""
    cells = list(product(config["models"], config["group_sizes"], config["seeds"]))
    for model in config["models"]:
        if "pretraining" in config["catalogue"][model]:
            yield f"models/{model}", f"models/{model}/base.done"
    runs = [("runs", *cell) for cell in cells]
    runs += [(f"variants/{variant}", *cell) for variant, *cell in variant_cells(config)]
    runs += [(f"failures/{kind}", *cell) for kind, *cell in failure_cells(config)]
    for part, model, G, seed in runs:
        name = f"{part}/{model}/G{G}/seed{seed}"
        yield name, f"{name}/log.csv"
    for checkpoint in [f"{model}/base" for model in config["models"]] + [f"{m}/G{G}/seed{s}" for m, G, s in cells]:
        name = f"evaluations/{checkpoint}"
        yield name, f"{name}/summary.csv"


def _read(path: Path) -> dict | list | None:
    return json.loads(path.read_text()) if path.exists() else None


def _environments(jobs: list[tuple[str, list[dict]]]) -> list[dict]:
    """The different environments, with the jobs that ran in each; a job of several sessions may stand in several."""
    groups: dict[str, dict] = {}
    for name, sessions in jobs:
        for session in sessions:
            found = {key: value for key, value in session.items() if key != "time"}
            key = json.dumps(found, sort_keys=True)
            group = groups.setdefault(key, {"first": session["time"], "last": session["time"], **found, "jobs": []})
            group["first"] = min(group["first"], session["time"])
            group["last"] = max(group["last"], session["time"])
            if name not in group["jobs"]:
                group["jobs"].append(name)
    return list(groups.values())


def differences(jobs: list[tuple[str, list[dict]]]) -> list[dict]:
    """In what the jobs of a study differ.

    Parameters
    ----------
    jobs : list of (name, sessions)
        A session is what `provenance.environment` gave. The process that collects the manifest (`SUMMARY`) counts for
        commit and versions, but not for the hardware: it trains and evaluates nothing.

    Returns
    -------
    list of dict
        ``what`` (commit, uncommitted changes, python, package <name>, processor, cores, gpus, processes) and
        ``values``: a list of ``value`` and the ``jobs`` that had it. A package that only some jobs have installed is no
        difference: stages have environments of their own.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for name, sessions in jobs:
        for session in sessions:
            code, hardware = session["code"], session["hardware"]
            values = {"commit": code["commit"] or "unknown", "uncommitted changes": _changes(code["uncommitted"])}
            values["python"] = session["python"]
            values |= {f"package {package}": version for package, version in session["packages"].items()}
            if name != SUMMARY:
                gpus = ", ".join(f"{gpu['name']} (driver {gpu['driver'] or 'unknown'})" for gpu in hardware["gpus"])
                values |= {"processor": hardware["processor"], "cores": str(hardware["cores"]), "gpus": gpus or "none"}
                values["processes"] = str(session["processes"])
            for what, value in values.items():
                had = found.setdefault(what, {}).setdefault(value, [])
                if name not in had:
                    had.append(name)
    return [
        {"what": what, "values": [{"value": value, "jobs": names} for value, names in values.items()]}
        for what, values in found.items()
        if len(values) > 1
    ]


def _changes(uncommitted: list[str] | None) -> str:
    return "unknown" if uncommitted is None else ", ".join(uncommitted) or "none"


class _Checksums:
    """SHA-256 of files; a large one that is unchanged since the last manifest is not read again."""

    def __init__(self, before: dict):
        parts = [*before.get("models", {}).values(), *before.get("data", {}).values()]
        self._known = {path: known for part in parts for path, known in part.get("files", {}).items()}

    def of(self, paths: list[Path]) -> dict[str, dict]:
        """Bytes, time of change (UTC) and sha256 of those of the files that exist, by path."""
        found = {}
        for path in filter(Path.is_file, paths):
            status = path.stat()
            changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat()
            entry = {"bytes": status.st_size, "changed": changed}
            known = self._known.get(str(path), {})
            same = entry.items() <= known.items()
            found[str(path)] = entry | {"sha256": known["sha256"] if same else provenance.sha256(path)}
        return found


def _model(entry: dict, name: str, folder: Path, checksums: _Checksums) -> dict:
    """Where a base model comes from, with its revision and the checksums of its files, as far as it is there."""
    own = folder / "models" / name
    template = checksums.of([Path(entry["chat_template"])] if entry.get("chat_template") else [])
    if "hub" in entry:
        fetched = _read(own / "download.json") or {"hub": entry["hub"], "revision": entry["revision"], "files": {}}
        return {"source": "hub", **fetched, "files": fetched["files"] | template}
    base, source = (Path(entry["path"]), "local folder") if "path" in entry else (own / "base", "pretrained here")
    files = sorted(path for path in base.glob("*") if not path.name.startswith("."))
    return {"source": source, "files": checksums.of(files) | template}


def _data(config: dict, folder: Path, checksums: _Checksums) -> dict:
    """The problems: local files that the config names, files that the study makes, and what comes from the hub."""
    training, evaluation = config["training_data"], config["evaluation"]
    local = {f"training_data.{name}": training[name] for name in ("train", "heldout") if training[name]}
    local |= {f"evaluation.data_files.{name}": path for name, path in evaluation["data_files"].items()}
    found = {key: {"source": "local file", "files": checksums.of([Path(path)])} for key, path in local.items()}
    made = [folder / "data" / f"{name}.jsonl" for name in ("train", "heldout")]
    made += [folder / "data" / "ladder" / f"{name}.jsonl" for name in evaluation["benchmarks"]]
    made += [folder / "failures" / kind / "train.jsonl" for kind in failure_kinds(config)]
    for path in made:
        if path.is_file():
            found[str(path.relative_to(folder))] = {"source": "made here", "files": checksums.of([path])}
    for path in sorted((folder / "data" / "hub").glob("*.json")):
        found[path.stem] = {"source": "hub", **_read(path)}
    return found
