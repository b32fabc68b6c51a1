"""What can go wrong, as a tree.

    RegardError                 anything regard reports on purpose
    ├── UsageError              the call or the command line does not make sense      exit code 2
    │   ├── ShapeError          tensors whose sizes do not fit together
    │   ├── MaskError           a mask of the wrong kind
    │   └── ConfigError         a recipe or an override that names or holds the wrong thing
    ├── DataError               a file or a line that cannot be used                  exit code 1
    ├── CheckpointError         a run folder or weight file that cannot be used       exit code 1
    └── EnvironmentProblem      this machine lacks something (a GPU, a package, disk) exit code 1

Every message says what was given and what is allowed; `hint` says what to do about it.
`UsageError` is a `ValueError` too, so that callers who know nothing of regard can catch it.
"""


class RegardError(Exception):
    """Anything regard reports on purpose: a message, a hint, an exit code."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(RegardError, ValueError):
    """The call or the command line does not make sense."""

    exit_code = 2


class ShapeError(UsageError):
    """Tensors whose sizes do not fit together."""


class MaskError(UsageError):
    """A mask of the wrong kind."""


class ConfigError(UsageError):
    """A recipe or an override that names or holds the wrong thing."""


class DataError(RegardError):
    """A file or a line that cannot be used."""


class CheckpointError(RegardError):
    """A run folder or a weight file that cannot be used."""


class EnvironmentProblem(RegardError):  # noqa: N818 - a state of the machine, not a mistake
    """This machine lacks something: a GPU, a package, disk space."""


def kind_of(value: object) -> str:
    """What a value is, as messages say it: a dict, an int."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
