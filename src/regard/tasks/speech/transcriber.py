"""Speech in, text out: recordings are heard together, written down by any strategy of decoding, and timed.

    transcriber = Transcriber(model, tokenizer, front)
    transcriber([samples, …], options)             one Transcription a recording
    transcriber.times(samples, transcription, …)   when each word was said

A recording that is longer than the model reads at once is cut into pieces at its quietest places, and what is written
of them is joined. Where nobody speaks nothing is written: silence and steady noise are left out before (`decode.vad`),
and a text of what barely stands out of the noise is kept only if the model does not doubt it. What comes out never
depends on who shared the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from regard.attention import Rows, watch
from regard.data.audio.activity import CLEAR, Stretch, activity
from regard.data.audio.files import Samples
from regard.data.audio.mel import Front
from regard.data.batching.plan import like_lengths, pad
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import Hypothesis, decode, key_of
from regard.errors import UsageError
from regard.models.interfaces.speech import Frames, Heard, SpeechModel, device_of
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.ctc import best_labels, ctc_log_probs
from regard.tasks.speech.cutting import PAUSE, Piece, pieces, spoken_pieces
from regard.tasks.speech.doubts import TEMPERATURES, doubted, drawn_at, falls_back, is_silence, repeats
from regard.tasks.speech.prompting import (
    AUTO,
    START,
    Prompted,
    is_multilingual,
    languages,
    opening_ids,
    prompt_ids,
    silence_id,
)
from regard.tasks.speech.timing import Matrix, TimedWord, word_groups, word_times

IGNORED = -1


@dataclass(frozen=True)
class Transcription:
    """What was said: the text, its pieces, and how sure the model is; `parts` are the pieces of a long recording.

    `no_speech` is how likely it is that nobody speaks, where a model says so, and `language` the code of the language
    that was found where none was given.
    """

    text: str
    tokens: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    score: float = 0.0
    log_prob: float = 0.0
    finished: bool = True
    probabilities: list[float] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    no_speech: float | None = None
    language: str = ""


@dataclass(frozen=True)
class Part:
    """A stretch of a recording, in samples, and what was written of it."""

    begin: int
    end: int
    transcription: Transcription


class Transcriber:
    """Turns samples into text with one model; `seconds` is the longest it is given at once."""

    def __init__(
        self,
        model: SpeechModel,
        tokenizer: Tokenizer,
        front: Front,
        *,
        seconds: float = 30.0,
        batch_seconds: float = 240.0,
    ) -> None:
        self.model, self.tokenizer, self.front = model, tokenizer, front
        self.most = min(round(seconds * front.rate), front.longest or round(seconds * front.rate))
        self.batch = max(round(batch_seconds * front.rate), 1)

    def __call__(self, recordings: Sequence[Samples], options: SpeechOptions) -> list[list[Transcription]]:
        """Transcriptions of each recording, best first; of one that was cut, only the best."""
        self._check(options)
        cut = [self._cut(samples, options) for samples in recordings]
        spoken = self._languages(recordings, cut, options)
        written: list[list[list[Transcription]]] = [[[] for _ in own] for own in cut]
        for language in dict.fromkeys(spoken):
            rows = [(i, k) for i, own in enumerate(cut) if spoken[i] == language for k in range(len(own))]
            told = replace(options, language=language) if language else options
            for chunk in self._chunks([cut[i][k] for i, k in rows], options):
                chosen = [rows[place] for place in chunk]
                sounds = [recordings[i][cut[i][k].begin : cut[i][k].end] for i, k in chosen]
                long = [len(cut[i]) > 1 for i, _ in chosen]
                several = self._decode(sounds, told, long=long)
                for (i, k), own in zip(chosen, several, strict=True):
                    written[i][k] = self._believed(own, cut[i][k], options)
        return [
            [replace(one, language=language) for one in self._joined(list(zip(own, texts, strict=True)))]
            for own, texts, language in zip(cut, written, spoken, strict=True)
        ]

    def _cut(self, samples: Samples, options: SpeechOptions) -> list[Piece]:
        """The pieces of a recording that are listened to, one at least unless nobody speaks."""
        if options.vad:
            pause = math.inf if self.front.longest else PAUSE  # Whisper was trained on windows with pauses
            return spoken_pieces(samples, self.most, rate=self.front.rate, pause=pause)
        return [Piece(begin, end, math.inf) for begin, end in pieces(samples, self.most, self.front.rate)]

    def _chunks(self, cut: Sequence[Piece], options: SpeechOptions) -> list[list[int]]:
        """Pieces of like length together, as many as fit."""
        lengths = [self.front.longest or piece.end - piece.begin for piece in cut]
        width = max(options.beam, options.n_samples)
        budget = max(self.batch // width, max(lengths, default=1))
        return [list(map(int, chunk)) for chunk in like_lengths(lengths, budget)]

    def _believed(self, own: list[Transcription], piece: Piece, options: SpeechOptions) -> list[Transcription]:
        """The texts of a piece, emptied where nobody seems to speak."""
        best = own[0]
        unclear = options.vad and piece.level < CLEAR and doubted(best.score, options)
        if unclear or is_silence(best.score, best.no_speech, options):
            return [Transcription("", no_speech=best.no_speech)]
        return own

    @torch.inference_mode()
    def _languages(
        self, recordings: Sequence[Samples], cut: Sequence[Sequence[Piece]], options: SpeechOptions
    ) -> list[str]:
        """The language of each recording, by its first piece; empty where it is given or need not be told."""
        if options.language != AUTO or not is_multilingual(options):
            return [""] * len(recordings)
        marks = languages(self.tokenizer)
        codes, ids = [mark[2:-2] for mark in marks], list(marks.values())
        spoken = []
        for samples, own in zip(recordings, cut, strict=True):
            if not own:
                spoken.append("")
                continue
            _, heard = self.hear([samples[own[0].begin : own[0].end]])
            start = torch.tensor([prompt_ids(self.tokenizer, [START])], device=heard.memory.device)
            logits = self.model.unembed(self.model.spell(heard, start))[0, -1]
            spoken.append(codes[int(logits[ids].argmax())])
        return spoken

    @torch.inference_mode()
    def hear(self, recordings: Sequence[Samples]) -> tuple[Frames, Heard]:
        """Frames of recordings, and what the model makes of them."""
        device = device_of(self.model)
        lengths = torch.tensor([len(samples) for samples in recordings])
        padded = torch.zeros(len(recordings), int(lengths.max()))
        for row, samples in zip(padded, recordings, strict=True):
            row[: len(samples)] = torch.from_numpy(np.ascontiguousarray(samples))
        values, n_frames = self.front(padded.to(device), lengths.to(device))
        frames = Frames(values.to(self.model.output_weight.dtype), n_frames)
        return frames, self.model.listen(frames)

    def opening(self, options: SpeechOptions) -> list[int]:
        """The ids that are fed before every text."""
        return opening_ids(self.tokenizer, options, room=self.model.config.n_writable)

    @property
    def place_seconds(self) -> float:
        """How much time a place of memory stands for."""
        return self.front.n_hop * self.model.config.reduction / self.front.rate

    def n_places(self, n_samples: int) -> int:
        """How many places of memory so many samples fill, silence that was added not counted."""
        return -(-self.front.n_frames(n_samples) // self.model.config.reduction)

    @torch.inference_mode()
    def times(self, samples: Samples, transcription: Transcription, options: SpeechOptions) -> list[TimedWord]:
        """The words of a transcription with their times in seconds; `samples` are those of the whole recording."""
        told = replace(options, language=transcription.language) if transcription.language else options
        sounding = [(begin / self.front.rate, end / self.front.rate) for begin, end in self._sounding(samples)]
        timed: list[TimedWord] = []
        for part in transcription.parts:
            groups = word_groups(self.tokenizer, part.transcription.ids)
            if groups:
                own = samples[part.begin : part.end]
                timed += word_times(
                    self.seen(own, part.transcription.ids, told),
                    groups,
                    probabilities=part.transcription.probabilities,
                    place_seconds=self.place_seconds,
                    seconds=len(own) / self.front.rate,
                    offset=part.begin / self.front.rate,
                    sounding=sounding,
                )
        return timed

    def _sounding(self, samples: Samples) -> list[Stretch]:
        return activity(samples, self.front.rate).stretches(CLEAR)

    @torch.inference_mode()
    def seen(self, samples: Samples, ids: Sequence[int], options: SpeechOptions) -> Matrix:
        """Where the heads that follow the sound looked for each token and for the end after it: (H, U + 1, S)."""
        _, heard = self.hear([samples])
        opening = self.opening(options)
        target = torch.tensor([[*opening, *ids]], device=heard.memory.device)
        with watch(self.model, kinds=["cross"]) as seen:  # type: ignore[arg-type]
            self.model.spell(heard, target)
        layers = sorted({sight.layer for sight in seen})
        weights = [torch.cat([sight.weights[0] for sight in seen.where(layer=i)], 1) for i in layers]  # (H, U, S) each
        chosen = [tuple(map(int, head.split("."))) for head in options.heads]
        chosen = chosen or [(i, h) for i in range(len(weights)) for h in range(weights[i].shape[0])]
        if any(layer >= len(weights) or head >= weights[layer].shape[0] for layer, head in chosen):
            raise UsageError(f"decode.heads names a head that is not there: {', '.join(options.heads)}")
        picked = torch.stack([weights[layer][head] for layer, head in chosen])
        n = min(self.n_places(len(samples)), picked.shape[2])
        weights_of: Matrix = picked[:, len(opening) - 1 :, :n].double().cpu().numpy()
        return weights_of

    @torch.inference_mode()
    def _decode(
        self, recordings: Sequence[Samples], options: SpeechOptions, *, long: Sequence[bool]
    ) -> list[list[Transcription]]:
        """Texts of recordings, best first; those that are not to be trusted are drawn anew where that is asked for."""
        _, heard = self.hear(recordings)
        keys = [key_of(samples) for samples in recordings]
        several = self._written(heard, options, keys)
        again = [row for row in range(len(several)) if falls_back(options, long=long[row])]
        for temperature in TEMPERATURES:
            again = [row for row in again if self._is_bad(several[row][0], options)]
            if not again:
                break
            rows = torch.tensor(again, device=heard.memory.device)
            drawn = self._written(
                Heard(heard.memory[rows], heard.lengths[rows]),
                drawn_at(options, temperature),
                [keys[row] for row in again],
            )
            for row, own in zip(again, drawn, strict=True):
                several[row] = [max(own, key=lambda one: one.score)]
        return several

    def _is_bad(self, one: Transcription, options: SpeechOptions) -> bool:
        silent = is_silence(one.score, one.no_speech, options)
        return not silent and (doubted(one.score, options) or repeats(one.text, options))

    def _written(self, heard: Heard, options: SpeechOptions, keys: Sequence[int]) -> list[list[Transcription]]:
        if options.ctc == 1:
            scores = self.model.align(heard)
            assert scores is not None
            paths = best_labels(scores, heard.lengths, blank=self.tokenizer.pad_id)
            return [[self._greedy_alignment(*path)] for path in paths]
        several, silent = self._hypotheses(heard, options, keys)
        if options.ctc:
            several = [self._rescored(heard, row, own, options) for row, own in enumerate(several)]
        n = max(options.n_best, options.n_samples)
        return [
            [replace(self._transcription(one), no_speech=no_speech) for one in own[:n]]
            for own, no_speech in zip(several, silent, strict=True)
        ]

    def _hypotheses(
        self, heard: Heard, options: SpeechOptions, keys: Sequence[int]
    ) -> tuple[list[list[Hypothesis]], list[float | None]]:
        """Hypotheses of each row, and how likely it is that nobody speaks, where a model says so."""
        opening, n_rows = self.opening(options), len(heard.memory)
        limits = self._limits(heard, options, len(opening))
        stepper = self.model.start(heard, capacity=max(limits) + len(opening), watched=options.coverage_penalty > 0)
        start, silence = self.tokenizer.core.token_to_id(START), silence_id(self.tokenizer)
        after = None if start is None or silence is None else (start, silence)
        prompted = Prompted(stepper, opening, n_rows=n_rows, not_first=options.not_first, after=after)
        asked = replace(options, n_best=options.beam) if options.ctc else options
        several = decode(
            prompted,
            n_rows=n_rows,
            bos_id=opening[-1],
            eos_id=self.tokenizer.eos_id,
            pad_id=self.tokenizer.pad_id,
            options=asked,
            max_lengths=limits,
            row_keys=list(keys),
        )
        return several, [None] * n_rows if prompted.asked is None else prompted.asked.tolist()

    def _limits(self, heard: Heard, options: SpeechOptions, n_opening: int) -> list[int]:
        """The most tokens of each row: as asked for, and no more than there are positions, or time."""
        room = self.model.config.n_writable
        most = options.max_length if room is None else min(options.max_length, room - n_opening)
        if options.max_ratio:
            return [min(most, limit) for limit in options.limits(heard.lengths.tolist())]
        return [most] * len(heard.memory)

    def _greedy_alignment(self, ids: list[int], log_prob: float) -> Transcription:
        score = log_prob / max(1, len(ids))
        return self._made(ids, [math.exp(score)] * len(ids), score, log_prob, finished=True)

    def _rescored(self, heard: Heard, row: int, own: list[Hypothesis], options: SpeechOptions) -> list[Hypothesis]:
        """The hypotheses of a recording in the order of both scores together."""
        scores = self.model.align(heard)
        assert scores is not None
        terms = ctc_log_probs(
            scores[row : row + 1].expand(len(own), -1, -1),
            heard.lengths[row].expand(len(own)),
            [one.tokens for one in own],
            blank=self.tokenizer.pad_id,
        )
        ranked = [
            replace(one, score=(1 - options.ctc) * one.score + options.ctc * term / (len(one.tokens) + 1))
            for one, term in zip(own, terms.tolist(), strict=True)
        ]
        return sorted(ranked, key=lambda one: -one.score)

    def _transcription(self, one: Hypothesis) -> Transcription:
        sure = [math.exp(term) for term in one.token_log_probs[: len(one.tokens)]]
        return self._made(list(one.tokens), sure, one.score, one.log_prob, finished=one.finished)

    def _made(
        self, ids: list[int], sure: list[float], score: float, log_prob: float, *, finished: bool
    ) -> Transcription:
        text = self.tokenizer.decode(ids).strip()
        return Transcription(text, self.tokenizer.tokens(ids), ids, score, log_prob, finished, sure)

    def _joined(self, own: Sequence[tuple[Piece, list[Transcription]]]) -> list[Transcription]:
        """The transcriptions of a recording out of those of its pieces."""
        if len(own) == 1:
            piece, several = own[0]
            return [replace(one, parts=[Part(piece.begin, piece.end, one)]) for one in several]
        parts = [Part(piece.begin, piece.end, several[0]) for piece, several in own]
        transcriptions = [part.transcription for part in parts]
        total, n = sum(one.log_prob for one in transcriptions), sum(len(one.ids) + 1 for one in transcriptions)
        return [
            Transcription(
                " ".join(one.text for one in transcriptions if one.text),
                [token for one in transcriptions for token in one.tokens],
                [token for one in transcriptions for token in one.ids],
                total / max(1, n),
                total,
                all(one.finished for one in transcriptions),
                [sure for one in transcriptions for sure in one.probabilities],
                parts,
            )
        ]

    def _check(self, options: SpeechOptions) -> None:
        self.opening(options)
        if options.ctc and not getattr(self.model, "ctc", None):
            raise UsageError(
                f"decode.ctc is {options.ctc}, and the model has no output for an alignment",
                hint="train one with train.ctc=0.3",
            )


def batch_rows(tokenizer: Tokenizer, texts: Sequence[Sequence[int]], *, opening: Sequence[int]) -> tuple[Rows, Tensor]:
    """Ids of texts as the speller is fed them after an opening, and what it has to say: both (B, U).

    What has not to be said is labelled `IGNORED`: some tokenizers pad with the token that ends a text.
    """
    fed, lengths = pad([[*opening, *ids] for ids in texts], tokenizer.pad_id)
    unsaid = [IGNORED] * (len(opening) - 1)
    labels, _ = pad([[*unsaid, *ids, tokenizer.eos_id] for ids in texts], IGNORED)
    return Rows(fed, lengths), labels
