"""What a translator has to beat."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard.errors import UsageError
from regard.metrics.scores import bleu
from regard.tasks.translation import baselines as module
from regard.tasks.translation.baselines import nearest_texts, translation_baselines

PAIRS = [
    ("a man in a red shirt walks the dog", "ein Mann in rotem Hemd führt den Hund"),
    ("two women sit on a bench by the sea", "zwei Frauen sitzen auf einer Bank am Meer"),
    ("a child plays with a ball in the garden", "ein Kind spielt mit einem Ball im Garten"),
]


def test_the_nearest_sentence() -> None:
    sources = ["women on a bench", "the ball is in the garden", "a red DOG"]
    assert nearest_texts([source for source, _ in PAIRS], sources).tolist() == [1, 2, 0]


def test_rare_words_make_sentences_alike() -> None:
    known = [
        "the cat is on the mat now",
        "the dog is on the mat now",
        "the dog is in the house now",
        "a zebra and the rest",
    ]
    # The first two share the same with it; what else the second has is common, and sets it apart less.
    assert nearest_texts(known, ["the zebra is on the mat now"]).tolist() == [1]
    assert nearest_texts(known, ["what a zebra"]).tolist() == [3]


def test_copying_and_the_nearest_are_judged_as_the_task_does() -> None:
    references = ["zwei Frauen sitzen auf einer Bank am Meer", "EIN KIND SPIELT MIT EINEM BALL IM GARTEN"]
    sources = ["two women on a bench by the sea", "a child with a ball in the garden"]
    copied, nearest = translation_baselines(
        sources, lambda said: {"bleu": bleu(said, references, lowercase=True).value}, train=PAIRS
    )
    assert (copied.name, nearest.name) == ("copying the source", "the nearest training example")
    assert copied.figures["bleu"] == pytest.approx(bleu(sources, references, lowercase=True).value)
    assert nearest.figures["bleu"] == pytest.approx(100)
    assert nearest.note is None


def test_short_sources_are_compared_by_their_letters() -> None:
    dates = ["3 May 1979", "14 june 2001", "Tuesday, 7 August 1990"]
    assert nearest_texts(dates, ["2001/06/14 jun", "mayday 79", "aug 7, 1990"]).tolist() == [1, 0, 2]
    assert nearest_texts(["今天天气很好", "我喜欢吃苹果"], ["他也喜欢苹果"]).tolist() == [1]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    texts = [" ".join(f"w{i}" for i in random.zipf(1.3, 12) % 500) for _ in range(60)]
    whole = nearest_texts(texts[:40], texts[40:])
    monkeypatch.setattr(module, "_BLOCK", 100)
    assert (nearest_texts(texts[:40], texts[40:]) == whole).all()
    assert nearest_texts(texts[:40], texts[:40]).tolist() == list(range(40))


def test_a_sample_is_said_and_the_same_again() -> None:
    train = [(f"sentence of number {i} with words", str(i)) for i in range(50)]
    found = [
        translation_baselines(["sentence of number 7 with words"], lambda said: {"n": float(said[0][-1:].isdigit())},
                              train=train, most_pairs=10)
        for _ in range(2)
    ]  # fmt: skip
    assert found[0] == found[1]
    assert found[0][1].note == "nearest of 10 out of 50 training pairs, drawn at random"


def test_odd_texts() -> None:
    assert nearest_texts(["", " "], ["a", ""]).tolist() == [0, 0]
    known = ["🐕 runs along the wide beach", "word " * 10_000]
    assert nearest_texts(known, ["", "🐕", "word word", "nothing of it"]).tolist() == [0, 0, 1, 0]
    assert [baseline.name for baseline in translation_baselines(["a"], lambda said: {"n": len(said)}, train=[])] == [
        "copying the source"
    ]
    with pytest.raises(UsageError, match="there is no text to be near to"):
        nearest_texts([], ["a"])


def test_multi30k(data_root: Path) -> None:
    def lines(name: str, n: int) -> list[str]:
        text = gzip.decompress((data_root / "multi30k" / f"{name}.gz").read_bytes()).decode()
        return text.split("\n")[:n]

    sides = [lines(f"train.{language}", 5000) for language in ("en", "de")]
    references = lines("test_2016_flickr.de", 200)
    copied, nearest = translation_baselines(
        lines("test_2016_flickr.en", 200),
        lambda said: {"bleu": bleu(said, references, lowercase=True).value},
        train=list(zip(*sides, strict=True)),
    )
    assert copied.figures["bleu"] < 3
    assert 4 < nearest.figures["bleu"] < 15
