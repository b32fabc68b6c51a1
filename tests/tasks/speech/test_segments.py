"""Transcripts in parts: where one ends and the next begins, and how they are written."""

import numpy as np
import pytest

from regard.tasks.speech.segments import Segment, segments_of, written
from regard.tasks.speech.timing import TimedWord, word_times


def diagonal(stretches, n_places, blur=0.02):
    """Attention that looks at the stretches (begin, end) of its tokens."""
    weights = np.full((1, len(stretches), n_places), blur)
    for token, (begin, end) in enumerate(stretches):
        weights[0, token, begin:end] = 1.0
    return weights / weights.sum(-1, keepdims=True)


def timed(*words):
    return [TimedWord(word, start, end, 1.0) for word, start, end in words]


def test_sentences_pauses_and_lengths_part_segments():
    words = timed(("Hello.", 0, 0.5), ("How", 0.6, 0.8), ("are", 0.8, 1.0), ("you", 5.0, 5.5))
    found = segments_of("Hello. How  are you", words)
    assert [(one.start, one.end, one.text) for one in found] == [
        (0, 0.5, "Hello."),
        (0.6, 1.0, "How are"),
        (5, 5.5, "you"),
    ]
    long = timed(*((f"w{i}", 0.4 * i, 0.4 * i + 0.4) for i in range(60)))
    parts = segments_of(" ".join(word.word for word in long), long)
    assert all(one.end - one.start <= 7 and len(one.text) <= 84 for one in parts)
    assert " ".join(one.text for one in parts) == " ".join(word.word for word in long)
    assert segments_of("", []) == []
    together = segments_of(
        "日本語。そう", timed(("日", 0, 1), ("本", 1, 2), ("語。", 2, 3), ("そ", 3, 4), ("う", 4, 5))
    )
    assert [one.text for one in together] == ["日本語。", "そう"]


def test_every_format():
    parts = [Segment(0.0, 1.2345, "a --> b"), Segment(3661.5, 3662.0, "x < y & z")]
    assert written(parts, "srt") == (
        "1\n00:00:00,000 --> 00:00:01,234\na -> b\n\n2\n01:01:01,500 --> 01:01:02,000\nx < y & z\n"
    )
    assert written(parts, "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.234\na --&gt; b\n\n01:01:01.500 --> 01:01:02.000\nx &lt; y &amp; z\n"
    )
    assert written(parts, "tsv") == "start\tend\ttext\n0\t1234\ta --> b\n3661500\t3662000\tx < y & z\n"
    assert written(parts, "txt") == "a --> b\nx < y & z\n"
    assert [written([], name) for name in ("srt", "vtt", "tsv", "txt")] == ["", "WEBVTT\n", "start\tend\ttext\n", ""]


def test_words_end_where_their_sound_ends():
    # Two words, with ten seconds of pause between them that attention wanders through.
    weights = diagonal([(0, 300), (300, 620), (620, 640)], 640)
    groups = [("one", [0]), ("two", [1])]
    sounding = [(100.1, 100.5), (112.0, 112.4)]
    about = {"probabilities": [0.9, 0.9], "place_seconds": 0.02, "seconds": 12.8, "offset": 100.0}
    free = word_times(weights, groups, **about)
    assert free[0].end > 105
    one, two = word_times(weights, groups, sounding=sounding, **about)
    assert (one.start, one.end) == (pytest.approx(100.1, abs=0.05), pytest.approx(100.5, abs=0.05))
    assert (two.start, two.end) == (pytest.approx(112.0, abs=0.05), pytest.approx(112.4, abs=0.05))
