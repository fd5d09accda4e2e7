"""What the figures of one's own run share: marks of diagnoses, and numbers and texts in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes

from grpo_dynamics.figures import style

FIRED = {"warning": style.COLORS[4], "critical": "#b22222"}


class Onset(Protocol):
    """What the figures need of a diagnosis."""

    group: str
    verdict: str
    onset: float


def label(axes: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **look) -> None:
    """A small text on white, offset in points from a place; it takes no room of its own in the layout.

    The place is in data coordinates along the x axis and in the axes' own along y, unless `look` has `xycoords`.
    """
    white = {"facecolor": "white", "alpha": 0.75, "pad": 0.6, "edgecolor": "none"}
    look = {"xycoords": axes.get_xaxis_transform(), "fontsize": 6.5, "bbox": white} | look
    note = axes.annotate(text, place, xytext=offset, textcoords="offset points", **look)
    note.set_in_layout(False)


def beside(axes: Axes, x: float) -> tuple[str, float]:
    """Alignment and offset (points) of a text beside a vertical mark at `x`, on the side with more room."""
    left, right = axes.get_xlim()
    return ("left", 3.0) if x - left <= (right - left) / 2 else ("right", -3.0)


def onsets(axes: Axes, diagnoses: Sequence[Onset], named: bool = True) -> None:
    """A line at the onset of every fired diagnosis; several of a failure share its earliest."""
    earliest: dict[str, Onset] = {}
    for one in diagnoses:
        if one.verdict in FIRED and np.isfinite(one.onset):
            before = earliest.get(one.group)
            if before is None or one.onset < before.onset:
                earliest[one.group] = one
    for place, one in enumerate(sorted(earliest.values(), key=lambda one: one.onset)):
        color = FIRED[one.verdict]
        axes.axvline(one.onset, color=color, linewidth=1.0, linestyle=(0, (6, 2)) if one.verdict == "warning" else "-")
        if named:
            text = f"{one.group.replace('_', ' ')} ({one.verdict}), from {one.onset:g}"
            side, away = beside(axes, one.onset)
            label(axes, text, (one.onset, 0.99), (away, -8.5 * place), va="top", ha=side, color=color)
