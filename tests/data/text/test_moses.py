"""Moses tokenisation through sacremoses, and without it."""

import sys

import pytest

from regard.data.text import moses
from regard.data.text.moses import moses_detokenize, moses_tokenize
from regard.errors import EnvironmentProblem


def test_tokens_apart_nothing_escaped_dashes_left_alone() -> None:
    pytest.importorskip("sacremoses")
    text = 'A well-known dog doesn\'t run & "bark".'
    assert moses_tokenize(text, "en") == 'A well-known dog doesn \'t run & " bark " .'
    assert "well @-@ known" in moses_tokenize(text, "en", split_dashes=True)
    assert moses_tokenize("L'homme d'Oz.", "fr") == "L' homme d' Oz ."


def test_detokenising_restores_the_text() -> None:
    pytest.importorskip("sacremoses")
    for language, text in {
        "en": "A well-known dog doesn't run, he said.",
        "de": "Zwei junge weiße Männer sind im Freien (in der Nähe).",
    }.items():
        assert moses_detokenize(moses_tokenize(text, language), language) == text


def test_without_sacremoses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    moses._moses.cache_clear()
    with pytest.raises(EnvironmentProblem, match="needs sacremoses") as caught:
        moses_tokenize("a", "en")
    assert caught.value.hint == 'pip install "regard[moses]"'
