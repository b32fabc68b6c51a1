"""`regard predict`: an input in, an output out; what cannot be used is named, and the others go on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.arguments import Device, Json, MaxMemory, NoCheck, Precision, Run, refuse_strange, split_settings
from regard.cli.console import explain, put, say
from regard.cli.output import writing
from regard.cli.progress import Progress
from regard.config.wording import several
from regard.errors import RegardError, UsageError
from regard.tasks.predicting.inputs import Given, Inputs
from regard.tasks.predicting.outputs import OutputWriter
from regard.tasks.predicting.request import Request, predicted


def predict(
    run: Run,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts; or files, folders and patterns of them, where a model reads files. Settings decode.key=value "
            "may stand among them."
        ),
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input", help="A file with an input a line; - or nothing is standard input.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the outputs to this file, whole or not at all; with --format, to a folder, a file each.",
            show_default=False,
        ),
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
    language: Annotated[
        str | None, typer.Option(help="Speech, Whisper: what is spoken, a code such as de; auto finds it.")
    ] = None,
    translate: Annotated[bool, typer.Option("--translate", help="Speech, Whisper: write it in English.")] = False,
    initial_prompt: Annotated[
        str | None, typer.Option(help="Speech, Whisper: a text that came before, for names and style.")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            help="Predict in parts, by so many processes, or auto; --out is a folder, and the same command goes on.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="Where workers are: local processes, or ray for Ray's actors.", show_default=False),
    ] = None,
    part_size: Annotated[
        int | None, typer.Option(min=1, help="Inputs a part, at least; 2048 by itself.", show_default=False)
    ] = None,
    join: Annotated[
        Path | None, typer.Option(help="Write the parts, once all are there, to this file.", show_default=False)
    ] = None,
    device: Device = "auto",
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Predict with a trained model: for the texts or files given, or for every line of a file or of standard input.

    What cannot be used is named, and the others go on; the exit code is 1 then.
    """
    words, options = split_settings(inputs or [])
    given = {"beam": beam, "n_best": n_best, "prefix": prefix, "stop": stop or None}
    given |= {"language": language, "translate": translate or None, "initial_prompt": initial_prompt}
    options |= {name: value for name, value in given.items() if value is not None}
    if words and input_file is not None:
        raise UsageError(f"there are texts to predict for and --input {input_file}; allowed is one of the two")
    request = Request(
        run,
        device=device,
        precision=precision,
        check=not no_check,
        max_memory=max_memory,
        options=options,
        as_json=as_json or format == "json",
        align=alignment,
        embed=embed,
        ensemble=tuple(ensemble or ()),
        few_shot=few_shot,
        task=task,
        context=context,
    )
    in_parts = any(value is not None for value in (workers, engine, part_size, join))
    if in_parts:
        from regard.cli.parts import PartsOptions, check_parts, parts_job, predict_parts

        parts = PartsOptions(workers, engine, part_size, join)
        refused = {"--stream": stream, "--format": None if format == "json" else format}
        folder = check_parts(parts, out, lines=input_file, refused=refused)
    predictor = request.open_one(say, device="cpu" if in_parts else None)
    flags: dict[str, Any] = given | {"align": alignment, "ensemble": ensemble, "stream": stream, "few_shot": few_shot}
    refuse_strange(predictor.config.task, flags | {"task": task, "context": context, "embed": embed, "format": format})
    _check_shown(options, as_json=request.as_json)
    if in_parts:
        job = parts_job(request, predictor, parts, words=words, lines=input_file)
        del predictor  # workers open their own
        raise typer.Exit(predict_parts(job, parts, folder))
    predictor = request.with_ensemble(predictor, say)
    _check_out(out, [*words, *([] if input_file is None else [input_file])])
    many = Inputs.of(predictor, words, say=say, lines=input_file).changed(request.prompts())
    watched = out is None and not request.asked and _can_stream(predictor, words, options, as_json=request.as_json)
    if stream or watched:
        _tell(predictor, many, options=options, as_json=request.as_json, out=out)
        return
    each_a_file = format not in (None, "json")
    many = many.listed() if each_a_file else many
    with writing(None if each_a_file else out) as write, Progress(many.total, to_file=out is not None) as progress:
        writer = OutputWriter(predictor, request, many, write, explain)
        if each_a_file and format is not None:
            writer = _SubtitleWriter.of(writer, format, out)
        for some, outputs in predicted(request.predicting(predictor), many.chunks()):
            for one, output in zip(some, outputs, strict=True):
                writer.tell(one, output)
            progress.add(len(some))
        if writer.failed == writer.n > 0:
            raise typer.Exit(exit_code(writer.n, writer.failed))  # there is nothing to write
    raise typer.Exit(exit_code(writer.n, writer.failed))


def exit_code(n: int, failed: int) -> int:
    """Say how many inputs have no output; the exit code."""
    if failed:
        say(f"{failed:,} of {several(n, 'input', 'inputs')} failed")
    return 1 if failed else 0


@dataclass
class _SubtitleWriter(OutputWriter):
    """Writes each transcript in a format: to a file in the folder `out`, or the only one to standard output."""

    format: str = "txt"
    out: Path | None = None

    @classmethod
    def of(cls, writer: OutputWriter, format: str, out: Path | None) -> _SubtitleWriter:
        """In place of another writer, once it is clear that every transcript has a place."""
        from regard.tasks.speech.segments import FORMATS

        if format not in FORMATS or writer.request.as_json:
            given = f"--format {format}" + (" and --json" if writer.request.as_json else "")
            raise UsageError(f"{given}: allowed is one of {', '.join((*FORMATS, 'json'))}")
        if out is None and writer.many.total != 1:
            message = f"{writer.many.total} recordings do not fit into one {format}"
            raise UsageError(message, hint="a file each: --out FOLDER")
        if out is not None:
            _check_places([one.value for one in writer.many.each], format, out)
        return cls(writer.predictor, writer.request, writer.many, writer.write, writer.explain, format=format, out=out)

    def tell(self, one: Given, output: Any) -> None:
        """The transcript of a recording in its place, or its problem."""
        from regard.tasks.speech.segments import written

        if isinstance(output, RegardError):
            self.refuse(one, output)
        elif self.out is None:
            put(written(output.segments, self.format), end="")
        else:
            with writing(self.out / f"{Path(one.value).stem}.{self.format}") as write:
                if text := written(output.segments, self.format).removesuffix("\n"):
                    write(text)
        self.n += 1


def _check_places(recordings: Sequence[str], format: str, out: Path) -> None:
    """Refuse a folder that is none, files that are there, and recordings that would be written to the same one."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file, a folder was expected")
    known: dict[Path, str] = {}
    for name in recordings:
        place = out / f"{Path(name).stem}.{format}"
        if place in known:
            raise UsageError(f"{known[place]} and {name} would both be written to {place}", hint="rename one")
        if place.exists():
            raise UsageError(f"{place}: is there already", hint="give another --out")
        known[place] = name


def _can_stream(predictor: Any, texts: list[str], options: dict[str, Any], *, as_json: bool) -> bool:
    """Whether somebody watches one text being written."""
    return len(texts) == 1 and not as_json and sys.stdout.isatty() and bool(predictor.can_stream(**options))


def _tell(predictor: Any, many: Inputs, *, options: dict[str, Any], as_json: bool, out: Path | None) -> None:
    """The text of one continuation as it comes."""
    texts = [one.value for one in many.each]
    if len(texts) != 1 or as_json or out is not None:
        what = "--json" if as_json else f"--out {out}" if out is not None else f"{len(texts)} texts"
        raise UsageError(f"--stream and {what} were given; allowed is one text, shown as it comes")
    pieces = predictor.stream(texts[0], **options)
    put(texts[0], end="")
    for piece in pieces:
        put(piece, end="")
    put("")


def _check_shown(options: dict[str, Any], *, as_json: bool) -> None:
    if not as_json and any(str(options.get(name, 1)) not in ("0", "1") for name in ("n_best", "n_samples")):
        raise UsageError("one line a text has no room for several outputs", hint="--json shows all of them")


def _check_out(out: Path | None, inputs: Sequence[str]) -> None:
    """Refuse to write over what is read."""
    if out is not None and out.is_file() and any(_is_same(out, name) for name in inputs):
        raise UsageError(f"--out {out}: is one of the inputs", hint="give another --out")


def _is_same(out: Path, name: str) -> bool:
    try:
        return Path(name).samefile(out)
    except (OSError, ValueError):  # it is no file
        return False
