"""A record as one HTML file: no network, no other files, any recent browser.

The page is `page.html` with `page.js` and the record put in. Weights are kept as ten-thousandths, sixteen bits each,
high bytes before low ones (the high ones are mostly zero), deflated and written in base64, one piece a head: the
browser opens a piece when its head is looked at. What is shown first comes first in the file, so that it can be drawn
while the rest is still being read.

    w0.3.5    the weights of map 0, layer 3, head 5, (T, S)
    t0        small pictures of all heads of map 0, one byte a cell
    q0.3.5    the queries and keys of a head, sixteen bits a number, as shares of the largest
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.inspection.alignments import sharpest
from regard.inspection.plots.colours import DARK, LIGHT, full_colour
from regard.inspection.record import ORDER, Axis, Computed, Look, Map, Outputs
from regard.inspection.summaries import HeadSummary, summarise
from regard.inspection.words import SPACE, shown

_SMALL = 48  # cells of a small picture, at most, along each side
_MARK = re.compile(r"<[^<>]+>|\[[A-Z]+\]")
_MEANING = {
    "self": "Every piece of the {rows} looks at the whole {columns}, itself included.",
    "masked": "Every piece looks at itself and at what came before it, never ahead.",
    "cross": "While a piece of the {rows} is written, the model looks at the {columns}.",
    "pool": "One learned query looks over the {columns} and takes what it needs for the answer.",
    "kernel": "Every point asked about looks at the known points; the nearer one is, the more it counts.",
}


def page(look: Look) -> str:
    """The whole page as one text."""
    maps = [look.maps[kind] for kind in ORDER if kind in look.maps]
    map_facts = [_describe_map(look, attention) for attention in maps]
    first: list[str] = []
    rest: list[str] = []
    for name, data in _pieces(maps):
        early = name == "t0" or name.startswith(f"w0.{map_facts[0]['start'][0]}.")
        (first if early else rest).append(f'<script type="text/plain" id="{name}">{_deflated(data)}</script>')
    parts = {
        "title": html.escape(look.title or _text(look, maps)[:80] or "What the model looked at"),
        "record": inside_script(_describe(look, maps, map_facts)),
        "first": "\n".join(first),
        "script": file_text("regard.inspection", "page.js"),
        "rest": "\n".join(rest),
    }
    return filled(file_text("regard.inspection", "page.html"), parts)


def _describe(look: Look, maps: list[Map], map_facts: list[dict[str, Any]]) -> dict[str, Any]:
    target = look.axes.get("target")
    return {
        "title": look.title,
        "shades": {"light": LIGHT.shades, "dark": DARK.shades},
        "read": _text(look, maps),
        "wrote": target.text if target is not None else None,
        "axes": {
            name: {"shown": axis.shown, "kind": axis.kind, "marks": axis.marks} for name, axis in look.axes.items()
        },
        "maps": map_facts,
        "outputs": None if look.outputs is None else _describe_outputs(look.outputs, look.axes[look.outputs.axis]),
    }


def _describe_outputs(outputs: Outputs, axis: Axis) -> dict[str, Any]:
    """Alternatives as people read them; of what was given also its place among them, or −1."""
    spaced = any(label.startswith(SPACE) and len(label) > 1 for label in axis.labels)
    given: list[Any] = [None] * len(outputs.tokens)
    for index, one in enumerate(outputs.given):
        if one is not None:
            among = outputs.tokens[index]
            given[index] = [_alone(one[0], spaced), round(one[1], 5), among.index(one[0]) if one[0] in among else -1]
    return {
        "axis": outputs.axis,
        "says": outputs.says,
        "tokens": [[_alone(token, spaced) for token in row] for row in outputs.tokens],
        "probabilities": [[round(p, 5) for p in row] for row in outputs.probabilities],
        "given": given,
    }


def _describe_map(look: Look, attention: Map) -> dict[str, Any]:
    summaries = [_numbers(summary) for summary in summarise(look, attention.kind)]
    n_heads = len(attention.heads)
    said = {name: getattr(attention, name) for name in ("kind", "rows", "columns", "layers", "heads")}
    return {
        **said,
        "most": full_colour(attention.weights.shape[-1]),
        "meaning": _MEANING[attention.kind].format(rows=attention.rows, columns=attention.columns),
        "summary": [summaries[i : i + n_heads] for i in range(0, len(summaries), n_heads)],
        "start": [_first_layer(look, attention), -1 if n_heads > 1 else 0],
        "thumb": _small_shape(attention.weights.shape[-2:]),
        "computed": None if attention.computed is None else _describe_computed(attention.computed),
    }


def _describe_computed(made: Computed) -> dict[str, Any]:
    largest = [np.abs(part).max((-1, -2)) for part in (made.queries, made.keys)]  # (L, H) each
    return {
        "form": made.form,
        "scale": made.scale,
        "width": made.queries.shape[-1],
        "range": np.stack(largest, -1).astype(float).tolist(),
        "vector": None if made.vector is None else made.vector.astype(float).tolist(),
    }


def _first_layer(look: Look, attention: Map) -> int:
    """The layer to begin with: between two sentences the one that aligns them best, else the first."""
    if attention.kind != "cross" or len(attention.layers) == 1:
        return 0
    rows, columns = look.axes[attention.rows].real, look.axes[attention.columns].real
    means = attention.weights.mean(1)[:, rows][:, :, columns].astype(np.float64)
    return sharpest(means)[0] if means.size else 0


def _pieces(maps: list[Map]) -> Iterator[tuple[str, bytes]]:
    """The names and the bytes of everything large."""
    for number, attention in enumerate(maps):
        yield f"t{number}", _small(attention)
        for layer, head in np.ndindex(*attention.weights.shape[:2]):
            fixed = np.rint(attention.weights[layer, head] * 10000).astype(np.uint16)
            planes = (fixed >> 8).astype(np.uint8).tobytes() + (fixed & 255).astype(np.uint8).tobytes()
            yield f"w{number}.{layer}.{head}", planes
            if (made := attention.computed) is not None:
                sides = (made.queries[layer, head], made.keys[layer, head])
                yield f"q{number}.{layer}.{head}", b"".join(_sixteen_bits(side) for side in sides)


def _sixteen_bits(numbers: NDArray[np.float32]) -> bytes:
    largest = np.abs(numbers).max(initial=0)
    return bytes(np.rint(numbers / (largest or 1) * 32767).astype("<i2").tobytes())


def _small(attention: Map) -> bytes:
    """Small pictures of all heads (L, H, t, s), one byte a cell: the largest weight of the cells that fall together."""
    n_rows, n_columns = attention.weights.shape[-2:]
    rows, columns = _small_shape((n_rows, n_columns))
    row_starts, column_starts = np.arange(rows) * n_rows // rows, np.arange(columns) * n_columns // columns
    pooled = np.maximum.reduceat(np.maximum.reduceat(attention.weights, row_starts, axis=-2), column_starts, axis=-1)
    levels = np.sqrt(np.minimum(1, pooled / full_colour(n_columns)))
    return bytes(np.rint(255 * levels).astype(np.uint8).tobytes())


def _small_shape(shape: tuple[int, ...]) -> list[int]:
    return [min(_SMALL, size) for size in shape]


def _numbers(summary: HeadSummary) -> dict[str, float | None]:
    names = ("entropy", "ceiling", "focus", "distance", "marks")
    return {name: None if (value := getattr(summary, name)) is None else round(value, 4) for name in names}


def _text(look: Look, maps: list[Map]) -> str:
    """What was read, in one line."""
    name = next((name for name in ("source", "text") if name in look.axes), maps[0].columns if maps else "")
    return look.axes[name].text if name else ""


def _alone(token: str, spaced: bool) -> str:
    """A piece by itself: the space before a word left out, a piece that goes on with one marked by a dot."""
    bare = token.removeprefix("##").removeprefix(SPACE) or token
    begins = token.startswith(SPACE) if spaced else not token.startswith("##")
    mark = _MARK.fullmatch(token) is not None or not bare[:1].isalnum()
    return shown([bare], None)[0] if begins or mark else f"·{shown([bare], None)[0]}"


def _deflated(data: bytes) -> str:
    packer = zlib.compressobj(4, zlib.DEFLATED, -15)
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with every {{name}} replaced; nothing inside a part is taken for a name."""
    return re.sub(r"\{\{([\w.]+)\}\}", lambda name: parts[name[1]], template)


def inside_script(value: object) -> str:
    """JSON that can stand in a page's script, whatever it holds."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def file_text(package: str, name: str) -> str:
    """A file that lies beside the code."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
