"""`regard look`: what a model looked at, as a picture, as a page, as a record, or as lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Device, MaxMemory, NoCheck, Run
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.inspection.look import Look

RECORDS, PAGES = (".json", ".npz"), (".html",)


def look(
    run: Run,
    text: Annotated[
        str, typer.Argument(metavar="INPUT", help="The text to read; a tab parts two of them.", show_default=False)
    ],
    target: Annotated[
        str | None,
        typer.Option(help="What a model that writes is made to say; else what it says itself.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A picture (.png, .svg, .pdf), a page (.html) or a record (.json, .npz) to write.", show_default=False
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="One layer, from 0; else all of them.", show_default=False)] = None,
    device: Device = "auto",
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
) -> None:
    """See who looked at whom; without --out, a line for each word or piece: itself, what it looked at most, weight."""
    from regard.cli.opening import open_predictor
    from regard.inspection.look import PICTURES

    allowed = (*PICTURES, *PAGES, *RECORDS)
    if out is not None and out.suffix.lower() not in allowed:
        raise UsageError(f"--out {out}: allowed are names that end in {', '.join(allowed)}")
    records = list(open_predictor(run, device, no_check=no_check).looks(text, target))
    for number, seen in enumerate(records, 1):
        place = out if out is None or len(records) == 1 else out.with_stem(f"{out.stem}-{number}")
        _show(seen, place, layer)


def _show(seen: Look, out: Path | None, layer: int | None) -> None:
    """A record as lines, or as the file that its name asks for."""
    if out is None:
        for line in _aligned(seen, layer) if "cross" in seen.maps else _most(seen, layer):
            put(line)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix.lower() in RECORDS:
        say(f"record: {seen.save(out)}")
    elif out.suffix.lower() in PAGES:
        say(f"page: {seen.page(out)}")
    else:
        say(f"picture: {seen.plot(out, layer=layer)}")


def _aligned(seen: Look, layer: int | None) -> list[str]:
    """Of two texts: which word comes from which."""
    alignment = seen.align(layer=layer)
    sources, targets = seen.source_words.texts, seen.target_words.texts
    pairs = sorted(alignment.pairs, key=lambda pair: pair[::-1])
    return [f"{targets[t]}\t{sources[s]}\t{alignment.matrix[t, s]:.3f}" for s, t in pairs]


def _most(seen: Look, layer: int | None) -> list[str]:
    """Of one text: where each piece looked most, the mean of all heads."""
    shown = seen.of()
    weights = shown.weights.mean((0, 1)) if layer is None else shown.of_layer(layer).mean(0)  # (T, S)
    rows, columns = seen.axes[shown.rows].labels, seen.axes[shown.columns].labels
    best = weights.argmax(1).tolist()
    return [f"{row}\t{columns[s]}\t{weights[t, s]:.3f}" for t, (row, s) in enumerate(zip(rows, best, strict=True))]
