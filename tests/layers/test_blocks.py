"""Encoder and decoder blocks: both orders, against torch's own layers, cached and uncached."""

import pytest
import torch
from torch import nn

from regard.attention import Causal, MultiHeadAttention, Padding
from regard.layers import DecoderBlock, DecoderStack, EncoderBlock, EncoderStack, FeedForward, Residual, norm_of


def encoder_block(order="post", d=16, heads=4):
    return EncoderBlock(d, attention=MultiHeadAttention(d, heads), feedforward=FeedForward(d, 32), order=order)


def decoder_block(order="post", d=16, heads=4):
    return DecoderBlock(
        d,
        attention=MultiHeadAttention(d, heads, kind="masked"),
        cross=MultiHeadAttention(d, heads, kind="cross"),
        feedforward=FeedForward(d, 32),
        order=order,
    )


def copy_attention(ours, theirs):
    if ours.tap.kind == "cross":
        weight, bias = (
            torch.cat((ours.query.weight, ours.key_value.weight)),
            torch.cat((ours.query.bias, ours.key_value.bias)),
        )
    else:
        weight, bias = ours.query_key_value.weight, ours.query_key_value.bias
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = weight.data.clone(), bias.data.clone()
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def randomise(module):
    """Norms start as the identity; random weights make their order visible."""
    for p in module.parameters():
        nn.init.normal_(p, std=0.5)
    return module


@pytest.mark.parametrize("order", ["post", "pre"])
def test_encoder_block_equals_torchs(order):
    ours = randomise(encoder_block(order)).double()
    theirs = nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True, norm_first=order == "pre").double()
    copy_attention(ours.attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
    theirs.norm1.load_state_dict(ours.around_attention.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_feedforward.norm.state_dict())
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))
    padding = torch.arange(7) >= torch.tensor([[7], [4]])
    torch.testing.assert_close(
        ours(x, mask=Padding([7, 4]))[1, :4], theirs.train()(x, src_key_padding_mask=padding)[1, :4]
    )


@pytest.mark.parametrize("order", ["post", "pre"])
def test_decoder_block_equals_torchs(order):
    ours = randomise(decoder_block(order)).double()
    theirs = nn.TransformerDecoderLayer(16, 4, 32, dropout=0, batch_first=True, norm_first=order == "pre").double()
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
    for part, norm in ((ours.around_attention, "1"), (ours.around_cross, "2"), (ours.around_feedforward, "3")):
        getattr(theirs, f"norm{norm}").load_state_dict(part.norm.state_dict())
    x, memory = torch.randn(2, 5, 16, dtype=torch.float64), torch.randn(2, 7, 16, dtype=torch.float64)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    torch.testing.assert_close(ours(x, memory, mask=Causal()), theirs(x, memory, tgt_mask=causal))


@pytest.mark.parametrize("order", ["post", "pre"])
def test_decoding_step_by_step_equals_the_whole(order):
    stack = randomise(DecoderStack([decoder_block(order) for _ in range(3)], final_norm=norm_of("layer")(16))).double()
    x, memory = torch.randn(2, 6, 16, dtype=torch.float64), torch.randn(2, 7, 16, dtype=torch.float64)
    whole = stack(x, memory, mask=Causal(), memory_mask=Padding([7, 3]))
    kv_cache = stack.prefill(memory, capacity=4)  # less than needed: it grows
    for t in range(6):
        mask = Causal(offset=kv_cache.length)
        step = stack(x[:, t : t + 1], mask=mask, memory_mask=Padding([7, 3]), kv_cache=kv_cache)
        torch.testing.assert_close(step[:, 0], whole[:, t])


def test_reordered_rows_go_on_as_themselves():
    stack = randomise(DecoderStack([decoder_block() for _ in range(2)])).double()
    x, memory = torch.randn(3, 4, 16, dtype=torch.float64), torch.randn(3, 5, 16, dtype=torch.float64)
    whole, kv_cache, rows = stack(x, memory, mask=Causal()), stack.prefill(memory, capacity=8), torch.tensor([2, 0])
    stack(x[:, :3], mask=Causal(), kv_cache=kv_cache)
    kv_cache.reorder(rows)
    step = stack(x[rows, 3:], mask=Causal(offset=3), kv_cache=kv_cache)
    torch.testing.assert_close(step[:, 0], whole[rows, 3])


def test_a_language_models_block_is_an_encoder_block_with_a_cache():
    from regard.attention import Cache

    stack = randomise(EncoderStack([encoder_block("pre") for _ in range(2)], final_norm=norm_of("rms")(16))).double()
    x, caches = torch.randn(2, 6, 16, dtype=torch.float64), [Cache(6), Cache(6)]
    whole = stack(x, mask=Causal())
    first = stack(x[:, :4], mask=Causal(), caches=caches)
    rest = stack(x[:, 4:], mask=Causal(offset=4), caches=caches)
    torch.testing.assert_close(torch.cat((first, rest), 1), whole)


def test_dropout_acts_in_training_only():
    part, x = Residual(8, dropout=0.5), torch.randn(4, 8)
    part.eval()
    assert torch.equal(part(x, lambda h: h), part(x, lambda h: h))
    part.train()
    assert not torch.equal(part(x, lambda h: h), part(x, lambda h: h))
