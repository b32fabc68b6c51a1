"""Asking a BERT: the likeliest pieces, whether texts follow, vectors; alone or among others."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core
from tokenizers import models, normalizers, pre_tokenizers

from fast_only import needs_fast
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError, UsageError
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import Precision, pack_linears
from regard.tasks.masked.filler import Filler, encode_with_masks
from tiny_masked import document, make_model, toy_tokenizer

TEXTS = ["ant [MASK] ant .", "bee sees <mask> . bee [MASK] bee . ant", "<mask>", "cat cat cat cat cat [MASK] cat dog ."]

NEAR = {"fp32": 1e-5, "int8": 8e-2}


def filler(**options: Any) -> Filler:
    tokenizer = toy_tokenizer()
    return Filler(make_model(tokenizer, **options), tokenizer)


def bert_tokenizer() -> Tokenizer:
    """One like those of published models."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "paris", "is", "big", "un", "##able", "able", ".", ",", "x"]
    core = Core(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer.foreign(core, special_tokens=SpecialTokens(pad=0, unk=1, cls=2, sep=3, mask=4))


def test_guesses_are_the_model_s() -> None:
    ask = filler()
    found = ask.fill(TEXTS, k=3)
    assert [len(one.masks) for one in found] == [1, 2, 1, 1]
    for text, filling in zip(TEXTS, found, strict=True):
        ids = torch.tensor([[2, *encode_with_masks(ask.tokenizer, text), 3]])
        probabilities = ask.model(ids, segments=torch.zeros_like(ids))[0].softmax(-1)
        for place, guesses in zip((ids[0] == 4).nonzero()[:, 0].tolist(), filling.masks, strict=True):
            best = probabilities[place].topk(3)
            assert [guess.id for guess in guesses] == best.indices.tolist()
            assert [guess.probability for guess in guesses] == pytest.approx(best.values.tolist(), rel=1e-5)
            assert [guess.token for guess in guesses] == ask.tokenizer.tokens(best.indices.tolist())
            ids[0, place] = guesses[0].id
        assert filling.text == ask.tokenizer.decode(ids[0])


def test_all_pieces_together_are_certain() -> None:
    ask = filler()
    (filling,) = ask.fill(["ant [MASK] ."], k=len(ask.tokenizer))
    assert sum(guess.probability for guess in filling.masks[0]) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 20, 8192])
def test_neighbours_change_nothing(batch_tokens: int) -> None:
    ask = filler()
    shared = Filler(ask.model, ask.tokenizer, batch_tokens=batch_tokens)
    for text, filling in zip(TEXTS, shared.fill(TEXTS), strict=True):
        alone = ask.fill([text])[0]
        assert filling.text == alone.text
        assert [[g.id for g in mask] for mask in filling.masks] == [[g.id for g in mask] for mask in alone.masks]
    firsts, seconds = ["ant sees ant .", "bee", ""], ["ant hears ant .", "cat finds cat . " * 3, ""]
    alone = [ask.judge([a], [b])[0] for a, b in zip(firsts, seconds, strict=True)]
    assert shared.judge(firsts, seconds) == pytest.approx(alone, rel=1e-6)
    together = shared.embed([*firsts, *seconds])
    for text, vector in zip([*firsts, *seconds], together, strict=True):
        torch.testing.assert_close(vector, ask.embed([text])[0], rtol=1e-9, atol=1e-9)


@needs_fast
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_packed_models_read_texts_end_to_end_bit_for_bit_as_each_alone(precision: Precision) -> None:
    ask = filler()
    if loaded() is None:
        pytest.skip(why())
    model = ask.model.float()
    plain, quick = Filler(model, ask.tokenizer), Filler(pack_linears(model, precision), ask.tokenizer)
    texts = ["ant sees ant .", "bee", "", "cat finds cat . " * 3, *TEXTS]
    (first, *_) = quick._batches(quick.template(texts))
    assert (quick.model.packed_length > 0, first[1].documents is not None) == (True, True)
    vectors, expected = quick.embed(texts), plain.embed(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert torch.equal(vector, quick.embed([text])[0]), text
    assert (vectors - expected).norm() / expected.norm() < NEAR[precision]
    for text, filling, other in zip(TEXTS, quick.fill(TEXTS), plain.fill(TEXTS), strict=True):
        assert filling == quick.fill([text])[0]
        found, exact = ([g.probability for mask in one.masks for g in mask] for one in (filling, other))
        assert precision == "int8" or found == pytest.approx(exact, rel=1e-4)
    pairs = (["ant sees ant .", "bee"], ["ant hears ant .", "cat finds cat . " * 3])
    judged = quick.judge(*pairs)
    assert judged == [quick.judge([a], [b])[0] for a, b in zip(*pairs, strict=True)]
    assert judged == pytest.approx(plain.judge(*pairs), rel=1e-4 if precision == "fp32" else 0.1)


def test_judging_and_embedding_by_hand() -> None:
    ask = filler()
    a, b = ask.tokenizer.encode("ant sees ant ."), ask.tokenizer.encode("bee hears")
    ids, segments = torch.tensor([[2, *a, 3, *b, 3]]), torch.tensor([[0] * (len(a) + 2) + [1] * (len(b) + 1)])
    logits = ask.model.next_sentence(ask.model.encode(ids, segments=segments))
    assert ask.judge(["ant sees ant ."], ["bee hears"]) == [pytest.approx(logits.softmax(-1)[0, 0].item(), rel=1e-5)]
    encoded = ask.model.encode(torch.tensor([[2, *a, 3]]))
    torch.testing.assert_close(ask.embed(["ant sees ant ."])[0], encoded[0].mean(0))
    lengths = ask.embed(["ant", "", "bee sees"], normalise=True).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones(3).double())


def test_no_texts() -> None:
    ask = filler()
    assert ask.fill([]) == []
    assert ask.judge([], []) == []
    assert ask.embed([]).shape == (0, 16)


def test_a_model_of_fewer_parts() -> None:
    ask = filler(n_segments=0, pooler=False, nsp=False)
    assert len(ask.fill(["ant [MASK] ."])[0].masks[0]) == 5
    assert ask.embed(["ant"]).shape == (1, 16)
    with pytest.raises(UsageError, match="this model has no head that"):
        ask.judge(["ant"], ["bee"])


def test_long_texts() -> None:
    ask = filler()
    long = " ".join([document(0, 0)] * 5)
    with pytest.raises(UsageError, match="text 2 has 121 pieces, the model reads 62 at most: 'ant eats"):
        ask.fill(["ant [MASK]", f"{long} [MASK]"])
    words = long.split()
    torch.testing.assert_close(ask.embed([long]), ask.embed([" ".join(words[:62])]))
    assert ask.judge([long], [long]) == pytest.approx(ask.judge([" ".join(words[:31])], [" ".join(words[:30])]))


def test_what_cannot_be_asked() -> None:
    ask = filler()
    with pytest.raises(UsageError, match="text 2 has no mask: 'ant sees'") as problem:
        ask.fill(["[MASK]", "ant  sees"])
    assert problem.value.hint == "write [MASK] for the hidden word"
    for k in (0, 1000):
        with pytest.raises(UsageError, match=f"k is {k}, from 1 to {len(ask.tokenizer)}"):
            ask.fill(["[MASK]"], k=k)
    with pytest.raises(UsageError, match="2 first texts and 1 second ones"):
        ask.judge(["a", "b"], ["c"])
    plain = learn_tokenizer(["a b"], "words", size=10)
    with pytest.raises(DataError, match="no mask token"):
        Filler(make_model(plain), plain).fill(["a [MASK]"])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "words", "chars", "bytes"])
def test_masks_stand_where_they_are_written(kind: str) -> None:
    """A text with a piece hidden has the pieces of the text, but for that one."""
    texts = ["Paris is big , and big is Paris .", "It's big.", "1999 was (so) big!", "x.y"]
    tokenizer, tried = learn_tokenizer(texts * 5, kind, size=330, mask=True), 0
    for text in texts:
        ids = tokenizer.encode(text)
        for place, (start, end) in enumerate(tokenizer.spans(text)):
            piece = tokenizer.tokens([ids[place]])[0]
            spaced = kind not in ("chars", "bytes") and (start == 0 or text[start - 1] == " ")
            if piece != spaced * "▁" + text[start:end]:  # it spells less, or the space before it is another piece
                continue
            hidden = text[:start] + "[MASK]" + text[end:]
            assert encode_with_masks(tokenizer, hidden) == [*ids[:place], 4, *ids[place + 1 :]], hidden
            tried += 1
    assert tried > 15


def test_masks_of_others() -> None:
    tokenizer = bert_tokenizer()
    for mask in ("[MASK]", "<mask>"):
        assert tokenizer.tokens(encode_with_masks(tokenizer, f"Paris is {mask}, {mask}.")) == [
            *("paris", "is", "[MASK]", ",", "[MASK]", ".")
        ]
    assert tokenizer.tokens(encode_with_masks(tokenizer, "[MASK]able x")) == ["[MASK]", "able", "x"]
    found = Filler(make_model(tokenizer), tokenizer).fill(["Paris is [MASK]."], k=2)
    assert len(found[0].masks[0]) == 2


@given(st.lists(st.sampled_from(["ant", ".", " ", "[MASK]", "<mask>", "é", "7"]), max_size=8))
@settings(max_examples=60, deadline=None)
def test_every_mask_is_found(parts: list[str]) -> None:
    for tokenizer in TOKENIZERS:
        ids = encode_with_masks(tokenizer, "".join(parts))
        assert ids.count(4) == sum(part in ("[MASK]", "<mask>") for part in parts)


TOKENIZERS = [learn_tokenizer(["ant . ant", "7 é"], kind, size=300, mask=True) for kind in ("bpe", "chars")]
