"""The fit of one's own run: known runs come back with intervals that cover, odd ones with a reason and no exception."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import CONFIG
from simulated_own import TRUTH, own_log, rewards

from grpo_dynamics.analysis import own_fit
from grpo_dynamics.analysis.calibration import simulate
from grpo_dynamics.analysis.fit_table import fit_series, identify
from grpo_dynamics.analysis.fits import fit
from grpo_dynamics.analysis.own_fit import fit_own
from grpo_dynamics.analysis.own_series import reward_series
from grpo_dynamics.analysis.profile import profile_interval
from grpo_dynamics.analysis.profile_band import allowed, ceiling, noise_along
from grpo_dynamics.runlog.log import Mapped
from grpo_dynamics.runlog.read import read
from grpo_dynamics.theory.law import phases, three_phase

OPTIONS = CONFIG["analysis"]


@pytest.fixture(scope="module")
def clean():
    return fit_own(own_log(rewards()), OPTIONS)


def test_a_clean_rise_is_identifiable_and_its_truth_is_covered(clean):
    assert clean.identifiable
    assert (clean.reason, clean.explanation) == ("", "")
    for name, value in TRUTH.items():
        assert clean.estimates[name].low <= value <= clean.estimates[name].high, name
    true = phases(TRUTH["w0"], TRUTH["zeta"])
    for name, value in zip(("slow_start_end", "inflection", "plateau_start"), true, strict=True):
        time = clean.times["plateau_start" if name == "rapid_rise_end" else name]
        assert time.low <= value <= time.high, name
    assert clean.covered == pytest.approx(1.0, abs=0.02)


def test_numbers_are_those_of_the_study_s_own_table(clean):
    """The same series through `fit_table.fit_series`: R^2, AICc, F-tests and profile intervals agree."""
    rows = {row["curve"]: row for row in fit_series(clean.series.last, clean.series.y, OPTIONS | {"fit_replicates": 4})}
    for one in clean.curves:
        row = rows[one.name]
        found = [one.r2, one.aicc, one.r2_forecast]
        assert found == pytest.approx([float(row[key]) for key in ("r2", "aicc", "r2_forecast")]), one.name
        assert one.parameters["R_inf"] == pytest.approx(row["R_inf"])
    law = next(one for one in clean.curves if one.name == "law")
    assert (law.f_p, law.f_p_effective) == (rows["law"]["f_p"], rows["law"]["f_p_effective"])
    assert clean.estimates["zeta"].low == rows["law"]["zeta_low"]


def test_akaike_weights(clean):
    aicc = np.array([one.aicc for one in clean.curves])
    weight = np.array([one.weight for one in clean.curves])
    assert np.all(np.diff(aicc) >= 0)
    assert weight.sum() == pytest.approx(1)
    best = fit(clean.curves[0].name, clean.series.last, clean.series.y)
    assert clean.independent == pytest.approx(best.n_effective / 150)
    np.testing.assert_allclose(np.log(weight[0] / weight), (aicc - aicc[0]) / 2 * best.n_effective / 150, atol=1e-9)


def sigmoid(middle=150, steps=400, completions=256):
    """Flat, a sigmoid, and flat again: no law has so long a slow start and so sharp an end."""
    p = 0.1 + 0.6 / (1 + np.exp(-(np.arange(float(steps)) - middle) / 12))
    return np.random.default_rng(3).binomial(completions, p) / completions


@pytest.mark.parametrize("middle", [150, 360])  # the law alone would say: a plateau, and none yet
def test_a_run_of_another_shape_rejects_the_law_and_gets_no_plateau_and_no_forecast(middle):
    found = fit_own(own_log(sigmoid(middle)), OPTIONS)
    assert (found.identifiable, found.reason) == (False, "law does not fit")
    best = found.curves[0]
    assert best.name != "law"
    assert f"the rival curve {best.name} describes the rows far better" in found.explanation
    assert (found.band, found.times) == (None, {})
    assert np.isnan(found.covered)
    assert all(np.isnan(one.low) for one in found.estimates.values())


def test_an_advantage_that_autocorrelation_explains_does_not_reject_the_law(clean, monkeypatch):
    """The threshold is on the advantage times the share of independent rows."""
    advantage = next(one.aicc for one in clean.curves if one.name == "law") - clean.curves[0].aicc
    monkeypatch.setattr(own_fit, "MOST_AICC", advantage * clean.independent + 1e-9)
    assert fit_own(own_log(rewards()), OPTIONS).identifiable
    monkeypatch.setattr(own_fit, "MOST_AICC", advantage * clean.independent - 1e-9)
    assert fit_own(own_log(rewards()), OPTIONS).reason == "law does not fit"


def test_the_band_ends_are_the_profile_s():
    """At step 0 the law is R_0, and long after the run R_inf: there the band is their profile interval."""
    y = rewards(steps=200)
    law = fit("law", np.arange(200.0), y)
    gradient = np.array([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    limit = ceiling(law, *noise_along(law, gradient), 0.95)
    low, high = allowed(law, limit.max()).curve(np.array([0.0, 1e5]), limit)
    for at, name in enumerate(("R_0", "R_inf")):
        assert (low[at], high[at]) == pytest.approx(profile_interval(law, name, 0.95), abs=2e-3), name


def test_the_band_is_the_extreme_over_all_allowed_laws():
    """No law with an allowed sum of squares leaves the band, and some come near its edge (a random search)."""
    t = np.arange(60.0)
    y = rewards(steps=60, w0=0.04)
    law = fit("law", t, y)
    limit = law.sse * 1.08
    at = np.array([30.0, 59.0, 120.0])
    low, high = allowed(law, limit).curve(at, np.full(3, limit))
    rng = np.random.default_rng(0)
    n = 40000
    w0, zeta = law.estimates["w0"] * np.exp(rng.normal(0, 0.5, n)), np.exp(rng.uniform(np.log(0.3), np.log(8), n))
    R_0, R_inf = law.estimates["R_0"] + rng.normal(0, 0.02, n), np.minimum(rng.uniform(0.3, 1.1, n), 1)
    drawn = [x[:, None] for x in (np.maximum(R_0, 0), R_inf, w0, zeta)]
    inside = np.sum((y - three_phase(t, *drawn)) ** 2, axis=1) <= limit
    seen = three_phase(at, *drawn)[inside]
    assert len(seen) > 200
    assert np.all(seen >= low - 0.004)
    assert np.all(seen <= high + 0.004)
    np.testing.assert_allclose([seen.min(axis=0)[1], seen.max(axis=0)[1]], [low[1], high[1]], atol=0.02)


@pytest.mark.parametrize("scenario", ["large_groups", "no_plateau"])
def test_the_forecast_covers_the_truth_and_the_next_rows(scenario, monkeypatch):
    """On runs with the noise of real ones: of 12 bands of 95 % at least 9 hold the law (P = 0.998 at one time)."""
    monkeypatch.setattr(own_fit, "CURVES", ("law", "exponential"))  # the others cost time alone
    truth, inside, rows = CONFIG["calibration"]["scenarios"][scenario], [], []
    for seed in range(12):
        t, y = simulate(np.random.default_rng([seed, 2]), truth, 400, 0.25)
        band = fit_own(own_log(y[:200]), OPTIONS).band
        true = three_phase(band.t, truth["R_0"], truth["R_inf"], truth["w0"], truth["zeta"])
        inside.append(((band.low <= true) & (true <= band.high))[[60, 90, 120]])  # at the end, 1.5 and 2 lengths
        low, high = np.interp(t, band.t, band.row_low), np.interp(t, band.t, band.row_high)
        rows.append(((low <= y) & (y <= high))[200:].mean())
    assert np.all(np.sum(inside, axis=0) >= 9)
    assert 0.88 <= np.mean(rows) <= 0.99


def test_a_run_far_from_its_plateau_says_so():
    found = fit_own(own_log(rewards(w0=0.01, seed=2)), OPTIONS)
    assert not found.identifiable
    assert found.reason == "plateau not reached"
    assert (
        found.explanation
        == f"The plateau is not reached: only {100 * found.covered:.0f} % of the fitted way is covered."
    )
    end = found.band.high[-1] - found.band.low[-1]
    assert end > 5 * (found.band.high[60] - found.band.low[60])  # nobody knows where it goes
    assert found.times["plateau_start"].high > 150


def test_laws_that_leave_the_range_are_none_of_the_band_s():
    """This law swings to 1.03 after the run: the forecast is that of the laws that stay below 1."""
    found = fit_own(own_log(rewards(200, R_0=0.1, R_inf=0.6, w0=0.01, zeta=0.05)), OPTIONS)
    assert found.reason == "plateau not reached"
    assert found.curve("law", found.band.t).max() > 1
    band = found.band
    for one in (band.mean, band.low, band.high, band.row_low, band.row_high):
        assert np.all((one >= 0) & (one <= 1))
    assert np.all((band.low <= band.mean) & (band.mean <= band.high))
    assert np.all((band.row_low <= band.low) & (band.high <= band.row_high))
    assert band.high[-1] - band.low[-1] > 0.1
    assert any("leaves the reward's range within the run or as long again" in note for note in found.notes)


def test_laws_within_the_range_are_the_extremes_over_a_random_search():
    """Of many laws, those with an allowed sum of squares that stay in [0, 1] fill the band and do not leave it."""
    t = np.arange(60.0)
    law = fit("law", t, rewards(60, w0=0.05, zeta=0.5, R_inf=0.85, completions=32))
    limit = law.sse * 1.1
    at = np.array([30.0, 59.0, 120.0])
    low, high = allowed(law, limit, 120.0).curve(at, np.full(3, limit))
    assert high[2] <= 1 < allowed(law, limit).curve(np.array([85.0]), np.array([limit]))[1][0]
    rng = np.random.default_rng(0)
    n = 100000
    w0, zeta = law.estimates["w0"] * np.exp(rng.normal(0, 0.3, n)), np.exp(rng.uniform(np.log(0.05), np.log(3), n))
    R_0, R_inf = law.estimates["R_0"] + rng.normal(0, 0.02, n), rng.uniform(0.4, 1.0, n)
    drawn = [x[:, None] for x in (np.maximum(R_0, 0), R_inf, w0, zeta)]
    inside = np.sum((law.problem.y - three_phase(t, *drawn)) ** 2, axis=1) <= limit
    drawn = [x[inside] for x in drawn]
    path = three_phase(np.arange(121.0), *drawn)
    seen = three_phase(at, *drawn)[(path.max(axis=1) <= 1) & (path.min(axis=1) >= 0)]
    assert len(seen) > 100
    assert np.all((seen >= low - 0.004) & (seen <= high + 0.004))
    np.testing.assert_allclose([seen.min(axis=0), seen.max(axis=0)], [low, high], atol=0.06)


def test_a_falling_reward_says_so():
    found = fit_own(own_log(rewards(R_0=0.8, R_inf=0.2)), OPTIONS)
    assert found.reason == "reward falls"
    assert "falls, from 0.8" in found.explanation
    assert found.band is not None


def test_no_trend_says_so_and_has_no_times():
    found = fit_own(own_log(rewards(R_0=0.4, R_inf=0.4)), OPTIONS)
    assert found.reason == "no trend"
    assert found.times == {}


def test_constant_rewards_are_not_fitted():
    found = fit_own(own_log(np.full(50, 0.25)), OPTIONS)
    assert (found.reason, found.curves, found.band) == ("no trend", (), None)
    assert "0.25 in each of 50 rows" in found.explanation


@pytest.mark.parametrize("n", range(20))
def test_few_rewards_give_curves_at_most_and_never_an_interval(n):
    found = fit_own(own_log(rewards(steps=n)), OPTIONS)
    assert found.reason == "too short"
    assert str(n) in found.explanation
    assert "20" in found.explanation
    assert found.band is None
    assert bool(found.curves) == (n >= own_fit.FEWEST)
    assert all(np.isnan(one.low) and np.isnan(one.high) for one in found.estimates.values())


def test_rows_that_average_are_fitted_as_averages():
    """Ten steps in a row, logged at the last: the curve of the single steps comes back, in steps."""
    y = three_phase(np.arange(400.0), **TRUTH).reshape(-1, 10).mean(axis=1)
    step = np.arange(10.0, 401.0, 10.0)
    found = fit_own(own_log(y, step, t=step - 5.5), OPTIONS)
    assert np.all(found.series.width == 10)
    for name, value in TRUTH.items():
        assert found.estimates[name].value == pytest.approx(value, rel=1e-3), name
    np.testing.assert_allclose(found.band.mean, three_phase(found.band.t, **TRUTH), atol=1e-3)
    assert "average up to 10 steps" in found.notes[0]


def test_averages_of_a_first_row_with_fewer_steps():
    """HF logs step 1 alone and then every fifth: widths follow from t, and overlapping ones are cut."""
    step = np.array([1.0, 5, 10, 15])
    series = reward_series(own_log([0.1, 0.2, 0.3, 0.4], step, t=step - np.array([1.0, 3, 3, 3])))
    assert series.width.tolist() == [1, 4, 5, 5]


def test_steps_need_be_neither_whole_nor_regular_and_rewards_may_lack():
    rng = np.random.default_rng(1)
    step = np.sort(rng.uniform(1, 200, 90))
    y = three_phase(step - 1, **TRUTH)
    y[[3, 40, 89]] = np.nan
    found = fit_own(own_log(y, step), OPTIONS)
    assert found.estimates["R_inf"].value == pytest.approx(0.8, rel=1e-3)
    assert found.estimates["w0"].value == pytest.approx(0.1, rel=1e-2)
    assert "3 of 90 rows have no reward" in found.notes[0]


def test_reused_batches_are_left_out():
    y = rewards(steps=100)
    found = fit_own(own_log(np.repeat(y, 2), sample_age=np.tile([0.0, 1.0], 100)), OPTIONS)
    np.testing.assert_array_equal(found.series.y, y)


def test_another_range_of_the_reward_is_the_same_fit_stretched(clean):
    stretched = fit_own(own_log(4 * rewards() - 1, reward_range=(-1.0, 3.0)), OPTIONS)
    for end in ("value", "low", "high"):
        unit = getattr(clean.estimates["R_inf"], end)
        assert getattr(stretched.estimates["R_inf"], end) == pytest.approx(4 * unit - 1, abs=1e-3)
        unit = getattr(clean.times["plateau_start"], end)
        assert getattr(stretched.times["plateau_start"], end) == pytest.approx(unit, rel=1e-2)


def test_an_unknown_range_does_not_end_the_plateau_at_the_largest_reward():
    """The range of the rewards seen would hold R_inf down in a run that still rises."""
    y = 7 * three_phase(np.arange(80.0), 0.1, 0.9, 0.03, 1.5)
    found = fit_own(own_log(y, reward_range=(float(y.min()), float(y.max()))), OPTIONS)
    assert found.estimates["R_inf"].value == pytest.approx(6.3, rel=0.01)
    assert any("range is not known" in note for note in found.notes)


def test_a_log_that_begins_late_counts_from_its_first_row():
    y = rewards()
    late = fit_own(own_log(y, np.arange(5001.0, 5151)), OPTIONS)
    own = fit_own(own_log(y), OPTIONS)
    assert late.estimates["w0"] == own.estimates["w0"]
    assert late.times["plateau_start"].value == pytest.approx(own.times["plateau_start"].value + 5000)
    np.testing.assert_allclose(late.curve("law", [5050.0]), own.curve("law", [50.0]))
    assert any("begins 5000 steps after" in note for note in late.notes)


def test_rows_without_steps_are_counted_and_said(tmp_path):
    (tmp_path / "log.csv").write_text("\n".join(["reward", *map(str, rewards())]))
    found = fit_own(read(tmp_path / "log.csv")[0], OPTIONS)
    assert found.time_unit == "row"
    assert fit_own(own_log(rewards(steps=5), axis="optimiser steps, 1 per row"), OPTIONS).time_unit == "step"
    assert any("times count its rows" in note for note in found.notes)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (np.linspace(1e-6, 0, 150), "eta falls within the run, from 1e-06 to 6.71e-09"),  # the last is 0
        (np.minimum(np.linspace(1e-8, 2e-6, 150), 1e-6), ""),  # a warm-up alone
        (np.full(150, 1e-6), ""),
    ],
)
def test_a_decaying_learning_rate_is_said(rates, said):
    notes = [note for note in fit_own(own_log(rewards(), learning_rate=rates), OPTIONS).notes if "eta" in note]
    assert len(notes) == bool(said)
    assert all(note.startswith(said) for note in notes)


def test_a_plateau_whose_interval_is_wider_than_the_rise_is_none():
    """A rise of 0.06, to a plateau that may be anything from there to above 0.5."""
    y = rewards(60, seed=3, R_0=0.02, R_inf=0.07, w0=1 / 6, zeta=2)
    found = fit_own(own_log(y), OPTIONS)
    R_inf = found.estimates["R_inf"]
    assert R_inf.high - R_inf.low > R_inf.value - found.estimates["R_0"].value
    assert identify(found.series.last, found.series.y, OPTIONS)[3] == ""
    assert found.reason == "plateau not reached"
    assert "the run allows any between" in found.explanation


@pytest.mark.parametrize(("stated", "unit"), [({"K_ref": 4.0}, "rollout"), ({}, "rollout"), ({"K_ref": 1.0}, "step")])
def test_verl_s_steps_are_rollouts(stated, unit):
    log = replace(own_log(rewards(steps=7), settings=stated), mapping=(Mapped("reward", "critic/score/mean"),))
    found = fit_own(log, OPTIONS)
    assert found.time_unit == unit
    assert any("times count rollouts" in note for note in found.notes) == (unit == "rollout")


def test_held_out_rewards_come_along():
    heldout = np.full(150, np.nan)
    heldout[9::10] = 0.5
    found = fit_own(own_log(rewards(), heldout_reward=heldout), OPTIONS)
    np.testing.assert_array_equal(found.heldout[0], np.arange(10.0, 151, 10))


@settings(max_examples=25, deadline=None)
@given(
    y=st.lists(st.one_of(st.just(float("nan")), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0])), max_size=30),
    spacing=st.floats(0.01, 1e4),
)
def test_any_rewards_give_an_answer(y, spacing):
    step = 1 + spacing * np.arange(len(y))
    finite = [value for value in y if np.isfinite(value)] or [0.0]
    log = own_log(y, step, reward_range=(min(finite), max(finite)))
    found = fit_own(replace(log), OPTIONS | {"min_points": 10})
    assert found.identifiable == (found.reason == "")
    assert bool(found.explanation) == bool(found.reason)
    for one in found.estimates.values():
        assert not one.low > one.value + 1e-6 * abs(one.value)
        assert not one.high < one.value - 1e-6 * abs(one.value)
