"""llama2.c's files, version 0: seven whole numbers, then every weight in single precision, one after another.

    int32 × 7    d_model, d_feedforward, n_layers, n_heads, n_kv_heads, n_tokens, n_positions
    float32      embeddings, then layer by layer within each kind of weight, as `_kinds` lists them

A negative n_tokens says that the output has a matrix of its own, which comes last. Rotary features pair neighbours, so
queries and keys are re-ordered into halves. The tokenizer lies beside it: `tokenizer.bin`, or `tok512.bin` for a
vocabulary of 512.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.checkpoints.foreign.llama import BUILD, read_neighboured
from regard.checkpoints.foreign.pieces import scored_pieces
from regard.checkpoints.spec import Pretrained
from regard.config.bounded import open_regular, read_bytes, require
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, UsageError
from regard.models.gpt import GPTConfig
from regard.models.registry import configure

_LARGEST_TOKENIZER = 1 << 28  # bytes
_HEADER = struct.Struct("<7i")
_MAGIC = 0x616B3432  # what later versions begin with
_ROLES = SpecialTokens(unk=0, bos=1, eos=2)
_SPECIALS = ("<unk>", "<s>", "</s>")
_SPELLED = {
    "tokens": "tok_embeddings.weight", "norm": "norm.weight", "output": "output.weight",
    "layer": "layers.{i}.", "query": "attention.wq", "key": "attention.wk", "value": "attention.wv",
    "out": "attention.wo", "gate": "feed_forward.w1", "up": "feed_forward.w3", "down": "feed_forward.w2",
    "attention_norm": "attention_norm", "feedforward_norm": "ffn_norm",
}  # fmt: skip


def open_llama2c(path: Path | str, *, tokenizer: Path | str | None = None) -> Pretrained:
    """A llama2.c model in our terms, with the tokenizer given or the one that lies beside it, if any."""
    path = Path(path)
    options = read_options(path)
    config = check_size(path, options)
    model = read_neighboured(path, options, _read_weights(path, config), spelled=_SPELLED)
    beside = tokenizer or tokenizer_beside(path, config.n_tokens)
    return replace(model, tokenizer=read_llama2c_tokenizer(beside, n_tokens=config.n_tokens) if beside else None)


def read_llama2c_tokenizer(path: Path | str, *, n_tokens: int) -> Tokenizer:
    """The pieces of a `tokenizer.bin`, each with its score; spaces stand in it as they are."""
    data = _bytes(path)
    pieces, scores, at = list[str](), list[float](), 4  # first comes the length of the longest piece
    try:
        for _ in range(n_tokens):
            score, length = struct.unpack_from("<fi", data, at)
            if not 0 <= length <= len(data) - at - 8:
                raise ValueError(f"a piece of {length:,} bytes")
            pieces.append(data[at + 8 : at + 8 + length].decode("utf-8").replace(" ", "▁"))
            scores.append(score)
            at += 8 + length
    except (struct.error, ValueError) as problem:
        raise CheckpointError(f"{path}: not a llama2.c tokenizer of {n_tokens} pieces ({problem})") from problem
    if at != len(data):
        raise CheckpointError(f"{path}: {len(data) - at} bytes are left behind the {n_tokens} pieces of the model")
    pieces[: len(_SPECIALS)] = _SPECIALS  # the file has line breaks around them, for its own printing
    return scored_pieces(pieces, scores, special_tokens=_ROLES)


def read_options(path: Path) -> dict[str, Any]:
    """What the numbers at the beginning of a file say of its model."""
    head = _bytes(path, first=_HEADER.size)
    numbers = _HEADER.unpack(head) if len(head) == _HEADER.size else (0,) * 7
    if numbers[0] == _MAGIC:
        raise CheckpointError(
            f"{path}: a llama2.c file of version {numbers[1]}; regard reads version 0",
            hint="export the model anew with --version 0",
        )
    d_model, d_feedforward, n_layers, n_heads, n_kv_heads, n_tokens, n_positions = numbers
    plausible = min(numbers[:5]) > 0 and n_tokens != 0 and n_positions > 0 and d_model % max(1, n_heads) == 0
    if not plausible or n_heads % n_kv_heads:
        raise CheckpointError(f"{path}: not a llama2.c file: it begins with {', '.join(map(str, numbers))}")
    sizes = {"d_model": d_model, "d_feedforward": d_feedforward, "n_layers": n_layers, "n_heads": n_heads}
    rest = {"n_kv_heads": n_kv_heads, "n_tokens": abs(n_tokens), "n_positions": n_positions, "tied": n_tokens > 0}
    return {**BUILD, **sizes, **rest, "norm_epsilon": 1e-5, "pad_id": 2}


def _kinds(config: GPTConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every kind of weight in the file's order, and the shape of one layer's; an empty name is skipped."""
    D, F, V = config.d_model, config.d_feedforward or 0, config.n_tokens
    E = D // config.n_heads
    keys = (config.n_kv_heads or config.n_heads) * E
    yield "tok_embeddings", (V, D)
    yield "layers.{i}.attention_norm", (D,)
    yield "layers.{i}.attention.wq", (D, D)
    yield "layers.{i}.attention.wk", (keys, D)
    yield "layers.{i}.attention.wv", (keys, D)
    yield "layers.{i}.attention.wo", (D, D)
    yield "layers.{i}.ffn_norm", (D,)
    yield "layers.{i}.feed_forward.w1", (F, D)
    yield "layers.{i}.feed_forward.w2", (D, F)
    yield "layers.{i}.feed_forward.w3", (F, D)
    yield "norm", (D,)
    yield "", (2, config.n_positions, E // 2)  # cosines and sines, which follow from the positions
    if not config.tied:
        yield "output", (V, D)


def check_size(path: Path, options: Mapping[str, Any]) -> GPTConfig:
    """The config that a file begins with, if the file is as long as its model's weights."""
    try:
        config: GPTConfig = configure("gpt", **options)
    except UsageError as problem:
        raise CheckpointError(f"{path}: {problem}", hint=problem.hint) from problem
    needed = _HEADER.size + 4 * sum(math.prod(shape) for _, shape in _stacked(config))
    if path.stat().st_size != needed:
        raise CheckpointError(
            f"{path}: {path.stat().st_size} bytes, and the model that it begins with has {needed}",
            hint="it may have been cut short while being copied, or it is no llama2.c file",
        )
    return config


def _stacked(config: GPTConfig) -> list[tuple[str, tuple[int, ...]]]:
    """Every kind of weight, and the shape of all layers' together."""
    return [(name, (config.n_layers if "{i}" in name else 1, *shape)) for name, shape in _kinds(config)]


def _read_weights(path: Path, config: GPTConfig) -> dict[str, Tensor]:
    kinds = _stacked(config)
    require(path.stat().st_size, f"{path}: its weights")
    numbers = torch.from_numpy(np.fromfile(path, dtype="<f4", offset=_HEADER.size))
    parts = numbers.split([math.prod(shape) for _, shape in kinds])
    tensors = {}
    for (name, shape), part in zip(kinds, parts, strict=True):
        for layer, tensor in enumerate(part.view(shape) if name else ()):
            tensors[name.replace("{i}", str(layer)) + ".weight"] = tensor
    return tensors


def _bytes(path: Path | str, *, first: int | None = None) -> bytes:
    """The bytes of a file, all or the first of them."""
    try:
        if first is None:
            return read_bytes(path, most=_LARGEST_TOKENIZER)
        with open_regular(path) as file:
            return file.read(first)
    except ValueError as problem:
        raise CheckpointError(f"{path}: not a llama2.c tokenizer ({problem})") from problem
    except OSError as problem:
        raise CheckpointError(f"{path}: cannot be read ({problem.strerror or problem})") from problem


def tokenizer_beside(path: Path, n_tokens: int) -> Path | None:
    """The tokenizer that lies beside a file, if any."""
    names = (f"tok{n_tokens}.bin", "tokenizer.bin")
    return next((path.with_name(name) for name in names if path.with_name(name).exists()), None)
