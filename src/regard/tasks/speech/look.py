"""What a transcriber listened to: the record of its attention over time, with the sound it heard.

seen = model.look("a.wav")
seen.weights["cross"]       (L, H, U, S): tokens by places of time
seen.words                  the words with their times, as far as attention tells them
seen.plot("seen.png")       the mel spectrogram, and below it which stretch each piece of the text came from
seen.page("seen.html")      the same to be played: words light up as they are said, and lead to their place
"""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import Rows
from regard.data.audio.files import Samples
from regard.data.text.tokenizers import Tokenizer
from regard.inspection.forward_case import PAIR_SIDES, ForwardCase, OutputNames
from regard.inspection.page import Scene, file_text, page
from regard.inspection.plots.colours import DARK, LIGHT, plain, save_picture, style
from regard.inspection.record import Axis, Look, Map, MapKind, Weights
from regard.inspection.words import Words
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.timing import TimedWord, word_groups, word_times
from regard.tasks.speech.transcriber import Transcriber

_WIDTH = 9.6
_MOST_SOUND = 1_200_000  # bytes of sound that a page holds


@dataclass(frozen=True, eq=False)
class Sound:
    """What was heard: a spectrogram (T, M), and how many seconds a frame and a place of memory last.

    `samples` at `rate` are the sound itself, `offset` the seconds before it, `groups` the words of the text with the
    places of their pieces.
    """

    mel: NDArray[np.float32]
    hop: float
    place_seconds: float
    samples: Samples
    rate: int
    groups: Sequence[tuple[str, Sequence[int]]] = ()
    offset: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / self.rate


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
        average: Weights = self._following().mean(0)
        return average

    @cached_property
    def words(self) -> list[TimedWord]:
        """The words with their times, read off the heads that follow the sound, else off all."""
        if self.sound is None or "cross" not in self.maps or not self.sound.groups:
            return []
        given = [] if self.outputs is None else [1.0 if one is None else one[1] for one in self.outputs.given]
        return word_times(
            self._following().astype(np.float64),
            self.sound.groups,
            probabilities=given or [1.0] * len(self.axes["target"]),
            place_seconds=self.sound.place_seconds,
            seconds=self.sound.seconds,
        )

    def _following(self) -> Weights:
        """The heads that are known to follow the sound, else all of them: (H, U, S)."""
        attention = self.of("cross")
        pairs = [tuple(map(int, head.split("."))) for head in self.heads]
        known = [(attention.layers.index(at), head) for at, head in pairs if at in attention.layers]
        if known:
            return np.stack([attention.weights[at, head] for at, head in known])
        every: Weights = attention.weights.reshape(-1, *attention.weights.shape[2:])
        return every

    def html(self) -> str:
        """The page: the sound with its words, and what was listened to for each of them."""
        if self.sound is None or "cross" not in self.maps:
            return super().html()
        return page(self, speech_scene(self, self.sound))

    def own_picture(self, path: Path, *, layer: int | None, kind: MapKind | None, dark: bool) -> Path | None:
        """Draw spectrogram and attention one below the other."""
        if self.sound is None or kind not in (None, "cross"):
            return None
        rows = self.axes["target"].shown
        return draw_speech(self.sound, self.listened(layer=layer), path, rows=rows, title=self.title, dark=dark)


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
    fed, groups = replace_marks(words, len(opening)), word_groups(tokenizer, ids)
    axes = {
        "source": Axis([f"{offset + position * each:.2f} s" for position in range(n_places)], "frames"),
        "target": Axis(special[1:] + pieces + end, words=replace_marks(words, len(opening) - 1).with_mark()),
        "fed": Axis(special + pieces, words=fed),
    }
    given = [*opening[1:], *ids, tokenizer.eos_id]
    names = OutputNames("target", "here", lambda index: tokenizer.tokens([index])[0], given)
    module: Any = transcriber.model
    front = transcriber.front
    mel = frames.values[0, : front.n_frames(len(samples))].float().cpu().numpy()
    return SpeechCase(
        module,
        (frames, Rows(target)),
        axes,
        PAIR_SIDES,
        names,
        title=title,
        kinds=("cross", "masked"),
        sound=Sound(mel, front.n_hop / front.rate, each, samples, front.rate, groups, offset),
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


def speech_scene(look: SpeechLook, sound: Sound) -> Scene:
    """The spectrogram, the sound itself where it is not too long, and the words, for the page."""
    wav, words = wav_of(sound.samples, sound.rate), look.words
    grouped = zip(words, sound.groups, strict=True)
    heads = [tuple(map(int, head.split("."))) for head in look.heads]
    facts = {
        "shape": sound.mel.shape,
        "hop": sound.hop,
        "place": sound.place_seconds,
        "seconds": round(sound.seconds, 3),
        "wav": "data:audio/wav;base64," + base64.b64encode(wav).decode() if len(wav) <= _MOST_SOUND else None,
        "longest": int(_MOST_SOUND / 2 / sound.rate),
        "words": [[one.word, round(one.start, 3), round(one.end, 3), list(rows)] for one, (_, rows) in grouped],
    }
    said = " ".join(one.word for one in words)
    return Scene(
        "Sound",
        file_text("regard.tasks.speech", "page.js"),
        ("cross",),
        read=look.title or "A recording",
        wrote=said or "(nothing was written)",
        facts=facts,
        pieces={"mel": _levels(sound.mel)},
        start=(heads[0][0], heads[0][1]) if heads else None,
        names={"source": "sound", "target": "text"},
    )


def _levels(mel: NDArray[np.float32]) -> bytes:
    """A spectrogram (T, M) from its quietest to its loudest, one byte each."""
    low, high = np.quantile(mel, (0.02, 0.995)) if mel.size else (0.0, 1.0)
    return bytes(np.rint(255 * np.clip((mel - low) / max(high - low, 1e-9), 0, 1)).astype(np.uint8).tobytes())


def wav_of(samples: Samples, rate: int) -> bytes:
    """Samples from −1 to 1 as a WAV file of sixteen bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(np.rint(32767 * np.clip(samples, -1, 1)).astype("<i2").tobytes())
    return file.getvalue()


def draw_speech(
    sound: Sound,
    weights: NDArray[np.float32],
    path: Path | str,
    *,
    rows: Sequence[str],
    title: str = "",
    dark: bool = False,
) -> Path:
    """Draw a spectrogram (T, M) and weights (U, S) over one time axis; `rows` are the pieces, from top to bottom."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    theme = DARK if dark else LIGHT
    greys = LinearSegmentedColormap.from_list("loud", [theme.paper, theme.ink])
    shades = LinearSegmentedColormap.from_list("attention", theme.shades)
    seconds = max(len(sound.mel) * sound.hop, weights.shape[1] * sound.place_seconds)
    first = sound.offset
    each = min(0.24, max(0.11, 5.6 / max(1, len(rows))))
    height, most = each * len(rows), max(float(weights.max()), 1e-9)
    with matplotlib.rc_context(style(theme) | {"axes.edgecolor": theme.quiet}):
        figure = Figure(figsize=(_WIDTH, 2.6 + height), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (1.7, max(0.8, height))})
        extent = (first, first + len(sound.mel) * sound.hop, 0.0, float(sound.mel.shape[1]))
        above.imshow(sound.mel.T, cmap=greys, extent=extent, origin="lower", aspect="auto", interpolation="nearest")
        above.set_ylabel("mel band")
        above.set_title(plain(title), loc="left")
        extent = (first, first + weights.shape[1] * sound.place_seconds, float(len(rows)), 0.0)
        scaled = {"vmin": 0.0, "vmax": most, "aspect": "auto", "interpolation": "nearest"}
        drawn = below.imshow(weights, cmap=shades, extent=extent, **scaled)
        names = [plain(row) for row in rows]
        below.set_yticks(np.arange(len(rows)) + 0.5, names, fontsize=min(11.0, 72 * each * 0.75))
        below.tick_params(axis="y", length=0)
        below.set_xlabel("seconds")
        below.set_ylabel("written", color=theme.quiet)
        below.set_xlim(first, first + seconds)
        bar = figure.colorbar(drawn, ax=below, pad=0.01, fraction=0.03)
        bar.set_ticks([0, most], labels=["0", f"{most:.2g}"])
        bar.set_label("weight")
        bar.outline.set_visible(False)
        return save_picture(figure, path, theme)
