"""Models and data sets of the Hugging Face hub as local files, each with a record of what was fetched.

A download that is cut off goes on when it is started again, with the files that are not there yet. What goes wrong is
one sentence that says what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from grpo_dynamics import provenance
from grpo_dynamics.command import InputError
from grpo_dynamics.files import replacing
from grpo_dynamics.tasks import problems

LOG_IN = "accept its terms on its page there, then `hf auth login`, or set HF_TOKEN"


def fetch_model(hub: str, revision: str, folder: str | Path) -> dict:
    """Fetch a model's weights, config, tokenizer and chat template into `folder`, and check them.

    Parameters
    ----------
    hub : str
        Id on the hub, owner/name.
    revision : str
        Branch, tag or commit.
    folder : path
        Holds exactly the files of that revision afterwards.

    Returns
    -------
    dict
        ``endpoint``, ``hub``, ``revision``, ``commit`` (what the hub resolved the revision to) and ``files``: name to
        ``bytes`` and ``sha256``.

    Raises
    ------
    ValueError
        If the hub cannot be reached or does not give the files, or if a file differs from the hub's.
    """
    folder = Path(folder)
    with _explained(hub, revision, "catalogue.<model>.path"):
        # The commit comes first: of a branch, an offline snapshot_download would return whatever the folder holds.
        found = HfApi().model_info(hub, revision=revision, files_metadata=True)
        there = {file.rfilename: file for file in found.siblings}
        names = needed(list(there))
        if not any(name.endswith((".safetensors", ".bin")) for name in names):
            raise InputError(
                f"{hub}: found no weights among {sorted(there)}, expected *.safetensors or pytorch_model*.bin"
            )
        for leftover in folder.rglob("*.incomplete"):  # of a download that was killed; a new one does not use it
            leftover.unlink()
        snapshot_download(hub, revision=found.sha, local_dir=folder, allow_patterns=names)
    for path in folder.iterdir():
        if path.is_file() and path.name not in names:
            path.unlink()
    files = {name: _described(folder / name) for name in names}
    for name, file in files.items():
        expected = {"bytes": there[name].size}
        if there[name].lfs:
            expected["sha256"] = there[name].lfs.sha256
        if not expected.items() <= file.items():
            (folder / name).unlink()
            raise InputError(
                f"{folder / name}: found {file}, expected {expected} as on the hub; the file is removed: "
                "run the same command again, which fetches it anew"
            )
    return {"endpoint": constants.ENDPOINT, "hub": hub, "revision": revision, "commit": found.sha, "files": files}


def needed(names: list[str]) -> list[str]:
    """Of a model repository's files those that loading it takes.

    Config, tokenizer and chat template, and the weights as safetensors; as PyTorch files (``pytorch_model*.bin``) only
    if there are no others. What lies in folders (``original/``, ``onnx/``), and other formats, are left out.
    """
    top = sorted(name for name in names if "/" not in name)
    weights = [name for name in top if name.endswith(".safetensors") and not name.startswith("consolidated")]
    unwanted = "pytorch_model"
    if not weights:
        weights = [name for name in top if name.startswith("pytorch_model") and name.endswith(".bin")]
        unwanted = "model.safetensors"
    kinds = (".json", ".model", ".txt", ".jinja")
    return [name for name in top if name.endswith(kinds) and not name.startswith(unwanted)] + weights


def fetch_data(hub: str, config: str | None, split: str, revision: str, path: str | Path) -> dict:
    """Fetch a split of a data set and write its rows, as on the hub, to a JSON Lines file.

    Parameters
    ----------
    hub : str
        Id on the hub, owner/name.
    config : str or None
        Configuration of the data set; None for its only one.
    split : str
        Name of the split.
    revision : str
        Branch, tag or commit.
    path : path
        File to write, in one step.

    Returns
    -------
    dict
        ``endpoint``, ``hub``, ``config``, ``split``, ``revision``, ``commit``, ``rows`` (their number) and ``files``,
        as `fetch_model` has it.

    Raises
    ------
    ValueError
        If the hub cannot be reached or does not give the rows.
    """
    import datasets  # a second's import, which models do without

    path = Path(path)
    with _explained(f"{hub} (data set)", revision, "training_data.train or evaluation.data_files"):
        commit = HfApi().dataset_info(hub, revision=revision).sha
        try:
            rows = datasets.load_dataset(hub, config, split=split, revision=commit)
        except (ValueError, RuntimeError) as error:
            raise InputError(
                f"{hub} (data set): found {_first_line(error)}, expected the configuration {config or 'default'} with "
                f"the split {split} at revision {revision}"
            ) from error
        problems.write(rows, path)
    asked = {"hub": hub, "config": config, "split": split, "revision": revision}
    files = {path.name: _described(path)}
    return {"endpoint": constants.ENDPOINT, **asked, "commit": commit, "rows": len(rows), "files": files}


def write_record(record: dict, path: str | Path) -> None:
    """Write what was fetched as JSON, in one step."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")


def _described(path: Path) -> dict:
    return {"bytes": path.stat().st_size, "sha256": provenance.sha256(path)}


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _explained(hub: str, revision: str, instead: str) -> Iterator[None]:
    """Say in one sentence what went wrong with the hub, and what to do; `instead` is the config key of a local copy."""
    try:
        yield
    except InputError:
        raise
    except GatedRepoError as error:
        raise InputError(f"{hub}: found a gated repository, expected access to it: {LOG_IN}") from error
    except RepositoryNotFoundError as error:
        raise InputError(
            f"{hub}: found no such repository on {constants.ENDPOINT}, expected its id; if it is private: {LOG_IN}"
        ) from error
    except RevisionNotFoundError as error:
        raise InputError(
            f"{hub}: found no revision {revision!r}, expected a branch, tag or commit of the repository"
        ) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        todo = LOG_IN if status in (401, 403) else "run the same command again later"
        raise InputError(
            f"{hub}: found HTTP status {status} from {constants.ENDPOINT}, expected the files: {todo}"
        ) from error
    except Exception as error:
        # The libraries raise many kinds when there is no network; a full disk is told by its message.
        raise InputError(
            f"{hub}: found {type(error).__name__} ({_first_line(error)}), expected the files from "
            f"{constants.ENDPOINT}; run this where the hub can be reached, such as a cluster's login node: the same "
            f"command goes on where this one stopped (or name local files: {instead})"
        ) from error
