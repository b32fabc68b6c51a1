"""Teaching a small model for a few seconds: the plain loop, with the optimizer and the schedule of real training."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions, Hypothesis, Stepper, decode
from regard.exhibits.phrases import Phrasebook
from regard.metrics.cross_entropy import linear_cross_entropy
from regard.models.interfaces.text import Seq2SeqModel
from regard.models.recurrent import RecurrentConfig, RecurrentSeq2Seq
from regard.training.optimizers import clip_gradients, make_optimizer
from regard.training.schedules import rate_at


def teach(model: nn.Module, loss: Callable[[], Tensor], *, steps: int, lr: float, warmup: int = 20) -> list[float]:
    """Follow the gradient of `loss` for so many steps, each call a new batch; the losses on the way."""
    optimizer = make_optimizer(model, lr=lr)
    model.train()
    losses = []
    for step in range(1, steps + 1):
        value = loss()
        value.backward()
        clip_gradients(model.parameters(), 1.0)
        optimizer.step(rate_at(step, schedule="cosine", lr=lr, warmup=warmup, steps=steps))
        optimizer.zero_grad()
        losses.append(float(value.detach()))
    model.eval()
    return losses


def pair_loss(model: Seq2SeqModel, source: Rows, target: Tensor) -> Tensor:
    """Nats a token of targets (B, T), each <s> …, padded, given their sources."""
    hidden = model.hidden(source, target[:, :-1])
    losses = linear_cross_entropy(
        hidden, model.output_weight, target[:, 1:], ignore_id=model.config.pad_id, bias=model.output_bias
    )
    return losses.total / losses.n_tokens


def decoded(stepper: Stepper, tokenizer: Tokenizer, *, n_rows: int, options: DecodeOptions) -> list[list[Hypothesis]]:
    """What is written in the pieces of a tokenizer, row by row, from its start to its end."""
    bos_id, eos_id, pad_id = tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id
    return decode(stepper, n_rows=n_rows, bos_id=bos_id, eos_id=eos_id, pad_id=pad_id, options=options)


def recurrent_translator(
    source: Phrasebook, target: Phrasebook, *, width: int, dropout: float, steps: int, lr: float, seed: int
) -> RecurrentSeq2Seq:
    """A small recurrent translator with additive attention (Bahdanau et al.), after a lesson in these pairs."""
    torch.manual_seed(seed)
    model = RecurrentSeq2Seq(
        RecurrentConfig(n_source=source.tokenizer.size, n_target=target.tokenizer.size, cell="gru", d_embedding=32,
                        d_hidden=width, n_layers=1, dropout=dropout, attention="additive")
    )  # fmt: skip
    draw = torch.Generator().manual_seed(seed)

    def loss() -> Tensor:
        rows = torch.randint(len(source.ids), (64,), generator=draw)
        return pair_loss(model, source.picked(rows).rows, target.ids[rows])

    teach(model, loss, steps=steps, lr=lr)
    return model


def best_milliseconds(run: Callable[[], Tensor], *, n: int) -> float:
    """The best of several forward and backward passes."""
    return 1000 * min(timeit.repeat(lambda: run().sum().backward(), number=1, repeat=n))
