"""The claims on the group size: verdicts on small tables, for both comparisons, and what the numbers name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from simulated_evidence import (
    FAILS,
    HOLDS,
    MODELS,
    NO,
    PARTLY,
    UNTESTED,
    YES,
    evidence,
    group_size_table,
)

from grpo_dynamics.analysis.claims_groups import holm
from grpo_dynamics.analysis.evidence import REGISTER, Finding
from grpo_dynamics.analysis.tables_groups import GROUP_SIZE
from grpo_dynamics.tables import check


def judge(id: str, table: pd.DataFrame | None = None) -> Finding:
    table = group_size_table() if table is None else table
    return REGISTER[id].judge(replace(evidence(), group_size=check(table, GROUP_SIZE)))


def altered(values: dict, model=None, comparison=None, quantity=None) -> pd.DataFrame:
    """The best case with `values` in the rows of the model, comparison and quantity; None: in all."""
    table = group_size_table()
    where = pd.Series(True, index=table.index)
    for column, wanted in (("model", model), ("comparison", comparison), ("quantity", quantity)):
        if wanted is not None:
            where &= table[column] == wanted
    assert where.any()
    for column, value in values.items():
        table.loc[where, column] = value
    return table


COMPLETIONS, PROMPTS = "equal completions", "equal prompts"
OUTSIDE = {"effect": 0.2, "low": 0.1, "high": 0.3, "p_equivalence": 0.9, "p_different": 0.001}


@pytest.mark.parametrize(("id", "quantity"), [("C3", "plateau"), ("C4", "trajectory")])
@pytest.mark.parametrize("comparison", [COMPLETIONS, PROMPTS])
def test_equivalence_needs_both_comparisons_and_every_model(id, quantity, comparison):
    assert judge(id).verdict == YES
    undecided = altered({"p_equivalence": 0.4}, "llama", comparison, quantity)
    assert judge(id, undecided).verdict == PARTLY
    assert "equivalent in 3 of 4 comparisons" in judge(id, undecided).numbers
    outside = judge(id, altered(OUTSIDE, "llama", comparison, quantity))
    assert outside.verdict == NO
    assert f"outside the margin: llama at {comparison}" in outside.numbers
    # Of another quantity nothing is taken.
    assert judge(id, altered(OUTSIDE, "llama", comparison, "mean_reward")).verdict == YES


def test_holm_over_models_and_comparisons():
    """The smallest of four p-values counts fourfold: 0.02 is not enough, 0.01 is."""
    for p, verdict in ((0.02, PARTLY), (0.01, NO)):
        assert judge("C3", altered(OUTSIDE | {"p_different": p}, "llama", PROMPTS, "plateau")).verdict == verdict
    np.testing.assert_allclose(holm(pd.Series([0.01, np.nan, 0.04])), [0.02, np.nan, 0.04])
    assert np.isnan(holm(pd.Series([np.nan]))).all()


def test_nothing_decided_is_not_tested():
    for id in ("C3", "C4"):
        found = judge(id, altered({"p_equivalence": 0.3, "p_different": 0.3}))
        assert found.verdict == UNTESTED
        assert "undecided" in found.numbers


def test_trajectory_names_its_steps_and_the_mean_beside_it():
    numbers = judge("C4").numbers
    assert "n = 12 + 12, steps 25 to 48, equivalence p = 0.001" in numbers
    assert "mean over all steps, equal completions: llama 0.01 [-0.01, 0.03]" in numbers
    assert "; mean over all steps, equal prompts: llama 0.01 [-0.01, 0.03]" in numbers
    # Against the margin, Holm's adjusted values: 0.02 is the smallest of four.
    found = judge("C4", altered({"p_different": 0.02}, "llama", COMPLETIONS, "trajectory")).numbers
    assert (
        "llama 0.01 [-0.01, 0.03] (n = 12 + 12, steps 25 to 48, equivalence p = 0.001, outside the margin p = 0.08)"
        in (found)
    )


@pytest.mark.parametrize(
    ("values", "quantity", "verdict"),
    [
        ({"low": 1.01, "high": 4.01}, "scatter", YES),
        ({"low": 0.99}, "scatter", UNTESTED),
        ({"low": 0.99}, "scatter_runs", PARTLY),
        ({"low": 0.99}, "scatter_raw", UNTESTED),
        ({"high": 3.9}, "scatter_raw", UNTESTED),
        ({"low": 0.9, "high": 3.9}, "scatter", NO),
        ({"low": 4.1, "high": np.inf}, "scatter", NO),
        ({"effect": np.nan, "low": np.nan, "high": np.nan}, "scatter", UNTESTED),
    ],
)
def test_scatter_is_judged_at_equal_prompts_over_all_models(values, quantity, verdict):
    assert judge("C5", altered(values, "all", PROMPTS, quantity)).verdict == verdict
    # Neither a single model's row nor equal completions decide.
    assert judge("C5", altered(values, "llama", PROMPTS, quantity)).verdict == YES
    assert judge("C5", altered(values, "all", COMPLETIONS, quantity)).verdict == YES


def test_scatter_gives_what_it_is_set_against():
    numbers = judge("C5").numbers
    assert "equal prompts (n = 12 + 12 runs): ratio of the policies' variances 4 [1.6, 10]" in numbers
    assert (
        "expected ratio is 3.6 from exact sums, 4 to leading order, 1 if the draw of prompts alone made it" in numbers
    )
    assert "equal completions (n = 12 + 12 runs): ratio of the policies' variances 1 [0.4, 2.5]" in numbers
    assert "0.9 from exact sums, 1 to leading order, 0.25 if the draw of prompts alone made it" in numbers
    assert "G^-a with a = 1 [0.339, 1.66]" in numbers


def test_one_model_needs_no_pooled_row():
    table = group_size_table(MODELS[:1])
    table = table[table["model"] != "all"]
    assert judge("C5", table).verdict == YES
    assert judge("B3", table).verdict == HOLDS


def test_without_the_variant_only_equal_completions_are_judged():
    table = group_size_table()
    table = table[table["comparison"] == COMPLETIONS]
    assert judge("C3", table).verdict == YES
    assert judge("C5", table).verdict == UNTESTED
    for id in ("C3", "C4", "C5", "B3"):
        assert "equal prompts: no such runs" in judge(id, table).numbers


def test_finite_groups_in_runs_hold_partly_and_fail():
    assert judge("B3").verdict == HOLDS
    assert "runs, holds: exact sums agree in 6 of 6 ratios, the leading order excluded in 6" in judge("B3").numbers
    off = {"p_expected": 1e-6, "low": 0.5, "high": 0.6}
    one = judge("B3", altered(off, "all", COMPLETIONS, "half_rise"))
    assert one.verdict == PARTLY
    assert "agree in 5 of 6 ratios" in one.numbers
    assert judge("B3", altered(off, "all")).verdict == FAILS
    # A small deviation that many batches make significant still agrees: 0.78 to 0.84 lies within 10 % of 0.8.
    assert judge("B3", altered({"p_expected": 1e-6}, "all")).verdict == HOLDS
    # Intervals that exclude nothing do not tell the exact sums from the leading order.
    assert judge("B3", altered({"p": 0.5}, "all")).verdict == PARTLY
    # Adam's normalisation stands beside the half-rise and does not decide.
    assert judge("B3", altered(off, "all", quantity="half_rise_adam")).verdict == HOLDS
    assert "with Adam's normalisation 0.8 expected" in judge("B3").numbers


def test_the_worse_part_of_the_two_decides():
    bad = evidence().drift.assign(drift_low=10.0, drift_high=11.0, noise_low=10.0, noise_high=11.0)
    bandit_fails = replace(evidence(), drift=bad, stationary_variance=evidence().stationary_variance.assign(low=9.0))
    assert REGISTER["B3"].judge(bandit_fails).verdict == FAILS
    none = check(pd.DataFrame(columns=list(GROUP_SIZE.columns)), GROUP_SIZE)
    assert REGISTER["B3"].judge(replace(bandit_fails, group_size=none)).verdict == FAILS
    assert REGISTER["B3"].judge(replace(evidence(), group_size=none)).verdict == UNTESTED
