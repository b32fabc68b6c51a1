"""What a model looked at, as a record that can be kept, read, drawn and opened in a browser.

    Look
    ├── axes       names → Axis       what stands along the sides of a map: tokens, patches, frames, time steps, points
    ├── maps       kinds → Map        weights (L, H, T, S): who asked (T, `rows`), who was looked at (S, `columns`)
    │                 └── computed    optionally the queries and keys that the weights were computed from
    ├── outputs    Outputs            what the model said, or might have said, at each place, with probabilities
    └── about      About              the task, the model and the file, where they are known

    kind     rows      columns    who looks at whom
    self     source    source     an encoder's tokens at one another
    masked   target    fed        a decoder at what has been written so far; a language model's text at its own past
    cross    target    source     what is written at what was read: a Transformer's or a recurrent model's
    pool     label     text       a learned query at a text, for a classifier
    kernel   queries   points     Nadaraya–Watson: points asked about at the points known

Of a translation, row t is where the model looked when it predicted target piece t; both sides end with </s>, and `fed`
is what stood there as input: <s>, then the target without its end. Of a language model, row t is where piece t looked
while the model predicted the piece after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError, UsageError
from regard.inspection.alignments import Alignment, Heads, Method, align
from regard.inspection.words import NO_WORD, Words, shown

Weights = NDArray[np.float32]
MapKind = Literal["self", "masked", "cross", "pool", "kernel"]
AxisKind = Literal["tokens", "words", "patches", "frames", "steps", "points", "labels"]
Form = Literal["dot", "tanh", "relu", "gaussian"]
Says = Literal["next", "here", "label", "span"]
Picture = Literal["auto", "alignment", "heads", "overview", "rollout"]
PICTURES = (".png", ".svg", ".pdf")
ORDER: tuple[MapKind, ...] = ("cross", "masked", "self", "pool", "kernel")  # what people ask about first


@dataclass(frozen=True)
class Axis:
    """One side of a map: a label for each place, what the places are, and the words that pieces make up."""

    labels: list[str]
    kind: AxisKind = "tokens"
    words: Words | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shown(self) -> list[str]:
        """The labels as people read them."""
        return shown(self.labels, self.words)

    @property
    def text(self) -> str:
        """Everything in one line."""
        return " ".join(self.words.texts if self.words is not None else self.labels)

    @property
    def marks(self) -> list[int]:
        """The places of marks such as </s> or [CLS]."""
        return [] if self.words is None else [i for i, word in enumerate(self.words.of_piece) if word == NO_WORD]

    @property
    def real(self) -> list[int]:
        """The places that are no marks."""
        return sorted(set(range(len(self.labels))) - set(self.marks))


@dataclass(frozen=True, eq=False)
class Computed:
    """What weights were computed from, head by head: score = scale · Σₑ term(qₑ, kₑ), then softmax over the keys.

    dot        qₑ kₑ                  queries (L, H, T, E), keys (L, H, S, E) as the score prepared them
    tanh       vₑ tanh(qₑ + kₑ)       additive attention; `vector` is v, (L, E)
    relu       vₑ max(0, qₑ + kₑ)     the score that is a small network
    gaussian   −(qₑ − kₑ)² / 2        distances in bandwidths
    """

    form: Form
    scale: float
    queries: Weights
    keys: Weights
    vector: Weights | None = None


@dataclass(frozen=True, eq=False)
class Map:
    """The attention of one kind: weights (L, H, T, S) of the `layers` and `heads` that were asked for."""

    kind: MapKind
    rows: str
    columns: str
    weights: Weights
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    computed: Computed | None = None

    def of_layer(self, layer: int) -> Weights:
        """The heads of one layer, by its number in the model: (H, T, S)."""
        if layer not in self.layers:
            shown = f"0 to {self.layers[-1]}" if self.layers == tuple(range(len(self.layers))) else f"{self.layers}"
            raise UsageError(f"there is no layer {layer}; there are {shown}")
        weights: Weights = self.weights[self.layers.index(layer)]
        return weights


@dataclass(frozen=True)
class Outputs:
    """What a model said at each place of an axis: the likeliest things with their probabilities, best first.

    `says` is what they are about: the token after a place ("next"), the one that stands there ("here"), the whole
    ("label"), or where an answer begins and ends ("span"). `given` is what did come there, with its probability,
    where that is known.
    """

    axis: str
    says: Says
    tokens: list[list[str]]
    probabilities: list[list[float]]
    given: list[tuple[str, float] | None] = field(default_factory=list)


@dataclass(frozen=True)
class About:
    """Whose look it is: the task, the model's name, and the name of the file that was read, if it was one."""

    task: str
    model: str = ""
    file: str = ""

    @property
    def line(self) -> str:
        """All that is known, in one line."""
        return " · ".join(part for part in (self.task, self.model, self.file) if part)


@dataclass(frozen=True, eq=False)
class Look:
    """What a model looked at, and what it said. `title` is a line for people."""

    axes: dict[str, Axis]
    maps: dict[str, Map]
    outputs: Outputs | None = None
    title: str = ""
    about: About | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, attention in self.maps.items():
            sides = [self.axes.get(side) for side in (attention.rows, attention.columns)]
            if name != attention.kind or None in sides:
                raise UsageError(
                    f"map {name!r} is of kind {attention.kind!r} between {attention.rows!r} and {attention.columns!r}"
                )
            fits = (len(attention.layers), len(attention.heads), *(len(side) for side in sides if side is not None))
            if attention.weights.shape != fits:
                raise ShapeError(f"{name} weights of shape {attention.weights.shape} do not fit (L, H, T, S) = {fits}")

    @property
    def weights(self) -> dict[str, Weights]:
        """The weights of each kind, (L, H, T, S)."""
        return {kind: attention.weights for kind, attention in self.maps.items()}

    def of(self, kind: str | None = None) -> Map:
        """The map of a kind; without one, of what people ask about first."""
        for name in ORDER if kind is None else (kind,):
            if name in self.maps:
                return self.maps[name]
        raise UsageError(f"no attention of kind {kind!r} was seen; there is {', '.join(self.maps) or 'none'}")

    @property
    def source(self) -> list[str]:
        """The pieces that were looked at first: of a translation its source, else the text."""
        return self.axes[self.of().columns].labels

    @property
    def target(self) -> list[str]:
        """The pieces that looked: of a translation its target, else the text."""
        return self.axes[self.of().rows].labels

    @property
    def source_words(self) -> Words:
        """The words of `source`."""
        return _words(self.axes[self.of().columns])

    @property
    def target_words(self) -> Words:
        """The words of `target`."""
        return _words(self.axes[self.of().rows])

    @cached_property
    def cross(self) -> Weights:
        """The maps between the two sentences, (L, H, T, S)."""
        if "cross" not in self.maps:
            raise UsageError(f"no attention between two sentences was seen; there is {', '.join(self.maps)}")
        return self.maps["cross"].weights

    def align(
        self, *, method: Method = "argmax", heads: Heads = "mean", threshold: float = 0.3, layer: int | None = None
    ) -> Alignment:
        """Which target word comes from which source word, read off the cross-attention of all layers or of one."""
        maps = self.cross if layer is None else self.maps["cross"].of_layer(layer)
        sides = self.axes[self.maps["cross"].rows], self.axes[self.maps["cross"].columns]
        target_words, source_words = ([_words(side).of_piece[i] for i in side.real] for side in sides)
        return align(
            maps[..., sides[0].real, :][..., sides[1].real],
            source_words=source_words,
            target_words=target_words,
            method=method,
            heads=heads,
            threshold=threshold,
        )

    def plot(
        self,
        path: Path | str,
        *,
        heads: Heads = "mean",
        layer: int | None = None,
        kind: MapKind | None = None,
        picture: Picture = "auto",
        dark: bool = False,
    ) -> Path:
        """Draw it: an alignment of two sentences, the `heads` of a layer, an `overview` of all, or the `rollout`.

        Left to itself it draws the alignment where there are two sentences, else the heads of the layer asked for,
        else all heads of all layers. The path ends in .png, .svg or .pdf.
        """
        from regard.inspection.plots.pictures import draw

        if Path(path).suffix.lower() not in PICTURES:
            raise UsageError(f"{path}: not a picture's name; allowed are {', '.join(PICTURES)}")
        own = self.own_picture(Path(path), layer=layer, kind=kind, dark=dark) if picture == "auto" else None
        return own or draw(self, path, heads=heads, layer=layer, kind=kind, picture=picture, dark=dark)

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw what suits this kind of model better than a map, where there is such a picture: here there is none."""
        return None

    def page(self, path: Path | str) -> Path:
        """Write one HTML file that shows everything, opens from disk in any browser, and needs no network."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def html(self) -> str:
        """The page as one text."""
        from regard.inspection.page import page

        return page(self)

    def _repr_html_(self) -> str:
        """The page inside a notebook."""
        inside = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{inside}" style="width:100%;height:760px;border:0" title="Attention"></iframe>'

    def to_json(self, *, compact: bool = False) -> str:
        """Everything as one JSON object, which `from_json` reads back: numbers as numbers.

        `compact` writes them as base64 of half precision instead.
        """
        from regard.inspection.storage import to_json

        return to_json(self, compact=compact)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        from regard.inspection.storage import from_json

        return from_json(cls, text)

    def save(self, path: Path | str, *, half: bool = False) -> Path:
        """Keep the record as .json, or as compressed .npz in single or, asked for, half precision."""
        from regard.inspection.storage import save

        return save(self, path, half=half)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """What `save` wrote."""
        from regard.inspection.storage import load

        return load(cls, path)

    def by_words(self) -> Look:
        """The same between words: a word is given the sum of its pieces' weights, and asks with their mean."""
        from regard.inspection.merging import merge_words

        return merge_words(self)


def _words(axis: Axis) -> Words:
    """The words of an axis; where nothing is known of words, each place is one."""
    return axis.words or Words(axis.labels, list(range(len(axis))))
