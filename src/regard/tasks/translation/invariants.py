"""What a translator promises on top: a batch of one = a batch of many in every strategy, cached = uncached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from regard.decoding.scoring import force_decode
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
from regard.models.interfaces.text import as_seq2seq
from regard.tasks.translation.batches import batch_of
from regard.tasks.translation.data import Languages
from regard.tasks.translation.translator import Translator, teacher_forced_log_probs


@torch.inference_mode()
def measure_translation(
    module: nn.Module, languages: Languages, *, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[Check]:
    """Every promise on these sentences and their translations, one check after another."""
    model = as_seq2seq(module)
    ids = languages.source.encode(sources), languages.target.encode(targets)
    translator, target = Translator([model], languages), languages.target.tokenizer
    for name, options in strategies(48).items():
        together = translator(sources, options)
        alone = [translator([text], options)[0] for text in sources]
        yield compare_alone(together, alone, strategy=name)
    drawn = replace(strategies(48)["sampling"], n_samples=DRAWN)
    yield compare_draws(lambda places: translator([sources[i] for i in places], drawn), len(sources))
    stepper = model.start(translator.source_rows(ids[0]), capacity=max(map(len, ids[1])) + 1)
    steps = force_decode(stepper, ids[1], bos_id=target.bos_id, eos_id=target.eos_id, pad_id=target.pad_id)
    yield compare_cached(steps, teacher_forced_log_probs(model, languages, sources=ids[0], targets=ids[1]))
    batch = batch_of(languages, *ids).to(model.output_weight.device)
    yield from measure_reading(Trial(module, Given(batch.rows())))
