"""Sentencepiece's model files (Kudo & Richardson, 2018), read without its library: pieces with scores in a protobuf.

    marian_tokenizers(folder)     source.spm and target.spm cut the text, vocab.json says which id each piece has
    llama_tokenizer(path)         tokenizer.model: byte pairs, merged by score

A protobuf is a row of fields, each a number, a kind and a value; those that are not known are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Core

from regard.checkpoints.foreign.files import read_ids
from regard.checkpoints.foreign.pieces import scored_pieces
from regard.config.bounded import read_bytes
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError

_LARGEST = 1 << 28  # bytes of a model file
UNIGRAM, BYTE_PAIRS = 1, 2
_NORMAL, _UNKNOWN, _CONTROL, _OWN = 1, 2, 3, 4  # kinds of pieces; others are never made of text
_FAR = -1000.0  # a score for each character of a piece that this side does not have: the last resort

Value = int | float | bytes


@dataclass
class Spm:
    """What a file says: its pieces, how it was made, and how text is normalised before it is cut."""

    pieces: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    model: int = UNIGRAM
    characters: bytes = b""
    leading_space: bool = True
    single_spaces: bool = True


def read_spm(path: Path) -> Spm:
    """Read a sentencepiece model file."""
    try:
        spm = Spm()
        for number, value in _fields(read_bytes(path, most=_LARGEST, grows=20.0)):
            fields = dict(_fields(_bytes(value))) if number in (1, 2, 3) else {}
            if number == 1:
                spm.pieces.append(_bytes(fields.get(1, b"")).decode("utf-8"))
                spm.scores.append(float(fields.get(2, 0.0)))
                spm.kinds.append(int(fields.get(3, _NORMAL)))
            elif number == 2:
                spm.model = int(fields.get(3, UNIGRAM))
            elif number == 3:
                spm.characters = _bytes(fields.get(2, b""))
                spm.leading_space, spm.single_spaces = bool(fields.get(3, True)), bool(fields.get(4, True))
    except FileNotFoundError as problem:
        raise CheckpointError(f"{path}: there is no such file") from problem
    except (OSError, ValueError, IndexError, TypeError, struct.error) as problem:
        raise CheckpointError(f"{path}: not a whole sentencepiece model ({problem})") from problem
    if not spm.pieces:
        raise CheckpointError(f"{path}: there are no pieces in it")
    return spm


def marian_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target; both share the ids of vocab.json."""
    ids = read_ids(folder / "vocab.json")
    source, target = (_marian(folder / name, ids) for name in ("source.spm", "target.spm"))
    return source, target


def llama_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.model`: byte pairs with bytes for what has no piece."""
    spm = read_spm(path)
    if spm.model != BYTE_PAIRS:
        raise CheckpointError(f"{path}: byte pairs were expected (kind {BYTE_PAIRS}), not kind {spm.model}")
    ids = {piece: index for index, piece in enumerate(spm.pieces)}
    special_tokens = SpecialTokens(unk=ids.get("<unk>"), bos=ids.get("<s>"), eos=ids.get("</s>"), pad=ids.get("<pad>"))
    special = [index for index, kind in enumerate(spm.kinds) if kind in (_UNKNOWN, _CONTROL)]
    return scored_pieces(
        spm.pieces, spm.scores, special_tokens=special_tokens, special=special, leading_space=spm.leading_space
    )


def _marian(path: Path, ids: Mapping[str, int]) -> Tokenizer:
    spm = read_spm(path)
    if spm.model != UNIGRAM:
        raise CheckpointError(f"{path}: a unigram model was expected (kind {UNIGRAM}), not kind {spm.model}")
    for token in ("</s>", "<unk>", "<pad>"):
        if token not in ids:
            raise CheckpointError(f"{path.parent / 'vocab.json'}: {token} is missing")
    rated = zip(spm.pieces, spm.scores, spm.kinds, strict=True)
    scores = {piece: score for piece, score, kind in rated if kind in (_NORMAL, _OWN)}
    by_id = {index: piece for piece, index in ids.items()}
    pieces = [by_id.get(index, "") for index in range(max(by_id) + 1)]
    vocabulary = [(piece, scores.get(piece, _FAR * max(1, len(piece)))) for piece in pieces]
    core = Core(models.Unigram(vocabulary, ids["<unk>"], False))
    core.normalizer = _normalizer(spm)
    prepend = "always" if spm.leading_space else "never"
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    core.decoder = decoders.Metaspace(prepend_scheme=prepend)
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", ids["</s>"])]
    )
    languages = [piece for piece in pieces if piece.startswith(">>") and piece.endswith("<<")]
    core.add_tokens([AddedToken(piece, normalized=False, rstrip=True) for piece in languages])
    special_tokens = SpecialTokens(pad=ids["<pad>"], bos=ids["<pad>"], eos=ids["</s>"], unk=ids["<unk>"])
    return Tokenizer.foreign(core, special_tokens=special_tokens)


def _normalizer(spm: Spm) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(spm.characters)] if spm.characters else []
    if spm.single_spaces:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    return normalizers.Sequence(steps)


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field holds a number where bytes were expected")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a protobuf message: their numbers and values."""
    offset = 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, offset = _varint(data, offset)
            yield number, value
            continue
        if kind == 2:
            size, offset = _varint(data, offset)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        held, offset = data[offset : offset + size], offset + size
        if len(held) < size:
            raise ValueError("it ends in the middle of a field")
        yield number, held if kind == 2 else struct.unpack("<d" if kind == 1 else "<f", held)[0]


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset
    raise ValueError("a number does not end")
