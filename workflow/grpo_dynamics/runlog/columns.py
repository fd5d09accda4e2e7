"""Which key of a log is which column of OWN_LOG, and a row read through that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from grpo_dynamics.command import InputError
from grpo_dynamics.runlog.keys import canonical, number, resolve
from grpo_dynamics.runlog.log import OWN_LOG, Mapped

MAPPABLE = [name for name in OWN_LOG.columns if name not in ("t", "any_spread", "non_finite")]
COMPONENT = "rewards/"  # before the name of a function, where its reward stands among the numbers of a row
REGULAR = 0.9  # of the gaps between the numbers of a column that was not measured in every row
SHOWN = 12  # keys that a sentence lists at most
TRL_ONLY = {"frac_reward_zero_std", "completion_length"}
TRL_FAMILIES = ("rewards_", "completions_")


@dataclass(frozen=True)
class Values:
    """The numbers of a row by column or rewards/FUNCTION.

    `broken` are those that were NaN or infinite, `nulls` those that were null.
    """

    numbers: dict[str, float]
    broken: frozenset[str]
    nulls: frozenset[str]

    @property
    def is_train(self) -> bool:
        """Whether the row has more than held-out numbers."""
        return bool((self.numbers.keys() | self.broken | self.nulls) - {"heldout_reward"})

    def joined(self, later: Values) -> tuple[Values, bool]:
        """This row and a later one of the same step, and whether both have a number for the same column."""
        clash = bool(self.numbers.keys() & later.numbers.keys())
        seen = later.numbers.keys() | later.broken
        return replace(
            later,
            numbers=self.numbers | later.numbers,
            broken=(self.broken - later.numbers.keys()) | later.broken,
            nulls=(self.nulls - seen) | later.nulls,
        ), clash


@dataclass
class Columns:
    """Keys of a log by the column that they stand for; `keys` are all its keys in canonical form, without train_.

    `sparse` are the columns that are NaN where they were not measured. `extremes` are the keys of the largest and the
    smallest reward of a row, `components` those of the single functions' rewards, by the function.
    """

    step: str
    by_column: dict[str, str]
    sparse: frozenset[str]
    extremes: tuple[str, ...]
    components: dict[str, str]
    mapping: list[Mapped]
    ignored: tuple[str, ...]
    keys: set[str]
    has_nulls: bool
    trl: bool
    columns: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = set(self.by_column)

    def read(self, row: dict[str, object]) -> Values:
        """A row's numbers by column."""
        numbers, broken, nulls, infinite = {}, set(), set(), False
        for column, key in self.by_column.items():
            if key not in row:
                continue
            value = number(row[key])
            if value is not None and np.isfinite(value):
                numbers[column] = value
            elif value is not None and (np.isinf(value) or column not in self.sparse):
                broken.add(column)
                infinite |= np.isinf(value)
            elif row[key] is None:
                nulls.add(column)
        if numbers.keys() == {"heldout_reward"} and not infinite:
            broken.clear()  # an evaluation's row in a table that has NaN wherever a row lacks a column
        high, low = (number(row.get(key)) for key in self.extremes) if self.extremes else (None, None)
        if high is not None and low is not None and np.isfinite([high, low]).all():
            numbers["any_spread"] = float(high > low)
        for name, key in self.components.items():
            value = number(row.get(key))
            if value is not None and np.isfinite(value):
                numbers[COMPONENT + name] = value
        return Values(numbers, frozenset(broken), frozenset(nulls))


def map_columns(rows: list[dict[str, object]], renames: Mapping[str, str], source: str) -> Columns:
    """Find each column's key among the rows' keys.

    Parameters
    ----------
    rows : list of dict
    renames : mapping
        Column -> key, as given by the user.
    source : str
        Named in errors.

    Raises
    ------
    InputError
        No key for the reward, an unknown column, or a key that no row has.
    """
    counts: dict[str, int] = {}
    has_nulls = False
    for row in rows:
        for key, value in row.items():
            has_nulls |= value is None
            counts[key] = counts.get(key, 0) + (number(value) is not None)
    numeric = [key for key, count in counts.items() if count]
    chosen = {column: _given(column, key, numeric, source) for column, key in renames.items()}
    candidates: dict[str, list[tuple[int, str]]] = {}
    for key in numeric:
        found = resolve(key)
        if found and found[0] not in chosen and key not in chosen.values():
            candidates.setdefault(found[0], []).append((found[1], key))
    mapping = [Mapped(column, key, "as given") for column, key in chosen.items()]
    for column, options in candidates.items():
        options.sort(key=lambda option: option[0])
        key = chosen[column] = options[0][1]
        others = [other for _, other in options[1:]]
        note = f"preferred to {_listed(others)}" if others and column != "step" else ""
        mapping.append(Mapped(column, key, note))
    if "reward" not in chosen:
        what = f"the numbers {_listed(numeric)}" if numeric else "no numbers"
        raise InputError(
            f"{source}: found no reward ({what}), expected one: if one of the numbers is the reward, say which "
            "with --map reward=KEY"
        )
    extremes = _extremes(chosen["reward"], numeric)
    if extremes:
        mapping.append(Mapped("any_spread", ", ".join(extremes)))
    order = list(OWN_LOG.columns)
    used = {*chosen.values(), *extremes}
    plain = {canonical(key).removeprefix("train_") for key in counts}
    return Columns(
        step=chosen.get("step", ""),
        by_column={column: key for column, key in chosen.items() if column != "step"},
        sparse=frozenset({"heldout_reward"} | {column for column, key in chosen.items() if _is_sparse(rows, key)}),
        extremes=extremes,
        components=_components(numeric),
        mapping=sorted(mapping, key=lambda one: order.index(one.column)),
        ignored=tuple(key for key in counts if key not in used),
        keys=plain,
        has_nulls=has_nulls,
        trl=_by_trl(plain),
    )


def _is_sparse(rows: list[dict[str, object]], key: str) -> bool:
    """Whether a key is NaN in most rows, but for every so many: measured there, and nothing elsewhere."""
    values = np.array([value for row in rows if (value := number(row.get(key))) is not None])
    at = np.flatnonzero(~np.isnan(values))
    if len(at) < 3 or np.isinf(values).any():
        return False
    gaps = np.diff(at)
    usual = int(np.median(gaps))
    ends = at[0] <= usual and len(values) - at[-1] <= usual
    return usual > 1 and bool(ends) and float((gaps == usual).mean()) >= REGULAR


def _extremes(reward: str, numeric: list[str]) -> tuple[str, ...]:
    """Keys of the largest and the smallest reward of a row, such as critic/score/max for critic/score/mean."""
    # W&B's __MAX and __MIN are over a bin of rows, and not over the completions of one.
    keys = {canonical(key): key for key in numeric if "__" not in key}
    names = [f"{canonical(reward)}_{end}" for end in ("max", "min")]
    return tuple(keys[name] for name in names) if all(name in keys for name in names) else ()


def _components(numeric: list[str]) -> dict[str, str]:
    """Keys of TRL's mean of each reward function, rewards/NAME or rewards/NAME/mean, by the function."""
    found = {}
    for key in numeric:
        name = key.strip().removeprefix("train/").removeprefix("train_")
        if name.startswith("rewards/") and not name.endswith("/std"):
            found[name.removeprefix("rewards/").removesuffix("/mean")] = key
    return found


def _by_trl(keys: set[str]) -> bool:
    """Whether TRL wrote a log: its names for the reward and for the functions or lengths beside it."""
    return "reward" in keys and (bool(TRL_ONLY & keys) or any(key.startswith(TRL_FAMILIES) for key in keys))


def _given(column: str, key: str, numeric: list[str], source: str) -> str:
    if column not in MAPPABLE:
        raise InputError(f"--map: found {column}, expected one of {', '.join(MAPPABLE)}")
    if key in numeric:
        return key
    same = [one for one in numeric if canonical(one) == canonical(key)]
    if len(same) != 1:
        raise InputError(
            f"{source}: --map {column}={key}: found no numbers of that name, expected one of {_listed(numeric)}"
        )
    return same[0]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    clean = (" ".join(name[:60].split()) for name in names[:SHOWN])
    return (", ".join(clean) or "none") + more
