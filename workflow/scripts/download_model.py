"""Fetches a base model from the Hugging Face hub into results/<study>/models/<model>/base."""

from pathlib import Path
from typing import Annotated

import typer
from huggingface_hub import snapshot_download

from grpo_dynamics import command


def main(
    hub: Annotated[str, typer.Option(help="id on the hub")],
    revision: Annotated[str, typer.Option(help="branch, tag or commit")],
    folder: Annotated[Path, typer.Option()],
) -> None:
    """Download weights, config and tokenizer."""
    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    snapshot_download(hub, revision=revision, local_dir=folder, allow_patterns=patterns)


if __name__ == "__main__":
    command.run(main)
