"""The table of the runs' trajectories predicted without a fit, with their scores (claims C15 and B4).

One cell per model is the calibration cell, among the study's own runs; every other cell of the model is a target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from grpo_dynamics.analysis.predict import Law, calibrate, curve, parameters, spread
from grpo_dynamics.analysis.prediction_scores import NAN, Array, block_length, crossing, half_rise, resampled, scores
from grpo_dynamics.analysis.series import STUDY, each_run, train_reward
from grpo_dynamics.analysis.tables_predictions import (
    BOTH,
    CALIBRATION,
    ETA,
    GROUP,
    NEITHER,
    PREDICTORS,
    RUN_PREDICTIONS,
    TARGET,
)
from grpo_dynamics.command import InputError
from grpo_dynamics.seeds import derive
from grpo_dynamics.tables import check
from grpo_dynamics.theory import oscillator

_UNUSABLE = ("too short", "no trend", "no independent points")  # reasons of FITS that leave nothing to calibrate on


@dataclass(frozen=True)
class Cell:
    """Runs of one variant, model and group size: the steps (n,) that all of them have, and the rewards (runs, n)."""

    variant: str
    model: str
    G: int
    eta: float
    groups: int
    t: Array
    y: Array


def cells(runs: pd.DataFrame, variants: pd.DataFrame) -> Iterator[Cell]:
    """The cells of RUN_LOG, whose variant is study, and then of VARIANT_LOG, in their order.

    Raises
    ------
    ValueError
        If a cell has several learning rates.
    """
    for variant, table in [(STUDY, runs), *variants.groupby("variant", sort=False)]:
        for (model, G), cell in table.groupby(["model", "G"], sort=False):
            etas = cell["learning_rate"].unique()
            if len(etas) > 1:
                raise InputError(
                    f"learning_rate: found {len(etas)} values in {variant}, {model}, G = {G}, expected one eta per cell"
                )
            curves = [pd.Series(y, index=t) for _, run in each_run(cell) for t, y in [train_reward(run)]]
            rewards = pd.concat(curves, axis=1, join="inner").sort_index()
            yield Cell(
                str(variant), str(model), int(G), float(etas[0]), int(cell["groups"].iloc[0]),
                rewards.index.to_numpy(float), rewards.to_numpy(float).T,
            )  # fmt: skip


def _changed(cell: Cell, origin: Cell) -> str:
    eta, size = not np.isclose(cell.eta, origin.eta, rtol=1e-6, atol=0), cell.G != origin.G
    return {(True, False): ETA, (False, True): GROUP, (True, True): BOTH, (False, False): NEITHER}[eta, size]


def _fit(fits: pd.DataFrame, cell: Cell, name: str) -> pd.Series:
    """The row of FITS on the mean of a cell."""
    at = (fits["variant"] == cell.variant) & (fits["model"] == cell.model) & (fits["G"] == cell.G)
    rows = fits[at & (fits["series"] == "mean") & (fits["curve"] == name)]
    if rows.empty:
        raise InputError(
            f"fits: found no row of the curve {name} on the mean of {cell.variant}, {cell.model}, G = {cell.G}, "
            "expected one"
        )
    return rows.iloc[0]


def _calibration(origin: Cell, fits: pd.DataFrame, options: dict) -> tuple[Law | None, dict[str, float], list[str]]:
    """The calibrated law, None if there is none; the columns that say how well it is known; and notes."""
    reason = _fit(fits, origin, "law")["reason"]
    reason = reason if isinstance(reason, str) else ""
    if reason in _UNUSABLE:
        return None, {}, [f"not calibrated: {reason}"]
    mu, K_ref = options["mu"], options["K_ref"]
    found = calibrate(origin.t, origin.y.mean(axis=0), mu, K_ref)
    rng = np.random.default_rng(derive(options["seed"], "calibration", origin.model))
    known = spread(origin.t, origin.y, found, options["replicates"], options.get("block_length"), options["alpha"], rng)
    notes = [f"calibration cell: {reason}"] if reason else []
    if found.p_star in (0, 1):
        notes.append(f"p* at the end of the reward's range, {found.p_star:g}")
    if not 1e-6 < found.a / float(oscillator.stability_threshold(mu, K_ref)) < 1 - 1e-6:
        notes.append("K at the end of its range")
    columns = {f"K{name[1:]}": a / origin.eta for name, a in known.items() if name.startswith("a_")}
    return found, columns | {name: known[name] for name in ("p_star_low", "p_star_high")}, notes


def _scored(cell: Cell, row: dict, naive: Array | None, level: float, options: dict, joint: float) -> dict:
    """Scores of a row's prediction on the cell's runs."""
    t, predicted = cell.t, curve(row, cell.t)
    rng = np.random.default_rng(derive(options["seed"], "scores", cell.model, cell.variant, cell.G))
    steps = resampled(len(t), block_length(len(t), options.get("block_length")), options["replicates"], rng)
    found = scores(t, cell.y, predicted, naive, steps, options["alpha"], joint)
    # The level is the calibration's, so that measured and predicted times are to the same reward.
    rise = crossing(t, predicted, level)
    timing = half_rise(t, cell.y, rise, level, options["smoothing_steps"], options["alpha"])
    notes = [] if np.isfinite(rise) else ["the prediction never gets half-way to the calibrated p*"]
    if not np.isfinite(timing["half_rise_measured"]):
        notes.append("the runs never get half-way to the calibrated p*")
    if len(cell.y) < 2:
        notes.append("one run: no interval over seeds")
    return found | timing | {"half_rise_predicted": rise, "notes": notes}


def predictions(runs: pd.DataFrame, variants: pd.DataFrame, fits: pd.DataFrame, options: dict) -> pd.DataFrame:
    """RUN_PREDICTIONS: every predictor on the calibration cell and on every target of every model.

    Parameters
    ----------
    runs, variants, fits : DataFrame
        RUN_LOG, VARIANT_LOG and FITS.
    options : dict
        The config's run_predictions (calibration_G, smoothing_steps, replicates), its seed, mu and K_ref of grpo, alpha
        of analysis, and its block_length if it has one.

    Raises
    ------
    ValueError
        If a cell has several learning rates, or FITS lacks a cell.
    """
    everything = list(cells(runs, variants))
    own = [cell for cell in everything if cell.variant == STUDY]
    pick = {"largest": max, "smallest": min}[options["calibration_G"]]
    origins = {model: pick((c for c in own if c.model == model), key=lambda c: c.G) for model in {c.model for c in own}}
    targets = [cell for cell in everything if cell.model in origins and cell is not origins[cell.model]]
    joint = options["alpha"] / max(len(targets), 1)
    rows: list[dict] = []
    for model in dict.fromkeys(cell.model for cell in own):
        origin = origins[model]
        found, known, notes = _calibration(origin, fits, options)
        for cell in [origin, *(target for target in targets if target.model == model)]:
            rows += _cell_rows(cell, origin, found, known, notes, fits, options, joint)
    table = pd.DataFrame(rows, columns=list(RUN_PREDICTIONS.columns))
    return check(table, RUN_PREDICTIONS)


def _cell_rows(
    cell: Cell,
    origin: Cell,
    found: Law | None,
    known: dict[str, float],
    notes: list[str],
    fits: pd.DataFrame,
    options: dict,
    joint: float,
) -> Iterator[dict]:
    """The rows of one cell, a predictor each."""
    own_fit = _fit(fits, cell, "law")
    base = {
        "model": cell.model,
        "variant": cell.variant,
        "G": cell.G,
        "eta": cell.eta,
        "groups": cell.groups,
        "runs": len(cell.y),
        "n": len(cell.t),
        "sample": CALIBRATION if cell is origin else TARGET,
        "changed": _changed(cell, origin),
        "calibration_G": origin.G,
        "calibration_eta": origin.eta,
        "p_star": NAN,
        "r2_ceiling": float(own_fit["r2"]),
        "r2_attainable": float(own_fit["r2_attainable"]),
    }
    law_fit, flow_fit = _fit(fits, origin, "law"), _fit(fits, origin, "flow")
    for predictor in PREDICTORS:
        row, own_notes = base | {"predictor": predictor}, list(notes)
        if found is not None:
            setting = (found, law_fit, flow_fit, cell.eta / origin.eta, origin.G, cell.G)
            try:
                row |= parameters(predictor, *setting)
                compared = cell is not origin and predictor != "naive"
                naive = curve(parameters("naive", *setting), cell.t)
                level = (found.R_0 + found.p_star) / 2
                row |= _scored(cell, row, naive if compared else None, level, options, joint)
                own_notes += row.pop("notes")
            except InputError as error:
                own_notes.append(str(error))
            if "a" in row:
                row["K"] = row["a"] / cell.eta
            if predictor == "closed_form":
                row |= known
        yield row | {"note": "; ".join(own_notes)}
