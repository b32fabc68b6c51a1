"""Activation checkpointing (Chen et al., 2016): blocks keep their inputs only, and compute the rest again when needed.

A block's activations are needed for its gradients. Where they do not fit into memory, they are forgotten and made anew
in the backward pass, from the block's input and with the same random numbers: a third more work, and the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.config.keyed_draws import recomputation
from regard.layers import DecoderBlock, EncoderBlock


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks that a model is a stack of."""
    return [module for module in model.modules() if isinstance(module, (EncoderBlock, DecoderBlock))]


def recompute_blocks(model: nn.Module) -> Callable[[], None]:
    """Let the blocks of a model forget their activations in training; what is given back undoes it."""
    blocks = blocks_of(model)
    for block in blocks:
        block.forward = MethodType(_forgetful(type(block).forward), block)  # a copy of the block has its own
    return lambda: _undo(blocks)


def _forgetful(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def called(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not (block.training and torch.is_grad_enabled()):
            return forward(block, *args, **kwargs)
        return checkpoint(forward, block, *args, use_reentrant=False, context_fn=recomputation, **kwargs)

    return called


def _undo(blocks: Iterable[nn.Module]) -> None:
    for block in blocks:
        vars(block).pop("forward", None)
