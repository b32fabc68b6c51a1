"""The other side of `serving_load.py`: a translator of ours as CTranslate2 has it, the same weights rounded to int8.

folder = exported(predictor, Path("made"))              written once, by what `regard export --to ctranslate2` calls
Once(predictor, folder, inter=2, intra=1)               a sentence a call
Collected(predictor, folder, inter=1, intra=2)          sentences that come within 5 ms are a batch
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.checkpoints.foreign.ctranslate2.writing import write_ctranslate2
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.usage import Usage
from regard.checkpoints.weights import weights_of

GATHER = 0.005  # seconds that the collector waits for company


def exported(predictor: Any, folder: Path, *, quantization: str | None = "int8") -> Path:
    """The predictor's Transformer as a model of CTranslate2, in int8 or as it is, as `regard export` writes it."""
    if (folder / "model.bin").exists():
        return folder
    module, sides = predictor.module, predictor.languages
    model = Pretrained(
        "translation",
        "transformer",
        asdict(module.config),
        tensors=weights_of(module),
        tokenizer=sides.source.tokenizer,
        target_tokenizer=None if sides.joint else sides.target.tokenizer,
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_ctranslate2(folder, model, precision=quantization or "fp32", usage=Usage())
    return folder


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
