"""GGUF, llama.cpp's files: metadata with hyper-parameters and tokenizer, and weights that may be quantised.

The `gguf` package reads and dequantises them; here they get our names. Architecture `gpt2` is known, and `llama`, which
is what Llama and its relatives (Mistral, SmolLM, TinyLlama, …) are stored as. llama.cpp pairs neighbouring
rotary features, so queries and keys are re-ordered into halves.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import Stretch
from regard.attention.positions import frequencies
from regard.checkpoints.foreign.family import TheirConfig, understood
from regard.checkpoints.foreign.gguf_layout import check_layout
from regard.checkpoints.foreign.gpt import TASK, pad_id_of
from regard.checkpoints.foreign.llama import BUILD, read_neighboured
from regard.checkpoints.foreign.llama_cpp.gpt2 import gpt2_names, gpt2_options
from regard.checkpoints.foreign.pieces import merged_pieces, scored_pieces
from regard.checkpoints.foreign.stored_blocks import StoredBlocks
from regard.checkpoints.foreign.vocabularies import ROLES
from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, EnvironmentProblem
from regard.layers.block_weights import FORMATS

ARCHITECTURES = ("llama", "gpt2")
SPELLED = {
    "tokens": "token_embd.weight", "norm": "output_norm.weight", "output": "output.weight", "layer": "blk.{i}.",
    "query": "attn_q", "key": "attn_k", "value": "attn_v", "out": "attn_output",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
    "attention_norm": "attn_norm", "feedforward_norm": "ffn_norm",
}  # fmt: skip
# What it calls the tokens with a role, where that is not our word; the spelling is theirs.
_ROLES = {role: role for role in ROLES} | {"pad": "padding", "unk": "unknown", "sep": "seperator"}
_CONTROL = 3  # the type of a token that no text spells
_LLAMA3_TRAINED = 8192  # the positions that Llama 3 was trained on before it was stretched; the file does not say them


def open_gguf(path: Path | str, *, blocks: bool = False) -> Pretrained:
    """A GGUF model in our terms, its weights in single precision, or with `blocks` in those that regard knows."""
    path = Path(path)
    metadata, tensors = _read(path, blocks=blocks)
    architecture = architecture_of(metadata)
    if blocks and architecture != "llama":  # others are multiplied by what reads plain numbers
        metadata, tensors = _read(path, blocks=False)
    if metadata.get("split.count", 0) > 1:
        raise CheckpointError(
            f"{path}: one of {metadata['split.count']} parts", hint="join them with gguf-split --merge"
        )
    options = read_options(metadata, tensors)
    if architecture == "llama":
        model = read_neighboured(path, options, tensors, spelled=SPELLED)
    else:
        shapes = understood(ModelSpec(TASK, "gpt", options), tensors, origin=str(path))
        ours = gpt2_names(tied=options["tied"]).read(tensors, shapes, origin=str(path))
        model = Pretrained(TASK, "gpt", options, tensors=ours, origin=str(path))
    return replace(model, tokenizer=_tokenizer(metadata))


def architecture_of(metadata: TheirConfig) -> str:
    """Which of the architectures that regard knows it is."""
    architecture = metadata["general.architecture"]
    if architecture not in ARCHITECTURES:
        known = " and ".join(repr(name) for name in ARCHITECTURES)
        raise CheckpointError(f"{metadata.origin}: architecture {architecture!r} is not known; there are {known}")
    return str(architecture)


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """The reader of a GGUF file; what goes wrong while it is used is said of the file."""
    try:
        from gguf import GGUFReader
    except ImportError as problem:
        raise EnvironmentProblem(
            f"{path}: reading GGUF needs the package gguf", hint="pip install 'regard[convert]'"
        ) from problem
    try:
        check_layout(path)
        yield GGUFReader(path)
    except (
        OSError,
        ValueError,
        LookupError,
        NotImplementedError,
        TypeError,
        ArithmeticError,
        AttributeError,
    ) as problem:
        raise CheckpointError(f"{path}: not a GGUF file that can be read ({problem})") from problem


def _read(path: Path, *, blocks: bool) -> tuple[TheirConfig, dict[str, Any]]:
    with reading(path) as reader:
        metadata = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {tensor.name: _tensor(tensor, blocks=blocks) for tensor in reader.tensors}
    return TheirConfig(metadata, origin=str(path)), tensors


def _tensor(stored: Any, *, blocks: bool) -> Tensor | StoredBlocks:
    """A tensor of the file; matrices in blocks that regard knows are views of it."""
    from gguf.quants import dequantize

    form = FORMATS.get(stored.tensor_type.name)
    if blocks and form is not None and stored.data.ndim == 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the file cannot be written to: nobody does
            return StoredBlocks(torch.from_numpy(stored.data), form)
    return torch.from_numpy(np.array(dequantize(stored.data, stored.tensor_type), dtype=np.float32))


def read_options(metadata: TheirConfig, tensors: dict[str, Any]) -> dict[str, Any]:
    """What the metadata and the names of the weights say; the stretch of rotary positions is taken out of these."""
    size = "token_embd.weight" in tensors
    n_tokens = len(tensors["token_embd.weight"]) if size else metadata[f"{architecture_of(metadata)}.vocab_size"]
    pad_id = pad_id_of({f"{role}_token_id": i for role, i in _special_ids(metadata).items()}, n_tokens)
    if architecture_of(metadata) == "gpt2":
        return gpt2_options(metadata, tensors) | {"n_tokens": n_tokens, "pad_id": pad_id}
    return _llama_options(metadata, tensors) | {"n_tokens": n_tokens, "pad_id": pad_id}


def _llama_options(metadata: TheirConfig, tensors: dict[str, Tensor]) -> dict[str, Any]:
    n_heads, d_model = metadata["llama.attention.head_count"], metadata["llama.embedding_length"]
    d_head = metadata.get("llama.attention.key_length", d_model // n_heads)
    metadata.refuse_others(
        {
            "llama.expert_count": (0,),
            "llama.rope.dimension_count": (d_head,),
            "llama.attention.value_length": (d_head,),
            "llama.rope.scaling.type": ("none", "linear"),
            "llama.attention.sliding_window": (0, metadata.get("llama.context_length")),
        }
    )
    base = metadata.get("llama.rope.freq_base", 10000.0)
    return {
        **BUILD,
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": metadata.get("llama.attention.head_count_kv", n_heads),
        "d_head": d_head,
        "n_layers": metadata["llama.block_count"],
        "n_positions": metadata["llama.context_length"],
        "d_feedforward": metadata["llama.feed_forward_length"],
        "norm_epsilon": metadata.get("llama.attention.layer_norm_rms_epsilon", 1e-5),
        "rotary_base": base,
        "rotary_stretch": _stretch(
            metadata, tensors.pop("rope_freqs.weight", None), rates=frequencies(d_head, base=base)
        ),
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "feedforward_bias": "blk.0.ffn_up.bias" in tensors,
        "tied": "output.weight" not in tensors,
    }


def _stretch(metadata: TheirConfig, divisors: Tensor | None, *, rates: Tensor) -> dict[str, Any] | None:
    """How rotary positions are slowed down: all alike, by a factor, or as Llama 3 does, by a divisor for each rate."""
    if divisors is None:
        linear = metadata.get("llama.rope.scaling.type") == "linear"
        return {"factor": metadata["llama.rope.scaling.factor"]} if linear else None
    stretch = Stretch(factor=float(divisors.max()), n_trained=_LLAMA3_TRAINED)
    if not torch.allclose(rates / stretch.slow_down(rates), divisors.double(), rtol=1e-3):
        raise CheckpointError(f"{metadata.origin}: its rope_freqs are not those of Llama 3, the only ones regard knows")
    return asdict(stretch)


def _special_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    """The ids with a role."""
    ids = {role: metadata.get(f"tokenizer.ggml.{theirs}_token_id") for role, theirs in _ROLES.items()}
    return {role: index for role, index in ids.items() if index is not None}


def _tokenizer(metadata: TheirConfig) -> Tokenizer | None:
    model, pieces = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if model is None or pieces is None or model == "none":
        return None
    special_tokens = SpecialTokens(**_special_ids(metadata))
    types = metadata.get("tokenizer.ggml.token_type", [])
    special = [index for index, kind in enumerate(types) if kind == _CONTROL]
    shared: dict[str, Any] = {"special_tokens": special_tokens, "special": special}
    if model == "gpt2":
        merges, split = metadata["tokenizer.ggml.merges"], metadata.get("tokenizer.ggml.pre", "gpt-2")
        return merged_pieces(pieces, merges, split=split, bos=_flag(metadata, "add_bos_token", False), **shared)
    if model == "llama":
        return scored_pieces(
            pieces,
            metadata["tokenizer.ggml.scores"],
            bos=_flag(metadata, "add_bos_token", True),
            leading_space=_flag(metadata, "add_space_prefix", True),
            **shared,
        )
    raise CheckpointError(f"{metadata.origin}: its tokenizer is a {model!r}; regard reads 'llama' and 'gpt2'")


def _flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    return bool(metadata.get(f"tokenizer.ggml.{name}", default))
