"""`regard look`: what a model looked at, as a picture, as a record, or as lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Device, Run
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.inspection.look import Look


def look(
    run: Run,
    text: Annotated[str, typer.Argument(metavar="INPUT", help="The text to read.", show_default=False)],
    target: Annotated[
        str | None, typer.Option(help="What the model is made to say; else what it says itself.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A picture (.png, .svg, .pdf) or a record (.json) to write.", show_default=False),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="One layer, from 0; else all of them.", show_default=False)] = None,
    device: Device = "auto",
) -> None:
    """See which source word each target word looked at; without --out, a line for each: target, source, weight."""
    from regard.inspection.look import PICTURES
    from regard.predictors import load

    if out is not None and out.suffix.lower() not in (*PICTURES, ".json"):
        raise UsageError(f"--out {out}: allowed are names that end in {', '.join((*PICTURES, '.json'))}")
    seen = load(run, device).look(text, target)
    if out is None:
        for line in _lines(seen, layer):
            put(line)
    elif out.suffix.lower() == ".json":
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(seen.to_json() + "\n", encoding="utf-8")
    else:
        seen.plot(out, layer=layer)
    if out is not None:
        say(f"{'record' if out.suffix.lower() == '.json' else 'picture'}: {out}")


def _lines(seen: Look, layer: int | None) -> list[str]:
    alignment = seen.align(layer=layer)
    sources, targets = seen.source_words.texts, seen.target_words.texts
    pairs = sorted(alignment.pairs, key=lambda pair: pair[::-1])
    return [f"{targets[t]}\t{sources[s]}\t{alignment.matrix[t, s]:.3f}" for s, t in pairs]
