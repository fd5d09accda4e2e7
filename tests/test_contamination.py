"""Checks of benchmarks before the evaluation: what training gives away, and gold answers that cannot be scored."""

from __future__ import annotations

import pandas as pd
import pytest
import real_formats

from grpo_dynamics import tables
from grpo_dynamics.tasks import benchmarks
from grpo_dynamics.tasks.checks import check
from grpo_dynamics.tasks.contamination import Match, Training, masked, ngram_length, words

LONG = (
    "A farmer walks to the market with twelve eggs and sells 3 of them to the first of his many customers there today."
)
EIGHT_WORDS = ["One word more or less in eight words"] * 9  # with these beside a problem, n is 8
TRAINING = Training(["Tom has 4 red pens. How many?", LONG, LONG])


def test_words_ignore_case_punctuation_and_white_space():
    assert words("Ann's  PRICE: $1,234.50\n(or ½)?") == ["ann", "s", "price", "1234.50", "or", "1", "2"]
    assert masked(words("three hundred 4 pens, 5.")) == ["#", "pens", "#"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("tom has 4 RED pens; how many", ("identical", 0, 1.0)),
        # Of its 16 8-grams 8 hold the number.
        (LONG.replace("3", "3.0"), ("same but for numbers", 1, 1 / 2)),
        ("Tom has five red pens. How many?", ("same but for numbers", 0, 0.0)),
        # Shorter than 8 words: as a whole, or not at all.
        ("How many?", ("n-gram overlap", 0, 1.0)),
        ("Tom has many.", None),
        # 8 of the training problem's words in a row, of 12: one of the five 8-grams; 7 in a row are none.
        ("He walks to the market with twelve eggs and then goes home", ("n-gram overlap", 1, 1 / 5)),
        ("He walks to the market with twelve cats and then goes home", None),
        ("", None),
    ],
)
def test_the_strictest_criterion_is_given_with_the_most_similar_problem(question, expected):
    found = TRAINING.matches([question, *EIGHT_WORDS])
    assert found == ([] if expected is None else [Match(0, expected[0], expected[1], pytest.approx(expected[2]))])


def test_n_is_the_5th_percentile_of_lengths_between_8_and_13():
    assert ngram_length([9, *range(11, 30)]) == 9  # the shortest of 20
    assert ngram_length([9, 10, *range(11, 50)]) == 11  # the third of 41
    assert ngram_length([2] * 50) == 8 and ngram_length([40] * 50) == 13


def test_of_several_problems_the_one_with_most_n_grams_is_most_similar():
    known = Training(["a b c d e f g h x", "a b c d e f g h i x", "z a b c d e f g h i y"])
    (match,) = known.matches(["a b c d e f g h i j", *EIGHT_WORDS])
    assert match == Match(0, "n-gram overlap", 1, pytest.approx(2 / 3))


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The three tables of all nine benchmarks in their real formats, one of whose problems is also trained on."""
    folder = tmp_path_factory.mktemp("data")
    loaded = {name: benchmarks.load(name, real_formats.write_file(name, folder)) for name in benchmarks.BENCHMARKS}
    training = benchmarks.load("gsm8k", real_formats.write_file("gsm8k_train", folder))
    training.append({**loaded["svamp"][1], "id": "leaked"})
    asked = [{**problem, "question": benchmarks.prompt("gsm8k", problem)} for problem in training]
    schemas = (tables.BENCHMARK_CHECKS, tables.UNSCORABLE, tables.CONTAMINATION)
    found = []
    for table, schema in zip(check(loaded, asked), schemas, strict=True):
        tables.write(table, folder / f"{schema.name}.csv", schema)
        found.append(tables.read(folder / f"{schema.name}.csv", schema))
    return found


def test_gold_answers_of_all_nine_score_or_are_listed(checked):
    totals, unscorable, _ = checked
    counts = totals[totals["group"].isna()].set_index("benchmark")[["items", "unscorable"]]
    assert counts["items"].to_dict() == {name: len(real_formats.rows(name)) for name in benchmarks.BENCHMARKS}
    left = counts.loc[counts["unscorable"] > 0, "unscorable"].to_dict()
    assert left == {"gsm_plus": 3, "asdiv": 2, "olympiadbench": 1} == unscorable["benchmark"].value_counts().to_dict()
    assert unscorable["reason"].str.startswith("gold answer ").all()
    assert unscorable["item"].tolist()[3:5] == ["0002", "0003"]


def test_groups_of_gsm_plus_are_counted_apart(checked):
    totals = checked[0].dropna(subset="group").set_index("group")
    assert set(totals["benchmark"]) == {"gsm_plus"}
    assert totals["items"].to_dict() == dict.fromkeys(real_formats.PERTURBATIONS, 3)
    assert totals["unscorable"].to_dict() == dict.fromkeys(real_formats.PERTURBATIONS, 0) | {"critical thinking": 3}


def test_what_is_trained_on_is_found_behind_the_instruction(checked):
    totals, _, contamination = checked
    (leaked,) = contamination[contamination["criterion"] == "identical"].to_dict("records")
    assert (leaked["benchmark"], leaked["item"], leaked["training_item"]) == ("svamp", "chal-1", "leaked")
    svamp = totals.set_index("benchmark").loc["svamp"]
    assert (svamp["identical"], svamp["same_but_for_numbers"], svamp["n_gram_overlap"]) == (1, 2, 0)
    assert svamp["known_share"] == 1
    assert contamination["benchmark"].value_counts()["svamp"] == 3


def test_ids_that_look_like_numbers_stay_as_they_are(tmp_path):
    known = {"id": "0029", "question": "How many pens?", "answer": "1", "kind": "number", "group": ""}
    contamination = check({"amc23": [known]}, [known])[2]
    tables.write(contamination, tmp_path / "table.csv", tables.CONTAMINATION)
    (read,) = tables.read(tmp_path / "table.csv", tables.CONTAMINATION).to_dict("records")
    assert (read["item"], read["training_item"]) == ("0029", "0029")


def test_nothing_found_is_a_table_without_rows(tmp_path):
    problem = {"id": "a", "question": "One?", "answer": "1", "kind": "number", "group": ""}
    totals, unscorable, contamination = check({"amc23": [problem]}, [{"id": "b", "question": "Two words?"}])
    for table, schema in ((unscorable, tables.UNSCORABLE), (contamination, tables.CONTAMINATION)):
        tables.write(table, tmp_path / "table.csv", schema)
        assert tables.read(tmp_path / "table.csv", schema).empty
    assert pd.isna(totals["group"]).sum() == 0 and totals["known_share"].tolist() == [0]
