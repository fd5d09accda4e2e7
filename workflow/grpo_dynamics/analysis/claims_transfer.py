"""The claims on transfer: C6, C7 and C8."""

from __future__ import annotations

import math

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

_GIVEN = "The benchmarks are fixed and no sample: nothing is said about others. "
_SEVERAL = "Intervals of single models are not adjusted for the number of models, which matters for partly alone. "


@claim(
    "C6",
    "Training transfers positively to the other benchmarks.",
    "Reproduced if every model's mean gain over them has a {level} interval (over runs and problems) above 0, more "
    "than {majority:.0%} of the single gains (model x G x benchmark) are positive with p < {alpha} (Holm over the "
    "benchmarks of a cell), and none is negative so; partly if some model's mean gain has; not reproduced if every "
    "model's interval ends below {transfer_margin}, a gain that counts as none; otherwise undecided, which counts as "
    "not tested. Gains that are matched by a fall of the completions without an answer may be learnt form and not "
    "learnt mathematics; they are counted, not judged.",
    _GIVEN + _SEVERAL + OWN_RUNS,
)
def c6(evidence: Evidence) -> Finding:
    single = evidence.transfer[evidence.transfer["distance"] > 0]
    if single.empty:
        return Finding(NOT_TESTED, "no benchmark other than the training task was evaluated")
    alpha = evidence.analysis["alpha"]
    clear = single["p_holm"] < alpha
    up, down = int((clear & (single["gain"] > 0)).sum()), int((clear & (single["gain"] < 0)).sum())
    summary = evidence.transfer_summary
    positive = summary["gain_out_low"] > 0
    numbers = "; ".join(
        f"mean gain of {row.model} {span(row.gain_out, row.gain_out_low, row.gain_out_high)} (n = {row.benchmarks} "
        f"benchmarks, {row.runs} runs)"
        for row in summary.itertuples()
    )
    answered = clear & (single["gain"] > 0) & (single["no_answer_base"] - single["no_answer_final"] >= single["gain"])
    numbers += (
        f"; significantly positive {of(up, len(single), 'single gains')}, of these {int(answered.sum())} matched by a "
        f"fall of the completions without an answer; significantly negative {down}"
    )
    if positive.all() and down == 0 and up > evidence.claims["majority"] * len(single):
        return Finding(REPRODUCED, numbers)
    if positive.any():
        return Finding(PARTLY, numbers, "models" if not positive.all() else "losses" if down else "gains")
    if (summary["gain_out_high"] < evidence.claims["transfer_margin"]).all():
        return Finding(NOT_REPRODUCED, numbers)
    return Finding(NOT_TESTED, f"{numbers}; undecided: no interval above 0, nor all of them below a gain that matters")


@claim(
    "C7",
    "The gain is largest near the training task and falls with distance.",
    "Distance is the order of the config's evaluation.benchmarks, set before any result. A model's gain (mean over G) "
    "falls if the {level} intervals over runs and problems of its Spearman correlation with distance and of the gain "
    "on the nearest minus that on the farthest benchmark lie below and above 0. Reproduced if every model's does, and "
    "no more than {alpha} of all orders of the benchmarks correlate as strongly (permutation test, one-sided, Holm "
    "over models); partly if some model's falls; not reproduced if every model has one of the two intervals on the "
    "other side of 0; otherwise undecided, which counts as not tested, as do so few benchmarks that the "
    "permutation test cannot reach {alpha}.",
    "Other orders are possible. Gains that nearly tie draw the correlation's interval towards 0, so that only its end "
    "nearer to 0 is a bound. " + _GIVEN + _SEVERAL,
)
def c7(evidence: Evidence) -> Finding:
    summary = evidence.transfer_summary
    summary = summary[summary["rank_correlation"].notna()]
    numbers = "; ".join(
        f"{row.model}: correlation {span(row.rank_correlation, row.rank_low, row.rank_high)}, as strong in "
        f"{row.rank_p:.2g} of all orders (adjusted {row.rank_p_holm:.2g}), nearest minus farthest "
        f"{span(row.gain_near, row.gain_near_low, row.gain_near_high)} (n = {row.benchmarks} benchmarks, "
        f"{row.runs} runs)"
        for row in summary.itertuples()
    )
    alpha = evidence.analysis["alpha"]
    if summary.empty:
        return Finding(NOT_TESTED, "fewer than three benchmarks, or no gain that differs between them")
    if len(summary) > alpha * math.factorial(int(summary["benchmarks"].min())):
        return Finding(NOT_TESTED, f"{numbers}; too few benchmarks for the permutation test to reach {alpha:g}")
    falls = (summary["rank_high"] < 0) & (summary["gain_near_low"] > 0)
    rises = (summary["rank_low"] > 0) | (summary["gain_near_high"] < 0)
    verdict = all_or_some(int(falls.sum()), len(summary), undecided=int((~falls & ~rises).sum()))
    if verdict == REPRODUCED and not (summary["rank_p_holm"] < alpha).all():
        verdict = PARTLY
    return Finding(verdict, numbers + "; undecided: no model's gain surely falls or rises" * (verdict == NOT_TESTED))


@claim(
    "C8",
    "The distilled model transfers most robustly.",
    "Robustness = mean gain out of distribution / gain in distribution, each the mean over G, for models whose gain in "
    "distribution has a {level} interval above 0. A model's lead is its "
    "robustness minus that of the most robust other model; its {level} interval is that of the smallest difference "
    "from any other model. Reproduced if a distilled model's lies above 0; partly if the lead is positive but its "
    "interval reaches 0; not reproduced if every distilled model's interval lies below 0; otherwise not decided, which "
    "counts as not tested.",
    "Where one distilled model is compared with other families, family and distillation cannot be told apart. A model "
    "that the study pretrains is not distilled: the one that stands for it saw more right solutions, and worked ones, "
    "which alone can explain a lead. " + _GIVEN,
)
def c8(evidence: Evidence) -> Finding:
    summary = evidence.transfer_summary
    known = summary[summary["lead"].notna()]
    distilled = known[known["model"].isin(list(evidence.distilled))]
    numbers = "; ".join(
        f"{row.model}{' (distilled)' if row.model in evidence.distilled else ''}: "
        f"{span(row.robustness, row.robustness_low, row.robustness_high)} (n = {row.runs} runs), lead over {row.rival} "
        f"{span(row.lead, row.lead_low, row.lead_high)}"
        for row in known.itertuples()
    )
    if known.empty:
        return Finding(NOT_TESTED, "robustness of fewer than two models: no other model, or no gain in distribution")
    if distilled.empty:
        return Finding(NOT_TESTED, f"{numbers}; none of these models is distilled")
    best = distilled.loc[distilled["lead"].idxmax()]
    if best["lead_low"] > 0:
        return Finding(REPRODUCED, numbers)
    if best["lead"] > 0 and math.isfinite(best["lead_low"]):
        return Finding(PARTLY, numbers)
    if (distilled["lead_high"] < 0).all():
        return Finding(NOT_REPRODUCED, numbers)
    return Finding(NOT_TESTED, f"{numbers}; undecided: an interval reaches 0 or is missing")
