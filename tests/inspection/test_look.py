"""What a model looked at: the right maps between the right words, whichever way the model computes them."""

import numpy as np
import pytest
import torch

from regard.data import learn_tokenizer
from regard.errors import DataError, UsageError
from regard.inspection.look import Look, Words, look_at
from regard.models.registry import build
from regard.tasks.pairs import Languages, TextSide

TEXTS = ["a dog runs along the beach", "ein Hund läuft am Strand entlang", "naïve 😀"]


def languages(kind: str) -> Languages:
    tokenizer = learn_tokenizer(TEXTS, kind, size=300 if kind != "words" else 40)
    return Languages(TextSide(tokenizer), TextSide(tokenizer))


def model(name: str, tokenizer_size: int, **options: object) -> torch.nn.Module:
    sizes = {"n_source": tokenizer_size, "n_target": tokenizer_size}
    return build(name, sizes | options).eval()


def recurrent(size: int, **options: object) -> torch.nn.Module:
    return model("recurrent", size, **({"d_embedding": 16, "d_hidden": 16, "n_layers": 1} | options))


@pytest.mark.parametrize("kind", ["bpe", "words", "bytes"])
def test_words_are_those_between_spaces(kind):
    tokenizer = languages(kind).source.tokenizer
    ids = tokenizer.encode("a dog naïve")
    words = Words.of(tokenizer, ids)
    assert words.texts == ["a", "dog", "naïve"]
    assert words.of_piece == tokenizer.word_ids("a dog naïve")
    assert len(words.of_piece) == len(ids)


def test_characters_stand_for_themselves_and_unknown_ones_are_shown():
    tokenizer = languages("chars").source.tokenizer
    words = Words.of(tokenizer, tokenizer.encode("a d€"))
    assert words.texts == ["a", " ", "d", "<unk>"]
    assert words.of_piece == [0, 1, 2, 3]


def test_a_transformer_shows_every_kind_of_attention():
    both = languages("words")
    size = len(both.source.tokenizer)
    module = model("transformer", size, d_model=16, n_heads=2, d_feedforward=16, n_encoder_layers=3, n_decoder_layers=2)
    source, target = both.source.encode(["a dog runs", "ein Hund"])
    seen = look_at(module, both, source=source, target=target)
    assert seen.source == ["▁a", "▁dog", "▁runs", "</s>"]
    assert seen.target == ["▁ein", "▁Hund", "</s>"]
    shapes = {kind: maps.shape for kind, maps in seen.weights.items()}
    assert shapes == {"cross": (2, 2, 3, 4), "masked": (2, 2, 3, 3), "self": (3, 2, 4, 4)}
    for maps in seen.weights.values():
        np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    assert seen.align().matrix.shape == (2, 3)
    one = seen.align(layer=1).matrix
    expected = seen.cross[1].mean(0)[:2, :3]
    np.testing.assert_allclose(one, expected / expected.sum(-1, keepdims=True), rtol=1e-5)
    with pytest.raises(UsageError, match="no layer 2; there are 0 to 1"):
        seen.align(layer=2)


def test_input_feeding_gives_one_map_of_all_steps():
    both = languages("words")
    torch.manual_seed(0)
    module = recurrent(len(both.source.tokenizer), attention="additive", input_feeding=True)
    source, target = both.source.encode(["a dog runs", "ein Hund"])
    seen = look_at(module, both, source=source, target=target)
    assert seen.weights["cross"].shape == (1, 1, 3, 4)
    shorter = look_at(module, both, source=source, target=target[:1])
    np.testing.assert_allclose(seen.cross[:, :, :2], shorter.cross, atol=1e-6)
    assert not np.allclose(seen.cross[0, 0, 0], seen.cross[0, 0, 1]), "each step has a row of its own"


def test_a_model_without_attention_says_so():
    both = languages("words")
    module = recurrent(len(both.source.tokenizer), attention="none")
    with pytest.raises(UsageError, match="no attention to look at") as problem:
        look_at(module, both, source=[5], target=[5])
    assert "model.attention" in problem.value.hint


def test_a_record_comes_back_from_json_and_a_foreign_one_does_not():
    both = languages("bpe")
    module = recurrent(len(both.source.tokenizer), attention="general")
    seen = look_at(module, both, source=both.source.encode(["naïve 😀"])[0], target=both.target.encode(["Hund"])[0])
    again = Look.from_json(seen.to_json())
    assert (again.source, again.target) == (seen.source, seen.target)
    assert (again.source_words, again.target_words) == (seen.source_words, seen.target_words)
    np.testing.assert_array_equal(again.cross, seen.cross)
    with pytest.raises(DataError, match="not a record"):
        Look.from_json('{"source": []}')


def test_a_picture_has_a_pictures_name(tmp_path):
    both = languages("words")
    module = recurrent(len(both.source.tokenizer), attention="dot")
    seen = look_at(module, both, source=[5, 6], target=[7])
    assert seen.plot(tmp_path / "a.svg").read_text().startswith("<?xml")
    with pytest.raises(UsageError, match=r"allowed are \.png, \.svg, \.pdf"):
        seen.plot(tmp_path / "a.gif")
