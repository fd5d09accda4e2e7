"""Predictions without a fit: nearly perfect of runs that the theory itself made, of which the naive curve is not."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import assert_printable
from scipy import stats
from scipy.special import expit
from simulated import CONFIG, run_log

from grpo_dynamics.analysis import prediction_scores
from grpo_dynamics.analysis.predict import Law, at_group_size, calibrate, curve, parameters, spread
from grpo_dynamics.analysis.prediction_table import predictions
from grpo_dynamics.analysis.tables_predictions import PREDICTORS, RUN_PREDICTIONS
from grpo_dynamics.bandit.model import Bandit
from grpo_dynamics.figures import style
from grpo_dynamics.figures.predictions import predictions as draw
from grpo_dynamics.tables import RUN_LOG, VARIANT_LOG, check, read, write
from grpo_dynamics.theory import oscillator, rivals
from grpo_dynamics.theory.law import three_phase

ETA, K, MU, STEPS = 3e-4, 5.0, 0.9, 240
OPTIONS = {"mu": MU, "K_ref": 1, "alpha": 0.05, "seed": 7} | CONFIG["run_predictions"] | {"replicates": 200}


def law(eta: float = ETA, p_star: float = 0.85) -> Law:
    return Law(eta * K, MU, 1, 0.25, p_star)


def log(G: int, seed: int, eta: float, steps: int = STEPS, p_star: float = 0.85) -> pd.DataFrame:
    """A run whose rewards are means of 600 completions around the theory's trajectory at `eta`."""
    rng = np.random.default_rng([seed, G, int(eta * 1e7)])
    reward = rng.binomial(600, law(eta, p_star).reward(np.arange(steps))) / 600
    return check(run_log("llama", G, seed, steps=steps).assign(reward=reward, learning_rate=eta), RUN_LOG)


def fit_row(runs: pd.DataFrame, variant: str, G: int, eta: float, reason: str = "") -> list[dict]:
    """Rows of FITS as a perfect fit of the law, and a flow, would give them."""
    base = {"variant": variant, "model": "llama", "G": G, "series": "mean", "R_0": 0.25, "r2": 0.99, "reason": reason}
    shape = law(eta).shape()
    base |= {"r2_attainable": 0.9 + G * eta}
    own = base | {"curve": "law", "R_inf": 0.85, "w0": shape["w0"], "zeta": shape["zeta"]}
    return [own, base | {"curve": "flow", "R_inf": 0.9, "beta": 1.1, "k": 0.05}]


def study(etas=(0.5, 2.0), sizes=(4, 16), seeds=(0, 1, 2), steps=STEPS, reason="") -> tuple[pd.DataFrame, ...]:
    runs = pd.concat([log(G, seed, ETA, steps) for G in sizes for seed in seeds], ignore_index=True)
    names = {0.5: "eta_half", 2.0: "eta_double"}
    parts = [
        log(G, seed, ETA * x, steps).assign(variant=names[x]) for x in etas for G in sizes for seed in seeds
    ]  # fmt: skip
    variants = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(VARIANT_LOG.columns))
    cells = [("study", 1.0), *((names[x], x) for x in etas)]
    fits = [row for name, x in cells for G in sizes for row in fit_row(runs, name, G, ETA * x, reason)]
    return runs, check(variants, VARIANT_LOG), pd.DataFrame(fits)


@pytest.fixture(scope="module")
def full():
    tables = study()
    return tables, predictions(*tables, OPTIONS)


def test_calibration_recovers_what_the_theory_made_exactly():
    t = np.arange(STEPS, dtype=float)
    for a in (5e-4, 1.5e-3, 5e-3, 4e-2):  # over- and underdamped
        found = calibrate(t, Law(a, MU, 1, 0.25, 0.85).reward(t), MU, 1)
        assert (found.a, found.R_0, found.p_star) == pytest.approx((a, 0.25, 0.85), rel=1e-4)


def test_a_law_is_the_oscillator_of_its_hyperparameters():
    """theory.md section 1 at a = 0.0015, mu = 0.9, K_ref = 1: M = 0.95075, C = 0.0985."""
    found = law()
    assert found.shape()["zeta"] == pytest.approx(0.0985 / (2 * np.sqrt(0.95075 * 0.0015)))
    assert found.shape()["w0"] == pytest.approx(np.sqrt(0.0015 / 0.95075))
    # The onset of oscillation at mu = 0.9, K_ref = 1 is a = 0.0025.
    regimes = [Law(a, MU, 1, 0.25, 0.85).shape()["regime"] for a in (0.00249, 0.00251, 0.2)]
    assert regimes == ["overdamped", "underdamped", "unstable"]


def test_levels_stay_in_the_reward_s_range():
    t = np.arange(60, dtype=float)  # a rise that goes on beyond the series
    found = calibrate(t, np.clip(0.01 + 0.016 * t, 0, 1), MU, 1)
    assert 0 <= found.R_0 <= found.p_star <= 1


def test_intervals_of_K_and_p_star_cover_what_made_the_runs():
    """Of 8 studies with independent noise, intervals of 95 % hold the truth in 6 or more with P = 0.994."""
    t, inside = np.arange(150, dtype=float), np.zeros(2)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        runs = rng.binomial(100, law().reward(t), (3, len(t))) / 100
        found = calibrate(t, runs.mean(axis=0), MU, 1)
        known = spread(t, runs, found, 60, None, 0.05, rng)
        inside += known["a_low"] <= ETA * K <= known["a_high"], known["p_star_low"] <= 0.85 <= known["p_star_high"]
        assert known["a_run_low"] <= found.a <= known["a_run_high"]
    assert np.all(inside >= 6)
    assert known["a_high"] < 1.3 * known["a_low"]


def test_the_bandit_moves_to_another_group_size_as_its_exact_drift_says():
    """K and p* of the bandit at G = 16 give those at G = 4 exactly, since it is the process of the rule."""
    small, large = (Bandit(1.0, 0.2, G, "unbiased") for G in (4, 16))
    found = Law(0.01 * large.stiffness(), MU, 1, 0.2, float(expit(large.fixed_point())))
    moved = at_group_size(found, 16, 4)
    assert moved.p_star == pytest.approx(float(expit(small.fixed_point())))
    assert moved.a / 0.01 == pytest.approx(small.stiffness())
    assert at_group_size(found, 16, 16).a == pytest.approx(found.a)
    with pytest.raises(ValueError, match=r"finite_group: found R_0 = 0.2 and p\* = 1, expected 0 < R_0 < p\* < 1"):
        at_group_size(Law(0.01, MU, 1, 0.2, 1.0), 16, 4)


@given(st.floats(0.2, 5.0))
def test_predictors_differ_in_what_eta_does(ratio):
    law_fit, flow_fit = map(pd.Series, fit_row(None, "study", 16, ETA))
    rows = {name: parameters(name, law(), law_fit, flow_fit, ratio, 16, 16) for name in PREDICTORS}
    t = np.arange(100.0)
    shape = Law(ratio * ETA * K, MU, 1, 0.25, 0.85).shape()
    np.testing.assert_allclose(
        curve(rows["closed_form"], t), three_phase(t, 0.25, 0.85, shape["w0"], shape["zeta"]), rtol=1e-12
    )
    assert rows["finite_group"] == rows["closed_form"]  # at the calibration cell's own G
    np.testing.assert_allclose(curve(rows["overdamped"], t), curve(rows["naive"], ratio * t), atol=1e-9)
    np.testing.assert_allclose(curve(rows["flow"], t), rivals.flow(ratio * t, 0.25, 1.1, 0.05), atol=1e-9)


def test_on_runs_of_the_theory_the_closed_form_is_nearly_perfect_and_naive_loses(full):
    _, table = full
    assert len(table) == 6 * len(PREDICTORS)
    closed = table[table["predictor"] == "closed_form"].set_index(["variant", "G"])
    assert (closed["r2"] > 0.98).all()
    assert (table["r2_ceiling"] == 0.99).all()
    np.testing.assert_allclose(table["r2_attainable"], 0.9 + table["G"] * table["eta"])  # of each cell's own fit
    assert closed["changed"].to_dict() == {
        ("study", 16): "neither", ("study", 4): "G", ("eta_half", 4): "eta and G", ("eta_half", 16): "eta",
        ("eta_double", 4): "eta and G", ("eta_double", 16): "eta",
    }  # fmt: skip
    calibration = closed.loc[("study", 16)]
    assert calibration["sample"] == "calibration"
    assert calibration["K_low"] < K < calibration["K_high"]
    assert calibration["K"] == pytest.approx(K, rel=0.05)
    np.testing.assert_allclose(closed["a"], closed["K"] * closed["eta"])
    # Half of the way is that from the calibrated R_0 to p*.
    half = curve(calibration, np.array([calibration["half_rise_predicted"]]))[0]
    assert half == pytest.approx((calibration["R_0"] + calibration["p_star"]) / 2, abs=1e-4)
    moved = closed[closed["changed"].isin(["eta", "eta and G"])]
    assert (moved["gain_low"] > 0).all()
    assert (moved["runs_better"] == 3).all()
    assert moved["log_ratio"].abs().max() < 0.1
    assert (moved["log_ratio_low"] < moved["log_ratio"]).all()
    naive = table[(table["predictor"] == "naive") & (table["variant"] != "study")]
    assert (naive["r2"] < 0.9).all()
    assert naive["gain"].isna().all()
    assert (closed.loc["study", "gain"].abs().dropna() < 0.01).all()  # another G alone changes no trajectory
    # Sure of an effect of G that is not there, the finite-group rule loses where G differs.
    finite = table[(table["predictor"] == "finite_group") & (table["G"] == 4)]
    assert (finite["gain_high"] < 0).any()


def test_intervals_of_the_gain_hold_together_over_the_targets(full):
    """That of one of five targets at 95 % is the one of a lone target at 99 %."""
    runs, variants, fits = full[0]
    some = runs[runs["G"] == 16], variants[(variants["G"] == 16) & (variants["variant"] == "eta_half")], fits
    alone = predictions(*some, OPTIONS | {"alpha": 0.01})
    at = "predictor == 'closed_form' and variant == 'eta_half' and G == 16"
    ends = ["gain", "gain_low", "gain_high"]
    np.testing.assert_allclose(alone.query(at)[ends], full[1].query(at)[ends])


def test_the_table_survives_writing(full, tmp_path):
    write(full[1], tmp_path / "predictions.csv", RUN_PREDICTIONS)
    again = read(tmp_path / "predictions.csv", RUN_PREDICTIONS)
    np.testing.assert_allclose(again["r2"], full[1]["r2"])


def test_calibration_cell_is_chosen_by_the_config(full):
    table = predictions(*full[0], OPTIONS | {"calibration_G": "smallest"})
    assert set(table["calibration_G"]) == {4}


def test_one_group_size_one_seed_and_no_variants_leave_the_calibration_alone():
    table = predictions(*study(etas=(), sizes=(4,), seeds=(0,), steps=24), OPTIONS)
    assert len(table) == len(PREDICTORS)
    assert set(table["sample"]) == {"calibration"}
    assert table["end_low"].isna().all()
    assert table["note"].str.contains("one run: no interval over seeds").all()


@pytest.mark.parametrize("reason", ["too short", "no trend"])
def test_what_cannot_be_calibrated_says_why(reason):
    table = predictions(*study(etas=(2.0,), seeds=(0,), steps=24, reason=reason), OPTIONS)
    assert len(table) == 4 * len(PREDICTORS)
    assert table[["K", "p_star", "r2", "gain"]].isna().all(axis=None)
    assert set(table["note"]) == {f"not calibrated: {reason}"}


def test_a_plateau_that_is_not_reached_is_noted_and_predicted(full):
    runs, variants, fits = full[0]
    table = predictions(runs, variants[:0], fits.assign(reason="plateau not reached"), OPTIONS)
    assert table["note"].str.startswith("calibration cell: plateau not reached").all()
    assert np.isfinite(table["r2"]).all()


def test_input_that_does_not_fit_is_named(full):
    runs, variants, fits = full[0]
    with pytest.raises(ValueError, match="fits: found no row of the curve flow on the mean of study, llama, G = 16"):
        predictions(runs, variants, fits[fits["curve"] == "law"], OPTIONS)
    mixed = runs.assign(learning_rate=np.where(runs["step"] > 5, 1e-4, ETA))
    with pytest.raises(ValueError, match="learning_rate: found 2 values in study, llama, G = 4, expected one eta"):
        predictions(mixed, variants, fits, OPTIONS)


def test_blocks_are_consecutive_and_draw_every_step_equally_often():
    steps = prediction_scores.resampled(12, 4, 20_000, np.random.default_rng(0))
    assert steps.shape == (20_000, 12)
    blocks = steps.reshape(-1, 3, 4)
    assert set(np.unique(np.diff(blocks, axis=2) % 12)) == {1}
    assert np.bincount(steps.ravel()) == pytest.approx(np.full(12, 20_000), rel=0.05)
    assert prediction_scores.block_length(240) == 7  # 6.2 rounded up
    assert prediction_scores.block_length(240, 10) == 10


def test_interval_of_the_gain_is_that_of_its_mean_over_independent_steps():
    """With blocks of 1 the standard error of a sum of n errors is sqrt(n) times their standard deviation."""
    rng = np.random.default_rng(1)
    t = np.arange(400.0)
    y = rng.normal(0.5, 0.1, (1, 400))
    a, b = np.full(400, 0.45), np.full(400, 0.57)
    steps = prediction_scores.resampled(400, 1, 4000, rng)
    found = prediction_scores.scores(t, y, a, b, steps, 0.05, 0.05)
    total = np.sum((y[0] - y[0].mean()) ** 2)
    d = ((y[0] - b) ** 2 - (y[0] - a) ** 2) / total
    assert found["gain"] == pytest.approx(d.sum())
    half = 1.96 * np.sqrt(400) * d.std()
    assert (found["gain_low"], found["gain_high"]) == pytest.approx((d.sum() - half, d.sum() + half), abs=0.1 * half)
    assert found["r2"] == pytest.approx(1 - np.sum((y[0] - a) ** 2) / total)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y[0] - a) ** 2)))


def test_time_to_half_rise_and_its_jackknife():
    t = np.arange(100.0)
    runs = np.stack([(t + shift) / 100 for shift in (0, 3, 9)])
    found = prediction_scores.half_rise(t, runs, 23.0, 0.5, 1, 0.05)
    assert found["half_rise_measured"] == pytest.approx(46.0)
    others = np.log([44.0, 45.5, 48.5])  # the means without a run reach 0.5 there
    error = np.sqrt(2 / 3 * np.sum((others - others.mean()) ** 2))
    half = stats.t.ppf(0.975, 2) * error
    assert found["log_ratio"] == pytest.approx(np.log(0.5))
    assert found["log_ratio_high"] - found["log_ratio"] == pytest.approx(half)
    never = prediction_scores.half_rise(t, runs, 23.0, 2.0, 1, 0.05)
    assert np.isnan(list(never.values())).all()
    assert np.isnan(prediction_scores.half_rise(t, runs[:1], 23.0, 0.5, 1, 0.05)["log_ratio_low"])


def test_running_mean():
    y = np.arange(6.0) ** 2
    expected = pd.Series(y).rolling(3, center=True, min_periods=1).mean()
    np.testing.assert_allclose(prediction_scores.smoothed(y, 3), expected)
    np.testing.assert_allclose(prediction_scores.smoothed(np.stack([y, 2 * y]), 1), [y, 2 * y])


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(plt.Text)]


def test_figure_shows_every_target_learning_rates_first(full, tmp_path):
    runs, variants, _ = full[0]
    with style.apply():
        figure = draw(runs, variants, full[1], {"llama": "Llama"})
        found = [text for text in texts(figure) if text.startswith("Llama, ")]
        assert [title.split("\n")[0] for title in found] == [
            r"Llama, G = 4, $\eta\times$0.5", r"Llama, G = 16, $\eta\times$0.5", r"Llama, G = 4, $\eta\times$2",
            r"Llama, G = 16, $\eta\times$2", "Llama, G = 4",
        ]  # fmt: skip
        row = full[1].query("predictor == 'closed_form' and variant == 'eta_half' and G == 4").iloc[0]
        axes = figure.axes[0]
        assert f"closed form {row['r2']:.2f}" in " ".join(text.get_text() for text in axes.texts)
        line = next(line for line in axes.lines if line.get_label() == "closed form")
        np.testing.assert_allclose(line.get_ydata(), curve(row, line.get_xdata()))
        runs_of = variants.query("variant == 'eta_half' and G == 4")["seed"].nunique()
        assert found[0].endswith(f"prompts, {runs_of} runs")
        assert_printable(figure)
        assert axes.texts[0].get_window_extent().y0 >= axes.get_window_extent().y1  # covers no point
        style.save(figure, tmp_path / "p.pdf", tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_figure_without_targets_or_predictions_says_so():
    lone = study(etas=(), sizes=(4,), seeds=(0,), steps=24)
    unfit = study(etas=(2.0,), seeds=(0,), steps=24, reason="too short")
    with style.apply():
        assert "no runs at another eta or G" in texts(draw(*lone[:2], predictions(*lone, OPTIONS), {"llama": "L"}))
        found = " ".join(texts(draw(*unfit[:2], predictions(*unfit, OPTIONS), {"llama": "L"})))
    assert "closed form none" in found
    plt.close("all")


def test_the_stability_threshold_bounds_the_calibration():
    t = np.arange(STEPS, dtype=float)
    found = calibrate(t, np.where(t % 2 == 0, 0.2, 0.8), MU, 1)  # as fast a swing as there can be
    assert 0 < found.a < float(oscillator.stability_threshold(MU, 1))
