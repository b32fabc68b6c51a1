"""A scene for every kind of model: small, untrained, with weights large enough that attention is not even."""

from typing import Any

import torch

from regard.data.text.vocabulary import learn_tokenizer
from regard.inspection.forward_case import ForwardCase
from regard.inspection.look import text_case
from regard.models.registry import build
from regard.tasks.translation.data import Languages, TextSide
from regard.tasks.translation.look import pair_case

TOKENIZER = learn_tokenizer(["a dog runs along the beach and a cat sleeps"], "words", size=40)
N = len(TOKENIZER)
IDS = TOKENIZER.encode("a dog runs along the beach")
SMALL: dict[str, Any] = {"d_model": 16, "n_heads": 4, "dropout": 0.0, "attention_dropout": 0.0}
ENCODER = SMALL | {"d_feedforward": 24, "n_layers": 3, "n_positions": 32, "name": "bert", "n_tokens": N}


def pair(name: str, **options: Any) -> ForwardCase:
    module = build(name, {"n_source": N, "n_target": N, "dropout": 0.0} | options).eval()
    languages = Languages(TextSide(TOKENIZER), TextSide(TOKENIZER))
    return pair_case(_bold(module), languages, source=IDS, target=IDS[::-1])


def recurrent(attention: str, **options: Any) -> ForwardCase:
    return pair("recurrent", d_embedding=12, d_hidden=12, n_layers=1, attention=attention, **options)


def text(name: str, says: Any, **options: Any) -> ForwardCase:
    names = ("yes", "no", "perhaps") if says == "label" else ()
    return text_case(_bold(build(name, options).eval()), TOKENIZER, IDS, says=says, names=names)


def _bold(module: torch.nn.Module) -> torch.nn.Module:
    """Weights large enough that attention is not even."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name:
                parameter.mul_(3)
    return module


def classifier(backbone: dict[str, Any], **options: Any) -> ForwardCase:
    return text("classifier", "label", backbone=backbone, n_outputs=3, **options)


GPT = {"n_tokens": N, "n_layers": 2, "n_positions": 32} | SMALL
RECURRENT_ENCODER = {"name": "recurrent-encoder", "n_tokens": N, "d_embedding": 12, "d_hidden": 6, "dropout": 0.0}
SCENES: dict[str, Any] = {
    **{f"recurrent {name}": lambda name=name: recurrent(name) for name in
       ("dot", "scaled_dot", "general", "additive", "mlp")},
    "recurrent fed": lambda: recurrent("additive", input_feeding=True),
    "recurrent heads": lambda: recurrent("scaled_dot", n_heads=3),
    "transformer": lambda: pair("transformer", n_encoder_layers=3, n_decoder_layers=2, d_feedforward=24, **SMALL),
    "transformer rotary": lambda: pair("transformer", n_encoder_layers=1, n_decoder_layers=1, d_feedforward=24,
                                       positions="rotary", n_kv_heads=2, **SMALL),
    "gpt": lambda: text("gpt", "next", **GPT),
    "llama": lambda: text("gpt", "next", **GPT, positions="rotary", norm="rms", gated=True, n_kv_heads=2),
    "bert": lambda: text("bert", "here", **{k: v for k, v in ENCODER.items() if k != "name"}),
    "bert without words": lambda: text("bert", "here", **{k: v for k, v in ENCODER.items() if k != "name"}, mlm=False),
    "classifier": lambda: classifier(ENCODER | {"mlm": False}),
    "classifier pooled": lambda: classifier(ENCODER | {"mlm": False}, pooling="attention"),
    "classifier pooled additive": lambda: classifier(RECURRENT_ENCODER, pooling="attention", score="additive"),
    "recurrent encoder": lambda: classifier(RECURRENT_ENCODER | {"attention": "general"}, pooling="last"),
    "span reader": lambda: text("span-reader", "span", backbone=ENCODER | {"mlm": False}),
}  # fmt: skip
