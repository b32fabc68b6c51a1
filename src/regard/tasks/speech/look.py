"""What a transcriber listened to: the record of its attention over time, with the sound it heard.

seen = model.look("a.wav")
seen.weights["cross"]       (L, H, U, S): tokens by places of time
seen.plot("seen.png")       the mel spectrogram, and below it which stretch each piece of the text came from
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import Rows
from regard.data.audio.files import Samples
from regard.data.text.tokenizers import Tokenizer
from regard.inspection.forward_case import PAIR_SIDES, ForwardCase, OutputNames
from regard.inspection.record import Axis, Look, Map, MapKind, Weights
from regard.inspection.words import Words
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.transcriber import Transcriber

_DPI, _WIDTH = 150, 9.6


@dataclass(frozen=True, eq=False)
class Sound:
    """What was heard: a spectrogram (T, M), how many seconds a frame and a place of memory last, and those before."""

    mel: NDArray[np.float32]
    hop: float
    place_seconds: float
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class SpeechLook(Look):
    """A record whose picture is one of sound and text."""

    sound: Sound | None = None
    heads: tuple[str, ...] = ()

    def listened(self, *, layer: int | None = None) -> Weights:
        """Where each token looked, (U, S): the mean of the heads that follow the sound, or of a layer's."""
        attention = self.of("cross")
        if layer is not None:
            mean: Weights = attention.of_layer(layer).mean(0)
            return mean
        pairs = [tuple(map(int, head.split("."))) for head in self.heads]
        known = [(attention.layers.index(at), head) for at, head in pairs if at in attention.layers]
        chosen = np.stack([attention.weights[at, head] for at, head in known]) if known else attention.weights.mean(0)
        average: Weights = chosen.mean(0)
        return average

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw spectrogram and attention one below the other."""
        if self.sound is None or kind not in (None, "cross"):
            return None
        rows = self.axes["target"].shown
        return draw_speech(self.sound, self.listened(layer=layer), path, rows=rows, title=self.title)


@dataclass(frozen=True, eq=False)
class SpeechCase(ForwardCase):
    """A recording and its text, ready to be looked at; and what is needed to make the record one of sound."""

    sound: Sound | None = None
    n_opening: int = 1
    n_places: int | None = None
    heads: tuple[str, ...] = ()

    def finish(self, seen: Look) -> SpeechLook:
        """The record without the opening that is always fed, and without silence that was added."""
        first = self.n_opening - 1
        sizes = {"source": slice(self.n_places), "target": slice(first, None), "fed": slice(first, None)}
        axes = {name: _cut_axis(axis, sizes[name]) for name, axis in seen.axes.items()}
        maps = {kind: _cut_map(attention, sizes) for kind, attention in seen.maps.items()}
        outputs = seen.outputs
        if outputs is not None:
            kept = {name: getattr(outputs, name)[first:] for name in ("tokens", "probabilities", "given")}
            outputs = replace(outputs, **kept)
        return SpeechLook(axes, maps, outputs, seen.title, self.sound, self.heads)


def speech_case(
    transcriber: Transcriber,
    tokenizer: Tokenizer,
    samples: Samples,
    *,
    ids: Sequence[int],
    options: SpeechOptions,
    title: str = "",
    offset: float = 0.0,
) -> SpeechCase:
    """A recording and its text, ready to be looked at; `offset` are the seconds before it."""
    frames, heard = transcriber.hear([samples])
    opening = transcriber.opening(options)
    target = torch.tensor([[*opening, *ids]], device=heard.memory.device)
    special, pieces = tokenizer.tokens([*opening]), tokenizer.tokens(ids)
    end, words = tokenizer.tokens([tokenizer.eos_id]), Words.of(tokenizer, ids)
    n_places, each = heard.memory.shape[1], transcriber.place_seconds
    fed = replace_marks(words, len(opening))
    axes = {
        "source": Axis([f"{offset + position * each:.2f} s" for position in range(n_places)], "frames"),
        "target": Axis(special[1:] + pieces + end, words=replace_marks(words, len(opening) - 1).with_mark()),
        "fed": Axis(special + pieces, words=fed),
    }
    given = [*opening[1:], *ids, tokenizer.eos_id]
    names = OutputNames("target", "here", lambda index: tokenizer.tokens([index])[0], given)
    module: Any = transcriber.model
    mel = frames.values[0, : transcriber.front.n_frames(len(samples))].float().cpu().numpy()
    return SpeechCase(
        module,
        (frames, Rows(target)),
        axes,
        PAIR_SIDES,
        names,
        title=title,
        kinds=("cross", "masked"),
        sound=Sound(mel, transcriber.front.n_hop / transcriber.front.rate, each, offset),
        n_opening=len(opening),
        n_places=min(transcriber.n_places(len(samples)), n_places),
        heads=options.heads,
    )


def replace_marks(words: Words, n: int) -> Words:
    """The words with `n` marks before them."""
    for _ in range(n):
        words = words.with_mark(first=True)
    return words


def _cut_axis(axis: Axis, kept: slice) -> Axis:
    words = axis.words
    if words is not None:
        words = Words(words.texts, words.of_piece[kept])
    return Axis(axis.labels[kept], axis.kind, words)


def _cut_map(attention: Map, sizes: dict[str, slice]) -> Map:
    weights = np.ascontiguousarray(attention.weights[:, :, sizes[attention.rows], sizes[attention.columns]])
    return replace(attention, weights=weights, computed=None)


def draw_speech(
    sound: Sound, weights: NDArray[np.float32], path: Path | str, *, rows: Sequence[str], title: str = ""
) -> Path:
    """Draw a spectrogram (T, M) and weights (U, S) over one time axis; `rows` are the pieces, from top to bottom."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    from regard.inspection.plots.panels import BLUE, GREY, STYLE

    paper = LinearSegmentedColormap.from_list("paper", ["#ffffff", "#9cc3e6", BLUE, "#06254d"])
    seconds = max(len(sound.mel) * sound.hop, weights.shape[1] * sound.place_seconds)
    first = sound.offset
    each = min(0.24, max(0.11, 5.6 / max(1, len(rows))))
    height = each * len(rows)
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(_WIDTH, 2.6 + height), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (1.7, max(0.8, height))})
        heard = {"origin": "lower", "aspect": "auto", "interpolation": "nearest"}
        above.imshow(
            sound.mel.T,
            cmap="magma",
            extent=(first, first + len(sound.mel) * sound.hop, 0, sound.mel.shape[1]),
            **heard,
        )
        above.set_ylabel("mel band")
        above.set_title(title, loc="left")
        strongest = np.maximum(weights.max(1, keepdims=True), 1e-9)
        extent = (first, first + weights.shape[1] * sound.place_seconds, len(rows), 0)
        below.imshow(weights / strongest, cmap=paper, extent=extent, aspect="auto", interpolation="nearest")
        below.set_yticks(np.arange(len(rows)) + 0.5, list(rows), fontsize=min(11.0, 72 * each * 0.75))
        below.tick_params(axis="y", length=0)
        below.set_xlabel("seconds")
        below.set_ylabel("written", color=GREY)
        below.set_xlim(first, first + seconds)
        figure.savefig(path, dpi=_DPI)
    return Path(path)
