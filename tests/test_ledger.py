"""The ledger: every verdict follows from the numbers and flips when they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from simulated import CONFIG, complete
from simulated_evidence import FAILS, HOLDS, MODELS, NO, PARTLY, UNTESTED, YES, changed, evidence, numbers, verdicts

from grpo_dynamics.analysis.evidence import REGISTER, VERDICTS
from grpo_dynamics.analysis.ledger import ledger
from grpo_dynamics.analysis.pages import claims_page, table_page
from grpo_dynamics.analysis.tables import CLAIMS, GROUP_SIZE
from grpo_dynamics.tables import check

TEMPLATES = Path(__file__).parents[1] / "workflow" / "report"
BEST = {
    **{f"C{i}": YES for i in range(1, 15)},
    **{"C5": UNTESTED, "C13": UNTESTED, "C15": PARTLY, "C16": UNTESTED, "B2": HOLDS, "B3": HOLDS},
}


def test_best_case_and_schema():
    table = check(ledger(evidence()), CLAIMS)
    assert list(table["id"]) == [*(f"C{i}" for i in range(1, 17)), "B2", "B3"]
    assert dict(table[["id", "verdict"]].itertuples(index=False)) == BEST


def of_model(model: str, column: str, value):
    return lambda frame: frame[column].where(frame["model"] != model, value)


def of_cell(model: str, G: int, column: str, value):
    return lambda frame: frame[column].where((frame["model"] != model) | (frame["G"] != G), value)


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
]


@pytest.mark.parametrize(("id", "table", "values", "verdict"), FLIPS)
def test_verdict_flips_with_the_numbers(id, table, values, verdict):
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


def test_page_shows_every_claim_with_word_and_symbol(tmp_path):
    page = tmp_path / "claims.html"
    table = ledger(evidence())
    table.loc[0, "numbers"] = "a < b; c"
    table.loc[table["id"] == "B3", "verdict"] = FAILS
    claims_page(table, "ci", MODELS, [4, 16], 1, TEMPLATES / "claims.html.j2", page)
    text = page.read_text()
    assert text.count('<tr id="C') == 16
    assert text.count('<tr id="B') == 2
    assert text.index('id="C16"') < text.index('rowgroup">Beyond the paper<') < text.index('id="B2"')
    assert '<span class="verdict holds">✓ holds</span> 1' in text
    assert '<span class="verdict does-not-hold">✗ does not hold</span> 1' in text
    assert '<span class="verdict reproduced">✓ reproduced</span> 12' in text
    assert text.count("○ not tested here</span> ") == 2  # counted for the paper's claims and for those beyond it
    for word in VERDICTS:
        assert f".{word.replace(' ', '-')}" in text.split("</style>")[0]
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
