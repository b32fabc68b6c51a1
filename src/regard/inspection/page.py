"""A record as one HTML file: no network, no other files, any recent browser.

The page is `page.html` with `page.js` and the record put in: one frame for every task, with its header, the choice of
layer and head, light and dark, and the scale. Views between places (lines, matrix, heads) are the frame's own; a task
whose input is no text adds a `Scene`, which comes first: the image, the sound or the series itself.

Weights are kept as ten-thousandths, sixteen bits each, high bytes before low ones (the high ones are mostly zero),
deflated and written in base64, one piece a head: the browser opens a piece when its head is looked at. What is shown
first comes first in the file, so that it can be drawn while the rest is still being read.

    w0.3.5    the weights of map 0, layer 3, head 5, (T, S)
    t0        small pictures of all heads of map 0, one byte a cell
    q0.3.5    the queries and keys of a head, sixteen bits a number, as shares of the largest

What a page shows was written by a model and read from anybody's files, so it forbids its browser everything but itself
(Content-Security-Policy): the script and the style sheet of the frame run, named by their digests, pictures and sounds
come out of the page, and nothing is loaded from or sent to anywhere. Text that got in as markup would do nothing.

A page holds so many weights and no more. Kinds of attention that are asked for last, then layers in between, then heads
are left out of one that would be larger, and the page says which.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.inspection.alignments import sharpest
from regard.inspection.plots.colours import DARK, LIGHT, full_colour
from regard.inspection.record import ORDER, Axis, Computed, Look, Map, MapKind, Outputs
from regard.inspection.summaries import HeadSummary, summarise
from regard.inspection.words import SPACE, shown

_MOST_WEIGHTS = 38_000_000  # of a text's page: 512 tokens, 12 layers, 12 heads; about 20 MB
_MOST_BESIDE = 2_000_000  # of a page that holds an image or a sound besides: it stays below 5 MB
_SMALL = 48  # cells of a small picture, at most, along each side
_NAMES = {"fed": "what was written before"}
_MARK = re.compile(r"<[^<>]+>|\[[A-Z]+\]")
_MEANING = {
    "self": "Every piece of the {rows} looks at the whole {columns}, itself included.",
    "masked": "Every piece looks at itself and at what came before it, never ahead.",
    "cross": "While a piece of the {rows} is written, the model looks at the {columns}.",
    "pool": "One learned query looks over the {columns} and takes what it needs for the answer.",
    "kernel": "Every point asked about looks at the known points; the nearer one is, the more it counts.",
}


@dataclass(frozen=True)
class Scene:
    """What a page shows first of an input that is no text: a view of its own, drawn by a script of the task's.

    `kinds` are those of attention that it can show, the most asked for first; `names` are better ones for axes. `read`
    and `wrote` are the input and the answer in a line each. The script finds `facts` in the record, and `pieces` as
    the frame's own large ones. `start` is the layer and the head that the first kind begins with, −1 for the mean.
    """

    name: str
    script: str
    kinds: tuple[MapKind, ...]
    read: str
    wrote: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    pieces: Mapping[str, bytes] = field(default_factory=dict)
    start: tuple[int, int] | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def page(look: Look, scene: Scene | None = None) -> str:
    """The whole page as one text."""
    order = ORDER if scene is None else (*scene.kinds, *(kind for kind in ORDER if kind not in scene.kinds))
    found = [look.maps[kind] for kind in order if kind in look.maps]
    maps, notes = fitting(found, _MOST_WEIGHTS if scene is None else _MOST_BESIDE)
    look = replace(look, maps={attention.kind: attention for attention in maps})
    names = {name: name for name in look.axes} | _NAMES | dict({} if scene is None else scene.names)
    map_facts = [_describe_map(look, attention, names) for attention in maps]
    if scene is not None and scene.start is not None and maps[0].kind == scene.kinds[0]:
        map_facts[0]["start"] = _nearest(maps[0], scene.start)
    record = _describe(look, maps, map_facts) | {"notes": notes} | _describe_scene(look, scene)
    first, rest = _parted({} if scene is None else scene.pieces, maps, layer=map_facts[0]["start"][0])
    parts = {
        "title": html.escape(look.title or record["read"][:80] or "What the model looked at"),
        "record": inside_script(record),
        "first": first,
        "scene": "" if scene is None else scene.script,
        "script": file_text("regard.inspection", "page.js"),
        "rest": rest,
    }
    template = file_text("regard.inspection", "page.html")
    return filled(template, parts | {"policy": policy(template, parts)})


def policy(template: str, parts: Mapping[str, str]) -> str:
    """What a browser may do with the filled template: run its own scripts and style sheets, and show what is in it."""
    scripts, styles = (digests(template, tag, parts) for tag in ("script", "style"))
    shown = "img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {scripts}; style-src {styles}; {shown}"


def digests(template: str, tag: str, parts: Mapping[str, str]) -> str:
    """The digest of what stands between each pair of tags, as browsers compute it; data blocks carry a type."""
    inline = re.findall(f"<{tag}>(.*?)</{tag}>", template, re.DOTALL)
    digests = [hashlib.sha256(filled(one, parts).encode()).digest() for one in inline]
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _parted(own: Mapping[str, bytes], maps: list[Map], *, layer: int) -> tuple[str, str]:
    """Everything large: what is shown first, with a layer of the first map, and the rest."""
    first: list[str] = []
    rest: list[str] = []
    for name, data in [*own.items(), *_pieces(maps)]:
        early = name in own or name == "t0" or name.startswith(f"w0.{layer}.")
        (first if early else rest).append(f'<script type="text/plain" id="{name}">{_deflated(data)}</script>')
    return "\n".join(first), "\n".join(rest)


def _describe_scene(look: Look, scene: Scene | None) -> dict[str, Any]:
    """What a scene puts into the record; a file that is named by `read` is not named twice."""
    if scene is None:
        return {}
    about = look.about
    if about is not None and about.file == scene.read:
        about = replace(about, file="")
    return {
        "scene": {"name": scene.name, "kinds": scene.kinds, **scene.facts},
        "read": scene.read,
        "wrote": scene.wrote or None,
        "about": "" if about is None else about.line,
    }


def fitting(maps: list[Map], most: int) -> tuple[list[Map], list[str]]:
    """As much of the maps as holds no more than so many weights, and a line for each that lost something.

    The first map keeps at least a head of a layer, whatever its size.
    """
    kept: list[Map] = []
    notes = []
    for attention in maps:
        n_layers, n_heads, *sizes = attention.weights.shape
        heads = (most - sum(one.weights.size for one in kept)) // max(1, int(np.prod(sizes)))
        if heads >= n_layers * n_heads:
            kept.append(attention)
        elif heads >= n_heads or not kept:
            thinned = _thinned(attention, max(1, heads // n_heads), min(n_heads, max(1, heads)))
            kept.append(thinned)
            notes.append(_left_out(attention, thinned))
        else:
            notes.append(f"{attention.kind}-attention is left out")
    return kept, notes


def _thinned(attention: Map, n_layers: int, n_heads: int) -> Map:
    """The last of its layers and those evenly before it, and its first heads."""
    layers = np.unique(np.linspace(len(attention.layers) - 1, 0, n_layers).round().astype(int))
    computed = attention.computed
    if computed is not None:
        vector = None if computed.vector is None else computed.vector[layers]
        queries, keys = (part[layers][:, :n_heads] for part in (computed.queries, computed.keys))
        computed = replace(computed, queries=queries, keys=keys, vector=vector)
    kept = tuple(attention.layers[i] for i in layers)
    weights = np.ascontiguousarray(attention.weights[layers][:, :n_heads])
    return replace(attention, weights=weights, layers=kept, heads=attention.heads[:n_heads], computed=computed)


def _left_out(whole: Map, kept: Map) -> str:
    layers, heads = ", ".join(map(str, kept.layers)), ", ".join(map(str, kept.heads))
    of_heads = "" if kept.heads == whole.heads else f" and heads {heads}"
    return f"of {whole.kind}-attention only layers {layers}{of_heads} are kept"


def _nearest(attention: Map, start: tuple[int, int]) -> list[int]:
    """The place of a layer among those kept, and a head if it is there."""
    layer = int(np.abs(np.array(attention.layers) - start[0]).argmin())
    if len(attention.heads) == 1:
        return [layer, 0]
    return [layer, start[1] if attention.layers[layer] == start[0] and start[1] in attention.heads else -1]


def _describe(look: Look, maps: list[Map], map_facts: list[dict[str, Any]]) -> dict[str, Any]:
    target = look.axes.get("target")
    return {
        "title": look.title,
        "about": "" if look.about is None else look.about.line,
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


def _describe_map(look: Look, attention: Map, names: Mapping[str, str]) -> dict[str, Any]:
    summaries = [_numbers(summary) for summary in summarise(look, attention.kind)]
    n_heads = len(attention.heads)
    sides = [names[side] for side in (attention.rows, attention.columns)]
    said = {name: getattr(attention, name) for name in ("kind", "rows", "columns", "layers", "heads")}
    return {
        **said,
        "most": full_colour(attention.weights.shape[-1]),
        "meaning": _MEANING[attention.kind].format(rows=sides[0], columns=sides[1]),
        "names": sides,
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
