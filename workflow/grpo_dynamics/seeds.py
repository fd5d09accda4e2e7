"""Seeds that derive from the study's one seed and the name of what is seeded."""

from __future__ import annotations

import hashlib


def derive(seed: int, *names: object) -> int:
    """A 31-bit seed for the thing called `names` in a study with `seed`.

    Equal names give equal seeds on every machine; different names give seeds that are independent for practical
    purposes (SHA-256), so that adding a cell to a study changes no other cell.
    """
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
