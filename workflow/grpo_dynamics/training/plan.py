"""What a study will cost before it runs: a table of its jobs, totals, and both as text.

Memory and disk are estimated in `grpo_dynamics.training.estimate`, time in `grpo_dynamics.training.timing`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from grpo_dynamics import tables
from grpo_dynamics.tables import NOT_NEGATIVE, POSITIVE, column, schema
from grpo_dynamics.training import plan_jobs
from grpo_dynamics.training.estimate import Hardware
from grpo_dynamics.training.model_shape import ModelShape, catalogue_shape
from grpo_dynamics.training.plan_jobs import Needs


def _estimate(description: str):
    return column(float, f"{description}; empty where it is not estimated", NOT_NEGATIVE, nullable=True)


PLAN = schema(
    "plan",
    {
        "stage": column(str, "rule of the workflow that makes the job"),
        "variant": column(str, "variant, or kind of induced failure", nullable=True),
        "model": column(str, "name of the model in the config's catalogue", nullable=True),
        "G": column("Int64", "group size", nullable=True),
        "jobs": column("Int64", "jobs like this; all other columns are of one", POSITIVE),
        "devices": column("Int64", "GPUs that it uses, or cores if it has no GPU", POSITIVE),
        "gpu_memory_gb": _estimate("peak of each GPU's memory, GB"),
        "memory_gb": _estimate("peak of the node's memory, GB"),
        "hours_low": _estimate("time if the longest completions are hardware.shortest_share of the limit, h"),
        "hours_high": _estimate("time if the longest completions reach max_completion_length, h"),
        "sampled_tokens": column("Int64", "tokens that it samples at most", NOT_NEGATIVE),
        "trained_tokens": column("Int64", "tokens that it trains on at most, prompts included", NOT_NEGATIVE),
        "disk_running_gb": column(float, "disk that it takes while it runs, GB", NOT_NEGATIVE),
        "disk_kept_gb": column(float, "disk that its results take, GB", NOT_NEGATIVE),
        "asked_gpu": column("Int64", "GPUs that it asks for", NOT_NEGATIVE),
        "asked_threads": column("Int64", "cores that it asks for", POSITIVE),
        "asked_mem_mb": column("Int64", "memory that it asks for at its first attempt, MB", POSITIVE),
        "asked_minutes": column("Int64", "time that it asks for at its first attempt, minutes", POSITIVE),
        "warning": column(str, "where the needs do not fit what is asked for, and what to change", nullable=True),
    },
    unique=["stage", "variant", "model", "G"],
)


@dataclass(frozen=True)
class Totals:
    """Sums over a plan.

    Attributes
    ----------
    jobs : int
    device_hours, wall_hours : tuple of float
        Shortest and longest: time added up over GPUs (over cores where jobs have no GPU), and with
        ``hardware.at_once`` of them in use, though no less than training and evaluating one run takes.
    models_gb, checkpoints_gb, finals_gb, completions_gb : float
        Disk of the base models, of the checkpoints of all runs that are trained at a time, of the trained models, and
        of the completions of the evaluations.
    """

    jobs: int
    device_hours: tuple[float, float]
    wall_hours: tuple[float, float]
    models_gb: float
    checkpoints_gb: float
    finals_gb: float
    completions_gb: float


def _needs(config: dict, shape: ModelShape | None, job: dict, hardware: Hardware) -> Needs:
    if job["model"] is None or shape is None:
        return Needs(devices=job["gpu"])
    match job["stage"]:
        case "grpo" | "grpo_variant" | "grpo_failure":
            return plan_jobs.training(config, shape, job, hardware)
        case "evaluate_base" | "evaluate_run":
            return plan_jobs.evaluation(config, config["catalogue"][job["model"]], shape, job, hardware)
        case "pretrain":
            return plan_jobs.pretraining(config, shape, hardware)
        case "download_model":
            return plan_jobs.download(shape)
    return Needs(devices=job["gpu"])


def _running_gb(table: pd.DataFrame, at_once: int) -> float:
    """Most disk that jobs take while they run, the largest first, with `at_once` devices in use."""
    free, taken = at_once, 0.0
    for row in table.sort_values("disk_running_gb", ascending=False).itertuples():
        together = min(free // row.devices, row.jobs)
        free -= together * row.devices
        taken += together * row.disk_running_gb
    return max(taken, table["disk_running_gb"].max())  # a job that needs more devices runs all the same


def plan(config: dict, jobs: list[dict], bases: dict[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """The plan of a study.

    Parameters
    ----------
    config : dict
        The study's config.
    jobs : list of dict
        Jobs that are alike but for their seed: ``stage`` (name of the rule), ``variant``, ``model`` and ``G`` (or
        None), their number ``jobs``, and what each asks for: ``gpu``, ``threads``, ``mem_mb``, ``runtime`` (minutes).
    bases : dict
        Folder in which the base model is, or will be, by the model's name.

    Returns
    -------
    table : DataFrame
        With the columns of `PLAN`.
    unknown : list of str
        A sentence for each model whose shape is not known.
    """
    hardware = Hardware(**config["hardware"])
    shapes, unknown = {}, []
    for name, folder in bases.items():
        entry = config["catalogue"][name]
        shapes[name] = catalogue_shape(entry, config["pretraining"], Path(folder))
        if shapes[name] is None:
            unknown.append(
                f"catalogue.{name}: found no shape, and no download of {entry['hub']} in {folder}: its jobs are listed "
                "without estimates; fill in shape from the config.json on the model's page, or fetch the model first"
            )
    rows = []
    for job in jobs:
        needs = asdict(_needs(config, shapes.get(job["model"]), job, hardware))
        if not job["gpu"]:
            needs["devices"] = job["threads"]
        warning = "; ".join(needs.pop("warnings")) or None
        described = {name: job[name] for name in ("stage", "variant", "model", "G", "jobs")}
        asked = {
            "asked_gpu": job["gpu"],
            "asked_threads": job["threads"],
            "asked_mem_mb": job["mem_mb"],
            "asked_minutes": job["runtime"],
        }
        rows.append(described | needs | asked | {"warning": warning})
    return tables.check(pd.DataFrame(rows, columns=list(PLAN.columns)), PLAN, "plan"), unknown


def totals(table: pd.DataFrame, at_once: int) -> Totals:
    """The sums over a plan, with `at_once` GPUs (or cores) in use at a time."""
    jobs, devices = table["jobs"].astype(float), table["devices"].astype(float)
    training = table["stage"].str.startswith("grpo")
    evaluations = table["stage"].str.startswith("evaluate_")
    bases = table["stage"].isin(["pretrain", "download_model"])

    def hours(name: str) -> tuple[float, float]:
        all_hours = float((table[name] * jobs * devices).sum())
        chain = table.loc[training, name].max() + table.loc[evaluations, name].max()
        return all_hours, max(all_hours / at_once, 0.0 if math.isnan(chain) else chain)

    def disk(name: str, chosen: pd.Series) -> float:
        return float((table[name] * jobs)[chosen].sum())

    (low, wall_low), (high, wall_high) = hours("hours_low"), hours("hours_high")
    return Totals(
        jobs=int(jobs.sum()),
        device_hours=(low, high),
        wall_hours=(wall_low, wall_high),
        models_gb=disk("disk_kept_gb", bases),
        checkpoints_gb=float(_running_gb(table, at_once)),
        finals_gb=disk("disk_kept_gb", training),
        completions_gb=disk("disk_kept_gb", evaluations),
    )
