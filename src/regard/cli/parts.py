"""`regard predict --workers N`: the same outputs by several processes or machines, in a folder of parts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.console import INTERRUPTED, explain, say
from regard.cli.output import writing_bytes
from regard.cli.progress import Progress
from regard.config.wording import several
from regard.errors import RegardError, UsageError
from regard.tasks.predicting.inputs import Inputs
from regard.tasks.predicting.request import Request

if TYPE_CHECKING:
    from regard.scale.predicting import PartsJob

ENGINES = ("local", "ray")
PART_SIZE = 2048  # inputs a part, at least


@dataclass(frozen=True)
class PartsOptions:
    """The options that ask for parts."""

    workers: str | None = None
    engine: str | None = None
    size: int | None = None
    join: Path | None = None


class Interrupted(RegardError):  # noqa: N818 - a wish of the user, not an error
    """The work was asked to stop; what is done of it stands."""

    exit_code = INTERRUPTED


def check_parts(options: PartsOptions, out: Path | None, *, lines: str | None, refused: Mapping[str, object]) -> Path:
    """Refuse what makes no sense with parts; the folder that they are written to."""
    for name, value in refused.items():
        if value not in (None, False):
            raise UsageError(f"{name} and --workers were given; {name} works in one process alone")
    if options.engine not in (None, *ENGINES):
        raise UsageError(f"--engine {options.engine}: allowed is one of {', '.join(ENGINES)}")
    if options.engine == "ray":
        from regard.scale.ray_actors import require_ray

        require_ray()
    if options.workers is not None:
        from regard.scale.resources import read_workers

        read_workers(options.workers)
    if out is None:
        raise UsageError("several workers write parts to a folder, and none was given", hint="--out parts")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file, a folder for parts was expected", hint="--out parts")
    if lines == "-":
        raise UsageError("standard input cannot be read again when the work goes on", hint="save it to a file first")
    if options.join is not None and options.join.resolve().parent == out.resolve():
        raise UsageError(f"--join {options.join}: is inside --out {out}", hint="give a file elsewhere")
    return out


def given_lines(words: Sequence[str], lines: str | None, predictor: Any) -> tuple[list[str], str | None]:
    """The words and the file of lines: with workers, a model of texts reads the file that a word names."""
    if lines is None and not words:
        raise UsageError("several workers need an input that can be read again", hint="name a file: --input in.txt")
    if not words or predictor.suffixes:
        return list(words), lines
    if len(words) > 1 or not Path(words[0]).is_file():
        name = words[0] if len(words) == 1 else f"{len(words)} inputs"
        raise UsageError(f"{name}: with --workers the input is one file, a text a line", hint="--input in.txt")
    return [], words[0]


def parts_job(
    request: Request, predictor: Any, options: PartsOptions, *, words: Sequence[str], lines: str | None
) -> PartsJob:
    """What is to be predicted in parts; the model is asked what its inputs are, and for nothing else."""
    from regard.scale.predicting import PartsJob

    words, lines = given_lines(words, lines, predictor)
    many = Inputs.of(predictor, words, say=say, lines=lines)
    return PartsJob(request, many, words, lines, options.size or PART_SIZE)


def predict_parts(job: PartsJob, options: PartsOptions, out: Path) -> int:
    """Make the parts, or those that are missing, and join them if asked to; the exit code."""
    from regard.scale.predicting import Listener, join, predict_in_parts, without_inputs

    with Progress(job.many.total, to_file=True) as progress:
        listener = Listener(say, explain, progress.add)
        try:
            done = predict_in_parts(job, out, lambda: _engine(options, job.request, without_inputs(job.many)), listener)
        except KeyboardInterrupt:
            raise Interrupted("stopped", hint=f"the parts in {out} stand; the same command goes on") from None
    if done.stood:
        say(f"{several(done.stood, 'input', 'inputs')} of {done.n:,} had been predicted for before")
    if done.given_up:
        say(f"{several(len(done.given_up), 'part', 'parts')} of {len(done.names):,} in {out} could not be made")
        return 1
    say(f"outputs: {several(len(done.names), 'part', 'parts')} in {out}")
    if options.join is None:
        say(f"joined: cat {shlex.quote(str(out))}/part-*")
    elif not done.n or done.failed < done.n:
        with writing_bytes(options.join) as write:
            join(out, done.names, write)
    if done.failed:
        say(f"{done.failed:,} of {several(done.n, 'input', 'inputs')} failed")
    return 1 if done.failed else 0


def _engine(options: PartsOptions, request: Request, many: Inputs) -> Any:
    from regard.scale.resources import AUTO, assignments, read_workers

    workers = read_workers(options.workers or AUTO)
    if options.engine == "ray":
        from regard.scale.ray_actors import RayEngine

        return RayEngine(assignments(request, many, workers, cluster=True))
    from regard.scale.local import LocalEngine

    return LocalEngine(assignments(request, many, workers))
