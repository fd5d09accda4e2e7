"""Simulated variants, fits and comparisons for the tests on the group size."""

from __future__ import annotations

import pandas as pd
from simulated import CONFIG, study

from grpo_dynamics.analysis.group_size import compare
from grpo_dynamics.tables import VARIANT_LOG, check

OPTIONS = {"alpha": 0.05, "equivalence_margin": 0.05, "max_grad_norm": CONFIG["grpo"]["max_grad_norm"]}
SEEDS = (0, 1, 2, 3)


def variants_of(models=("llama",), seeds=SEEDS, **options) -> pd.DataFrame:
    """Runs at equal prompts: G = 4 with the 4 prompts that G = 16 has at 64 completions."""
    runs = study(models=models, sizes=(4,), seeds=seeds, completions=16, **options)
    return check(runs.assign(variant="equal_prompts"), VARIANT_LOG)


NONE = variants_of(seeds=(0,), steps=2).iloc[:0]


def fits_of(runs: pd.DataFrame, variant="study", plateaus=None, half=None, identifiable=True) -> pd.DataFrame:
    keys = runs[["model", "G", "seed"]].drop_duplicates()
    wobble = keys["seed"].astype(float)
    return keys.assign(
        variant=variant, series="run", curve="law", identifiable=identifiable, R_0=0.1,
        R_inf=keys["G"].map(plateaus or {4: 0.8, 16: 0.8}) + 0.002 * wobble,
        half_rise=keys["G"].map(half or {4: 30.0, 16: 24.0}) * (1 + 0.01 * wobble),
    )  # fmt: skip


def table(runs, variants=NONE, fits=None) -> pd.DataFrame:
    if fits is None:
        own = variants.drop(columns="variant")
        fits = pd.concat([fits_of(runs), fits_of(own, "equal_prompts")])
    return compare(runs, variants, fits, OPTIONS)
