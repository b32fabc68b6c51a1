"""What comes out when speech is decoded: a transcription."""

from __future__ import annotations

from dataclasses import dataclass, field


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
