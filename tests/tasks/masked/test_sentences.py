"""Documents on disk, sentence by sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.text.documents import Document
from regard.data.text.splitting import split_lines
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError
from regard.tasks.masked.sentences import SentenceCorpus

TEXTS = ["One two three. Four five.\nSix", "Seven. Eight nine ten. Eleven", "Twelve"]


def sentences(corpus: SentenceCorpus, document: int) -> list[list[int]]:
    """The ids of each sentence of a document."""
    first, end = corpus.documents[document : document + 2].tolist()
    return [corpus.ids[corpus.borders[i] : corpus.borders[i + 1]].tolist() for i in range(first, end)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(TEXTS, "words", size=60, mask=True)


def documents(*texts: str) -> list[Document]:
    return [Document(text, f"x:{i}") for i, text in enumerate(texts)]


def spelled(corpus: SentenceCorpus, tokenizer: Tokenizer) -> list[list[str]]:
    return [[tokenizer.decode(ids) for ids in sentences(corpus, d)] for d in range(len(corpus))]


def test_what_is_written_is_read(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = SentenceCorpus.build(documents(*TEXTS), tokenizer, tmp_path / "c", fingerprint="f")
    expected = [["One two three.", "Four five.", "Six"], ["Seven.", "Eight nine ten.", "Eleven"], ["Twelve"]]
    assert spelled(corpus, tokenizer) == expected
    again = SentenceCorpus.open(tmp_path / "c")
    assert spelled(again, tokenizer) == expected
    assert (again.header, again.fingerprint) == (corpus.header, "f")
    assert (again.header.documents, again.header.sentences) == (3, 7)
    assert len(again.ids) == again.borders[-1] == again.header.tokens
    assert isinstance(again.ids.base, np.memmap)  # mapped, not read


def test_lines_as_sentences(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = SentenceCorpus.build(documents(TEXTS[0]), tokenizer, tmp_path / "c", split=split_lines)
    assert spelled(corpus, tokenizer) == [["One two three. Four five.", "Six"]]


def test_parts_of_a_document_are_one(tmp_path: Path, tokenizer: Tokenizer) -> None:
    parts = [
        Document("One two.", "x:1", more=True),
        Document(" ", "x:2", more=True),
        Document("Six.", "x:3"),
        Document("Four.", "x:4", more=True),
    ]
    corpus = SentenceCorpus.build(parts, tokenizer, tmp_path / "c")
    assert spelled(corpus, tokenizer) == [["One two.", "Six."], ["Four."]]


def test_long_sentences_are_cut_and_empty_documents_left_out(tmp_path: Path, tokenizer: Tokenizer) -> None:
    texts = documents(" \n", "one two three four five", "", "six")
    corpus = SentenceCorpus.build(texts, tokenizer, tmp_path / "c", longest=2)
    assert [[len(ids) for ids in sentences(corpus, d)] for d in range(len(corpus))] == [[2, 2, 1], [1]]


def test_more_documents_than_are_encoded_at_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    texts = documents(*(" ".join(["one"] * (i % 5 + 1)) + ".\ntwo" for i in range(5000)))
    corpus = SentenceCorpus.build(iter(texts), tokenizer, tmp_path / "c")
    assert len(corpus) == 5000
    assert [len(ids) for ids in sentences(corpus, 4321)] == [3, 1]
    assert corpus.header.sentences == 10_000


@pytest.mark.parametrize("texts", [[], ["", " \n "]])
def test_nothing_to_learn_from(tmp_path: Path, tokenizer: Tokenizer, texts: list[str]) -> None:
    with pytest.raises(DataError, match="no sentences: there are no documents, or none that hold text"):
        SentenceCorpus.build(documents(*texts), tokenizer, tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_what_was_cut_short_is_noticed(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "c"

    def build() -> None:
        SentenceCorpus.build(documents(*TEXTS), tokenizer, folder)

    with pytest.raises(DataError, match=r"holds no corpus of sentences \(no sentences.json\)"):
        SentenceCorpus.open(folder)
    for name in ("sentences.ids", "sentences.offsets", "documents.offsets"):
        build()
        (folder / name).write_bytes((folder / name).read_bytes()[:-8])
        with pytest.raises(DataError, match=f"{name}: damaged"):
            SentenceCorpus.open(folder)
        (folder / name).unlink()
        with pytest.raises(DataError, match=f"{name}: damaged"):
            SentenceCorpus.open(folder)
    build()
    facts = json.loads((folder / "sentences.json").read_text())
    for change, message in (({"format": 9}, "not a corpus"), ({"dtype": "O"}, "not a corpus"), ({"x": 1}, "cannot be")):
        (folder / "sentences.json").write_text(json.dumps(facts | change))
        with pytest.raises(DataError, match=message):
            SentenceCorpus.open(folder)
    build()
    offsets = np.fromfile(folder / "documents.offsets", "<i8")
    offsets[1] = offsets[2]
    offsets.tofile(folder / "documents.offsets")
    with pytest.raises(DataError, match="its documents are not in order"):
        SentenceCorpus.open(folder)


def test_a_failure_leaves_what_was_there(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "c"
    SentenceCorpus.build(documents(*TEXTS), tokenizer, folder)

    def breaks_off() -> object:
        yield from documents("One")
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        SentenceCorpus.build(breaks_off(), tokenizer, folder)  # type: ignore[arg-type]
    assert len(SentenceCorpus.open(folder)) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]
    (folder / "diary.txt").write_text("mine")
    with pytest.raises(DataError, match=r"holds other files \(diary.txt\)"):
        SentenceCorpus.build(documents("One"), tokenizer, folder)
    with pytest.raises(DataError, match="is a file, a folder for a corpus of sentences was expected"):
        SentenceCorpus.build(documents("One"), tokenizer, folder / "diary.txt")


def test_it_is_made_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = []

    def build(folder: Path) -> SentenceCorpus:
        made.append(folder)
        return SentenceCorpus.build(documents(*TEXTS), tokenizer, folder, fingerprint="k" * 64)

    for _ in range(2):
        assert len(SentenceCorpus.cached("k" * 64, tmp_path, build=build)) == 3
    assert len(made) == 1
    (made[0] / "sentences.ids").unlink()
    assert len(SentenceCorpus.cached("k" * 64, tmp_path, build=build)) == 3
    assert len(made) == 2
