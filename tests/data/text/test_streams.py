"""Streams of ids and the rows that are read from them: nothing is lost, and everything can be gone on with."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core
from tokenizers import models, processors

from regard.data.batching.plan import Position
from regard.data.batching.rows import RowPlan
from regard.data.io.cache import store_key
from regard.data.text import streams as streams_module
from regard.data.text.documents import Document
from regard.data.text.markers import Markers
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.streams import TokenStream
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError, UsageError

TEXTS = ["One dog.\nTwo  dogs.\n", "", "Three 😀\n", "no end"]
CHARS = learn_tokenizer(TEXTS, "chars", verbatim=True)


def documents(*texts: str) -> list[Document]:
    return [Document(text, f"x:{i}") for i, text in enumerate(texts)]


def llama() -> Tokenizer:
    core = Core(models.BPE({"<s>": 0, "</s>": 1, "a": 2, "b": 3}, []))
    core.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return Tokenizer.foreign(core, special_tokens=SpecialTokens(bos=0, eos=1))


def test_documents_stand_end_to_end_with_their_marks(tmp_path: Path) -> None:
    stream = TokenStream.build(documents(*TEXTS), CHARS, tmp_path / "s")
    encoded = [[*CHARS.encode(text), 3] for text in TEXTS]
    assert stream.ids.tolist() == [index for ids in encoded for index in ids]
    offsets = np.fromfile(tmp_path / "s" / "stream.offsets", "<i8")
    assert np.diff(offsets).tolist() == [len(ids) for ids in encoded]
    assert len(stream) == sum(map(len, TEXTS)) + 4
    extent = stream.extent
    assert (extent.documents, extent.characters, extent.words) == (4, sum(map(len, TEXTS)), 8)
    assert extent.bytes == len("".join(TEXTS).encode())
    bare = TokenStream.build(documents(*TEXTS), CHARS, tmp_path / "t", separated=False)
    assert CHARS.decode(bare.ids) == "".join(TEXTS)


def test_a_long_document_may_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Document("aba", "x", more=True), Document("b", "x", more=True), Document("a", "x"), Document("b", "y")]
    for chunk in (2**20, 1):
        monkeypatch.setattr(streams_module, "_CHUNK", chunk)
        stream = TokenStream.build(parts, llama(), tmp_path / "s")
        assert stream.ids.tolist() == [0, 2, 3, 2, 3, 2, 1, 0, 3, 1]
        assert np.fromfile(tmp_path / "s" / "stream.offsets", "<i8").tolist() == [0, 7, 10]
        assert stream.header.documents == 2
    stream = TokenStream.build(parts[:1], llama(), tmp_path / "s")
    assert stream.ids.tolist() == [0, 2, 3, 2, 1]


def test_marks_by_tokenizer() -> None:
    assert Markers.of(CHARS) == Markers(after=(3,), opening=(3,), nothing=(3,), end=3)
    assert Markers.of(CHARS, separated=False) == Markers()
    assert Markers.of(llama()) == Markers(before=(0,), after=(1,), opening=(0,), nothing=(0,), end=1)
    core = Core(models.BPE({"<|end|>": 0, "a": 1}, []))
    gpt = Tokenizer.foreign(core, special_tokens=SpecialTokens(bos=0, eos=0))
    assert Markers.of(gpt) == Markers(after=(0,), opening=(), nothing=(0,), end=0)


def test_rows_go_round_the_ring(tmp_path: Path) -> None:
    stream = TokenStream.build(documents("abcde"), learn_tokenizer(["abcde"], "bytes", verbatim=True), tmp_path / "s")
    ids = stream.ids.tolist()
    assert stream.rows([0, 4], 4).tolist() == [ids[:4], [*ids[4:], *ids[:2]]]
    assert stream.rows([5], 14).tolist() == [(ids * 4)[5:19]]
    assert stream.rows([], 3).shape == (0, 3)


def test_a_stream_is_built_once(tmp_path: Path) -> None:
    built = []

    def build(folder: Path) -> TokenStream:
        built.append(folder)
        return TokenStream.build(documents("a"), CHARS, folder, fingerprint=key)

    key = store_key("text", CHARS.fingerprint())
    for _ in range(2):
        assert TokenStream.cached(key, tmp_path, build=build).fingerprint == key
    assert len(built) == 1
    (built[0] / "stream.ids").write_bytes(b"")
    assert len(TokenStream.cached(key, tmp_path, build=build)) == 2
    assert len(built) == 2


def test_what_is_no_stream(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no stream of text \(no stream\.json\)"):
        TokenStream.open(tmp_path)
    with pytest.raises(DataError, match="no text: the documents hold nothing"):
        TokenStream.build([], CHARS, tmp_path / "s")
    assert not (tmp_path / "s").exists()
    folder = TokenStream.build(documents("a"), CHARS, tmp_path / "s").folder
    header = json.loads((folder / "stream.json").read_text())
    for wrong in ({"format": 2}, {"tokens": 0}, {"dtype": "<f4"}, {"documents": 1.5}):
        (folder / "stream.json").write_text(json.dumps(header | wrong))
        with pytest.raises(DataError, match="not a stream of text of format 1"):
            TokenStream.open(folder)
    (folder / "stream.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        TokenStream.open(folder)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 200), context=st.integers(1, 40), batch=st.integers(1, 9), seed=st.integers(0, 5))
def test_every_epoch_predicts_every_token(n: int, context: int, batch: int, seed: int) -> None:
    context = min(context, n - 1)
    plan = RowPlan(n, context, rows_per_batch=batch, seed=seed)
    R = plan.rows_per_epoch
    starts = np.concatenate([b for _, b in islice(plan.iterate(), -(-3 * R // batch))])
    for epoch in range(3):
        own = starts[epoch * R : (epoch + 1) * R]
        counts = np.zeros(n, int)
        for start in own:
            counts[(start + np.arange(context)) % n] += 1
        assert counts.min() >= 1
        assert counts.sum() == R * context < n + context


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 60),
    context=st.integers(1, 20),
    batch=st.integers(1, 30),
    order=st.sampled_from(["rows", "random"]),
    stop=st.integers(0, 12),
)
def test_going_on_gives_exactly_what_comes_next(n: int, context: int, batch: int, order: str, stop: int) -> None:
    context = min(context, n - 1)
    plan = RowPlan(n, context, rows_per_batch=batch, seed=1, order=order)  # type: ignore[arg-type]
    straight = list(islice(plan.iterate(), 15))
    position = straight[stop - 1][0] if stop else Position()
    again = RowPlan(n, context, rows_per_batch=batch, seed=1, order=order)  # type: ignore[arg-type]
    for (after, starts), (expected_after, expected) in zip(again.iterate(position), straight[stop:], strict=False):
        assert (after, starts.tolist()) == (expected_after, expected.tolist())
    assert [after for after, _ in straight] == sorted({after for after, _ in straight})
    assert all(len(starts) == batch and starts.min() >= 0 and starts.max() < n for _, starts in straight)


def test_epochs_and_seeds_differ() -> None:
    def first(seed: int, order: str = "rows", epoch: int = 0) -> list[int]:
        plan = RowPlan(1000, 10, rows_per_batch=100, seed=seed, order=order)  # type: ignore[arg-type]
        return next(plan.iterate(Position(epoch)))[1].tolist()

    assert first(0) == first(0)
    assert len({tuple(x) for x in (first(0), first(1), first(0, epoch=1), first(0, "random"), first(1, "random"))}) == 5
    assert len({start % 10 for start in first(0)}) == 1  # consecutive cuts
    assert len({first(0, epoch=epoch)[0] % 10 for epoch in range(12)}) > 3  # at other places each epoch
    assert len({start % 10 for start in first(0, "random")}) == 10


def test_what_no_plan_can_do() -> None:
    with pytest.raises(DataError, match=r"the text has 10 tokens, and a row of context 10 needs 11") as caught:
        RowPlan(10, 10, rows_per_batch=1, seed=0)
    assert "data.context=5" in str(caught.value.hint)
    with pytest.raises(UsageError, match="batch 9 of epoch 0 does not exist, the epoch has 2"):
        next(RowPlan(10, 5, rows_per_batch=1, seed=0).iterate(Position(0, 9)))
