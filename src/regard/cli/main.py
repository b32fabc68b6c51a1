"""The `regard` command: verbs, and what happens when something goes wrong."""

from __future__ import annotations

import sys
from typing import Annotated

import click
import typer

import regard
from regard.cli.console import INTERRUPTED, explain, put
from regard.cli.demo import demo
from regard.cli.train import train
from regard.errors import RegardError

app = typer.Typer(
    name="regard",
    help="Attention models: train them, run them, and see what they look at.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(train)
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        put(f"regard {regard.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Attention models: train them, run them, and see what they look at."""


def run() -> None:
    """Run the command line; a user's mistake ends in two lines, never in a traceback."""
    try:
        code = app(standalone_mode=False)
    except RegardError as problem:
        code = explain(problem)
    except click.UsageError as problem:
        sys.stderr.write(f"error: {problem.format_message()}\nhint: {_help_for(problem)} --help\n")
        code = 2
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("stopped\n")
        code = INTERRUPTED
    except BrokenPipeError:
        code = 0
    sys.exit(code or 0)


def _help_for(problem: click.UsageError) -> str:
    return problem.ctx.command_path if problem.ctx else "regard"
