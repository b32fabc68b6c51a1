"""What suits a text to go on with: its pieces, a GPT by how many there are, and passes over them."""

from __future__ import annotations

from typing import Any

from regard.config.recipe import Recipe
from regard.config.wording import short_count
from regard.tasks.language.config import TASK
from regard.tasks.text_size import text_size, without_shape
from regard.tasks.texts import TextFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_READ = {"cpu": 20e6, "cuda": 4e9}  # most tokens that a run reads, over all passes
_PASSES = {"cpu": 6.0, "cuda": 36.0}  # over a million tokens; over four times as many, half
_CHOSEN_BY = {"cpu": 150_000, "cuda": 1_000_000}  # tokens that are enough to choose by


def plan_language(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's text."""
    size = text_size(TextFiles(recipe.data, context.data_root, context.data))
    kind = "cuda" if context.device.type == "cuda" else "cpu"
    given, tuned = recipe.given.get("tokenizer", {}), "start" in recipe.model
    pieces = size.pieces(given)
    tokens = size.tokens(pieces | dict(given))
    batch = 1024 if kind == "cpu" or tokens < 100_000 else 16_384 if tokens < 100e6 else 65_536
    passes = 3.0 if tuned else min(_PASSES[kind] * (1e6 / tokens) ** 0.5, 40)
    read = within(200 * batch, passes * tokens, _READ[kind])
    share = size.held_out_share(tokens, most=_CHOSEN_BY[kind])
    data = {} if recipe.data.valid else {"held_out": share}
    return Plan(
        data=f"{short_count(size.all_characters)} {'character' if size.all_characters == 1 else 'characters'}",
        steps=int(read / batch),
        evaluations=20,
        patience=5,
        warmup=100 if tokens < 10e6 else 1000,
        cost=0.35 * size.held_tokens(tokens, share) / batch,
        settings={
            "data": data if tuned else data | {"context": _context(tokens, kind=kind)},
            "model": {} if tuned else without_shape(_model(tokens, kind=kind), recipe.given.get("model", {})),
            "tokenizer": {} if tuned or recipe.tokenizer.file else pieces,
            "train": {"batch_tokens": batch} | _train(recipe, tokens, int(read / batch), large=batch > 1024),
            "decode": {"strategy": "sample", "temperature": 0.8, "top_k": 50, "max_length": 200},
        },
    )


def _context(tokens: float, *, kind: str) -> int:
    """Tokens that are read at once; a short text has room for few."""
    most = 128 if kind == "cpu" else 256 if tokens < 20e6 else 512
    return max(2, min(most, int(tokens) // 4))


def _model(tokens: float, *, kind: str) -> dict[str, Any]:
    """A size by how much there is to learn, and dropout where it is read many times."""
    model: dict[str, Any] = {"name": "gpt", "positions": "rotary", "norm": "rms"}
    if tokens < 100_000:
        return model | {"size": "tiny", "d_model": 64, "n_layers": 2, "n_heads": 2, "dropout": 0.2}
    if kind == "cpu" or tokens < 500_000:
        wider = {} if tokens < 5e6 else {"d_model": 192}
        return model | {"size": "tiny", "dropout": 0.1 if tokens < 500_000 else 0.0} | wider
    model |= {"attention_bias": False, "feedforward_bias": False}
    if tokens < 100e6:
        dropout = 0.3 if tokens < 4e6 else 0.1 if tokens < 40e6 else 0.0
        return model | {"size": "small", "dropout": dropout, "attention_dropout": round(dropout / 1.5, 2)}
    if tokens < 1e9:
        return model | {"size": "small", "d_model": 512, "n_heads": 8, "n_layers": 8, "dropout": 0.0}
    return model | {"size": "gpt2", "dropout": 0.0, "attention_dropout": 0.0}


def _train(recipe: Recipe, tokens: float, steps: int, *, large: bool) -> dict[str, Any]:
    """Small batches of a small model stand a high rate; what is trained already, or recurrent, does not."""
    if "start" in recipe.model:
        return {"lr": 1e-4}
    if recipe.model["name"] != TASK.models[0]:
        return {"lr": 2e-3}
    return {
        "optimizer": "muon",
        "lr": 0.002 if large or recipe.given.get("model", {}).get("size", "tiny") != "tiny" else 0.01,
        "schedule": "linear",
        "betas": [0.9, 0.99],
        "weight_decay": 0.5 if large and tokens < 4e6 else 0.1,
        "ema": 0.99 if steps < 1000 else 0.998,
    }
