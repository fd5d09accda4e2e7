"""The look that all figures share: print sizes, colours, markers and dashes, and saving.

A model and a group size look the same in every figure. No meaning rests on colour alone: models also differ in
marker, group sizes in dashes and in whether a marker is filled.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from grpo_dynamics.files import replacing

PAGE = 7.2  # inches, the full page width
DPI = 200
NOTE_DENSITY = 22  # characters of a note per inch

# Okabe and Ito's palette (as seaborn's "colorblind" orders it), without the yellow that vanishes on white.
_COLORS = sns.color_palette("colorblind").as_hex()
COLORS = [color for index, color in enumerate(_COLORS) if index != 8]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">"]
NEUTRAL = "#555555"
GRID = "#d9d9d9"

# Roles used across figures.
MEASURED = "#000000"
PREDICTED = COLORS[3]
RAW_ALPHA = 0.35

_RC = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#333333",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "errorbar.capsize": 2,
    "pdf.fonttype": 42,  # embeds TrueType outlines, so that text stays text
    "ps.fonttype": 42,
    "savefig.dpi": DPI,
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": matplotlib.cycler(color=COLORS),
}


@dataclass(frozen=True)
class Look:
    """Colour and marker of a model, or dashes and marker fill of a group size."""

    color: str
    marker: str
    linestyle: str | tuple


@contextmanager
def apply() -> Iterator[None]:
    """Use the study's style inside a `with` block; matplotlib's settings are restored afterwards."""
    with sns.axes_style("whitegrid"), sns.plotting_context("paper"), plt.rc_context(_RC):
        yield


def model_palette(models: Sequence[str]) -> dict[str, Look]:
    """One look per model, by the model's place in `models` (pass the config's order in every figure)."""
    return {
        model: Look(COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)], "-")
        for index, model in enumerate(models)
    }


_DASHES: list[str | tuple] = [(0, (4, 1.5)), "-", (0, (1, 1)), (0, (5, 1, 1, 1))]
_G_COLORS = ["#cc78bc", "#332288", "#56b4e9", "#949494"]  # none of them a model's


def g_palette(group_sizes: Sequence[int]) -> dict[int, Look]:
    """One look per group size, by rank: the smallest dashed and pink, the next solid and indigo, and so on."""
    return {
        int(size): Look(_G_COLORS[index % len(_G_COLORS)], MARKERS[index % len(MARKERS)], _DASHES[index % len(_DASHES)])
        for index, size in enumerate(sorted(group_sizes))
    }


def save(figure: Figure, pdf: str | Path, png: str | Path) -> None:
    """Write `figure` as PDF (fonts embedded) and PNG (200 dpi) and close it.

    Each file is written under a temporary name and renamed, so that a half-written figure never exists. The PDF
    carries no date, so that equal figures are equal files.
    """
    for path in (Path(pdf), Path(png)):
        kind = path.suffix.lstrip(".")
        metadata = {"CreationDate": None} if kind == "pdf" else None
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata)
    plt.close(figure)


def note(figure: Figure, text: str) -> None:
    """Write a small note below the figure, at the left, its lines broken at the figure's width; nothing for no text."""
    if text:
        width = int(NOTE_DENSITY * figure.get_figwidth())
        lines = [part for line in text.splitlines() for part in textwrap.wrap(line, width)]
        figure.supxlabel("\n".join(lines), fontsize=6, color=NEUTRAL, x=0.01, ha="left")


def plural(count: int, thing: str) -> str:
    """`count` and the name of the thing, as "1 run" or "3 runs"."""
    return f"{count} {thing}" + ("" if count == 1 else "s")


def span(values: Collection[float]) -> str:
    """The one value that all of `values` are, or "smallest to largest"."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


_BENCHMARKS = {
    "gsm8k": "GSM8K",
    "gsm_plus": "GSM-Plus",
    "asdiv": "ASDiv",
    "svamp": "SVAMP",
    "math500": "MATH-500",
    "amc23": "AMC-23",
    "olympiadbench": "OlympiadBench",
    "aime2025": "AIME-2025",
    "aime2026": "AIME-2026",
}


def benchmark_name(name: str) -> str:
    """Printed name of a benchmark: its own, or that of the ladder's task in words."""
    return _BENCHMARKS.get(name, name.removeprefix("ladder_").replace("_", " "))
