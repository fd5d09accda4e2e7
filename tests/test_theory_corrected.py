"""Thresholds of the importance-corrected schedule against a dense scan of its eigenvalues, and to many digits."""

import mpmath as mp
import numpy as np
import pytest

from grpo_dynamics.theory import lag, thresholds

SCHEDULE = "importance_corrected"


def period(a, mu, L, share):
    """Maps of (e, v) from a refresh to each of the next L steps, (L, len(a), 2, 2), step by step."""
    e, v = np.tile([1.0, 0.0], (len(a), 1)), np.tile([0.0, 1.0], (len(a), 1))
    frozen, steps = e, []
    for _ in range(L):
        v = mu * v - a[:, None] * ((1 - share) * e + share * frozen)
        e = e + v
        steps.append(np.stack([e, v], axis=-2))
    return np.array(steps)


def unstable(a, mu, L, share):
    return np.abs(np.linalg.eigvals(period(a, mu, L, share)[-1])).max(axis=-1) >= 1


def oscillates(a, mu, L, share):
    """Whether the leading mode is complex or its e changes sign from step to step within the period."""
    steps = period(a, mu, L, share)
    roots, vectors = np.linalg.eig(steps[-1])
    leading = np.argmax(np.abs(roots), axis=-1)
    rows = np.arange(len(a))
    root, mode = roots[rows, leading], vectors[rows, :, leading]
    e = np.einsum("kni,ni->kn", steps[:, :, 0], mode.real) * np.sign(mode[:, 0].real)
    return (np.abs(root.imag) > 0) | (root.real < 0) | (e.min(axis=0) < 0)


def settings():
    rng = np.random.default_rng(3)
    for _ in range(60):
        yield (
            rng.choice([0.0, rng.uniform(0, 0.99), rng.uniform(0.8, 0.99)]),
            int(rng.integers(1, 40)),
            rng.uniform(-3, 1),
        )
    # A first window of instability, and of oscillation, that is narrow beside the next.
    yield from [(0.9961094331178103, 105, -0.64), (0.8357788944723619, 20, -0.64), (0.9760414295433136, 20, -3.67)]
    # The error turns negative at the second bottom of its swing before it does at the first.
    yield 0.6734598871529389, 18, -3.367717513767521
    # Nothing frozen, on policy: the onset stands where two ranges of the search meet.
    yield 0.875, 1, 0.0


@pytest.mark.parametrize(("mu", "L", "share"), list(settings()), ids=lambda value: f"{value:.3g}")
def test_nothing_happens_before_the_threshold(mu, L, share):
    for threshold, happens in ((thresholds.stability_threshold, unstable), (thresholds.onset_threshold, oscillates)):
        a = float(threshold(SCHEDULE, mu, L, share))
        before = a * np.r_[np.geomspace(1e-3, 0.1, 50), np.linspace(0.1, 1 - 1e-5, 4000)]
        assert not happens(before, mu, L, share).any()
        # Nine digits cannot be told from the eigenvalues of a double root; six can.
        assert happens(a * (1 + np.array([1e-6, 1e-5])), mu, L, share).all()


def test_stability_returns_above_the_threshold():
    mu, L, share = 0.9961094331178103, 105, -0.64
    a = float(thresholds.stability_threshold(SCHEDULE, mu, L, share))
    assert a == pytest.approx(1.4562386, rel=1e-7)
    stable_again = np.linspace(a, 1.6, 20_000)
    assert not unstable(stable_again, mu, L, share)[2:].all()


def test_nothing_frozen_and_no_momentum():
    # e shrinks by 1 - a at each step: its powers underflow near a = 1, where it starts to alternate.
    assert thresholds.onset_threshold(SCHEDULE, 0.0, [2, 14, 200], 0.0) == pytest.approx([1, 1, 1], rel=1e-12)


def condition(kind, a, mu, L, share):
    """1 - det, 1 + trace + det or the discriminant of the period's map, in mpmath."""
    mu, share = mp.mpf(mu), mp.mpf(share)
    columns = []
    for e, v in ((mp.mpf(1), mp.mpf(0)), (mp.mpf(0), mp.mpf(1))):
        frozen = e
        for _ in range(L):
            v = mu * v - a * ((1 - share) * e + share * frozen)
            e += v
        columns.append((e, v))
    (ee, ve), (ev, vv) = columns
    trace, determinant = ee + vv, ee * vv - ev * ve
    return {"grows": 1 - determinant, "flips": 1 + trace + determinant, "turns": trace**2 - 4 * determinant}[kind]


@pytest.mark.parametrize(
    ("kind", "mu", "L", "share"),
    [
        ("grows", 0.9999, 79, 0.9998),
        ("grows", 0.99, 50, 0.9),
        ("grows", 0.9, 8, -0.64),
        ("flips", 0.9, 4, -0.64),
        ("flips", 0.99, 33, -0.64),
        ("flips", 0.5, 3, 0.5),
        ("turns", 0.9999, 79, 0.9998),
        ("turns", 0.9999, 50, -0.5),
        ("turns", 0.9, 16, -0.64),
        ("turns", 0.3, 1, -0.64),
    ],
)
def test_ten_digits(kind, mu, L, share):
    threshold = thresholds.onset_threshold if kind == "turns" else thresholds.stability_threshold
    a = float(threshold(SCHEDULE, mu, L, share))
    with mp.workdps(50):
        ends = [mp.mpf(a) * (1 + sign * mp.mpf("1e-10")) for sign in (-1, 1)]
        below, above = (condition(kind, end, mu, L, share) for end in ends)
        assert below > 0 > above


def test_the_share_is_one_or_less():
    with pytest.raises(ValueError, match=r"^stale_share: found 1\.5, expected"):
        thresholds.stability_threshold(SCHEDULE, 0.5, 2, 1.5)
    with pytest.raises(ValueError, match=r"^stale_share: found nan, expected"):
        lag.slowest_mode(SCHEDULE, 0.1, 0.5, 2, np.nan)
    assert thresholds.stability_threshold("periodic", 0.5, 2, 1.5) == thresholds.stability_threshold("periodic", 0.5, 2)
