"""Text for a masked language model: from files to sentences on disk, once."""

from pathlib import Path

import pytest

from regard.config.data import TokenizerConfig
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.data import EncodedDocuments, encode_documents, masking_of
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.texts import TextFiles
from tiny_masked import document, documents


def sentences(corpus: SentenceCorpus, document: int) -> list[list[int]]:
    """The ids of each sentence of a document."""
    first, end = corpus.documents[document : document + 2].tolist()
    return [corpus.ids[corpus.borders[i] : corpus.borders[i + 1]].tolist() for i in range(first, end)]


def prepare(folder: Path, data: MaskedData, pieces: TokenizerConfig, said: list[str] | None = None) -> EncodedDocuments:
    files = TextFiles(data, folder, folder / "made")
    return encode_documents(files, data, pieces, folder=folder / "made", say=(said or []).append)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "toy.txt"
    path.write_text("\n\n".join(d.text for d in documents(20)))
    return path


def test_from_files_to_sentences(tmp_path: Path, text: Path) -> None:
    data = MaskedData(train=("toy.txt",), split="blank", held_out=0.2, length=20)
    said = ["first"]
    made = prepare(tmp_path, data, TokenizerConfig(kind="words", size=60), said)
    assert (len(made.train), len(made.valid)) == (16, 4)
    assert said[1:] == [
        "train: 16 documents, 96 sentences, 384 tokens",
        "valid: 4 documents, 24 sentences, 96 tokens",
    ]
    assert made.tokenizer.decode(sentences(made.train, 0)[1]) == document(0, 1, n=1)
    assert made.tokenizer.mask_id == 4
    again = prepare(tmp_path, data, TokenizerConfig(kind="words", size=60), said)
    assert len(said) == 3  # nothing was built again
    assert again.tokenizer.fingerprint() == made.tokenizer.fingerprint()
    other = prepare(
        tmp_path,
        MaskedData(train=("toy.txt",), split="blank", held_out=0.2, length=8),
        TokenizerConfig(kind="words", size=60),
        said,
    )
    assert len(said) == 5
    assert max(len(ids) for ids in sentences(other.train, 0)) <= 5


def test_lines_and_a_given_tokenizer(tmp_path: Path, text: Path) -> None:
    given = learn_tokenizer([document(0, 0)], "bytes", mask=True)
    given.save(tmp_path / "mine.json")
    (tmp_path / "valid.txt").write_text("a b. C d.\ne f\n")
    data = MaskedData(train=("toy.txt",), valid=("valid.txt",), split="blank", sentences="lines", length=64)
    made = prepare(tmp_path, data, TokenizerConfig(file="mine.json"))
    assert made.tokenizer.fingerprint() == given.fingerprint()
    assert [given.decode(ids) for ids in sentences(made.valid, 0)] == ["a b. C d.", "e f"]
    # A document on one line is one sentence, cut to what fits beside the special tokens.
    assert max(len(ids) for ids in sentences(made.train, 0)) == 61


def test_a_tokenizer_without_a_mask_is_refused(tmp_path: Path, text: Path) -> None:
    learn_tokenizer([document(0, 0)], "bytes").save(tmp_path / "mine.json")
    data = MaskedData(train=("toy.txt",), split="blank")
    with pytest.raises(DataError, match="this tokenizer has no mask token") as problem:
        prepare(tmp_path, data, TokenizerConfig(file="mine.json"))
    assert problem.value.hint == "learn one with mask=True, or use that of a BERT"
    assert not list(tmp_path.glob("made/*/tokenizer.json"))


def test_special_tokens_are_never_hidden() -> None:
    tokenizer = learn_tokenizer([document(0, 0)], "bpe", size=270, mask=True)
    masking = masking_of(tokenizer, MaskedData(mask_share=0.3, whole_words=True), seed=7)
    assert set(range(len(tokenizer))) - set(masking.ordinary.tolist()) == set(range(5))
    assert (masking.share, masking.seed, masking.mask_id) == (0.3, 7, 4)
    assert masking.begins_word is not None
    assert masking_of(tokenizer, MaskedData(), seed=0).begins_word is None


def test_a_tokenizer_without_marks_is_refused() -> None:
    from tokenizers import Tokenizer as Core
    from tokenizers import models

    from regard.data.text.special_tokens import SpecialTokens

    core = Core(models.WordLevel({"a": 0, "[MASK]": 1}, unk_token="a"))
    with pytest.raises(DataError, match="no tokens to head and to part texts"):
        masking_of(Tokenizer.foreign(core, special_tokens=SpecialTokens(mask=1)), MaskedData(), seed=0)


def test_all_that_is_wrong_at_once() -> None:
    with pytest.raises(ConfigError) as problem:
        MaskedData(length=5, short_sequences=2.0, mask_share=0.0)
    for part in ("data.length is 5, at least 8", "data.short_sequences is 2.0", "data.mask_share is 0.0, above 0"):
        assert part in str(problem.value)


def test_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.train names no text"):
        prepare(tmp_path, MaskedData(), TokenizerConfig())
