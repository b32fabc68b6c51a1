"""How the command line speaks: data to stdout, talk to stderr, errors in two lines."""

from __future__ import annotations

import sys

from rich.console import Console

from regard.errors import RegardError

INTERRUPTED = 130


class NoReader(Exception):  # noqa: N818 - nobody's mistake
    """Whoever read our data has had enough."""


def talk() -> Console:
    """Where progress and explanations go."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """One line of talk."""
    talk().print(text, markup=False)


def put(line: str, *, end: str = "\n") -> None:
    """One line of data, or a part of one."""
    try:
        sys.stdout.write(line + end)
        sys.stdout.flush()
    except BrokenPipeError:
        raise NoReader from None


def explain(problem: RegardError) -> int:
    """Say what went wrong and what to do, and give the exit code."""
    stopped = problem.exit_code == INTERRUPTED  # a wish of the user, not an error
    sys.stderr.write(f"{problem}\n" if stopped else f"error: {problem}\n")
    if problem.hint:
        sys.stderr.write(f"hint: {problem.hint}\n")
    return problem.exit_code
