"""What a model that goes on with texts promises on top: a batch of one = a batch of many, cached = uncached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from regard.attention import Rows
from regard.data.batching.plan import pad
from regard.decoding.scoring import force_decode
from regard.inspection.forward_case import device_of
from regard.inspection.invariants import (
    DRAWN,
    Check,
    Given,
    Trial,
    compare_alone,
    compare_cached,
    compare_draws,
    measure_reading,
    strategies,
)
from regard.tasks.language.writer import Writer


@torch.inference_mode()
def measure_continuing(
    module: nn.Module, writer: Callable[[nn.Module], Writer], *, texts: Sequence[str]
) -> Iterator[Check]:
    """Every promise on these texts, each of two pieces or more; `writer` is how the model writes."""
    write = writer(module)
    prompts = [write.prompt(text)[: write.context] for text in texts]
    begun = [ids[: max(1, len(ids) // 2)] for ids in prompts]
    for name, options in strategies(48).items():
        together = write.continue_ids(begun, options)
        alone = [write.continue_ids([ids], options)[0] for ids in begun]
        yield compare_alone(together, alone, strategy=name)
    drawn = replace(strategies(48)["sampling"], n_samples=DRAWN)
    yield compare_draws(lambda places: write.continue_ids([begun[i] for i in places], drawn), len(begun))
    rows = _rows(module, prompts, pad_id=write.tokenizer.pad_id)
    yield _cached(module, rows, prompts, begun, pad_id=write.tokenizer.pad_id)
    yield from measure_reading(Trial(module, Given((rows,)), limit=write.context))


def _cached(
    module: nn.Module, rows: Rows, texts: Sequence[list[int]], begun: Sequence[list[int]], *, pad_id: int
) -> Check:
    """The log-probabilities of what comes after each beginning: step by step, and in one pass over the whole text."""
    rest = [ids[len(start) :] for ids, start in zip(texts, begun, strict=True)]
    stepper = module.start(_rows(module, begun, pad_id=pad_id), capacity=max(map(len, rest)))  # type: ignore[operator]
    last = torch.tensor([ids[-1] for ids in begun])
    steps = force_decode(stepper, rest, bos_id=last, eos_id=None, pad_id=pad_id)
    terms = module(rows)[:, :-1].float().log_softmax(-1).gather(-1, rows.ids[:, 1:, None])[..., 0].tolist()
    spans = [(len(start) - 1, len(ids) - 1) for ids, start in zip(texts, begun, strict=True)]
    return compare_cached(steps, [row[first:end] for row, (first, end) in zip(terms, spans, strict=True)])


def _rows(module: nn.Module, texts: Sequence[Sequence[int]], *, pad_id: int) -> Rows:
    device = device_of(module)
    ids, lengths = pad(texts, pad_id)
    return Rows(ids.to(device), lengths.to(device))
