"""What models that write promise on top: a batch of one = a batch of many in every strategy, cached = uncached.

measure_translation(module, languages, sources=…, targets=…)      models that turn one text into another
measure_continuing(module, writer, texts)                         models that go on with a text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from regard.attention import Rows
from regard.data.batching.plan import pad
from regard.decoding import DecodeOptions
from regard.decoding.scoring import force_decode
from regard.inspection.invariants import TOLERANCE, Check, Given, Trial, measure_reading
from regard.models.interfaces.text import as_seq2seq
from regard.tasks.language.writer import Writer
from regard.tasks.pairs import Languages
from regard.tasks.predictions import Prediction
from regard.tasks.translation.scoring import teacher_forced_log_probs
from regard.tasks.translation.training import batch_of
from regard.tasks.translation.translator import Translator

STRATEGIES = {
    "greedy": DecodeOptions(max_length=48),
    "beam": DecodeOptions(strategy="beam", beam=4, max_length=48),
    "sampling": DecodeOptions(strategy="sample", top_k=10, seed=7, max_length=48),
}
Terms = Sequence[Sequence[float]]
Written = Sequence[Sequence[Prediction]]


@torch.inference_mode()
def measure_translation(
    module: nn.Module, languages: Languages, *, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[Check]:
    """Every promise on these sentences and their translations, one finding after another."""
    model = as_seq2seq(module)
    ids = languages.source.encode(sources), languages.target.encode(targets)
    translator = Translator([model], languages)
    for name, options in STRATEGIES.items():
        together = translator(sources, options)
        alone = [translator([text], options, keys=[i])[0] for i, text in enumerate(sources)]
        yield _alone(together, alone, name=name)
    stepper = model.start(translator.source_rows(ids[0]), capacity=max(map(len, ids[1])) + 1)
    marks = languages.target.tokenizer
    steps = force_decode(stepper, ids[1], bos_id=marks.bos_id, eos_id=marks.eos_id, pad_id=marks.pad_id)
    yield _cached(steps, teacher_forced_log_probs(model, languages, sources=ids[0], targets=ids[1]))
    batch = batch_of(languages, *ids).to(model.output_weight.device)
    yield from measure_reading(Trial(module, Given(batch.rows())))


@torch.inference_mode()
def measure_continuing(
    module: nn.Module, writer: Callable[[nn.Module], Writer], *, texts: Sequence[str]
) -> Iterator[Check]:
    """Every promise on these texts, each of two pieces or more; `writer` is how the model writes."""
    write = writer(module)
    prompts = [write.prompt(text)[: write.context] for text in texts]
    begun = [ids[: max(1, len(ids) // 2)] for ids in prompts]
    for name, options in STRATEGIES.items():
        together = write.continue_ids(begun, options)
        alone = [write.continue_ids([ids], options, keys=[i])[0] for i, ids in enumerate(begun)]
        yield _alone(together, alone, name=name)
    yield _cached(*_both_ways(module, prompts, begun, pad_id=write.tokenizer.pad_id))
    given = Given((_rows(module, prompts, pad_id=write.tokenizer.pad_id),))
    yield from measure_reading(Trial(module, given, limit=write.context))


def _alone(together: Written, alone: Written, *, name: str) -> Check:
    pairs = list(zip(together, alone, strict=True))
    different = sum([t.ids for t in many] != [t.ids for t in one] for many, one in pairs)
    apart = max(abs(many[0].score - one[0].score) for many, one in pairs)
    return Check(f"a batch of one = a batch of {len(together)}, {name}", apart, TOLERANCE, different)


def _cached(steps: Terms, whole: Terms) -> Check:
    pairs = zip(steps, whole, strict=True)
    apart = max(abs(one - other) for a, b in pairs for one, other in zip(a, b, strict=True))
    return Check("cached = uncached", apart, TOLERANCE)


def _both_ways(
    module: nn.Module, texts: Sequence[list[int]], begun: Sequence[list[int]], *, pad_id: int
) -> tuple[Terms, Terms]:
    """The log-probabilities of what comes after each beginning: step by step, and in one pass over the whole text."""
    rest = [ids[len(start) :] for ids, start in zip(texts, begun, strict=True)]
    stepper = module.start(_rows(module, begun, pad_id=pad_id), capacity=max(map(len, rest)))  # type: ignore[operator]
    last = torch.tensor([ids[-1] for ids in begun])
    steps = force_decode(stepper, rest, bos_id=last, eos_id=None, pad_id=pad_id)
    rows = _rows(module, texts, pad_id=pad_id)
    said = module(rows)[:, :-1].float().log_softmax(-1).gather(-1, rows.ids[:, 1:, None])[..., 0].tolist()
    spans = [(len(start) - 1, len(ids) - 1) for ids, start in zip(texts, begun, strict=True)]
    return steps, [row[first:end] for row, (first, end) in zip(said, spans, strict=True)]


def _rows(module: nn.Module, texts: Sequence[Sequence[int]], *, pad_id: int) -> Rows:
    device = next(module.parameters()).device
    ids, lengths = pad(texts, pad_id)
    return Rows(ids.to(device), lengths.to(device))
