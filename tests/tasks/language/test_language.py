"""Language modelling as a trainable task: batches, loss, evaluation, samples, and the data behind them."""

import io
import math
import sys
from itertools import islice
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from regard.config.data import Split, TextPieces
from regard.data.batching.plan import Position
from regard.data.text.documents import Document, TextSource
from regard.data.text.streams import TokenStream
from regard.data.text.text_units import HeldOut
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.language.config import TextData
from regard.tasks.language.metrics import measure_text
from regard.tasks.language.training import LanguageTraining, language_loss
from regard.tasks.texts import TextFiles, encode_texts
from tiny_texts import TEXT, documents, learn, make_model, make_task


def test_labels_are_the_ids_one_later(tmp_path: Path) -> None:
    task = make_task(tmp_path, learn())
    stream = task.train.ids.tolist() * 2
    for _, batch in islice(task.batches(Position()), 8):
        assert batch.ids.shape == batch.labels.shape == (3, 12)
        assert batch.n_tokens == 36
        assert (batch.ids[:, 1:] == batch.labels[:, :-1]).all()
        for row in torch.cat([batch.ids, batch.labels[:, -1:]], 1).tolist():
            assert any(stream[i : i + 13] == row for i in range(len(task.train)))


def test_going_on_and_sharing_give_the_same_batches(tmp_path: Path) -> None:
    task = make_task(tmp_path, learn())
    straight = list(islice(task.batches(Position()), 9))
    resumed = islice(task.batches(straight[3][0]), 5)
    for (after, batch), (expected_after, expected) in zip(resumed, straight[4:], strict=True):
        assert after == expected_after
        assert torch.equal(batch.ids, expected.ids)
    shares = [islice(task.batches(Position(), rank=rank, world=2), 9) for rank in (0, 1)]
    for (_, whole), (_, even), (_, odd) in zip(straight, *shares, strict=True):
        assert torch.equal(whole.ids[::2], even.ids)
        assert torch.equal(whole.labels[1::2], odd.labels)
    lonely = next(task.batches(Position(), rank=7, world=8))[1]
    assert lonely.n_tokens == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_cross_entropy_of_every_token(tmp_path: Path, smoothing: float) -> None:
    tokenizer = learn()
    task, model = make_task(tmp_path, tokenizer, label_smoothing=smoothing), make_model(tokenizer)
    batch = next(task.batches(Position()))[1]
    losses = task.loss(model, batch)
    flat = model(batch.ids).flatten(0, 1), batch.labels.flatten()
    expected = F.cross_entropy(*flat, reduction="sum", label_smoothing=smoothing)
    assert losses.total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert losses.nll.item() == pytest.approx(F.cross_entropy(*flat, reduction="sum").item(), rel=1e-6)
    assert int(losses.n_tokens) == batch.n_tokens
    losses.total.backward()
    ours = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    expected.backward()
    theirs = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(ours) == len(theirs) > 10
    for one, other in zip(ours, theirs, strict=True):
        assert other is not None
        assert torch.allclose(one, other, atol=1e-5, rtol=1e-4)


def test_id_zero_counts_like_any_other() -> None:
    tokenizer = learn()
    model = make_model(tokenizer)
    ids, labels = torch.tensor([[5, 6, 7]]), torch.tensor([[0, 0, 0]])
    total, nll, n = language_loss(model, ids, labels, 0.0)
    assert int(n) == 3
    assert nll.item() == pytest.approx(F.cross_entropy(model(ids)[0], labels[0], reduction="sum").item(), rel=1e-6)
    assert total.item() == pytest.approx(nll.item())


@pytest.mark.parametrize("separated", [True, False])
def test_evaluation_is_that_of_the_whole_validation_text(tmp_path: Path, separated: bool) -> None:
    tokenizer = learn("chars")
    model, texts = make_model(tokenizer), documents(TEXT[:100], TEXT[100:180])
    train = TokenStream.build(documents(TEXT), tokenizer, tmp_path / "train", separated=separated)
    valid = TokenStream.build(texts, tokenizer, tmp_path / "valid", separated=separated)
    task = LanguageTraining(tokenizer, train, valid, context=12, budget_tokens=40, seed=0, separated=separated)
    figures = task.evaluate(model)
    measure = measure_text(model, tokenizer, texts, context=12, stride=12, separated=separated)
    assert figures["valid_nll"] == pytest.approx(measure.loss, rel=1e-9) == -figures[task.objective]
    assert figures["perplexity"] == pytest.approx(math.exp(measure.loss), rel=1e-9)
    assert figures["bits_per_character"] == pytest.approx(measure.bits_per_character, rel=1e-9)


def test_samples_are_places_of_the_validation_text(tmp_path: Path) -> None:
    tokenizer = learn("chars")
    task = make_task(tmp_path, tokenizer, context=24)
    samples = task.samples(make_model(tokenizer), 3)
    text = tokenizer.decode(task.valid.ids)
    assert len({prompt for prompt, _, _ in samples}) > 1
    for prompt, reference, output in samples:
        assert prompt + reference in text
        assert output


def test_a_few_steps_learn(tmp_path: Path) -> None:
    tokenizer = learn("chars")
    task = make_task(tmp_path, tokenizer, budget_tokens=120)
    torch.manual_seed(0)
    model = make_model(tokenizer).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = task.evaluate(model)["valid_nll"]
    for _, batch in islice(task.batches(Position()), 150):
        optimizer.zero_grad()
        losses = task.loss(model, batch)
        (losses.total / losses.n_tokens).backward()
        optimizer.step()
    after = task.evaluate(model)["valid_nll"]
    assert after < 1.5 < before  # the entropy of single characters is above 2.7 nats


@pytest.mark.parametrize(
    ("texts", "share", "expected"),
    [
        (["abcdefghij"], 0.3, ["abcdefg|", "|hij"]),
        (["aaaaa", "bbbbb", "ccccc"], 0.3, ["aaaaa|bbbbb|", "|ccccc"]),
        (["aaaaa", "bbbbb", "ccccc"], 0.5, ["aaaaa|bbbbb|", "|ccccc"]),
        (["aa", "bbbbbbbb"], 0.5, ["aa|bbb|", "|bbbbb"]),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_what_is_held_out(tmp_path: Path, texts: list[str], share: float, expected: list[str], alone: bool) -> None:
    for number, text in enumerate(texts if alone else ["\n".join(texts)]):
        (tmp_path / f"{number}.txt").write_text(text)
    split: Split = "file" if alone else "line"
    source = HeldOut.of(TextSource((tmp_path,), split=split), share)
    parted = list(source.documents())
    assert list(source.held()) == [document for held, document in parted if held]
    kept = "".join(document.text + "|" for held, document in parted if not held)
    held = "|" + "|".join(document.text for held, document in parted if held)
    assert [kept, held] == expected


def test_holding_out_of_a_text_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Document("abcd", "x", more=True), Document("efgh", "x", more=True), Document("ij", "x")]
    monkeypatch.setattr(TextSource, "documents_of", lambda *_: iter(parts))
    parted = list(HeldOut.of(TextSource((tmp_path / "x",)), 0.4).documents())
    assert [(held, d.text, d.more) for held, d in parted] == [
        (False, "abcd", True),
        (False, "ef", False),
        (True, "gh", True),
        (True, "ij", False),
    ]


def test_texts_are_encoded_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    told: list[str] = []
    border = int(len(TEXT) * 0.9)
    data = TextData(train=("a.txt",), split="file")
    for _ in range(2):
        files = TextFiles(data, tmp_path, tmp_path / "made")
        encoded = encode_texts(files, TextPieces(kind="chars"), tmp_path / "made", say=told.append)
    assert told == [f"train: {border} characters, {border + 1} tokens", "valid: 44 characters, 45 tokens"]
    whole = encoded.tokenizer.decode([*encoded.train.ids, *encoded.valid.ids])
    assert whole == TEXT
    bare = encode_texts(
        TextFiles(TextData(train=("a.txt",)), tmp_path, tmp_path / "made"),
        TextPieces(kind="chars"),
        tmp_path / "made",
        separated=False,
        say=told.append,
    )
    assert len(bare.train) == border


def test_a_validation_file_a_given_tokenizer_and_tests(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.jsonl").write_text('{"body": "The dog.\\n"}')
    learn("bytes").save(tmp_path / "t.json")
    data = TextData(train=("a.txt",), valid=("b.jsonl",), test={"b": ("b.jsonl",)}, column="body", split="blank")
    files = TextFiles(data, tmp_path, tmp_path / "made")
    encoded = encode_texts(files, TextPieces(file="t.json"), tmp_path / "made", say=lambda _: None)
    assert encoded.tokenizer.kind == "bytes"
    assert encoded.tokenizer.decode(encoded.valid.ids) == "The dog.\n"
    assert encoded.train.header.documents == 7
    assert [document.text for document in files.tests["b"].documents()] == ["The dog.\n"]


def test_standard_input_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    for _ in range(2):
        files = TextFiles(TextData(train=("-",)), None, tmp_path)
        assert "".join(document.text for document in files.train.documents()) == TEXT


def test_what_is_wrong_with_the_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.train names no text") as caught:
        TextFiles(TextData(), None, tmp_path).train  # noqa: B018
    assert "--train FILE" in str(caught.value.hint)
    with pytest.raises(DataError, match=r"nowhere\.txt: there is no such file here"):
        TextFiles(TextData(train=("nowhere.txt",)), None, tmp_path).train  # noqa: B018
    with pytest.raises(ConfigError, match=r"data\.held_out is 0, and data\.valid names no text"):
        TextData(train=("a.txt",), held_out=0.0)
    with pytest.raises(DataError, match=r"the text has 2 tokens, and a row of context 8 needs 9"):
        _training(learn("chars"), tmp_path, text="T", context=8)


@pytest.mark.parametrize("text", ["one line", "crlf\r\nlines\r\n", "😀", "word " * 10_000, "a\n\n\n"])
@pytest.mark.parametrize("kind", ["chars", "bytes", "bpe"])
def test_odd_texts_come_through_whole(text: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode())
    (tmp_path / "b.txt").write_bytes(b"x")
    data = TextData(train=(str(tmp_path / "a.txt"),), valid=(str(tmp_path / "b.txt"),))
    pieces = TextPieces(kind=kind, size=300)  # type: ignore[arg-type]
    encoded = encode_texts(TextFiles(data, None, tmp_path), pieces, tmp_path, say=lambda _: None)
    assert encoded.tokenizer.decode(encoded.train.ids) == text.replace("\r\n", "\n")
    assert encoded.train.ids[-1] == encoded.tokenizer.eos_id


def _training(tokenizer: Tokenizer, folder: Path, *, text: str, context: int) -> LanguageTraining:
    stream = TokenStream.build(documents(text), tokenizer, folder / "s")
    return LanguageTraining(tokenizer, stream, stream, context=context, budget_tokens=16, seed=0)
