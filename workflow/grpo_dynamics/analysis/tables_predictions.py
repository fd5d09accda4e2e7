"""The table of the runs' trajectories predicted without a fit: columns and their meaning."""

from __future__ import annotations

import pandera.pandas as pa

from grpo_dynamics.analysis.tables import number
from grpo_dynamics.tables import MODEL, NOT_NEGATIVE, POSITIVE, SHARE, G, column, schema

PREDICTORS = ("closed_form", "finite_group", "overdamped", "flow", "naive")
CALIBRATION, TARGET = "calibration", "target"
ETA, GROUP, BOTH, NEITHER = "eta", "G", "eta and G", "neither"

RUN_PREDICTIONS = schema(
    "run predictions",
    {
        "model": MODEL,
        "predictor": column(
            str,
            "closed_form: the law with the calibrated K, p* and R_0 at the target's eta; finite_group: the same with K "
            "and p* moved to the target's G by the exact drift of finite groups; overdamped: the law as fitted freely "
            "to the calibration cell, its time scaled with eta; flow: the mean-field flow without momentum as fitted "
            "to the calibration cell, its rate scaled with eta; naive: the law as fitted freely to the calibration "
            "cell, unchanged",
            pa.Check.isin(PREDICTORS),
        ),
        "variant": column(str, "study: the study's own runs; else the name of the variant in the config"),
        "G": G,
        "eta": column(float, "learning rate of the runs that are predicted", POSITIVE),
        "groups": column("Int64", "their prompts per step", POSITIVE),
        "runs": column("Int64", "their number, one per seed", POSITIVE),
        "n": column("Int64", "freshly sampled rewards of each that are scored", NOT_NEGATIVE),
        "sample": column(
            str,
            "calibration: the cell that K and p* come from, so that its scores are in sample; target: another cell",
            pa.Check.isin([CALIBRATION, TARGET]),
        ),
        "changed": column(
            str,
            "which of eta and G differ from the calibration cell's",
            pa.Check.isin([ETA, GROUP, BOTH, NEITHER]),
        ),
        "calibration_G": G,
        "calibration_eta": column(float, "learning rate of the calibration cell", POSITIVE),
        "K": number("curvature scale that is used, a / eta, 1/step (closed_form, finite_group)", POSITIVE),
        "K_low": number("lower end of its moving-block bootstrap interval (closed_form)"),
        "K_high": number("upper end of it"),
        "K_run_low": number("smallest K of the calibration cell's runs, each calibrated alone (closed_form)"),
        "K_run_high": number("largest of them"),
        "p_star": number("fixed point, or plateau of the fitted curve, that is used"),
        "p_star_low": number("lower end of its moving-block bootstrap interval (closed_form)"),
        "p_star_high": number("upper end of it"),
        "R_0": number("reward at the start that is used"),
        "a": number("eta K at the target's eta, 1/step (closed_form, finite_group)", POSITIVE),
        "w0": number("natural frequency of the predicted law, 1/step (all but flow)", POSITIVE),
        "zeta": number("damping ratio of the predicted law (all but flow)"),
        "beta": number("weight of the flow's KL anchor", NOT_NEGATIVE),
        "k": number("rate of the flow, 1/step", POSITIVE),
        "regime": column(str, "regime of the closed form at a (closed_form, finite_group)", nullable=True),
        "r2": number("R^2 of the prediction on the raw mean over runs"),
        "r2_low": number("lower end of its moving-block bootstrap interval over steps"),
        "r2_high": number("upper end of it"),
        "r2_run_low": number("smallest R^2 on a single run"),
        "r2_run_high": number("largest R^2 on a single run"),
        "rmse": number("root of the mean squared difference from the raw mean over runs", NOT_NEGATIVE),
        "r2_ceiling": number("R^2 of the law fitted freely to this cell: what a curve of its form can reach"),
        "r2_attainable": number("R^2 that the true curve would have on this cell's raw mean over runs, as in the fits"),
        "gain": number("R^2 minus that of naive (targets)"),
        "gain_low": number(
            "lower end of the gain's moving-block bootstrap interval over steps; those of a predictor's targets hold "
            "together (Bonferroni)"
        ),
        "gain_high": number("upper end of it"),
        "runs_better": column("Int64", "runs whose R^2 is above that of naive", NOT_NEGATIVE, nullable=True),
        "half_rise_predicted": number("steps until the prediction is half-way from the calibrated R_0 to p*"),
        "half_rise_measured": number("the same of the running mean of the raw mean over runs"),
        "log_ratio": number("logarithm of half_rise_predicted / half_rise_measured"),
        "log_ratio_low": number("lower end of its jackknife interval over the target's runs"),
        "log_ratio_high": number("upper end of it"),
        "end_predicted": number("mean prediction over the last tenth of the steps"),
        "end_measured": number("mean reward over the last tenth of the steps", SHARE),
        "end_low": number("lower end of its t interval over runs"),
        "end_high": number("upper end of it"),
        "note": column(str, "what limits the prediction or its scores; empty for nothing", nullable=True),
    },
    unique=["model", "predictor", "variant", "G"],
)
