"""The claims on transfer: C6, C7 and C8."""

from __future__ import annotations

from grpo_dynamics.analysis.evidence import (
    NOT_REPRODUCED,
    NOT_TESTED,
    OWN_RUNS,
    PARTLY,
    REPRODUCED,
    Evidence,
    Finding,
    all_or_some,
    claim,
    of,
    span,
)


@claim(
    "C6",
    "Training transfers positively to the other benchmarks.",
    "Reproduced if every model's mean gain over them has a {level} interval above 0, more than {majority:.0%} of the "
    "single gains (model x G x benchmark) are positive with Holm-adjusted p < {alpha}, and none is negative so; partly "
    "if some model's mean gain has.",
    "The verdict is about the study's own list of benchmarks. " + OWN_RUNS,
)
def c6(evidence: Evidence) -> Finding:
    single = evidence.transfer[evidence.transfer["distance"] > 0]
    alpha = evidence.analysis["alpha"]
    clear = single["p_holm"] < alpha
    up, down = int((clear & (single["gain"] > 0)).sum()), int((clear & (single["gain"] < 0)).sum())
    summary = evidence.transfer_summary
    positive = summary["gain_out_low"] > 0
    numbers = "mean gain " + "; ".join(
        f"{row.model}: {span(row.gain_out, row.gain_out_low, row.gain_out_high)}" for row in summary.itertuples()
    )
    numbers += f"; significantly positive {of(up, len(single), 'single gains')}, significantly negative {down}"
    if single.empty:
        return Finding(NOT_TESTED, "no benchmark other than the training task was evaluated")
    if positive.all() and down == 0 and up > evidence.claims["majority"] * len(single):
        return Finding(REPRODUCED, numbers)
    return Finding(PARTLY if positive.any() else NOT_REPRODUCED, numbers)


@claim(
    "C7",
    "The gain is largest near the training task and falls with distance.",
    "Per model, Spearman correlation of gain and distance, and gain on the nearest minus gain on the farthest "
    "benchmark. Reproduced if for every model the {level} interval of the first lies below 0 and that of the second "
    "above 0; partly if for some model.",
    "Distance is a rank that the study assigned; other orders are possible.",
)
def c7(evidence: Evidence) -> Finding:
    summary = evidence.transfer_summary
    summary = summary[summary["rank_correlation"].notna()]
    falls = (summary["rank_high"] < 0) & (summary["gain_near_low"] > 0)
    numbers = "; ".join(
        f"{row.model}: correlation {span(row.rank_correlation, row.rank_low, row.rank_high)}, nearest minus farthest "
        f"{span(row.gain_near, row.gain_near_low, row.gain_near_high)} (n = {row.benchmarks} benchmarks)"
        for row in summary.itertuples()
    )
    return Finding(all_or_some(int(falls.sum()), len(summary)), numbers or "fewer than three benchmarks")


@claim(
    "C8",
    "The distilled model transfers most robustly.",
    "Robustness is the mean gain elsewhere over the gain in distribution. Reproduced if a distilled model has the "
    "largest and is the largest in at least {level} of the bootstrap replicates; partly if it has the largest only.",
    "Where one distilled model is compared with other families, family and distillation cannot be told apart.",
)
def c8(evidence: Evidence) -> Finding:
    summary = evidence.transfer_summary
    known = summary[summary["robustness"].notna()]
    distilled = set(evidence.distilled) & set(known["model"])
    numbers = "; ".join(
        f"{row.model}{' (distilled)' if row.model in distilled else ''}: "
        f"{span(row.robustness, row.robustness_low, row.robustness_high)}, largest in {row.best_share:.0%}"
        for row in known.itertuples()
    )
    if not distilled or len(known) < 2:
        return Finding(NOT_TESTED, numbers or "no robustness: no gain in distribution")
    best = known.loc[known["robustness"].idxmax()]
    if best["model"] not in distilled:
        return Finding(NOT_REPRODUCED, numbers)
    return Finding(REPRODUCED if best["best_share"] >= 1 - evidence.analysis["alpha"] else PARTLY, numbers)
