"""Tokenizers made elsewhere, verbatim ones, and ones with a mask: roles, frames, files, and text that comes back."""

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.bytechars import byte_to_char
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import KINDS, Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError, UsageError

TEXTS = ["A dog runs\n\n\tfast,  very fast.\r\n", "Zwei Hündinnen 😀 laufen\n", "    indented code  \n"] * 4


@cache
def verbatim(kind: str, mask: bool = False) -> Tokenizer:
    return learn_tokenizer(TEXTS, kind, size=400, verbatim=True, mask=mask)


def bert() -> Tokenizer:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "##s", "run", "."]
    core = Core(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    core.decoder = decoders.WordPiece()
    core.enable_truncation(4)
    core.enable_padding(length=4)
    special_tokens = SpecialTokens.named(
        core, pad="[PAD]", unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]", bos=None
    )
    return Tokenizer.foreign(core, special_tokens=special_tokens)


def gpt2() -> Tokenizer:
    vocabulary = {char: i for i, char in enumerate([*byte_to_char(), "Ġd", "<|endoftext|>"])}
    core = Core(models.BPE(vocabulary, [("Ġ", "d")]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=False)
    return Tokenizer.foreign(core, special_tokens=SpecialTokens.named(core, bos="<|endoftext|>", eos="<|endoftext|>"))


def llama() -> Tokenizer:
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, "▁": 3, "a": 4, "b": 5, "▁a": 6}
    core = Core(models.BPE(vocabulary, [("▁", "a")], unk_token="<unk>"))
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return Tokenizer.foreign(core, special_tokens=SpecialTokens(unk=0, bos=1, eos=2))


@pytest.mark.parametrize("kind", KINDS)
def test_verbatim_keeps_every_character_of_what_it_has_seen(kind: str) -> None:
    tokenizer = verbatim(kind)
    assert (tokenizer.kind, tokenizer.verbatim, learn_tokenizer(TEXTS, kind).verbatim) == (kind, True, False)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text == tokenizer.normalise(text)
        assert len(tokenizer.word_ids(text)) == len(tokenizer.encode(text)) == len(tokenizer.spans(text))


@pytest.mark.parametrize("kind", ["bpe", "bytes", "unigram", "wordpiece"])
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
@example(" leading\r\n\r\n\ttabs \n")
@example("e\u0301 é \u2028\x00\x1c<s></s><mask>")
@example(" " * 3000 + "\n" * 3000 + "x")
def test_verbatim_gives_any_text_back(kind: str, text: str) -> None:
    assert verbatim(kind).decode(verbatim(kind).encode(text)) == text
    masked = verbatim(kind, True)
    assert masked.decode(masked.encode(text)) == text


def test_a_run_of_spaces_leaves_the_last_to_the_word() -> None:
    tokenizer = learn_tokenizer(["x\n\n  dog dog dog"] * 20, "bpe", size=300, verbatim=True)
    assert tokenizer.tokens(tokenizer.encode("\n\n  dog"))[-1] == "▁dog"
    assert tokenizer.tokens(tokenizer.encode("dog")) != tokenizer.tokens(tokenizer.encode(" dog"))


def test_lower_case_is_all_that_verbatim_changes_on_request() -> None:
    tokenizer = learn_tokenizer(["Ab\n Cd"], "chars", verbatim=True, lowercase=True)
    assert (tokenizer.decode(tokenizer.encode("Cd\n A")), tokenizer.lowercase) == ("cd\n a", True)


def test_a_verbatim_bpe_can_be_cut_anew() -> None:
    cut = BpeDropout(verbatim("bpe"), 0.5, seed=1)
    assert verbatim("bpe").decode(cut.encode(TEXTS[0], epoch=0, index=0)) == TEXTS[0]
    assert BpeDropout(verbatim("bpe"), 0.0).encode(TEXTS[0], epoch=0, index=0) == verbatim("bpe").encode(TEXTS[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keeps", [False, True])
def test_a_mask_is_the_fifth_token(kind: str, keeps: bool, tmp_path: Path) -> None:
    made = learn_tokenizer(TEXTS, kind, size=400, mask=True, verbatim=keeps)
    made.save(tmp_path / "tokenizer.json")
    for tokenizer in (made, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert (tokenizer.mask_id, tokenizer.tokens([4]), tokenizer.kind) == (4, ["<mask>"], kind)
        assert (tokenizer.verbatim, tokenizer.special_ids) == (keeps, frozenset(range(5)))
        assert 4 not in tokenizer.encode("A <mask> runs")
    assert learn_tokenizer(TEXTS, kind, size=400, verbatim=keeps).mask_id is None


def test_our_roles_and_frame() -> None:
    tokenizer = learn_tokenizer(TEXTS, "words")
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (2, 3, None)
    assert tokenizer.frame([7, 8]) == ([2, 7, 8, 3], [0, 0, 0, 0], (1,))
    assert tokenizer.frame([7, 8], [9]) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1], (1, 4))
    assert tokenizer.frame([], []).ids == [2, 3, 3]


def test_a_bert_is_framed_as_its_post_processor_says() -> None:
    tokenizer = bert()
    assert tokenizer.encode("A dogs. cat dog") == [5, 6, 7, 9, 1, 6]  # no frame, no truncation, no padding
    assert tokenizer.frame(tokenizer.encode("a dogs"), [9]) == ([2, 5, 6, 7, 3, 9, 3], [0] * 5 + [1] * 2, (1, 5))
    assert tokenizer.frame([5]).ids == [2, 5, 3]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (
        0,
        1,
        2,
        3,
        4,
    )
    assert (tokenizer.kind, tokenizer.lowercase, tokenizer.size) == ("foreign", True, 10)
    assert tokenizer.decode([2, 5, 6, 7, 3, 0]) == "a dogs"
    assert tokenizer.tokens([2, 6, 7]) == ["[CLS]", "dog", "##s"]
    assert tokenizer.word_ids("A  dogs. ") == [0, 1, 1, 1]
    assert tokenizer.spans("A  dogs. ") == [(0, 1), (3, 6), (6, 7), (7, 8)]
    assert 4 not in tokenizer.encode("[MASK]")


def test_a_gpt_has_one_token_for_both_ends_and_no_frame() -> None:
    tokenizer = gpt2()
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (257, 257, 257)
    assert (tokenizer.cls_id, tokenizer.special_tokens.pad) == (None, None)
    text = " dog\n\n  <|endoftext|> é"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert 257 not in tokenizer.encode(text)
    assert tokenizer.frame([1, 2], [3]) == ([1, 2, 3], [0, 0, 1], (0, 2))
    assert tokenizer.tokens(tokenizer.encode(" dé")) == ["▁d", "<0xC3>", "<0xA9>"]
    assert tokenizer.spans("x dog") == [(0, 1), (2, 3), (3, 4), (4, 5)]
    assert tokenizer.word_ids(" x dog") == [0, 0, 1, 1, 1]
    with pytest.raises(DataError, match=r"no token for the role 'unk'; it has: bos \(<\|endoftext\|>\), eos"):
        tokenizer.unk_id  # noqa: B018


def test_a_llama_begins_with_its_mark() -> None:
    tokenizer = llama()
    assert tokenizer.frame([4, 5]).ids == [1, 4, 5]
    assert tokenizer.frame([4, 5], [6]) == ([1, 4, 5, 1, 6], [0, 0, 0, 1, 1], (1, 4))
    assert tokenizer.decode([1, 6, 5, 2]) == "ab"
    assert tokenizer.encode("ab") == [6, 5]


def test_without_a_post_processor_roles_frame() -> None:
    tokenizer = bert()
    core = Core.from_str(tokenizer.core.to_str())
    core.post_processor = None  # type: ignore[assignment]
    assert Tokenizer.foreign(core, special_tokens=tokenizer.special_tokens).frame([5], [6]) == tokenizer.frame([5], [6])


@pytest.mark.parametrize("make", [bert, gpt2, llama])
def test_roles_survive_the_one_file(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    tokenizer, path = make(), tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["tokenizer.json"]
    assert (loaded.special_tokens, loaded.kind, loaded.size) == (tokenizer.special_tokens, "foreign", tokenizer.size)
    assert loaded.fingerprint() == tokenizer.fingerprint()
    assert loaded.frame([4], [5]) == tokenizer.frame([4], [5])
    assert loaded.encode("a dog") == tokenizer.encode("a dog")
    assert Core.from_file(str(path)).get_vocab_size() == tokenizer.size  # others still open it
    assert PreTrainedTokenizerFast(tokenizer_file=str(path))("a", add_special_tokens=False).input_ids == loaded.encode(
        "a"
    )


def test_what_is_no_role() -> None:
    core = bert().core
    with pytest.raises(UsageError, match="'cool' is not a role of a token; allowed: bos, cls"):
        SpecialTokens.named(core, cool="[CLS]")
    with pytest.raises(UsageError, match="no token of this tokenizer plays a role"):
        Tokenizer.foreign(core, special_tokens=SpecialTokens())
    with pytest.raises(UsageError, match="role 'eos' is id 99, but the tokenizer has 10 ids"):
        Tokenizer.foreign(core, special_tokens=SpecialTokens(eos=99))
    other = Tokenizer.foreign(Core.from_str(core.to_str()), special_tokens=SpecialTokens(eos=3))
    assert other.fingerprint() != bert().fingerprint()


def test_a_foreign_file_without_roles_is_not_taken_for_ours(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(bert().core.to_str())
    with pytest.raises(DataError, match="does not begin with the special tokens"):
        Tokenizer.load(path)
    description = json.loads(learn_tokenizer(TEXTS, "words").core.to_str())
    description["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFD"}]}
    path.write_text(json.dumps(description))
    with pytest.raises(DataError, match="not a tokenizer of regard's making") as caught:
        Tokenizer.load(path)
    assert caught.value.hint == "a tokenizer of another's making needs its roles: Tokenizer.foreign"
