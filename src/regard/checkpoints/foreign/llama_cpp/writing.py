"""GGUF files as llama.cpp opens them: hyper-parameters and tokenizer as metadata, and weights, quantised on request.

    write_gguf("model.gguf", pretrained, precision="q8_0", usage=…)     → the architecture, and what differs from ours

Matrices are stored in the precision asked for; norms, biases and learned positions stay in single precision, and so
does, in half, a matrix whose rows cannot be cut into blocks of 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.positions import frequencies
from regard.checkpoints.foreign.gguf import SPELLED
from regard.checkpoints.foreign.gpt import gpt_config
from regard.checkpoints.foreign.llama import is_llama, llama_names
from regard.checkpoints.foreign.llama_cpp.gpt2 import BUILD, gpt2_names
from regard.checkpoints.foreign.llama_cpp.vocabulary import Vocabulary, vocabulary_of
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.usage import Usage
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, EnvironmentProblem
from regard.models.gpt import GPTConfig

# What matrices are stored in, by our names.
PRECISIONS: Mapping[str, str] = {
    "fp32": "F32", "fp16": "F16", "bf16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0", "q4_1": "Q4_1"
}  # fmt: skip
_FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3}
_BLOCK = 32  # numbers that share a scale
_LLAMA = {"order": "pre", "norm": "rms", "positions": "rotary", "gated": True, "activation": "silu"}


def write_gguf(path: Path, pretrained: Pretrained, *, precision: str, usage: Usage) -> tuple[str, str | None]:
    """Write the file; its architecture, and what llama.cpp's tokenizer does otherwise than ours, if anything."""
    try:
        from gguf import GGUFWriter
    except ImportError as problem:
        raise EnvironmentProblem(
            "writing GGUF needs the package gguf", hint="pip install 'regard[convert]'"
        ) from problem
    config, tokenizer = gpt_config(pretrained), pretrained.tokenizer
    if config is None:
        raise CheckpointError(
            f"{pretrained.origin}: llama.cpp has nothing like a {pretrained.model}; regard writes gpt"
        )
    if tokenizer is None:
        raise CheckpointError(f"{pretrained.origin}: it has no tokenizer, and a GGUF file needs one")
    architecture = _architecture(config, origin=pretrained.origin)
    tensors = _tensors(config, pretrained.tensors, architecture)
    vocabulary = vocabulary_of(tokenizer, config.n_tokens, origin=pretrained.origin)
    writer = GGUFWriter(path, architecture)
    _add_sizes(writer, config, architecture)
    _add_vocabulary(writer, vocabulary, tokenizer, usage)
    writer.add_file_type(_FILE_TYPES[PRECISIONS[precision]])
    for name, tensor in tensors.items():
        _add_tensor(writer, name, tensor, PRECISIONS[precision])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return architecture, vocabulary.remark


def _architecture(config: GPTConfig, *, origin: str) -> str:
    """Which of llama.cpp's models it is; the options that make it none of them are named."""
    if is_llama(config) and config.activation == "silu":
        return "llama"
    wanted = _LLAMA if config.norm == "rms" or config.positions == "rotary" else _gpt2_build(config)
    others = {name: value for name, value in wanted.items() if getattr(config, name) != value}
    if not others:
        return "gpt2"
    kind = "Llama" if wanted is _LLAMA else "GPT-2"
    raise CheckpointError(
        f"{origin}: llama.cpp's nearest model is {kind}, which has "
        + ", ".join(
            f"model.{name}={_written(value)}, not {_written(getattr(config, name))}" for name, value in others.items()
        ),
        hint="write it for CTranslate2, which has more options: --to ctranslate2",
    )


def _gpt2_build(config: GPTConfig) -> dict[str, Any]:
    """The options of a GPT-2 of this size; biases that it lacks are written as zeros."""
    fixed = {name: value for name, value in BUILD.items() if not name.endswith("_bias")}
    heads = {} if config.n_kv_heads is None else {"n_kv_heads": config.n_heads}
    return fixed | heads | ({} if config.d_head is None else {"d_head": config.d_model // config.n_heads})


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tensors(config: GPTConfig, ours: Mapping[str, Tensor], architecture: str) -> dict[str, Tensor]:
    if architecture == "llama":
        theirs = llama_names(config, spelled=SPELLED, neighboured=True).write(ours)
        stretch = config.rotary_stretch
        if stretch is not None and stretch.n_trained is not None:
            rates = frequencies(_d_head(config), base=config.rotary_base)
            theirs["rope_freqs.weight"] = rates / stretch.slow_down(rates)
        return theirs
    zeros = {
        name.removesuffix("weight") + "bias": torch.zeros(len(tensor))
        for name, tensor in ours.items()
        if name.startswith("stack.") and name.endswith(".weight")
    }
    return gpt2_names(tied=config.tied).write(zeros | dict(ours))


def _d_head(config: GPTConfig) -> int:
    return config.d_head or config.d_model // config.n_heads


def _add_sizes(writer: Any, config: GPTConfig, architecture: str) -> None:
    from gguf import RopeScalingType

    writer.add_vocab_size(config.n_tokens)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.d_feedforward or 4 * config.d_model)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_kv_heads or config.n_heads)
    if architecture == "gpt2":
        writer.add_layer_norm_eps(config.norm_epsilon)
        return
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    writer.add_key_length(_d_head(config))
    writer.add_value_length(_d_head(config))
    writer.add_rope_dimension_count(_d_head(config))
    writer.add_rope_freq_base(config.rotary_base)
    if config.rotary_stretch is not None and config.rotary_stretch.n_trained is None:
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rotary_stretch.factor)


def _add_vocabulary(writer: Any, vocabulary: Vocabulary, tokenizer: Tokenizer, usage: Usage) -> None:
    writer.add_tokenizer_model(vocabulary.model)
    writer.add_token_list(vocabulary.pieces)
    writer.add_token_types(vocabulary.types)
    if vocabulary.split is not None:
        writer.add_tokenizer_pre(vocabulary.split)
        writer.add_token_merges(vocabulary.merges)
    if vocabulary.scores is not None:
        writer.add_token_scores(vocabulary.scores)
        writer.add_add_space_prefix(vocabulary.leading_space)
    # Where a file does not say who begins and who ends, llama.cpp takes piece 11 for both.
    special = tokenizer.special_tokens
    end = tokenizer.pad_id if special.eos is None else special.eos
    begin = special.bos if special.bos is not None else end
    writer.add_bos_token_id(usage.opening[0] if usage.opening else begin)
    writer.add_eos_token_id(end)
    writer.add_pad_token_id(tokenizer.pad_id)
    if special.unk is not None:
        writer.add_unk_token_id(special.unk)
    writer.add_add_bos_token(bool(usage.opening))
    writer.add_add_eos_token(False)


def _add_tensor(writer: Any, name: str, tensor: Tensor, precision: str) -> None:
    from gguf import GGMLQuantizationType, quants

    array = np.ascontiguousarray(tensor.detach().float().cpu().numpy())
    if array.ndim < 2 or name == "position_embd.weight":
        precision = "F32"
    elif precision.startswith("Q") and array.shape[-1] % _BLOCK:
        precision = "F16"
    kind = GGMLQuantizationType[precision]
    writer.add_tensor(name, array if precision == "F32" else quants.quantize(array, kind), raw_dtype=kind)
