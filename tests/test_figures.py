"""Figures: what they draw is what the tables say, for a full study and for one model with one seed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from pictures import assert_printable, texts
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


def test_every_figure_of_a_full_study(full, tmp_path):
    with style.apply():
        figures = draw(full)
        assert len(figures["reward_curves"].axes) == 4
        assert len(figures["transfer"].axes) == 2
        shown = full["diagnostics"].query("verdict != 'not assessable' and group not in ('kl', 'truncation')")
        assert len(figures["diagnostics"].axes) == shown["diagnostic"].nunique() >= 9
        for name, figure in figures.items():
            assert_printable(figure)
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
    flow = full["fits"].query("model == 'llama' and G == 4 and series == 'mean' and curve == 'flow_ceiling'")["r2"]
    assert f"flow below a ceiling {flow.iloc[0]:.3f}" in texts(figure)
    assert "Runs per cell: 2. Thin lines: single runs as logged; thick: their mean" in texts(figure)
    assert "fitted to the mean over runs;" in texts(figure)
    plt.close(figure)


def test_reward_curves_say_that_a_single_run_is_no_mean(small):
    with style.apply():
        figure = reward_curves(small["runs"], small["fits"], LABELS)
    assert "Runs per cell: 1. Thin lines: single runs as logged. Nothing is smoothed" in texts(figure)
    assert "fitted to the one run;" in texts(figure)
    plt.close(figure)


def test_transfer_draws_the_gains_by_distance(full):
    with style.apply():
        figure = transfer(full["gains"], full["summary"], LABELS, 0.05)
    points = figure.axes[0].containers[0].lines[0].get_xdata(orig=False)
    expected = full["gains"].query("model == 'llama' and G == 4").sort_values("distance")["gain"]
    np.testing.assert_allclose(points, expected)
    assert "Runs per model and G: 2; problems per benchmark: 20." in texts(figure)
    plt.close(figure)


def test_benchmarks_have_their_names_in_print(full):
    assert style.benchmark_name("ladder_other_operations") == "other operations"
    assert style.benchmark_name("math500") == "MATH-500"
    with style.apply():
        figure = transfer(full["gains"], full["summary"], LABELS, 0.05)
    named = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    order = full["gains"].drop_duplicates("benchmark").sort_values("distance")
    assert named == [f"{style.benchmark_name(row.benchmark)}  ({row.distance})" for row in order.itertuples()]
    plt.close(figure)


def test_firing_runs_are_marked(full):
    table = full["diagnostics"].copy()
    table.loc[table["diagnostic"] == "rate_ratio", ["value", "low", "high", "verdict"]] = [3.0, 2.5, 3.5, "warning"]
    with style.apply():
        figure = diagnostics(table, LABELS, 0.05)
    assert sum(line.get_marker() == "X" for line in figure.axes[0].lines) == 8
    assert sum(line.get_marker() == "X" for line in figure.axes[1].lines) == 0
    plt.close(figure)


def test_diagnostics_say_what_is_left_out_and_what_is_spared(full):
    table = full["diagnostics"].copy()
    assessable = table["verdict"] != "not assessable"
    drawn = assessable & ~table["group"].isin(["kl", "truncation"])
    lone = table["diagnostic"] == "signal_share"
    table.loc[lone, ["value", "low", "high", "warning"]] = [0.5, 0.4, 0.6, 0.3]
    first = lone & (table["G"] == 4) & (table["model"] == "llama")
    table.loc[first, ["value", "low", "high"]] = [0.1, 0.05, 0.2]
    table.loc[first, "reason"] = "there was a signal (0.5 over steps 1 to 60), which was learned"
    table.loc[table["diagnostic"] == "rate_ratio", "verdict"] = "not assessable"
    with style.apply():
        figure = diagnostics(table, LABELS, 0.05)
    said = texts(figure)
    assert f"0 of {int((drawn & (table['diagnostic'] != 'rate_ratio')).sum())} assessable numbers fire" in said
    assert "groups with signal, 2 runs: there was a signal, which was learned." in said
    assert "Left out: the symptoms KL and truncated completions" in said
    assert "not assessable in any run: saturation rate, train / held-out" in said
    assert "n/a" not in said
    plt.close(figure)


def test_diagnostics_explain_a_mark_where_one_run_has_no_number(full):
    table = full["diagnostics"].copy()
    missing = (table["diagnostic"] == "reward_fall") & (table["seed"] == 0) & (table["G"] == 4)
    table.loc[missing, "verdict"] = "not assessable"
    with style.apply():
        figure = diagnostics(table, LABELS, 0.05)
    (axes,) = (axes for axes in figure.axes if axes.get_xlabel().startswith("train reward"))
    assert [text.get_text() for text in axes.texts] == ["n/a", "n/a"]
    assert "n/a: not assessable" in texts(figure)
    plt.close(figure)


def test_a_line_per_run_in_the_order_of_models_sizes_and_seeds(full):
    with style.apply():
        figure = diagnostics(full["diagnostics"], LABELS, 0.05)
    (axes,) = (axes for axes in figure.axes if axes.get_xlabel().startswith("train reward"))
    points = [line for line in axes.lines if len(line.get_xdata()) == 1]
    rows = full["diagnostics"].query("diagnostic == 'reward_fall'")
    rows = rows.sort_values(["model", "G", "seed"])
    found = sorted((line.get_ydata()[0], line.get_xdata()[0]) for line in points)
    np.testing.assert_allclose([x for _, x in found], rows["value"])
    np.testing.assert_allclose([y for y, _ in found], [0, 1, 2.8, 3.8, 5.6, 6.6, 8.4, 9.4])
    names = [tick.get_text() for tick in axes.figure.axes[0].get_yticklabels()]
    assert names == ["Llama\nG = 4", "Llama\nG = 16", "Qwen2\nG = 4", "Qwen2\nG = 16"]
    plt.close(figure)


def test_a_fit_at_the_bound_is_marked_beside_the_axis_end_and_counted(full):
    fits = full["fits"].copy()
    law = (fits["curve"] == "law") & (fits["variant"] == "study")
    fits.loc[law, ["zeta", "at_bound"]] = [1.5, ""]
    stuck = law & (fits["model"] == "llama") & (fits["G"] == 4)
    fits.loc[stuck, ["zeta", "at_bound"]] = [50.0, "w0 zeta"]
    with style.apply():
        figure = damping(fits, LABELS, 0.05)
    axes = figure.axes[0]
    crosses = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == 3 and min(crosses) > 50  # two runs and their mean
    estimates = [line.get_xdata()[0] for line in axes.lines if line.get_marker() in ("o", "s")]
    assert estimates == [1.5] * 9
    assert "no estimate of it: 3 of 12 fits" in texts(figure)
    assert_printable(figure)
    plt.close(figure)


def test_a_note_is_broken_at_the_figure_s_width():
    with style.apply():
        figure = plt.figure(figsize=(3, 2))
        style.note(figure, "first line\n" + "word " * 40)
    lines = figure._supxlabel.get_text().split("\n")
    assert lines[0] == "first line" and len(lines) > 3
    assert max(map(len, lines)) <= 66
    plt.close(figure)


def test_counts_and_spans_in_words():
    assert [style.plural(1, "run"), style.plural(3, "run")] == ["1 run", "3 runs"]
    assert [style.span([4, 4]), style.span([3, 4, 2])] == ["4", "2 to 4"]


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
    assert_printable(figure)
    plt.close(figure)


def test_calibration_says_how_many_intervals_are_open():
    study = CONFIG["calibration"] | {"replicas": 2, "bootstrap_replicas": 2, "steps": 150}
    study["scenarios"] = {name: CONFIG["calibration"]["scenarios"][name] for name in ("independent", "overdamped")}
    found = calibrate(OPTIONS | {"fit_replicates": 100}, study, seed=0)
    found = found.assign(accepted=True, open_share=0.0)
    found.loc[found["parameter"] == "zeta", "open_share"] = [0.25, 0.25, 0.75, 0.75]
    with style.apply():
        figure = calibration(found, (0.92, 0.98))
        assert r"Of the intervals of $\zeta$, 25 to 75 %, by scenario and method, are open at one end" in texts(figure)
        assert "open at one end" not in texts(calibration(found.assign(open_share=0.0), (0.92, 0.98)))
    plt.close("all")
