"""`regard predict`: an input in, an output out; what cannot be used is named, and the others go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.arguments import Device, Json, MaxMemory, NoCheck, Precision, Run, refuse_strange, split_settings
from regard.cli.console import explain, put, say
from regard.cli.inputs import Given, Inputs
from regard.cli.output import Put, writing
from regard.cli.progress import Progress
from regard.config.wording import several
from regard.errors import EnvironmentProblem, RegardError, UsageError

CHUNK, FILES = 512, 64  # texts, and files, that are predicted for at a time, at most


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
    device: Device = "auto",
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Predict with a trained model: for the texts or files given, or for every line of a file or of standard input.

    What cannot be used is named, and the others go on; the exit code is 1 then.
    """
    from regard.cli.opening import open_predictor

    words, options = split_settings(inputs or [])
    given = {"beam": beam, "n_best": n_best, "prefix": prefix, "stop": stop or None}
    given |= {"language": language, "translate": translate or None, "initial_prompt": initial_prompt}
    options |= {name: value for name, value in given.items() if value is not None}
    if words and input_file is not None:
        raise UsageError(f"there are texts to predict for and --input {input_file}; allowed is one of the two")
    predictor = open_predictor(run, device, precision=precision, no_check=no_check)
    flags: dict[str, Any] = given | {"align": alignment, "ensemble": ensemble, "stream": stream, "few_shot": few_shot}
    refuse_strange(predictor.config.task, flags | {"task": task, "context": context, "embed": embed, "format": format})
    as_json = as_json or format == "json"
    if ensemble:
        others = (open_predictor(other, device, precision=precision, no_check=no_check) for other in ensemble)
        predictor = predictor.ensemble(*others)
    predictor.say = say
    _check_shown(options, as_json=as_json)
    _check_out(out, [*words, *([] if input_file is None else [input_file])])
    many = Inputs.of(predictor, words, chunk=FILES if predictor.suffixes else CHUNK, lines=input_file)
    asked = few_shot is not None or task is not None
    if asked:
        many = many.changed(lambda each: few_shot_prompts(each, few_shot, task=task or ""))
        options = {"stop": ["\n"]} | options
    if context is not None:
        many = many.changed(lambda each: with_passage(each, context))
    watched = out is None and not asked and _can_stream(predictor, words, options, as_json=as_json)
    if stream or watched:
        _tell(predictor, many, options=options, as_json=as_json, out=out)
        return
    each_a_file = format not in (None, "json")
    many = many.listed() if each_a_file else many
    with writing(None if each_a_file else out) as write, Progress(many.total, to_file=out is not None) as progress:
        teller = _Teller(predictor, many, write, as_json=as_json, asked=asked, align=alignment)
        if each_a_file and format is not None:
            teller = _Subtitler.of(teller, format, out)
        for some, outputs in _predicted(_embedding(predictor) if embed else _predicting(predictor, options), many):
            for one, output in zip(some, outputs, strict=True):
                teller.tell(one, output)
            progress.add(len(some))
        if teller.failed == teller.n > 0:
            raise typer.Exit(teller.end())  # there is nothing to write
    raise typer.Exit(teller.end())


Predict = Callable[[Sequence[str]], Sequence[Any]]


def _predicting(predictor: Any, options: dict[str, Any]) -> Predict:
    return lambda inputs: predictor.attempt(inputs, **options)


def _embedding(predictor: Any) -> Predict:
    from regard.tasks.predictions import attempt

    def vectors(texts: Sequence[str]) -> list[_Vector]:
        return [_Vector(vector) for vector in predictor.embed(list(texts)).tolist()]

    return lambda inputs: attempt(vectors, inputs)


@dataclass(frozen=True)
class _Vector:
    """The vector of a text."""

    values: list[float]

    def plain(self) -> str:
        return "[" + ", ".join(f"{value:.7g}" for value in self.values) + "]"

    def record(self) -> dict[str, Any]:
        return {"vector": self.values}


def _predicted(predict: Predict, many: Inputs) -> Iterator[tuple[list[Given], list[Any]]]:
    """Inputs with their outputs, or with what is wrong, in their order and some at a time: memory stays flat."""
    for some in many.chunks():
        good = [place for place, one in enumerate(some) if one.problem is None]
        outputs: list[Any] = [one.problem for one in some]
        for place, output in zip(good, predict([some[place].value for place in good]), strict=True):
            outputs[place] = output
        yield some, outputs


@dataclass
class _Teller:
    """Writes outputs as they are asked for, and says what is wrong with inputs that have none."""

    predictor: Any
    many: Inputs
    write: Put
    _: KW_ONLY
    as_json: bool
    asked: bool
    align: bool
    n: int = 0
    failed: int = 0
    header: str | None = None
    hint: str | None = None

    def tell(self, one: Given, output: Any) -> None:
        """The output of an input, or its problem."""
        if isinstance(output, RegardError):
            self._refuse(one, output)
        else:
            between = self.n > self.failed and self.predictor.multiline and not self.asked
            aligned = self.predictor.align(one.value, output) if self.align else None
            if self.as_json:
                named = {"input": one.told} if self.many.files else {}
                record = named | output.record() | ({} if aligned is None else {"alignment": aligned.pairs})
                self.write(json.dumps(record, ensure_ascii=False))
            else:
                line = self._plain(one, output)
                self.write(("\n" if between else "") + (line if aligned is None else f"{line}\t{aligned.pharaoh()}"))
        self.n += 1

    def end(self) -> int:
        """Say how many have no output; the exit code."""
        if self.failed:
            say(f"{self.failed:,} of {several(self.n, 'input', 'inputs')} failed")
        return 1 if self.failed else 0

    def _plain(self, one: Given, output: Any) -> str:
        if self.asked:
            return " ".join(output.text.split())
        if not self.many.files or self.many.alone:
            return str(output.plain())
        text: str = self.predictor.under_name(one.told, output)
        if not self.predictor.headed:
            return text
        header, _, rows = text.partition("\n")
        header, self.header = self.header or "", header
        return rows if header == self.header else text

    def _refuse(self, one: Given, problem: RegardError) -> None:
        reason = str(problem).removeprefix("text 1 ").removeprefix("input 0 ")  # tried by itself, it was the first
        about = reason.startswith(one.name)
        if self.many.alone or (isinstance(problem, EnvironmentProblem) and not about):
            raise problem
        self.failed += 1
        hint = None if problem.hint == self.hint else problem.hint  # the same one is given once
        self.hint = problem.hint
        explain(RegardError(reason if about else f"{one.name}: {reason}", hint=hint))
        if self.as_json:
            error = reason.removeprefix(one.name).removeprefix(":").strip()
            self.write(json.dumps({"input": one.told, "error": error}, ensure_ascii=False))
        elif not (self.many.files or self.many.typed or (self.predictor.multiline and not self.asked)):
            self.write("")  # the n-th line belongs to the n-th text


@dataclass
class _Subtitler(_Teller):
    """Writes each transcript in a format: to a file in the folder `out`, or the only one to standard output."""

    format: str = "txt"
    out: Path | None = None

    @classmethod
    def of(cls, teller: _Teller, format: str, out: Path | None) -> _Subtitler:
        """In place of another teller, once it is clear that every transcript has a place."""
        from regard.tasks.speech.segments import FORMATS

        if format not in FORMATS or teller.as_json:
            given = f"--format {format}" + (" and --json" if teller.as_json else "")
            raise UsageError(f"{given}: allowed is one of {', '.join((*FORMATS, 'json'))}")
        if out is None and teller.many.total != 1:
            message = f"{teller.many.total} recordings do not fit into one {format}"
            raise UsageError(message, hint="a file each: --out FOLDER")
        if out is not None:
            _check_places([one.value for one in teller.many.each], format, out)
        return cls(
            teller.predictor, teller.many, teller.write, as_json=False, asked=False, align=False, format=format, out=out
        )

    def tell(self, one: Given, output: Any) -> None:
        """The transcript of a recording in its place, or its problem."""
        from regard.tasks.speech.segments import written

        if isinstance(output, RegardError):
            self._refuse(one, output)
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


def few_shot_prompts(each: Iterable[Given], table: str | None, *, task: str) -> Iterator[Given]:
    """Each text as the question after the examples of a table of two columns; without one, after the task alone."""
    from regard.data.text.pairs import PairSource
    from regard.tasks.language.few_shot import few_shot_prompt

    examples = [] if table is None else [(pair.source, pair.target) for pair in PairSource(table).pairs()]
    for one in each:
        yield replace(one, value=few_shot_prompt(one.value, examples=examples, task=task))


def with_passage(each: Iterable[Given], path: str) -> Iterator[Given]:
    """Each text as a question on the text of a file."""
    from regard.data.io.lines import read_lines

    passage = "\n".join(read_lines(path))
    for one in each:
        if "\t" in one.value:
            message = f"{one.value[:40]!r} has a tab, and with --context inputs are questions alone"
            yield one.because(UsageError(message))
        else:
            yield replace(one, value=f"{one.value}\t{passage}")


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
