"""Translation: text in, text out, through any encoder–decoder.

    source   ids + </s>                 what the encoder reads
    target   <s> + ids                  what the decoder is fed
    labels   ids + </s>                 what it has to say

Sentences are grouped by length and decoded together; what comes out does not depend on who shared the batch.

What a model thinks of translations that are given: the log-probability of every target token, all at once.

The whole target is fed in one pass (teacher forcing). Decoding gets to the same numbers step by step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from regard.attention import Rows
from regard.config.threads import in_threads
from regard.config.twins import twin
from regard.data.batching.plan import like_lengths, pad
from regard.data.batching.ragged import Ids
from regard.decoding import DecodeOptions, EnsembleStepper, Hypothesis, Stepper, decode, key_of
from regard.decoding.shortlist import restricted
from regard.models.interfaces.text import Seq2SeqModel
from regard.tasks.predictions import Prediction
from regard.tasks.translation.batches import batch_of
from regard.tasks.translation.data import Languages
from regard.tasks.translation.shortlist import ShortlistTable

_SHARED_ROWS = 8  # of each thread: fewer are decoded sooner by all of them together
_SCORED_TOKENS = 4096  # of translations that are given, in a batch


class Translator:
    """Turns texts into translations with one model, or with several that vote at every step."""

    def __init__(self, models: Sequence[Seq2SeqModel], languages: Languages, *, batch_tokens: int = 8192) -> None:
        self.models, self.languages, self.batch_tokens = list(models), languages, batch_tokens

    def __call__(
        self,
        texts: Sequence[str],
        options: DecodeOptions,
        *,
        prefixes: Sequence[str] | None = None,
        table: ShortlistTable | None = None,
    ) -> list[list[Prediction]]:
        """The translations of each text, best first; a text without words has one, without words.

        With a `table`, out of the tokens that it lists for each text.
        """
        sources, target = self.languages.source.encode(texts), self.languages.target
        forced = target.encode(prefixes) if prefixes is not None else [[]] * len(texts)
        return [
            [Prediction.decoded(h, target.tokenizer, target.decode(h.tokens)) for h in several] or [Prediction("")]
            for several in self.hypotheses(sources, options, forced, table=table)
        ]

    def hypotheses(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
        *,
        table: ShortlistTable | None = None,
    ) -> list[list[Hypothesis]]:
        """What the ids of each sentence come to, best first; nothing for one without ids."""
        forced = [[]] * len(sources) if prefixes is None else prefixes
        found: list[list[Hypothesis]] = [[] for _ in sources]

        def decoded(rows: list[int]) -> list[list[Hypothesis]]:
            return self._decode([sources[i] for i in rows], options, [list(forced[i]) for i in rows], table)

        width = max(options.beam, options.n_samples)
        n_threads = self._n_threads(options) if len(sources) * width >= 2 * _SHARED_ROWS else 1
        batches = self._batches(sources, width=width, n_threads=n_threads)
        for rows, several in zip(batches, in_threads(decoded, batches, n=n_threads), strict=True):
            for i, best_first in zip(rows, several, strict=True):
                found[i] = best_first
        return found

    def source_rows(self, sources: Sequence[Sequence[int]]) -> Rows:
        """Ids of sentences as the encoder reads them: (B, S) with </s>."""
        tokenizer = self.languages.source.tokenizer
        ids, lengths = pad([[*ids, tokenizer.eos_id] for ids in sources], tokenizer.pad_id)
        device = self.device
        return Rows(ids.to(device), lengths.to(device))

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(iter(self.models[0].parameters())).device

    def _n_threads(self, options: DecodeOptions) -> int:
        """How many batches are decoded side by side: where rows get the same bits in any company, as there are threads.

        Steps that are watched are taken one batch after another: who watches sees all that a model does.
        """
        independent = twin("rows_independent")
        if independent is None or options.coverage_penalty > 0 or self.device.type != "cpu":
            return 1
        return torch.get_num_threads() if all(map(independent, self.models)) else 1

    def _batches(self, sources: Sequence[Sequence[int]], *, width: int, n_threads: int) -> list[list[int]]:
        """Sentences of like length together, within the budget, which threads share; empty ones are left out."""
        lengths = np.array([len(ids) for ids in sources])
        order = [int(i) for i in np.argsort(lengths, kind="stable")[::-1] if lengths[i] > 0]
        batches: list[list[int]] = []
        for i in order:
            longest = lengths[batches[-1][0]] if batches else 0
            if batches and (len(batches[-1]) + 1) * int(longest + 1) * width <= self.batch_tokens // n_threads:
                batches[-1].append(i)
            else:
                batches.append([i])
        if len(batches) == 1 and len(order) * width >= _SHARED_ROWS * n_threads:
            batches = [order[first::n_threads] for first in range(min(n_threads, len(order)))]
        return batches

    @torch.inference_mode()
    def _decode(
        self,
        sources: list[Sequence[int]],
        options: DecodeOptions,
        prefixes: list[list[int]],
        table: ShortlistTable | None = None,
    ) -> list[list[Hypothesis]]:
        tokenizer = self.languages.target.tokenizer
        rows = self.source_rows(sources)
        limits = options.limits([len(ids) + 1 for ids in sources])
        watched = options.coverage_penalty > 0
        steppers: list[Stepper] = [model.start(rows, capacity=max(limits), watched=watched) for model in self.models]
        if table is not None:
            shortlist = table.of(sources, prefixes)
            steppers = [restricted(stepper, shortlist) for stepper in steppers]
        return decode(
            steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers),
            n_rows=len(sources),
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
            pad_id=tokenizer.pad_id,
            options=options,
            max_lengths=limits,
            prefixes=prefixes if any(prefixes) else None,
            row_keys=[key_of(ids) for ids in sources],
        )


@torch.inference_mode()
def teacher_forced_log_probs(
    model: Seq2SeqModel, languages: Languages, *, sources: Sequence[Ids], targets: Sequence[Ids]
) -> list[list[float]]:
    """For each pair of ids, the log-probability of each target token and of the end mark after it."""
    device = model.output_weight.device
    log_probs_of: list[list[float]] = [[] for _ in sources]
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    for chunk in like_lengths(lengths, _SCORED_TOKENS):
        batch = batch_of(languages, [sources[i] for i in chunk], [targets[i] for i in chunk]).to(device)
        log_probs = model.forward(*batch.rows()).float().log_softmax(-1)
        terms = log_probs.gather(-1, batch.labels[..., None])[..., 0].tolist()
        for i, row in zip(chunk, terms, strict=True):
            log_probs_of[i] = row[: len(targets[i]) + 1]
    return log_probs_of
