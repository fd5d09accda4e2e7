"""A small server that speaks enough of the Hugging Face hub's API for its real clients, to be used as HF_ENDPOINT.

    write_model_repo(folder, "owner/model", a_folder_of_files)
    write_dataset_repo(folder, "owner/data", {"main": {"train": rows, "test": rows}})
    with FakeHub(folder) as hub:
        ...  # HF_ENDPOINT=hub.url

A repository lies in `folder`/models or datasets/<owner>/<name>/<commit>/, its branches in refs.json beside the commits.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

import pandas as pd
import yaml

_REPOSITORY = re.compile(r"^/api/(?P<type>models|datasets)/(?P<id>[^/]+/[^/]+)/(?P<what>revision|tree)/(?P<rest>.+)$")
_FILE = re.compile(r"^(?P<datasets>/datasets)?/(?P<id>[^/]+/[^/]+)/resolve/(?P<rest>.+)$")
# As on the hub, these are kept by git LFS, which knows their SHA-256.
_LARGE = (".safetensors", ".bin", ".parquet")


def write_model_repo(folder: Path, name: str, files: Path, revision: str = "main") -> str:
    """Serve a copy of a folder's files as the model `name`; returns the commit.

    `revision` is a branch, whose commit follows from the files, or a commit (40 hex digits).
    """
    contents = {str(path.relative_to(files)): path.read_bytes() for path in sorted(files.rglob("*")) if path.is_file()}
    return _write(folder / "models" / name, contents, revision)


def write_dataset_repo(
    folder: Path,
    name: str,
    rows: Mapping[str | None, Mapping[str, Sequence[dict]]],
    revision: str = "main",
    kind: str = "parquet",
) -> str:
    """Serve rows as the data set `name`: configuration (None for the only one) to split to rows; returns the commit.

    `kind` is "parquet" or "jsonl", `revision` as in `write_model_repo`.
    """
    contents, configs = {}, []
    for config, splits in rows.items():
        data_files = []
        for split, table in splits.items():
            path = f"{config or 'data'}/{split}-00000-of-00001.{kind}"
            frame = pd.DataFrame(list(table))
            lines = frame.to_json(orient="records", lines=True)
            contents[path] = lines.encode() if kind == "jsonl" else frame.to_parquet(index=False)
            data_files.append({"split": split, "path": path})
        configs.append({"config_name": config or "default", "data_files": data_files})
    contents["README.md"] = f"---\n{yaml.safe_dump({'configs': configs})}---\n".encode()
    return _write(folder / "datasets" / name, contents, revision)


def _write(repository: Path, contents: Mapping[str, bytes], revision: str) -> str:
    pinned = re.fullmatch(r"[0-9a-f]{40}", revision)
    described = "".join(f"{name} {hashlib.sha1(content).hexdigest()}\n" for name, content in sorted(contents.items()))
    commit = revision if pinned else hashlib.sha1(described.encode()).hexdigest()
    for name, content in contents.items():
        path = repository / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    refs = repository / "refs.json"
    branches = json.loads(refs.read_text()) if refs.exists() else {}
    branches["main" if pinned else revision] = commit
    refs.write_text(json.dumps(branches))
    return commit


class FakeHub:
    """Serves the repositories in a folder from a thread.

    Attributes
    ----------
    url : str
        What HF_ENDPOINT must be.
    requests : list of (method, path, range)
        What was asked for; `range` is the header, None without one.
    gated : set of str
        Ids of repositories that need a login, which nobody has here.
    cut : dict
        Name of a file to bytes: after so many the next transfer of it ends.
    down_after_cut : bool
        Whether the hub then answers nothing any more (`down`).
    down : bool
        Whether it answers nothing.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.requests: list[tuple[str, str, str | None]] = []
        self.gated: set[str] = set()
        self.cut: dict[str, int] = {}
        self.down_after_cut = False
        self.down = False
        hub = self

        class Handler(_Handler):
            def __init__(self, *arguments):
                self.hub = hub
                super().__init__(*arguments)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeHub:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def fetched(self, suffix: str) -> list[tuple[str, str | None]]:
        """Path and range of the downloads of files whose path ends with `suffix`."""
        return [(path, part) for method, path, part in self.requests if method == "GET" and path.endswith(suffix)]


class _Handler(BaseHTTPRequestHandler):
    """One request. The forms are those that huggingface_hub reads (hf_api.py, file_download.py)."""

    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *arguments: object) -> None:
        pass

    def _answer(self) -> None:
        if self.hub.down:
            self.close_connection = True
            return
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        if found := _REPOSITORY.match(path):
            repository = self.hub.folder / found["type"] / found["id"]
            self._api(repository, found["what"], found["rest"], parse_qs(url.query))
        elif found := _FILE.match(path):
            self._file(self.hub.folder / ("datasets" if found["datasets"] else "models") / found["id"], found["rest"])
        else:
            self._error(404, "EntryNotFound", f"no such page: {path}")

    def _api(self, repository: Path, what: str, rest: str, query: dict) -> None:
        located = self._locate(repository, rest)
        if located is None:
            return
        commit, inner = located
        folder = repository / commit
        files = [self._described(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()]
        if what == "tree":
            files = [entry for entry in files if not inner or entry["path"].startswith(f"{inner}/")]
            if query.get("recursive", ["False"])[0].lower() != "true":
                files = [entry for entry in files if "/" not in entry["path"].removeprefix(f"{inner}/")]
            self._send(files)
        else:
            siblings = [
                {"rfilename": entry["path"], "size": entry["size"], "blobId": entry["oid"]}
                | ({"lfs": {"sha256": entry["lfs"]["oid"], **entry["lfs"]}} if "lfs" in entry else {})
                for entry in files
            ]
            name = "/".join(repository.parts[-2:])
            known = {"id": name, "sha": commit, "private": False, "tags": [], "downloads": 0, "likes": 0}
            self._send(known | {"siblings": siblings})

    def _file(self, repository: Path, rest: str) -> None:
        located = self._locate(repository, rest)
        if located is None:
            return
        commit, inner = located
        path = repository / commit / inner
        if not path.is_file():
            self._error(404, "EntryNotFound", f"no file {inner}")
            return
        content = path.read_bytes()
        oid = self._described(path, repository / commit)
        start = int(re.match(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{oid["lfs"]["oid"] if "lfs" in oid else oid["oid"]}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        end = self.hub.cut.pop(path.name, len(content))
        if end < len(content):
            self.hub.down = self.hub.down_after_cut
            self.close_connection = True
        self.wfile.write(content[start:end])

    def _locate(self, repository: Path, rest: str) -> tuple[str, str] | None:
        """The commit that a revision stands for, and the path behind it; None after an error was sent."""
        if "/".join(repository.parts[-2:]) in self.hub.gated:
            self._error(401, "GatedRepo", "Access to this repository is restricted.")
            return None
        if not (repository / "refs.json").exists():
            self._error(401, "RepoNotFound", "Repository not found")
            return None
        branches = json.loads((repository / "refs.json").read_text())
        known = branches | {path.name: path.name for path in repository.iterdir() if path.is_dir()}
        for revision, commit in sorted(known.items(), key=lambda item: -len(item[0])):
            if rest == revision or rest.startswith(f"{revision}/"):
                return commit, rest[len(revision) + 1 :]
        self._error(404, "RevisionNotFound", f"Invalid rev id: {rest}")
        return None

    @staticmethod
    def _described(path: Path, folder: Path) -> dict:
        content = path.read_bytes()
        entry = {"type": "file", "path": str(path.relative_to(folder)), "size": len(content)}
        entry["oid"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        if path.name.endswith(_LARGE):
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return entry

    def _send(self, content: object, status: int = 200, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str, message: str) -> None:
        self._send({"error": message}, status, X_Error_Code=code, X_Error_Message=message)
