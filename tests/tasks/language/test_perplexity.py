"""Perplexity: every token once, the figures by hand, and no difference made by how the work is cut."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.text.markers import Markers
from regard.data.text.streams import Extent
from regard.errors import DataError, UsageError
from regard.tasks.language.metrics import UNCOUNTED, TextMeasure, measure_text, windows
from tiny_texts import TEXT, documents, learn, make_model


@settings(max_examples=100, deadline=None)
@given(n=st.integers(2, 60), context=st.integers(1, 20), stride=st.integers(1, 20))
def test_every_token_is_counted_once_with_enough_before_it(n: int, context: int, stride: int) -> None:
    stride = min(stride, context)
    counted: list[int] = []
    for ids, labels in windows(np.arange(n, dtype=np.uint16), context=context, stride=stride):
        assert len(ids) == min(context, n - 1)
        assert (labels[labels != UNCOUNTED] == ids[labels != UNCOUNTED] + 1).all()
        for place, label in enumerate(labels.tolist()):
            if label != UNCOUNTED:
                counted.append(label)
                assert place + 1 >= min(label, context - stride + 1)
    assert counted == list(range(1, n))


@pytest.mark.parametrize("kind", ["bpe", "chars"])
@pytest.mark.parametrize("separated", [True, False])
def test_the_sum_is_that_of_one_pass_over_all(kind: str, separated: bool) -> None:
    tokenizer = learn(kind)
    model = make_model(tokenizer, positions="rotary")
    texts = documents(TEXT[:60], "Who? 😀\n")
    measure = measure_text(model, tokenizer, texts, context=1000, separated=separated)
    end = [tokenizer.eos_id] if separated else []
    ids = [*end, *tokenizer.encode(texts[0].text), *end, *tokenizer.encode(texts[1].text), *end]
    log_probs = model(torch.tensor([ids[:-1]])).log_softmax(-1)[0]
    nll = -log_probs.gather(1, torch.tensor(ids[1:])[:, None]).sum().item()
    assert measure.nll == pytest.approx(nll, rel=1e-6)
    assert measure.n_tokens == len(ids) - 1
    # Without a mark the first token has nothing before it, and its characters are not counted.
    unread = "" if separated else tokenizer.decode(ids[:1])
    characters = sum(len(document.text) for document in texts) - len(unread)
    assert measure.extent.characters == characters
    assert measure.bits_per_character == pytest.approx(nll / math.log(2) / characters, rel=1e-6)
    assert measure.extent.bytes == characters + 3  # one emoji of four bytes


def test_batches_change_nothing_and_more_context_changes_something() -> None:
    tokenizer = learn("chars")
    model = make_model(tokenizer)
    found = [
        measure_text(model, tokenizer, documents(TEXT), context=8, stride=stride, batch_tokens=batch)
        for stride, batch in ((3, 8), (3, 1000), (8, 8), (8, 40))
    ]
    assert found[0].nll == pytest.approx(found[1].nll, rel=1e-9)
    assert found[2].nll == pytest.approx(found[3].nll, rel=1e-9)
    assert found[0].nll != pytest.approx(found[2].nll, rel=1e-3)
    assert {measure.n_tokens for measure in found} == {len(TEXT) + 1}


def test_parts_of_a_document_are_one_document() -> None:
    tokenizer = learn("chars")
    model = make_model(tokenizer)
    whole = measure_text(model, tokenizer, documents(TEXT), context=8)
    first, second = documents(TEXT[:50], TEXT[50:])
    parts = [first._replace(more=True), second]
    assert measure_text(model, tokenizer, parts, context=8) == whole


def test_figures_by_hand() -> None:
    measure = TextMeasure(nll=8 * math.log(4), n_tokens=8, extent=Extent(1, 16, 32, 2), context=4, stride=2)
    assert measure.loss == pytest.approx(math.log(4))
    assert measure.perplexity == pytest.approx(4)
    assert measure.bits_per_character == pytest.approx(1)
    assert measure.bits_per_byte == pytest.approx(0.5)
    assert measure.word_perplexity == pytest.approx(4.0**4)
    metrics = measure.metrics()
    assert metrics["bits_per_byte"].signature == "bits a byte of UTF-8, over 32 bytes; context 4, stride 2"
    assert (metrics["perplexity"].name, metrics["perplexity"].value) == ("perplexity", measure.perplexity)
    assert TextMeasure(1e6, 1, Extent(1, 1, 1, 1), 1, 1).perplexity == math.inf


def test_what_cannot_be_measured() -> None:
    tokenizer = learn("chars")
    model = make_model(tokenizer)
    with pytest.raises(DataError, match="there is no text to measure"):
        measure_text(model, tokenizer, [], context=8)
    with pytest.raises(UsageError, match="stride is 9 and context 8; allowed is a stride from 1 to the context"):
        measure_text(model, tokenizer, documents("The dog"), context=8, stride=9)
    with pytest.raises(DataError, match="the text has 1 token, and nothing to predict from it"):
        measure_text(model, tokenizer, documents("T"), context=8, separated=False)
    assert measure_text(model, tokenizer, documents("T"), context=8).n_tokens == 2
    assert Markers.of(tokenizer).nothing == (3,)
