"""What models are built of, around the one attention: norms, feed-forward, embeddings, blocks, recurrent layers."""

from regard.layers.blocks import DecoderBlock, DecoderStack, EncoderBlock, EncoderStack, Order, Residual, StackMaker
from regard.layers.dropout import Dropout, drop
from regard.layers.embeddings import Embedding
from regard.layers.feedforward import ActivationName, FeedForward, GatedFeedForward, activation_of
from regard.layers.kv_cache import DecoderKVCache
from regard.layers.norms import LayerNorm, NormName, RMSNorm, norm_of
from regard.layers.recurrent import Recurred, Recurrent, RecurrentName, merge_directions

__all__ = [
    "ActivationName",
    "DecoderBlock",
    "DecoderKVCache",
    "DecoderStack",
    "Dropout",
    "Embedding",
    "EncoderBlock",
    "EncoderStack",
    "FeedForward",
    "GatedFeedForward",
    "LayerNorm",
    "NormName",
    "Order",
    "RMSNorm",
    "Recurred",
    "Recurrent",
    "RecurrentName",
    "Residual",
    "StackMaker",
    "activation_of",
    "drop",
    "merge_directions",
    "norm_of",
]
