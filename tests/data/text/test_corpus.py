"""Ids on disk: what goes in comes out, damage is noticed, caches are reused only when they fit."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data.io.cache import store_key
from regard.data.text.corpus import Corpus
from regard.data.text.pairs import Pair
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError

PAIRS = [Pair("a dog", "ein Hund", 1), Pair("", "x", 2), Pair("two dogs 😀 run", "zwei Hunde rennen", 3)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer([], "bytes")


def build(folder: Path, tokenizer: Tokenizer, **options: object) -> Corpus:
    return Corpus.build(PAIRS, tokenizer, tokenizer, folder, **options)  # type: ignore[arg-type]


def test_sentences_come_back_as_views(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(tmp_path / "c", tokenizer)
    corpus = Corpus.open(tmp_path / "c")
    assert len(corpus) == 3
    for index, pair in enumerate(PAIRS):
        assert corpus.source(index).tolist() == tokenizer.encode(pair.source)
        assert corpus.target(index).tolist() == tokenizer.encode(pair.target)
    assert corpus.source(-1).tolist() == corpus.source(2).tolist()
    assert corpus.source_lengths.tolist() == [5, 0, len("two dogs 😀 run".encode())]
    assert corpus.source_lengths.dtype == corpus.target_lengths.dtype == np.int32
    assert corpus.source(0).dtype == np.uint16
    assert corpus.source(0).base is not None
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"example {index} of a corpus of 3"):
            corpus.source(index)


def test_many_sentences_come_end_to_end(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = Corpus.build(PAIRS, tokenizer, tokenizer, tmp_path / "corpus")
    some = np.array([len(corpus) - 1, 0, 0])
    for many, one in ((corpus.sources, corpus.source), (corpus.targets, corpus.target)):
        assert [row.tolist() for row in many(some)] == [one(int(i)).tolist() for i in some]
        assert len(many(some[:0])) == 0
        for wrong in (-1, len(corpus)):
            with pytest.raises(IndexError, match=f"of a corpus of {len(corpus)}"):
                many(np.array([0, wrong]))


def test_chunks_do_not_show(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair("x" * (n % 7), "y" * (n % 5), n) for n in range(50)]
    monkeypatch.setattr("regard.data.text.corpus._CHUNK", 8)
    corpus = Corpus.build(iter(pairs), tokenizer, tokenizer, tmp_path / "c")
    assert [tokenizer.decode(corpus.source(n)) for n in range(50)] == [pair.source for pair in pairs]
    assert corpus.target_lengths.tolist() == [n % 5 for n in range(50)]


def test_large_vocabularies_get_wider_ids(tmp_path: Path) -> None:
    words = " ".join(f"w{chr(0x4E00 + n % 20000)}{chr(0x4E00 + n // 20000)}" for n in range(70_000))
    large = learn_tokenizer([words], "words", size=80_000)
    corpus = Corpus.build([Pair(words, "x", 1)], large, large, tmp_path / "c")
    assert corpus.source(0).dtype == np.uint32
    assert corpus.source(0).tolist() == large.encode(words)
    assert corpus.source(0).max() > 2**16


def test_long_pairs_are_dropped_and_counted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = build(tmp_path / "c", tokenizer, max_tokens=8)
    assert (len(corpus), corpus.header.dropped_long) == (2, 1)
    assert corpus.target(0).tolist() == tokenizer.encode("ein Hund")
    with pytest.raises(DataError, match="no usable pairs: none was given, or all 1 are longer than 8 tokens"):
        Corpus.build([PAIRS[2]], tokenizer, tokenizer, tmp_path / "d", max_tokens=8)
    assert not (tmp_path / "d").exists()


def test_sides_without_any_tokens(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = Corpus.build([Pair("", "", 1)], tokenizer, tokenizer, tmp_path / "c")
    assert (len(corpus), corpus.source(0).tolist()) == (1, [])


def test_a_failing_build_leaves_the_old_corpus_and_no_drafts(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(tmp_path / "c", tokenizer, fingerprint="old")

    def failing() -> Iterator[Pair]:
        yield PAIRS[0]
        raise DataError("line 2 is bad")

    with pytest.raises(DataError, match="line 2 is bad"):
        Corpus.build(failing(), tokenizer, tokenizer, tmp_path / "c", fingerprint="new")
    assert Corpus.open(tmp_path / "c").fingerprint == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]


def test_rebuilding_replaces(tmp_path: Path, tokenizer: Tokenizer) -> None:
    build(tmp_path / "c", tokenizer)
    corpus = Corpus.build(PAIRS[:1], tokenizer, tokenizer, tmp_path / "c")
    assert len(corpus) == len(Corpus.open(tmp_path / "c")) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]


def test_other_peoples_folders_are_not_touched(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match=r"holds other files \(thesis.tex\)"):
        build(tmp_path / "c", tokenizer)
    with pytest.raises(DataError, match="is a file"):
        build(tmp_path / "c" / "thesis.tex", tokenizer)
    assert (tmp_path / "c" / "thesis.tex").read_text() == "years of work"


def damage_cut(folder: Path) -> None:
    path = folder / "target.ids"
    path.write_bytes(path.read_bytes()[:-2])


def damage_missing(folder: Path) -> None:
    (folder / "source.offsets").unlink()


def damage_offsets(folder: Path) -> None:
    path = folder / "source.offsets"
    offsets = np.frombuffer(path.read_bytes(), np.int64).copy()
    offsets[1] = 10**6
    path.write_bytes(offsets.tobytes())


def damage_header(folder: Path) -> None:
    (folder / "corpus.json").write_text('{"pairs": ')


def damage_format(folder: Path) -> None:
    path = folder / "corpus.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))


def damage_foreign(folder: Path) -> None:
    (folder / "corpus.json").write_text('{"name": "a JSON file of somebody else"}')


def damage_no_header(folder: Path) -> None:
    (folder / "corpus.json").unlink()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damage_cut, "target.ids: damaged .it has 50 bytes, 52 were written"),
        (damage_missing, "source.offsets: damaged .No such file"),
        (damage_offsets, "source.offsets: damaged .its offsets do not fit"),
        (damage_header, "corpus.json: cannot be read"),
        (damage_format, "corpus.json: not a corpus of format 1"),
        (damage_foreign, "corpus.json: cannot be read"),
        (damage_no_header, "holds no corpus"),
    ],
)
def test_damage_is_noticed_and_the_cache_rebuilt(
    tmp_path: Path, tokenizer: Tokenizer, damage: object, says: str
) -> None:
    key = store_key("k")

    def make(folder: Path) -> Corpus:
        return build(folder, tokenizer, fingerprint=key)

    folder = Corpus.cached(key, tmp_path, build=make).folder
    damage(folder)  # type: ignore[operator]
    with pytest.raises(DataError, match=says):
        Corpus.open(folder)
    mended = Corpus.cached(key, tmp_path, build=make)
    assert mended.source(0).tolist() == tokenizer.encode("a dog")


def test_cache_is_used_only_for_its_key(tmp_path: Path, tokenizer: Tokenizer) -> None:
    built: list[str] = []

    def cached(key: str) -> Corpus:
        def make(folder: Path) -> Corpus:
            built.append(key)
            return build(folder, tokenizer, fingerprint=key)

        return Corpus.cached(key, tmp_path / "deep" / "cache", build=make)

    one, other = store_key("a", 1, None), store_key("a", 2, None)
    assert cached(one).folder == cached(one).folder != cached(other).folder
    assert built == [one, other]
    twin = one[:24] + "0" * 40  # lands in the same folder, but is not the same
    assert cached(twin).fingerprint == twin
    assert built == [one, other, twin]
