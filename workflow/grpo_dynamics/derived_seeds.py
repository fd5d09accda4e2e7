"""Every seed that derives from the study's one seed, by what it seeds.

The names are those that the stages hand to `seeds.derive`; a test compares the first of them with those in the calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from grpo_dynamics.cells import failure_cells, failure_kinds, variant_cells
from grpo_dynamics.seeds import derive


def derived_seeds(config: dict) -> list[dict]:
    """All derived seeds of a study.

    Parameters
    ----------
    config : dict
        The study's config.

    Returns
    -------
    list of dict
        ``seeds`` (what is seeded), ``names`` and ``seed``, which is ``derive(config["seed"], *names)``. An entry with
        ``replicas`` stands for that many seeds: the names of each end in its number, from 0, and ``seed`` is the first.
    """
    entries = []
    for what, names, replicas in [*_runs(config), *_data(config), *_analysis(config), *_bandit(config)]:
        first = names if replicas is None else (*names, 0)
        entry = {"seeds": what, "names": list(names), "seed": derive(config["seed"], *first)}
        entries.append(entry if replicas is None else entry | {"replicas": replicas})
    return entries


Named = Iterator[tuple[str, tuple, int | None]]


def _runs(config: dict) -> Named:
    """Pretraining, GRPO runs and evaluations."""
    for model in config["models"]:
        if "pretraining" in config["catalogue"][model]:
            yield "pretraining", ("pretraining", model), None
    cells = list(product(config["models"], config["group_sizes"], config["seeds"]))
    for cell in cells:
        yield "GRPO run", ("grpo", *cell), None
    for variant, *cell in variant_cells(config):
        yield "GRPO run of a variant", ("grpo", *cell, variant), None
    for kind, *cell in failure_cells(config):
        yield "GRPO run with an induced failure", ("grpo", *cell, f"failure {kind}"), None
    for model in config["models"]:
        yield "evaluation of a base model", ("evaluation", model, None, None), None
    for cell in cells:
        yield "evaluation of a run", ("evaluation", *cell), None


def _data(config: dict) -> Named:
    """Problems that are generated, or drawn from a benchmark."""
    yield "training and held-out problems", ("training data",), None
    for kind, values in failure_kinds(config).items():
        if "operands" in values:
            yield "training problems of an induced failure", ("failures", kind), None
    benchmarks, local = config["evaluation"]["benchmarks"], config["evaluation"]["data_files"]
    for benchmark in benchmarks:
        if benchmark.startswith("ladder_") and benchmark not in local:
            yield "problems of a benchmark", (benchmark,), None
        elif config["evaluation"]["items"] is not None:
            yield "choice of a benchmark's problems", ("items", benchmark), None


def _analysis(config: dict) -> Named:
    """Bootstraps of the fits, the predictions and the transfer; simulated runs of the calibration."""
    cells = list(product(config["models"], config["group_sizes"]))
    runs = [("study", model, G, seed) for model, G in cells for seed in config["seeds"]]
    runs += variant_cells(config)
    own = dict.fromkeys(run[:3] for run in runs)
    for variant, model, G, seed in runs:
        yield "bootstrap of the fit to a run", ("fits", variant, model, G, "run", seed), None
    for variant, model, G in own:
        yield "bootstrap of the fit to a cell's mean", ("fits", variant, model, G, "mean", None), None
    for scenario in config["calibration"]["scenarios"]:
        yield "simulated runs of the fits' calibration", ("calibration", scenario), config["calibration"]["replicas"]
    for model in config["models"]:
        yield "bootstrap of the predictions' calibration", ("calibration", model), None
    for variant, model, G in own:
        yield "bootstrap of a prediction's scores", ("scores", model, variant, G), None
    for benchmark in config["evaluation"]["benchmarks"]:
        yield "bootstrap of transfer over problems", ("transfer problems", benchmark), None
    for cell in cells:
        yield "bootstrap of transfer over runs", ("transfer runs", *cell), None


def _bandit(config: dict) -> Named:
    """Replicas of the bandit's sampled sweeps."""
    bandit = config["bandit"]
    fixed_point, drift, variance = bandit["fixed_point"], bandit["drift"], bandit["stationary_variance"]
    for G in [None, *fixed_point["group_sizes"]]:
        yield "bandit: perturbed runs", ("perturbation", G), fixed_point["replicas"]
    for cell in product(drift["stds"], drift["group_sizes"], drift["ps"]):
        yield "bandit: drift and noise", ("drift", *cell), drift["replicas"]
    for cell in product(variance["schedules"], variance["group_sizes"]):
        yield "bandit: stationary variance", ("stationary variance", *cell), variance["replicas"]
    for arms in bandit["arms"]["arms"]:
        yield "bandit: several arms", ("arms", *arms), bandit["arms"]["replicas"]
    predictions = bandit["predictions"]
    for setting, start, G in product(predictions["settings"], predictions["starts"], predictions["group_sizes"]):
        names = ("predictions", setting["eta"], setting["mu"], setting["K_ref"], start, G)
        yield "bandit: predicted trajectories", names, predictions["replicas"]
