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
from regard.errors import DataError, UsageError

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
    format: Annotated[
        str | None, typer.Option(help="Speech: segments with their times as srt, vtt or tsv, or as txt; or json.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Speech: a folder for one file a recording, called as it is.", show_default=False),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Speech, Whisper: what is spoken, a code such as de; auto finds it.")
    ] = None,
    translate: Annotated[bool, typer.Option("--translate", help="Speech, Whisper: write it in English.")] = False,
    initial_prompt: Annotated[
        str | None, typer.Option(help="Speech, Whisper: a text that came before, for names and style.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Predict with a trained model: for the texts given, or for every line of a file or of standard input."""
    from regard.tasks.opening import load

    texts, options = split_settings(inputs or [])
    given = {"beam": beam, "n_best": n_best, "prefix": prefix, "stop": stop or None}
    given |= {"language": language, "translate": translate or None, "initial_prompt": initial_prompt}
    options |= {name: value for name, value in given.items() if value is not None}
    if texts and input_file is not None:
        raise UsageError(f"there are texts to predict for and --input {input_file}; allowed is one of the two")
    predictor = load(run, device, precision=precision)
    predictor.say = say
    flags: dict[str, Any] = given | {"align": alignment, "ensemble": ensemble, "stream": stream, "few_shot": few_shot}
    flags |= {"task": task, "context": context, "embed": embed, "format": format, "out": out}
    refuse_strange(predictor.config.task, flags)
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
    if format is not None or out is not None:
        write_transcripts(predictor, list(lines), format or "txt", out=out, options=options, as_json=as_json)
    elif embed:
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


def write_transcripts(
    predictor: Any, paths: list[str], format: str, *, out: Path | None, options: dict[str, Any], as_json: bool
) -> None:
    """Transcripts in a format: to a file each in the folder `out`, else that of the only recording to standard output.

    JSON is one object a line, of any number of recordings.
    """
    from regard.tasks.speech.segments import FORMATS, written

    allowed = (*FORMATS, "json")
    if format not in allowed or (as_json and format != "json"):
        given = f"--format {format}" + (" and --json" if as_json else "")
        raise UsageError(f"{given}: allowed is one of {', '.join(allowed)}")
    if out is None and len(paths) != 1 and format != "json":
        raise UsageError(f"{len(paths)} recordings do not fit into one {format}", hint="a file each: --out FOLDER")
    places = _places(paths, format, out)
    for path, place in zip(paths, places, strict=True):
        transcript = predictor(path, **options)
        text = _record(transcript, None) + "\n" if format == "json" else written(transcript.segments, format)
        if place is None:
            put(text, end="")
        else:
            place.write_text(text, encoding="utf-8")
            say(f"{place}")


def _places(paths: list[str], format: str, out: Path | None) -> list[Path] | list[None]:
    """The files to write, none of which is there yet."""
    if out is None:
        return [None] * len(paths)
    places = [out / f"{Path(path).stem}.{format}" for path in paths]
    twice = next((i for i, place in enumerate(places) if place in places[:i]), None)
    if twice is not None:
        first = paths[places.index(places[twice])]
        raise UsageError(f"{first} and {paths[twice]} would both be written to {places[twice]}", hint="rename one")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file, a folder was expected")
    for path, place in zip(paths, places, strict=True):
        if place.exists():
            raise UsageError(f"{place}: is there already", hint="give another --out")
        if not Path(path).exists():
            raise DataError(f"{path}: no such file")
    out.mkdir(parents=True, exist_ok=True)
    return places


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
