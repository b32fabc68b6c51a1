"""What a model costs: its parameters, and the floating-point operations of a Transformer's training.

A multiplication and an addition count as two operations. The backward pass costs twice the forward pass: one product
for the gradient of the inputs and one for that of the weights. Norms, softmax and activations are left out: they are
linear in the width, where the products are quadratic. Attention counts every pair of positions, masked or not.

The paper's own figures (Vaswani et al., 2017, table 2) are 3.3e18 for base and 2.3e19 for big: the time on 8 GPUs
times the speed they are taken to sustain, not a count. For its batches of 25,000 tokens a side this account gives

    base, 100,000 steps    9.5e17    29 % of the paper's figure
    big,  300,000 steps    9.7e18    42 % of the paper's figure

and that share is how far the hardware was from the assumed speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from regard.models.transformer import TransformerConfig


def count_parameters(model: nn.Module) -> int:
    """How many numbers are learned; what is shared counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


@dataclass(frozen=True)
class Flops:
    """Floating-point operations by what they are for."""

    encoder: float
    decoder: float
    attention: float
    output: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.encoder + self.decoder + self.attention + self.output

    def times(self, factor: float) -> Flops:
        """So many times over."""
        return Flops(self.encoder * factor, self.decoder * factor, self.attention * factor, self.output * factor)


def forward_flops(
    config: TransformerConfig, *, source_tokens: int, target_tokens: int, source_length: float, target_length: float
) -> Flops:
    """One forward pass over so many tokens, in sentences of these lengths.

    `encoder` and `decoder` are the products with weights, `attention` those of queries with keys and of weights with
    values, `output` the one over the vocabulary.
    """
    D, E, H = config.d_model, config.d_model // config.n_heads, config.n_heads
    G, F = config.n_kv_heads or H, config.d_feedforward
    ask, hold = 2 * D * H * E, 2 * D * G * E  # queries and output are H heads wide, keys and values G, feed-forward F
    feedforward = 2 * 2 * D * F
    own = 2 * ask + 2 * hold + feedforward
    encoder = config.n_encoder_layers * source_tokens * own
    decoder = config.n_decoder_layers * (target_tokens * (own + 2 * ask) + source_tokens * 2 * hold)
    pairs = config.n_encoder_layers * source_tokens * source_length
    pairs += config.n_decoder_layers * target_tokens * (target_length + source_length)
    return Flops(encoder, decoder, attention=2 * 2 * H * E * pairs, output=2 * D * config.n_target * target_tokens)


def training_flops(
    config: TransformerConfig,
    *,
    source_tokens: int,
    target_tokens: int,
    steps: int = 1,
    source_length: float = 25.0,
    target_length: float = 25.0,
) -> Flops:
    """Forward and backward passes of `steps` steps, each over so many tokens in sentences of these lengths."""
    forward = forward_flops(
        config,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        source_length=source_length,
        target_length=target_length,
    )
    return forward.times(3 * steps)
