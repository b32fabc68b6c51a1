"""A transcript in parts, as subtitles have them, and the formats that subtitles are written in.

segments_of(text, words)            a new one after a pause, after a sentence, and where one gets too long to read
written(segments, "srt")            srt, vtt, tsv (milliseconds), txt (a line each)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.tasks.speech.timing import TimedWord

_PAUSE = 1.0  # seconds of quiet that part two segments
_LONGEST, _WIDEST = 7.0, 84  # seconds and characters that a viewer can read at once
_SENTENCE = tuple(".?!…。？！")


@dataclass(frozen=True)
class Segment:
    """A part of what was said, and when, in seconds of the whole recording."""

    start: float
    end: float
    text: str

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"start": round(self.start, 3), "end": round(self.end, 3), "text": self.text}


def segments_of(text: str, words: Sequence[TimedWord]) -> list[Segment]:
    """The parts of a text whose words and their times are known."""
    spans = _spans(text, words)
    groups: list[list[int]] = []
    for i, word in enumerate(words):
        if i == 0 or _parted(words[groups[-1][0]], words[i - 1], word, n=spans[i][1] - spans[groups[-1][0]][0]):
            groups.append([])
        groups[-1].append(i)
    return [
        Segment(
            words[own[0]].start,
            max(words[own[-1]].end, words[own[0]].start),
            " ".join(text[spans[own[0]][0] : spans[own[-1]][1]].split()),
        )
        for own in groups
    ]


def _parted(first: TimedWord, before: TimedWord, word: TimedWord, *, n: int) -> bool:
    """Whether a word begins a new segment; with it, the one that began with `first` would have `n` characters."""
    ended = before.word.endswith(_SENTENCE) or word.start - before.end > _PAUSE
    return ended or n > _WIDEST or word.end - first.start > _LONGEST


def _spans(text: str, words: Sequence[TimedWord]) -> list[tuple[int, int]]:
    """Where each word stands in the text."""
    spans, at = [], 0
    for word in words:
        begin = max(at, text.find(word.word, at))
        at = min(len(text), begin + len(word.word))
        spans.append((begin, at))
    return spans


def written(segments: Sequence[Segment], format: str) -> str:
    """Segments as the text of a file of a format."""
    return FORMATS[format](segments)


def _srt(segments: Sequence[Segment]) -> str:
    cues = [
        f"{number}\n{_clock(segment.start, ',')} --> {_clock(segment.end, ',')}\n{segment.text.replace('-->', '->')}\n"
        for number, segment in enumerate(segments, 1)
    ]
    return "\n".join(cues)


def _vtt(segments: Sequence[Segment]) -> str:
    cues = [
        f"\n{_clock(segment.start, '.')} --> {_clock(segment.end, '.')}\n{_escaped(segment.text)}\n"
        for segment in segments
    ]
    return "WEBVTT\n" + "".join(cues)


def _tsv(segments: Sequence[Segment]) -> str:
    rows = [f"{round(1000 * one.start)}\t{round(1000 * one.end)}\t{one.text}" for one in segments]
    return "\n".join(["start\tend\ttext", *rows]) + "\n"


def _txt(segments: Sequence[Segment]) -> str:
    return "".join(f"{segment.text}\n" for segment in segments)


def _clock(seconds: float, mark: str) -> str:
    """Hours, minutes, seconds and milliseconds: 00:01:02,345."""
    thousandths = round(1000 * seconds)
    whole, thousandths = divmod(thousandths, 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{thousandths:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMATS: Mapping[str, Callable[[Sequence[Segment]], str]] = {"srt": _srt, "vtt": _vtt, "tsv": _tsv, "txt": _txt}
