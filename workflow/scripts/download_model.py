"""Fetches a base model from the Hugging Face hub into results/<study>/models/<model>/base, and makes download.json."""

from pathlib import Path
from typing import Annotated

import typer

from grpo_dynamics import command, hub


def main(
    model: Annotated[str, typer.Option(help="id on the hub")],
    revision: Annotated[str, typer.Option(help="branch, tag or commit")],
    folder: Annotated[Path, typer.Option(help="folder for the model's files")],
    record: Annotated[Path, typer.Option(help="what was fetched (.json)")],
) -> None:
    """Download weights, config, tokenizer and chat template."""
    hub.write_record(hub.fetch_model(model, revision, folder), record)


if __name__ == "__main__":
    command.run(main)
