"""The study's config: validated before anything runs, every mistake reported in one line.

The line names the key, the value found and what is allowed. The schema with all keys is config/schema.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from grpo_dynamics.cells import failure_grpo, failure_kinds
from grpo_dynamics.config_checks import semantic_errors, show


class ConfigError(ValueError):
    """A mistake in the config, as one line."""


# What each JSON schema keyword asks for, in words; `{}` is the keyword's value.
_EXPECTED = {
    "minimum": "a value >= {}",
    "maximum": "a value <= {}",
    "exclusiveMinimum": "a value > {}",
    "exclusiveMaximum": "a value < {}",
    "minLength": "at least {} character(s)",
    "minItems": "at least {} item(s)",
    "maxItems": "at most {} item(s)",
    "minProperties": "at least {} key(s)",
    "uniqueItems": "different items",
    "pattern": "text that matches {}",
}


def _key(path: Any) -> str:
    return ".".join(str(part) for part in path) or "the top level"


def _line(error: jsonschema.ValidationError, section: tuple = ()) -> str:
    key = _key([*section, *error.absolute_path])
    schema = error.schema
    match error.validator:
        case "additionalProperties":
            unknown = sorted(map(str, set(error.instance) - set(schema.get("properties", {}))))
            allowed = ", ".join(sorted(schema.get("properties", {})))
            return f"{key}: unknown key {', '.join(unknown)}; allowed: {allowed}"
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            return f"{key}: missing key {', '.join(missing)}"
        case "oneOf":
            alternatives = " or ".join("+".join(part["required"]) for part in error.validator_value)
            return f"{key}: found keys {', '.join(sorted(error.instance))}, allowed: exactly one of {alternatives}"
        case "type":
            kinds = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
            expected = " or ".join(kinds)
        case "enum":
            expected = "one of " + ", ".join(map(str, error.validator_value))
        case keyword:
            expected = _EXPECTED.get(keyword, f"{keyword} {{}}").format(error.validator_value)
    limits = [
        _EXPECTED[name].format(schema[name])
        for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        if name in schema and name != error.validator
    ]
    allowed = " and ".join([expected, *limits])
    about = f" ({schema['description']})" if "description" in schema else ""
    return f"{key}: found {show(error.instance)}, allowed: {allowed}{about}"


def _schema_errors(value: Any, schema: dict) -> list[jsonschema.ValidationError]:
    errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return sorted(errors, key=lambda error: list(map(str, error.path)))


def _leaves(value: Any, path: tuple = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, (*path, key))
    else:
        yield _key(path), value


def grown(first: int, attempt: int, limit: int | None) -> int:
    """Memory or run time that an attempt of a job asks for: twice that of the attempt before, up to the limit."""
    doubled = first * 2 ** (attempt - 1)
    return doubled if limit is None else min(doubled, limit)


def defaults() -> dict:
    """The default config: the one that an installed package carries, or that of the source tree."""
    here = Path(__file__).resolve().parent
    packaged = here / "defaults" / "config.yaml"
    return yaml.safe_load((packaged if packaged.exists() else here.parents[1] / "config" / "config.yaml").read_text())


def resolve(config: dict, root: str | Path) -> dict:
    """Check a config against the schema and its references; return it unchanged.

    Parameters
    ----------
    config : dict
        The merged config as Snakemake holds it.
    root : str or Path
        The project's root, with config/schema.yaml and workflow/benchmarks/.

    Raises
    ------
    ConfigError
        One line with the key, the value found and what is allowed.
    """
    root = Path(root)
    for key, value in _leaves(config):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"config: {key}: found {value}, allowed: a finite number")
    schema = yaml.safe_load((root / "config" / "schema.yaml").read_text())
    for error in _schema_errors(config, schema):
        raise ConfigError(f"config: {_line(error)}")
    for name in failure_kinds(config):
        for error in _schema_errors(failure_grpo(config, name), schema["properties"]["grpo"]):
            raise ConfigError(f"config: {_line(error, ('failures', 'runs', name, 'grpo'))}")
    for line in semantic_errors(config, root):
        raise ConfigError(f"config: {line}")
    return config
