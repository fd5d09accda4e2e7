"""Findings as one self-contained page with their plots, and the plots as files of their own."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from grpo_dynamics.analysis.own_band import number, span
from grpo_dynamics.analysis.own_reach import SCHEDULES
from grpo_dynamics.analysis.pages import render
from grpo_dynamics.command import InputError
from grpo_dynamics.figures import style
from grpo_dynamics.figures.own_run import diagnosis_figure, fit_figure, prediction_figure
from grpo_dynamics.files import replacing
from grpo_dynamics.reports import findings
from grpo_dynamics.reports.terminal import ABOUT, LOOKS

TEMPLATE = Path(__file__).parent / "page.html.j2"
KINDS = ("png", "pdf", "svg")  # of a plot's file


def _embedded(figure: Figure) -> str:
    """A figure as an SVG in a data URI, which keeps the names of its parts apart from those of the others."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def drawn(found: findings.Findings) -> dict[str, Figure]:
    """The findings' plots by name, as far as they were asked for: fit, diagnosis, forecast."""
    diagnoses = found.diagnoses or ()
    figures = {}
    if found.fit:
        figures["fit"] = fit_figure(found.log, found.fit, diagnoses)
    if diagnoses:
        figures["diagnosis"] = diagnosis_figure(found.log, diagnoses)
    if found.forecast:
        figures["forecast"] = prediction_figure(found.forecast)
    return figures


def write_plot(found: findings.Findings, path: Path) -> None:
    """Write the plot of the findings' first part as a picture, in one step.

    Parameters
    ----------
    found : Findings
        With a fit, diagnoses or a forecast.
    path : Path
        Ends in .png, .pdf or .svg.

    Raises
    ------
    InputError
        If it ends in something else, or no file can be written there.
    """
    kind = path.suffix.lower().lstrip(".")
    if kind not in KINDS:
        raise InputError(f"--plot: found {path}, expected a name that ends in {', '.join(f'.{one}' for one in KINDS)}")
    first, *others = drawn(found).values()
    try:
        with replacing(path) as temporary:
            first.savefig(temporary, format=kind, dpi=style.DPI)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'error').lower()}, expected a file to write") from error
    for figure in (first, *others):
        plt.close(figure)


def write_page(found: findings.Findings, path: Path) -> None:
    """Write the findings as an HTML page, in one step.

    Parameters
    ----------
    found : Findings
    path : Path
        The page; what was there is replaced, and folders that are missing are made.

    Raises
    ------
    InputError
        If no file can be written there.
    """
    figures = {name: _embedded(figure) for name, figure in drawn(found).items()}
    if path.is_dir():
        raise InputError(f"{path}: found a folder, expected a file to write")
    try:
        render(
            TEMPLATE, path, found=found, figures=figures, looks=LOOKS, about=ABOUT, schedules=SCHEDULES,
            number=number, span=span, worst=findings.worst(found.diagnoses or ()),
            **{name: getattr(findings, name) for name in
               ("NAMES", "cause", "largest", "limits", "onset", "outlook", "readable", "regime", "standing", "verdict",
                "weighting")},
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'error').lower()}, expected a file to write") from error
