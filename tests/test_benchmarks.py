"""Loading benchmarks: rows as on the hub and as the authors publish them become problems of one form."""

from __future__ import annotations

import json

import pytest

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks.benchmarks import BENCHMARKS, hub_source, load, unscorable

OLYMPIAD = {"context": None, "question": "Find $x$.", "is_multiple_answer": False, "unit": None, "error": None}

# benchmark, row, and the problem's id, question, answer and group
ROWS = [
    (
        "gsm8k",
        {"question": "How many?", "answer": "500*4.25=<<500*4.25=2125>>2,125 in all.\n#### 2,125"},
        ("0000", "How many?", "2125", ""),
    ),
    (
        "gsm_plus",
        {
            "question": "How high?",
            "answer": "4.33",
            "perturbation_type": "numerical substitution",
            "seed_question": "Q",
        },
        ("0000 numerical substitution", "How high?", "4.33", "numerical substitution"),
    ),
    (
        "asdiv",
        {"body": "Two apples.", "question": "How many?", "answer": "2 (apples)", "formula": "2=2"},
        ("0000", "Two apples. How many?", "2", ""),
    ),
    ("asdiv", {"body": "A.", "question": "B?", "answer": "-(1/3)"}, ("0000", "A. B?", "-1/3", "")),
    (
        "asdiv",
        {"body": "A.", "question": "B?", "answer": "3 (pens); 4 (cups)"},
        ("0000", "A. B?", "3 (pens); 4 (cups)", ""),
    ),
    (
        "svamp",
        {"ID": "chal-1", "Body": "A pack costs 76 dollars", "Question": "How much?", "Answer": 51.0, "Type": "-"},
        ("chal-1", "A pack costs 76 dollars. How much?", "51", ""),
    ),
    (
        "svamp",
        {"ID": "chal-2", "Body": "It costs 4.", "Question": "How much?", "Answer": "145.0"},
        ("chal-2", "It costs 4. How much?", "145", ""),
    ),
    (
        "math500",
        {"problem": "Half of 1?", "answer": r"\frac{1}{2}", "unique_id": "test/a/1.json", "level": 1},
        ("test/a/1.json", "Half of 1?", r"\frac{1}{2}", ""),
    ),
    ("amc23", {"id": 15, "question": "What is $x$?", "answer": "-1.0", "url": ""}, ("15", "What is $x$?", "-1", "")),
    ("amc23", {"id": 15, "problem": "What is $x$?", "answer": 27.0}, ("15", "What is $x$?", "27", "")),
    ("aime2025", {"id": "a-0", "problem": "Sum?", "expected_answer": "070"}, ("a-0", "Sum?", "070", "")),
    ("aime2026", {"answer": "277", "prompt": "How far?"}, ("0000", "How far?", "277", "")),
    ("aime2026", {"problem_idx": 3, "answer": 62, "problem": "How far?"}, ("3", "How far?", "62", "")),
    (
        "olympiadbench",
        {"id": 1606, "final_answer": ["$69$,$84$"], "answer_type": "Numerical", **OLYMPIAD},
        ("1606", "Find $x$.", "69,84", ""),
    ),
    (
        "olympiadbench",
        {"id": 7, "final_answer": "['1', '$2$']", "language": "English", **OLYMPIAD, "context": "Let $x>0$."},
        ("7", "Let $x>0$.\nFind $x$.", "1, 2", ""),
    ),
]


def _write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "row", "expected"), ROWS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(ROWS)])
def test_row_becomes_a_problem(tmp_path, name, row, expected):
    (problem,) = load(name, _write(tmp_path / "rows.jsonl", [row]))
    identifier, question, answer, group = expected
    kind = "latex" if name in ("math500", "olympiadbench") else "number"
    expected = {"id": identifier, "question": question, "answer": answer, "kind": kind, "group": group}
    assert problem == expected | {"cluster": identifier}


def test_variants_of_one_question_are_one_cluster(tmp_path):
    kinds = ("rephrased", "with more digits")
    rows = [
        {"question": f"{seed}, {kind}?", "answer": "1", "perturbation_type": kind, "seed_question": f"{seed}? "}
        for seed in "AB"
        for kind in kinds
    ]
    found = load("gsm_plus", _write(tmp_path / "g.jsonl", rows))
    assert [problem["cluster"] for problem in found] == ["0000 rephrased"] * 2 + ["0002 rephrased"] * 2


def test_every_real_benchmark_is_tried():
    assert {name for name, *_ in ROWS} == set(BENCHMARKS)


def test_where_problems_are_on_the_hub():
    assert hub_source("gsm8k_train") == ("gsm8k", "openai/gsm8k", "main", "train")
    assert hub_source("asdiv") == ("asdiv", "EleutherAI/asdiv", None, "validation")
    with pytest.raises(ValueError, match="found 'gsm9k', expected gsm8k_train or one of"):
        hub_source("gsm9k")


def test_a_json_list_is_read_as_well(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"problem": "Sum?", "answer": 1}, {"problem": "Product?", "answer": 2}]))
    assert [problem["id"] for problem in load("aime2026", path)] == ["0000", "0001"]


def test_olympiadbench_keeps_text_only_english_open_ended(tmp_path):
    names = ("question_type", "language", "modality")
    kinds = [("Open-ended", "English", "Text-only"), ("Theorem proof", "English", "Text-only")]
    kinds += [("Open-ended", "Chinese", "Text-only"), ("Open-ended", "English", "Multimodal")]
    rows = [
        {"id": index, "final_answer": ["1"], **OLYMPIAD, **dict(zip(names, kind, strict=True))}
        for index, kind in enumerate(kinds)
    ]
    assert [problem["id"] for problem in load("olympiadbench", _write(tmp_path / "o.jsonl", rows))] == ["0"]


def test_repeated_ids_are_told_apart(tmp_path):
    rows = [{"id": 1, "problem": "I 1", "answer": "70"}, {"id": 1, "problem": "II 1", "answer": "71"}]
    assert [problem["id"] for problem in load("aime2025", _write(tmp_path / "a.jsonl", rows))] == ["0000 1", "0001 1"]


def test_ladder_file_is_taken_as_it_is(tmp_path):
    row = {"id": "nested-3", "question": "How many?", "answer": "12", "kind": "number"}
    assert load("ladder_nested", _write(tmp_path / "l.jsonl", [row])) == [{**row, "group": "", "cluster": row["id"]}]


def test_unscorable_problems_are_named_with_a_reason(tmp_path):
    rows = [
        {"question": "A?", "answer": answer, "perturbation_type": kind, "seed_question": "A"}
        for answer, kind in [("None", "critical thinking"), ("1/4", "digit expansion"), ("4.33", "digit expansion")]
    ]
    reasons = unscorable(load("gsm_plus", _write(tmp_path / "g.jsonl", rows)))
    assert reasons == {"0000 critical thinking": "gold answer 'None' is not a number"}
    (reason,) = unscorable([{"id": "1", "answer": "t(0,4]", "kind": "latex"}]).values()
    assert "not a formula" in reason


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gsm9k", "{}", "found 'gsm9k', expected"),
        ("gsm8k", '{"question": "A?"}', r"row 0: found fields \['question'\], expected those of gsm8k"),
        ("aime2026", '{"question": "A?"}', r"row 0: found fields \['question'\], expected those of aime2026"),
        ("gsm8k", "not json", "expected a JSON list or JSON Lines"),
        ("gsm8k", "{}\n\nnot json", "found Expecting value in line 3, column 1, expected a JSON list or JSON Lines"),
        ("gsm8k", "", "found no problems"),
        ("gsm8k", "\n \n", "found no problems"),
        ("gsm8k", '{"question": "A?", "answer": "#### 1"}\n[1]', r"rows.jsonl: row 1: found \[1\], expected an object"),
        ("gsm8k", '[{"question": "A?", "answer": "#### 1"}, null]', "row 1: found null, expected an object"),
        ("gsm8k", '{"question": null, "answer": "#### 1"}', "row 0: question: found null, expected a value"),
        ("gsm8k", '{"question": "A?", "answer": null}', "row 0: answer: found null, expected a value"),
        ("asdiv", '{"body": "A.", "question": null, "answer": "1"}', "row 0: question: found null"),
        ("aime2026", '{"question": "A?", "answer": null}', "row 0: answer: found null"),
        ("ladder_nested", '{"id": "a", "question": null, "answer": "1"}', "row 0: question: found null"),
        ("ladder_nested", '{"id": "a", "question": "A?", "answer": null}', "row 0: answer: found null"),
    ],
)
def test_bad_input_is_named(tmp_path, name, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        load(name, path)


@pytest.mark.parametrize("answer", ["not a list", "5", "['1'", 5, [], ["1", None], {"a": 1}])
def test_olympiadbench_answers_are_a_list(tmp_path, answer):
    path = _write(tmp_path / "o.jsonl", [{"id": 1, "final_answer": answer, **OLYMPIAD}])
    with pytest.raises(InputError, match=r"o.jsonl: row 0: final_answer: found .*, expected a list of answers$"):
        load("olympiadbench", path)
    with pytest.raises(InputError, match=r"row 0: final_answer: found null, expected a value$"):
        load("olympiadbench", _write(path, [{"id": 1, "final_answer": None, **OLYMPIAD}]))


def test_lines_end_at_line_feeds_alone_and_blank_ones_are_skipped(tmp_path):
    rows = [{"question": "A\u2028B?", "answer": "#### 1"}, {"question": "C\x85D?", "answer": "#### 2"}]
    first, second = (json.dumps(row, ensure_ascii=False) for row in rows)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f"\n{first}\r\n\n{second}\n \n".encode())
    loaded = load("gsm8k", path)
    assert [(problem["id"], problem["question"]) for problem in loaded] == [("0000", "A\u2028B?"), ("0001", "C\x85D?")]


def test_an_id_may_be_null(tmp_path):
    path = _write(tmp_path / "a.jsonl", [{"id": None, "problem": "Sum?", "answer": "70"}])
    assert [problem["id"] for problem in load("aime2025", path)] == ["0000"]
