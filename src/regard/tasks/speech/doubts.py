"""When a text is not to be trusted, as in Whisper's reference (Radford et al., 2022, section 4.5).

repeats(text, options)         it says the same again and again: zlib makes it much shorter
doubted(log_prob, options)     its tokens were unlikely, on average
TEMPERATURES                   how freely it is then drawn anew, one after the other
"""

from __future__ import annotations

import zlib
from dataclasses import fields

from regard.decoding.options import ONLY_FOR
from regard.tasks.speech.config import SpeechOptions

TEMPERATURES = (0.2, 0.4, 0.6, 0.8, 1.0)
_DRAWN = 5  # texts that are drawn at each of them, the likeliest of which is kept


def compression_ratio(text: str) -> float:
    """How many times shorter zlib makes a text; a text without letters is as short as can be."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0


def repeats(text: str, options: SpeechOptions) -> bool:
    """Whether a text says the same again and again."""
    return compression_ratio(text) > options.compression_ratio_threshold


def doubted(average: float, options: SpeechOptions) -> bool:
    """Whether the average log-probability of a text's tokens is low."""
    return average < options.log_prob_threshold


def is_silence(average: float, no_speech: float | None, options: SpeechOptions) -> bool:
    """Whether the model thinks that nobody speaks, and doubts its own text."""
    return no_speech is not None and no_speech > options.no_speech_threshold and doubted(average, options)


def falls_back(options: SpeechOptions, *, long: bool) -> bool:
    """Whether doubtful texts are to be drawn anew."""
    chosen = options.fallback == "always" or (options.fallback == "long" and long)
    return chosen and options.strategy != "sample" and options.ctc < 1


def drawn_at(options: SpeechOptions, temperature: float) -> SpeechOptions:
    """The same options for drawing at a temperature."""
    kept = {one.name: getattr(options, one.name) for one in fields(options)}
    kept = {name: value for name, value in kept.items() if name not in ONLY_FOR}
    return SpeechOptions(**kept | {"strategy": "sample", "temperature": temperature, "n_samples": _DRAWN, "ctc": 0.0})
