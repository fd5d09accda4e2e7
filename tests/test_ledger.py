"""The ledger: every verdict follows from the numbers and flips when they do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from simulated import CONFIG, complete
from simulated_evidence import (
    FAILS,
    HOLDS,
    MODELS,
    NO,
    PARTLY,
    UNTESTED,
    YES,
    changed,
    evidence,
    failure_runs,
    numbers,
    verdicts,
)

from grpo_dynamics.analysis.evidence import REGISTER, VERDICTS
from grpo_dynamics.analysis.explanations import explain
from grpo_dynamics.analysis.induced import confusion
from grpo_dynamics.analysis.ledger import ledger
from grpo_dynamics.analysis.pages import claims_page, table_page
from grpo_dynamics.analysis.tables import CLAIMS
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE
from grpo_dynamics.tables import check

TEMPLATES = Path(__file__).parents[1] / "workflow" / "report"
BEST = {
    **{f"C{i}": YES for i in range(1, 15)},
    **{"C15": YES, "C16": UNTESTED, "B2": HOLDS, "B3": HOLDS, "B4": HOLDS, "B5": HOLDS},
}


def test_best_case_and_schema():
    table = check(ledger(evidence()), CLAIMS)
    assert list(table["id"]) == [*(f"C{i}" for i in range(1, 17)), "B2", "B3", "B4", "B5"]
    assert dict(table[["id", "verdict"]].itertuples(index=False)) == BEST


def of_model(model: str, column: str, value):
    return lambda frame: frame[column].where(frame["model"] != model, value)


def of_cell(model: str, G: int, column: str, value):
    return lambda frame: frame[column].where((frame["model"] != model) | (frame["G"] != G), value)


def of_curve(curve: str, column: str, value, model: str | None = None):
    """Of one curve, in the cell of `model` and G = 4 alone if a model is given."""

    def change(frame):
        elsewhere = frame["curve"] != curve
        if model:
            elsewhere |= (frame["model"] != model) | (frame["G"] != 4)
        return frame[column].where(elsewhere, value)

    return change


OUTSIDE = {"effect": 0.2, "low": 0.1, "high": 0.3, "p_equivalence": 0.9, "p_different": 0.001}
FLIPS = [
    ("C1", "fits", {"r2": 0.90}, NO),
    ("C1", "fits", {"r2": of_cell("llama", 4, "r2", 0.9)}, PARTLY),
    ("C1", "fits", {"r2": 0.6, "r2_attainable": 0.65}, UNTESTED),  # noise alone explains it
    ("C1", "fits", {"r2": 0.6, "r2_attainable": 0.67}, NO),  # 0.6 / 0.67 = 0.896
    ("C1", "fits", {"r2": 0.9, "r2_attainable": 0.92}, NO),  # the true curve would have reached it
    ("C1", "fits", {"r2": 0.6, "r2_attainable": of_model("llama", "r2_attainable", 0.65)}, NO),  # two of four cells
    ("C1", "fits", {"r2": of_cell("llama", 4, "r2", 0.6), "r2_attainable": 0.65}, PARTLY),
    ("C1", "fits", {"r2": of_cell("llama", 4, "r2", np.nan)}, YES),
    ("C1", "fits", {"r2": np.nan}, UNTESTED),
    ("C2", "fits", {"aicc": -870.0, "zeta_low": 6.0}, NO),
    ("C2", "fits", {"aicc": -870.0, "zeta_low": of_model("llama", "zeta_low", 6.0)}, NO),  # open in half of the cells
    ("C2", "fits", {"aicc": -870.0, "zeta_low": of_cell("llama", 4, "zeta_low", 6.0)}, UNTESTED),
    ("C2", "fits", {"aicc": -870.0, "zeta_low": np.nan}, UNTESTED),
    ("C2", "fits", {"aicc": of_cell("llama", 4, "aicc", -870.0)}, PARTLY),
    ("C2", "fits", {"aicc": of_cell("llama", 4, "aicc", np.nan)}, YES),
    ("C2", "fits", {"aicc": np.nan}, UNTESTED),
    ("C2", "fits", {"f_p_effective": 0.2}, PARTLY),
    ("C2", "fits", {"sse_early": 0.08}, PARTLY),
    ("B5", "fits", {"aicc": of_curve("flow_ceiling", "aicc", -890.0)}, FAILS),
    (
        "B5",
        "fits",
        {
            "aicc": lambda f: f["aicc"].where(
                (f["curve"] != "flow_ceiling") | (f["model"] != "llama") | (f["G"] != 4), -890.0
            )
        },
        PARTLY,
    ),
    ("B5", "fits", {"aicc": of_curve("flow_ceiling", "aicc", -890.0, "llama")}, PARTLY),
    ("B5", "fits", {"aicc": of_curve("logistic", "aicc", -910.0)}, HOLDS),
    ("B5", "fits", {"aicc": np.nan}, UNTESTED),
    ("C9", "fits", {"zeta_low": np.nan, "zeta_high": np.nan}, PARTLY),
    ("C3", "group_size", OUTSIDE, NO),
    ("C3", "group_size", {"p_equivalence": 0.9, "p_different": 0.2}, UNTESTED),
    ("C3", "group_size", {name: of_model("llama", name, x) for name, x in OUTSIDE.items()}, NO),
    ("C3", "group_size", {"p_equivalence": of_model("llama", "p_equivalence", 0.4)}, PARTLY),
    ("C3", "group_size", {"p_equivalence": 0.4}, UNTESTED),
    ("C4", "group_size", OUTSIDE, NO),
    ("C4", "group_size", {"p_equivalence": np.nan, "p_different": np.nan}, UNTESTED),
    ("C5", "group_size", {"low": 0.5}, UNTESTED),
    ("C5", "group_size", {"low": 4.2, "high": 9.0}, NO),
    ("C5", "group_size", {"high": 3.9}, NO),
    ("B3", "group_size", {"p_expected": 1e-6, "low": 0.5, "high": 0.6}, FAILS),
    ("B3", "group_size", {"p": 0.5}, PARTLY),
    ("B3", "group_size", {"p_expected": np.nan}, UNTESTED),
    ("C6", "transfer_summary", {"gain_out_low": -0.1, "gain_out_high": 0.009}, NO),
    ("C6", "transfer_summary", {"gain_out_low": -0.1}, UNTESTED),
    ("C6", "transfer_summary", {"gain_out_low": np.nan, "gain_out_high": np.nan}, UNTESTED),
    ("C6", "transfer_summary", {"gain_out_low": of_model("llama", "gain_out_low", -0.1)}, PARTLY),
    ("C6", "transfer", {"gain": lambda f: f["gain"].where(f["distance"] < 8, -0.1)}, PARTLY),
    ("C6", "transfer", {"p_holm": 0.5}, PARTLY),
    ("C7", "transfer_summary", {"rank_high": 0.1}, UNTESTED),
    ("C7", "transfer_summary", {"rank_low": 0.1, "rank_high": 0.9}, NO),
    ("C7", "transfer_summary", {"gain_near_low": -0.2, "gain_near_high": -0.1}, NO),
    ("C7", "transfer_summary", {"gain_near_low": of_model("qwen2", "gain_near_low", -0.1)}, PARTLY),
    ("C7", "transfer_summary", {"rank_p_holm": of_model("qwen2", "rank_p_holm", 0.2)}, PARTLY),
    ("C7", "transfer_summary", {"rank_correlation": np.nan}, UNTESTED),
    ("C7", "transfer_summary", {"benchmarks": 4}, UNTESTED),
    ("C8", "transfer_summary", {"lead": -0.1, "lead_low": -0.3, "lead_high": -0.01}, NO),
    ("C8", "transfer_summary", {"lead": -0.1, "lead_low": -0.3, "lead_high": 0.1}, UNTESTED),
    ("C8", "transfer_summary", {"lead_low": -0.01}, PARTLY),
    ("C8", "transfer_summary", {"lead_low": np.nan, "lead_high": np.nan}, UNTESTED),
    ("C8", "transfer_summary", {"lead": np.nan}, UNTESTED),
    ("C9", "fits", {"zeta_high": 0.9, "zeta_low": 0.5}, NO),
    ("C9", "fits", {"zeta_low": 0.8}, PARTLY),
    ("C9", "fits", {"zeta_low": 0.0, "zeta_high": np.inf}, PARTLY),
    ("C9", "fits", {"identifiable": False}, UNTESTED),
    ("C9", "diagnostics", {"verdict": "warning"}, NO),
]


@pytest.mark.parametrize(
    ("id", "table", "values", "words"),
    [
        ("C1", "fits", {"r2": 0.6, "r2_attainable": 0.65}, "undecided: noise hides too many cells"),
        ("C2", "fits", {"aicc": -870.0}, "undecided: too many cells leave zeta open"),
        ("C6", "transfer_summary", {"gain_out_low": -0.1}, "undecided: no interval above 0"),
        ("C7", "transfer_summary", {"rank_high": 0.1}, "undecided: no model's gain surely falls or rises"),
        (
            "C8",
            "transfer_summary",
            {"lead": -0.1, "lead_low": -0.3, "lead_high": 0.1},
            "undecided: an interval reaches 0",
        ),
    ],
)
def test_what_is_undecided_says_why(id, table, values, words):
    assert words in numbers(changed(table, **values), id)
    assert "undecided" not in numbers(evidence(), id)


def called(changes: dict[tuple[str, int], str]):
    """The evidence with what some runs are called, by failure and seed, changed."""
    runs = failure_runs()
    for (failure, seed), name in changes.items():
        runs.loc[(runs["induces"] == failure) & (runs["seed"] == seed), "called"] = name
    return replace(evidence(), failure_runs=runs, confusion=confusion(runs, 0.05))


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({("decoupling", 0): "none"}, PARTLY, "missed"),
        ({("instability", 3): "degeneracy"}, PARTLY, "missed"),
        ({("decoupling", 0): "none", ("decoupling", 1): "none"}, NO, ""),
        ({("none", 0): "kl"}, YES, ""),  # 1 of 20 healthy runs is 5 %
        ({("none", 0): "kl", ("none", 1): "decoupling"}, PARTLY, "alarms"),
        ({("decoupling", 0): "none", ("none", 0): "kl", ("none", 1): "decoupling"}, PARTLY, "both"),
    ],
)
def test_c13_counts_what_is_called_right_and_false_alarms(changes, verdict, why):
    found = REGISTER["C13"].judge(called(changes))
    assert (found.verdict, found.why) == (verdict, why)


LOSS = {"p_holm": 0.001, "gain": lambda f: f["gain"].where(f["distance"] < f["distance"].max(), -0.1)}


@pytest.mark.parametrize(
    ("id", "table", "values", "why"),
    [
        ("C2", "fits", {"aicc": -870.0}, "open"),
        ("C2", "fits", {"aicc": np.nan}, "unfitted"),
        ("C6", "transfer_summary", {"gain_out_low": of_model("llama", "gain_out_low", -0.1)}, "models"),
        ("C6", "transfer", LOSS, "losses"),
        ("C6", "transfer", {"p_holm": 0.5}, "gains"),
        ("B3", "drift", {"drift_low": 2.0, "drift_high": 3.0, "noise_low": 2.0, "noise_high": 3.0}, "bandit"),
    ],
)
def test_the_reason_of_a_verdict_chooses_its_explanation(id, table, values, why):
    found = REGISTER[id].judge(changed(table, **values))
    assert found.why == why
    assert explain(id, found.verdict, why) != explain(id, BEST[id])


def test_c13_needs_all_four_failures_and_healthy_runs():
    for missing, said in (("concentration", "concentration"), ("none", "healthy runs")):
        runs = failure_runs()
        runs = runs[runs["induces"] != missing]
        finding = REGISTER["C13"].judge(replace(evidence(), failure_runs=runs, confusion=confusion(runs, 0.05)))
        assert (finding.verdict, finding.numbers) == (UNTESTED, f"not made: {said}")


def test_c13_gives_exact_intervals():
    found = numbers(evidence(), "C13")
    assert "decoupling: 4 of 4 called right [40, 100] %" in found  # 0.025^(1/4) = 0.398
    assert "healthy: 0 of 20 fire [0, 17] %" in found  # 1 - 0.025^(1/20) = 0.168
    assert "the induced failure fires, whatever the run is called, in 16 of 16 runs" in found


@pytest.mark.parametrize(("id", "table", "values", "verdict"), FLIPS)
def test_verdict_flips_with_the_numbers(id, table, values, verdict):
    assert REGISTER[id].judge(changed(table, **values)).verdict == verdict


def test_other_claims_do_not_move():
    found = verdicts(changed("transfer_summary", lead_low=-0.1))
    assert {id for id in found if found[id] != BEST[id]} == {"C8"}


def test_without_a_distilled_model_nothing_is_said_about_it():
    assert REGISTER["C8"].judge(replace(evidence(), distilled=[])).verdict == UNTESTED


def test_thresholds_come_from_the_config():
    strict = replace(evidence(), claims=CONFIG["claims"] | {"r2_floor": 0.955})
    assert verdicts(strict)["C1"] == NO
    assert "R^2 >= 0.955" in ledger(strict).set_index("id").loc["C1", "test"]


def test_cells_without_a_fit_are_counted():
    assert "3 of 3 fitted cells reach R^2 >= 0.91, 1 of 4 cells not fitted" in numbers(
        changed("fits", r2=of_cell("llama", 4, "r2", np.nan)), "C1"
    )
    assert numbers(changed("fits", aicc=np.nan), "C2") == "4 of 4 cells not fitted"


def test_one_group_size_compares_nothing():
    found = replace(evidence(), group_size=complete(pd.DataFrame(columns=list(GROUP_SIZE.columns)), GROUP_SIZE))
    for id in ("C3", "C4", "C5"):
        assert verdicts(found)[id] == UNTESTED
        assert numbers(found, id) == "one group size: nothing to compare"


def test_one_seed_per_cell_still_gives_a_ledger():
    base = evidence()
    one = replace(
        base,
        fits=base.fits[base.fits["seed"] != 1],
        group_size=base.group_size.assign(
            low=np.nan, high=np.nan, p=np.nan, p_equivalence=np.nan, p_different=np.nan, p_expected=np.nan,
            n_low=1, n_high=1,
        ),
    )  # fmt: skip
    found = verdicts(one)
    assert (found["C3"], found["C4"], found["C5"]) == (UNTESTED, UNTESTED, UNTESTED)
    assert "no interval" in ledger(one).set_index("id").loc["C3", "numbers"]


def test_page_shows_every_claim_with_word_and_symbol(tmp_path):
    page = tmp_path / "claims.html"
    table = ledger(evidence())
    table.loc[0, "numbers"] = "a < b; c"
    table.loc[table["id"] == "B3", "verdict"] = FAILS
    claims_page(table, "ci", MODELS, [4, 16], 1, TEMPLATES / "claims.html.j2", page)
    text = page.read_text()
    assert re.findall('<article id="(.*?)"', text) == list(table["id"])
    assert text.index('id="C16"') < text.index("<h2>Beyond the paper</h2>") < text.index('id="B2"')
    for row in table.itertuples():  # the explanation comes first, before numbers, test and scope
        article = text[text.index(f'<article id="{row.id}"') :]
        parts = [escape(part) for part in (row.claim, row.verdict, row.explanation, row.test, row.scope)]
        places = [article.index(part) for part in parts]
        assert places == sorted(places)
        assert places[2] < article.index('class="numbers"') < places[3]
    for verdict, symbol, words in (("does not hold", "✗", "B"), ("reproduced", "✓", "C"), ("partly", "◐", "C")):
        found = (table["verdict"] == verdict) & table["id"].str.startswith(words)
        assert f'<span class="verdict {verdict.replace(" ", "-")}">{symbol} {verdict}</span> {found.sum()}<' in text
    assert (
        len(re.findall("○ not tested here</span> [0-9]", text)) == 2
    )  # counted for the paper's claims and for those beyond it
    for word in VERDICTS:
        assert f".{word.replace(' ', '-')}" in text.split("</style>")[0]
    assert "1 seed per cell" in text
    assert "✓ reproduced" in text
    assert "○ not tested here" in text
    assert "<li>a &lt; b</li>\n  <li>c</li>" in re.sub(r"\n\s*\n", "\n", text)
    assert "http://" not in text  # nothing is loaded from elsewhere
    assert "src=" not in text


def test_table_page_describes_its_columns(tmp_path):
    page = tmp_path / "group_size.html"
    table_page(evidence().group_size, GROUP_SIZE, "Group size", "About.", TEMPLATES / "table.html.j2", page)
    text = page.read_text()
    assert "plateau (R_inf of the identifiable runs)" in text
    assert ">0.81<" in text
    assert ">nan<" not in text
