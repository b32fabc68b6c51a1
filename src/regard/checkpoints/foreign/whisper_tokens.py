"""Whisper's pieces and marks: GPT-2's byte pairs from a list of ranks, and the special tokens that follow them.

    gpt2.tiktoken            of the English models        multilingual.tiktoken     of all others

Each line is a piece in base64 and its rank, which is its id; a pair of pieces joins if their union has a rank, the
lowest first. The special tokens are not in the file: they are always the same, in this order, after the last rank.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Core

from regard.checkpoints.foreign.vocabularies import read_tokenizer
from regard.config.bounded import read_bytes
from regard.data.text.bytechars import byte_to_char
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError

ENGLISH_TOKENS = 50_256  # pieces of the English vocabulary; the multilingual one has one more
ENGLISH_VOCABULARY = 51_864
_LARGEST = 1 << 28  # bytes of a list of ranks
PATIENCE = 1.0  # of Whisper's own beam
_BEFORE_LANGUAGES = 51_765  # a vocabulary without its languages
LANGUAGES = (
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv", "it", "id", "hi", "fi",
    "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no", "th", "ur", "hr", "bg", "lt", "la", "mi", "ml",
    "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn", "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs",
    "kk", "sq", "sw", "gl", "mr", "pa", "si", "km", "sn", "yo", "so", "af", "oc", "ka", "be", "tg", "sd", "gu", "am",
    "yi", "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln",
    "ha", "ba", "jw", "su", "yue",
)  # fmt: skip
START, END, SILENCE, PLAIN = "<|startoftranscript|>", "<|endoftext|>", "<|nospeech|>", "<|notimestamps|>"
_UNSAID = (START, "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", SILENCE)
# What Whisper is kept from writing, because subtitles have it and speech does not.
_SYMBOLS = (
    *"\"#()*+/:;<=>@[\\]^_`{|}~「」『』",
    "<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", '("', "((", "))", "(((", ")))", "[[", "]]", "{{", "}}",
    "♪♪", "♪♪♪",
)  # fmt: skip
_NOTES = "♩♪♫♬♭♮♯"
# Heads of tiny.en whose attention follows the sound, as published; of others, all heads of the upper half.
_TINY_EN = ("1.0", "2.0", "2.5", "3.0", "3.1", "3.2", "3.3", "3.4")


def special_tokens(n_tokens: int) -> list[str]:
    """The special tokens of a vocabulary of that size, in the order of their ids."""
    n_languages = n_tokens - _BEFORE_LANGUAGES - (n_tokens > ENGLISH_VOCABULARY)
    if not 0 < n_languages <= len(LANGUAGES):
        raise CheckpointError(f"a vocabulary of {n_tokens} tokens is none of Whisper's")
    languages = [f"<|{code}|>" for code in LANGUAGES[:n_languages]]
    tasks = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", SILENCE, PLAIN]
    return [END, START, *languages, *tasks, *(f"<|{hundredth / 50:.2f}|>" for hundredth in range(1501))]


def prompt_for(n_tokens: int) -> list[str]:
    """The tokens that every text begins with: of the multilingual models, those of English speech written down."""
    return [START, PLAIN] if n_tokens <= ENGLISH_VOCABULARY else [START, "<|en|>", "<|transcribe|>", PLAIN]


def language_for(n_tokens: int) -> dict[str, str]:
    """The language that is listened for where none is asked for: of several, the likeliest."""
    return {} if n_tokens <= ENGLISH_VOCABULARY else {"language": "auto"}


def find_tokenizer(path: Path, *, n_tokens: int) -> Tokenizer:
    """The tokenizer beside OpenAI's file: a list of ranks, or Hugging Face's files."""
    folder = path.parent
    name = "gpt2.tiktoken" if n_tokens <= ENGLISH_VOCABULARY else "multilingual.tiktoken"
    if (folder / name).exists():
        return read_ranks(folder / name, n_tokens=n_tokens)
    if (folder / "tokenizer.json").exists() or (folder / "vocab.json").exists():
        return read_tokenizer(folder, {"model_type": "whisper"})
    raise CheckpointError(
        f"{path}: its vocabulary, {name}, is not beside it",
        hint=f"{name} comes with OpenAI's package openai-whisper and with mlx-whisper; `make weights` puts it there",
    )


def read_ranks(path: Path, *, n_tokens: int) -> Tokenizer:
    """The tokenizer of a list of ranks, with Whisper's special tokens behind it."""
    ranks = _ranks(path)
    specials = special_tokens(n_tokens)
    if len(ranks) + len(specials) != n_tokens:
        raise CheckpointError(f"{path}: holds {len(ranks):,} pieces, which is not what a model of {n_tokens:,} has")
    letters = byte_to_char()
    spelled = {piece: "".join(letters[byte] for byte in piece) for piece in ranks}
    merges = [tuple(spelled[half] for half in _halves(piece, ranks)) for piece in sorted(ranks, key=ranks.__getitem__)
              if len(piece) > 1]  # fmt: skip
    core = Core(models.BPE(vocab={spelled[piece]: rank for piece, rank in ranks.items()}, merges=merges))  # type: ignore[arg-type]
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return Tokenizer.foreign(core, special_tokens=SpecialTokens.named(core, bos=START, eos=END))


def _ranks(path: Path) -> dict[bytes, int]:
    try:
        lines = [line.split() for line in read_bytes(path, most=_LARGEST, grows=20.0).splitlines() if line.strip()]
        ranks = {base64.b64decode(piece, validate=True): int(rank) for piece, rank in lines}
    except (OSError, ValueError, binascii.Error) as problem:
        raise CheckpointError(f"{path}: not a list of pieces and ranks ({problem})") from problem
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise CheckpointError(f"{path}: its ranks are not 0, 1, 2, …", hint="it may have been cut short")
    return ranks


def _halves(piece: bytes, ranks: Mapping[bytes, int]) -> Sequence[bytes]:
    """The two pieces whose union this one is: what is left when all pairs of lower rank have joined."""
    parts = [bytes([byte]) for byte in piece]
    while len(parts) > 2:
        joined = [(ranks.get(parts[i] + parts[i + 1], len(ranks)), i) for i in range(len(parts) - 1)]
        rank, i = min(joined)
        if rank >= ranks[piece]:
            raise CheckpointError(f"the piece {piece!r} is not the union of two others")
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def unspoken(tokenizer: Tokenizer) -> list[int]:
    """Ids that Whisper is kept from writing: symbols that are not speech, and marks that belong to the prompt."""
    found = {tokenizer.encode(" -")[0], tokenizer.encode(" '")[0]}
    for symbol in (*_SYMBOLS, *_NOTES):
        for ids in (tokenizer.encode(symbol), tokenizer.encode(" " + symbol)):
            if len(ids) == 1 or symbol in _NOTES:
                found.add(ids[0])
    special = {tokenizer.core.token_to_id(token) for token in _UNSAID}
    return sorted(found | {int(mark) for mark in special if mark is not None})


def decoding(tokenizer: Tokenizer, *, n_tokens: int, n_layers: int, n_heads: int, n_positions: int) -> dict[str, Any]:
    """How Whisper is decoded: what begins a text, what may not, and which heads tell the time."""
    tiny = (n_tokens, n_layers, n_heads) == (ENGLISH_VOCABULARY, 4, 6)
    upper = [f"{layer}.{head}" for layer in range(n_layers // 2, n_layers) for head in range(n_heads)]
    return {
        "prompt": prompt_for(n_tokens),
        **language_for(n_tokens),
        "patience": PATIENCE,
        "fallback": "long",
        "not_first": [tokenizer.encode(" ")[0], tokenizer.eos_id],
        "banned": unspoken(tokenizer),
        "heads": list(_TINY_EN) if tiny else upper,
        "max_length": n_positions // 2,
    }
