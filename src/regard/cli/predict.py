"""`regard predict`: a line in, a line out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import Device, Json, Precision, Run, split_settings
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.inspection.alignments import Alignment
    from regard.predictors import Predictor
    from regard.predictors.base import Answer

CHUNK = 512


def predict(
    run: Run,
    inputs: Annotated[
        list[str] | None, typer.Argument(help="Texts; settings decode.key=value may stand among them.")
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input", help="A file of lines; - or nothing is standard input.")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Width of a beam search (decode.beam).")] = None,
    n_best: Annotated[int | None, typer.Option(help="How many of its hypotheses to show, with --json.")] = None,
    prefix: Annotated[str | None, typer.Option(help="How every output has to begin.")] = None,
    alignment: Annotated[
        bool, typer.Option("--align", help="After a tab, which words come from which: 0-0 1-2, source first.")
    ] = False,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--ensemble", help="Another run that votes at every step; may be repeated.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Predict with a trained model: for the texts given, or for every line of a file or of standard input."""
    from regard.predictors import load

    texts, options = split_settings(inputs or [])
    given = {"beam": beam, "n_best": n_best, "prefix": prefix}
    options |= {name: value for name, value in given.items() if value is not None}
    if texts and input_file is not None:
        raise UsageError(f"there are texts to predict for and --input {input_file}; allowed is one of the two")
    predictor = load(run, device, precision=precision)
    if ensemble:
        predictor = predictor.ensemble(*(load(other, device, precision=precision) for other in ensemble))
    _check_shown(options, as_json=as_json)
    lines, chunk = (texts, CHUNK) if texts else _lines(input_file or "-")
    for line, answer in _stream(predictor, lines, chunk=chunk, options=options):
        aligned = predictor.align(line, answer) if alignment else None
        put(_record(answer, aligned) if as_json else _plain(answer, aligned))


def _lines(path: str) -> tuple[Iterable[str], int]:
    """The lines of a file and how many to take at a time; a person who types wants each answer at once."""
    from regard.data.lines import STDIN, stream_lines

    typed = path == STDIN and sys.stdin.isatty()
    if typed:
        say("one text a line; Ctrl-D ends")
    return stream_lines(path), 1 if typed else CHUNK


def _stream(
    predictor: Predictor[Answer], lines: Iterable[str], *, chunk: int, options: dict[str, Any]
) -> Iterator[tuple[str, Answer]]:
    """Predictions in the order of the lines, a chunk at a time, so that memory stays flat."""
    stream, begin = iter(lines), 0
    while some := list(islice(stream, chunk)):
        keys = range(begin, begin + len(some))  # a line draws the same random numbers wherever chunks end
        yield from zip(some, predictor(some, keys=keys, **options), strict=True)
        begin += len(some)


def _check_shown(options: dict[str, Any], *, as_json: bool) -> None:
    if not as_json and any(str(options.get(name, 1)) != "1" for name in ("n_best", "n_samples")):
        raise UsageError("one line a text has no room for several outputs", hint="--json shows all of them")


def _plain(answer: Answer, alignment: Alignment | None) -> str:
    return answer.plain() if alignment is None else f"{answer.plain()}\t{alignment.pharaoh()}"


def _record(answer: Answer, alignment: Alignment | None) -> str:
    record = answer.record() | ({} if alignment is None else {"alignment": alignment.pairs})
    return json.dumps(record, ensure_ascii=False)
