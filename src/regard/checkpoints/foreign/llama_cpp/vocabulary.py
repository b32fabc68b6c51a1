"""A tokenizer as a GGUF file holds it: a list of pieces with their types, and merges or scores.

    gpt2     byte pairs: pieces in GPT-2's byte alphabet, merges in order, and the name of a pattern that parts words
    llama    sentencepiece's byte pairs: scores say which union comes first; ▁ stands for a space

llama.cpp knows patterns by name and no others. The one of our own byte pairs it does not have; GPT-2's is the nearest,
and gives the same pieces wherever ours has no merge that crosses a border of theirs or lies across one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.checkpoints.foreign.pieces import LLAMA3_SPLIT, listed_pieces
from regard.data.text.bytechars import byte_to_char
from regard.data.text.special_tokens import describe
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)  # the types of pieces
_NEAR = (
    "llama.cpp parts words a little otherwise than this tokenizer: in numbers of more than three digits, after an "
    "apostrophe and in letters with combining marks, a text may get other pieces"
)
_UNKNOWN = "llama.cpp leaves out characters that the tokenizer does not have, where regard reads <unk>"


@dataclass(frozen=True)
class Vocabulary:
    """What the file says of its tokenizer; `remark` is what differs from ours, if anything does."""

    model: str
    pieces: list[str]
    types: list[int]
    split: str | None = None
    merges: list[str] = field(default_factory=list)  # never empty where there is a split: llama.cpp wants some
    scores: list[float] | None = None
    leading_space: bool = False
    remark: str | None = None


def vocabulary_of(tokenizer: Tokenizer, n_rows: int, *, origin: str) -> Vocabulary:
    """The tokenizer in llama.cpp's terms, a piece for each of `n_rows` embeddings."""
    described = describe(tokenizer.core)
    model, steps = described["model"], _steps(described.get("normalizer"))
    pieces = listed_pieces(tokenizer, n_rows)
    types = _types(tokenizer, n_rows)
    if tokenizer.kind == "chars" and not steps:
        none = _no_merges(tokenizer)
        return Vocabulary("gpt2", _spelled(pieces, types, origin), types, split="gpt-2", merges=none, remark=_UNKNOWN)
    if model["type"] == "BPE" and not steps and '"ByteLevel"' in str(described.get("decoder")).replace("'", '"'):
        split, remark = _split(described.get("pre_tokenizer"), merged=bool(model["merges"]), origin=origin)
        return Vocabulary(
            "gpt2", pieces, types, split=split, merges=_merges(model) or _no_merges(tokenizer), remark=remark
        )
    if model["type"] == "BPE" and _is_sentencepiece(described):
        types = [
            BYTE if kind == NORMAL and _is_byte(piece) else kind for piece, kind in zip(pieces, types, strict=True)
        ]
        scores = _scores(pieces, _merges(model))
        return Vocabulary("llama", pieces, types, scores=scores, leading_space="Prepend" in steps)
    kind = tokenizer.kind if tokenizer.kind != "foreign" else f"foreign one of the make {model['type']}"
    normalised = f", and its text is normalised first ({', '.join(steps)})" if steps else ""
    raise CheckpointError(
        f"{origin}: llama.cpp has no tokenizer like this {kind}{normalised}",
        hint="train with tokenizer.kind=bpe and without tokenizer.lowercase",
    )


def _steps(normalizer: dict[str, Any] | None) -> list[str]:
    if normalizer is None:
        return []
    return [part["type"] for part in normalizer.get("normalizers", [normalizer])]


def _types(tokenizer: Tokenizer, n_rows: int) -> list[int]:
    added = set(tokenizer.core.get_added_tokens_decoder())
    known = [tokenizer.core.id_to_token(index) is not None for index in range(n_rows)]
    return [
        UNUSED
        if not known[index]
        else CONTROL
        if index in tokenizer.special_ids
        else USER
        if index in added
        else NORMAL
        for index in range(n_rows)
    ]


def _split(pattern: dict[str, Any] | None, *, merged: bool, origin: str) -> tuple[str, str | None]:
    """llama.cpp's name of the pattern that parts words, and what differs."""
    parts = (pattern or {}).get("pretokenizers", [pattern] if pattern else [])
    by_regex = bool(parts) and parts[-1]["type"] == "ByteLevel" and parts[-1].get("use_regex", True)
    if any(part.get("add_prefix_space") for part in parts):
        raise CheckpointError(f"{origin}: its tokenizer puts a space before every text, which llama.cpp does not")
    if not merged or ([part["type"] for part in parts] == ["ByteLevel"] and by_regex):
        return "gpt-2", None
    if [part["type"] for part in parts] == ["Digits", "ByteLevel"] and by_regex and parts[0]["individual_digits"]:
        return "smollm", None
    if [part["type"] for part in parts] == ["Split", "ByteLevel"] and not by_regex:
        return ("llama-bpe", None) if parts[0]["pattern"].get("Regex") == LLAMA3_SPLIT else ("gpt-2", _NEAR)
    raise CheckpointError(f"{origin}: its tokenizer parts words by a pattern that llama.cpp does not have")


def _merges(model: dict[str, Any]) -> list[str]:
    """Pairs as "left right"; the library wrote them so before it wrote pairs."""
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]


def _no_merges(tokenizer: Tokenizer) -> list[str]:
    """A merge of two special pieces, which no text is spelt in."""
    special = str(tokenizer.core.id_to_token(tokenizer.pad_id))
    return [f"{special} {special}"]


def _scores(pieces: list[str], merges: list[str]) -> list[float]:
    """Scores that join in the order of the merges: the earlier a piece can be made, the better; others are last."""
    ranks: dict[str, int] = {}
    for merge in merges:
        ranks.setdefault(merge.replace(" ", "", 1), len(ranks))
    return [-float(ranks.get(piece, len(ranks))) for piece in pieces]


def _is_sentencepiece(described: dict[str, Any]) -> bool:
    kinds = {"Prepend", "Replace"}
    return bool(described["model"].get("byte_fallback")) and {*_steps(described.get("normalizer"))} <= kinds


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def _spelled(pieces: list[str], types: list[int], origin: str) -> list[str]:
    """Characters in the byte alphabet; one of several bytes would need merges that it does not have."""
    wide = [piece for piece, kind in zip(pieces, types, strict=True) if kind == NORMAL and not piece.isascii()]
    if wide:
        raise CheckpointError(
            f"{origin}: a GGUF file holds characters by their bytes, and {wide[0]!r} is several",
            hint="train with tokenizer.kind=bpe, or tokenizer.kind=bytes",
        )
    return [byte_to_char()[ord(piece)] if kind == NORMAL else piece for piece, kind in zip(pieces, types, strict=True)]
