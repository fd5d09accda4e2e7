"""The ledger: every verdict follows from the numbers and flips when they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import CONFIG, SCHEMAS, bandit_tables, complete

from grpo_dynamics.analysis.claims_bandit import shape
from grpo_dynamics.analysis.evidence import REGISTER, Evidence
from grpo_dynamics.analysis.ledger import ledger
from grpo_dynamics.analysis.pages import claims_page, table_page
from grpo_dynamics.analysis.tables import CLAIMS, DIAGNOSTICS, GROUP_SIZE
from grpo_dynamics.tables import check
from grpo_dynamics.theory.law import phi

TEMPLATES = Path(__file__).parents[1] / "workflow" / "report"
MODELS = ["llama", "qwen2"]
YES, PARTLY, NO, UNTESTED = "reproduced", "partly", "not reproduced", "not tested here"


def evidence() -> Evidence:
    """Tables, as their schemas have them, in which every claim that can be reproduced is."""
    cells = [(model, G, series, seed) for model in MODELS for G in (4, 16) for series, seed in SERIES]
    fits = pd.DataFrame(cells, columns=["model", "G", "series", "seed"]).astype({"seed": "Int64"})
    wobble = 1 + 0.01 * np.arange(len(fits))
    fits = fits.assign(
        n=150, n_early=30, r2=0.95, autocorrelation=0.0, aicc=-900.0, aicc_exponential=-880.0, f_p_effective=1e-4,
        sse=0.4, sse_exponential=0.4 + 0.06 * wobble, sse_early=0.08, sse_early_exponential=0.08 + 0.05 * wobble,
        zeta=1.5, zeta_low=1.2, zeta_high=2.0, identifiable=True,
    )  # fmt: skip
    group_size = pd.DataFrame(
        [
            (model, quantity, 4, 16, 12, 12, *numbers, "")
            for model in MODELS
            for quantity, numbers in {
                "plateau": (0.80, 0.81, 0.01, -0.01, 0.03, 0.3, 0.001, 0.0),
                "trajectory": (0.60, 0.61, 0.01, -0.01, 0.03, 0.3, 0.001, 0.0),
                "scatter": (0.004, 0.001, 4.0, 1.2, 14.0, 0.03, np.nan, 1.0),
            }.items()
        ],
        columns=list(GROUP_SIZE.columns),
    )
    transfer = pd.DataFrame(
        [
            (model, G, f"benchmark {distance}", distance, 0.4 - 0.04 * distance, 0.001)
            for model in MODELS
            for G in (4, 16)
            for distance in range(9)
        ],
        columns=["model", "G", "benchmark", "distance", "gain", "p_holm"],
    )
    summary = pd.DataFrame({"model": MODELS, "benchmarks": 8, "robustness": [0.5, 0.8], "best_share": [0.01, 0.99]})
    summary = summary.assign(
        rank_correlation=-0.9, rank_low=-1.0, rank_high=-0.6, gain_out=0.3, gain_out_low=0.25, gain_out_high=0.35,
        gain_near=0.3, gain_near_low=0.2, gain_near_high=0.4, robustness_low=0.4, robustness_high=0.9,
    )  # fmt: skip
    diagnostics = pd.DataFrame(
        [
            (model, G, seed, group, name, 1.0, 0.9, 1.1, 2.0, "above", "ok", "")
            for model in MODELS
            for G in (4, 16)
            for seed in (0, 1)
            for group, name in [("instability", "grad_norm_log_growth"), ("decoupling", "rate_ratio")]
        ],
        columns=list(DIAGNOSTICS.columns),
    )
    tables = {
        "fits": fits,
        "group_size": group_size,
        "transfer": transfer,
        "transfer_summary": summary,
        "diagnostics": diagnostics,
    }
    return Evidence(
        **{name: complete(table, SCHEMAS[name]) for name, table in tables.items()},
        **bandit_tables(),
        analysis=CONFIG["analysis"],
        claims=CONFIG["claims"],
        distilled=["qwen2"],
    )


SERIES = [("run", 0), ("run", 1), ("mean", None)]
BEST = {**{f"C{i}": YES for i in range(1, 15)}, "C5": UNTESTED, "C13": UNTESTED, "C15": PARTLY, "C16": UNTESTED}


def verdicts(found: Evidence) -> dict[str, str]:
    return dict(ledger(found)[["id", "verdict"]].itertuples(index=False))


def changed(table: str, **values) -> Evidence:
    """The evidence with columns of one table set; a value may be a function of the table."""
    base = evidence()
    frame = getattr(base, table).copy()
    for column, value in values.items():
        frame[column] = value(frame) if callable(value) else value
    return replace(base, **{table: check(frame, SCHEMAS[table])})


def test_best_case_and_schema():
    table = check(ledger(evidence()), CLAIMS)
    assert list(table["id"]) == [f"C{i}" for i in range(1, 17)]
    assert dict(table[["id", "verdict"]].itertuples(index=False)) == BEST


def of_model(model: str, column: str, value):
    return lambda frame: frame[column].where(frame["model"] != model, value)


def of_cell(model: str, G: int, column: str, value):
    return lambda frame: frame[column].where((frame["model"] != model) | (frame["G"] != G), value)


def own(predictions: pd.DataFrame) -> pd.Series:
    """Whether K and p* were measured on the process that is predicted."""
    return predictions["calibration"].eq(predictions["G"].isna().map({True: "mean field", False: "finite group"}))


OUTSIDE = {"effect": 0.2, "low": 0.1, "high": 0.3, "p_equivalence": 0.9}
FLIPS = [
    ("C1", "fits", {"r2": 0.90}, NO),
    ("C1", "fits", {"r2": of_cell("llama", 4, "r2", 0.9)}, PARTLY),
    ("C1", "fits", {"r2": of_cell("llama", 4, "r2", np.nan)}, YES),
    ("C1", "fits", {"r2": np.nan}, UNTESTED),
    ("C2", "fits", {"aicc": -870.0}, NO),
    ("C2", "fits", {"aicc": of_cell("llama", 4, "aicc", -870.0)}, PARTLY),
    ("C2", "fits", {"aicc": of_cell("llama", 4, "aicc", np.nan)}, YES),
    ("C2", "fits", {"aicc": np.nan}, UNTESTED),
    ("C2", "fits", {"f_p_effective": 0.2}, PARTLY),
    ("C2", "fits", {"sse_early_exponential": 0.08}, PARTLY),
    ("C3", "group_size", {"effect": 0.2, "low": 0.1, "high": 0.3, "p_equivalence": 0.9}, NO),
    ("C3", "group_size", {"effect": 0.2, "low": 0.04, "high": 0.36, "p": 0.01, "p_equivalence": 0.9}, UNTESTED),
    ("C3", "group_size", {name: of_model("llama", name, x) for name, x in OUTSIDE.items()}, NO),
    ("C3", "group_size", {"p_equivalence": of_model("llama", "p_equivalence", 0.4)}, PARTLY),
    ("C3", "group_size", {"p_equivalence": 0.4}, UNTESTED),
    ("C4", "group_size", {"effect": -0.2, "low": -0.3, "high": -0.06, "p_equivalence": 0.9}, NO),
    ("C4", "group_size", {"effect": -0.2, "low": -0.3, "high": -0.04, "p_equivalence": 0.9}, UNTESTED),
    ("C4", "group_size", {"p_equivalence": np.nan, "p": np.nan}, UNTESTED),
    ("C6", "transfer_summary", {"gain_out_low": -0.1}, NO),
    ("C6", "transfer_summary", {"gain_out_low": of_model("llama", "gain_out_low", -0.1)}, PARTLY),
    ("C6", "transfer", {"gain": lambda f: f["gain"].where(f["distance"] < 8, -0.1)}, PARTLY),
    ("C6", "transfer", {"p_holm": 0.5}, PARTLY),
    ("C7", "transfer_summary", {"rank_high": 0.1}, NO),
    ("C7", "transfer_summary", {"gain_near_low": of_model("qwen2", "gain_near_low", -0.1)}, PARTLY),
    ("C7", "transfer_summary", {"rank_correlation": np.nan}, UNTESTED),
    ("C8", "transfer_summary", {"robustness": [0.9, 0.8]}, NO),
    ("C8", "transfer_summary", {"best_share": [0.3, 0.7]}, PARTLY),
    ("C8", "transfer_summary", {"robustness": np.nan}, UNTESTED),
    ("C9", "fits", {"zeta_high": 0.9, "zeta_low": 0.5}, NO),
    ("C9", "fits", {"zeta_low": 0.8}, PARTLY),
    ("C9", "fits", {"zeta_low": 0.0, "zeta_high": np.inf}, PARTLY),
    ("C9", "fits", {"identifiable": False}, UNTESTED),
    ("C9", "diagnostics", {"verdict": "fires"}, NO),
    ("C10", "trajectories", {"p": lambda f: 0.8 - 0.5 * phi(f["step"], 0.1, 2.0)}, NO),
    ("C11", "thresholds", {"a_stability_measured": lambda f: 2 * f["a_stability_closed"]}, NO),
    ("C11", "thresholds", {"a_stability_measured": lambda f: f["a_stability_closed"] * (1 + (f["K_ref"] > 1))}, PARTLY),
    ("C12", "stationary_variance", {name: 0.1 for name in ("variance", "low", "high")}, NO),
    (
        "C12",
        "stationary_variance",
        {n: lambda f, n=n: f[n] * f["G"] ** 0.3 for n in ("variance", "low", "high")},
        PARTLY,
    ),
    ("C14", "overdamped_limit", {"max_abs_difference": [0.1, 0.2, 0.3, 0.4]}, NO),
    ("C14", "overdamped_limit", {"leading_order": 1.0}, PARTLY),
    ("C15", "predictions", {"r2": 0.5}, NO),
    ("C15", "predictions", {"r2": lambda f: f["r2"].where(~own(f), 0.5)}, NO),
    ("C15", "predictions", {"r2": lambda f: f["r2"].where(own(f), 0.5)}, PARTLY),
    ("C15", "predictions", {"r2": lambda f: f["r2"].where(f["eta"] < 0.25, 0.5)}, NO),
    ("C15", "predictions", {"r2": lambda f: f["r2"].where(f["eta"] < 0.35, 0.5)}, PARTLY),
]


@pytest.mark.parametrize(("id", "table", "values", "verdict"), FLIPS)
def test_verdict_flips_with_the_numbers(id, table, values, verdict):
    if id == "C12" and verdict == NO:
        values = {"variance": 0.1, "low": 0.095, "high": 0.105}
    assert REGISTER[id].judge(changed(table, **values)).verdict == verdict


def test_other_claims_do_not_move():
    found = verdicts(changed("transfer_summary", robustness=[0.9, 0.8]))
    assert {id for id in found if found[id] != BEST[id]} == {"C8"}


def test_without_a_distilled_model_nothing_is_said_about_it():
    assert REGISTER["C8"].judge(replace(evidence(), distilled=[])).verdict == UNTESTED


def test_thresholds_come_from_the_config():
    strict = replace(evidence(), claims=CONFIG["claims"] | {"r2_floor": 0.99})
    assert verdicts(strict)["C1"] == NO
    assert "R^2 >= 0.99" in ledger(strict).set_index("id").loc["C1", "test"]


def numbers(found: Evidence, id: str) -> str:
    return ledger(found).set_index("id").loc[id, "numbers"]


def test_cells_without_a_fit_are_counted():
    assert "3 of 3 fitted cells reach R^2 >= 0.91, 1 of 4 cells not fitted" in numbers(
        changed("fits", r2=of_cell("llama", 4, "r2", np.nan)), "C1"
    )
    assert numbers(changed("fits", aicc=np.nan), "C2") == "4 of 4 cells not fitted"


@pytest.mark.parametrize(
    ("value_low", "one", "ratio"),
    [(0.001, "contains", "does not contain"), (0.002, "contains", "contains"), (0.004, "does not contain", "contains")],
)
def test_scatter_is_set_against_both_expectations(value_low, one, ratio):
    """Pooled over two models the F quantile 0.975 at (22, 22) is 2.358."""
    found = changed("group_size", value_low=value_low)
    text = numbers(found, "C5")
    x = value_low / 0.001
    assert f"ratio of variances {x:.3g} [{x / 2.3579:.3g}, {x * 2.3579:.3g}]" in text
    assert f"the interval {one} 1, expected at equal completions" in text
    assert f"the interval {ratio} 4, expected at equal prompts" in text
    assert verdicts(found)["C5"] == UNTESTED


def test_one_group_size_compares_nothing():
    found = replace(evidence(), group_size=complete(pd.DataFrame(columns=list(GROUP_SIZE.columns)), GROUP_SIZE))
    for id in ("C3", "C4", "C5"):
        assert verdicts(found)[id] == UNTESTED
        assert numbers(found, id) == "one group size: nothing to compare"


def test_bandit_errors_are_students_over_replicas():
    """Four replicas: half an interval is t(3) = 3.18 errors; the config's level sets that of the slope alone."""
    few = changed("stationary_variance", replicas=4, variance=lambda f: 0.1 / f["G"])
    strict = replace(few, analysis=few.analysis | {"alpha": 0.01})
    x, error = np.log([2.0, 4.0, 8.0, 16.0, 32.0]), 0.05 / stats.t.ppf(0.975, 3)
    for found, quantile in ((few, 1.959964), (strict, 2.575829)):
        half = quantile * error / np.sqrt(np.sum((x - x.mean()) ** 2))
        assert f"slope -1 [{-1 - half:.3g}, {-1 + half:.3g}]" in numbers(found, "C12")


def test_predictions_are_counted_per_calibration():
    text = numbers(changed("predictions", r2=lambda f: f["r2"].where(own(f), 0.5)), "C15")
    assert "R^2 >= 0.9 in 10 of 10 predictions with the predicted process's own K and p*" in text
    assert "deterministic mean field, its own K and p*: 5 of 5 predictions" in text
    assert "sampled groups, their exact drift's K and p*: 5 of 5 predictions" in text
    assert "sampled groups, the mean field's K and p*: 0 of 5 predictions" in text


def test_one_seed_per_cell_still_gives_a_ledger():
    base = evidence()
    one = replace(
        base,
        fits=base.fits[base.fits["seed"] != 1],
        group_size=base.group_size.assign(
            low=np.nan, high=np.nan, p=np.nan, p_equivalence=np.nan, n_low=1, n_high=1,
            effect=base.group_size["effect"].where(base.group_size["quantity"] != "scatter"),
        ),
    )  # fmt: skip
    found = verdicts(one)
    assert (found["C3"], found["C4"], found["C5"]) == (UNTESTED, UNTESTED, UNTESTED)
    assert "no interval" in ledger(one).set_index("id").loc["C3", "numbers"]


def test_shape_of_trajectories():
    t = np.arange(400)
    assert shape(0.8 - 0.5 * phi(t, 0.1, 1.5)) == "monotone"
    assert shape(0.2 + 0.5 * phi(t, 0.1, 0.4)) == "damped oscillation"
    assert shape(0.5 - 0.3 * np.cos(0.2 * t)) == "sustained oscillation"


def test_page_shows_every_claim_with_word_and_symbol(tmp_path):
    page = tmp_path / "claims.html"
    table = ledger(evidence())
    table.loc[0, "numbers"] = "a < b; c"
    claims_page(table, "ci", MODELS, [4, 16], 1, TEMPLATES / "claims.html.j2", page)
    text = page.read_text()
    assert text.count('<tr id="C') == 16
    assert "1 seed per cell" in text
    assert "✓ reproduced" in text
    assert "○ not tested here" in text
    assert "<p>a &lt; b</p><p>c</p>" in text
    assert "http://" not in text  # nothing is loaded from elsewhere
    assert "src=" not in text


def test_table_page_describes_its_columns(tmp_path):
    page = tmp_path / "group_size.html"
    table_page(evidence().group_size, GROUP_SIZE, "Group size", "About.", TEMPLATES / "table.html.j2", page)
    text = page.read_text()
    assert "plateau (fitted R_inf)" in text
    assert ">0.81<" in text
    assert ">nan<" not in text
