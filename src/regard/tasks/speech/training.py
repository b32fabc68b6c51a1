"""Transcribing as something to train: batches of recordings, changed a little, their loss, and how well it hears.

    loss = (1 − λ) · cross-entropy of the text, token by token  +  λ · connectionist temporal classification

Batches hold samples; what is done to them and how they become frames is computed where the model is. Recordings of
like length go together, within a budget of seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.data.audio.augmentation import Changes, Drawn, alter, hide, stacked
from regard.data.audio.corpus import Utterances
from regard.data.audio.mel import Front
from regard.data.batching.plan import BatchPlan, Indices, like_lengths
from regard.data.batching.tensors import TensorBatch
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.models.interfaces.speech import Frames, SpeechModel, device_of
from regard.models.precision import in_double
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.ctc import ctc_loss
from regard.tasks.speech.data import encode_texts
from regard.tasks.speech.metrics import ErrorCounts
from regard.tasks.speech.prompting import prompt_ids
from regard.tasks.speech.transcriber import IGNORED, Transcriber, batch_rows
from regard.training.batching import BatchPlanMixin

_UNIT = 0.01  # seconds: what lengths are counted in when batches are planned


@dataclass(frozen=True)
class SpeechBatch(TensorBatch):
    """Samples (B, N) with their numbers (B,), texts as fed and as said (B, U), and what is to be changed."""

    samples: Tensor
    lengths: Tensor
    fed: Tensor
    text_lengths: Tensor
    labels: Tensor
    bands: Tensor
    times: Tensor
    drawn: tuple[Drawn, ...]
    n_tokens: int


class SpeechTraining(BatchPlanMixin):
    """What the trainer asks of the task: batches in a fixed order, their loss, and an evaluation."""

    objective = "minus_wer"
    unit = "characters"

    def __init__(
        self,
        tokenizer: Tokenizer,
        front: Front,
        train: Utterances,
        valid: Utterances,
        *,
        batch_seconds: float,
        seed: int,
        changes: Changes | None = None,
        label_smoothing: float = 0.0,
        ctc: float = 0.0,
        decode: SpeechOptions | None = None,
        seconds: float = 30.0,
    ) -> None:
        self.tokenizer, self.front, self.train, self.valid = tokenizer, front, train, valid
        self.changes, self.seed = changes or Changes(), seed
        self.label_smoothing, self.ctc, self.seconds = label_smoothing, ctc, seconds
        self.decode = decode or SpeechOptions()
        self.opening = prompt_ids(tokenizer, self.decode.prompt)
        self.texts, self.valid_texts = encode_texts(tokenizer, train), encode_texts(tokenizer, valid)
        lengths = np.ceil(train.lengths / (train.rate * _UNIT)).astype(np.int64)
        budget = round(batch_seconds / _UNIT)
        if int(lengths.max()) > budget:
            raise ConfigError(
                f"train.batch_seconds is {batch_seconds:g}, and a recording lasts {lengths.max() * _UNIT:.1f} s",
                hint="raise it, or lower data.max_seconds with data.bad=drop",
            )
        self.plan = BatchPlan(lengths, lengths, budget_tokens=budget, seed=seed)

    def share(self, examples: Indices, *, epoch: int, rank: int, world: int) -> SpeechBatch:
        """One process's share of a batch; an empty one is a batch without tokens."""
        return self.batch(examples[rank::world], epoch=epoch)

    def batch(self, indices: Indices, *, epoch: int) -> SpeechBatch:
        """The recordings of these numbers as one batch; an empty share is a batch without tokens."""
        drawn = [self.changes.draw(self.seed, epoch, int(i)) for i in indices]
        return batch_of(self.tokenizer, self.train, self.texts, indices, drawn=drawn, opening=self.opening)

    def loss(self, model: SpeechModel, batch: SpeechBatch) -> Losses:
        """The summed loss of a batch's tokens, with gradients."""
        return speech_loss(
            model,
            self.frames(replace(batch, samples=in_double(cast(nn.Module, model), batch.samples))),
            batch,
            smoothing=self.label_smoothing,
            ctc=self.ctc,
            blank=self.tokenizer.pad_id,
            skipped=len(self.opening) - 1,
        )

    def frames(self, batch: SpeechBatch) -> Frames:
        """A batch as the model hears it, changed as was drawn."""
        # In single precision: half of it would hiss.
        with torch.no_grad(), torch.autocast(batch.samples.device.type, enabled=False):
            samples, lengths = alter(batch.samples, batch.lengths, batch.drawn)
            values, frames = self.front(samples, lengths, warps=[one.warp for one in batch.drawn])
            changes = self.changes
            widths = {"band_width": changes.band_width, "time_width": changes.time_width}
            return Frames(hide(values, frames, bands=batch.bands, times=batch.times, **widths), frames)  # type: ignore[arg-type]

    def evaluate(self, model: SpeechModel) -> dict[str, float]:
        """Loss a token, WER and CER on the validation recordings, decoded as they will be in use."""
        transcribed = self._transcriber(model)(self._valid(len(self.valid)), self.decode)
        transcripts = [several[0].text for several in transcribed]
        rates = ErrorCounts.of(transcripts, list(self.valid.texts)).figures()
        nll, n_tokens = self._valid_nll(model)
        return {
            "valid_nll": nll / n_tokens,
            "wer": rates["WER"],
            "cer": rates["CER"],
            "minus_wer": -rates["WER"] - 1e-3 * nll / n_tokens,  # of equal rates, the surer one
        }

    def samples(self, model: SpeechModel, n: int) -> list[tuple[str, str, str]]:
        """The first few validation recordings: where they are, what is said, what was heard."""
        n = min(n, len(self.valid))
        transcripts = self._transcriber(model)(self._valid(n), self.decode)
        return [(self.valid.where(i), self.valid.texts[i], transcripts[i][0].text) for i in range(n)]

    def _valid(self, n: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
        return [self.valid.samples(i) for i in range(n)]

    def _transcriber(self, model: SpeechModel) -> Transcriber:
        return Transcriber(model, self.tokenizer, self.front, seconds=self.seconds)

    @torch.no_grad()
    def _valid_nll(self, model: SpeechModel) -> tuple[float, int]:
        device, total, count, plain = device_of(model), 0.0, 0, Changes()
        for chunk in like_lengths(self.valid.lengths, self.plan.budget_tokens * round(self.valid.rate * _UNIT)):
            indices = np.array(chunk)
            drawn = [plain.draw(0, 0, 0) for _ in chunk]
            options = {"drawn": drawn, "opening": self.opening}
            batch = batch_of(self.tokenizer, self.valid, self.valid_texts, indices, **options).to(device)  # type: ignore[arg-type]
            frames = Frames(*self.front(batch.samples, batch.lengths))
            losses = speech_loss(model, frames, batch, smoothing=0.0, ctc=0.0, blank=self.tokenizer.pad_id)
            total, count = total + float(losses.nll), count + batch.n_tokens
        return total, count


def batch_of(
    tokenizer: Tokenizer,
    spoken: Utterances,
    texts: Sequence[Sequence[int]],
    indices: Indices,
    *,
    drawn: Sequence[Drawn],
    opening: Sequence[int],
) -> SpeechBatch:
    """Recordings with their texts, padded; without any, a batch without tokens."""
    if not len(indices):
        none, no_length = torch.zeros(0, 0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
        return SpeechBatch(none.float(), no_length, none, no_length, none, none.float(), none.float(), (), 0)
    sounds = [torch.from_numpy(spoken.samples(int(i))) for i in indices]
    samples = torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True)
    lengths = torch.tensor([len(sound) for sound in sounds])
    chosen = [texts[int(i)] for i in indices]
    fed, labels = batch_rows(tokenizer, chosen, opening=opening)
    assert fed.lengths is not None
    bands, times = stacked(drawn)
    n_tokens = sum(len(ids) + 1 for ids in chosen)
    return SpeechBatch(samples, lengths, fed.ids, fed.lengths, labels, bands, times, tuple(drawn), n_tokens)


def speech_loss(
    model: SpeechModel,
    frames: Frames,
    batch: SpeechBatch,
    *,
    smoothing: float,
    ctc: float,
    blank: int,
    skipped: int = 0,
) -> Losses:
    """Summed loss, negative log-likelihood and tokens of a batch; `skipped` labels of an opening are not aligned."""
    heard = model.listen(Frames(in_double(cast(nn.Module, model), frames.values), frames.lengths))
    hidden = model.spell(heard, Rows(batch.fed, batch.text_lengths))
    losses = linear_cross_entropy(
        hidden.flatten(0, 1),
        model.output_weight,
        batch.labels.flatten(),
        smoothing=smoothing,
        ignore_id=IGNORED,
        bias=model.output_bias,
    )
    if not ctc:
        return losses
    scores = model.align(heard)
    assert scores is not None
    # The end mark is no label of the alignment: of U tokens with it, U − 1 are.
    sizes = batch.text_lengths - 1 - skipped
    aligned = ctc_loss(scores, heard.lengths, batch.labels[:, skipped:].clamp(min=0), sizes=sizes, blank=blank)
    return Losses((1 - ctc) * losses.total + ctc * aligned, losses.nll, losses.n_tokens)
