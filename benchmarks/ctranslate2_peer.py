"""The other side of `serving_load.py`: a translator of ours as CTranslate2 has it, the same weights rounded to int8.

folder = exported(predictor, Path("made"))              written once, by CTranslate2's own converter parts
Once(predictor, folder, inter=2, intra=1)               a sentence a call
Collected(predictor, folder, inter=1, intra=2)          sentences that come within 5 ms are a batch
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

GATHER = 0.005  # seconds that the collector waits for company


def exported(predictor: Any, folder: Path) -> Path:
    """The predictor's Transformer as a model of CTranslate2, in int8."""
    from ctranslate2.specs import TransformerSpec

    if (folder / "model.bin").exists():
        return folder
    model, config = predictor.module, predictor.module.config
    assert (config.activation, config.norm, config.positions, config.tied) == ("relu", "layer", "sinusoidal", "all")
    spec = TransformerSpec.from_config(
        (config.n_encoder_layers, config.n_decoder_layers), config.n_heads, pre_norm=config.order == "pre"
    )
    places = _numbers(model.positions.table)
    for side, embedding in ((spec.encoder, spec.encoder.embeddings[0]), (spec.decoder, spec.decoder.embeddings)):
        embedding.weight = _numbers(model.source_embedding.weight)
        side.position_encodings.encodings = places
    spec.decoder.projection.weight = _numbers(model.output_weight)
    for layer, block in zip(spec.encoder.layer, model.encoder.blocks, strict=True):
        _attention(layer.self_attention, block.attention, block.around_attention.norm)
        _feedforward(layer.ffn, block)
    for layer, block in zip(spec.decoder.layer, model.decoder.blocks, strict=True):
        _attention(layer.self_attention, block.attention, block.around_attention.norm)
        _attention(layer.attention, block.cross, block.around_cross.norm)
        _feedforward(layer.ffn, block)
    if config.order == "pre":
        _norm(spec.encoder.layer_norm, model.encoder.final_norm)
        _norm(spec.decoder.layer_norm, model.decoder.final_norm)
    tokenizer = predictor.languages.source.tokenizer
    tokens = [tokenizer.core.id_to_token(i) for i in range(config.n_source)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    ids = {"unk_token": tokenizer.unk_id, "bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    for name, i in ids.items():
        setattr(spec.config, name, tokens[i])
    spec.config.decoder_start_token = tokens[tokenizer.bos_id]
    spec.config.add_source_eos, spec.config.layer_norm_epsilon = True, 1e-5
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return folder


def _numbers(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().float().numpy()


def _linear(into: Any, layer: nn.Linear, rows: slice = slice(None)) -> None:
    into.weight, into.bias = _numbers(layer.weight[rows]), _numbers(layer.bias[rows])


def _norm(into: Any, norm: Any) -> None:
    into.gamma, into.beta = _numbers(norm.weight), _numbers(norm.bias)


def _attention(into: Any, heads: Any, norm: Any) -> None:
    _norm(into.layer_norm, norm)
    if hasattr(heads, "query"):
        _linear(into.linear[0], heads.query)
        _linear(into.linear[1], heads.key_value)
    else:
        _linear(into.linear[0], heads.query_key_value)
    _linear(into.linear[-1], heads.out)


def _feedforward(into: Any, block: Any) -> None:
    _norm(into.layer_norm, block.around_feedforward.norm)
    _linear(into.linear_0, block.feedforward.inner)
    _linear(into.linear_1, block.feedforward.outer)


class Peer:
    """A CTranslate2 translator with our tokenizer before and after it; greedy, as ours."""

    def __init__(self, predictor: Any, folder: Path, *, inter: int, intra: int) -> None:
        import ctranslate2

        self.languages, self.options = predictor.languages, predictor.config.decode
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type="int8", inter_threads=inter, intra_threads=intra
        )
        self.pool = ThreadPoolExecutor(inter)
        self.core = self.languages.source.tokenizer.core

    def translate(self, texts: list[str]) -> list[tuple[str, int]]:
        """Each text's translation, and its tokens. A call has one limit, the largest of its sentences'."""
        ids = self.languages.source.encode(texts)
        limit = min(self.options.max_length, int(self.options.max_ratio * max(len(i) + 1 for i in ids)) + 10)
        results = self.translator.translate_batch(
            [[self.core.id_to_token(i) for i in row] for row in ids], beam_size=1, max_decoding_length=limit
        )
        made = [[self.core.token_to_id(token) for token in one.hypotheses[0]] for one in results]
        return [(self.languages.target.decode(row), len(row)) for row in made]


class Once(Peer):
    """A call for every request, as many at a time as the translator has workers."""

    async def answer(self, text: str) -> str:
        """The translation."""
        told = await asyncio.get_running_loop().run_in_executor(self.pool, self.translate, [text])
        return told[0][0]


class Collected(Peer):
    """Requests wait 5 ms for company and are translated as a batch; as many batches at a time as there are workers."""

    def __init__(self, predictor: Any, folder: Path, *, inter: int, intra: int, batch: int = 32) -> None:
        super().__init__(predictor, folder, inter=inter, intra=intra)
        self.batch, self.free = batch, inter
        self.waiting: list[tuple[str, asyncio.Future[str]]] = []
        self.task: asyncio.Task[None] | None = None

    async def answer(self, text: str) -> str:
        """The translation."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting.append((text, future))
        self._collect()
        return await future

    def _collect(self) -> None:
        if self.waiting and self.free and self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        await asyncio.sleep(GATHER)
        self.task = None
        chosen, self.waiting = self.waiting[: self.batch], self.waiting[self.batch :]
        self.free -= 1
        loop = asyncio.get_running_loop()
        done = self.pool.submit(self.translate, [text for text, _ in chosen])
        done.add_done_callback(lambda told: loop.call_soon_threadsafe(self._answered, chosen, told))
        self._collect()

    def _answered(self, chosen: list[tuple[str, asyncio.Future[str]]], told: Future[list[tuple[str, int]]]) -> None:
        self.free += 1
        for (_, future), (text, _) in zip(chosen, told.result(), strict=True):
            future.set_result(text)
        self._collect()
