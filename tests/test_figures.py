"""Figures: what they draw is what the tables say, for a full study and for one model with one seed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from simulated import CONFIG, OPTIONS, THRESHOLDS, evaluations, study
from simulated_groups import NONE, table

from grpo_dynamics.analysis.calibration import calibrate
from grpo_dynamics.analysis.diagnosis import diagnose
from grpo_dynamics.analysis.fit_table import fit_runs
from grpo_dynamics.analysis.series import with_variants
from grpo_dynamics.analysis.transfer import transfer as analyse_transfer
from grpo_dynamics.figures import style
from grpo_dynamics.figures.calibration import calibration
from grpo_dynamics.figures.damping import damping
from grpo_dynamics.figures.diagnostics import diagnostics
from grpo_dynamics.figures.group_size import group_size
from grpo_dynamics.figures.reward_curves import reward_curves
from grpo_dynamics.figures.transfer import transfer

LABELS = {"llama": "Llama", "qwen2": "Qwen2"}


def _study(models, seeds, steps):
    runs = study(models=models, seeds=seeds, steps=steps)
    fits = fit_runs(with_variants(runs, NONE), OPTIONS | {"fit_replicates": 100}, seed=0)
    accuracies, items = evaluations(models=models, seeds=seeds, items=20)
    gains, summary = analyse_transfer(accuracies, items, OPTIONS, 1)
    return {
        "runs": runs, "fits": fits, "comparison": table(runs, fits=fits), "gains": gains, "summary": summary,
        "diagnostics": diagnose(runs, OPTIONS, THRESHOLDS),
    }  # fmt: skip


@pytest.fixture(scope="module")
def full():
    return _study(("llama", "qwen2"), (0, 1), 100)


@pytest.fixture(scope="module")
def small():
    return _study(("llama",), (0,), 15)


def draw(data):
    return {
        "reward_curves": reward_curves(data["runs"], data["fits"], LABELS),
        "group_size": group_size(data["runs"], NONE, data["comparison"], LABELS, 0.05, 0.05),
        "transfer": transfer(data["gains"], data["summary"], LABELS, 0.05),
        "diagnostics": diagnostics(data["diagnostics"], LABELS, 0.05),
        "damping": damping(data["fits"], LABELS, 0.05),
    }


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(plt.Text))


def test_every_figure_of_a_full_study(full, tmp_path):
    with style.apply():
        figures = draw(full)
        assert len(figures["reward_curves"].axes) == 4
        assert len(figures["transfer"].axes) == 2
        shown = full["diagnostics"].query("verdict != 'not assessable' and group not in ('kl', 'truncation')")
        assert len(figures["diagnostics"].axes) == shown["diagnostic"].nunique() >= 9
        for name, figure in figures.items():
            style.save(figure, tmp_path / f"{name}.pdf", tmp_path / f"{name}.png")
            image = plt.imread(tmp_path / f"{name}.png")
            assert image.shape[1] > 900  # 200 dpi at print width
            assert image.std() > 0.02
    assert not list(tmp_path.glob(".*.part"))


def test_one_seed_and_few_steps_are_drawn_without_intervals_and_say_so(small):
    with style.apply():
        figures = draw(small)
        assert "one seed in a cell: drawn without intervals" in texts(figures["group_size"])
        assert "problems alone (one seed)" in texts(figures["transfer"])
        assert "not fitted: too short" in texts(figures["reward_curves"])
        assert "not fitted: too short" in texts(figures["damping"])
        plt.close("all")


def test_reward_curves_draw_the_raw_series_and_print_the_raw_r2(full):
    with style.apply():
        figure = reward_curves(full["runs"], full["fits"], LABELS)
    run = full["runs"].query("model == 'llama' and G == 4 and seed == 0")
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), run["reward"])
    r2 = full["fits"].query("model == 'llama' and G == 4 and series == 'mean' and curve == 'law'")["r2"].iloc[0]
    assert f"{r2:.3f}" in texts(figure)
    plt.close(figure)


def test_transfer_draws_the_gains_by_distance(full):
    with style.apply():
        figure = transfer(full["gains"], full["summary"], LABELS, 0.05)
    points = figure.axes[0].containers[0].lines[0].get_xdata(orig=False)
    expected = full["gains"].query("model == 'llama' and G == 4").sort_values("distance")["gain"]
    np.testing.assert_allclose(points, expected)
    plt.close(figure)


def test_firing_runs_are_marked(full):
    table = full["diagnostics"].copy()
    table.loc[table["diagnostic"] == "rate_ratio", ["value", "low", "high", "verdict"]] = [3.0, 2.5, 3.5, "warning"]
    with style.apply():
        figure = diagnostics(table, LABELS, 0.05)
    assert sum(line.get_marker() == "X" for line in figure.axes[0].lines) == 8
    assert sum(line.get_marker() == "X" for line in figure.axes[1].lines) == 0
    plt.close(figure)


def test_looks_differ_in_more_than_colour():
    looks = style.model_palette([f"model {i}" for i in range(6)]).values()
    assert len({look.color for look in looks}) == 6
    assert len({look.marker for look in looks}) == 6
    sizes = style.g_palette([16, 4])
    assert sizes == style.g_palette([4, 16])
    assert sizes[4].linestyle != sizes[16].linestyle


def test_style_is_restored():
    before = plt.rcParams["font.size"]
    with style.apply():
        assert plt.rcParams["pdf.fonttype"] == 42
    assert plt.rcParams["font.size"] == before


def test_calibration_draws_the_coverages():
    study = CONFIG["calibration"] | {"replicas": 6, "bootstrap_replicas": 2, "steps": 150}
    study["scenarios"] = {name: CONFIG["calibration"]["scenarios"][name] for name in ("independent", "no_trend")}
    found = calibrate(OPTIONS | {"fit_replicates": 100}, study, seed=0)
    with style.apply():
        figure = calibration(found, (0.92, 0.98))
    assert len(figure.axes) == 4
    rows = found.query("parameter == 'zeta' and method == 'profile' and scenario == 'independent'")
    drawn = figure.axes[3].containers[0].lines[0].get_xdata(orig=False)
    np.testing.assert_allclose(drawn, rows["coverage"].astype(float))
    assert "independent" in texts(figure)
    plt.close(figure)
