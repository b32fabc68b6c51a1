"""The one attention everything stands on: scores → mask → softmax → weighted sum, explicit and fused."""

from regard.attention.cache import Cache, reorder_all
from regard.attention.core import attend, attend_explicitly, attention_weights, weigh
from regard.attention.heads import MultiHeadAttention
from regard.attention.masks import Both, Causal, Dense, Documents, Mask, Padding, Since, Window
from regard.attention.positions import ALiBi, Learned, Rotary, Sinusoidal, Stretch, shift_matrix, sinusoidal
from regard.attention.rows import Rows
from regard.attention.scores import MLP, Additive, Dot, Gaussian, General, Prepared, ScaledDot, Score, SoftCap
from regard.attention.taps import Kind, Seen, Sight, Tap, watch

__all__ = [
    "MLP",
    "ALiBi",
    "Additive",
    "Both",
    "Cache",
    "Causal",
    "Dense",
    "Documents",
    "Dot",
    "Gaussian",
    "General",
    "Kind",
    "Learned",
    "Mask",
    "MultiHeadAttention",
    "Padding",
    "Prepared",
    "Rotary",
    "Rows",
    "ScaledDot",
    "Score",
    "Seen",
    "Sight",
    "Since",
    "Sinusoidal",
    "SoftCap",
    "Stretch",
    "Tap",
    "Window",
    "attend",
    "attend_explicitly",
    "attention_weights",
    "reorder_all",
    "shift_matrix",
    "sinusoidal",
    "watch",
    "weigh",
]
