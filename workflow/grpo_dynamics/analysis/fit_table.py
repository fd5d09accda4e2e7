"""The table of fits: the law and its rivals on every run and on every cell's mean, and what can be read off."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats
from scipy.ndimage import uniform_filter1d
from scipy.optimize import brentq

from grpo_dynamics import seeds
from grpo_dynamics.analysis.bootstrap import bootstrap_intervals
from grpo_dynamics.analysis.fits import Fit, fit
from grpo_dynamics.analysis.intervals import attainable_r2, r_squared
from grpo_dynamics.analysis.problem import curve
from grpo_dynamics.analysis.profile import noise_of, profile_interval
from grpo_dynamics.analysis.series import all_series
from grpo_dynamics.analysis.tables_fits import CURVES, FITS
from grpo_dynamics.theory.law import phases

NAN = float("nan")
PARAMETERS = ("R_0", "R_inf", "w0", "zeta")


def aicc(sse: float, n: int, parameters: int) -> float:
    """Corrected Akaike criterion of a least-squares fit; the variance counts as one more parameter."""
    p = parameters + 1
    return n * np.log(sse / n) + 2 * p + 2 * p * (p + 1) / (n - p - 1) if sse > 0 and n > p + 1 else NAN


def f_test(sse_small: float, sse_large: float, added: int, dof: float, n: int = 0, widening: float = 1.0) -> float:
    """p-value of `added` parameters that lower the residual sum of squares from `sse_small` to `sse_large`.

    Parameters
    ----------
    dof : float
        Degrees of freedom of the noise: what is left to the larger model, points minus its parameters, or fewer under
        autocorrelation.
    n : int
        Points minus parameters where `dof` is less than that; 0 for the same.
    widening : float
        Variance of the added parameters' estimates over that under independent noise of one size.
    """
    if sse_large <= 0 or dof <= 0:
        return NAN
    f = max(sse_small - sse_large, 0.0) / added / (sse_large / (n or dof)) / widening
    return float(stats.f.sf(f, added, dof))


def covered_at(found: Fit, share: float) -> float:
    """Steps until a share of the fitted way from R_0 to R_inf is first covered; NaN for a curve without a rise."""
    start, end = found.estimates["R_0"], found.estimates["R_inf"]
    if abs(end - start) < 1e-9:
        return NAN
    if "zeta" in found.estimates:
        latest = phases(found.estimates["w0"], found.estimates["zeta"]).rapid_rise_end * 1.001
    else:
        latest = found.problem.t[-1]
        while (found.curve(latest) - start) / (end - start) < share:
            latest *= 2
            if latest > 1e9:
                return NAN

    def beyond(t: float) -> float:
        return float((found.curve(t) - start) / (end - start) - share)

    return float(brentq(beyond, 0.0, latest, rtol=1e-6)) if beyond(0.0) < 0 < beyond(latest) else NAN


def why_not_identifiable(law: Fit, single: Fit, R_inf: tuple[float, float], options: dict) -> str:
    """Why plateau and rate cannot be read from a series; empty where they can.

    Parameters
    ----------
    law, single : Fit
        The law and the exponential.
    R_inf : (low, high)
        Interval of the plateau.
    options : dict
        The config's `analysis`: alpha, plateau_covered.
    """
    y, limits = law.problem.y, law.problem.limits
    start, end = law.estimates["R_0"], law.estimates["R_inf"]
    if np.ptp(y) == 0 or start == end:
        return "no trend"
    constant = float(np.sum((y - y.mean()) ** 2))
    # The law's noise, since the exponential's lack of fit would pass for autocorrelation.
    dof = law.n_effective - len(single.u)
    if dof < 1:
        return "no independent points"
    # The exponential adds two parameters to a constant. No trend: the data do not ask for them.
    widening = max(1.0, len(y) / law.n_effective)
    if f_test(constant, single.sse, 2, dof, len(y) - len(single.u), widening) > options["alpha"]:
        return "no trend"
    w0, zeta, last = law.estimates["w0"], law.estimates["zeta"], law.problem.t[-1]
    if end < start:
        return "reward falls"
    # Below zeta = 1 the law passes its plateau on its way; the envelope says how far the swing has settled.
    left = abs(float(law.curve(last)) - end) / (end - start)
    left = max(left, float(np.exp(-zeta * w0 * last))) if zeta < 1 else left
    unbounded = R_inf[0] <= limits[0] or R_inf[1] >= limits[1] or not np.all(np.isfinite(R_inf))
    wide = not R_inf[1] - R_inf[0] <= (1 - options["plateau_covered"]) * (end - start)  # also without an interval
    return "plateau not reached" if 1 - left < options["plateau_covered"] or (unbounded and wide) else ""


def identify(
    t: np.ndarray,
    y: np.ndarray,
    options: dict,
    limits: tuple[float, float] = (0.0, 1.0),
    width: np.ndarray | int = 1,
) -> tuple[Fit, Fit, dict[str, tuple[float, float]], str]:
    """The law, the exponential, the profile intervals of the law's parameters, and why the series is not identifiable.

    Parameters as in `fit_series`, `limits` and `width` as in `fit`; the reason is empty for an identifiable series.
    """
    law, single = fit("law", t, y, limits, width), fit("exponential", t, y, limits, width)
    profiles = {name: profile_interval(law, name, 1 - options["alpha"]) for name in PARAMETERS}
    return law, single, profiles, why_not_identifiable(law, single, profiles["R_inf"], options)


def _forecast(found: Fit, options: dict) -> dict[str, float]:
    p = found.problem
    seen = p.t <= p.t[0] + options["forecast_share"] * (p.t[-1] - p.t[0])
    if seen.sum() < options["min_points"] or (~seen).sum() < 2:
        return {}
    early = fit(p.curve, p.t[seen], p.y[seen], p.limits, p.width[seen])
    rest, predicted = p.y[~seen], early.curve(p.t[~seen] - (p.width[~seen] - 1) / 2)
    return {
        "r2_forecast": r_squared(rest, predicted),
        "rmse_forecast": float(np.sqrt(np.mean((rest - predicted) ** 2))),
    }


def describe(found: Fit, options: dict) -> dict:
    """What one curve says of a series, as columns of FITS, without intervals and comparisons."""
    t, y, n, p = found.problem.t, found.problem.y, len(found.problem.t), len(found.u)
    early = t <= t[0] + options["early_share"] * (t[-1] - t[0])
    smoothed = uniform_filter1d(y, options["smoothing"], mode="nearest")
    zeta = found.estimates.get("zeta")
    return (
        found.estimates
        | {f"{name}_se": value for name, value in found.se.items()}
        | {
            "curve": found.problem.curve,
            "parameters": p,
            "r2": r_squared(y, found.fitted),
            "r2_attainable": attainable_r2(y),
            "r2_smoothed": r_squared(smoothed, found.fitted),
            "r2_early": r_squared(y[early], found.fitted[early]),
            "sse": found.sse,
            "sse_early": float(np.sum(found.residuals[early] ** 2)),
            "n_early": int(early.sum()),
            "aicc": aicc(found.sse, n, p),
            "autocorrelation": found.autocorrelation,
            "n_effective": found.n_effective,
            "slow_start_end": NAN if zeta is None else phases(found.estimates["w0"], zeta).slow_start_end,
            "half_rise": covered_at(found, 0.5),
            "plateau_start": covered_at(found, 0.95),
            "evaluations": found.evaluations,
            "start": found.start,
            "at_bound": " ".join(found.at_bound),
        }
        | _forecast(found, options)
    )


def nested_tests(law: Fit, single: Fit) -> dict[str, float]:
    """F-tests of the law against the exponential; the second is empty where no independent point carries zeta."""
    dof = len(law.problem.y) - len(law.u)
    widening, points = noise_of(law, "zeta")
    effective = min(points, law.n_effective - len(law.u))
    return {
        "f_p": f_test(single.sse, law.sse, 1, dof),
        "f_p_effective": f_test(single.sse, law.sse, 1, effective, dof, widening) if effective >= 1 else NAN,
    }


def fit_series(t: np.ndarray, y: np.ndarray, options: dict, seed: int = 0) -> list[dict]:
    """Fit the law and its rivals to one series; returns a row per curve, with the columns of FITS from `curve` on.

    Parameters
    ----------
    t, y : (n,) arrays
        Time in optimiser steps and reward in [0, 1], raw.
    options : dict
        The config's `analysis`: alpha, min_points, early_share, forecast_share, smoothing, plateau_covered,
        fit_replicates, block_length.
    seed : int
        Of the bootstrap.
    """
    n = len(t)
    common = {"n": n, "identifiable": False}
    if n < options["min_points"]:
        empty = {
            "parameters": 1,
            "n_early": 0,
            "evaluations": 0,
            "start": "none",
            "at_bound": "",
            "reason": "too short",
        }
        return [common | empty | {"curve": name} for name in CURVES]
    level = 1 - options["alpha"]
    law, single, profiles, reason = identify(t, y, options)
    found = {name: {"law": law, "exponential": single}.get(name) or fit(name, t, y) for name in CURVES}
    rows = []
    for name, one in found.items():
        row = common | {"identifiable": reason == "", "reason": reason} | describe(one, options)
        if name == "law":
            row |= {f"{key}_low": low for key, (low, _) in profiles.items()}
            row |= {f"{key}_high": high for key, (_, high) in profiles.items()}
        if "zeta" in one.estimates:
            row |= nested_tests(one, single)
        drawn = bootstrap_intervals(one, options["fit_replicates"], options["block_length"], level, seed)
        row |= {f"{key}_boot_low": low for key, (low, _) in drawn.items() if key != "beta"}
        row |= {f"{key}_boot_high": high for key, (_, high) in drawn.items() if key != "beta"}
        rows.append(row)
    return rows


def fit_runs(
    runs: pd.DataFrame, options: dict, seed: int, report: Callable[[int], None] = lambda done: None
) -> pd.DataFrame:
    """The FITS table: every run, and the mean over the seeds of every cell.

    Parameters
    ----------
    runs : DataFrame
        VARIANT_LOG, the study's own runs under the variant `study`.
    options : dict
        As in `fit_series`.
    seed : int
        The study's seed.
    report : callable
        Called with the number of series done.
    """
    rows = []
    for done, series in enumerate(all_series(runs), start=1):
        key = {
            "variant": series.variant,
            "model": series.model,
            "G": series.G,
            "series": "mean" if series.seed is None else "run",
            "seed": series.seed,
        }
        own = seeds.derive(seed, "fits", *key.values())
        rows += [key | row for row in fit_series(series.t, series.y, options, own)]
        report(done)
    table = pd.DataFrame(rows).reindex(columns=list(FITS.columns))
    return table.astype({"seed": "Int64"})


def fitted_curve(name: str, row: pd.Series, t: np.ndarray) -> np.ndarray:
    """The fitted curve `name` of a row of FITS at times `t`, in optimiser steps."""
    keys = ("R_0", "beta", "k") if name == "flow" else ("R_0", "R_inf", "w0", "zeta", "k")
    return curve(name, t, {key: float(row[key]) for key in keys if np.isfinite(row[key])})
