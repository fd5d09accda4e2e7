"""The ledger's claims about the bandit: every verdict follows from the numbers and flips when they do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from simulated import CONFIG
from simulated_evidence import FAILS, HOLDS, NO, PARTLY, UNTESTED, YES, changed, evidence, numbers, verdicts

from grpo_dynamics.analysis.claims_bandit import shape
from grpo_dynamics.analysis.evidence import REGISTER
from grpo_dynamics.theory.law import phi


def own(predictions: pd.DataFrame) -> pd.Series:
    """Whether K and p* were measured on the process that is predicted."""
    return predictions["calibration"].eq(predictions["G"].isna().map({True: "mean field", False: "finite group"}))


def where(column: str, factor: float, **at):
    """The column, times the factor in the rows that have these values."""
    return lambda frame: frame[column] * np.where((frame[list(at)] == pd.Series(at)).all(axis=1), factor, 1.0)


def scaled(factor: float, *columns: str, **at) -> dict:
    return {column: where(column, factor, **at) for column in columns}


MEASURED = [f"a_onset_{name}" for name in ("measured", "low", "high")]
FLIPS = [
    ("C10", "trajectories", {"p": lambda f: 0.8 - 0.5 * phi(f["step"], 0.1, 2.0)}, NO),
    ("C11", "thresholds", {"a_stability_measured": lambda f: 2 * f["a_stability_closed"]}, NO),
    ("C11", "thresholds", {"a_stability_measured": lambda f: f["a_stability_closed"] * (1 + (f["K_ref"] > 1))}, PARTLY),
    ("C11", "thresholds", scaled(1.2, "a_stability_measured", schedule="fixed_lag"), PARTLY),
    ("C11", "thresholds", scaled(0.9, "a_onset_measured"), YES),
    ("C12", "stationary_variance", {"variance": 0.1, "error": 0.001}, NO),
    ("C12", "stationary_variance", {"variance": lambda f: f["variance"] * f["G"] ** 0.3}, PARTLY),
    ("C12", "stationary_variance", {"variance": lambda f: f["variance"] * f["G"] ** 0.6}, NO),
    ("C12", "stationary_variance", {"error": 0.1}, NO),
    (
        "C12",
        "stationary_variance",
        {"variance": lambda f: f["variance"] * f["G"] ** (0.6 * (f["schedule"] == "periodic"))},
        PARTLY,
    ),
    ("B2", "thresholds", scaled(1.03, *MEASURED), FAILS),  # half of the thresholds is not more than half
    ("B2", "thresholds", scaled(1.03, *MEASURED, schedule="periodic"), PARTLY),
    ("B2", "thresholds", scaled(1.03, *MEASURED, schedule="periodic", mu=0.5, K_ref=4), PARTLY),
    ("B2", "thresholds", scaled(0.97, "a_stability_exact", schedule="fixed_lag", mu=0.0, K_ref=1), PARTLY),
    ("B2", "thresholds", scaled(1.015, *MEASURED), HOLDS),
    ("B2", "thresholds", {"a_onset_measured": lambda f: 1.03 * f["a_onset_exact"]}, HOLDS),
    (
        "B2",
        "thresholds",
        {f"a_{k}_exact": lambda f, k=k: 0.9 * f[f"a_{k}_exact"] for k in ("onset", "stability")},
        FAILS,
    ),
    ("B3", "drift", scaled(1.01, "drift_low", std="unbiased", G=16, p=0.5), PARTLY),
    ("B3", "drift", scaled(0.99, "noise_high", std="population", G=4, p=0.1), PARTLY),
    ("B3", "stationary_variance", scaled(1.01, "variance_exact", schedule="periodic", G=32), PARTLY),
    ("B3", "drift", {name: lambda f, n=name: 0.9 * f[n] for name in ("drift_exact", "noise_exact")}, FAILS),
    ("B3", "drift", {"drift_leading_order": lambda f: f["drift_exact"]}, PARTLY),
    ("B3", "drift", scaled(10.0, "drift_leading_order", G=64), HOLDS),
    ("C14", "overdamped_limit", {"max_abs_difference": [0.1, 0.2, 0.3, 0.4]}, NO),
    ("C14", "overdamped_limit", {"leading_order": 1.0}, PARTLY),
]


@pytest.mark.parametrize(("id", "table", "values", "verdict"), FLIPS)
def test_verdict_flips_with_the_numbers(id, table, values, verdict):
    assert REGISTER[id].judge(changed(table, **values)).verdict == verdict


def test_slopes_of_the_variance_hold_together_and_are_students_over_replicas():
    """Quantiles of Student's t with 3 degrees of freedom at (1 + 0.95)/2 and, of two schedules, (1 + 0.95^(1/2))/2."""
    few = changed("stationary_variance", replicas=4, variance=lambda f: 0.1 / f["G"], error=lambda f: 0.005 / f["G"])
    one = replace(few, stationary_variance=few.stationary_variance.query("schedule == 'periodic'"))
    x = np.log([2.0, 4.0, 8.0, 16.0, 32.0])
    for found, quantile, schedules in ((few, 4.160, ("fixed_lag", "periodic")), (one, 3.1824, ("periodic",))):
        half = quantile * 0.05 / np.sqrt(np.sum((x - x.mean()) ** 2))
        assert numbers(found, "C12") == "; ".join(
            f"{schedule}: slope -1 [{-1 - half:.3g}, {-1 + half:.3g}] over G = 2 to 32 (n = 5 sizes, 4 replicas each)"
            for schedule in schedules
        )


def test_a_schedule_of_one_group_size_is_left_out():
    table = evidence().stationary_variance
    some = replace(evidence(), stationary_variance=table[(table["schedule"] == "fixed_lag") | (table["G"] == 4)])
    assert verdicts(some)["C12"] == YES
    assert "periodic" not in numbers(some, "C12")
    one = replace(evidence(), stationary_variance=table[table["G"] == 4])
    assert (verdicts(one)["C12"], numbers(one, "C12")) == (UNTESTED, "fewer than two group sizes")
    assert verdicts(one)["B3"] == UNTESTED
    assert numbers(one, "B3").startswith("bandit, not tested here: fewer than two group sizes; runs, holds")
    drift = evidence().drift
    assert verdicts(replace(evidence(), drift=drift[drift["G"] == 4]))["B3"] == UNTESTED


def test_the_transition_stands_beside_closed_form_and_exact_onset():
    """a = eta K = 0.09; the simulated exact onsets of fixed_lag, mu = 0.5 are 0.0646 at K_ref = 1, 0.0349 at 4."""
    text = "oscillates from K_ref = 4 on, in the closed form from K_ref = 4 on, by the exact onset from K_ref = 1 on "
    assert text in numbers(evidence(), "C10")
    found = changed("thresholds", a_onset_exact=lambda f: f["a_onset_exact"] * np.where(f["K_ref"] == 4, 1.0, 2.0))
    assert "by the exact onset from K_ref = 4 on (of the 2 K_ref" in numbers(found, "C10")
    assert "by the exact onset at no K_ref" in numbers(changed("thresholds", a_onset_exact=1.0), "C10")
    assert "by the exact onset" not in numbers(changed("thresholds", mu=lambda f: f["mu"] + 0.1), "C10")


def test_the_exact_onset_of_every_schedule_stands_beside_and_one_that_rises_changes_the_advice():
    text = numbers(evidence(), "C10")
    assert "exact onset of oscillation (eta K), fixed_lag, from K_ref = 1 to 4: 0.248 to 0.0921 (mu = 0), " in text
    assert "0.0646 to 0.0349 (mu = 0.5)" in text
    assert REGISTER["C10"].judge(evidence()).why == ""
    rising = changed(
        "thresholds", a_onset_exact=lambda f: f["a_onset_exact"].where(f["schedule"] == "fixed_lag", f["K_ref"])
    )
    assert REGISTER["C10"].judge(rising).why == "other schedules"


def test_three_measurements_of_the_stiffness_stand_beside_the_threshold():
    found = changed("fixed_point", K_analytic=lambda f: 0.9 * f["K"], K_perturbation=lambda f: 1.1 * f["K"])
    assert "K = 0.13 by a central difference, 0.9 times that analytically and 1.1 times from" in numbers(found, "C11")


def part_of(text: str, start: str) -> str:
    (part,) = (part for part in text.split("; ") if part.startswith(start))
    return part


def test_the_side_on_which_the_closed_form_errs_is_named():
    """The simulated exact thresholds are 1.05 (fixed lag) and 0.95 (periodic) times the closed form."""
    text = numbers(evidence(), "B2")
    lag = part_of(text, "fixed_lag, loss of stability")
    assert "closed form 0.952 times the exact one" in lag
    assert lag.endswith("cautious in 6, optimistic in 0, equal in 0")  # the mean age of a fixed lag is K_ref
    onset = part_of(text, "periodic, onset of oscillation")
    assert "closed form 1.05 times the exact one" in onset
    assert onset.count("cautious in 0, optimistic in 6, equal in 0") == 2
    assert "infinite" not in onset


def test_where_the_closed_form_is_the_farthest_off_is_named():
    found = changed("thresholds", **scaled(0.1, "a_stability_closed", schedule="fixed_lag", mu=0.5, K_ref=2))
    text = part_of(numbers(found, "B2"), "fixed_lag, loss of stability")
    assert "closed form 0.0952 to 0.952 times the exact one, farthest at mu = 0.5, K_ref = 2" in text
    equal = changed("thresholds", a_stability_closed=lambda f: f["a_stability_exact"] * (1 + 1e-9))
    assert "cautious in 0, optimistic in 0, equal in 6" in part_of(numbers(equal, "B2"), "fixed_lag, loss of stability")


def test_an_infinite_closed_form_is_optimistic():
    """At K_ref = 1 the samples of a periodic refresh have age 0, where the closed form is never unstable."""
    text = part_of(numbers(evidence(), "B2"), "periodic, loss of stability")
    # Elsewhere K_ref / age / 0.95, age = (K_ref - 1)/2: 4.21 at K_ref = 2 and 2.81 at 4.
    assert "at the mean age 2.81 to 4.21 times the exact one (infinite in 2), farthest at mu = 0, K_ref = 2" in text
    assert text.endswith("cautious in 0, optimistic in 6, equal in 0")
    empty = changed("thresholds", a_stability_closed_at_age=np.nan)
    assert "at the mean age infinite, cautious in 0, optimistic in 6, equal in 0" in numbers(empty, "B2")
    assert verdicts(empty)["B2"] == HOLDS


def test_thresholds_agree_by_tolerance_or_by_bracket():
    found = changed("thresholds", a_onset_measured=lambda f: 1.03 * f["a_onset_exact"])
    text = part_of(numbers(found, "B2"), "periodic, onset")
    assert "0 of 6 thresholds within 2% of the exact one and 6 more by the bracket, measured / exact 1.03" in text
    assert "(brackets up to 0.0039 wide)" in text
    lax = replace(changed("thresholds", **scaled(1.03, *MEASURED)), claims=CONFIG["claims"] | {"exact_tolerance": 0.05})
    assert verdicts(lax)["B2"] == HOLDS


def test_one_schedule_alone_is_judged():
    table = evidence().thresholds
    one = replace(evidence(), thresholds=table[table["schedule"] == "periodic"])
    assert (verdicts(one)["B2"], verdicts(one)["C11"]) == (HOLDS, YES)
    assert "fixed_lag, loss" not in numbers(one, "B2")
    none = replace(evidence(), thresholds=table[:0])
    assert (verdicts(none)["B2"], verdicts(none)["C11"]) == (UNTESTED, UNTESTED)


def test_finite_steps_tell_where_the_closed_form_breaks():
    """The simulated rates are off by share/2 at K_ref = 4 and share/5 at K_ref = 1; shares 0.05, 0.1, 0.3, 0.8."""
    text = part_of(numbers(evidence(), "B2"), "finite steps")
    assert "first more than 10% off at 0.3 of its stability threshold (mu = 0, K_ref = 4, there 0.85 times" in text
    assert text.endswith("in 4 of 4 settings off somewhere, first at shares of 0.3 to 0.8")
    right = changed("finite_step", rate_closed=lambda f: f["rate_exact"])
    assert "within 10% at every share of its stability threshold in 4 settings" in numbers(right, "B2")
    assert "finite steps" not in numbers(replace(evidence(), finite_step=evidence().finite_step[:0]), "B2")


def test_finite_groups_are_counted_and_the_ones_outside_named():
    found = changed("drift", **scaled(1.01, "drift_low", G=16, p=0.5))
    text = numbers(found, "B3")
    assert "in 16 of 18 drifts, 18 of 18 noises, 10 of 10 variances, outside: drift at G = 16 (population std" in text
    assert "p = 0.5), drift at G = 16 (unbiased std, p = 0.5)" in text
    many = changed("drift", **scaled(1.01, "drift_low", std="population"))
    assert "9 of 18 drifts" in numbers(many, "B3")
    assert "and 6 more; " in numbers(many, "B3")


def test_the_leading_order_s_distance_is_that_of_the_theory():
    """h_G / sqrt(p(1-p)) at G = 4 from the theory's table: 0.507 at p = 0.1, 0.808 at 0.5; unbiased 0.439, 0.700."""
    text = numbers(evidence(), "B3")
    drift = part_of(text, "drift, population std")
    assert "0.507 to 0.808 at G = 4" in drift
    assert "too large in 9 and too small in 0 of 9, within 10% at every p from G = 64 on" in drift
    assert "0.439 to 0.7 at G = 4" in part_of(text, "drift, unbiased std")
    assert "p* 0.7 at G = 4, 0.735 at G = 64, 0.74 in the mean field" in text
    assert "the mean p of sampled runs is within 0.001 of their exact p*" in text
    assert "contains the exact drift's K at 3 of 3 group sizes" in text
    # The simulated leading order of the variance is 1 - 1.5/G times the exact one: 0.906 at G = 16, 0.953 at 32.
    variance = part_of(text, "variance, periodic")
    assert "leading order / exact 0.25 at G = 2, 0.953 at G = 32, too large in 0 and too small in 5 of 5" in variance
    assert "within 10% from G = 16 on" in variance
    far = changed("stationary_variance", variance_leading_order=lambda f: 2 * f["variance_exact"])
    assert "too large in 5 and too small in 0 of 5, not within 10% at any G" in part_of(
        numbers(far, "B3"), "variance, fixed"
    )
    lost = changed("fixed_point", **scaled(1.05, "K_perturbation_low", G=16))
    assert "contains the exact drift's K at 2 of 3 group sizes" in numbers(lost, "B3")


def test_predictions_are_counted_per_calibration():
    text = numbers(changed("predictions", r2=lambda f: f["r2"].where(own(f), 0.5)), "C15")
    assert "R^2 >= 0.9 in 10 of 10 predictions with the predicted process's own K and p*" in text
    assert "deterministic mean field, its own K and p*: 5 of 5 predictions" in text
    assert "sampled groups, their exact drift's K and p*: 5 of 5 predictions" in text
    assert "sampled groups, the mean field's K and p*: 0 of 5 predictions" in text


def test_shape_of_trajectories():
    t = np.arange(400)
    assert shape(0.8 - 0.5 * phi(t, 0.1, 1.5)) == "monotone"
    assert shape(0.2 + 0.5 * phi(t, 0.1, 0.4)) == "damped oscillation"
    assert shape(0.5 - 0.3 * np.cos(0.2 * t)) == "sustained oscillation"
