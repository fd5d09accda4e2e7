"""The tables that the stages hand to each other: columns, meaning, and checked reading and writing.

Every stage boundary of the study is one of the schemas below. A table is checked when it is written and when it is
read, and it is written under a temporary name and renamed, so that a half-written table never exists.
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pandera.pandas as pa

_SHARE = pa.Check.in_range(0, 1)
_POSITIVE = pa.Check.gt(0)
_NOT_NEGATIVE = pa.Check.ge(0)


def _column(dtype, description: str, *checks: pa.Check, nullable: bool = False) -> pa.Column:
    return pa.Column(dtype, list(checks), description=description, nullable=nullable, coerce=True)


def _schema(name: str, columns: dict[str, pa.Column], unique: list[str]) -> pa.DataFrameSchema:
    return pa.DataFrameSchema(columns, name=name, unique=unique, strict=True, ordered=True)


_MODEL = _column(str, "name of the model in the config's catalogue")
_G = _column("Int64", "group size: completions per prompt", pa.Check.ge(2))
_SEED = _column("Int64", "seed of the run, as listed in the config", _NOT_NEGATIVE)

RUN_LOG = _schema(
    "run log",
    {
        "model": _MODEL,
        "G": _G,
        "seed": _SEED,
        "step": _column("Int64", "optimiser step, from 1", _POSITIVE),
        "sample_age": _column("Int64", "optimiser steps since the batch was sampled, 0 .. K_ref - 1", _NOT_NEGATIVE),
        "reward": _column(float, "mean reward of the batch's completions (measured when sample_age is 0)"),
        "reward_std": _column(float, "within-group standard deviation of the reward (population), mean over groups"),
        "advantage_variance": _column(float, "variance of the advantages over the batch (population)", _NOT_NEGATIVE),
        "collapsed_share": _column(float, "share of groups whose rewards are all equal", _SHARE),
        "entropy": _column(float, "policy entropy, nats per token, mean over completion tokens", _NOT_NEGATIVE),
        "kl": _column(float, "KL to the base model, nats per token (k3 estimator), mean over completion tokens"),
        "grad_norm": _column(float, "norm of the gradient before clipping", _NOT_NEGATIVE),
        "clip_low": _column(float, "share of tokens clipped below 1 - clip_epsilon", _SHARE),
        "clip_high": _column(float, "share of tokens clipped above 1 + clip_epsilon", _SHARE),
        "ratio_min": _column(float, "smallest importance ratio pi/pi_old of a token", _NOT_NEGATIVE),
        "ratio_mean": _column(float, "mean importance ratio over completion tokens", _NOT_NEGATIVE),
        "ratio_max": _column(float, "largest importance ratio of a token", _NOT_NEGATIVE),
        "heldout_reward": _column(
            float, "reward on held-out problems after this step; empty where not measured", _SHARE, nullable=True
        ),
        "learning_rate": _column(float, "eta", _NOT_NEGATIVE),
        "loss": _column(float, "the trainer's loss"),
        "completion_length": _column(float, "tokens per completion, mean", _NOT_NEGATIVE),
        "truncated_share": _column(float, "share of completions cut at max_completion_length", _SHARE),
        "tokens": _column("Int64", "completion tokens in the batch", _NOT_NEGATIVE),
        "seconds": _column(float, "wall time of the step, without the held-out measurement", _NOT_NEGATIVE),
    },
    unique=["model", "G", "seed", "step"],
)

# A checkpoint is named by (model, G, seed); both are empty for the base model.
_CHECKPOINT = {
    "model": _MODEL,
    "G": _column("Int64", "group size of the run; empty for the base model", nullable=True),
    "seed": _column("Int64", "seed of the run; empty for the base model", nullable=True),
    "benchmark": _column(str, "benchmark, as listed in the config"),
}

EVALUATION_ITEMS = _schema(
    "evaluation items",
    {
        **_CHECKPOINT,
        "item": _column(str, "the problem's id in its benchmark"),
        "sample": _column("Int64", "index of the sampled completion, from 0", _NOT_NEGATIVE),
        "gold": _column(str, "right answer"),
        "answer": _column(str, "answer found in the completion; empty if none", nullable=True),
        "found_by": _column(
            str,
            "how the answer was found",
            pa.Check.isin(["box", "marker", "last number", "none", "timeout", "unscorable"]),
        ),
        "reward": _column(
            float,
            "1 if right, else 0; empty where the gold cannot be scored or the comparison timed out",
            nullable=True,
        ),
        "completion": _column(str, "the completion as generated"),
    },
    unique=["model", "G", "seed", "benchmark", "item", "sample"],
)

EVALUATIONS = _schema(
    "evaluations",
    {
        **_CHECKPOINT,
        "distance": _column("Int64", "rank of distance from the training task, 0 = in distribution", _NOT_NEGATIVE),
        "items": _column("Int64", "scored problems", _NOT_NEGATIVE),
        "samples": _column("Int64", "completions per problem", _POSITIVE),
        "accuracy": _column(float, "mean reward over problems and samples", _SHARE),
        "standard_error": _column(float, "of the accuracy, over problems; empty for fewer than two", nullable=True),
        "no_answer_share": _column(float, "share of completions without an answer", _SHARE),
        "unscorable": _column("Int64", "problems whose gold answer does not score as right", _NOT_NEGATIVE),
        "timeouts": _column("Int64", "completions whose comparison timed out", _NOT_NEGATIVE),
    },
    unique=["model", "G", "seed", "benchmark"],
)

STAGE_TIMES = _schema(
    "stage times",
    {
        "stage": _column(str, "stage of the study, after the folder of its benchmark files"),
        "jobs": _column("Int64", "jobs of the stage", _POSITIVE),
        "seconds": _column(float, "wall time of its jobs, added up, s", _NOT_NEGATIVE),
        "longest": _column(float, "wall time of its longest job, s", _NOT_NEGATIVE),
        "memory": _column(float, "largest resident memory of a job, MB; empty if too short to be seen", nullable=True),
    },
    unique=["stage"],
)


def check(table: pd.DataFrame, schema: pa.DataFrameSchema, source: object = "table") -> pd.DataFrame:
    """Return `table` coerced to `schema`, its columns in the schema's order.

    Raises
    ------
    ValueError
        One sentence that names the source, the column, what was found and what was expected.
    """
    try:
        columns = [name for name in schema.columns if name in table.columns]
        extra = [name for name in table.columns if name not in schema.columns]
        return schema.validate(table[columns + extra])
    except pa.errors.SchemaError as error:
        column = getattr(error.schema, "name", None) or schema.name
        found = error.failure_cases
        if isinstance(found, pd.DataFrame) and "failure_case" in found:
            found = found["failure_case"].iloc[0]
        expected = error.check if not isinstance(error.check, pa.Check) else error.check.error or error.check.name
        raise ValueError(f"{source}: {schema.name}: column {column}: found {found}, expected {expected}") from error


def read(path: str | Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """Read a table (.csv or .parquet) and check it against `schema`."""
    path = Path(path)
    table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    return check(table, schema, path)


def write(table: pd.DataFrame, path: str | Path, schema: pa.DataFrameSchema) -> None:
    """Check `table` against `schema` and write it (.csv or .parquet) in one step."""
    path = Path(path)
    table = check(table.reset_index(drop=True), schema, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    if path.suffix == ".parquet":
        table.to_parquet(temporary, index=False)
    else:
        table.to_csv(temporary, index=False)
    os.replace(temporary, path)
