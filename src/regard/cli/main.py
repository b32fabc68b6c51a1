"""The `regard` command: verbs, and what happens when something goes wrong."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Annotated, cast

import typer

import regard
from regard.cli import recipes
from regard.cli.compare import compare
from regard.cli.console import INTERRUPTED, NoReader, explain, put
from regard.cli.demo import demo
from regard.cli.evaluate import evaluate
from regard.cli.exhibits import exhibits
from regard.cli.export import export
from regard.cli.import_ import import_
from regard.cli.info import info
from regard.cli.look import look
from regard.cli.plot import plot
from regard.cli.predict import predict
from regard.cli.runs import runs
from regard.cli.serve import serve
from regard.cli.train import TrainCommand, train
from regard.cli.verify import verify
from regard.errors import EnvironmentProblem, RegardError

# Typer brings a click of its own in newer versions; either way this is the error that its parameters' errors are.
CommandLineError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])

app = typer.Typer(
    name="regard",
    help="Attention models: train them, run them, and see what they look at.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(cls=TrainCommand)(train)
for verb in (predict, evaluate, compare, look, serve, verify, info, runs, plot, export, demo, exhibits):
    app.command()(verb)
app.command("import")(import_)
app.add_typer(recipes.app)


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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Data is UTF-8, whatever the terminal is set to; a file's name need not be.
        sys.stdout.reconfigure(encoding="utf-8", errors="replace", newline="\n")
    if "TORCHELASTIC_RUN_ID" in os.environ:
        signal.signal(signal.SIGTERM, _end)
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except RegardError as problem:
        code = explain(problem)
    except CommandLineError as problem:
        place = problem.ctx.command_path if problem.ctx else "regard"
        sys.stderr.write(f"error: {problem.format_message()}\nhint: {place} --help\n")
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        sys.stderr.write("stopped\n")
        code = INTERRUPTED
    except NoReader:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as problem:
        code = explain(_of_the_machine(problem))
    _leave_processes(code or 0)
    sys.exit(code or 0)


def _leave_processes(code: int) -> None:
    """End at once where this is one of several processes that did not take leave: some may be gone, and to wait for
    them, as PyTorch does at the end, can take for ever."""
    distributed = sys.modules.get("torch.distributed")
    if code and distributed is not None and distributed.is_available() and distributed.is_initialized():
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    """End as by Ctrl-C: `torchrun` says so when another process is gone; one that is ending already says why first."""
    if sys.exc_info()[1] is None:
        raise KeyboardInterrupt


def _of_the_machine(problem: OSError) -> RegardError:
    """A file that cannot be read or written, said as every other problem."""
    place = f"{problem.filename}: " if problem.filename else ""
    full = problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return EnvironmentProblem(
        f"{place}{problem.strerror or problem}",
        hint="free some disk space" if full else "check the path and its rights",
    )
