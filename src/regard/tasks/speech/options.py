"""How speech is decoded, and what comes out: the `[decode]` section of the task, and a transcription."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.decoding import DecodeOptions
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SpeechOptions(DecodeOptions):
    """How to decode speech.

    patience    more than elsewhere: letter by letter, texts that leave a word out end first, and would fill the beam
    ctc         weight of the alignment's score among the hypotheses of a beam; 1: its best path alone, greedily
    prompt      special tokens that begin every text, such as Whisper's; without any, the tokenizer's beginning
    not_first   ids that may not begin a text
    heads       layers and heads whose attention follows the sound, "layer.head"; without any, all of them
    """

    patience: float = 2.0
    ctc: float = 0.0
    prompt: tuple[str, ...] = ()
    not_first: tuple[int, ...] = ()
    heads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.ctc <= 1:
            raise ConfigError(f"ctc is {self.ctc}; allowed is a weight from 0 to 1")
        if 0 < self.ctc < 1 and self.strategy != "beam":
            raise ConfigError(
                f"ctc is {self.ctc}, which weighs the hypotheses of a beam, and the strategy is {self.strategy!r}",
                hint="set decode.beam as well, or decode.ctc=1 for the alignment alone",
            )
        wrong = [head for head in self.heads if not all(part.isdigit() for part in head.split(".")) or "." not in head]
        if wrong:
            raise ConfigError(f"heads holds {wrong[0]!r}; allowed are a layer and a head, such as '2.5'")


@dataclass(frozen=True)
class Transcription:
    """What was said: the text, its pieces, and how sure the model is; `parts` are the pieces of a long recording."""

    text: str
    tokens: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    score: float = 0.0
    log_prob: float = 0.0
    finished: bool = True
    probabilities: list[float] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """A stretch of a recording, in samples, and what was written of it."""

    begin: int
    end: int
    transcription: Transcription
