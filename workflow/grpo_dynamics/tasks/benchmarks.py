"""The benchmarks: where their problems come from, and one form for all of them.

A problem is a dict with the keys

==========  ============================================================================================
id          name of the problem within its benchmark
question    the problem's text, without any instruction on the answer's form
answer      gold answer, without a box, marker or unit
kind        "number" or "latex": how answers to it compare (see `grpo_dynamics.tasks.scoring`)
group       kind of problem within the benchmark (GSM-Plus: the perturbation); empty elsewhere
cluster     shared by the variants of one question (GSM-Plus: eight), which are no independent problems; else the id
==========  ============================================================================================
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from grpo_dynamics.command import InputError
from grpo_dynamics.tasks import problems
from grpo_dynamics.tasks.scoring import Kind, scorable

Row = dict[str, object]


class _Fields(dict):
    """A row, whose fields must have values where they are taken by ``row[field]``."""

    def __getitem__(self, field: str) -> object:
        value = super().__getitem__(field)
        if value is None:
            raise InputError(f"{field}: found null, expected a value")
        return value


@dataclass(frozen=True)
class Benchmark:
    """Where a benchmark is found on the Hugging Face hub, and how a row of it becomes a problem.

    Attributes
    ----------
    hub : str
        Data set id.
    config : str or None
        Configuration of the data set.
    split : str
        Split that is evaluated.
    kind : {"number", "latex"}
        How its answers compare.
    normalise : callable
        From a row, as on the hub or in the authors' own file, to a dict with ``question`` and ``answer`` (and ``id``,
        ``group`` or ``variant_of`` where the row has them); None for a row that does not belong to the benchmark.
    """

    hub: str
    config: str | None
    split: str
    kind: Kind
    normalise: Callable[[Row], Row | None]


def _gsm8k(row: Row) -> Row:
    return {"question": row["question"], "answer": str(row["answer"]).rpartition("####")[2].strip().replace(",", "")}


def _gsm_plus(row: Row) -> Row:
    return {
        "question": row["question"],
        "answer": row["answer"],
        "group": row["perturbation_type"],
        "variant_of": row["seed_question"],
    }


def _asdiv(row: Row) -> Row:
    """``9 (apples)`` is 9. Several answers, ``3 (pens); 4 (cups)``, stay as they are, and cannot be scored."""
    answer = str(row["answer"])
    if ";" not in answer:
        answer = re.sub(r"\s*\([A-Za-z][^)]*\)\s*$", "", answer)
        answer = re.sub(r"^-\((.+)\)$", r"-\1", answer)
    return {"question": f"{row['body']} {row['question']}", "answer": answer}


def _svamp(row: Row) -> Row:
    body = str(row["Body"]).strip()
    body = body if body.endswith((".", "?", "!")) else f"{body}."
    return {"id": row["ID"], "question": f"{body} {row['Question']}", "answer": _integral(row["Answer"])}


def _math500(row: Row) -> Row:
    return {"id": row["unique_id"], "question": row["problem"], "answer": row["answer"]}


def _olympiadbench(row: Row) -> Row | None:
    """Text-only, English, open-ended problems; several answers to one problem compare as a set.

    The tolerance that a row may give (``error``; one of the 675 problems has it) is not used: its answer, 4.2 within
    0.1, compares like any other.
    """
    wanted = {"question_type": "Open-ended", "language": "English", "modality": "Text-only"}
    if any(key in row and row[key] != value for key, value in wanted.items()):
        return None
    answers = _listed(row["final_answer"])
    answer = ", ".join(str(part).replace("$", "").strip().rstrip(".") for part in answers)
    question = f"{row['context']}\n{row['question']}" if row.get("context") else row["question"]
    return {"id": row["id"], "question": question, "answer": answer}


def _listed(answers: object) -> list:
    """The answers of an OlympiadBench row: a list, or the text of one."""
    found = answers
    if isinstance(answers, str):
        try:
            found = ast.literal_eval(answers)
        except (SyntaxError, ValueError):
            found = None
    if not isinstance(found, list) or not found or None in found:
        raise InputError(f"final_answer: found {answers!r}, expected a list of answers")
    return found


def _competition(row: Row) -> Row:
    """AMC and AIME, under the column names that their several editions use."""
    question = next(row[key] for key in ("problem", "question", "prompt") if key in row)
    answer = next(row[key] for key in ("answer", "expected_answer") if key in row)
    identifier = next((row.get(key) for key in ("id", "problem_idx") if key in row), None)
    return {"id": identifier, "question": question, "answer": _integral(answer)}


def _integral(answer: object) -> str:
    """``27.0`` as 27: these benchmarks store integers as floats."""
    text = str(answer).strip()
    return text.removesuffix(".0") if re.fullmatch(r"-?\d+\.0", text) else text


BENCHMARKS = {
    "gsm8k": Benchmark("openai/gsm8k", "main", "test", "number", _gsm8k),
    "gsm_plus": Benchmark("qintongli/GSM-Plus", None, "testmini", "number", _gsm_plus),
    "asdiv": Benchmark("EleutherAI/asdiv", None, "validation", "number", _asdiv),
    "svamp": Benchmark("ChilleD/SVAMP", None, "test", "number", _svamp),
    "math500": Benchmark("HuggingFaceH4/MATH-500", None, "test", "latex", _math500),
    "amc23": Benchmark("math-ai/amc23", None, "test", "number", _competition),
    "olympiadbench": Benchmark("Hothan/OlympiadBench", "OE_TO_maths_en_COMP", "train", "latex", _olympiadbench),
    "aime2025": Benchmark("math-ai/aime25", None, "test", "number", _competition),
    "aime2026": Benchmark("math-ai/aime26", None, "test", "number", _competition),
}


# Asks for the form of answer that the scorer looks for first; the same in training and in evaluation.
INSTRUCTION = "\n\nPlease reason step by step, and put the final answer in \\boxed{}."


def prompt(name: str, problem: dict) -> str:
    """What the model is asked: the question, and for all but the generated ladder how to give the answer."""
    return problem["question"] if name.startswith("ladder_") else problem["question"] + INSTRUCTION


def without_instruction(question: str) -> str:
    """The question of a training problem as its data set has it."""
    return question.removesuffix(INSTRUCTION)


class HubSource(NamedTuple):
    """A data set on the hub: the benchmark whose form it has, its id there, configuration and split."""

    benchmark: str
    hub: str
    config: str | None
    split: str


def hub_source(name: str) -> HubSource:
    """Where the problems called `name` are on the hub: those of a benchmark, or of ``gsm8k_train``, to train on."""
    known = name.removesuffix("_train")
    if known not in BENCHMARKS:
        raise InputError(f"data set: found {name!r}, expected gsm8k_train or one of {list(BENCHMARKS)}")
    benchmark = BENCHMARKS[known]
    return HubSource(known, benchmark.hub, benchmark.config, "train" if known != name else benchmark.split)


def load(name: str, path: str | Path) -> list[dict]:
    """The problems of a benchmark, in the form described above.

    Parameters
    ----------
    name : str
        A key of `BENCHMARKS`, or ``ladder_...``: a benchmark that the study generates.
    path : path
        JSON Lines file, or a JSON file holding a list, of rows as on the hub or as the authors publish them; of the
        ladder, rows of the form above.

    Raises
    ------
    ValueError
        For a name that is not known, a file that is not as described, or a row where a needed field is missing, null
        or, for OlympiadBench's answers, not a list.
    """
    if name in BENCHMARKS:
        normalise, kind = BENCHMARKS[name].normalise, BENCHMARKS[name].kind
    elif name.startswith("ladder_"):
        normalise, kind = dict, "number"
    else:
        raise InputError(f"benchmark: found {name!r}, expected ladder_..., or one of {list(BENCHMARKS)}")
    loaded = []
    for index, row in enumerate(problems.read(path)):
        try:
            problem = normalise(_Fields(row))
            if problem is not None:
                loaded.append(_problem(_Fields(problem), index, kind))
        except InputError as error:
            raise InputError(f"{path}: row {index}: {error}") from error
        except (KeyError, StopIteration) as error:
            raise InputError(f"{path}: row {index}: found fields {sorted(row)}, expected those of {name}") from error
    if not loaded:
        raise InputError(f"{path}: found no problems, expected those of {name}")
    if len({problem["id"] for problem in loaded}) < len(loaded):
        # The two papers of a year's competition may both count from 1.
        loaded = [{**problem, "id": f"{index:04d} {problem['id']}"} for index, problem in enumerate(loaded)]
    return _clustered(loaded)


def unscorable(loaded: list[dict]) -> dict[str, str]:
    """The problems whose gold answer does not score as right against itself: id to reason."""
    reasons = {}
    for problem in loaded:
        gold, kind = problem["answer"], problem["kind"]
        if not scorable(gold, kind):
            what = "not a number" if kind == "number" else "not a formula that math_verify can parse and compare"
            reasons[problem["id"]] = f"gold answer {gold!r} is {what}"
    return reasons


def _problem(row: Row, index: int, kind: Kind) -> dict:
    group = str(row.get("group") or "")
    identifier = row.get("id")
    if identifier is None:
        identifier = f"{index:04d} {group}".strip()
    return {
        "id": str(identifier),
        "question": str(row["question"]).strip(),
        "answer": str(row["answer"]).strip(),
        "kind": row.get("kind", kind),
        "group": group,
        "variant_of": row.get("variant_of"),
    }


def _clustered(loaded: list[Row]) -> list[dict]:
    """Variants of one question get the id of the first of them as their cluster."""
    first: dict[str, str] = {}
    found = []
    for problem in loaded:
        question = problem.pop("variant_of")
        cluster = problem["id"] if question is None else first.setdefault(str(question).strip(), problem["id"])
        found.append({**problem, "cluster": cluster})
    return found
