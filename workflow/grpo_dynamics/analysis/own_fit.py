"""The fit of one's own run: where it will end, when, how sure that is, and what the next steps will bring."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from grpo_dynamics.analysis.fit_table import PARAMETERS, describe, identify, nested_tests
from grpo_dynamics.analysis.fits import Fit, fit
from grpo_dynamics.analysis.own_band import NAN, Band, Estimate, times_and_band
from grpo_dynamics.analysis.own_series import Series, changes, learning_rates, reward_series, time_unit
from grpo_dynamics.analysis.problem import curve
from grpo_dynamics.analysis.tables_fits import CURVES as STUDIED
from grpo_dynamics.runlog.log import RunLog

FEWEST = 6  # rewards: the law's four parameters, and two more
# The law with zeta >= 1 is left out: where it agrees with the law, the Akaike weights would count it twice.
CURVES = tuple(name for name in STUDIED if name != "law_overdamped")
REJECTED = "law does not fit"  # a reason beyond the study's own, whose table leaves the choice of curve to the weights
MOST_AICC = 10.0  # by which a rival may be better, allowing for autocorrelation: odds of 150 to 1 against the law


@dataclass(frozen=True)
class Curve:
    """A fitted curve: name, parameters, and how well it describes the raw rows.

    Attributes
    ----------
    r2, r2_forecast : float
        R^2 on the run; and on the rest of it, of the curve fitted to its first part alone (NaN where too short).
    aicc : float
        NaN where there are too few rows.
    weight : float
        Akaike weight, with differences in AICc times `OwnFit.independent`, for the noise's autocorrelation.
    f_p, f_p_effective : float
        p-value of the F-test against the exponential, with rows taken as independent and with their autocorrelation;
        of the law only, else NaN.
    at_bound : str
        Parameters that ended at a bound.
    """

    name: str
    parameters: dict[str, float]
    r2: float
    r2_forecast: float
    aicc: float
    weight: float
    f_p: float
    f_p_effective: float
    at_bound: str


@dataclass(frozen=True)
class OwnFit:
    """What the three-phase law and its rivals say of a run. Rewards are in the log's unit, times in `time_unit`.

    Attributes
    ----------
    time_unit : {"step", "rollout", "row"}
        Of all times, also of those that are called optimiser steps below. rollout: the log is verl's, which makes
        K_ref optimiser steps on each. row: the log has no steps.
    level : float
        Of all intervals.
    series : Series
        The rows fitted.
    identifiable : bool
        Whether plateau and rate can be read from the run.
    reason, explanation : str
        Why not, in a word of `tables_fits.REASONS` or `REJECTED` and in a sentence; empty where they can.
    estimates : dict
        R_0, R_inf, w0 and zeta of the law, with profile intervals unless the law is rejected; empty where nothing was
        fitted.
    times : dict
        slow_start_end, inflection and plateau_start (95 % of the way covered): optimiser steps made, with profile
        intervals; empty where the law is rejected.
    covered : float
        Share of the fitted way from R_0 to R_inf that the law has covered at the last row; NaN where it is rejected.
    curves : tuple of Curve
        The law and its rivals, best AICc first.
    autocorrelation, n_effective : float
        Lag-1 autocorrelation of the law's residuals, and the independent rows that it leaves.
    independent : float
        Share of the rows that is left as independent by the residuals of the curve with the best AICc: another curve's
        lack of fit would pass for autocorrelation.
    band : Band or None
        None where no interval can be had.
    heldout : (t, y)
        The held-out rewards, not fitted.
    notes : tuple of str
        What a reader has to know of the fit, a sentence each.
    """

    time_unit: str
    level: float
    series: Series
    identifiable: bool
    reason: str
    explanation: str
    estimates: dict[str, Estimate] = field(default_factory=dict)
    times: dict[str, Estimate] = field(default_factory=dict)
    covered: float = NAN
    curves: tuple[Curve, ...] = ()
    autocorrelation: float = NAN
    n_effective: float = NAN
    independent: float = NAN
    band: Band | None = None
    heldout: tuple[np.ndarray, np.ndarray] = (np.empty(0), np.empty(0))
    notes: tuple[str, ...] = ()

    def curve(self, name: str, t: np.ndarray) -> np.ndarray:
        """The fitted curve `name` at optimiser steps made `t`, of the origin or later."""
        parameters = next(one.parameters for one in self.curves if one.name == name)
        return curve(name, np.asarray(t) - self.series.origin, parameters, self.series.limits)


def fit_own(log: RunLog, options: dict) -> OwnFit:
    """Fit the law and its rivals to the train rewards of a run.

    Parameters
    ----------
    log : RunLog
    options : dict
        The config's `analysis`.

    Returns
    -------
    OwnFit
        With fewer than `min_points` rewards curves and no interval, with fewer than FEWEST nothing but the reason.
    """
    series = reward_series(log)
    measured = log.table[log.table["heldout_reward"].notna()]
    heldout = measured["step"].to_numpy(float), measured["heldout_reward"].to_numpy(float)
    unit = time_unit(log)
    notes = series.notes
    if unit == "row":
        notes += ("The log has no steps: times count its rows.",)
    elif unit == "rollout":
        K_ref = log.settings.get("K_ref")
        each = f"{K_ref:g} optimiser steps" if K_ref else "an unknown number of optimiser steps"
        notes += (f"verl's steps are rollouts, with {each} on each: times count rollouts.",)
    rates = learning_rates(log)
    if changes(rates) and changes(rates[[-1, int(np.argmax(rates))]]):
        notes += (
            f"eta falls within the run, from {rates.max():.3g} to {rates[-1]:.3g}: that alone flattens the curve, so "
            "that the plateau may be the schedule's, and not the one at a constant eta.",
        )
    common = {"time_unit": unit, "level": 1 - options["alpha"], "series": series, "heldout": heldout}
    n, y = len(series.y), series.y
    least = options["min_points"]
    if n < FEWEST:
        said = f"Rows with a reward: {n}. {least} are needed for a fit, {FEWEST} for a curve without intervals."
        return OwnFit(**common, identifiable=False, reason="too short", explanation=said, notes=notes)
    if np.ptp(y) == 0:
        said = f"The reward is {y[0]:.4g} in each of {n} rows: there is no rise to fit."
        return OwnFit(**common, identifiable=False, reason="no trend", explanation=said, notes=notes)
    if n < least:
        said = (
            f"{n} points are few: {least} are needed to judge a fit, so that no interval and no forecast are given. "
            "The curves are shown for orientation."
        )
        law = _fit("law", series)
        found = {name: law if name == "law" else _fit(name, series) for name in CURVES}
        curves, independent = _compare(found, options)
        return OwnFit(
            **common, identifiable=False, reason="too short", explanation=said, notes=notes,
            estimates={name: Estimate(law.estimates[name]) for name in PARAMETERS},
            covered=_covered(law), curves=curves, autocorrelation=law.autocorrelation, independent=independent,
        )  # fmt: skip
    law, single, profiles, reason = identify(series.last, y, options, series.limits, series.width)
    found = {name: {"law": law, "exponential": single}.get(name) or _fit(name, series) for name in CURVES}
    # An interval of the plateau that is wider than the rise itself says of neither where it is.
    if reason == "" and np.diff(profiles["R_inf"])[0] > law.estimates["R_inf"] - law.estimates["R_0"]:
        reason = "plateau not reached"
    curves, independent = _compare(found, options)
    common |= {
        "curves": curves, "autocorrelation": law.autocorrelation, "n_effective": law.n_effective,
        "independent": independent,
    }  # fmt: skip
    if reason in ("", "plateau not reached") and _advantage(curves) * independent > MOST_AICC:
        return OwnFit(
            **common, identifiable=False, reason=REJECTED, explanation=_rejection(curves, independent), notes=notes,
            estimates={name: Estimate(law.estimates[name]) for name in PARAMETERS},
        )  # fmt: skip
    estimates = {name: Estimate(law.estimates[name], *profiles[name]) for name in PARAMETERS}
    times, band, said = times_and_band(
        law, series, common["level"], reason not in ("no trend", "no independent points")
    )
    if said:
        notes += (said,)
    if band is not None and reason:
        notes += ("The band holds all laws that the rows allow; another curve may go elsewhere.",)
    if law.at_bound:
        notes += (f"At a bound of the search: {', '.join(law.at_bound)} of the law.",)
    return OwnFit(
        **common, identifiable=reason == "", reason=reason, explanation=explain(reason, law, estimates["R_inf"]),
        estimates=estimates, times=times, covered=_covered(law), band=band, notes=notes,
    )  # fmt: skip


def _fit(name: str, series: Series) -> Fit:
    return fit(name, series.last, series.y, series.limits, series.width)


def _covered(law: Fit) -> float:
    """Share of the way that is covered at the last row; below zeta = 1, as far as the swing has settled."""
    w0, zeta, last = law.estimates["w0"], law.estimates["zeta"], law.problem.t[-1]
    rise = law.estimates["R_inf"] - law.estimates["R_0"]
    left = abs(float(law.curve(last)) - law.estimates["R_inf"]) / abs(rise) if rise else NAN
    return 1 - max(left, float(np.exp(-zeta * w0 * last)) if zeta < 1 else 0.0)


def _compare(found: dict[str, Fit], options: dict) -> tuple[tuple[Curve, ...], float]:
    """The curves, best AICc first, with Akaike weights over those that have one, and `OwnFit.independent`."""
    rows = [describe(one, options) for one in found.values()]
    aicc = np.array([row["aicc"] for row in rows])
    best = list(found.values())[int(np.argmin(np.nan_to_num(aicc, nan=np.inf)))]
    independent = min(best.n_effective / len(best.problem.y), 1.0)
    likelihood = np.exp(-(aicc - np.nanmin(aicc)) * independent / 2) if np.isfinite(aicc).any() else aicc
    weight = likelihood / np.nansum(likelihood)
    curves = []
    for (name, one), row, share in zip(found.items(), rows, weight, strict=True):
        tests = nested_tests(one, found["exponential"]) if name == "law" else {}
        curves.append(
            Curve(
                name=name,
                parameters=one.estimates,
                r2=float(row["r2"]),
                r2_forecast=float(row.get("r2_forecast", NAN)),
                aicc=float(row["aicc"]),
                weight=float(share),
                f_p=tests.get("f_p", NAN),
                f_p_effective=tests.get("f_p_effective", NAN),
                at_bound=row["at_bound"],
            )
        )
    return tuple(sorted(curves, key=lambda one: np.nan_to_num(one.aicc, nan=np.inf))), independent


def _advantage(curves: tuple[Curve, ...]) -> float:
    """By how much the best curve's AICc is below the law's."""
    return next(one.aicc for one in curves if one.name == "law") - curves[0].aicc


def _rejection(curves: tuple[Curve, ...], independent: float) -> str:
    law, rival, lower = next(one for one in curves if one.name == "law"), curves[0], _advantage(curves)
    return (
        f"The law does not fit: the rival curve {rival.name} describes the rows far better (R^2 {rival.r2:.3f}, "
        f"against {law.r2:.3f}; AICc lower by {lower:.0f}, which is {lower * independent:.0f} "
        "allowing for autocorrelation), so that the law's plateau, times and forecast mean nothing here."
    )


def explain(reason: str, law: Fit, R_inf: Estimate) -> str:
    """Why plateau and rate cannot be read, in a sentence; empty for an empty reason."""
    start, end = law.estimates["R_0"], law.estimates["R_inf"]
    match reason:
        case "no trend":
            return "The reward shows no trend that stands out of its noise: there is no rise to fit."
        case "no independent points":
            return (
                "The reward wanders so slowly that its rows are hardly independent: a trend cannot be told from chance."
            )
        case "reward falls":
            return f"The reward falls, from {start:.3g} to {end:.3g} by the fit; the law describes a rise to a plateau."
        case "plateau not reached":
            share = _covered(law)
            if share < 0.9 or not np.isfinite(R_inf.high - R_inf.low):
                return f"The plateau is not reached: only {100 * share:.0f} % of the fitted way is covered."
            return (
                f"The plateau is not reached: the run allows any between {R_inf.low:.3g} and {R_inf.high:.3g}, "
                f"where the fitted way is {end - start:.3g} long."
            )
    return ""
