"""A multilingual Whisper so small that a test is over at once: random weights, the real special tokens."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Core

from regard.checkpoints.foreign.hub import write_hub
from regard.checkpoints.foreign.whisper_tokens import END, START, decoding, special_tokens
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import weights_of
from regard.data.text.bytechars import byte_to_char
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.models.registry import build
from regard.models.speech_transformer import WHISPER_OPTIONS
from regard.tasks.opening import load

MULTILINGUAL, ENGLISH = 51_865, 51_864


def tokenizer_of(n_tokens: int) -> Tokenizer:
    """Bytes, pairs of letters, and names that nobody says, up to where Whisper's special tokens begin."""
    specials = special_tokens(n_tokens)
    letters = list(byte_to_char())
    pairs = [a + b for a in "abcdefghijklmnopqrstuvwxyz" for b in "abcdefghijklmnopqrstuvwxyz"]
    pieces = [*letters, *pairs]
    pieces += [f"zq{i}" for i in range(n_tokens - len(specials) - len(pieces))]
    core = Core(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[(p[0], p[1]) for p in pairs]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return Tokenizer.foreign(core, special_tokens=SpecialTokens.named(core, bos=START, eos=END))


def write_whisper(folder: Path, *, n_tokens: int = MULTILINGUAL, seed: int = 0) -> Path:
    """A folder in Hugging Face's layout, as `regard export` writes it."""
    torch.manual_seed(seed)
    tokenizer = tokenizer_of(n_tokens)
    options = WHISPER_OPTIONS | {"n_mels": 80, "n_target": n_tokens, "d_model": 16, "n_heads": 2, "d_feedforward": 24,
                                 "n_encoder_layers": 1, "n_decoder_layers": 2, "n_places": 1500, "n_positions": 48,
                                 "pad_id": tokenizer.eos_id}  # fmt: skip
    model = build("speech-transformer", options).eval()
    for tensor in weights_of(model).values():
        torch.nn.init.normal_(tensor, std=0.4)
    decode = decoding(tokenizer, n_tokens=n_tokens, n_layers=2, n_heads=2, n_positions=48)
    spec = ModelSpec("speech", "speech-transformer", options, decode=decode)
    write_hub(folder, spec, tensors=weights_of(model), tokenizer=tokenizer)
    return folder


def open_whisper(folder: Path, *, n_tokens: int = MULTILINGUAL):  # type: ignore[no-untyped-def]
    """The same, opened."""
    return load(write_whisper(folder, n_tokens=n_tokens), "cpu", precision="fp32")
