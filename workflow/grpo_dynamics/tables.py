"""The tables that the stages hand to each other: columns, meaning, and checked reading and writing.

Every stage boundary of the study is one of the schemas below. A table is checked when it is written and when it is
read, and it is written under a temporary name and renamed, so that a half-written table never exists.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from grpo_dynamics.command import InputError
from grpo_dynamics.files import replacing

SHARE = pa.Check.in_range(0, 1)
POSITIVE = pa.Check.gt(0)
NOT_NEGATIVE = pa.Check.ge(0)


def column(dtype, description: str, *checks: pa.Check, nullable: bool = False) -> pa.Column:
    return pa.Column(dtype, list(checks), description=description, nullable=nullable, coerce=True)


def schema(name: str, columns: dict[str, pa.Column], unique: list[str]) -> pa.DataFrameSchema:
    return pa.DataFrameSchema(columns, name=name, unique=unique, strict=True, ordered=True)


MODEL = column(str, "name of the model in the config's catalogue")
G = column("Int64", "group size: completions per prompt", pa.Check.ge(2))
SEED = column("Int64", "seed of the run, as listed in the config", NOT_NEGATIVE)

RUN_LOG = schema(
    "run log",
    {
        "model": MODEL,
        "G": G,
        "seed": SEED,
        "step": column("Int64", "optimiser step, from 1", POSITIVE),
        "sample_age": column("Int64", "optimiser steps since the batch was sampled, 0 .. K_ref - 1", NOT_NEGATIVE),
        "groups": column("Int64", "prompts of the batch, each with G completions", POSITIVE),
        "reward": column(float, "mean reward of the batch's completions (measured when sample_age is 0)"),
        "reward_std": column(float, "within-group standard deviation of the reward (population), mean over groups"),
        "reward_variance": column(float, "within-group variance of the reward (population), mean over groups"),
        "advantage_variance": column(float, "variance of the advantages over the batch (population)", NOT_NEGATIVE),
        "collapsed_share": column(float, "share of groups whose rewards are all equal", SHARE),
        "entropy": column(
            float, "policy entropy, nats per token, mean over completion tokens", NOT_NEGATIVE, nullable=True
        ),
        "kl": column(
            float, "KL to the base model, nats per token (k3 estimator), mean over completion tokens", nullable=True
        ),
        "grad_norm": column(
            float, "norm of the gradient before clipping; empty if not finite", NOT_NEGATIVE, nullable=True
        ),
        "clip_low": column(float, "share of tokens clipped below 1 - clip_epsilon", SHARE),
        "clip_high": column(float, "share of tokens clipped above 1 + clip_epsilon", SHARE),
        "ratio_min": column(float, "smallest importance ratio pi/pi_old of a token", NOT_NEGATIVE, nullable=True),
        "ratio_mean": column(float, "mean importance ratio over completion tokens", NOT_NEGATIVE, nullable=True),
        "ratio_max": column(float, "largest importance ratio of a token", NOT_NEGATIVE, nullable=True),
        "heldout_reward": column(
            float, "reward on held-out problems after this step; empty where not measured", SHARE, nullable=True
        ),
        "learning_rate": column(float, "eta", NOT_NEGATIVE),
        "loss": column(float, "the trainer's loss; empty if not finite", nullable=True),
        "completion_length": column(float, "tokens per completion, mean", NOT_NEGATIVE),
        "truncated_share": column(float, "share of completions cut at max_completion_length", SHARE),
        "tokens": column("Int64", "completion tokens in the batch", NOT_NEGATIVE),
        "seconds": column(float, "wall time of the step, without the held-out measurement", NOT_NEGATIVE),
    },
    unique=["model", "G", "seed", "step"],
)

VARIANT_LOG = schema(
    "variant log",
    {"variant": column(str, "name of the variant in the config"), **RUN_LOG.columns},
    unique=["variant", "model", "G", "seed", "step"],
)

# A checkpoint is named by (model, G, seed); both are empty for the base model.
CHECKPOINT = {
    "model": MODEL,
    "G": column("Int64", "group size of the run; empty for the base model", nullable=True),
    "seed": column("Int64", "seed of the run; empty for the base model", nullable=True),
    "benchmark": column(str, "benchmark, as listed in the config"),
}

ITEM = column(str, "the problem's id in its benchmark")
GROUP = column(str, "kind of problem within its benchmark (GSM-Plus: the perturbation); empty elsewhere", nullable=True)

EVALUATION_ITEMS = schema(
    "evaluation items",
    {
        **CHECKPOINT,
        "item": ITEM,
        "group": GROUP,
        "cluster": column(str, "shared by the variants of one question (GSM-Plus: eight); else the problem's id"),
        "sample": column("Int64", "index of the sampled completion, from 0", NOT_NEGATIVE),
        "gold": column(str, "right answer"),
        "answer": column(str, "answer found in the completion; empty if none", nullable=True),
        "found_by": column(
            str,
            "how the answer was found",
            pa.Check.isin(["box", "marker", "last number", "none", "timeout", "unscorable"]),
        ),
        "reward": column(
            float,
            "1 if right, else 0; empty where the gold cannot be scored or the comparison timed out",
            nullable=True,
        ),
        "completion": column(str, "the completion as generated"),
    },
    unique=["model", "G", "seed", "benchmark", "item", "sample"],
)

STANDARD_ERROR = column(
    float, "of the accuracy, over clusters of problems; empty for fewer than two clusters", nullable=True
)

EVALUATIONS = schema(
    "evaluations",
    {
        **CHECKPOINT,
        "distance": column("Int64", "rank of distance from the training task, 0 = in distribution", NOT_NEGATIVE),
        "items": column("Int64", "scored problems", NOT_NEGATIVE),
        "samples": column("Int64", "completions per problem", POSITIVE),
        "accuracy": column(float, "mean reward over problems and samples", SHARE),
        "standard_error": STANDARD_ERROR,
        "no_answer_share": column(float, "share of completions without an answer", SHARE),
        "unscorable": column("Int64", "problems whose gold answer does not score as right", NOT_NEGATIVE),
        "timeouts": column("Int64", "completions whose comparison timed out", NOT_NEGATIVE),
    },
    unique=["model", "G", "seed", "benchmark"],
)

EVALUATIONS_BY_GROUP = schema(
    "evaluations by group",
    {
        **CHECKPOINT,
        "group": column(str, "kind of problem within the benchmark"),
        "items": column("Int64", "scored problems", NOT_NEGATIVE),
        "accuracy": column(
            float, "mean reward over problems and samples; empty if none is scored", SHARE, nullable=True
        ),
        "standard_error": STANDARD_ERROR,
        "no_answer_share": column(
            float, "share of completions without an answer; empty as above", SHARE, nullable=True
        ),
        "unscorable": column("Int64", "problems whose gold answer does not score as right", NOT_NEGATIVE),
        "timeouts": column("Int64", "completions whose comparison timed out", NOT_NEGATIVE),
    },
    unique=["model", "G", "seed", "benchmark", "group"],
)

BENCHMARK_CHECKS = schema(
    "benchmark checks",
    {
        "benchmark": CHECKPOINT["benchmark"],
        "group": column(str, "kind of problem within the benchmark; empty: all of its problems", nullable=True),
        "items": column("Int64", "problems", POSITIVE),
        "unscorable": column("Int64", "those whose gold answer does not score as right (unscorable.csv)", NOT_NEGATIVE),
        "identical": column("Int64", "those that are training problems, word for word", NOT_NEGATIVE),
        "same_but_for_numbers": column("Int64", "those that are training problems but for their numbers", NOT_NEGATIVE),
        "n_gram_overlap": column(
            "Int64", "other problems that share at least one n-gram (n = 8 to 13) with a training problem", NOT_NEGATIVE
        ),
        "known_share": column(float, "share of the problems in the three columns before (contamination.csv)", SHARE),
    },
    unique=["benchmark", "group"],
)

UNSCORABLE = schema(
    "unscorable gold answers",
    {
        "benchmark": CHECKPOINT["benchmark"],
        "item": ITEM,
        "group": GROUP,
        "reason": column(str, "the gold answer, and why it cannot be scored"),
    },
    unique=["benchmark", "item"],
)

CONTAMINATION = schema(
    "problems known from training",
    {
        "benchmark": CHECKPOINT["benchmark"],
        "item": ITEM,
        "group": GROUP,
        "criterion": column(
            str,
            "the strictest that holds, against all training problems (grpo_dynamics.tasks.contamination)",
            pa.Check.isin(["identical", "same but for numbers", "n-gram overlap"]),
        ),
        "training_item": column(str, "id of the most similar training problem"),
        "shared": column(float, "share of the problem's n-grams that stand in that training problem", SHARE),
    },
    unique=["benchmark", "item"],
)

STAGE_TIMES = schema(
    "stage times",
    {
        "stage": column(str, "stage of the study, after the folder of its benchmark files"),
        "jobs": column("Int64", "jobs of the stage", POSITIVE),
        "seconds": column(
            float,
            "wall time of its jobs, added up, s; of a job that was interrupted, since its last start",
            NOT_NEGATIVE,
        ),
        "longest": column(float, "wall time of its longest job, s", NOT_NEGATIVE),
        "memory": column(float, "largest resident memory of a job, MB; empty if too short to be seen", nullable=True),
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
    except (pa.errors.SchemaError, pa.errors.SchemaErrors) as error:
        first = error.schema_errors[0] if isinstance(error, pa.errors.SchemaErrors) else error
        raise InputError(f"{source}: {schema.name}: {_explain(first)}") from error


def _explain(error: pa.errors.SchemaError) -> str:
    found = error.failure_cases
    if isinstance(found, pd.DataFrame):
        found = found["failure_case"].iloc[0] if "failure_case" in found else found.iloc[0].to_dict()
    match error.reason_code:
        case pa.errors.SchemaErrorReason.COLUMN_NOT_IN_DATAFRAME:
            return f"found no column {found}, expected the columns {', '.join(error.schema.columns)}"
        case pa.errors.SchemaErrorReason.COLUMN_NOT_IN_SCHEMA:
            return f"found the column {found}, expected only {', '.join(error.schema.columns)}"
        case pa.errors.SchemaErrorReason.DUPLICATES:
            return f"found several rows with {found}, expected one for each {', '.join(error.schema.unique)}"
    expected = error.check.error or error.check.name if isinstance(error.check, pa.Check) else error.check
    return f"column {error.schema.name}: found {found}, expected {expected}"


def read(path: str | Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """Read a table (.csv or .parquet) and check it against `schema`."""
    path = Path(path)
    if path.suffix == ".parquet":
        return check(pd.read_parquet(path), schema, path)
    text = {
        name: str for name, column in schema.columns.items() if str(column.dtype).startswith("str")
    }  # 0029 is not 29
    return check(pd.read_csv(path, dtype=text), schema, path)


def write(table: pd.DataFrame, path: str | Path, schema: pa.DataFrameSchema) -> None:
    """Check `table` against `schema` and write it (.csv or .parquet) in one step."""
    path = Path(path)
    table = check(table.reset_index(drop=True), schema, path)
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False)
