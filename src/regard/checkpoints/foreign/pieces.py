"""Tokenizers that come as a bare list of pieces, inside a weight file or beside it, as llama2.c and GGUF have them.

scored_pieces     sentencepiece's byte pairs: of two neighbours, those whose union scores best are joined first;
                  ▁ stands for a space, and what has no piece is spelt in bytes, <0x00> to <0xFF>
merged_pieces     GPT-2's byte pairs: the merges are listed in order, and a pattern parts words first
listed_pieces     the way back: a bare list from a tokenizer, as CTranslate2 and llama.cpp keep it
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Core

from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Which pattern parts words, by the name that GGUF has for it.
_SPLITS: Mapping[str, str] = {
    "gpt-2": "gpt2",
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r"), "digits"),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), "llama3"),
}


def scored_pieces(
    pieces: Sequence[str],
    scores: Sequence[float],
    *,
    special_tokens: SpecialTokens,
    special: Collection[int] = (),
    bos: bool = True,
    leading_space: bool = True,
) -> Tokenizer:
    """A tokenizer of sentencepiece's kind; `special` pieces are never made of text, `bos` begins every text."""
    vocabulary = _vocabulary(pieces)
    apart = {*special, *special_tokens.present().values()}
    ordinary = [index for index, piece in enumerate(pieces) if index not in apart and not _is_byte(piece)]
    merges = _merges([pieces[index] for index in sorted(ordinary, key=lambda index: -scores[index])])
    core = Core(
        models.BPE(
            vocab=vocabulary,
            merges=merges,
            unk_token=None if special_tokens.unk is None else pieces[special_tokens.unk],
            fuse_unk=True,
            byte_fallback="<0x00>" in vocabulary,
        )
    )
    spaces = normalizers.Replace(" ", "▁")
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if leading_space else spaces
    stripped = [decoders.Strip(" ", 1, 0)] if leading_space else []
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *stripped])
    return _finished(core, pieces, special_tokens=special_tokens, special=special, bos=bos)


def merged_pieces(
    pieces: Sequence[str],
    merges: Sequence[str],
    *,
    split: str,
    special_tokens: SpecialTokens,
    special: Collection[int] = (),
    bos: bool = False,
) -> Tokenizer:
    """A tokenizer of GPT-2's kind; `split` is GGUF's name of the pattern that parts words."""
    if split not in _SPLITS:
        raise CheckpointError(f"words are parted as {split!r} says, which regard does not know; it knows {_known()}")
    kind = _SPLITS[split]
    apart = {pieces[index] for index in special}  # a merge of these is there for llama.cpp to find one
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges) if left not in apart]
    core = Core(models.BPE(vocab=_vocabulary(pieces), merges=pairs, ignore_merges=kind == "llama3"))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind != "llama3")
    before = {"digits": pre_tokenizers.Digits(individual_digits=True),
              "llama3": pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated")}  # fmt: skip
    core.pre_tokenizer = pre_tokenizers.Sequence([before[kind], words]) if kind in before else words
    core.decoder = decoders.ByteLevel()
    return _finished(core, pieces, special_tokens=special_tokens, special=special, bos=bos)


def listed_pieces(tokenizer: Tokenizer, n_rows: int) -> list[str]:
    """The way back: what stands for each id. Rows that only fill a matrix up get names that no text spells."""
    known = [tokenizer.core.id_to_token(index) for index in range(n_rows)]
    taken, pieces = {piece for piece in known if piece is not None}, []
    for index, piece in enumerate(known):
        name = f"<unused {index}>"
        while piece is None and name in taken:
            name = f"<{name}>"
        pieces.append(name if piece is None else piece)
    return pieces


def _finished(
    core: Core, pieces: Sequence[str], *, special_tokens: SpecialTokens, special: Collection[int], bos: bool
) -> Tokenizer:
    core.add_special_tokens([AddedToken(pieces[i], special=True, normalized=False) for i in sorted(special)])
    if bos and special_tokens.bos is not None:
        begin = pieces[special_tokens.bos]
        core.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A $B", special_tokens=[(begin, special_tokens.bos)]
        )
    return Tokenizer.foreign(core, special_tokens=special_tokens)


def _vocabulary(pieces: Sequence[str]) -> dict[str, int]:
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    if len(vocabulary) != len(pieces):
        twice = next(piece for index, piece in enumerate(pieces) if vocabulary[piece] != index)
        raise CheckpointError(f"the vocabulary holds {twice!r} twice, and then its id is not known")
    return vocabulary


def _merges(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Every way to join two pieces into a third, the best third first."""
    known = set(pieces)
    merges = []
    for piece in pieces:
        halves = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        merges += [(left, right) for left, right in halves if left in known and right in known]
    return merges


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def _known() -> str:
    return ", ".join(repr(name) for name in _SPLITS)
