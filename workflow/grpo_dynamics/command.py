"""How the study's scripts and modules run as commands: a mistake in their input is one sentence, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer


class InputError(ValueError):
    """Input that cannot be used; the message names the file or setting, what was found and what was expected."""


def run(main: Callable[..., None]) -> None:
    """Run `main` as a command line; an `InputError` ends it with its sentence and exit status 1."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
