"""Blocks that forget their activations: the same gradients, and copies that compute for themselves."""

from copy import deepcopy

import torch
from torch import nn

from regard.attention import MultiHeadAttention
from regard.layers import EncoderBlock, FeedForward
from regard.training.recompute import blocks_of, recompute_blocks


def block() -> EncoderBlock:
    return EncoderBlock(8, attention=MultiHeadAttention(8, 2), feedforward=FeedForward(8, 16))


def stack() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(block(), block())


def gradients(model: nn.Module, inputs: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    model(inputs).square().sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_gradients_are_the_same_to_the_bit() -> None:
    model, inputs = stack(), torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(2))
    expected = gradients(model, inputs)
    undo = recompute_blocks(model)
    assert all("forward" in vars(block) for block in blocks_of(model))
    assert all(torch.equal(a, b) for a, b in zip(gradients(model, inputs), expected, strict=True))
    undo()
    assert not any("forward" in vars(block) for block in blocks_of(model))


def test_a_copy_computes_with_its_own_weights() -> None:
    model, inputs = stack().double(), torch.ones(2, 3, 8)
    recompute_blocks(model)
    single = deepcopy(model).float()
    assert single(inputs).dtype == torch.float32
    assert single.eval()(inputs).dtype == torch.float32
    gradients(single, inputs)
    assert all(p.grad is None for p in model.parameters())
