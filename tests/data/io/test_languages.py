"""Languages by the names of files and columns."""

import pytest

from regard.data.io.languages import language_of, languages_of


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("train.de", "de"),
        ("data/train.en.gz", "en"),
        ("corpus_fr.txt", "fr"),
        ("translation.de", "de"),
        ("German", "de"),
        ("Französisch", "fr"),
        ("text-eng", "en"),
        ("source", None),
        ("de/train.txt", None),
        ("", None),
    ],
)
def test_names_tell_a_language(name: str, code: str | None) -> None:
    assert language_of(name) == code


def test_two_names_have_to_tell_two_languages() -> None:
    assert languages_of("a.en", "a.de") == ("en", "de")
    assert languages_of("a.en", "b.en") is None
    assert languages_of("a.en", "target") is None
