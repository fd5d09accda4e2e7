"""The claims on predictions without a fit: C15, on the bandit and on the runs, and B4, on the runs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.evidence import (
    BEYOND,
    NOT_REPRODUCED,
    NOT_TESTED,
    OWN_RUNS,
    PARTLY,
    REPRODUCED,
    Evidence,
    Finding,
    all_or_some,
    claim,
    extent,
    of,
    span,
)
from grpo_dynamics.analysis.intervals import hidden_by_noise
from grpo_dynamics.analysis.tables_predictions import BOTH, CALIBRATION, ETA, NEITHER, PREDICTORS, TARGET

_OTHERS = [name for name in PREDICTORS if name not in ("closed_form", "naive")]


def _targets(predictions: pd.DataFrame, predictor: str) -> pd.DataFrame:
    """The predictor's scored targets with another eta or G."""
    at = (predictions["sample"] == TARGET) & (predictions["predictor"] == predictor)
    return predictions[at & (predictions["changed"] != NEITHER)].dropna(subset="r2")


def _name(row: pd.Series) -> str:
    variant = "" if row["variant"] == "study" else f"{row['variant']}, "
    return f"{row['model']}, {variant}G = {row['G']}"


def _good(rows: pd.DataFrame, floor: float, what: str = "predictions") -> str:
    return of(int((rows["r2"] >= floor).sum()), len(rows), what)


def _calibrations(predictions: pd.DataFrame) -> list[str]:
    """K and p* of every calibration cell, with the damping ratio that the theory gives it."""
    rows = predictions[(predictions["sample"] == CALIBRATION) & (predictions["predictor"] == "closed_form")]
    parts = [
        f"{row['model']} (G = {row['G']}, {row['runs']} runs) K = {span(row['K'], row['K_low'], row['K_high'])}, over "
        f"single runs {row['K_run_low']:.3g} to {row['K_run_high']:.3g}, p* = "
        f"{span(row['p_star'], row['p_star_low'], row['p_star_high'])}, {row['regime']} by the closed form "
        f"(zeta = {row['zeta']:.3g}), R^2 in sample {row['r2']:.3g} (free law {row['r2_ceiling']:.3g})"
        for _, row in rows.dropna(subset="r2").iterrows()
    ]
    lacking = [f"{row['model']} {row['note']}" for _, row in rows[rows["r2"].isna()].iterrows()]
    return [f"calibrated on {', '.join(parts)}"] * bool(parts) + lacking


def _bandit(rows: pd.DataFrame, floor: float) -> tuple[float, list[str]]:
    """Share of the bandit's own predictions that are good, NaN for none, and the numbers."""
    sampled, mean_field = rows["G"].notna(), rows["calibration"] == "mean field"
    own = sampled != mean_field
    if not own.any():
        return float("nan"), ["bandit: no predictions from the K and p* of the process that is predicted"]
    numbers = [f"bandit: R^2 >= {floor:g} in {_good(rows[own], floor)} with the predicted process's own K and p*"]
    for what, part in {
        "deterministic mean field, its own K and p*": rows[~sampled & own],
        "sampled groups, their exact drift's K and p*": rows[sampled & own],
        "beside it, sampled groups, the mean field's K and p*": rows[~own],
    }.items():
        if part.empty:
            continue
        starts = ", ".join(
            f"from p = {start:g} median {of_start['r2'].median():.3g}" for start, of_start in part.groupby("start")
        )
        rise = part["half_rise_predicted"] / part["half_rise_measured"]
        numbers.append(
            f"{what}: {_good(part, floor)}, R^2 {part['r2'].min():.3g} to {part['r2'].max():.3g} ({starts}), predicted "
            f"over measured half-rise time {rise.min():.3g} to {rise.max():.3g}"
        )
    return float((rows.loc[own, "r2"] >= floor).mean()), numbers


def _networks(predictions: pd.DataFrame, targets: pd.DataFrame, floor: float) -> list[str]:
    """How good the closed form is on the runs, cell by cell, and the other predictors beside it."""
    out_of_reach = targets[targets["r2_ceiling"] < floor]
    cells = ", ".join(
        f"{span(row['r2'], row['r2_low'], row['r2_high'])} ({_name(row)}, changed {row['changed']}, free law "
        f"{row['r2_ceiling']:.3g})"
        for _, row in targets.iterrows()
    )
    times = np.exp(targets["log_ratio"].dropna())
    timing = f"predicted over measured half-rise time {extent(times)} in the {len(times)} that reach it"
    others = [
        f"{name} {_good(rows, floor, 'targets')}"
        for name in [*_OTHERS, "naive"]
        if len(rows := _targets(predictions, name))
    ]
    return [
        f"runs: R^2 >= {floor:g} in {_good(targets, floor, 'targets')}, even the law fitted to the target itself stays "
        f"below it in {len(out_of_reach)}",
        f"R^2 {cells}",
        timing if len(times) else "no target reaches half of the rise",
        f"beside it, {', '.join(others)}",
        *_calibrations(predictions),
    ]


@claim(
    "C15",
    "A trajectory can be predicted from the hyperparameters and one measured curvature, with no fit.",
    "Runs: K and p* are calibrated on one cell per model, and the closed form predicts the raw mean over seeds of "
    "every cell with another eta or G. Bandit: predictions whose K and p* are measured on the process that is "
    "predicted (the mean field for its deterministic trajectories, the exact drift of finite groups for sampled "
    "groups). Reproduced if R^2 >= {prediction_r2} in every target of the runs and in more than {majority:.0%} of the "
    "bandit's predictions; partly if in more than {majority:.0%} of the targets, or of the bandit's predictions where "
    "the runs have no target; not reproduced if in no more than that, even if those targets counted in which noise "
    "alone keeps it below (the R^2 that the true curve would have is below it, and R^2 over that is not); otherwise "
    "undecided, which counts as not tested. What the mean field's K and p* predict of sampled groups, as "
    "the leading order has it, stands beside it and does not count. Intervals (moving blocks of steps) have level "
    "{level} each.",
    "Settings and cells are chosen and not drawn at random, so that a share of them has no interval. R^2 also falls "
    "with the noise of the mean over seeds and where the reward hardly moves. Adam's step is normalised, so that K "
    "holds a factor (1 - mu) and the gradient's size. " + OWN_RUNS,
)
def c15(evidence: Evidence) -> Finding:
    floor, majority = evidence.claims["prediction_r2"], evidence.claims["majority"]
    bandit, numbers = _bandit(evidence.predictions, floor)
    targets = _targets(evidence.run_predictions, "closed_form")
    if targets.empty:
        numbers = [*numbers, "runs: no target to predict", *_calibrations(evidence.run_predictions)]
        if np.isnan(bandit):
            return Finding(NOT_TESTED, "; ".join(numbers))
        return Finding(PARTLY if bandit > majority else NOT_REPRODUCED, "; ".join(numbers))
    good = targets["r2"] >= floor
    hidden = hidden_by_noise(targets["r2"], targets["r2_attainable"], floor)
    verdict = all_or_some(int(good.sum()), len(targets), majority, undecided=int(hidden.sum()))
    if verdict == REPRODUCED and not bandit > majority:
        verdict = PARTLY
    noise = f"noise alone keeps {of(int(hidden.sum()), len(targets), 'targets')} below it"
    noise += ", too many to decide" * (verdict == NOT_TESTED)
    return Finding(verdict, "; ".join([*_networks(evidence.run_predictions, targets, floor), noise, *numbers]))


@claim(
    "B4",
    "K and p* calibrated at one (eta, G) predict the trajectory at another eta better than the calibration cell's own "
    "curve.",
    "Difference in R^2 on the raw mean over seeds between the closed form at the target's eta and the law as fitted "
    "freely to the calibration cell, unchanged. Holds if its interval lies above 0 in every target with another eta; "
    "partly if in more than {majority:.0%} of them; otherwise it does not hold. The intervals (moving blocks of steps) "
    "hold together over all targets with {level} (Bonferroni). Targets with only another G stand beside it: there the "
    "closed form has no other trajectory to offer.",
    "The intervals take the prediction as given and do not know of other seeds; how many runs agree stands beside "
    "them. " + OWN_RUNS,
)
def b4(evidence: Evidence) -> Finding:
    targets = _targets(evidence.run_predictions, "closed_form")
    moved = targets[targets["changed"].isin([ETA, BOTH])]
    if moved.empty:
        numbers = ["no target with another eta", *_calibrations(evidence.run_predictions)]
        return Finding(NOT_TESTED, "; ".join(numbers))
    better, worse = int((moved["gain_low"] > 0).sum()), int((moved["gain_high"] < 0).sum())
    cells = ", ".join(
        f"{span(row['gain'], row['gain_low'], row['gain_high'])} ({_name(row)}, eta x "
        f"{row['eta'] / row['calibration_eta']:g}, better in {of(row['runs_better'], row['runs'], 'runs')})"
        for _, row in moved.iterrows()
    )
    numbers = [
        f"closed form better in {of(better, len(moved), 'targets with another eta')}, worse in {worse}",
        f"gain in R^2 {cells}",
    ]
    for name in _OTHERS:
        rows = _targets(evidence.run_predictions, name)
        rows = rows[rows["changed"].isin([ETA, BOTH])]
        if len(rows):
            found = of(int((rows["gain_low"] > 0).sum()), len(rows), "targets")
            numbers.append(f"beside it, {name} better than the calibration cell's curve in {found}")
    same = targets[~targets["changed"].isin([ETA, BOTH])]
    if len(same):
        numbers.append(f"with only another G, gain {extent(same['gain'])} (n = {len(same)} targets)")
    verdict = all_or_some(better, len(moved), evidence.claims["majority"], BEYOND)
    return Finding(verdict, "; ".join([*numbers, *_calibrations(evidence.run_predictions)]))
