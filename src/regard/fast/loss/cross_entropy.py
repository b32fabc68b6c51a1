"""The loss over a vocabulary, made so that the scores of all tokens never stand in memory together.

    chunked_cross_entropy    label-smoothed cross-entropy of  hidden (N, D) · weightᵀ (D, V)  against labels (N,)

`regard.metrics.cross_entropy` is the textbook twin. Smoothing ε is that of `F.cross_entropy`: 1 − ε on the label, ε
spread evenly over all V classes.

    loss = lse(z) − (1 − ε) · z[label] − ε/V · Σ z                   z = W h (+ b)
    ∂loss/∂z = softmax(z) − (1 − ε) · 1[label] − ε/V

The gradient is known as soon as the scores are. So both are made in the forward pass, a chunk of rows at a time, and
the scores of a chunk are overwritten by their gradient. The ε/V terms are the same for all classes: they need Σ W and
Σ h only, and no pass over the scores. What happens to a chunk's scores is written out in `_overwrite`; training on a
GPU does it by one kernel, see `softmax_kernel`, and to a compiler the whole loss is then one operation.

Why not `torch.nn.functional.linear_cross_entropy`? In PyTorch 2.13 it does the same in chunks when it is given options,
but a compiler stops at the chunked operation, only one sum comes out (training reports the plain log-likelihood beside
the smoothed loss, which would cost a second pass), a GPU's scores are passed over several times, and 2.11, which has
to do as well, has no chunks. Once the oldest PyTorch we support compiles it, this file and its kernel can go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.fast.cpu.native.loading import for_training
from regard.fast.loss.precomputed_gradients import differentiable, parts, rows_at_once

Sums = tuple[Tensor, Tensor, Tensor]  # the loss with gradients, the negative log-likelihood, the tokens

KERNEL_CLASSES = 4096  # classes


def chunked_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    ignore_id: int = 0,
    chunk: int | None = None,
    bias: Tensor | None = None,
) -> Sums:
    """Cross-entropy of `hidden` (..., D), projected by `weight` (V, D), against labels (...), summed.

    Tokens labelled `ignore_id` count for nothing. `chunk` is the largest number of rows whose scores exist at once.
    Half-precision states meet the weight in their own precision; all that follows the product is float32.
    """
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        hidden = hidden.to(torch.get_autocast_dtype(device))
    wanted = [torch.is_grad_enabled() and x is not None and x.requires_grad for x in (hidden, weight, bias)]
    by_kernel = any(wanted) and _suits_kernel(hidden, len(weight))
    if by_kernel:  # outside the operation, where a compiler adds it to what made the states
        hidden = torch.where((labels != ignore_id)[..., None], hidden, 0)
    inputs = (hidden, weight, bias)
    if not by_kernel and device == "cuda" and torch.compiler.is_compiling() and chunk is None:
        return _left_to_the_compiler(*inputs, labels, smoothing=smoothing, ignore_id=ignore_id)
    sweep = _sweep_as_one if by_kernel else _sweep
    with torch.no_grad():
        total, nll, n_real, *kept = sweep(
            *inputs, labels, smoothing, ignore_id, chunk, wanted[0], wanted[1], wanted[2], by_kernel
        )
    gradients = [gradient if asked else None for gradient, asked in zip(kept, wanted, strict=True)]
    return differentiable(total, gradients, inputs), nll, n_real


def _suits_kernel(hidden: Tensor, n_classes: int) -> bool:
    """Whether to learn by the kernel: on a GPU, where rows of scores are long; short ones a compiler does as well."""
    return hidden.is_cuda and hidden.dtype in (torch.bfloat16, torch.float32) and n_classes >= KERNEL_CLASSES


def _left_to_the_compiler(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, smoothing: float, ignore_id: int
) -> Sums:
    """The loss as plain expressions, which the compiler makes one pass over the scores each way.

    The label's score is a masked sum and not a `gather`, whose gradient would be scattered into a second tensor of
    that size; the mean score of a row is its state times the mean weight.
    """
    labels = labels.reshape(-1)
    real = labels != ignore_id
    states = hidden.reshape(-1, hidden.shape[-1])
    scores = F.linear(states, weight, bias)
    is_label = torch.arange(weight.shape[0], device=labels.device) == labels[:, None]
    norms = torch.logsumexp(scores.float(), 1)
    gold = torch.where(is_label, scores, 0.0).sum(1, dtype=torch.float32)
    nll = torch.where(real, norms - gold, 0.0)
    total = nll
    if smoothing:
        evenly = states.float() @ weight.float().mean(0)
        if bias is not None:
            evenly = evenly + bias.float().mean()
        total = torch.where(real, norms - (1 - smoothing) * gold - smoothing * evenly, 0.0)
    return total.sum(), nll.detach().sum(), real.sum()


def _sweep(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    smoothing: float,
    ignore_id: int,
    chunk: int | None,
    wants_hidden: bool,
    wants_weight: bool,
    wants_bias: bool,
    masked: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Loss, negative log-likelihood, tokens, and the gradients of hidden, weight and bias: empty if not wanted.

    `masked`: rows of `hidden` that do not count are zero already, and their gradient is nobody's concern.
    """
    wanted = (wants_hidden, wants_weight, wants_bias)
    with torch.autocast(hidden.device.type, enabled=False):
        rows = _rows(hidden, labels, ignore_id=ignore_id, masked=masked)
        gradients = _start(rows, len(weight), smoothing=smoothing, wanted=wanted)
        norms, gold = _go_through(rows, weight, bias, smoothing=smoothing, chunk=chunk, gradients=gradients)
        evenly = weight.sum(0, dtype=rows.full).mul_(smoothing / len(weight)) if smoothing else None  # (D,)
        losses = norms - (1 - smoothing) * gold
        if evenly is not None:
            losses -= rows.states.to(rows.full) @ evenly[:, None]
        if bias is not None:
            losses -= smoothing * bias.mean(dtype=rows.full)
        total, nll = rows.sum(losses), rows.sum(norms - gold)
        inputs = (hidden, weight, bias)
        return total, nll, rows.n_real, *_finish(gradients, rows, inputs, evenly=evenly, masked=masked)


# To a compiler one operation, inside which scores may be overwritten and products be added up in place.
_sweep_as_one = torch.library.custom_op("regard::linear_cross_entropy", _sweep, mutates_args=())


@_sweep_as_one.register_fake
def _(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    full = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    sums = [hidden.new_empty((), dtype=dtype) for dtype in (full, full, torch.int64)]
    wanted = zip((hidden, weight, bias), rest[4:7], strict=True)
    grads = [x.new_empty(x.shape) if x is not None and asked else hidden.new_empty(0) for x, asked in wanted]
    return sums[0], sums[1], sums[2], grads[0], grads[1], grads[2]


class _Rows(NamedTuple):
    """The rows of a batch that count, or all of them with a mask of those that do."""

    states: Tensor  # (N, D)
    labels: Tensor  # (N, 1)
    real: Tensor | None  # (N, 1), None: all
    chosen: Tensor | None  # (N,) their places among all rows, None: all
    n_real: Tensor

    @property
    def full(self) -> torch.dtype:
        """The precision of sums."""
        return torch.float64 if self.states.dtype == torch.float64 else torch.float32

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the values (N, 1) of rows that count."""
        return (values if self.real is None else values.masked_fill(~self.real, 0)).sum()


class _Gradients(NamedTuple):
    """Filled while the scores are there; None where nobody asks."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def _rows(hidden: Tensor, labels: Tensor, *, ignore_id: int, masked: bool) -> _Rows:
    # float16 has too few exponents for sums over a vocabulary; bfloat16 has as many as float32.
    dtype = torch.float32 if hidden.dtype == torch.float16 else hidden.dtype
    states, labels = hidden.detach().reshape(-1, hidden.shape[-1]).to(dtype), labels.reshape(-1, 1)
    real = labels != ignore_id
    n_real = real.sum()
    if states.device.type == "cpu" and not torch.compiler.is_compiling():
        # Counting is free here, so rows without a label need not be computed at all.
        if int(n_real) == len(states):
            return _Rows(states, labels, None, None, n_real)
        chosen = real[:, 0].nonzero()[:, 0]
        return _Rows(states.index_select(0, chosen), labels.index_select(0, chosen), None, chosen, n_real)
    # Rows that do not count are zero from here on: whatever stood in them, even NaN, reaches no sum.
    states = states if masked else states.masked_fill(~real, 0)
    return _Rows(states, labels.masked_fill(~real, 0), real, None, n_real)


def _start(rows: _Rows, n_classes: int, *, smoothing: float, wanted: Sequence[bool]) -> _Gradients:
    """Room for the wanted gradients; those of weight and bias begin with their part of the ε/V term."""
    share = -smoothing / n_classes
    return _Gradients(
        torch.empty_like(rows.states) if wanted[0] else None,
        rows.states.sum(0, dtype=rows.full).mul_(share).repeat(n_classes, 1) if wanted[1] else None,
        rows.n_real.to(rows.full).mul_(share).repeat(n_classes) if wanted[2] else None,
    )


def _native_gradients(rows: _Rows, n_classes: int) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """What makes scores their gradients in one pass, where somebody trains by native kernels."""
    if (native := for_training()) is None:
        return None
    from regard.fast.cpu.training.rows import score_gradients, suits_scores

    return partial(score_gradients, native) if suits_scores(rows.states, rows.labels, n_classes) else None


def _go_through(
    rows: _Rows, weight: Tensor, bias: Tensor | None, *, smoothing: float, chunk: int | None, gradients: _Gradients
) -> tuple[Tensor, Tensor]:
    """The log-sum-exp of each row's scores and the score of its label, both (N, 1); gradients grow on the way."""
    learning = any(gradient is not None for gradient in gradients)
    by_kernel = learning and _suits_kernel(rows.states, len(weight))
    own = _native_gradients(rows, len(weight)) if learning else None
    # Where the scores are overwritten by a kernel they stay in the precision of the product, as gradients do anyway.
    kind = rows.states.dtype if by_kernel or own is not None else rows.full
    overwrite = own or (_overwrite_by_kernel if by_kernel else _overwrite)
    matrix = weight.to(rows.states.dtype)
    norms, gold = [], []
    at_once = max(1, rows_at_once(len(weight), weight.device) * 4 // kind.itemsize)
    for part in parts(len(rows.states), chunk or at_once):
        scores = _scores(rows.states[part], matrix, bias, kind, aligned=by_kernel)
        row_norms, row_gold = overwrite(scores, rows.labels[part], kept=1 - smoothing)
        norms.append(row_norms)
        gold.append(row_gold)
        if learning:
            _collect(gradients, scores, rows, matrix=matrix, part=part)
    return torch.cat(norms), torch.cat(gold)


def _scores(states: Tensor, matrix: Tensor, bias: Tensor | None, kind: torch.dtype, *, aligned: bool) -> Tensor:
    room = None
    if aligned:
        from regard.fast.loss.softmax_kernel import room_for

        room = room_for(len(states), len(matrix), like=states)
    if bias is not None and states.dtype == kind:
        return torch.addmm(bias.to(kind), states, matrix.t(), out=room)
    if room is not None:
        return torch.mm(states, matrix.t(), out=room)
    scores = _product(states, matrix.t(), kind)
    return scores if bias is None else scores.add_(bias)


def _overwrite(scores: Tensor, labels: Tensor, *, kept: float) -> tuple[Tensor, Tensor]:
    """The log-sum-exp of each row and its label's score, (n, 1); `scores` become softmax(scores) − kept · 1[label]."""
    gold = scores.gather(1, labels)
    peak = scores.amax(1, keepdim=True)
    probabilities = torch.softmax(scores, 1, out=scores)
    # The largest probability is at least 1/V: unlike the label's, its logarithm is always there.
    norms = peak - probabilities.amax(1, keepdim=True).log()
    probabilities.scatter_(1, labels, probabilities.gather(1, labels).sub_(kept))
    return norms, gold


def _overwrite_by_kernel(scores: Tensor, labels: Tensor, *, kept: float) -> tuple[Tensor, Tensor]:
    from regard.fast.loss.softmax_kernel import overwrite_by_gradient  # here, because Triton comes with GPU builds only

    norms, gold = overwrite_by_gradient(scores, labels[:, 0], kept=kept)
    return norms[:, None], gold[:, None]


def _collect(gradients: _Gradients, scores_grad: Tensor, rows: _Rows, *, matrix: Tensor, part: slice) -> None:
    states, grad = rows.states[part], scores_grad.to(matrix.dtype)  # (n, D), (n, V)
    if gradients.hidden is not None:
        torch.mm(grad, matrix, out=gradients.hidden[part])
    if gradients.weight is not None:
        _add_product(gradients.weight, grad.t(), states)
    if gradients.bias is not None:
        real = states.new_ones(len(states)) if rows.real is None else rows.real[part, 0].to(states.dtype)
        gradients.bias.add_(_product(real[None], grad, rows.full)[0])


def _finish(
    gradients: _Gradients,
    rows: _Rows,
    inputs: tuple[Tensor, Tensor, Tensor | None],
    *,
    evenly: Tensor | None,
    masked: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients in the shapes and types of the inputs, and nothing (0,) for those that nobody asks for."""
    grad, shape = gradients.hidden, inputs[0].shape
    if grad is not None:
        if evenly is not None:
            grad.sub_(evenly)
        if rows.real is not None and not masked:
            grad.masked_fill_(~rows.real, 0)
        if rows.chosen is not None:
            grad = grad.new_zeros(shape[:-1].numel(), shape[-1]).index_copy_(0, rows.chosen, grad)
        grad = grad.view(shape)
    whole = zip((grad, gradients.weight, gradients.bias), inputs, strict=True)
    kept = [rows.states.new_empty(0) if g is None or x is None else g.to(x.dtype) for g, x in whole]
    return kept[0], kept[1], kept[2]


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix product with its result in a wider type, unrounded where the device can do that."""
    if left.dtype == dtype:
        return left @ right
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=dtype)
    return (left @ right).to(dtype)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a matrix product to a sum of the same or a wider type; on a GPU without a second tensor for it."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif left.is_cuda and not torch.compiler.is_compiling():  # PyTorch 2.11 cannot trace an `addmm` of two types
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total.add_(_product(left, right, total.dtype))
