"""The one attention: scores → mask → softmax → weighted sum.

    weights = softmax(score(query, key) + bias, where the mask allows)        (..., T, S)
    output  = weights @ value                                                 (..., T, Ev)

`attend` picks a fused kernel when the score is a dot product, and the explicit computation otherwise;
`attend_explicitly` is the readable twin of every fused path, and the tests hold the two together.

    query (..., T, Dq)   key (..., S, Dk)   value (..., S, Ev)   mask, bias: broadcast to (..., T, S)

Leading dimensions are free and broadcast. The last of them may count heads: keys and values may then have fewer,
each serving its group of neighbouring query heads. A row with nothing to attend to gives zeros, by definition.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.masks import Causal, Mask, as_mask, documents_of, simplify
from regard.attention.scores import Prepared, ScaledDot, Score, check_width
from regard.config.keyed_draws import LEVELS, KeyedDraws, keyed
from regard.config.twins import twin
from regard.errors import ShapeError

SCALED_DOT = ScaledDot()  # the default: it holds no parameters, so one is enough


def attend(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Score | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Average the values, weighted by how well their keys fit each query: output (..., T, Ev).

    The default score is the scaled dot product. `dropout` is applied to the weights as given: pass 0 outside training.
    """
    by_key = dropout > 0 and keyed() is not None  # what a fused kernel drops, it draws itself
    causal = isinstance(mask, Causal) and mask.offset == 0
    if not by_key and score is None and bias is None and (causal or mask is None) and isinstance(key, Tensor):
        # The commonest call by far goes straight to the kernel, with nothing to prepare and nothing to check.
        shape = query.shape
        if len(shape) == 4 and key.shape == shape and value.shape == shape:
            return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=causal)
    score = score or SCALED_DOT
    scale = score.dot_scale(query.shape[-1])
    if scale is None:
        return attend_explicitly(query, key, value, score=score, mask=mask, bias=bias, dropout=dropout)
    keys = _keys(key, score)
    if bias is None and (fast := twin("attend")) is not None:
        output: Tensor | None = fast(query, keys, value, mask=mask, scale=scale, dropout=dropout)
        if output is not None:
            return output
    if by_key:
        return attend_explicitly(query, Prepared(keys), value, score=score, mask=mask, bias=bias, dropout=dropout)
    alike = query.shape == keys.shape == value.shape  # most calls: everything fits, no second look needed
    if not alike or query.ndim < 2:
        check_shapes(query, keys, value)
    rule = simplify(as_mask(mask), query.shape[-2], keys.shape[-2])
    flat = query.ndim != 4 or not (alike or _batch_of_heads(query, keys, value))
    return _fused(query, keys, value, rule=rule, bias=bias, scale=scale, dropout=dropout, flat=flat)


def attend_explicitly(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Score | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """What `attend` computes, with the weights written out."""
    score = score or SCALED_DOT
    keys = _keys(key, score)
    _check_query(query, keys)
    _check_value(keys, value)
    weights = attention_weights(query, Prepared(keys), score=score, mask=mask, bias=bias)
    return weigh(weights, value, dropout=dropout, mask=mask)


def attention_weights(
    query: Tensor,
    key: Tensor | Prepared,
    *,
    score: Score | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The explicit half: weights (..., T, S), each row a distribution over what it may attend to, or all zeros.

    Half-precision inputs give single-precision weights, as the fused kernels use inside.
    """
    score = score or SCALED_DOT
    keys = _keys(key, score)
    _check_query(query, keys)
    keys = repeat_groups(keys, query)
    if score.dot_scale(query.shape[-1]) is not None:
        query, keys = _at_least_single(query), _at_least_single(keys)
    scores = _at_least_single(score.compare(query, Prepared(keys)))
    rule = simplify(as_mask(mask), *scores.shape[-2:])
    allowed, bias, alive = _write_out(rule, bias, like=scores)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    weights = scores.softmax(-1)
    return weights if alive is None else weights.masked_fill(~alive, 0.0)


def weigh(weights: Tensor, value: Tensor, *, dropout: float = 0.0, mask: Mask | Tensor | None = None) -> Tensor:
    """The other half: values (..., S, Ev) averaged by weights (..., T, S), which were made with that mask."""
    if dropout > 0:
        draws = keyed()
        weights = F.dropout(weights, dropout) if draws is None else _dropped(weights, dropout, draws, mask)
    return weights.to(value.dtype) @ repeat_groups(value, weights)


def _dropped(weights: Tensor, p: float, draws: KeyedDraws, mask: Mask | Tensor | None) -> Tensor:
    """Dropout of weights by key; in a packed row, a key stands where it does in its document."""
    documents = documents_of(mask)
    places = None if documents is None else documents.key_places(weights.shape[-1], weights.device)
    n_dropped = round(p * LEVELS)
    kept = draws.kept_weights(weights.shape, p, key_places=places)
    return weights * kept.to(weights.dtype).mul_(LEVELS / (LEVELS - n_dropped))


def repeat_groups(tensor: Tensor, query: Tensor) -> Tensor:
    """Give each query head its own copy of the key or value head that its group shares."""
    groups = _group_size(query, tensor)
    return tensor if groups == 1 else tensor.repeat_interleave(groups, dim=-3)


def check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Say what does not fit, with both numbers, before a kernel says it in its own words."""
    check_width(query, key)
    _check_query(query, key)
    _check_value(key, value)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    rule: Mask | None,
    bias: Tensor | None,
    scale: float,
    dropout: float,
    flat: bool,
) -> Tensor:
    """Lead the call to PyTorch's kernels, with the causal flag where it says it all.

    The kernels want (B, H, ·, ·); `flat` says that the leading dimensions are others and have to be run together.
    The processor's kernel takes three times as long backwards in half precision as in single, so it gets that.
    """
    if query.dtype == torch.bfloat16 and query.requires_grad and query.device.type == "cpu":
        single = (query.float(), key.float(), value.float())
        with torch.autocast("cpu", enabled=False):
            output = _fused(*single, rule=rule, bias=bias, scale=scale, dropout=dropout, flat=flat)
        return output.to(query.dtype)
    causal = bias is None and isinstance(rule, Causal) and rule.offset == 0 and query.shape[-2] == key.shape[-2]
    kernel_mask, alive = (None, None) if causal else _kernel_mask(rule, bias, query=query, key=key)
    if flat:
        leading = torch.broadcast_shapes(query.shape[:-2], *(repeat_groups(x, query).shape[:-2] for x in (key, value)))
        key, value = repeat_groups(key, query), repeat_groups(value, query)
        query, key, value = (_flatten(x, leading) for x in (query, key, value))
        if kernel_mask is not None and kernel_mask.ndim > 2:
            kernel_mask = _flatten(kernel_mask, leading)
    output = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=kernel_mask,
        dropout_p=dropout,
        is_causal=causal,
        scale=scale,
        enable_gqa=query.shape[-3] != key.shape[-3],
    )
    if flat:
        output = output.reshape(*leading, *output.shape[-2:])
    return output if alive is None else output.masked_fill(~alive, 0.0)


def _kernel_mask(
    rule: Mask | None, bias: Tensor | None, *, query: Tensor, key: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """One tensor for the kernel, boolean or additive, and which rows are real (None: all of them)."""
    if rule is None and bias is None:
        return None, None
    leading = torch.broadcast_shapes(query.shape[:-2], _leading(key, query))
    like = query.new_empty(()).expand(*leading, query.shape[-2], key.shape[-2])
    allowed, bias, alive = _write_out(rule, bias, like=like)
    if bias is None:
        return allowed, alive
    # A bias beyond what half precision can hold stays a number: only -inf closes a key.
    bias = bias.clamp(min=max(torch.finfo(kind).min for kind in (query.dtype, bias.dtype))).to(query.dtype)
    return (bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))), alive


def _write_out(
    rule: Mask | None, bias: Tensor | None, *, like: Tensor
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Write mask and bias out for scores `like` (..., T, S): what is allowed, what is added, which rows are real.

    This is where an empty row becomes zeros: it is let see everything, so that no kernel divides by nothing and every
    gradient stays finite, and its row of `alive` is False, so that the caller blanks what comes out.
    """
    n_queries, n_keys = like.shape[-2:]
    allowed = None
    if rule is not None:
        allowed = rule.dense(n_queries, n_keys, n_leading=like.ndim - 2, device=like.device)
        _check_leading(allowed, like, what="mask")
    if bias is not None:
        _check_bias(bias, n_queries, n_keys)
        bias = bias if bias.ndim > 1 else bias.reshape(1, -1)
        _check_leading(bias, like, what="bias")
        open_bias = bias > float("-inf")
        bias = bias.masked_fill(~open_bias, 0.0)
        allowed = open_bias if allowed is None else allowed & open_bias
    elif rule is None or rule.leaves_none_empty(n_queries, n_keys):
        return allowed, bias, None
    assert allowed is not None
    alive = allowed.any(-1, keepdim=True)
    return allowed | ~alive, bias, alive


def _keys(key: Tensor | Prepared, score: Score) -> Tensor:
    return key.keys if isinstance(key, Prepared) else score.prepare(key).keys


def _at_least_single(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _batch_of_heads(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the shapes are (B, H, ·, ·) as the kernels want them, heads grouped or not."""
    if key.ndim != 4 or key.shape[:-2] != value.shape[:-2]:
        return False
    return key.shape[0] == query.shape[0] and query.shape[1] % key.shape[1] == 0


def _leading(key: Tensor, query: Tensor) -> tuple[int, ...]:
    """The keys' leading dimensions, their heads counted as the queries' where groups share them."""
    leading = key.shape[:-2]
    return leading if not leading else (*leading[:-1], leading[-1] * _group_size(query, key))


def _flatten(tensor: Tensor, leading: torch.Size) -> Tensor:
    """(..., N, E) with its leading dimensions broadcast and run together: (prod, 1, N, E)."""
    return tensor.expand(*leading, *tensor.shape[-2:]).reshape(leading.numel(), 1, *tensor.shape[-2:])


def _group_size(query: Tensor, key: Tensor) -> int:
    """How many query heads share one key head; 1 where the heads are equal in number or simply broadcast."""
    if query.ndim < 3 or key.ndim < 3 or 1 in (key.shape[-3], query.shape[-3]) or key.shape[-3] == query.shape[-3]:
        return 1
    if query.shape[-3] % key.shape[-3]:
        raise ShapeError(f"{query.shape[-3]} query heads cannot be grouped over {key.shape[-3]} key heads")
    return query.shape[-3] // key.shape[-3]


def _check_query(query: Tensor, key: Tensor) -> None:
    if min(query.ndim, key.ndim) < 2:
        raise ShapeError(
            f"queries and keys are (..., positions, width), got shapes {tuple(query.shape)} and {tuple(key.shape)}"
        )
    _group_size(query, key)
    _check_batch(query, key, names=("queries", "keys"))


def _check_value(key: Tensor, value: Tensor) -> None:
    if value.ndim < 2:
        raise ShapeError(f"values are (..., positions, width), got shape {tuple(value.shape)}")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"{key.shape[-2]} keys need as many values, not {value.shape[-2]}")
    _check_batch(key, value, names=("keys", "values"))


def _check_batch(one: Tensor, other: Tensor, *, names: tuple[str, str]) -> None:
    """Every leading dimension before the heads has to be equal or broadcast."""
    for ours, theirs in zip(one.shape[-4::-1], other.shape[-4::-1], strict=False):
        if ours != theirs and 1 not in (ours, theirs):
            raise ShapeError(f"a batch of {ours} {names[0]} does not fit a batch of {theirs} {names[1]}")


def _check_leading(tensor: Tensor, like: Tensor, *, what: str) -> None:
    """What a mask or a bias says of heads and rows has to fit the heads and rows there are."""
    for ours, theirs in zip(tensor.shape[-3::-1], like.shape[-3::-1], strict=False):
        if ours not in (1, theirs):
            raise ShapeError(
                f"a {what} of shape {tuple(tensor.shape)} does not fit scores of shape {tuple(like.shape)}: "
                f"{ours} is neither 1 nor {theirs}"
            )


def _check_bias(bias: Tensor, n_queries: int, n_keys: int) -> None:
    if bias.dtype == torch.bool or not bias.is_floating_point():
        raise ShapeError(f"a bias is added to the scores, so it holds real numbers, not {bias.dtype}")
    sizes = (1, 1, *bias.shape)[-2:]
    if sizes[0] not in (1, n_queries) or sizes[1] not in (1, n_keys):
        raise ShapeError(f"a bias of shape {tuple(bias.shape)} does not fit {n_queries} queries × {n_keys} keys")
