"""Plain text as data for a masked language model: where it is, how it is cut, and what is hidden of it.

`encode_documents` learns or opens the tokenizer and puts the sentences of the documents on disk, once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.data import TokenizerConfig
from regard.data.io.cache import store_key
from regard.data.io.shards import Workshop
from regard.data.text.splitting import split_lines, split_sentences
from regard.data.text.text_units import TextUnits
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_pieces
from regard.errors import DataError
from regard.tasks.files import Say
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.masking import Masking, word_beginnings
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.texts import Documents, TextFiles, kept_tokenizer


class EncodedDocuments(NamedTuple):
    """A tokenizer, and the documents to learn from and to choose by."""

    tokenizer: Tokenizer
    train: SentenceCorpus
    valid: SentenceCorpus


def encode_documents(
    files: TextFiles, data: MaskedData, pieces: TokenizerConfig, *, folder: Path, say: Say
) -> EncodedDocuments:
    """Open or learn the tokenizer, and put the sentences on disk; reused when nothing changed."""
    sources = [files.train] if files.valid is None else [files.train, files.valid]
    held_out = data.held_out if files.valid is None else None
    given = files.given_tokenizer(pieces)
    every = files.sample_every(pieces)
    sampled = () if every == 1 else (every,)
    facts = (repr(pieces), held_out, given.fingerprint() if given is not None else None, *sampled)
    made = folder / store_key("masked", *(source.fingerprint() for source in sources), *facts)[:24]

    def make() -> Tokenizer:
        tokenizer = given or learn_pieces(files.sample(pieces), pieces, mask=True)
        masking_of(tokenizer, data, seed=0)  # what cannot mask is refused before anything is built on it
        return tokenizer

    tokenizer = kept_tokenizer(made, make, say=say)
    how: dict[str, Any] = {"folder": made, "name": "train", "units": files.units, "workshop": files.workshop}
    train = corpus_of(files.train_documents, data, tokenizer, **how, say=say)
    valid = corpus_of(files.valid_documents, data, tokenizer, folder=made, name="valid", say=say)
    return EncodedDocuments(tokenizer, train, valid)


def corpus_of(
    documents: Documents,
    data: MaskedData,
    tokenizer: Tokenizer,
    *,
    folder: Path,
    name: str,
    units: Callable[[], TextUnits] | None = None,
    workshop: Workshop = Workshop(),  # noqa: B008 - frozen
    say: Say = lambda _: None,
) -> SentenceCorpus:
    """Documents as sentences on disk under `folder`, which belongs to these documents and this tokenizer.

    Where their files are given as `units`, several processes read them.
    """
    longest = data.length - len(tokenizer.frame([], []).ids)
    key = store_key(folder.name, name, tokenizer.fingerprint(), data.sentences, longest)
    split = split_lines if data.sentences == "lines" else split_sentences

    def build(into: Path) -> SentenceCorpus:
        options: dict[str, Any] = {"split": split, "longest": longest, "fingerprint": key}
        if units is None:
            corpus = SentenceCorpus.build(documents(), tokenizer, into, **options)
        else:
            options |= {"workshop": workshop, "name": name, "say": say}
            corpus = SentenceCorpus.build_from(units(), tokenizer, into, **options)
        header = corpus.header
        say(f"{name}: {header.documents:,} documents, {header.sentences:,} sentences, {header.tokens:,} tokens")
        return corpus

    return SentenceCorpus.cached(key, folder, build=build, say=say)


def masking_of(tokenizer: Tokenizer, data: MaskedData, *, seed: int) -> Masking:
    """What is hidden of a tokenizer's texts."""
    mask_id = required_mask(tokenizer)
    if tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise DataError("this tokenizer has no tokens to head and to part texts (roles cls and sep)")
    gaps = [index for index, piece in enumerate(tokenizer.tokens(range(len(tokenizer)))) if not piece]
    return Masking(
        n_ids=len(tokenizer),
        mask_id=mask_id,
        special_ids=(*tokenizer.special_ids, *gaps),
        seed=seed,
        share=data.mask_share,
        begins_word=word_beginnings(tokenizer) if data.whole_words else None,
    )


def required_mask(tokenizer: Tokenizer) -> int:
    """The id of the mask; a tokenizer without one is an error."""
    if tokenizer.mask_id is None:
        raise DataError("this tokenizer has no mask token", hint="learn one with mask=True, or use that of a BERT")
    return tokenizer.mask_id
