"""The claims on predictions without a fit: every verdict follows from the table and flips when it does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from simulated import CONFIG, SCHEMAS, bandit_tables
from simulated_evidence import predictions_table

from grpo_dynamics.analysis.claims_predictions import b4, c15
from grpo_dynamics.analysis.evidence import DOES_NOT_HOLD as FAILS
from grpo_dynamics.analysis.evidence import HOLDS, PARTLY, REGISTER
from grpo_dynamics.analysis.evidence import NOT_REPRODUCED as NO
from grpo_dynamics.analysis.evidence import NOT_TESTED as UNTESTED
from grpo_dynamics.analysis.evidence import REPRODUCED as YES
from grpo_dynamics.analysis.tables_predictions import RUN_PREDICTIONS
from grpo_dynamics.tables import check


def found(**changes) -> SimpleNamespace:
    """Evidence with columns of the runs' table set by functions of it; `bandit` is the R^2 of the bandit's."""
    bandit = bandit_tables()["predictions"]
    if "bandit" in changes:
        bandit = check(bandit.assign(r2=changes.pop("bandit")), SCHEMAS["predictions"])
    runs = changes.pop("runs", predictions_table())
    runs = check(runs.assign(**{name: change(runs) for name, change in changes.items()}), RUN_PREDICTIONS)
    return SimpleNamespace(
        run_predictions=runs, predictions=bandit, claims=CONFIG["claims"], analysis=CONFIG["analysis"]
    )


def attainable(value: float, *variants: str):
    """The column r2_attainable with `value` in the cells of these variants."""
    return {"r2_attainable": lambda frame: frame["r2_attainable"].mask(frame["variant"].isin(variants), value)}


def of(column: str, value: float, predictor: str = "closed_form", **at):
    """The column, with `value` in the predictor's rows that have these values."""
    at = {"predictor": predictor} | at
    return lambda frame: frame[column].mask((frame[list(at)] == pd.Series(at)).all(axis=1), value)


FLIPS = [
    (c15, {}, YES),
    (c15, {"r2": of("r2", 0.89, changed="G")}, PARTLY),
    (c15, {"r2": of("r2", 0.89, changed="eta")}, NO),  # half of the targets is not more than half
    (c15, {"r2": of("r2", 0.89)}, NO),
    # What noise alone explains is no refutation: three of the four targets' own cells, then half of them.
    (c15, {"r2": of("r2", 0.75), **attainable(0.8, "study", "eta_half")}, UNTESTED),
    (c15, {"r2": of("r2", 0.7), **attainable(0.8, "study", "eta_half")}, NO),  # 0.7 / 0.8 = 0.875
    (c15, {"r2": of("r2", 0.75), **attainable(0.8, "eta_half")}, NO),
    (c15, {"r2": of("r2", 0.75, changed="G"), **attainable(0.8, "study")}, PARTLY),
    (c15, {"r2": of("r2", 0.1, variant="study", G=16)}, YES),  # in sample
    (c15, {"r2": of("r2", 0.1, "flow")}, YES),
    (c15, {"r2": of("r2", 0.1, changed="G"), "changed": lambda f: f["changed"].replace("G", "neither")}, YES),
    (c15, {"bandit": 0.5}, PARTLY),
    (c15, {"runs": predictions_table()[:5]}, PARTLY),  # no target, the bandit alone
    (c15, {"runs": predictions_table()[:5], "bandit": 0.5}, NO),
    (c15, {"runs": predictions_table()[:0]}, PARTLY),
    (c15, {"r2": of("r2", np.nan)}, PARTLY),
    (b4, {}, HOLDS),
    (b4, {"gain_low": of("gain_low", -0.1, changed="G")}, HOLDS),
    (b4, {"gain_low": of("gain_low", 0.0, variant="eta_double")}, PARTLY),
    (b4, {"gain_low": of("gain_low", -0.1, changed="eta")}, FAILS),
    (b4, {"gain_low": of("gain_low", -0.1)}, FAILS),
    (b4, {"gain_low": of("gain_low", -0.1, "overdamped")}, HOLDS),
    (b4, {"runs": predictions_table()[:10]}, UNTESTED),
    (b4, {"runs": predictions_table()[:0]}, UNTESTED),
    (b4, {"r2": of("r2", np.nan)}, UNTESTED),
]


@pytest.mark.parametrize(("judge", "changes", "verdict"), FLIPS)
def test_verdict_flips_with_the_numbers(judge, changes, verdict):
    assert judge(found(**changes)).verdict == verdict


def test_without_any_prediction_nothing_is_said():
    evidence = found(runs=predictions_table()[:0])
    evidence.predictions = evidence.predictions[:0]
    assert c15(evidence).verdict == UNTESTED
    assert c15(evidence).numbers == (
        "bandit: no predictions from the K and p* of the process that is predicted; runs: no target to predict"
    )
    # With targets the bandit is still needed for the best verdict.
    evidence.run_predictions = predictions_table()
    assert c15(evidence).verdict == PARTLY


def test_numbers_of_c15():
    text = c15(found(r2_ceiling=of("r2_ceiling", 0.5, changed="G"))).numbers
    assert "runs: R^2 >= 0.9 in 4 of 4 targets, even the law fitted to the target itself stays below it in 1" in text
    assert "0.95 [0.93, 0.97] (llama, eta_half, G = 4, changed eta and G, free law 0.97)" in text
    assert f"half-rise time {np.exp(0.1):.3g} in the 4 that reach it" in text
    assert "finite_group 0 of 4 targets, overdamped 4 of 4 targets, flow 4 of 4 targets, naive 0 of 4 targets" in text
    assert (
        "llama (G = 16, 3 runs) K = 5 [4.5, 5.6], over single runs 4.4 to 5.9, p* = 0.87 [0.85, 0.89], overdamped by "
        "the closed form (zeta = 1.28), R^2 in sample 0.95 (free law 0.97)"
    ) in text
    assert "bandit: R^2 >= 0.9 in " in text


def test_numbers_of_b4():
    text = b4(found(gain_high=of("gain_high", -0.1, variant="eta_double"), gain_low=of("gain_low", -0.3))).numbers
    assert "closed form better in 0 of 3 targets with another eta, worse in 1" in text
    assert "(llama, eta_half, G = 4, eta x 0.5, better in 3 of 3 runs)" in text
    assert "overdamped better than the calibration cell's curve in 3 of 3 targets" in text
    assert "with only another G, gain 0.35 (n = 1 targets)" in text


def test_what_was_not_calibrated_is_named():
    gone = found(r2=lambda f: np.nan, note=lambda f: "not calibrated: no trend")
    for judge in (c15, b4):
        assert "llama not calibrated: no trend" in judge(gone).numbers


def test_the_rules_print_their_thresholds():
    words = {**CONFIG["analysis"], **CONFIG["claims"], "level": "95 %"}
    assert "R^2 >= 0.9 in every target of the runs and in more than 50% of" in REGISTER["C15"].test.format_map(words)
    assert "hold together over all targets with 95 % (Bonferroni)" in REGISTER["B4"].test.format_map(words)


def test_the_bandit_s_part_stands_beside_the_runs():
    """Predictions by the leading order, whose K and p* are the mean field's, do not count."""
    bandit = bandit_tables()["predictions"]
    own = bandit["calibration"].eq(bandit["G"].isna().map({True: "mean field", False: "finite group"}))
    leading = c15(found(bandit=bandit["r2"].where(own, 0.5)))
    assert leading.verdict == YES
    assert "sampled groups, the mean field's K and p*: 0 of 5 predictions" in leading.numbers
    assert c15(found(bandit=bandit["r2"].where(~own, 0.5))).verdict == PARTLY
