"""Inputs for the runs of tests/golden: two that are good, and one that cannot be used, for every task."""

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
GOOD = {
    "translation": ["one two three", "six five four"],
    "language": ["the cat", "the dog sees"],
    "masked": ["the cat <mask> a dog .", "the <mask> sees a bird ."],
    "labels": ["the cat sees a dog .", "the bird hears a cat ."],
    "answers": ["who sees\tso the bird sees a cat .", "who likes\tthe dog likes a dog ."],
    "words": ["cat", "one"],
    "images": ["data/images/test/lying/0.png", "data/images/test/square/0.png"],
    "captions": ["data/captions/pictures/red-blue-2.png", "data/captions/pictures/green-green-2.png"],
    "speech": ["data/speech/test-0.wav", "data/speech/test-1.wav"],
    "series": ["data/series/hours.csv", "data/series/hours.csv"],
}
BROKEN = "no \udcff Unicode"
BAD = {
    "translation": BROKEN,
    "language": BROKEN,
    "masked": "nothing is hidden",
    "labels": BROKEN,
    "answers": "where is the passage",
    "words": "unheard-of",
    "images": "data/gone.png",
    "captions": "data/gone.png",
    "speech": "data/gone.wav",
    "series": "data/gone.csv",
}
FILES = ("images", "captions", "speech", "series")
