"""Problems in the columns of GSM8K and the nine benchmarks as they are on the hub, made here and simple.

The columns are those of the data sets, the problems are not theirs. Most answers have one digit, so that a tiny model
is sometimes right.
"""

from __future__ import annotations

import json
from pathlib import Path

from fake_hub import write_dataset_repo

from grpo_dynamics.sources import hub_data
from grpo_dynamics.tasks.benchmarks import hub_source

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn")
THINGS = ("plums", "pens", "stamps", "shells", "cards")
PERTURBATIONS = ("numerical substitution", "digit expansion", "critical thinking")


def gsm8k(rows: int, first: int = 0) -> list[dict]:
    """Sums and differences of small numbers; `first` shifts them, so that splits differ."""
    found = []
    for index in range(first, first + rows):
        name, thing = NAMES[index % len(NAMES)], THINGS[index % len(THINGS)]
        a, b = 3 + index % 4, 1 + index // 4 % 3
        if index % 2:
            story, verb, sign, total = f"{name} has {a} {thing} and finds {b} more", "have", "+", a + b
        else:
            story, verb, sign, total = f"{name} has {a} {thing} and loses {b} of them", "keep", "-", a - b
        place = f"on day {index + 1} of the holidays"
        question = f"{story} {place}. How many {thing} does {name} {verb}?"
        answer = f"{name} has {a}{sign}{b}=<<{a}{sign}{b}={total}>>{total} {thing}.\n#### {total}"
        found.append({"question": question, "answer": answer})
    return found


def gsm_plus() -> list[dict]:
    found = []
    for index, seed in enumerate(gsm8k(9, first=100)):
        kind = PERTURBATIONS[index % 3]
        answer = "None" if kind == "critical thinking" else str(index % 9)
        question = (
            f"On a rainy day there are {index % 9} cups on a table and nobody takes one. How many cups are there?"
        )
        solution = f"Nobody takes one.\n#### {answer}"
        seeds = {"seed_question": seed["question"], "seed_solution": seed["answer"], "seed_answer": "4"}
        found.append({"question": question, "solution": solution, "answer": answer, "perturbation_type": kind} | seeds)
    return found


def asdiv() -> list[dict]:
    """The last two cannot be scored: a time, and two answers."""
    body, kind = "There are 2 blue and 5 red kites in the sky.", "Addition"
    rows = [("How many kites are there?", "7 (kites)", "2+5=7"), ("How many more are red?", "3 (kites)", "5-2=3")]
    rows += [("When do they land?", "6:10", "6:10"), ("How many of each?", "2 (blue); 5 (red)", "2;5")]
    return [{"body": body, "question": q, "solution_type": kind, "answer": a, "formula": f} for q, a, f in rows]


def svamp() -> list[dict]:
    rows = [(3, 2, "Addition", "+", 5.0), (9, 5, "Subtraction", "-", 4.0), (4, 2, "Multiplication", "*", 8.0)]
    return [
        {
            "ID": f"chal-{index}",
            "Body": f"A box holds {a} marbles and a bag {b}",
            "Question": "What do you get by the stated operation?",
            "Equation": f"( {a}.0 {sign} {b}.0 )",
            "Answer": str(answer),
            "Type": kind,
            "question_concat": f"A box holds {a} marbles and a bag {b}. What do you get by the stated operation?",
        }
        for index, (a, b, kind, sign, answer) in enumerate(rows)
    ]


def math500() -> list[dict]:
    rows = [
        ("What is $2+2$?", "4"),
        (r"Write half of $1$ as a fraction.", r"\frac{1}{2}"),
        ("Solve $x^2=9$.", r"\{-3,3\}"),
    ]
    return [
        {
            "problem": problem,
            "solution": rf"It is $\boxed{{{answer}}}$.",
            "answer": answer,
            "subject": "Algebra",
            "level": 1,
            "unique_id": f"test/algebra/{index}.json",
        }
        for index, (problem, answer) in enumerate(rows)
    ]


def amc23() -> list[dict]:
    rows = [("What is $3+4$?", 7.0), ("What is $1-2$?", -1.0)]
    return [{"id": i, "answer": a, "url": "https://example.org", "question": q} for i, (q, a) in enumerate(rows)]


def olympiadbench() -> list[dict]:
    """The last cannot be scored: math_verify does not read it."""
    rows = [("Find the even prime.", "$2$", "Numerical"), ("Solve $(x-1)(x-4)=0$.", "$1$,$4$", "Numerical")]
    rows += [("For which $t$ does a half-open interval hold?", "$t(0,4]$", "Interval")]
    constant = {"error": None, "question_type": "Open-ended", "subfield": "Algebra", "subject": "Math", "unit": None}
    constant |= {"language": "English", "modality": "Text-only", "difficulty": "Competition", "context": None}
    return [
        {
            "id": 1600 + index,
            "question": question,
            "solution": ["By inspection."],
            "final_answer": [answer],
            "is_multiple_answer": "," in answer,
            "answer_type": kind,
        }
        | constant
        for index, (question, answer, kind) in enumerate(rows)
    ]


def aime(year: int) -> list[dict]:
    rows = [(f"Find the last digit of ${year}$.", str(year % 10)), ("Find $10^2-1$.", "99"), ("Find $7^2+30$.", "079")]
    return [{"problem": question, "answer": answer, "id": str(index)} for index, (question, answer) in enumerate(rows)]


def rows(name: str) -> list[dict]:
    """The rows of a benchmark, or of ``gsm8k_train`` (48 problems)."""
    if name.startswith("aime"):
        return aime(int(name.removeprefix("aime")))
    if name.startswith("gsm8k"):
        return gsm8k(48) if name == "gsm8k_train" else gsm8k(6, first=60)
    return {
        "gsm_plus": gsm_plus,
        "asdiv": asdiv,
        "svamp": svamp,
        "math500": math500,
        "amc23": amc23,
        "olympiadbench": olympiadbench,
    }[name]()


def write_file(name: str, folder: Path) -> Path:
    """The rows as a local JSON Lines file."""
    path = folder / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(name)))
    return path


def write_hub_data(folder: Path, config: dict) -> dict[str, str]:
    """Serve, in a fake hub's folder, every data set that a study fetches, at the revisions it asks for.

    Returns the commits by name, as in `grpo_dynamics.sources.hub_data`.
    """
    commits = {}
    for name, revision in hub_data(config).items():
        source = hub_source(name)
        kind = "jsonl" if name in ("gsm_plus", "math500", "aime2025", "aime2026") else "parquet"
        splits = {source.split: rows(name)}
        if source.benchmark == "gsm8k":
            splits = {"train": rows("gsm8k_train"), "test": rows("gsm8k")}
        commits[name] = write_dataset_repo(folder, source.hub, {source.config: splits}, revision, kind)
    return commits
