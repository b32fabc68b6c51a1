"""`regard predict`: a line in, an answer out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import Device, Json, Precision, Run, refuse_strange, split_settings
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.inspection.alignments import Alignment
    from regard.tasks.base import Predictor, Result

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
    n_best: Annotated[int | None, typer.Option(help="How many of the best outputs to show, with --json.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Translation: how every output has to begin.")] = None,
    alignment: Annotated[
        bool, typer.Option("--align", help="Translation: after a tab, which words come from which: 0-0 1-2.")
    ] = False,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option("--ensemble", help="Translation: another run that votes at every step; may be repeated."),
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="Language: a text is over where it says this; may be repeated.")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Language: show the text as it comes.")] = False,
    few_shot: Annotated[
        str | None, typer.Option(help="Language: a table of questions and answers that shows how it is done.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Language: what is to be done with each input, in words.")] = None,
    context: Annotated[str | None, typer.Option(help="Answers: a file with the passage; inputs are questions.")] = None,
    embed: Annotated[bool, typer.Option("--embed", help="Masked: a vector for each text, as JSON.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Predict with a trained model: for the texts given, or for every line of a file or of standard input."""
    from regard.tasks.opening import load

    texts, options = split_settings(inputs or [])
    given = {"beam": beam, "n_best": n_best, "prefix": prefix, "stop": stop or None}
    options |= {name: value for name, value in given.items() if value is not None}
    if texts and input_file is not None:
        raise UsageError(f"there are texts to predict for and --input {input_file}; allowed is one of the two")
    predictor = load(run, device, precision=precision)
    predictor.say = say
    flags: dict[str, Any] = given | {"align": alignment, "ensemble": ensemble, "stream": stream, "few_shot": few_shot}
    refuse_strange(predictor.config.task, flags | {"task": task, "context": context, "embed": embed})
    if ensemble:
        predictor = predictor.ensemble(*(load(other, device, precision=precision) for other in ensemble))
    _check_shown(options, as_json=as_json)
    lines, chunk = (texts, CHUNK) if texts else _lines(input_file or "-")
    asked = few_shot is not None or task is not None
    if asked:
        lines = few_shot_prompts(lines, few_shot, task=task or "")
        options = {"stop": ["\n"]} | options
    if context is not None:
        lines = with_passage(lines, context)
    if embed:
        for vector in (vector for some in _chunks(lines, chunk) for vector in predictor.embed(some).tolist()):
            put("[" + ", ".join(f"{value:.7g}" for value in vector) + "]")
    elif stream or (not asked and _can_stream(predictor, texts, options, as_json=as_json)):
        _tell(predictor, list(lines), options=options, as_json=as_json)
    else:
        for number, (line, answer) in enumerate(_stream(predictor, lines, chunk=chunk, options=options)):
            aligned = predictor.align(line, answer) if alignment else None
            if number and not as_json and not asked and predictor.multiline:  # texts may have lines of their own
                put("")
            put(_record(answer, aligned) if as_json else _plain(answer, aligned, asked=asked))


def _lines(path: str) -> tuple[Iterable[str], int]:
    """The lines of a file and how many to take at a time; a person who types wants each answer at once."""
    from regard.data.io.lines import STDIN, stream_lines

    typed = path == STDIN and sys.stdin.isatty()
    if typed:
        say("one text a line; Ctrl-D ends")
    return stream_lines(path, say=say), 1 if typed else CHUNK


def _stream(
    predictor: Predictor[str, Result], lines: Iterable[str], *, chunk: int, options: dict[str, Any]
) -> Iterator[tuple[str, Result]]:
    """Predictions in the order of the lines, a chunk at a time, so that memory stays flat."""
    begin = 0
    for texts in _chunks(lines, chunk):
        keys = range(begin, begin + len(texts))  # a line draws the same random numbers wherever chunks end
        yield from zip(texts, predictor(texts, keys=keys, **options), strict=True)
        begin += len(texts)


def _chunks(lines: Iterable[str], chunk: int) -> Iterator[list[str]]:
    stream = iter(lines)
    return iter(lambda: list(islice(stream, chunk)), [])


def few_shot_prompts(lines: Iterable[str], table: str | None, *, task: str) -> Iterator[str]:
    """Each line as the question after the examples of a table of two columns; without one, after the task alone."""
    from regard.data.text.pairs import PairSource
    from regard.tasks.language.few_shot import few_shot_prompt

    examples = [] if table is None else [(pair.source, pair.target) for pair in PairSource(table).pairs()]
    for line in lines:
        yield few_shot_prompt(line, examples=examples, task=task)


def with_passage(lines: Iterable[str], path: str) -> Iterator[str]:
    """Each line as a question on the text of a file."""
    from regard.data.io.lines import read_lines

    passage = "\n".join(read_lines(path))
    for line in lines:
        if "\t" in line:
            raise UsageError(f"{line[:40]!r} has a tab, and with --context inputs are questions alone")
        yield f"{line}\t{passage}"


def _can_stream(predictor: Any, texts: list[str], options: dict[str, Any], *, as_json: bool) -> bool:
    """Whether somebody watches one text being written."""
    return len(texts) == 1 and not as_json and sys.stdout.isatty() and bool(predictor.can_stream(**options))


def _tell(predictor: Any, texts: list[str], *, options: dict[str, Any], as_json: bool) -> None:
    """The text of one continuation as it comes."""
    if len(texts) != 1 or as_json:
        what = "--json" if as_json else f"{len(texts)} texts"
        raise UsageError(f"--stream and {what} were given; allowed is one text, shown as it comes")
    pieces = predictor.stream(texts[0], **options)
    put(texts[0], end="")
    for piece in pieces:
        put(piece, end="")
    put("")


def _check_shown(options: dict[str, Any], *, as_json: bool) -> None:
    if not as_json and any(str(options.get(name, 1)) not in ("0", "1") for name in ("n_best", "n_samples")):
        raise UsageError("one line a text has no room for several outputs", hint="--json shows all of them")


def _plain(answer: Any, alignment: Alignment | None, *, asked: bool) -> str:
    text = " ".join(answer.text.split()) if asked else answer.plain()
    return text if alignment is None else f"{text}\t{alignment.pharaoh()}"


def _record(answer: Result, alignment: Alignment | None) -> str:
    record = answer.record() | ({} if alignment is None else {"alignment": alignment.pairs})
    return json.dumps(record, ensure_ascii=False)
