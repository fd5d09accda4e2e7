"""The bandit's figures: what they draw is what the tables say, for a full sweep and for one setting of each."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import simulated_bandit
from pictures import assert_printable, texts

from grpo_dynamics.figures import style
from grpo_dynamics.figures.bandit import regime_map, threshold_ratio, trajectories
from grpo_dynamics.figures.bandit_finite_step import finite_step
from grpo_dynamics.figures.bandit_groups import drift, stationary_variance
from grpo_dynamics.figures.bandit_looks import octave_axis, ordered_palette, ratio_axis
from grpo_dynamics.theory.finite_group import STDS
from grpo_dynamics.theory.lag import SCHEDULES

DRAW = {
    "trajectories": (trajectories, simulated_bandit.trajectories, {"K_refs": (8,)}),
    "regime_map": (
        regime_map,
        simulated_bandit.thresholds,
        {"schedules": ("periodic",), "mus": (0.5,), "K_refs": (3,)},
    ),
    "threshold_ratio": (
        threshold_ratio,
        simulated_bandit.thresholds,
        {"schedules": ("periodic",), "mus": (0.5,), "K_refs": (1,)},
    ),
    "stationary_variance": (
        stationary_variance,
        simulated_bandit.stationary_variance,
        {"schedules": ("periodic",), "sizes": (4,)},
    ),
    "drift": (drift, simulated_bandit.drift, {"stds": ("unbiased",), "sizes": (4,), "shares": (0.3,)}),
    "finite_step": (finite_step, simulated_bandit.finite_step, {"mus": (0.5,), "K_refs": (1,), "shares": (0.9,)}),
}
PANELS = {
    "trajectories": (4, 1),
    "regime_map": (9, 1),
    "threshold_ratio": (6, 2),
    "stationary_variance": (9, 3),
    "drift": (4, 2),
    "finite_step": (9, 3),
}


@pytest.fixture(scope="module")
def full():
    return {make.__name__: make() for make in dict.fromkeys(make for _, make, _ in DRAW.values())}


@pytest.fixture
def styled():
    with style.apply():
        yield
    plt.close("all")


def lines(axes, color):
    """Lines of this colour, without markers, as (x, y)."""
    chosen = [line for line in axes.lines if line.get_color() == color and line.get_marker() in ("None", "", None)]
    return [np.array(line.get_data(), dtype=float) for line in chosen]


def points(axes):
    """Measured points with error bars: x, y, and the bars' ends, per container."""
    found = []
    for data, _, (bars,) in (container.lines for container in axes.containers):
        found.append((*np.array(data.get_data(), dtype=float), *np.array(bars.get_segments())[:, :, 1].T))
    return found


@pytest.mark.parametrize("name", DRAW)
@pytest.mark.parametrize("size", ["full", "one setting"])
def test_every_figure_is_drawn_and_saved(name, size, full, styled, tmp_path):
    draw, make, least = DRAW[name]
    figure = draw(full[make.__name__] if size == "full" else make(**least))
    assert sum(axes.get_visible() for axes in figure.axes) == PANELS[name][size != "full"]
    assert_printable(figure)
    style.save(figure, tmp_path / "figure.pdf", tmp_path / "figure.png")
    assert (tmp_path / "figure.pdf").stat().st_size > 5000
    image = plt.imread(tmp_path / "figure.png")
    assert image.shape[1] == style.PAGE * style.DPI and image.std() > 0.02


def test_trajectories_tell_both_regimes(full, styled):
    table = full["trajectories"]
    figure = trajectories(table)
    for axes, (K_ref, part) in zip(figure.axes, table.groupby("K_ref"), strict=True):
        simulated, predicted = (line.get_ydata() for line in axes.lines)
        np.testing.assert_array_equal(simulated, part["p"])
        np.testing.assert_array_equal(predicted, part["p_predicted"])
        measured, closed = part["regime"].iloc[0], part["regime_closed"].iloc[0]
        verdict = "law agrees" if measured == closed else f"law: {closed}"
        assert axes.get_title() == f"$K_{{ref}}$ = {K_ref}: {measured}\n({verdict})"
    assert {"law agrees", "law: unstable"} <= {axes.get_title().split("(")[1][:-1] for axes in figure.axes}
    assert len({axes.get_facecolor() for axes in figure.axes}) == 3  # a shade per regime
    assert r"fixed lag, $\mu$ = 0.5, $\eta$ = 0.225" in texts(figure)


def test_trajectories_say_where_the_law_leaves_the_axis(full, styled):
    table = full["trajectories"]
    figure = trajectories(table)
    bottom, top = figure.axes[0].get_ylim()
    law = table.groupby("K_ref")["p_predicted"].agg(["min", "max"])
    said = texts(figure)
    for K_ref, row in law.iterrows():
        beyond = row["min"] < bottom or row["max"] > top
        assert (f"$K_{{ref}}$ = {K_ref}: {row['min']:.2f} to {row['max']:.2f}" in said) == beyond
    assert ((law["min"] < bottom) | (law["max"] > top)).any()
    assert "The law leaves it" not in texts(trajectories(table[table["K_ref"] == 1]))


def test_regime_map_draws_thresholds_and_brackets(full, styled):
    table = full["thresholds"]
    figure = regime_map(table)
    part = table.query("schedule == 'periodic' and mu == 0.5")
    axes = figure.axes[1 * 3 + 1]
    for (x, y, low, high), kind in zip(points(axes), ("stability", "onset"), strict=True):
        np.testing.assert_array_equal(x, part["K_ref"])
        np.testing.assert_array_equal(y, part[f"a_{kind}_measured"])
        np.testing.assert_allclose(low, part[f"a_{kind}_low"])
        np.testing.assert_allclose(high, part[f"a_{kind}_high"])
    closed = lines(axes, style.PREDICTED)
    np.testing.assert_array_equal(closed[0][1], part["a_stability_closed"])
    np.testing.assert_array_equal(closed[1][1], part["a_onset_closed"])
    low, high = axes.get_ylim()
    here = table.query("mu == 0.5")
    assert low < here["a_onset_low"].min() and high > here["a_stability_high"].max()


@pytest.mark.parametrize(("row", "kind"), [(0, "stability"), (1, "onset")])
def test_threshold_ratio_divides_by_the_closed_form(full, styled, row, kind):
    table = full["thresholds"]
    figure = threshold_ratio(table)
    looks = ordered_palette(table["mu"])
    for column, schedule in enumerate(SCHEDULES):
        axes = figure.axes[3 * row + column]
        for (mu, look), (x, y, low, high) in zip(looks.items(), points(axes), strict=True):
            part = table[(table["schedule"] == schedule) & (table["mu"] == mu)]
            closed = part[f"a_{kind}_closed"]
            np.testing.assert_array_equal(x, part["K_ref"])
            np.testing.assert_allclose(y, part[f"a_{kind}_measured"] / closed)
            np.testing.assert_allclose(low, part[f"a_{kind}_low"] / closed)
            np.testing.assert_allclose(high, part[f"a_{kind}_high"] / closed)
            exact, at_age = lines(axes, look.color)
            np.testing.assert_allclose(exact[1], part[f"a_{kind}_exact"] / closed)
            if schedule == "fixed_lag":
                assert at_age.size == 0  # the mean age is K_ref: the same line as the solid one
            else:
                np.testing.assert_allclose(at_age[1], part[f"a_{kind}_exact"] / part[f"a_{kind}_closed_at_age"])
                assert np.isnan(at_age[1][0]) == (kind == "stability")  # on-policy at K_ref = 1
        low, high = axes.get_ylim()
        assert low < 1 < high
    assert "closed form cautious" in texts(figure) and "closed form optimistic" in texts(figure)


def test_stationary_variance_shows_ratios_to_the_exact_one(full, styled):
    table = full["stationary_variance"].copy()
    table.loc[0, ["variance", "low", "high"]] = [2.5e-4, 2e-4, 3e-4]  # misses the exact variance
    figure = stationary_variance(table)
    for column, schedule in enumerate(SCHEDULES):
        part = table[table["schedule"] == schedule]
        top, leading, measured = (figure.axes[3 * row + column] for row in range(3))
        ((x, y, low, high),) = points(top)
        np.testing.assert_array_equal(x, part["G"])
        np.testing.assert_array_equal(y, part["variance"])
        np.testing.assert_allclose(low, part["low"])
        np.testing.assert_allclose(
            leading.lines[0].get_ydata(), part["variance_leading_order"] / part["variance_exact"]
        )
        ((_, y, low, high),) = points(measured)
        np.testing.assert_allclose(y, part["variance"] / part["variance_exact"])
        np.testing.assert_allclose(high, part["high"] / part["variance_exact"])
        bottom, top_limit = measured.get_ylim()
        assert bottom < low.min() and top_limit > high.max()
    assert "20 of 21 intervals contain the exact variance" in texts(figure)
    assert "Student's t over 64 replicas of 4000 recorded steps each; all" in texts(figure)
    assert "hold together with 95 % (Sidak)" in texts(figure)


@pytest.mark.parametrize(("row", "quantity"), [(0, "drift"), (1, "noise")])
def test_drift_lies_on_its_exact_curve(full, styled, row, quantity):
    table = full["drift"]
    figure = drift(table)
    looks = ordered_palette(table["G"].astype(int))
    for column, std in enumerate(STDS):
        axes = figure.axes[2 * row + column]
        for (G, look), (x, y, low, high) in zip(looks.items(), points(axes), strict=True):
            part = table[(table["std"] == std) & (table["G"] == G)]
            np.testing.assert_array_equal(x, part["p"])
            np.testing.assert_array_equal(y, part[quantity])
            np.testing.assert_allclose(low, part[f"{quantity}_low"])
            np.testing.assert_allclose(high, part[f"{quantity}_high"])
            (curve,) = lines(axes, look.color)
            np.testing.assert_allclose(np.interp(x, *curve), part[f"{quantity}_exact"], atol=2e-3)
        limit = np.array(axes.lines[0].get_data())
        part = table[(table["std"] == std) & (table["G"] == 2)]
        np.testing.assert_allclose(np.interp(part["p"], *limit), part[f"{quantity}_leading_order"], atol=1e-4)
    assert "90 of 90 intervals contain the exact drift, 90 of 90 the exact noise" in texts(figure)
    assert "Student's t over 64 replicas of 10000 groups each; all" in texts(figure)


def test_finite_step_draws_relative_errors(full, styled):
    table = full["finite_step"]
    figure = finite_step(table)
    assert [axes.get_title() for axes in figure.axes[:3]] == [f"$K_{{ref}}$ = {K_ref}" for K_ref in (1, 4, 16)]
    part = table.query("mu == 0.5 and K_ref == 4")
    rate, frequency, distance = (figure.axes[3 * row + 1] for row in range(3))
    np.testing.assert_allclose(rate.lines[2].get_ydata(), part["rate_closed"] / part["rate_exact"] - 1)
    np.testing.assert_allclose(rate.lines[3].get_ydata(), part["rate_closed"] / part["rate_measured"] - 1)
    oscillating = part.query("frequency_closed > 0 and frequency_exact > 0 and frequency_measured > 0")
    assert 0 < len(oscillating) < len(part)
    np.testing.assert_allclose(frequency.lines[3].get_xdata(), oscillating["share"])
    np.testing.assert_allclose(
        frequency.lines[3].get_ydata(), oscillating["frequency_closed"] / oscillating["frequency_measured"] - 1
    )
    np.testing.assert_array_equal(distance.lines[1].get_ydata(), part["max_abs_difference"])
    assert "within 10 %" in texts(figure)


def test_finite_step_does_not_let_a_vanishing_rate_set_the_scale(styled):
    table = simulated_bandit.finite_step(mus=(0.5,), K_refs=(4,))
    table.loc[table.index[-1], "rate_measured"] = 1e-9
    low, high = finite_step(table).axes[0].get_ylim()
    assert -2 < low < 0 < high < 2


def test_axes_have_few_ticks(styled):
    _, axes = plt.subplots()
    octave_axis(axes, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4", "8", "16", "32", "64"]
    octave_axis(axes, [3.0])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["3"]
    for low, high in ((0.8, 1.7), (0.4, 45), (0.5, 1700)):
        ratio_axis(axes, low, high)
        assert axes.get_ylim() == (low, high)
        assert 3 <= sum(low <= tick <= high for tick in axes.get_yticks()) <= 8


def test_ordered_palette_differs_in_grey_and_in_markers():
    looks = ordered_palette([0.9, 0.0, 0.5, 0.5])
    assert list(looks) == [0.0, 0.5, 0.9]
    grey = [np.dot(look.color[:3], [0.299, 0.587, 0.114]) for look in looks.values()]
    assert np.all(np.diff(grey) > 0.15)
    assert len({look.marker for look in looks.values()}) == 3
