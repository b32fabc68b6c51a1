"""Which twin stands in for the textbook: the one place that chooses, by device, precision, shape, and who watches.

Each function answers a place of `regard.config.twins`: it gives what its twin computes, or None where none of them fits
and the textbook does the work. What a twin can do is known beside it (`suits`); that it is asked, only here.

    print(*regard.fast.explain(model), sep="\\n")        what would run for a model, and why not something faster
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Mask, Rows
from regard.attention.core import check_shapes
from regard.attention.masks import Both, Documents, Materialized, as_mask, simplify
from regard.decoding.beam import BeamSearch
from regard.decoding.paths import Paths
from regard.decoding.plan import Plan
from regard.decoding.stepper import Stepper
from regard.fast.cpu.decoding_step import BlockStep, PackedDecoderKVCache
from regard.fast.cpu.fused_stack import FusedEncoder
from regard.fast.cpu.native.vocabulary import native_log_sum_exp
from regard.fast.cpu.packed_linear import pack_linears
from regard.fast.cpu.small_query import attend_small, suits_small
from regard.fast.cpu.topk import top_k
from regard.fast.gpu.varlen import attend_varlen, varlen_rule
from regard.fast.loss.cross_entropy import chunked_cross_entropy as cross_entropy
from regard.fast.loss.symmetric_kl import chunked_symmetric_kl as symmetric_kl
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.kv_cache import DecoderKVCache

__all__ = ["cross_entropy", "symmetric_kl", "top_k"]  # these fit wherever they are asked, or say so themselves


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Mask | Tensor | None, scale: float, dropout: float
) -> Tensor | None:
    """Small queries on a CPU, and packed documents; `scale` times the dot product is the score."""
    if not dropout and suits_small(query, key, value):
        rule = simplify(as_mask(mask), query.shape[-2], key.shape[-2])
        if rule is None or isinstance(rule, Materialized):
            return attend_small(query, key, value, rule=rule, scale=scale)
    if isinstance(mask, Both | Documents):
        check_shapes(query, key, value)
        packed = varlen_rule(simplify(mask, query.shape[-2], key.shape[-2]), query, key, value)
        if packed is not None:
            return attend_varlen(query, key, value, documents=packed[0], causal=packed[1], scale=scale, dropout=dropout)
    return None


def encoder(blocks: nn.ModuleList, hidden: Tensor, mask: Mask | Tensor | None) -> Tensor | None:
    """A stack of packed encoder blocks in one call."""
    if not FusedEncoder.takes(hidden, mask):
        return None
    stack = [block for block in blocks if isinstance(block, EncoderBlock)]
    fused = FusedEncoder.of(stack) if len(stack) == len(blocks) else None
    return None if fused is None else fused.run(hidden, mask)


def prefill(blocks: nn.ModuleList, memory: Tensor, *, capacity: int) -> DecoderKVCache | None:
    """The caches of a packed decoder, which know its step."""
    stack = [block for block in blocks if isinstance(block, DecoderBlock)]
    suits = bool(stack) and all(map(BlockStep.suits, stack))
    return PackedDecoderKVCache(stack, memory, capacity=capacity) if suits else None


def decoder_step(
    kv_cache: DecoderKVCache, hidden: Tensor, *, mask: Mask | Tensor | None, memory_mask: Mask | Tensor | None
) -> Tensor | None:
    """One step of a packed decoder that nobody watches."""
    if not isinstance(kv_cache, PackedDecoderKVCache) or not kv_cache.is_plain:
        return None
    return kv_cache.step(hidden, mask, memory_mask)


def stepper(model: nn.Module, inputs: Tensor | Rows, *, capacity: int) -> Stepper | None:
    """A model's decoding steps as CUDA graphs."""
    if not next(model.parameters()).is_cuda:
        return None
    from regard.fast.gpu.graph_models import graph_model
    from regard.fast.gpu.graph_pool import pool_of
    from regard.fast.gpu.graph_stepper import GraphStepper

    adapter = graph_model(model)
    if adapter is None or pool_of(model).why_not(adapter):
        return None
    return GraphStepper(adapter, adapter.read(inputs), capacity=capacity)


def search(stepper: Stepper, plan: Plan) -> BeamSearch | Paths | None:
    """Greedy and beam search whose bookkeeping stays on the GPU."""
    if plan.device.type != "cuda":
        return None
    from regard.fast.gpu.fused_beam import FusedBeamSearch
    from regard.fast.gpu.fused_greedy import FusedPaths
    from regard.fast.gpu.graph_stepper import GraphStepper

    if plan.options.strategy == "beam":
        return FusedBeamSearch(stepper, plan) if FusedBeamSearch.suits(plan) else None
    return FusedPaths(stepper, plan) if isinstance(stepper, GraphStepper) and FusedPaths.suits(plan) else None


def log_sum_exp(values: Tensor) -> Tensor | None:
    """log Σ exp of each row (N, V) by native kernels: (N,)."""
    return native_log_sum_exp(values)


def in_precision(module: nn.Module, precision: str) -> nn.Module | None:
    """A copy whose linear layers are packed for a CPU, in fp32 unless bf16 or int8 is asked for."""
    if next(module.parameters()).device.type != "cpu":
        return None
    return pack_linears(module, "bf16" if precision == "bf16" else "int8" if precision == "int8" else "fp32")


def training_step(work: Callable[..., Any], device: torch.device) -> Callable[..., Any] | None:
    """Whole training steps as CUDA graphs; on a CPU the same steps, uncaptured."""
    from regard.fast.gpu.captured_step import CapturedStep

    return CapturedStep(work, device)
