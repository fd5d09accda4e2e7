"""Readable, self-contained HTML pages of tables and of the claims ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pandera.pandas as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from grpo_dynamics.analysis.evidence import BEYOND, PAPER
from grpo_dynamics.files import replacing

# A symbol and a word carry a verdict; the colour only repeats them.
SYMBOLS = {word: symbol for words in (PAPER, BEYOND) for word, symbol in zip(words, "✓◐✗○", strict=True)}


def cell(value: object) -> str:
    """A table's value as text: four significant digits, nothing for an empty value."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def render(template: str | Path, page: str | Path, **values: object) -> None:
    """Fill a jinja2 template and write the page in one step; an unset variable is an error."""
    template = Path(template)
    environment = Environment(
        loader=FileSystemLoader(template.parent), undefined=StrictUndefined, autoescape=select_autoescape(default=True)
    )
    environment.filters["cell"] = cell
    text = environment.get_template(template.name).render(**values)
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def table_page(
    table: pd.DataFrame, schema: pa.DataFrameSchema, title: str, note: str, template: str | Path, page: str | Path
) -> None:
    """A page with a table and the meaning of its columns, as the schema states them."""
    columns = [(name, schema.columns[name].description or "") for name in table.columns]
    render(template, page, title=title, note=note, columns=columns, rows=table.itertuples(index=False, name=None))


def claims_page(
    claims: pd.DataFrame,
    study: str,
    models: Sequence[str],
    group_sizes: Sequence[int],
    seeds: int,
    template: str | Path,
    page: str | Path,
) -> None:
    """The ledger as a page (CLAIMS table); `seeds` is the number of runs per cell."""
    of_paper = claims["id"].str.startswith("C")
    parts = []
    for heading, part, words in (("The paper's claims", of_paper, PAPER), ("Beyond the paper", ~of_paper, BEYOND)):
        found = claims.loc[part, "verdict"]
        parts.append((heading, [(word, int((found == word).sum())) for word in words], claims[part].to_dict("records")))
    render(
        template,
        page,
        study=study,
        models=models,
        group_sizes=group_sizes,
        seeds=seeds,
        parts=parts,
        symbols=SYMBOLS,
    )
