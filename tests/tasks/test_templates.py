"""Texts as rows: special tokens where models know them, the longer text cut first, nothing too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers

from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import UsageError
from regard.tasks.templates import TemplatedRows, TextTemplate, cut

TOKENIZER = learn_tokenizer(["a b c d e f g"], "words", size=20)
A, B = TOKENIZER.encode("a b"), TOKENIZER.encode("c")


def foreign(**special_tokens: int) -> Tokenizer:
    vocabulary = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4, "c": 5, "<|end|>": 6}
    core = Core(models.WordLevel(vocabulary, unk_token="[PAD]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer.foreign(core, special_tokens=SpecialTokens(**special_tokens))


def test_ours_frame_alike_for_both_kinds_of_model() -> None:
    for closing in (False, True):
        one, two = TextTemplate(TOKENIZER, closing=closing)(["a b", ("a b", "c")])
        assert one.ids == [2, *A, 3]
        assert two.ids == [2, *A, 3, *B, 3]
        assert two.segments == [0, 0, 0, 0, 1, 1]


def test_a_model_that_looks_back_gets_a_last_token_of_its_own() -> None:
    gpt2 = foreign(bos=6, eos=6)
    one, two = TextTemplate(gpt2, closing=True)(["a b", ("a b", "c")])
    assert (one.ids, two.ids) == ([6, 3, 4, 6], [6, 3, 4, 6, 5, 6])
    bert = foreign(cls=1, sep=2, pad=0)
    assert [row.ids for row in TextTemplate(bert)(["a b", ("a b", "c")])] == [[1, 3, 4, 2], [1, 3, 4, 2, 5, 2]]
    assert TextTemplate(bert)([("a b", "c")])[0].segments == [0, 0, 0, 0, 1, 1]


def test_two_texts_need_something_between_them() -> None:
    template = TextTemplate(foreign(unk=0))
    assert template(["a b"])[0].ids == [3, 4]
    with pytest.raises(UsageError, match="no special token to part two texts by"):
        template([("a", "b")])


def test_nothing_still_makes_a_row() -> None:
    assert TextTemplate(foreign(unk=0))([""])[0].ids == [0]
    assert TextTemplate(TOKENIZER)(["", ("", "")])[0].ids == [2, 3]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 20))
def test_the_longer_text_is_cut_first(n_first: int, n_second: int, room: int) -> None:
    first, second = list(range(n_first)), list(range(n_second))
    slow = [list(first), list(second)]
    while len(slow[0]) + len(slow[1]) > room:
        slow[len(slow[0]) <= len(slow[1])].pop()
    kept, other = cut(first, second, room=room)
    assert other is not None
    assert sorted((len(kept), len(other))) == sorted(map(len, slow))
    assert (kept, other) == (first[: len(kept)], second[: len(other)])


def test_ten_thousand_words_fit() -> None:
    long = "a b c d e " * 2000
    rows = TemplatedRows.of(TextTemplate(TOKENIZER, max_tokens=32), ["a", long, ("c", long), (long, long)])
    assert rows.lengths.tolist() == [3, 32, 32, 32]
    assert rows.shortened == 3
    assert rows.ids(2)[:3].tolist() == [2, *TOKENIZER.encode("c"), 3]
    assert (rows.ids(3)[-1], int(rows.segments(3).sum())) == (3, 15)


def test_rows_too_short_for_anything() -> None:
    with pytest.raises(UsageError, match="rows of 3 tokens have no room for text"):
        TextTemplate(TOKENIZER, max_tokens=3)
