"""What an image classifier has to beat."""

import numpy as np
import numpy.typing as npt
import pytest

from regard.errors import UsageError
from regard.tasks.images import baselines as module
from regard.tasks.images.baselines import (
    LabelledImages,
    LinearThumbnail,
    NearestMean,
    Scale,
    image_baselines,
    thumbnails,
)

NAMES = ("dark", "light", "red")


def colours(values: list[tuple[int, int, int]], side: int = 12) -> npt.NDArray[np.uint8]:
    return np.tile(np.array(values, np.uint8).reshape(-1, 3, 1, 1), (1, 1, side, side))


def images(values: list[tuple[int, int, int]], labels: list[int], side: int = 12) -> LabelledImages:
    return LabelledImages(colours(values, side).__getitem__, np.array(labels, np.int64))


DARK, LIGHT, RED = (10, 10, 10), (240, 240, 240), (250, 10, 10)
TRAIN = images([DARK, (20, 10, 10), LIGHT, (230, 240, 250), (200, 200, 200), RED], [0, 0, 1, 1, 1, 2])


def test_thumbnails_are_means_of_colour() -> None:
    pixels = np.arange(2 * 3 * 5 * 4, dtype=np.uint8).reshape(2, 3, 5, 4)
    found = thumbnails(pixels.__getitem__, np.array([1, 0]), side=2).reshape(2, 3, 2, 2)
    assert found[1, 0, 0, 0] == pixels[0, 0, :2, :2].mean()  # five rows are cut into two and three
    assert found[1, 0, 1, 1] == pixels[0, 0, 2:, 2:].mean()
    assert found[0, 2, 1, 0] == pixels[1, 2, 2:, :2].mean()
    tiny = thumbnails(pixels[:, :, :1, :3].__getitem__, np.array([0]))
    assert tiny.tolist() == [pixels[0, :, :1, :3].reshape(-1).tolist()]  # smaller than a thumbnail: as it is


def test_many_images_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 3, 9, 16), dtype=np.uint8)
    whole = thumbnails(pixels.__getitem__, np.arange(10))
    monkeypatch.setattr(module, "_PIXELS_AT_ONCE", 3 * 9 * 16 * 3)
    asked: list[int] = []

    def read(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        asked.append(len(rows))
        return pixels[rows]

    assert (thumbnails(read, np.arange(10)) == whole).all()
    assert asked == [1, 3, 3, 3]


def test_colours_decide() -> None:
    test = images([(15, 15, 15), (250, 250, 250), (240, 20, 20)], [0, 1, 2])
    found = image_baselines(TRAIN, {"test": test}, names=NAMES)["test"]
    assert [baseline.name for baseline in found] == [
        "always saying light",
        "the nearest mean image",
        "logistic regression of 8 × 8 thumbnails",
    ]
    assert [baseline.figures["accuracy"] for baseline in found] == [pytest.approx(1 / 3), 1, 1]
    assert [baseline.note for baseline in found] == [None] * 3


def test_the_nearest_mean_by_hand() -> None:
    x = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 0.0]], np.float32)
    same = Scale(np.zeros(2, np.float32), np.ones(2, np.float32))
    model = NearestMean.fit(x, np.array([0, 0, 2]), scale=same, n_classes=3)
    scores = model(np.array([[4.0, 1.0]], np.float32))
    assert scores[0].tolist() == [-10, -np.inf, -37]  # 3² + 1, no such image, 6² + 1


def test_two_classes_of_three() -> None:
    scale = Scale(np.zeros(1, np.float32), np.ones(1, np.float32))
    x = np.array([[-1.0], [1.0]] * 4, np.float32)
    (model,) = LinearThumbnail.fit(x, np.array([0, 2] * 4), scale=scale, n_classes=3)
    assert model(np.array([[-2.0], [2.0]], np.float32)).argmax(1).tolist() == [0, 2]
    (every,) = LinearThumbnail.fit(x, np.array([0, 1] * 4), scale=scale, n_classes=2)
    assert every(np.array([[-2.0], [2.0]], np.float32)).argmax(1).tolist() == [0, 1]


def test_too_many_classes_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WORK", 100)
    found = image_baselines(TRAIN, {"test": TRAIN}, names=NAMES)["test"]
    assert [baseline.name for baseline in found] == ["always saying light", "the nearest mean image"]


def test_a_sample_is_said_and_the_same_again() -> None:
    found = image_baselines(TRAIN, {"test": TRAIN}, names=NAMES, most_images=5)
    assert found == image_baselines(TRAIN, {"test": TRAIN}, names=NAMES, most_images=5)
    assert found["test"][1].note == "learnt from 5 of 6 training images, drawn at random"


@pytest.mark.parametrize("labels", [[1, 1, 1, 1, 1, 1], [1]], ids=["one class", "one example"])
def test_nothing_to_tell_apart(labels: list[int]) -> None:
    train = images([RED] * len(labels), labels)
    found = image_baselines(train, {"test": TRAIN}, names=NAMES)["test"]
    assert [(baseline.name, baseline.figures["accuracy"]) for baseline in found] == [("always saying light", 0.5)]


def test_images_that_never_change() -> None:
    train = images([RED] * 4, [0, 1, 1, 2])
    found = image_baselines(train, {"test": train}, names=NAMES)["test"]
    assert all(np.isfinite(list(baseline.figures.values())).all() for baseline in found)


def test_no_image() -> None:
    with pytest.raises(UsageError, match="there is no training image"):
        image_baselines(images([], []), {}, names=NAMES)
