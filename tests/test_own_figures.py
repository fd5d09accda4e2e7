"""Figures of one's own run: what has to be in them is in them, for runs of every kind."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from simulated import CONFIG
from simulated_own import own_log, rewards

from grpo_dynamics.analysis.own_band import Estimate, span
from grpo_dynamics.analysis.own_fit import fit_own
from grpo_dynamics.analysis.own_predict import predict
from grpo_dynamics.figures.own_looks import onsets
from grpo_dynamics.figures.own_run import diagnosis_figure, fit_figure, prediction_figure
from grpo_dynamics.runlog.log import Mapped

OPTIONS = CONFIG["analysis"] | {"fit_replicates": 20}


@dataclass
class Found:
    group: str
    verdict: str
    onset: float


FOUND = [
    Found("instability", "critical", 80.0),
    Found("instability", "warning", 60.0),
    Found("non_finite", "warning", 100.0),
    Found("kl", "ok", 20.0),
    Found("truncation", "critical", float("nan")),
]


@pytest.fixture(autouse=True)
def closed():
    """A warning of the layout is an error, and no figure stays open."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    plt.close("all")


def texts(figure):
    figure.canvas.draw()
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    found += [figure.get_supxlabel(), *(text.get_text() for legend in figure.legends for text in legend.get_texts())]
    return "\n".join(found)


def lines(axes, label):
    return next(line for line in axes.lines if line.get_label() == label)


def test_fit_figure_shows_raw_rows_band_plateau_phases_and_onsets():
    y, heldout = rewards(), np.full(150, np.nan)
    heldout[9::10] = 0.5
    log = own_log(y, heldout_reward=heldout)
    found = fit_own(log, OPTIONS)
    figure = fit_figure(log, found, FOUND)
    axes, said = figure.axes[0], texts(figure)
    raw = lines(axes, "rewards, raw")
    np.testing.assert_array_equal(raw.get_ydata(), y)
    assert raw.get_linestyle() == "None"
    assert lines(axes, "held out, raw").get_xdata()[0] == 10
    np.testing.assert_allclose(lines(axes, "three-phase law").get_ydata(), found.band.mean)
    assert axes.get_xlim() == pytest.approx((0, 2 * 149))
    for part in ("the law, 95 %", "a row, 95 %", "forecast", "single exponential", "profile", "nothing is smoothed"):
        assert part in said, part
    assert f"$R_\\infty$ = {span(found.estimates['R_inf'])}" in said
    assert f"95 % of the way: {span(found.times['plateau_start'])}" in said
    assert "instability (warning), from 60" in said  # the earliest of its group
    assert "non finite (warning), from 100" in said
    assert "truncation" not in said  # no onset
    assert "kl" not in said  # did not fire


@pytest.mark.parametrize(
    ("y", "part"),
    [
        (rewards(w0=0.01), "The plateau is not reached"),
        (rewards(R_0=0.8, R_inf=0.2), "The reward falls"),
        (rewards(R_0=0.4, R_inf=0.4), "no trend"),
        (rewards(steps=7), "7 points are few"),
        (np.full(40, 0.5), "no rise to fit"),
        (np.full(3, np.nan), "Rows with a reward: 0."),
    ],
)
def test_fit_figure_says_what_cannot_be_read_and_shows_no_plateau(y, part):
    log = own_log(y)
    said = texts(fit_figure(log, fit_own(log, OPTIONS)))
    assert part in said.replace("\n", " ")
    assert "R_\\infty" not in said


def outside(figure):
    """Texts in the axes that leave them at the left or the right."""
    figure.canvas.draw()
    found = []
    for axes in figure.axes:
        frame = axes.get_window_extent()
        for text in axes.texts:
            box = text.get_window_extent()
            if box.x0 < frame.x0 - 2 or box.x1 > frame.x1 + 2:
                found.append(text.get_text())
    return found


@pytest.mark.parametrize("at", [5.0, 75.0, 148.0])
def test_labels_stay_within_their_axes(at):
    log = own_log(rewards(), entropy=np.ones(150))
    found = [Found("concentration", "critical", at)]
    assert outside(diagnosis_figure(log, found)) == []
    fitted = fit_own(log, OPTIONS)
    late = Estimate(2 * at, at / 2, 4609.0)  # an interval and a mark beyond the axis's end
    for time in (late, Estimate(1e4, 100.0, float("inf")), Estimate(0.004, 0.0, float("inf"))):
        times = dict.fromkeys(fitted.times, time)
        assert outside(fit_figure(log, replace(fitted, times=times), found)) == []


def test_no_data_lie_where_the_phases_are_labelled():
    """Held-out rewards below all others too: every label of a phase is lower than every reward."""
    heldout = np.full(150, np.nan)
    heldout[9::10] = 0.01
    log = own_log(rewards(), heldout_reward=heldout)
    figure = fit_figure(log, fit_own(log, OPTIONS))
    figure.canvas.draw()
    axes = figure.axes[0]
    lowest = axes.transData.transform((0, 0.01))[1]
    labels = [text for text in axes.texts if "R_" not in text.get_text()]
    assert len(labels) == 3
    assert all(text.get_window_extent().y1 < lowest - 3 for text in labels)
    assert min(axes.get_yticks()) >= 0  # no tick of the reward's axis in their strip


def test_the_axes_name_the_steps_of_verl_rollouts():
    log = replace(own_log(rewards()), mapping=(Mapped("reward", "critic/score/mean"),))
    assert fit_figure(log, fit_own(log, OPTIONS)).axes[0].get_xlabel() == "rollout steps made"
    assert diagnosis_figure(log, ()).axes[0].get_xlabel() == "rollout step"
    known = replace(log, settings={"K_ref": 4.0, "eta": 1e-6, "mu": 0.9})
    assert prediction_figure(predict(OPTIONS, known)).axes[0].get_xlabel() == "optimiser steps made"
    unknown = replace(log, settings={"eta": 1e-6, "mu": 0.9})
    assert prediction_figure(predict(OPTIONS, unknown)).axes[0].get_xlabel() == "rollout steps made"


def test_the_law_is_drawn_within_the_reward_s_range():
    """The fitted one swings to 1.03 after the run."""
    log = own_log(rewards(200, R_0=0.1, R_inf=0.6, w0=0.01, zeta=0.05))
    axes = fit_figure(log, fit_own(log, OPTIONS)).axes[0]
    assert lines(axes, "three-phase law").get_ydata().max() <= 1


def test_a_rejected_law_is_drawn_without_band_plateau_and_forecast():
    p = 0.1 + 0.6 / (1 + np.exp(-(np.arange(400.0) - 150) / 12))
    log = own_log(np.random.default_rng(3).binomial(256, p) / 256)
    figure = fit_figure(log, fit_own(log, OPTIONS))
    said = texts(figure)
    assert "The law does not fit" in said
    assert all(part not in said for part in ("the law, 95 %", "a row, 95 %", "\nforecast"))
    assert "R_\\infty" not in said
    assert figure.axes[0].get_xlim()[1] < 450


def test_the_note_claims_no_interval_that_is_not_there():
    log = own_log(rewards(steps=7))
    assert "95 %" not in texts(fit_figure(log, fit_own(log, OPTIONS)))


def test_diagnosis_figure_has_the_log_s_panels_and_no_others():
    norm = np.where(np.arange(150) == 70, np.nan, 1.0)
    log = own_log(
        rewards(), entropy=np.linspace(1, 0.5, 150), grad_norm=norm, ratio_max=np.ones(150),
        non_finite=np.where(np.arange(150) == 70, "grad_norm", ""),
    )  # fmt: skip
    figure = diagnosis_figure(log, FOUND)
    said = texts(figure)
    shown = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert shown == ["reward", "entropy, nats per token", "gradient norm"]  # ratios of 1 are no series
    assert "Red ticks: rows with a NaN" in said
    for axes in figure.axes[:3]:
        at = sorted({float(line.get_xdata()[0]) for line in axes.lines if list(line.get_ydata()) == [0, 1]})
        assert at == [60.0, 100.0]
    assert figure.axes[2].get_yscale() == "log"


def test_onsets_differ_in_more_than_colour():
    axes = plt.figure().add_subplot()
    onsets(axes, [Found("a", "warning", 1.0), Found("b", "critical", 2.0)])
    dashed, solid = (line.get_linestyle() for line in axes.lines)
    assert (dashed, solid) == ("--", "-")


def test_prediction_figure_shows_where_a_stands():
    log = own_log(rewards(), learning_rate=np.full(150, 1e-3), G=8, settings={"mu": 0.9, "K_ref": 1})
    found = predict(OPTIONS, log, eta=2e-3)
    figure = prediction_figure(found)
    left, right = figure.axes
    said = texts(figure)
    assert len([line for line in left.lines if line.get_label().startswith("eta =")]) == 2
    names = [label.get_text() for label in right.get_yticklabels()]
    assert names[:3] == ["closed form", "exact, fixed lag", "exact, batch reused"]
    a = next(line for line in right.lines if line.get_label().startswith("a = "))
    assert a.get_xdata()[0] == pytest.approx(found.a.value)
    # Bars of a schedule: monotone, oscillating and unstable meet at its thresholds.
    ends = [bar.get_x() + bar.get_width() for bar in right.patches[:2]]
    assert ends == pytest.approx([found.reaches[0].onset_a, found.reaches[0].stability_a])
    assert "bootstrap interval of K" in said.replace("\n", " ")


def test_prediction_figure_without_K_still_shows_the_thresholds():
    log = own_log(rewards(w0=0.01), learning_rate=np.full(150, 1e-3))
    figure = prediction_figure(predict(OPTIONS, log))
    said = texts(figure)
    assert "K cannot be read from this run" in said
    assert figure.axes[0].get_title(loc="left") == "no prediction: K is not known"
    assert not any(line.get_label().startswith("a = ") for line in figure.axes[1].lines)
    assert "0.1" in said


def test_numbers_with_and_without_an_span():
    assert span(Estimate(0.93581, 0.91977, 0.953)) == "0.936 [0.92, 0.953]"
    assert span(Estimate(5067.3, 5058.2, float("inf"))) == "5067 [5058, ∞]"
    assert span(Estimate(0.2)) == "0.2"
