"""Languages are told apart by their trigrams."""

from __future__ import annotations

import pytest

from regard.serve.detecting import detect

SENTENCES = {
    "en": ["A dog runs along the beach.", "Two men are talking in front of a shop.", "Where is the station?"],
    "de": ["Ein Hund rennt am Strand entlang.", "Zwei Männer unterhalten sich vor einem Laden.", "Wo ist der Bahnhof?"],
    "fr": ["Un chien court le long de la plage.", "Deux hommes parlent devant un magasin.", "Où est la gare ?"],
    "es": ["Un perro corre por la playa.", "Dos hombres hablan delante de una tienda.", "¿Dónde está la estación?"],
    "ru": ["Собака бежит по пляжу.", "Двое мужчин разговаривают перед магазином."],
}


@pytest.mark.parametrize("code", SENTENCES)
def test_everyday_sentences(code):
    for sentence in SENTENCES[code]:
        (first, share), *_ = detect(sentence, list(SENTENCES))
        assert first == code, sentence
        assert share > 0.5


def test_shares_sum_to_one_and_unknown_languages_come_last():
    ranked = detect("The cat is in the house.", ["ga", "de", "en"])
    assert [code for code, _ in ranked] == ["en", "de", "ga"]
    assert sum(share for _, share in ranked) == pytest.approx(1.0)


@pytest.mark.parametrize("text", ["", "123 !?", "🙂"])
def test_nothing_to_go_by_is_anybodys_guess(text):
    assert {share for _, share in detect(text, ["en", "de"])} == {0.5}
