"""Findings as one self-contained page, with their plots."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from grpo_dynamics.analysis.pages import render
from grpo_dynamics.figures.own_run import diagnosis_figure, fit_figure, prediction_figure
from grpo_dynamics.reports.findings import NAMES, Findings, onset, verdict, worst
from grpo_dynamics.reports.terminal import LOOKS, SCHEDULES, number, span

TEMPLATE = Path(__file__).parent / "page.html.j2"


def _embedded(figure: Figure) -> str:
    """A figure as an SVG in a data URI, which keeps the names of its parts apart from those of the others."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def write_page(found: Findings, path: Path) -> None:
    """Write the findings as an HTML page, in one step.

    Parameters
    ----------
    found : Findings
    path : Path
        The page; what was there is replaced.
    """
    diagnoses = found.diagnoses or ()
    figures = []
    if found.fit:
        figures.append(("Reward and fit", _embedded(fit_figure(found.log, found.fit, diagnoses))))
    if diagnoses:
        figures.append(("What the diagnoses rest on", _embedded(diagnosis_figure(found.log, diagnoses))))
    if found.forecast:
        figures.append(("Prediction", _embedded(prediction_figure(found.forecast))))
    render(
        TEMPLATE,
        path,
        found=found,
        figures=figures,
        verdict=verdict(found.log, diagnoses) if diagnoses else "",
        worst=worst(diagnoses),
        looks=LOOKS,
        names=NAMES,
        onset=onset,
        number=number,
        span=span,
        schedules=SCHEDULES,
    )
