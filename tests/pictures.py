"""What every figure must be on the printed page."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axis import Tick

from grpo_dynamics.figures import style

SMALLEST = 5.5  # points


def texts(figure) -> str:
    """All texts of a figure, without their line breaks."""
    return " ".join(" ".join(text.get_text() for text in figure.findobj(plt.Text)).split())


def assert_printable(figure) -> None:
    """No wider than the page, no text smaller than the smallest size, and none that the edge cuts."""
    assert figure.get_figwidth() <= style.PAGE
    figure.canvas.draw()
    edge = figure.bbox.padded(1)
    ticks = {id(label) for tick in figure.findobj(Tick) for label in (tick.label1, tick.label2)}
    for text in figure.findobj(plt.Text):
        if not text.get_visible() or not text.get_text().strip():
            continue
        assert text.get_fontsize() >= SMALLEST, text.get_text()
        if id(text) in ticks:
            continue  # that of a tick beyond the axis' limits is not drawn
        box = text.get_window_extent()
        assert edge.containsx(box.x0) and edge.containsx(box.x1), text.get_text()
        assert edge.containsy(box.y0) and edge.containsy(box.y1), text.get_text()
