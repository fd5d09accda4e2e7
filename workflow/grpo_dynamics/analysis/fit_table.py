"""The table of fits: the law and the exponential on every run and on every cell's mean, and what can be read off."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from grpo_dynamics.analysis.fits import Fit, fit_exponential, fit_law, inflation
from grpo_dynamics.analysis.profile import zeta_interval
from grpo_dynamics.analysis.series import all_series
from grpo_dynamics.analysis.tables import FITS
from grpo_dynamics.theory.law import exponential, phases, phi, three_phase

NAN = float("nan")


def r_squared(y: np.ndarray, fitted: np.ndarray) -> float:
    """1 - SSE / SST, with SST about the mean of these points; NaN for fewer than two or constant points."""
    total = float(np.sum((y - np.mean(y)) ** 2)) if len(y) > 1 else 0.0
    return 1 - float(np.sum((y - fitted) ** 2)) / total if total > 0 else NAN


def aicc(sse: float, n: int, parameters: int) -> float:
    """Corrected Akaike criterion of a least-squares fit; the variance counts as one more parameter."""
    p = parameters + 1
    return n * np.log(sse / n) + 2 * p + 2 * p * (p + 1) / (n - p - 1) if sse > 0 and n > p + 1 else NAN


def f_test(sse_small: float, sse_large: float, added: int, dof: float) -> float:
    """p-value of `added` parameters that lower the residual sum of squares from `sse_small` to `sse_large`.

    `dof` is what is left to the larger model: points (or effective points) minus its parameters.
    """
    if sse_large <= 0 or dof <= 0:
        return NAN
    f = max(sse_small - sse_large, 0.0) / added / (sse_large / dof)
    return float(stats.f.sf(f, added, dof))


def _identifiable(t: np.ndarray, y: np.ndarray, law: Fit, single: Fit, options: dict) -> str:
    n = len(t)
    constant = float(np.sum((y - y.mean()) ** 2))
    # The law's residuals, since the exponential's lack of fit would pass for autocorrelation.
    effective = n / inflation(law.autocorrelation)
    # The exponential adds two parameters to a constant. No trend: the data do not ask for them.
    # Nor can they, where autocorrelation leaves no more independent points than the exponential has parameters.
    trend = f_test(constant, single.sse, 2, effective - 3)
    if constant == 0 or effective <= 3 or trend > options["alpha"]:
        return "no trend"
    w0, zeta = law.estimates["w0"], law.estimates["zeta"]
    # Below zeta = 1 phi passes zero on its way; the envelope says how far the swing has settled.
    left = max(abs(float(phi(t[-1], w0, zeta))), float(np.exp(-zeta * w0 * t[-1])) if zeta < 1 else 0.0)
    return "" if 1 - left >= options["plateau_covered"] else "plateau not reached"


def fit_series(t: np.ndarray, y: np.ndarray, options: dict) -> dict:
    """Fit one series; returns the columns of FITS from `n` on.

    Parameters
    ----------
    t, y : (n,) arrays
        Time in optimiser steps and reward in [0, 1], raw.
    options : dict
        The config's `analysis`: alpha, min_points, early_share, plateau_covered.
    """
    n = len(t)
    row: dict = {name: NAN for name in list(FITS.columns)[4:]}
    row |= {"n": n, "n_early": 0, "evaluations": 0, "start": "none", "at_bound": "", "identifiable": False}
    if n < options["min_points"]:
        return row | {"reason": "too short"}
    law, single = fit_law(t, y), fit_exponential(t, y)
    early = t <= t[0] + options["early_share"] * (t[-1] - t[0])
    level = 1 - options["alpha"]
    zeta_low, zeta_high = zeta_interval(t, y, law, level)
    phase = phases(law.estimates["w0"], law.estimates["zeta"])
    reason = _identifiable(t, y, law, single, options)
    effective = n / inflation(law.autocorrelation)
    for name in ("R_0", "R_inf", "w0", "zeta"):
        row |= {name: law.estimates[name], f"{name}_se": law.se[name]}
    return row | {
        "zeta_low": zeta_low,
        "zeta_high": zeta_high,
        "k": single.estimates["k"],
        "k_se": single.se["k"],
        "R_0_exponential": single.estimates["R_0"],
        "R_inf_exponential": single.estimates["R_inf"],
        "r2": r_squared(y, law.fitted),
        "r2_exponential": r_squared(y, single.fitted),
        "r2_early": r_squared(y[early], law.fitted[early]),
        "r2_early_exponential": r_squared(y[early], single.fitted[early]),
        "sse": law.sse,
        "sse_exponential": single.sse,
        "sse_early": float(np.sum((y - law.fitted)[early] ** 2)),
        "sse_early_exponential": float(np.sum((y - single.fitted)[early] ** 2)),
        "n_early": int(early.sum()),
        "aicc": aicc(law.sse, n, 4),
        "aicc_exponential": aicc(single.sse, n, 3),
        "f_p": f_test(single.sse, law.sse, 1, n - 4),
        "f_p_effective": f_test(single.sse, law.sse, 1, effective - 4),
        "autocorrelation": law.autocorrelation,
        "slow_start_end": phase.slow_start_end,
        "plateau_start": phase.rapid_rise_end,
        "evaluations": law.evaluations + single.evaluations,
        "start": law.start,
        "at_bound": " ".join(law.at_bound),
        "identifiable": reason == "",
        "reason": reason,
    }


def fit_runs(runs: pd.DataFrame, options: dict) -> pd.DataFrame:
    """The FITS table of a run log (RUN_LOG): every run, and the mean over the seeds of every cell."""
    rows = []
    for series in all_series(runs):
        key = {
            "model": series.model,
            "G": series.G,
            "series": "mean" if series.seed is None else "run",
            "seed": series.seed,
        }
        rows.append(key | fit_series(series.t, series.y, options))
    table = pd.DataFrame(rows, columns=list(FITS.columns))
    return table.astype({"seed": "Int64"})


def curve(fit: pd.Series, t: np.ndarray, law: bool = True) -> np.ndarray:
    """The fitted law (or exponential) of one row of FITS at times `t`, in optimiser steps."""
    if law:
        return three_phase(t, fit["R_0"], fit["R_inf"], fit["w0"], fit["zeta"])
    return exponential(t, fit["R_0_exponential"], fit["R_inf_exponential"], fit["k"])
