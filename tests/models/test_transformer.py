"""The Transformer against torch.nn.Transformer, and what it refuses."""

import pytest
import torch
from torch import nn

from regard.attention import Rows, sinusoidal
from regard.errors import ConfigError, ShapeError
from regard.models.transformer import Transformer, TransformerConfig

TINY = {"d_model": 16, "n_heads": 4, "d_feedforward": 24, "n_encoder_layers": 2, "n_decoder_layers": 3, "dropout": 0.0}


def tiny(**options):
    return TransformerConfig(**{**TINY, "n_source": 11, "n_target": 13, "tied": "output", **options})


def randomised(config):
    """Biases and norms start as zeros and ones; random ones make mistakes visible."""
    model = Transformer(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def copy_attention(ours, theirs):
    cross = ours.tap.kind == "cross"
    parts = (ours.query, ours.key_value) if cross else (ours.query_key_value,)
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def copy_block(ours, theirs):
    copy_attention(ours.attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
    around = [ours.around_attention, ours.around_feedforward]
    if hasattr(ours, "cross"):
        copy_attention(ours.cross, theirs.multihead_attn)
        around.insert(1, ours.around_cross)
    for number, residual in enumerate(around, 1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


def as_torch(model):
    """torch.nn.Transformer with the same weights; its stacks end in a norm, which post-norm models do not have."""
    config = model.config
    theirs = nn.Transformer(
        config.d_model, config.n_heads, config.n_encoder_layers, config.n_decoder_layers, config.d_feedforward,
        dropout=0.0, batch_first=True, norm_first=config.order == "pre",
    ).double()  # fmt: skip
    for stack, their_stack in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for ours, block in zip(stack.blocks, their_stack.layers, strict=True):
            copy_block(ours, block)
        if stack.final_norm is None:
            their_stack.norm = None
        else:
            their_stack.norm.load_state_dict(stack.final_norm.state_dict())
    return theirs


def embed(embedding, ids):
    positions = sinusoidal(ids.shape[1], embedding.weight.shape[1]).double()  # single-precision table, as the model's
    return embedding.weight[ids] * embedding.weight.shape[1] ** 0.5 + positions


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_equals_torch_nn_transformer(order):
    model = randomised(tiny(order=order))
    theirs, (source, target) = as_torch(model), (torch.randint(1, 11, (3, 7)), torch.randint(1, 13, (3, 5)))
    lengths = torch.tensor([7, 4, 1])
    padding = torch.arange(7) >= lengths[:, None]
    decoded = theirs(
        embed(model.source_embedding, source),
        embed(model.target_embedding, target),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.bool),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    logits = model(Rows(source, lengths), target)
    torch.testing.assert_close(logits, decoded @ model.target_embedding.weight.T, rtol=0, atol=1e-10)


def test_positions_matter():
    for positions in ("sinusoidal", "learned", "rotary"):
        model = randomised(tiny(positions=positions))
        encoded = model.encode(torch.tensor([[3, 5, 5]]))
        assert not torch.allclose(encoded[0, 1], encoded[0, 2]), positions


def test_tied_matrices_are_one():
    shared = Transformer(tiny(tied="all", n_source=13))
    assert shared.source_embedding is shared.target_embedding
    assert shared.output is None
    assert Transformer(tiny(tied="none")).output.weight.shape == (13, 16)


def test_a_longer_input_than_ever_before():
    model = randomised(tiny(n_positions=4))
    source, target = torch.randint(1, 11, (1, 9)), torch.randint(1, 13, (1, 6))
    assert model(source, target).shape == (1, 6, 13)
    with pytest.raises(ShapeError, match="9 positions are more than the 4 learned ones"):
        randomised(tiny(n_positions=4, positions="learned"))(source, target)


def test_refusals():
    with pytest.raises(ConfigError, match="n_source is 0, at least 1"):
        Transformer(tiny(n_source=0))
    with pytest.raises(ConfigError, match="one shared embedding needs one vocabulary, got 11 source and 13") as error:
        Transformer(tiny(tied="all"))
    assert "model.tied" in error.value.hint
    packed = Rows.packed(torch.ones(4, dtype=torch.long), torch.tensor([3, 1]), longest=3)
    with pytest.raises(ShapeError, match="not a packed row"):
        Transformer(tiny()).start(packed)
    with pytest.raises(ShapeError, match="a packed source needs a packed target"):
        Transformer(tiny())(packed, torch.ones(2, 3, dtype=torch.long))


def test_beams_that_begin_alike_show_their_attention_row_by_row():
    model, source, rows = randomised(tiny()), torch.randint(1, 11, (2, 5)), torch.tensor([0, 0, 0, 1, 1, 1])
    beams, apart = model.start(source, watched=True), model.start(source[rows], watched=True)
    beams.select(rows, same_source=False)
    for tokens in (torch.full((6,), 2), torch.tensor([3, 4, 5, 3, 3, 6])):
        torch.testing.assert_close(beams.step(tokens), apart.step(tokens))
        torch.testing.assert_close(beams.attention(), apart.attention())
