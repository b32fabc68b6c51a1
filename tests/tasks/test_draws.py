"""With a seed, what is drawn for an input depends on it alone: in any list, in any order, on any batch size."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.config import twins
from regard.tasks.predictions import Prediction

GOLDEN = Path(__file__).parents[1] / "golden"
PICTURES, SOUNDS = GOLDEN / "data" / "captions" / "pictures", GOLDEN / "data" / "speech"
INPUTS: dict[str, list[str]] = {
    "translation": ["one two three", "six five four", "two", "three one six two", "five", "one", "six six six six"],
    "language": ["the cat", "the dog sees", "a", "the bird likes a", "cat", "the dog", ""],
    "captions": [str(path) for path in sorted(PICTURES.glob("*-2.png"))[:6]],
    "speech": [str(path) for path in sorted(SOUNDS.glob("*.wav"))[:6]],
}
RUNS = [
    *("translation", "translation-recurrent", "language", "language-recurrent"),
    *("captions", "captions-transformer", "speech", "speech-las"),
]
HOT = {"strategy": "sample", "temperature": 2.5, "seed": 11, "max_length": 12}


def written(outputs: list[Any]) -> list[list[Any]]:
    """The ids of every output and the texts of its alternatives."""
    return [[one.ids, *(o.ids if isinstance(o, Prediction) else o for o in one.alternatives)] for one in outputs]


@pytest.fixture(params=["fast", "textbook"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With the fast twins, packed weights and kernels; and with nothing of `regard.fast`."""
    monkeypatch.setenv("REGARD_FAST", "1" if request.param == "fast" else "0")
    twins.reset()
    yield request.param
    monkeypatch.undo()
    twins.reset()


@pytest.fixture
def model(way: str) -> Callable[[str], Any]:
    return lambda name: regard.load(GOLDEN / "finished" / name, "cpu")


@pytest.mark.parametrize("name", RUNS)
def test_a_draw_depends_on_its_own_input(model: Callable[[str], Any], name: str) -> None:
    draws, inputs = model(name), INPUTS[name.partition("-")[0]]
    options = HOT | {"n_samples": 3} | ({"vad": False} if name.startswith("speech") else {})
    together = written(draws(inputs, **options))
    assert len({str(one) for one in together}) > 1, "they are not all the same"
    assert any(len({str(sample) for sample in one}) > 1 for one in together), "samples of one input differ"
    assert [written([draws(one, **options)])[0] for one in inputs] == together
    order = random.Random(3).sample(range(len(inputs)), len(inputs))
    assert written(draws([inputs[i] for i in order], **options)) == [together[i] for i in order]
    for size in (2, 3):
        parts = [inputs[i : i + size] for i in range(0, len(inputs), size)]
        assert [one for part in parts for one in written(draws(part, **options))] == together
    repeated = [*inputs, *inputs, inputs[0]]
    assert written(draws(repeated, **options)) == [*together, *together, together[0]]


@pytest.mark.parametrize("name", RUNS)
def test_the_number_of_a_sample_is_its_own(model: Callable[[str], Any], name: str) -> None:
    """The first of three is the only one of one; another seed draws others."""
    draws, inputs = model(name), INPUTS[name.partition("-")[0]]
    options = HOT | ({"vad": False} if name.startswith("speech") else {})
    one, three = draws(inputs, **options), draws(inputs, **options, n_samples=3)
    assert [each.ids for each in one] == [each.ids for each in three]
    assert [each.ids for each in draws(inputs, **options | {"seed": 12})] != [each.ids for each in one]


def test_batches_of_every_size(model: Callable[[str], Any]) -> None:
    """As `batch_tokens` makes them, and as lines do that are read some at a time."""
    draws, inputs = model("language"), INPUTS["language"]
    together = written(draws(inputs, **HOT, n_samples=2))
    for batch_tokens in (1, 30, 60, 100):
        draws.writer.batch_tokens = batch_tokens
        assert written(draws(inputs, **HOT, n_samples=2)) == together
    translator, texts = model("translation"), INPUTS["translation"]
    together = written(translator(texts, **HOT, n_samples=2))
    for batch_tokens in (1, 10, 30):
        translator.translator.batch_tokens = batch_tokens
        assert written(translator(texts, **HOT, n_samples=2)) == together


def test_a_stream_draws_what_a_call_does(model: Callable[[str], Any]) -> None:
    draws = model("language")
    for text in INPUTS["language"]:
        assert "".join(draws.stream(text, **HOT)) == draws(text, **HOT).text


def test_an_array_draws_what_its_file_does(model: Callable[[str], Any]) -> None:
    from PIL import Image

    draws, path = model("captions"), INPUTS["captions"][0]
    assert draws(Image.open(path), **HOT).ids == draws(path, **HOT).ids


def test_inputs_that_fail_change_no_other(model: Callable[[str], Any]) -> None:
    """Where one cannot be used the others are predicted in other batches."""
    draws, inputs = model("captions"), INPUTS["captions"]
    found = draws.attempt([inputs[0], "nowhere.png", *inputs[1:]], **HOT)
    assert written([found[0], *found[2:]]) == written(draws(inputs, **HOT))
