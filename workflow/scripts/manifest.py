"""Makes results/<study>/manifest.json and manifest.html: what the results were made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml

from grpo_dynamics import command, manifest
from grpo_dynamics.analysis import pages


def main(
    settings: Annotated[str, typer.Option(help="JSON: the whole config")],
    folder: Annotated[Path, typer.Option(help="results/<study>; manifest.json is written there")],
    template: Annotated[Path, typer.Option(help="template of the page (jinja2)")],
    page: Annotated[Path, typer.Option(help="page to write (.html)")],
) -> None:
    found = manifest.write(json.loads(settings), folder)
    config = yaml.safe_dump(found["config"], sort_keys=False, allow_unicode=True, width=110)
    pages.render(template, page, manifest=found, summary=manifest.SUMMARY, config=config)


if __name__ == "__main__":
    command.run(main)
