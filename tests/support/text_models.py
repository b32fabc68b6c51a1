"""Every registered model of one text, small, in every variant; and how each is asked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.models.registry import build

N_TOKENS, N_OUTPUTS = 13, 3
LENGTHS = (6, 3, 1, 4)
BERT = {"n_tokens": N_TOKENS, "d_model": 16, "n_heads": 4, "d_feedforward": 24, "n_layers": 2, "n_positions": 16}
GPT = {"n_tokens": N_TOKENS, "d_model": 16, "n_heads": 4, "n_layers": 2, "n_positions": 16}
RECURRENT = {"n_tokens": N_TOKENS, "d_embedding": 12, "d_hidden": 8}
RECURRENT_LM = {"n_tokens": N_TOKENS, "d_model": 12, "d_hidden": 8}
LLAMA = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True, "attention_bias": False,
         "feedforward_bias": False, "n_kv_heads": 2}  # fmt: skip
BARE = {"name": "bert", **BERT, "mlm": False, "nsp": False}

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "gpt": {
        "gpt2": GPT,
        "gpt1": {**GPT, "order": "post"},
        "llama": {**GPT, **LLAMA},
        "untied": {**GPT, "tied": False},
        "sinusoidal": {**GPT, "positions": "sinusoidal"},
        "wide_heads": {**GPT, "d_head": 8, "n_kv_heads": 1, "positions": "rotary"},
    },
    "bert": {
        "whole": BERT,
        "untied": {**BERT, "tied": False},
        "distilled": {**BERT, "n_segments": 0, "pooler": False, "nsp": False},
        "bare": {**BERT, "mlm": False, "nsp": False, "pooler": False},
    },
    "recurrent-encoder": {
        "plain": RECURRENT,
        "one_direction": {**RECURRENT, "bidirectional": False, "cell": "gru"},
        "additive": {**RECURRENT, "attention": "additive"},
        "scaled_dot": {**RECURRENT, "attention": "scaled_dot", "cell": "rnn", "n_layers": 2},
        "general": {**RECURRENT, "attention": "general", "bidirectional": False},
        "mlp": {**RECURRENT, "attention": "mlp"},
    },
    "recurrent-lm": {
        "lstm": RECURRENT_LM,
        "gru": {**RECURRENT_LM, "cell": "gru", "n_layers": 2},
    },
    "classifier": {
        "bert": {"backbone": {**BARE, "pooler": True}, "transform": "pooler"},
        "distilbert": {"backbone": {**BARE, "n_segments": 0, "pooler": False}, "transform": "relu"},
        "gpt": {"backbone": {"name": "gpt", **GPT}, "pooling": "last"},
        "mean": {"backbone": {**BARE, "pooler": False}, "pooling": "mean", "transform": "tanh"},
        "recurrent": {"backbone": {"name": "recurrent-encoder", **RECURRENT}, "pooling": "attention"},
        "additive": {
            "backbone": {"name": "recurrent-encoder", **RECURRENT},
            "pooling": "attention",
            "score": "additive",
        },
    },
    "span-reader": {
        "bert": {"backbone": {**BARE, "pooler": False}},
        "gpt": {"backbone": {"name": "gpt", **GPT}},
        "recurrent": {"backbone": {"name": "recurrent-encoder", **RECURRENT, "attention": "additive"}},
    },
}
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]
CAUSAL = [(name, variant) for name, variant in CASES if name in ("gpt", "recurrent-lm")] + [("span-reader", "gpt")]
WRITING = [(name, variant) for name, variant in CASES if name in ("gpt", "recurrent-lm")]
PACKED = [(name, variant) for name, variant in CASES if "recurrent" not in name + variant and variant != "additive"]
SEGMENTED = [("bert", "whole"), ("classifier", "bert"), ("span-reader", "bert")]


def options_of(name: str, variant: str, dropout: float = 0.0) -> dict[str, Any]:
    """All options of a variant, with one rate of dropout everywhere."""
    options = dict(VARIANTS[name][variant])
    if "backbone" in options:
        options["backbone"] = _dropped(options["backbone"], dropout)
        options |= {"n_outputs": N_OUTPUTS} if name == "classifier" else {}
    return _dropped(options, dropout)


def _dropped(options: dict[str, Any], dropout: float) -> dict[str, Any]:
    bert = "n_segments" in options or options.get("d_feedforward") == BERT["d_feedforward"]
    return {**options, "dropout": dropout, **({"attention_dropout": dropout} if bert else {})}


def make(name: str, variant: str, dropout: float = 0.0) -> nn.Module:
    """In double precision, where equal means equal to 1e-10."""
    return build(name, options_of(name, variant, dropout)).double().eval()


def tolerance(variant: str) -> dict[str, float]:
    """Rotary positions are computed in single precision."""
    return {"rtol": 0.0, "atol": 1e-5 if variant in ("llama", "wide_heads") else 1e-10}


def said(model: nn.Module, ids: Tensor | Rows, **given: Tensor) -> Tensor:
    """What a model says: (B, T, …) about every token, or (B, n) of a classifier; a BERT without heads encodes."""
    if getattr(getattr(model, "config", None), "mlm", True) is False:
        return model.encode(ids, **given)  # type: ignore[operator, no-any-return]
    found = model(ids, **given)
    return torch.stack(found, -1) if isinstance(found, tuple) else found


def batch(fill: int = 0) -> Rows:
    """Rows of different lengths; `fill` stands in the padding."""
    ids = torch.randint(1, N_TOKENS, (len(LENGTHS), max(LENGTHS)))
    for row, length in zip(ids, LENGTHS, strict=True):
        row[length:] = fill
    return Rows(ids, torch.tensor(LENGTHS))


def by_token(name: str) -> bool:
    """Whether a model says something about every token."""
    return name != "classifier"


def real(name: str, output: Tensor) -> Tensor:
    """What a model said about text, without what it said about padding."""
    if not by_token(name):
        return output
    return output[torch.arange(output.shape[1]) < torch.tensor(LENGTHS)[:, None]]
