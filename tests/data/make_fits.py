"""Makes tests/data/fits.json: least-squares problems with their solutions to 15 digits, in the manner of NIST's StRD.

Every problem is a rounded noisy series. Newton's method on the sum of squares, with 50 digits and numerical
derivatives, gives the parameters, the residual sum of squares and the standard errors, independently of the library.
NIST's own Rat42 (https://www.itl.nist.gov/div898/strd/nls/data/ratkowsky2.shtml) is added with its certified values.
"""

import json
from pathlib import Path

import numpy as np
from mpmath import diff, exp, matrix, mp, mpf, sqrt

mp.dps = 50


def law(t, R_0, R_inf, w0, zeta):
    # The two roots may be complex: their combination is real.
    root = sqrt(zeta**2 - 1)
    slow, fast = w0 * (zeta - root), w0 * (zeta + root)
    phi = (fast * exp(-slow * t) - slow * exp(-fast * t)) / (fast - slow)
    return R_inf + (R_0 - R_inf) * phi.real


def flow_ceiling(t, R_0, R_inf, k):
    p = R_0 / R_inf
    S = (2 * p - 1) / (2 * sqrt(p * (1 - p))) + k * t / 4
    return R_inf * (1 + S / sqrt(1 + S**2)) / 2


CASES = {
    "underdamped": ("law", law, {"R_0": 0.15, "R_inf": 0.7, "w0": 0.09, "zeta": 0.45}, 0.02),
    "near_critical": ("law", law, {"R_0": 0.1, "R_inf": 0.8, "w0": 0.08, "zeta": 1.05}, 0.02),
    "overdamped": ("law", law, {"R_0": 0.2, "R_inf": 0.85, "w0": 0.15, "zeta": 1.8}, 0.01),
    "exponential": (
        "exponential",
        lambda t, R_0, R_inf, k: R_inf + (R_0 - R_inf) * exp(-k * t),
        {"R_0": 0.2, "R_inf": 0.9, "k": 0.03},
        0.03,
    ),
    "gompertz": (
        "gompertz",
        lambda t, R_0, R_inf, k: R_inf * (R_0 / R_inf) ** exp(-k * t),
        {"R_0": 0.1, "R_inf": 0.8, "k": 0.05},
        0.03,
    ),
    "flow_ceiling": ("flow_ceiling", flow_ceiling, {"R_0": 0.2, "R_inf": 0.85, "k": 0.15}, 0.03),
}


def solve(function, names, t, y, values):
    u = matrix([mpf(values[name]) for name in names])
    for _ in range(300):
        f = [function(x, *u) for x in t]
        J = matrix(len(t), len(names))
        for i, x in enumerate(t):
            for j in range(len(names)):
                order = tuple(1 if place == j else 0 for place in range(len(names)))
                J[i, j] = diff(lambda *v, x=x: function(x, *v), tuple(u), order)
        r = matrix([yy - ff for yy, ff in zip(y, f, strict=True)])
        step = (J.T * J) ** -1 * (J.T * r)
        u += step
        if max(abs(x) for x in step) < mpf(10) ** -20:
            break
    else:
        raise RuntimeError("Gauss and Newton did not converge")
    sse = sum((yy - function(x, *u)) ** 2 for x, yy in zip(t, y, strict=True))
    covariance = (J.T * J) ** -1 * sse / (len(t) - len(names))
    return u, sse, [sqrt(covariance[j, j]) for j in range(len(names))]


def main():
    found = {}
    for seed, (case, (curve, function, truth, noise)) in enumerate(CASES.items()):
        t = [mpf(x) for x in range(0, 120, 2)]
        rng = np.random.default_rng(seed)
        y = [round(float(function(x, *map(mpf, truth.values()))) + noise * rng.normal(), 4) for x in t]
        u, sse, errors = solve(function, list(truth), t, [mpf(str(v)) for v in y], truth)
        found[case] = {
            "curve": curve,
            "limits": [0, 1],
            "t": [int(x) for x in t],
            "y": y,
            "estimates": {name: float(value) for name, value in zip(truth, u, strict=True)},
            "standard_errors": {name: float(value) for name, value in zip(truth, errors, strict=True)},
            "sse": float(sse),
        }
    b1, b2, b3 = 7.2462237576e01, 2.6180768402e00, 6.7359200066e-02
    found["NIST Rat42"] = {
        "curve": "logistic",
        "limits": [0, 100],
        "t": [9, 14, 21, 28, 42, 57, 63, 70, 79],
        "y": [8.93, 10.80, 18.59, 22.33, 39.35, 56.11, 61.73, 64.62, 67.08],
        "estimates": {"R_0": b1 / (1 + float(exp(b2))), "R_inf": b1, "k": b3},
        "standard_errors": {"R_inf": 1.7340283401e00, "k": 3.4465663377e-03},
        "sse": 8.0565229338e00,
    }
    Path(__file__).with_name("fits.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
