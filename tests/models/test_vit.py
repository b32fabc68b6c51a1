"""The Vision Transformer's own: published sizes, and the equations written out."""

import pytest
import torch
import torch.nn.functional as F

from regard.models.flops import count_parameters
from regard.models.registry import build
from regard.models.vit import SIZES

PUBLISHED = {"tiny": 5_717_416, "small": 22_050_664, "base": 86_567_656, "large": 304_326_632}  # /16, 224, 1000 classes


@pytest.mark.parametrize("size", PUBLISHED)
def test_published_parameter_counts(size):
    with torch.device("meta"):
        assert count_parameters(build("vit", {"size": size})) == PUBLISHED[size]


@pytest.mark.parametrize("size", [size for size in SIZES if size not in PUBLISHED])
def test_sizes_for_small_images_are_small(size):
    model = build("vit", {"size": size}).eval()
    assert count_parameters(model) < 8e6
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    assert model.config.image == (32, 32)


def test_compact_is_cct_7_3x1():
    with torch.device("meta"):
        model = build("vit", {"size": "compact"})
    assert round(count_parameters(model) / 1e6, 2) == 3.77  # the paper's table: 3.76M, with a norm less in its pooling
    assert model.stem.grid(32, 32) == (16, 16)


def test_the_forward_pass_written_out():
    torch.manual_seed(0)
    model = build(
        "vit",
        {"image": (8, 12), "patch": 4, "d_model": 8, "n_heads": 2, "d_feedforward": 16, "n_layers": 1, "n_classes": 3},
    ).eval()
    images = torch.randn(2, 3, 8, 12)
    patches = F.unfold(images, 4, stride=4).transpose(1, 2)  # (B, 6, 48)
    tokens = patches @ model.stem.projection.weight.flatten(1).T + model.stem.projection.bias
    x = torch.cat((model.class_token.expand(2, 1, 8), tokens), 1) + model.positions.table.weight
    block = model.encoder.blocks[0]
    normed = F.layer_norm(x, (8,), block.around_attention.norm.weight, block.around_attention.norm.bias, 1e-6)
    q, k, v = block.attention.query_key_value(normed).view(2, 7, 3, 2, 4).permute(2, 0, 3, 1, 4)
    looked = ((q @ k.transpose(-1, -2) / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)
    x = x + block.attention.out(looked)
    normed = F.layer_norm(x, (8,), block.around_feedforward.norm.weight, block.around_feedforward.norm.bias, 1e-6)
    x = x + block.feedforward.outer(F.gelu(block.feedforward.inner(normed)))
    x = F.layer_norm(x, (8,), model.encoder.final_norm.weight, model.encoder.final_norm.bias, 1e-6)
    torch.testing.assert_close(model(images), model.output(x[:, 0]), rtol=1e-5, atol=1e-5)


def test_pooling_by_attention_is_a_weighted_mean():
    torch.manual_seed(0)
    model = build(
        "vit",
        {"image": (8, 8), "patch": 4, "d_model": 8, "n_heads": 2, "n_layers": 1, "pooling": "attention"},
    ).eval()
    encoded = torch.randn(2, 4, 8)
    weights = (encoded @ model.pool.query / 8**0.5).softmax(-1)
    torch.testing.assert_close(model.pooled(encoded), (weights[..., None] * encoded).sum(1))


def test_the_class_token_begins_small():
    torch.manual_seed(0)
    with torch.device("cpu"):
        model = build("vit", {"image": (8, 8), "patch": 4, "d_model": 1024, "n_heads": 2, "n_layers": 1})
    assert model.class_token.std().item() == pytest.approx(0.02, rel=0.1)
    assert abs(model.class_token.mean().item()) < 0.003
