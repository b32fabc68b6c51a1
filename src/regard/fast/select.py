"""Which twin stands in for the textbook: the one place that chooses, by device, precision, shape, and who watches.

Each function answers a place of `regard.config.twins`: it gives what its twin computes, or None where none of them fits
and the textbook does the work. What a twin can do is known beside it (`suits`); that it is asked, only here.

    print(*regard.fast.explain(model), sep="\\n")        what would run for a model, and why not something faster
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention import Cache, Mask, MultiHeadAttention, Rows, Tap
from regard.attention.core import check_shapes
from regard.attention.masks import Both, Documents, Materialized, as_mask, simplify
from regard.config.keyed_draws import keyed
from regard.config.twins import SWITCH, enabled
from regard.decoding.beam import BeamSearch
from regard.decoding.paths import Paths
from regard.decoding.plan import Plan
from regard.decoding.stepper import Stepper
from regard.fast.cpu.causal_stack import CausalStack
from regard.fast.cpu.decoding_step import BlockStep, PackedDecoder, PackedDecoderKVCache, joint_step
from regard.fast.cpu.fused_stack import LONGEST, FusedDecoder, FusedEncoder, KnownParts
from regard.fast.cpu.head_cache import HeadCache
from regard.fast.cpu.look_back import holds, kernels_for
from regard.fast.cpu.look_back import look_back as native_look_back
from regard.fast.cpu.native import NativeLinear
from regard.fast.cpu.native import loaded as native_loaded
from regard.fast.cpu.native import why as native_why
from regard.fast.cpu.native.loading import for_kernels, for_training
from regard.fast.cpu.native.loading import training_kernels as activated
from regard.fast.cpu.packed_linear import PackedBlocks, PackedEmbedding, PackedLinear, pack_linears
from regard.fast.cpu.small_query import SMALL_QUERY_TYPES, attend_small, suits_small
from regard.fast.cpu.vocabulary import log_sum_exp, top_k
from regard.fast.gpu.varlen import HALF_TYPES, KERNEL_LENGTH, KERNEL_WIDTHS, attend_varlen, varlen_rule
from regard.fast.loss.cross_entropy import KERNEL_CLASSES
from regard.fast.loss.cross_entropy import chunked_cross_entropy as cross_entropy
from regard.fast.loss.symmetric_kl import chunked_symmetric_kl as symmetric_kl
from regard.layers.block_weights import BlockLinear
from regard.layers.blocks import DecoderBlock, DecoderStack, EncoderBlock, EncoderStack
from regard.layers.joint_step import StackRows
from regard.layers.kv_cache import DecoderKVCache

if TYPE_CHECKING:
    from regard.decoding.walks import Walk
    from regard.fast.cpu.restricted_output import RestrictedOutput
    from regard.fast.cpu.training.packing import WithoutPadding
    from regard.fast.cpu.walkers import Walkers
    from regard.fast.gpu.shared_decoding import SharedModel

_TRITON = find_spec("triton") is not None

# These fit wherever they are asked, or say so themselves.
__all__ = ["Choice", "cross_entropy", "explain", "log_sum_exp", "symmetric_kl", "top_k"]


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Mask | Tensor | None, scale: float, dropout: float
) -> Tensor | None:
    """Small queries and trained sentences on a CPU, and packed documents; `scale` times the dot product scores."""
    if not dropout and suits_small(query, key, value):
        rule = simplify(as_mask(mask), query.shape[-2], key.shape[-2])
        if rule is None or isinstance(rule, Materialized):
            return attend_small(query, key, value, rule=rule, scale=scale)
    kernels = None if dropout else for_training()
    if kernels is not None:
        from regard.fast.cpu.training.attention import attend_trained, sentences_of, suits

        sentences = sentences_of(as_mask(mask), query, key) if suits(query, key, value) else None
        if sentences is not None:
            return attend_trained(kernels, query, key, value, sentences=sentences, scale=scale)
    if isinstance(mask, Both | Documents):
        check_shapes(query, key, value)
        packed = varlen_rule(simplify(mask, query.shape[-2], key.shape[-2]), query, key, value)
        if packed is not None:
            return attend_varlen(query, key, value, documents=packed[0], causal=packed[1], scale=scale, dropout=dropout)
    return None


def drop(tensor: Tensor, draws: Tensor, *, least: int, scale: float) -> Tensor | None:
    """Dropout of what is trained on a CPU, from 16-bit draws: those below `least` drop, and the rest is scaled."""
    if (kernels := for_training()) is None:
        return None
    from regard.fast.cpu.training.rows import drop_trained, suits

    return drop_trained(kernels, tensor, draws, least=least, scale=scale) if suits(tensor) else None


def residual(hidden: Tensor, part: Tensor, *, norm: nn.Module, dropout: float) -> Tensor | None:
    """norm(hidden + drop(part)) of what is trained, by kernels of our own."""
    if dropout and keyed() is not None:
        return None
    if hidden.is_cuda:
        return _residual_on_gpu(hidden, part, norm=norm, dropout=dropout)
    kernels = for_training()
    if kernels is None or not isinstance(norm, nn.LayerNorm):
        return None
    from regard.fast.cpu.training.rows import add_and_norm, suits, suits_norm

    if not suits(hidden, part) or not suits_norm(norm, hidden):
        return None
    return add_and_norm(kernels, hidden, part, norm=norm, dropout=dropout)


def _residual_on_gpu(hidden: Tensor, part: Tensor, *, norm: nn.Module, dropout: float) -> Tensor | None:
    if not _TRITON:
        return None
    from regard.fast.gpu.residual_kernels import add_and_norm, suits

    return add_and_norm(hidden, part, norm, dropout=dropout) if suits(norm, hidden, part) else None


def feedforward(hidden: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor | None:
    """outer(relu(inner(hidden))) of what is trained in single precision on a CPU."""
    if (kernels := for_training()) is None:
        return None
    from regard.fast.cpu.training.linear import feed_forward, suits

    return feed_forward(kernels, hidden, inner, outer) if suits(hidden, inner, outer) else None


@contextmanager
def training_kernels(model: nn.Module, device: torch.device) -> Iterator[None]:
    """In here, a model is trained on a CPU by kernels of our own."""
    from regard.fast.cpu.training.linear import use_products

    with activated(device):
        undo = use_products(model) if for_training() is not None else None
        try:
            yield
        finally:
            if undo is not None:
                undo()


def without_padding(model: nn.Module, *rows: Rows) -> list[WithoutPadding] | None:
    """Padded rows that are trained on a CPU, each as one packed row."""
    if for_training() is None or not torch.is_grad_enabled():
        return None
    from regard.fast.cpu.training.packing import attends_packed
    from regard.fast.cpu.training.packing import without_padding as pack_rows

    if not attends_packed(model):
        return None
    packed = [one for one in map(pack_rows, rows) if one is not None]
    return packed if len(packed) == len(rows) else None


def encoder(blocks: nn.ModuleList, hidden: Tensor, mask: Mask | Tensor | None) -> Tensor | None:
    """A stack of packed encoder blocks in one call."""
    if not FusedEncoder.takes(hidden, mask):
        return None
    fused = _fused_encoder(blocks)
    return None if fused is None else fused.run(hidden, mask)


def _fused_encoder(blocks: nn.ModuleList) -> FusedEncoder | None:
    """The pass through blocks that nobody watches and that learn nothing."""
    made = _made_of(blocks, EncoderBlock, FusedEncoder.of)
    return made if isinstance(made, FusedEncoder) and made.is_plain else None


def prefill(blocks: nn.ModuleList, memory: Tensor, *, capacity: int) -> DecoderKVCache | None:
    """The caches of a packed decoder, which know its step."""
    decoder = _packed_decoder(blocks)
    return None if decoder is None else decoder.prefill(memory, capacity=capacity)


def prefill_each(
    blocks: nn.ModuleList, memory: Tensor, lengths: Sequence[int], *, capacities: Sequence[int]
) -> Sequence[DecoderKVCache] | None:
    """The caches of several decodings by a packed decoder, made together: memory (T, D) of one after another."""
    decoder = _packed_decoder(blocks)
    return None if decoder is None else decoder.prefill_each(memory, lengths, capacities=capacities)


def _packed_decoder(blocks: nn.ModuleList) -> PackedDecoder | None:
    made = _made_of(blocks, DecoderBlock, PackedDecoder.of)
    return made if isinstance(made, PackedDecoder) else None


class _Made(NamedTuple):
    """What was made of the blocks of a stack when its parts were these."""

    parts: KnownParts
    made: FusedEncoder | PackedDecoder | None


_made: WeakKeyDictionary[nn.ModuleList, _Made] = WeakKeyDictionary()  # to make it anew takes longer than a step


def _made_of(
    blocks: nn.ModuleList,
    kind: type[EncoderBlock] | type[DecoderBlock],
    make: Callable[[list[Any]], FusedEncoder | PackedDecoder | None],
) -> FusedEncoder | PackedDecoder | None:
    known = _made.get(blocks)
    if known is None or not known.parts.are_there():
        stack = [block for block in blocks if isinstance(block, kind)]
        suits = bool(stack) and len(stack) == len(blocks)
        known = _made[blocks] = _Made(KnownParts(blocks), make(stack) if suits else None)
    return known.made


def decoder_step(
    kv_cache: DecoderKVCache, hidden: Tensor, *, mask: Mask | Tensor | None, memory_mask: Mask | Tensor | None
) -> Tensor | None:
    """One step of a packed decoder that nobody watches."""
    if not isinstance(kv_cache, PackedDecoderKVCache) or not kv_cache.is_plain:
        return None
    return kv_cache.step(hidden, mask, memory_mask)


def decoder_steps(
    kv_caches: Sequence[DecoderKVCache],
    hidden: Tensor,
    *,
    counts: Sequence[int],
    memory_masks: Sequence[Mask | Tensor | None],
) -> Tensor | None:
    """One step of several packed decodings that nobody watches, in one call; hidden (N, 1, D), so many rows of each."""
    packed = [cache for cache in kv_caches if isinstance(cache, PackedDecoderKVCache)]
    plain = len(packed) == len(kv_caches) and packed[0].is_plain  # who joins has the same blocks
    return joint_step(packed, hidden, counts, memory_masks) if plain else None


def walk_together(walks: Sequence[Walk], *, joined: bool) -> bool:
    """One step of greedy decodings by a packed decoder, from their tokens to the next; False where nothing was done.

    Those that are `joined` by others have to step with them: they are made ready for that.
    """
    from regard.fast.cpu.walking import leave_walks, step_walks, suits_walks

    return step_walks(walks) if not joined and suits_walks(walks) else leave_walks(walks)


def walkers(walk: Walk, *, threads: int, few: int, many: int) -> Walkers | None:
    """What steps greedy decodings like this one by itself, where a packed decoder can."""
    from regard.fast.cpu.walkers import Walkers

    return Walkers.of(walk, threads=threads, few=few, many=many)


def causal_step(stack: EncoderStack, hidden: Tensor, parts: Sequence[StackRows]) -> Tensor | None:
    """One step of a stack that looks back only, of several decodings, in one call."""
    fused = _causal_stack(stack)
    return fused.step(hidden, parts) if fused is not None and fused.is_plain and fused.takes(hidden, parts) else None


_causal: WeakKeyDictionary[EncoderStack, CausalStack | None] = WeakKeyDictionary()


def _causal_stack(stack: EncoderStack) -> CausalStack | None:
    """The steps of a stack, looked at once: what is kept in blocks is never changed."""
    if stack not in _causal:
        _causal[stack] = CausalStack.of(stack)
    return _causal[stack]


def keeps_blocks() -> bool:
    """Whether there are kernels that multiply weights in their blocks; they are compiled if that is still to do."""
    return native_loaded() is not None


def past(stack: EncoderStack, *, padded: bool) -> type[Cache] | None:
    """Caches as `look_back` and `causal_step` read them, for models whose products leave rows alone.

    Rows that are `padded` in front have a part of the caches to themselves: only `causal_step` knows where it begins.
    """
    return HeadCache if not padded or _causal_stack(stack) is not None else None


def look_back(
    heads: MultiHeadAttention, projected: Tensor, caches: Sequence[Cache], counts: Sequence[int]
) -> Tensor | None:
    """What rows (N, 1, ·) of several decodings see of their pasts, so many rows of each."""
    kernels, pasts = kernels_for(heads), [cache for cache in caches if isinstance(cache, HeadCache)]
    fits = projected.dtype == torch.float32 and len(pasts) == len(caches) and all(map(holds, caches))
    return native_look_back(kernels, heads, projected, pasts, counts) if kernels is not None and fits else None


def joint_threads() -> AbstractContextManager[None]:
    """The kernels, while several decodings step together."""
    return for_kernels()


def rows_independent(module: nn.Module) -> bool:
    """Whether a row of a product is, bit for bit, the same whatever rows there are beside it: by native kernels."""
    linears = [part for part in module.modules() if isinstance(part, PackedLinear | nn.Linear | BlockLinear)]
    native = all(isinstance(one, PackedLinear) and one.native is not None for one in linears)
    return native and bool(linears) and not module.training


def packed_length(stack: EncoderStack) -> int:
    """How long sentences may be that are encoded in a packed row, bit for bit as each would be alone; 0: none are."""
    return LONGEST if _fused_encoder(stack.blocks) is not None else 0


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


def shared_model(model: nn.Module, *, n_rows: int, exact: bool) -> SharedModel | None:
    """A model whose decodings share the rows of CUDA graphs, for a server."""
    if not next(model.parameters()).is_cuda:
        return None
    from regard.fast.gpu.graph_models import graph_model
    from regard.fast.gpu.graph_pool import pool_of
    from regard.fast.gpu.shared_decoding import SharedDecoding, SharedModel

    adapter = graph_model(model)
    if adapter is None or pool_of(model).why_not(adapter):
        return None
    return SharedModel(model, SharedDecoding(adapter, n_rows=n_rows, exact=exact))


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


def restricted_output(model: nn.Module, columns: Tensor, allowed: Tensor) -> RestrictedOutput | None:
    """The output of a packed model over some tokens, by native kernels."""
    from regard.fast.cpu.restricted_output import RestrictedOutput

    layer = _native_output(model)
    return None if layer is None else RestrictedOutput(layer, getattr(model, "output_bias", None), columns, allowed)


def _native_output(model: nn.Module) -> NativeLinear | None:
    """The layer that scores all tokens, where native kernels multiply in it."""
    layer = getattr(model, "output", None) or getattr(model, getattr(model, "tied_to", ""), None)
    packed = layer.output if isinstance(layer, PackedEmbedding) else layer
    if not isinstance(packed, PackedLinear) or model.training or packed.weight.dtype != torch.float32:
        return None
    return packed.native if isinstance(packed.native, NativeLinear) else None


def in_precision(module: nn.Module, precision: str) -> nn.Module | None:
    """A copy whose linear layers are packed for a CPU, in fp32 unless bf16 or int8 is asked for."""
    if next(module.parameters()).device.type != "cpu":
        return None
    return pack_linears(module, "bf16" if precision == "bf16" else "int8" if precision == "int8" else "fp32")


def training_step(work: Callable[..., Any], device: torch.device) -> Callable[..., Any] | None:
    """Whole training steps as CUDA graphs; on a CPU the same steps, uncaptured."""
    from regard.fast.gpu.captured_step import CapturedStep

    return CapturedStep(work, device)


class Choice(NamedTuple):
    """What runs at a place where a twin may stand in, and why it is not something faster, if there were."""

    place: str
    runs: str
    why_not_faster: str = ""

    def __str__(self) -> str:
        return f"{self.place:<18} {self.runs}" + (f" ({self.why_not_faster})" if self.why_not_faster else "")


def explain(module: nn.Module) -> list[Choice]:
    """What would run for this model, on its device, in its precision, watched or not: a line a place."""
    weight = next(module.parameters())
    taps = [part for part in module.modules() if isinstance(part, Tap)]
    watched = "watched" if any(tap.watchers for tap in taps) else ""
    places = [_explain_attention(module, weight), _explain_documents(module, weight)] if taps else []
    places += [
        _explain_stack(part, watched) for part in module.modules() if isinstance(part, EncoderStack | DecoderStack)
    ]
    no_gpu = "" if weight.is_cuda else "no GPU"
    no_search = no_gpu or _no_triton()
    places += [
        _explain_steps(module),
        Choice("search", "the textbook" if no_search else "fused beam and greedy", no_search),
        _explain_vocabulary(weight),
        *_explain_shortlist(module, weight),
        _explain_linears(module),
        _explain_loss(module, weight),
        _explain_training(weight),
    ]
    if enabled():
        return list(dict.fromkeys(places))
    return list(dict.fromkeys(Choice(choice.place, "the textbook", f"{SWITCH}=0") for choice in places))


def _explain_training(weight: Tensor) -> Choice:
    place, by_torch = "training step", "op by op"
    if weight.is_cuda:
        return Choice(place, "CUDA graphs where batches have few shapes")
    if weight.device.type != "cpu" or native_loaded() is None:
        return Choice(place, by_torch, native_why() if weight.device.type == "cpu" else "no GPU")
    return Choice(place, f"{by_torch}; short attention, residuals, loss and fp32 products by native kernels")


def _explain_attention(module: nn.Module, weight: Tensor) -> Choice:
    place, fused = "attention", "scaled_dot_product_attention"
    heads = [part for part in module.modules() if isinstance(part, MultiHeadAttention)]
    scores = {type(part.score).__name__ for part in heads if part.score.dot_scale(part.d_head) is None}
    if scores or not heads:
        return Choice(place, "the textbook", f"compares by {', '.join(sorted(scores)) or 'states'}")
    if weight.device.type != "cpu":
        return Choice(place, fused)
    if weight.dtype not in SMALL_QUERY_TYPES:
        return Choice(place, fused, f"in {_name(weight.dtype)}, small queries have no plain products")
    return Choice(place, f"{fused}; plain products where queries are few and nothing is trained")


def _explain_documents(module: nn.Module, weight: Tensor) -> Choice:
    place, padded = "packed documents", "a padded batch"
    widths = sorted({part.d_head for part in module.modules() if isinstance(part, MultiHeadAttention)})
    if not weight.is_cuda:
        return Choice(place, padded, "no GPU")
    if weight.dtype not in HALF_TYPES:
        return Choice(place, padded, f"in {_name(weight.dtype)}; under bf16 autocast, variable-length kernels")
    if beyond := [width for width in widths if width not in KERNEL_WIDTHS]:
        return Choice(place, "PyTorch's variable-length kernel", f"head width {beyond[0]} is none of {KERNEL_WIDTHS}")
    missing = _no_triton()
    runs = "PyTorch's variable-length kernel" + ("" if missing else f", our own up to {KERNEL_LENGTH} positions")
    return Choice(place, runs, missing)


def _explain_stack(stack: EncoderStack | DecoderStack, watched: str) -> Choice:
    place = "decoder stack" if isinstance(stack, DecoderStack) else "encoder stack"
    blocks = list(stack.blocks)
    if next(stack.parameters(), torch.empty(0)).device.type != "cpu":
        return Choice(place, "block by block")
    packed = [part for part in stack.modules() if isinstance(part, PackedLinear)]
    why = watched or ("in training" if stack.training else "") or ("" if packed else "its linear layers are not packed")
    if why:
        return Choice(place, "block by block", why)
    decoder = [block for block in blocks if isinstance(block, DecoderBlock)]
    encoder = [block for block in blocks if isinstance(block, EncoderBlock)]
    if isinstance(stack, EncoderStack) and _causal_stack(stack) is not None:
        return Choice("causal stack", "prompts block by block, each step one native call")
    if any(block.attention.tap.kind == "masked" for block in encoder):
        return Choice(place, "block by block", "causal")
    if FusedDecoder.of(decoder) if decoder else FusedEncoder.of(encoder):
        return Choice(place, "one native call")
    steps = "layer by layer" if decoder and all(map(BlockStep.suits, decoder)) else "block by block"
    return Choice(place, steps, native_why() or "its blocks are not of the usual make")


def _explain_steps(module: nn.Module) -> Choice:
    from regard.fast.gpu.graph_models import graph_model
    from regard.fast.gpu.graph_pool import pool_of

    adapter = graph_model(module)
    why = "no GPU" if not next(module.parameters()).is_cuda else f"there are none for a {type(module).__name__}"
    why = pool_of(module).why_not(adapter) if adapter is not None else why
    return Choice("decoding steps", "one by one" if why else "CUDA graphs", why)


def _explain_vocabulary(weight: Tensor) -> Choice:
    place = "top-k"
    if weight.device.type != "cpu":
        return Choice(place, "PyTorch, or inside the search")
    why = native_why() or ("" if weight.dtype == torch.float32 else f"in {_name(weight.dtype)}")
    return Choice(place, "groups of columns" if why else "native kernels", why)


def _explain_shortlist(module: nn.Module, weight: Tensor) -> list[Choice]:
    from regard.models.transformer import Transformer

    if not isinstance(module, Transformer):
        return []
    if _native_output(module) is not None:
        return [Choice("shortlist", "scores of listed tokens only, native kernels")]
    why = "for a CPU" if weight.device.type != "cpu" else native_why() or "its output is not packed"
    return [Choice("shortlist", "all scores, the others struck out", why)]


def _explain_linears(module: nn.Module) -> Choice:
    place, packed = "linear layers", [part for part in module.modules() if isinstance(part, PackedLinear)]
    if not packed and (kept := [part.weight.form.name for part in module.modules() if isinstance(part, BlockLinear)]):
        names = ", ".join(dict.fromkeys(kept))
        return Choice(place, f"PyTorch, out of blocks ({names})", "exact; predictions are made by native kernels")
    if not packed:
        on_cpu = next(module.parameters()).device.type == "cpu"
        return Choice(place, "PyTorch", "not packed; loading a run for prediction packs them" if on_cpu else "")
    precision = ", ".join(dict.fromkeys(part.precision for part in packed))
    if all(isinstance(part, PackedBlocks) for part in packed):
        return Choice(place, f"kept in blocks ({precision}), native kernels")
    if packed[0].native is not None:
        return Choice(place, f"packed in {precision}, native kernels")
    missing = native_why() or f"the processor has no products in {precision}"
    return Choice(place, f"packed in {precision}, PyTorch's kernels", missing)


def _explain_loss(module: nn.Module, weight: Tensor) -> Choice:
    place, chunks = "vocabulary loss", "gradients with the scores, chunk by chunk"
    output = getattr(module, "output_weight", None)
    if not weight.is_cuda:
        return Choice(place, chunks, "no GPU")
    if not isinstance(output, Tensor) or len(output) < KERNEL_CLASSES:
        return Choice(place, chunks, f"fewer than {KERNEL_CLASSES} classes")
    return Choice(place, chunks if _no_triton() else "one kernel a chunk", _no_triton())


def _no_triton() -> str:
    return "" if _TRITON else "Triton is not installed"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
