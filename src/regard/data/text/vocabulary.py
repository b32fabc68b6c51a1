"""Learning a tokenizer: which pieces, how many, from which texts.

The texts are streamed through the `tokenizers` library, which keeps counts of words, not the texts. The parts (how to
normalise, split, spell and join) are fixed by the kind; only the pieces are learnt. The same texts give the same
tokenizer, except for unigram, whose trainer in the library sums in no fixed order. A verbatim tokenizer learns pieces
for line breaks and runs of spaces as well, so give it the texts as they are.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Core

from regard.config.data import LearntTokenizer
from regard.data.text.bytechars import byte_to_char
from regard.data.text.properties import EACH_CHARACTER
from regard.data.text.tokenizers import BYTE_KINDS, KINDS, MASK, SPECIALS, Tokenizer
from regard.errors import DataError, UsageError

# A word with its space, a few digits, or a run of anything else; the bounds keep the work linear in the text's length.
_SUBWORD_SPLIT = r" ?[\p{L}\p{M}]{1,64}| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]{1,64}"
_WORD_SPLIT = r" ?[\p{L}\p{M}]+(?:['’\-][\p{L}\p{M}]+)*| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]"
# Verbatim text has whitespace of its own: a run of it, but for the one space that belongs to the word after it.
_SPACE_SPLIT = r"|\s{1,64}(?!\S)|\s{1,64}"
_WHITESPACE = r"[\s\x1c-\x1f]+"  # what str.split() splits on
_LONGEST = 1024  # bytes a subword split can have: 64 characters of 4 bytes, and its space, with room to spare


def learn_tokenizer(
    texts: Iterable[str],
    kind: str = "bpe",
    *,
    size: int = 8000,
    lowercase: bool = False,
    min_frequency: int = 1,
    verbatim: bool = False,
    mask: bool = False,
) -> Tokenizer:
    """Learn the pieces of a tokenizer from texts.

    `size` counts everything, special tokens included, and is an upper bound: a small corpus may fill less. `bytes`
    always has 260, and one more with a mask. `min_frequency` leaves out what is rarer (for bpe and wordpiece: merges;
    unigram has no such notion). `verbatim` keeps every character, line breaks and spaces included, as language models
    need it; `mask` adds the special token <mask>.
    """
    if kind not in KINDS:
        raise UsageError(f"tokenizer kind '{kind}' is not known; allowed: {', '.join(KINDS)}")
    if min_frequency < 1:
        raise UsageError(f"min_frequency is {min_frequency}, at least 1 is needed")
    specials = (*SPECIALS, MASK) if mask else SPECIALS
    if kind == "bytes":
        core = _core(kind, _byte_model(specials), lowercase=lowercase, verbatim=verbatim)
        core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
        return Tokenizer(core)  # the other kinds get their special tokens from the trainer
    _check_size(size, len(specials) + (len(byte_to_char()) if kind in BYTE_KINDS else 1), what=f"a {kind} tokenizer")
    core = _core(kind, _empty_model(kind), lowercase=lowercase, verbatim=verbatim)
    counted = _Counted(texts)
    limit = size if kind != "chars" else 2**21  # all of Unicode: too many characters is an error, not a cut
    trainer = _trainer(kind, size=limit, min_frequency=min_frequency, specials=specials)
    core.train_from_iterator(iter(counted), trainer=trainer)
    if not counted.count:
        raise DataError("no text to learn a tokenizer from", hint="every line was empty, or there was none")
    _check_size(size, core.get_vocab_size() if kind == "chars" else 0, what="the alphabet of these texts")
    return Tokenizer(_with_short_scores(core) if kind == "unigram" else core)


def learn_pieces(
    texts: Iterable[str], pieces: LearntTokenizer, *, verbatim: bool = False, mask: bool = False
) -> Tokenizer:
    """Learn a tokenizer as a `[tokenizer]` section describes it."""
    section: dict[str, Any] = {name: getattr(pieces, name) for name in ("kind", "size", "lowercase", "min_frequency")}
    return learn_tokenizer(texts, **section, verbatim=verbatim, mask=mask)


def _with_short_scores(core: Core) -> Core:
    """Scores of six decimals: longer ones come back from the file a last digit off, and a copy would not be equal."""
    description = json.loads(core.to_str())
    description["model"]["vocab"] = [[piece, round(score, 6)] for piece, score in description["model"]["vocab"]]
    return Core.from_str(json.dumps(description))


def _check_size(size: int, needed: int, *, what: str) -> None:
    if size < needed:
        message = f"tokenizer size {size} is too small: {what} needs at least {needed} (special tokens included)"
        raise UsageError(message, hint="raise the size, or min_frequency for chars")


class _Counted:
    """Passes texts on and counts those that hold anything."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.count = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.count += bool(text.strip())
            yield text


def _core(kind: str, model: Any, *, lowercase: bool, verbatim: bool) -> Core:
    core = Core(model)
    if verbatim:
        core.normalizer = normalizers.Sequence([normalizers.Lowercase()] if lowercase else [])
    else:
        core.normalizer = _normalizer(lowercase=lowercase, leading_space=kind not in ("chars", "bytes"))
    core.pre_tokenizer = _pre_tokenizer(kind, spaces=_SPACE_SPLIT if verbatim else "")
    core.decoder = _decoder(kind, leading_space=not verbatim and kind not in ("chars", "bytes"))
    return core


def _normalizer(*, lowercase: bool, leading_space: bool) -> Any:
    steps: list[Any] = [normalizers.Lowercase()] if lowercase else []
    steps += [normalizers.NFC(), normalizers.Replace(Regex(_WHITESPACE), " "), normalizers.Strip()]
    return normalizers.Sequence(steps + ([normalizers.Prepend(" ")] if leading_space else []))


def _pre_tokenizer(kind: str, *, spaces: str) -> Any:
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if kind == "bytes":
        return spelled
    if kind == "chars":
        return pre_tokenizers.Split(Regex(EACH_CHARACTER), "isolated")
    if kind == "words":
        return pre_tokenizers.Split(Regex(_WORD_SPLIT + spaces), "isolated")
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(_SUBWORD_SPLIT + spaces), "isolated"), spelled])


def _decoder(kind: str, *, leading_space: bool) -> Any:
    joined = decoders.ByteLevel() if kind in BYTE_KINDS else decoders.Fuse()
    return decoders.Sequence([joined, decoders.Strip(" ", 1, 0)]) if leading_space else joined


def _empty_model(kind: str) -> Any:
    if kind == "bpe":
        return models.BPE()
    if kind == "unigram":
        return models.Unigram()
    if kind == "wordpiece":
        return models.WordPiece(unk_token=SPECIALS[1], continuing_subword_prefix="", max_input_chars_per_word=_LONGEST)
    return models.WordLevel(unk_token=SPECIALS[1])


def _byte_model(specials: Sequence[str]) -> Any:
    """The ids after the special tokens are the bytes 0 to 255, in order."""
    vocabulary = {piece: index for index, piece in enumerate((*specials, *byte_to_char()))}
    return models.BPE(vocab=vocabulary, merges=[])


def _trainer(kind: str, *, size: int, min_frequency: int, specials: Sequence[str]) -> Any:
    options: dict[str, Any] = {"vocab_size": size, "special_tokens": list(specials), "show_progress": False}
    alphabet = list(byte_to_char())
    if kind == "unigram":
        return trainers.UnigramTrainer(**options, unk_token=SPECIALS[1], initial_alphabet=alphabet)
    options["min_frequency"] = min_frequency
    if kind == "bpe":
        return trainers.BpeTrainer(**options, initial_alphabet=alphabet)
    if kind == "wordpiece":
        return trainers.WordPieceTrainer(**options, initial_alphabet=alphabet, continuing_subword_prefix="")
    return trainers.WordLevelTrainer(**options)
