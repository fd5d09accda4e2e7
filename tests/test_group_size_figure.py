"""The figure on the group size: its curves, differences and ratios are those of the tables."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from pictures import assert_printable, texts
from simulated import study
from simulated_groups import NONE, table, variants_of

from grpo_dynamics.figures import style
from grpo_dynamics.figures.group_size import RATIOS, REACH, curve, group_size

LABELS = {"llama": "Llama", "qwen2": "Qwen2"}


@pytest.fixture(scope="module")
def data():
    runs, variants = study(models=tuple(LABELS), seeds=(0, 1), steps=60), variants_of(tuple(LABELS), (0, 1), steps=60)
    return runs, variants, table(runs, variants)


def draw(runs, variants, found):
    with style.apply():
        return group_size(runs, variants, found, LABELS, 0.05, 0.05)


def test_a_curve_has_the_standard_error_over_seeds(data):
    cell = data[0].query("model == 'llama' and G == 4")
    found = curve(cell)
    rewards = [
        run["reward"].rolling(9, center=True, min_periods=5).mean().to_numpy() for _, run in cell.groupby("seed")
    ]
    np.testing.assert_allclose(found.mean, np.mean(rewards, axis=0))
    np.testing.assert_allclose(found.error, np.abs(rewards[0] - rewards[1]) / 2)
    assert (found.n, len(found.t)) == (2, 60)


def test_three_rows_with_both_comparisons(data, tmp_path):
    runs, variants, found = data
    figure = draw(*data)
    top, middle, bottom = (figure.axes[2 * i : 2 * i + 2] for i in range(3))
    llama = {G: curve(runs.query(f"model == 'llama' and G == {G}")).mean for G in (4, 16)}
    equal = curve(variants.query("model == 'llama'").drop(columns="variant")).mean
    for line, expected in zip(top[0].lines, (llama[4], llama[16], equal), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), expected)
    differences = {line.get_label(): line.get_ydata() for line in middle[0].lines}
    np.testing.assert_allclose(differences["equal completions"], llama[16] - llama[4])
    np.testing.assert_allclose(differences["equal prompts"], llama[16] - equal)
    margin = middle[0].patches[0].get_extents().transformed(middle[0].transData.inverted())
    assert (margin.y0, margin.y1) == pytest.approx((-0.05, 0.05))
    row = found.set_index(["model", "comparison", "quantity"]).loc[("llama", "equal prompts", "variance")]
    y = list(RATIOS).index("variance") + 0.17
    points = [line for line in bottom[0].lines if line.get_marker() == "o" and np.allclose(line.get_ydata(), y)]
    np.testing.assert_allclose([line.get_xdata()[0] for line in points], row["effect"] / row["expected"])
    assert "differences within +-0.05" in texts(figure)
    assert "Runs per cell: 2." in texts(figure)
    assert "no noise: less what the sampling noise of the batches makes of it" in texts(figure)
    assert_printable(figure)
    style.save(figure, tmp_path / "group_size.pdf", tmp_path / "group_size.png")
    assert plt.imread(tmp_path / "group_size.png").shape[1] > 900


def test_bands_that_the_axis_cuts_are_said_to_be(data):
    figure = draw(*data)
    reach = figure.axes[2].get_ylim()[1]
    bands = [np.abs(band.get_paths()[0].vertices[:, 1]).max() for axes in figure.axes[2:4] for band in axes.collections]
    assert max(bands) > reach
    assert f"The middle axis ends at +-{reach:.2g}: wider bands are cut." in texts(figure)
    first = data[0][data[0]["seed"] == 0]
    runs = pd.concat([first, first.assign(seed=1)])  # the same run twice, so that bands have no width
    assert "wider bands are cut" not in texts(draw(runs, NONE, data[2]))
    plt.close("all")


def test_the_comparisons_keys_lie_above_the_panel(data):
    figure = draw(*data)
    figure.canvas.draw()
    legend = figure.axes[2].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["equal completions", "equal prompts"]
    assert legend.get_window_extent().y0 >= figure.axes[2].get_window_extent().y1 - 1
    plt.close("all")


def test_a_missing_point_is_explained(data):
    runs, variants, found = data
    found = found.assign(note="")
    gone = (found["model"] == "llama") & (found["comparison"] == "equal prompts")
    gone &= found["quantity"].isin(["half_rise", "half_rise_adam"])
    found.loc[gone, "effect"] = np.nan
    found.loc[gone, "note"] = "2 of 2 runs at G = 4 left out: plateau not identifiable"
    said = texts(draw(runs, variants, found))
    why = "half-rise; half-rise, Adam (2 of 2 runs at G = 4 left out: plateau not identifiable)."
    assert f"No point for Llama at equal prompts: {why}" in said
    found.loc[gone, "effect"] = 1.0
    assert f"Limited point for Llama at equal prompts: {why}" in texts(draw(runs, variants, found))
    plt.close("all")


def test_an_open_interval_ends_in_an_arrow(data):
    runs, variants, found = data
    found = found.assign(high=np.inf, low=found["low"].where(found["quantity"] != "variance", 0.0))
    lines = draw(runs, variants, found).axes[4].lines
    arrows = [(line.get_marker(), line.get_xdata()[0]) for line in lines if line.get_marker() in ("<", ">")]
    assert (">", REACH[1]) in arrows
    assert ("<", REACH[0]) in arrows
    plt.close("all")


def test_one_group_size_is_drawn_as_one_mean_per_model(data):
    runs = data[0].query("G == 4")
    figure = draw(runs, NONE, table(runs))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Llama", "Qwen2"]
    for axes, model in zip(figure.axes, LABELS, strict=True):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), curve(runs[runs["model"] == model]).mean)
    plt.close("all")


def test_one_seed_and_no_variant():
    runs = study(models=("llama",), seeds=(0,), steps=15)
    figure = draw(runs, NONE, table(runs))
    assert "one seed in a cell: drawn without intervals" in texts(figure)
    assert "equal prompts" not in texts(figure)
    plt.close("all")


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_no_difference_is_cropped(data, shift):
    runs, variants, found = data
    runs = runs.assign(reward=runs["reward"] - np.where(runs["G"] == 4, shift, 0.0))
    for axes in draw(runs, variants, found).axes[2:4]:
        low, high = axes.get_ylim()
        assert high == -low
        for line in axes.lines:
            assert low < min(line.get_ydata())
            assert max(line.get_ydata()) < high
    plt.close("all")
