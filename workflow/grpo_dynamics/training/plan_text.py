"""A plan as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from grpo_dynamics.training.estimate import Hardware
from grpo_dynamics.training.plan import Totals

_NONE = "-"


def amount(value: float) -> str:
    """A number with two digits that count, as an estimate deserves: 0.034, 1.2, 46, 1300; a dash if there is none."""
    if pd.isna(value):
        return _NONE
    if value and abs(value) < 10:
        return f"{float(f'{value:.2g}'):g}"
    return f"{float(f'{value:.2g}'):.0f}"


def span(low: float, high: float) -> str:
    """A range of estimates: 3.1-6.2, or one number if both look alike."""
    shown = amount(low), amount(high)
    return shown[0] if shown[0] == shown[1] else "-".join(shown)


def _word(value: object) -> str:
    return _NONE if pd.isna(value) else str(value)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of a table; its first `left` columns stand on the left, the others, numbers, on the right."""
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]


def _estimated(table: pd.DataFrame) -> list[str]:
    header = ["stage", "variant", "model", "G", "jobs", "GPUs", "GPU GB", "GB/asked", "hours/asked"]
    header += ["sampled", "trained", "disk", "kept"]
    rows = [
        [
            *(row.stage, _word(row.variant), _word(row.model), _word(row.G), str(row.jobs)),
            str(row.devices) if row.asked_gpu else "0",
            amount(row.gpu_memory_gb),
            f"{amount(row.memory_gb)}/{amount(row.asked_mem_mb / 1000)}",
            f"{span(row.hours_low, row.hours_high)}/{amount(row.asked_minutes / 60)}",
            *(amount(row.sampled_tokens / 1e6), amount(row.trained_tokens / 1e6)),
            *(amount(row.disk_running_gb), amount(row.disk_kept_gb)),
        ]
        for row in table.itertuples()
    ]
    return [
        "Per job; memory and disk in GB, tokens in millions; trained tokens include prompts",
        *aligned(header, rows, left=3),
    ]


def _others(table: pd.DataFrame) -> list[str]:
    header = ["stage", "model", "jobs", "GPUs", "cores", "GB", "minutes"]
    alike = ["stage", "model", "asked_gpu", "asked_threads", "asked_mem_mb", "asked_minutes"]
    rows = [
        [stage, _word(model), str(jobs), str(gpu), str(threads), amount(mem_mb / 1000), str(minutes)]
        for (stage, model, gpu, threads, mem_mb, minutes), jobs in table.groupby(alike, sort=False, dropna=False)[
            "jobs"
        ]
        .sum()
        .items()
    ]
    return ["Without an estimate: what each job asks for", *aligned(header, rows, left=2)]


def _warnings(table: pd.DataFrame) -> list[str]:
    warned = table[table["warning"].notna()]
    return [
        " ".join([stage, *dict.fromkeys(part for part in cells if part != _NONE)]) + f": {warning}"
        for (stage, warning, model), rows in warned.groupby(["stage", "warning", "model"], sort=False)
        for cells in [[*rows["variant"].map(_word), model, *rows["G"].dropna().map(lambda G: f"G={G}")]]
    ]


def _sums(found: Totals, hardware: Hardware, gpus: bool) -> list[str]:
    device = "GPU" if gpus else "core"
    disk = found.models_gb + found.checkpoints_gb + found.finals_gb + found.completions_gb
    return [
        f"Jobs: {found.jobs}",
        f"{device} hours: {span(*found.device_hours)}",
        f"Wall time with {hardware.at_once} {device}s in use: {span(*found.wall_hours)} hours, without queueing",
        f"Disk: {amount(disk)} GB: base models {amount(found.models_gb)}, checkpoints while running "
        f"{amount(found.checkpoints_gb)}, trained models {amount(found.finals_gb)}, completions "
        f"{amount(found.completions_gb)}",
    ]


def text(study: str, table: pd.DataFrame, found: Totals, hardware: Hardware, unknown: Sequence[str]) -> str:
    """The whole plan: jobs, warnings, totals, and what the estimates take for granted.

    Parameters
    ----------
    study : str
        Name of the study.
    table : DataFrame
        With the columns of `plan.PLAN`.
    found : Totals
    hardware : Hardware
    unknown : sequence of str
        A sentence for each model without estimates.
    """
    known = table["memory_gb"].notna() | (table["disk_kept_gb"] > 0)
    parts = [[f"Plan of the study {study}"], _estimated(table[known]), _others(table[~known])]
    warnings = [*unknown, *_warnings(table)]
    parts.append(["Warnings", *warnings] if warnings else ["No warnings: the estimates fit what the jobs ask for"])
    parts.append(_sums(found, hardware, gpus=bool((table["asked_gpu"] > 0).any())))
    parts.append(
        [
            f"Estimates for {hardware.label}: {hardware.memory_gb:g} GB, {hardware.compute_share:.0%} of "
            f"{hardware.peak_tflops:g} TFLOP/s, {hardware.bandwidth_share:.0%} of {hardware.bandwidth_gb_s:g} GB/s, "
            f"{hardware.layer_ms:g} ms per layer and token with transformers.",
            "Hours: the first number if the longest completion of every batch is "
            f"{hardware.shortest_share:.0%} of the limit, the second if it reaches the limit. Either may be off by a "
            "factor of two until the shares above are measured on your machines.",
        ]
    )
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"
