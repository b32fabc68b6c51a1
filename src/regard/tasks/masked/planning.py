"""What suits documents to fill gaps in: pieces, a BERT by how many there are, and pairs where documents are several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.config.recipe import Recipe
from regard.config.wording import several, short_count
from regard.tasks.text_size import text_size, without_shape
from regard.tasks.texts import TextFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_READ = {"cpu": 20e6, "cuda": 6e9}  # most tokens that a run reads, over all passes
_PASSES = {"cpu": 10.0, "cuda": 80.0}  # over a million tokens; over four times as many, half
_CHOSEN_BY = {"cpu": 150_000, "cuda": 500_000}  # tokens that are enough to choose by


def plan_masked(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's documents."""
    files = TextFiles(recipe.data, context.data_root, context.data)
    size = text_size(files)
    kind = "cuda" if context.device.type == "cuda" else "cpu"
    given, tuned = recipe.given.get("tokenizer", {}), "start" in recipe.model
    pieces = size.pieces(given, letters=False)
    tokens = size.tokens(pieces | dict(given))
    batch = 2048 if kind == "cpu" or tokens < 100_000 else 32_768
    passes = 3.0 if tuned else min(_PASSES[kind] * (1e6 / tokens) ** 0.5, 60)
    share = size.held_out_share(tokens, most=_CHOSEN_BY[kind])
    data = {} if recipe.data.valid or "held_out" in recipe.given.get("data", {}) else {"held_out": share}
    if data and share < recipe.data.held_out:  # fewer documents may be held out then
        size = text_size(replace(files, data=replace(recipe.data, held_out=share)))
    n = size.all_documents
    return Plan(
        data=f"{several(n, 'document', 'documents')}, {short_count(size.all_characters)} characters",
        steps=int(within(200 * batch, passes * tokens, _READ[kind]) / batch),
        evaluations=12,
        patience=5,
        warmup=200 if tokens < 10e6 else 2000,
        cost=0.4 * size.held_tokens(tokens, share) / batch,
        settings={
            "data": data | ({} if tuned else {"next_sentence": size.paired}),
            "model": {} if tuned else without_shape(_model(tokens, kind=kind), recipe.given.get("model", {})),
            "tokenizer": {} if tuned or recipe.tokenizer.file else pieces,
            "train": {"batch_tokens": batch, "lr": 1e-4 if tuned else 1e-3, "weight_decay": 0.01},
        },
    )


def _model(tokens: float, *, kind: str) -> dict[str, Any]:
    """A size by how much there is to learn."""
    if tokens < 100_000:
        return {"name": "bert", "size": "tiny", "d_model": 64, "d_feedforward": 256}
    if kind == "cpu" or tokens < 1e6:
        return {"name": "bert", "size": "tiny"}
    return {"name": "bert", "size": "small" if tokens < 50e6 else "minilm" if tokens < 1e9 else "base"}
