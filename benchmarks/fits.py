"""Speed of the fits, as ratios within one run.

One fit of 500 points with its standard errors, from one start, against lmfit's from the same start to the same optimum;
the same from the whole grid of starts; and 1,000 refits of one run's bootstrap.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import lmfit
import numpy as np

from grpo_dynamics.analysis.bootstrap import bootstrap_intervals
from grpo_dynamics.analysis.fits import fit
from grpo_dynamics.theory.law import three_phase

START = {"w0": 0.04, "zeta": 2.0}
REPEATS = 30


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median time of a call, the first (which compiles) left out."""
    work()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def main() -> None:
    t = np.arange(500.0)
    y = three_phase(t, 0.2, 0.9, 0.02, 1.3) + np.random.default_rng(0).normal(0, 0.03, len(t))
    model = lmfit.Model(three_phase, independent_vars=["t"])
    parameters = model.make_params(
        R_0={"value": y[:50].mean(), "min": 0, "max": 1},
        R_inf={"value": y[-50:].mean(), "min": 0, "max": 1},
        w0={"value": START["w0"], "min": 1e-4, "max": 10},
        zeta={"value": START["zeta"], "min": 0.05, "max": 50},
    )

    def ours():
        return fit("law", t, y, start=START)

    def theirs():
        return model.fit(y, parameters, t=t)

    found, other = ours(), theirs()
    apart = max(abs(found.estimates[name] / other.params[name].value - 1) for name in found.estimates)
    alone, rival = seconds(ours), seconds(theirs)
    print(
        "one fit of 500 points".ljust(32)
        + f"{alone * 1e3:8.2f} ms: {rival / alone:.0f} times as fast as lmfit from the same "
        f"start ({rival * 1e3:.1f} ms); parameters agree to {apart:.0e}"
    )
    grid = seconds(lambda: fit("law", t, y))
    print(
        "the same, from 16 starts".ljust(32)
        + f"{grid * 1e3:8.2f} ms: {rival / grid:.1f} times as fast as lmfit from one"
    )
    for name in ("law", "exponential", "logistic", "gompertz", "flow_ceiling", "flow"):
        one = fit(name, t, y)
        taken = seconds(lambda one=one: bootstrap_intervals(one, 1000, 12, 0.95, seed=0), 3)
        print(f"1,000 refits, {name}".ljust(32) + f"{taken:8.2f} s")


if __name__ == "__main__":
    main()
