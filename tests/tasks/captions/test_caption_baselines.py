"""What a captioner has to beat."""

import numpy as np
import pytest

from regard.errors import UsageError
from regard.tasks.captions import baselines as module
from regard.tasks.captions.baselines import caption_baselines, commonest_caption, mean_colours, nearest_colours
from regard.tasks.captions.metrics import CaptionJudge

CAPTIONS = [("A dog runs.", "a brown dog"), ("the blue sea", "A dog runs"), ("snow on a hill",)]


def squares(*values: tuple[int, int, int]) -> np.ndarray:  # type: ignore[type-arg]
    return np.tile(np.array(values, np.uint8)[:, :, None, None], (1, 1, 4, 4))


TRAIN = squares((120, 80, 20), (10, 20, 200), (250, 250, 250))


def test_the_commonest_and_the_nearest() -> None:
    references = [("snow lies on a hill", "snow on a hill"), ("the blue sea",)]
    judge = CaptionJudge(references)
    common, nearest = caption_baselines(
        squares((240, 240, 240), (0, 0, 190)),
        lambda said: judge.score(said).figures(),
        train_pixels=TRAIN,
        train_captions=CAPTIONS,
    )
    assert common.name == "the commonest caption"
    # one word of six is right, and there are six where the references have seven
    assert common.figures["BLEU-1"] == pytest.approx(100 / 6 * np.exp(1 - 7 / 6))
    assert nearest.name == "the caption of the image nearest in colour"
    assert nearest.figures["exact match"] == 1
    assert nearest.figures["BLEU-3"] == pytest.approx(100)
    assert common.figures["exact match"] == 0


def test_captions_are_counted_as_they_are_compared() -> None:
    assert commonest_caption(CAPTIONS) == "A dog runs."
    assert commonest_caption([("b", "a")]) == "b"  # equally common: the first
    assert commonest_caption([("",)]) == ""


def test_mean_colours_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 3, 5, 6), dtype=np.uint8)
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    assert mean_colours(pixels) == pytest.approx(pixels.reshape(7, 3, 30).mean(2))
    assert mean_colours(pixels[:0]).shape == (0, 3)


def test_each_channel_counts_by_its_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    known = np.array([[0.0, 0.0, 5.0], [100.0, 1.0, 5.0]])
    asked = np.array([[60.0, 0.0, 5.0], [60.0, 1.0, 9.0], [50.0, 0.5, 5.0]])
    # (60 / 50)² < (40 / 50)² + (1 / ½)², and a channel that never changes decides nothing
    assert nearest_colours(known, asked).tolist() == [0, 1, 0]
    monkeypatch.setattr(module, "_BLOCK", 1)
    assert nearest_colours(known, asked).tolist() == [0, 1, 0]


def test_one_image_only() -> None:
    assert nearest_colours(np.array([[1.0, 2.0, 3.0]]), np.zeros((3, 3))).tolist() == [0, 0, 0]


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="3 training images and 2 lists of captions do not pair up"):
        caption_baselines(TRAIN, lambda _: {}, train_pixels=TRAIN, train_captions=CAPTIONS[:2])
    with pytest.raises(UsageError, match="each image needs a caption"):
        caption_baselines(TRAIN, lambda _: {}, train_pixels=TRAIN, train_captions=[("a",), (), ("b",)])
    with pytest.raises(UsageError, match="there is no training image"):
        nearest_colours(np.zeros((0, 3)), np.zeros((1, 3)))
