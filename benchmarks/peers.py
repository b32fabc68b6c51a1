"""The other sides of the translation benchmarks: `nn.Transformer` trained, transformers' Marian decoding.

    pairs = random_pairs(4096, vocabulary=8000, seed=0)         ragged word ids, the same for every contestant
    batches = padded_batches(pairs, 2048)                       source (B, S), target (B, T + 1), PAD where nothing is
    trainer = Trainer(nn_transformer(256, 4, 3, 1024, 8000), device="cpu", compiled=False)
    trainer.train_step(batches[0])                              forward, backward, AdamW; the loss, on the device
    Marian(marian(512, 8, 6, 2048, 8000), device="cpu").generate(source, beams=4)    (B, 32) new tokens

A source is its words and EOS, a target BOS, its words and EOS; the target tokens counted are the words and EOS.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS, UNK = range(4)
N_SPECIALS = 4
Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Batch:
    """Padded ids: source (B, S) with EOS, target (B, T + 1) with BOS and EOS; `n_target` real tokens to predict."""

    source: Tensor
    target: Tensor
    n_target: int

    def to(self, device: str) -> Batch:
        """The same batch on a device."""
        return Batch(self.source.to(device), self.target.to(device), self.n_target)


def random_pairs(n: int, lengths: tuple[int, int] = (20, 32), *, vocabulary: int, seed: int) -> list[Pair]:
    """Pairs of word ids in [N_SPECIALS, vocabulary); each side's length is drawn on its own, both ends included."""
    draw = random.Random(seed)

    def sentence() -> list[int]:
        return [draw.randrange(N_SPECIALS, vocabulary) for _ in range(draw.randint(*lengths))]

    return [(sentence(), sentence()) for _ in range(n)]


def padded_batches(pairs: Sequence[Pair], tokens: int, *, by_length: bool = True, multiple: int = 1) -> list[Batch]:
    """Batches of about `tokens` target positions, padding included.

    Sorting `by_length` keeps padding low; a `multiple` above 1 rounds lengths up, so that a compiled model sees
    few shapes. Each batch fits into `tokens`; a sentence longer than that is a batch of its own.
    """
    order = sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0]))) if by_length else list(pairs)
    batches: list[Batch] = []
    rows: list[Pair] = []
    longest = 0
    for pair in order:
        grown = max(longest, _rounded(len(pair[1]) + 1, multiple))
        if rows and grown * (len(rows) + 1) > tokens:
            batches.append(_padded(rows, multiple))
            rows, grown = [], _rounded(len(pair[1]) + 1, multiple)
        rows.append(pair)
        longest = grown
    return [*batches, _padded(rows, multiple)] if rows else batches


def nn_transformer(
    d_model: int, n_heads: int, n_layers: int, d_feedforward: int, vocabulary: int, dropout: float = 0.1
) -> TorchTransformer:
    """What one would write with `nn.Transformer` today: tied, scaled embeddings and sinusoidal positions."""
    return TorchTransformer(d_model, n_heads, n_layers, d_feedforward, vocabulary, dropout)


class TorchTransformer(nn.Module):
    """`nn.Transformer`, post-norm, `n_layers` on each side, with one matrix for source, target and output."""

    positions: Tensor

    def __init__(
        self, d_model: int, n_heads: int, n_layers: int, d_feedforward: int, vocabulary: int, dropout: float
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", _sinusoids(256, d_model), persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            d_model, n_heads, n_layers, n_layers, d_feedforward, dropout, batch_first=True
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Ids (B, S) and (B, T), target from BOS on → logits (B, T, V)."""
        source_padding = source == PAD
        T = target.shape[1]
        future = torch.ones(T, T, dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=future,
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source_padding,
            tgt_is_causal=True,  # said, not detected: detection compares the mask and waits for the device
        )
        return F.linear(hidden, self.embedding.weight)

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy of the real target tokens, labels smoothed by 0.1."""
        logits = self(source, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1)

    def without_attention_dropout(self) -> TorchTransformer:
        """Drop nothing from the attention weights, which `nn.Transformer` otherwise does at its one dropout rate."""
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        return self

    def _embed(self, ids: Tensor) -> Tensor:
        embedded = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        dropped: Tensor = self.dropout(embedded + self.positions[: ids.shape[1]])
        return dropped


class Trainer:
    """One model and its fused AdamW; the loss is compiled whole, output and cross-entropy included, if asked."""

    def __init__(self, model: TorchTransformer, *, device: str, compiled: bool, lr: float = 3e-4) -> None:
        self.device = device
        self.model = model.to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, fused=True)
        self._loss: Callable[[Tensor, Tensor], Tensor] = torch.compile(model.loss) if compiled else model.loss

    def train_step(self, batch: Batch) -> Tensor:
        """One update: bf16 autocast on CUDA, float32 elsewhere; the loss stays on the device."""
        with autocast(self.device):
            loss = self._loss(batch.source, batch.target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def marian(d_model: int, n_heads: int, n_layers: int, d_feedforward: int, vocabulary: int) -> Any:
    """transformers' MarianMTModel with random weights, from its configuration alone: nothing is fetched."""
    from transformers import AutoModelForSeq2SeqLM, MarianConfig

    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=d_model,
        encoder_layers=n_layers,
        decoder_layers=n_layers,
        encoder_attention_heads=n_heads,
        decoder_attention_heads=n_heads,
        encoder_ffn_dim=d_feedforward,
        decoder_ffn_dim=d_feedforward,
        max_position_embeddings=256,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    auto: Any = AutoModelForSeq2SeqLM  # its from_config carries no annotations
    return auto.from_config(config, attn_implementation="sdpa")


class Marian:
    """A Marian model made ready to decode: eval, float32 on the CPU with a thread a core, bf16 on CUDA."""

    def __init__(self, model: Any, *, device: str) -> None:
        self.device = device
        if device == "cpu":
            torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.model = model.to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()

    @torch.inference_mode()
    def generate(self, source: Tensor, *, beams: int = 1, new_tokens: int = 32, cache: str | None = None) -> Tensor:
        """Padded source (B, S) → exactly `new_tokens` tokens a sentence (B, new_tokens).

        Random weights would end anywhere: EOS is held back up to the last token, so every contestant does as much.
        `cache="static"` asks transformers for its preallocated cache, which it compiles on CUDA.
        """
        options = {} if cache is None else {"cache_implementation": cache}
        generated: Tensor = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beams,
            do_sample=False,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            **options,
        )
        fresh = generated[:, 1:]  # without the decoder's start
        if fresh.shape != (source.shape[0], new_tokens):
            raise RuntimeError(f"Marian gave {tuple(fresh.shape)}, wanted {(source.shape[0], new_tokens)}")
        return fresh


def autocast(device: str) -> contextlib.AbstractContextManager[None]:
    """bf16 autocast on CUDA, nothing elsewhere."""
    return torch.autocast("cuda", torch.bfloat16) if device == "cuda" else contextlib.nullcontext()


def _padded(rows: Sequence[Pair], multiple: int) -> Batch:
    sources = [[*source, EOS] for source, _ in rows]
    targets = [[BOS, *target, EOS] for _, target in rows]
    S = _rounded(max(map(len, sources)), multiple)
    T = _rounded(max(map(len, targets)) - 1, multiple)
    return Batch(_filled(sources, S), _filled(targets, T + 1), sum(len(target) - 1 for target in targets))


def _filled(rows: Sequence[list[int]], width: int) -> Tensor:
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def _rounded(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def _sinusoids(n_positions: int, d_model: int) -> Tensor:
    angles = torch.arange(n_positions)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(1e4) / d_model))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
