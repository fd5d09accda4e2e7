"""TensorBoard event files -> a run's rows."""

from __future__ import annotations

import logging
from pathlib import Path

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.raw import Raw, flatten
from grpo_dynamics.runlog.structured import parse

MARK = "tfevents"
MAGIC = b"brain.Event:"


def event_folders(folder: Path) -> list[Path]:
    """Folders with event files, at or below a folder, in order."""
    return sorted({path.parent for path in folder.rglob(f"*{MARK}*") if path.is_file()})


def read_events(path: Path, name: str) -> Raw:
    """Rows of the scalars in an event file, or in all those of a folder, which are one run.

    Values of one step that follow each other are a row. What a restarted run wrote again is kept, so that the seam is
    seen.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False)
    stated: dict[str, object] = {}
    try:
        events.Reload()
        tags = events.Tags()
        values = [
            (event.wall_time, event.step, tag, event.value) for tag in tags["scalars"] for event in events.Scalars(tag)
        ]
        for tag in tags["tensors"]:
            for event in events.Tensors(tag):
                array = make_ndarray(event.tensor_proto)
                if array.ndim == 0 and array.dtype.kind in "fiu":
                    values.append((event.wall_time, event.step, tag, float(array)))
                elif tag.startswith("args"):  # transformers writes its arguments as text
                    stated |= _arguments(array.ravel()[0])
    except Exception as error:  # whatever a damaged file makes the protocol's parser raise
        raise InputError(f"{path}: found a damaged TensorBoard event file ({type(error).__name__})") from error
    rows: list[dict[str, object]] = []
    for _, step, tag, value in sorted(values, key=lambda one: one[0]):
        if not rows or rows[-1]["step"] != step or tag in rows[-1]:
            rows.append({"step": step})
        rows[-1][tag] = value
    return Raw(name, "TensorBoard event files", rows, stated)


def _arguments(text: bytes) -> dict[str, object]:
    """Settings of the text in which transformers writes its arguments."""
    try:
        found = parse(text.decode())
    except (ValueError, AttributeError):
        return {}
    return flatten(found, separator=".") if isinstance(found, dict) else {}
