"""A trained transcriber.

model = regard.load("runs/digits")
model("a.wav")                                 → Transcript: text, score, tokens, words with their times
model(["a.wav", "b.flac"], beam=5)             → one a recording
model.transcribe(samples, rate=16_000)         the same for samples that are in memory
model.look("a.wav").plot("seen.png")           which stretch of the sound it listened to for each word
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from regard.attention import Rows, watch
from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.audio.corpus import Utterances
from regard.data.audio.files import Samples, read_audio
from regard.data.audio.mel import SCALE, Front, Scale
from regard.data.audio.resampling import resample
from regard.data.text.tokenizers import Tokenizer
from regard.errors import RegardError, UsageError
from regard.inspection.invariants import TOLERANCE, Check, measure_saved
from regard.inspection.look import look_at
from regard.metrics.comparing import Compared, paired
from regard.models.interfaces.speech import Frames, as_speech
from regard.models.precision import in_precision
from regard.tasks.base import Evaluation, Predictor, ScoreData, check_texts, folder_of, test_sets, tokenizer_of
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.data import SpeechFiles, hearing
from regard.tasks.speech.look import SpeechLook, speech_case
from regard.tasks.speech.metrics import ErrorCounts, score_transcripts
from regard.tasks.speech.prompting import prompt_ids
from regard.tasks.speech.timing import TimedWord
from regard.tasks.speech.transcriber import Transcriber
from regard.tasks.speech.transcription import Transcription

_AT_ONCE = 64  # recordings that are read before any of them is transcribed


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording: text, score, pieces, what else it may have been, and when each word was said."""

    text: str
    score: float
    log_prob: float
    tokens: list[str]
    ids: list[int]
    seconds: float
    finished: bool
    alternatives: list[str] = field(default_factory=list)
    timing: Callable[[], list[TimedWord]] = field(default=list, repr=False, compare=False)

    @cached_property
    def words(self) -> list[TimedWord]:
        """The words with their times, read off the attention when they are asked for."""
        return self.timing()

    def plain(self) -> str:
        """The text in one line."""
        return " ".join(self.text.split())

    def record(self) -> dict[str, Any]:
        """Text, score, pieces and timed words."""
        said = {name: getattr(self, name) for name in ("text", "score", "log_prob", "tokens", "seconds", "finished")}
        words = [word.record() for word in self.words]
        return said | {"words": words, "alternatives": self.alternatives}


class SpeechPredictor(Predictor[Transcript]):
    """A model that listens and spells, with its pieces and its way of hearing."""

    def __init__(
        self, module: nn.Module, tokenizer: Tokenizer, config: Recipe, front: Front, *, precision: str = "auto"
    ) -> None:
        super().__init__(module, config)
        self.tokenizer, self.front = tokenizer, front
        seconds = config.data.max_seconds
        self.quick = Transcriber(as_speech(in_precision(module, precision)), tokenizer, front, seconds=seconds)
        self.exact = Transcriber(as_speech(module), tokenizer, front, seconds=seconds)

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        folder = folder_of(found)
        scale = Scale.load(folder) if (folder / SCALE).exists() else None
        return cls(module, tokenizer_of(found), recipe, hearing(recipe.data, scale), precision=precision)

    @classmethod
    def reading(cls, found: Pretrained) -> dict[str, Any]:
        """As Whisper hears, the one model of others there is."""
        return {"features": "whisper", "rate": 16_000, "n_mels": int(found.options["n_mels"])}

    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[Transcript]:
        """Transcribe sound files; `options` are fields of `SpeechOptions` that win over the recipe's."""
        chosen = self.options(options)
        named = list(range(len(texts))) if keys is None else list(keys)
        found: list[Transcript] = []
        for begin in range(0, len(texts), _AT_ONCE):
            some = [self.read(text) for text in texts[begin : begin + _AT_ONCE]]
            found += self._transcribe(some, chosen, named[begin : begin + _AT_ONCE])
        return found

    def transcribe(self, samples: Samples, rate: int, **options: Any) -> Transcript:
        """Transcribe samples (n,) from −1 to 1 that are in memory."""
        heard = self._at_rate(np.asarray(samples, np.float32), rate)
        if heard.ndim != 1 or not len(heard) or not np.isfinite(heard).all():
            raise UsageError(f"samples of shape {heard.shape} were given; allowed are finite numbers (n,), n from 1")
        return self._transcribe([heard], self.options(options), [0])[0]

    def read(self, path: str) -> Samples:
        """The samples of a file at the rate that the model hears."""
        audio = read_audio(path)
        return self._at_rate(audio.samples, audio.rate)

    def look(
        self,
        text: str,
        target: str | None = None,
        *,
        layers: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
        queries: bool = False,
        **options: Any,
    ) -> SpeechLook:
        """Where in a recording the model listened while it wrote what it heard, or the target."""
        check_texts([text] if target is None else [text, target])
        chosen, samples = self.options(options), self.read(text)
        if len(samples) > self.exact.most:
            self.say(f"the recording lasts {len(samples) / self.front.rate:.1f} s; only its beginning is looked at")
            samples = samples[: self.exact.most]
        wanted = None if target is None else self.tokenizer.encode(target)
        ids = self._transcribe([samples], chosen, [0])[0].ids if wanted is None else wanted
        place = speech_case(self.exact, self.tokenizer, samples, ids=ids, options=chosen, title=Path(text).name)
        seen = look_at(place.case, layers=layers, kinds=kinds or ("cross", "masked"), queries=queries)
        return place.finish(seen)

    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """WER, CER and their intervals on each test set."""
        chosen = self.options(options)
        for name, spoken in self.recordings(data).items():
            said = self._said(spoken, chosen)
            yield Evaluation(name, len(spoken), "recordings", score_transcripts(said, list(spoken.texts)), said)

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """WER and CER of both on the same recordings."""
        self._check_same_task(other)
        theirs = other.recordings(data)
        for name, spoken in self.recordings(data).items():
            if name not in theirs or list(theirs[name].texts) != list(spoken.texts):
                raise UsageError(
                    f"the two models' recipes have different recordings called {name!r}",
                    hint="say what to compare them on: --data FILE",
                )
            counts = [
                ErrorCounts.of(model._said(own, model.options(options)), list(own.texts))
                for model, own in ((self, spoken), (other, theirs[name]))
            ]
            found = paired((counts[0].figures, counts[1].figures), len(spoken), resamples=resamples, seed=seed)
            yield Compared(name, len(spoken), "recordings", found, digits=2)

    def recordings(self, data: ScoreData) -> Mapping[str, Utterances]:
        """The recordings to score on, by name: those of the files given, else of every test set of the recipe."""
        files = SpeechFiles(self.config.data, data.root, data.made)
        if data.files:
            return {data.files[0]: files.given(data.files, say=self.say)}
        return test_sets(files.tests(say=self.say))

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on recordings of a test set, or on noise."""
        samples, texts = self._some(data, min(n, 12))
        ids = self.tokenizer.encode_batch(texts)
        prompt = self.config.decode.prompt
        strategies = {
            "greedy": SpeechOptions(max_length=24, prompt=prompt),
            "beam": SpeechOptions(strategy="beam", beam=3, max_length=24, prompt=prompt),
        }
        for name, options in strategies.items():
            together = [several[0].ids for several in self.exact(samples, options)]
            alone = [self.exact([one], options)[0][0].ids for one in samples]
            wrong = sum(one != other for one, other in zip(together, alone, strict=True))
            yield Check(f"a batch of one = a batch of {len(samples)}, {name}", 0.0, 0.0, wrong)
        yield from self._computed(samples, ids)

    @torch.inference_mode()
    def _computed(self, samples: Sequence[Samples], ids: Sequence[Sequence[int]]) -> Iterator[Check]:
        """Logits of the whole against the row alone, the steps, the explicit attention, and the copy on disk."""
        opening = prompt_ids(self.tokenizer, self.config.decode.prompt)
        width = min(map(len, ids))
        frames, heard = self.exact.hear(samples)
        target = torch.tensor([[*opening, *row[:width]] for row in ids], device=heard.memory.device)
        together = self.module(frames, target)
        allowed = TOLERANCE * min(1.0, float(together.abs().max()))
        alone = torch.cat([self.module(self.exact.hear([one])[0], target[i : i + 1]) for i, one in enumerate(samples)])
        yield Check(f"a batch of one = a batch of {len(together)}", _apart(together, alone), allowed)
        stepper = as_speech(self.module).start(heard, capacity=target.shape[1])
        steps = torch.stack([stepper.step(target[:, t]) for t in range(target.shape[1])], 1)
        yield Check("cached = uncached", _apart(together, steps), allowed)
        with watch(self.module, through=True):
            yield Check("fused = explicit", _apart(together, self.module(frames, target)), allowed)
        yield measure_saved(self.module, lambda again: _apart(together, again(frames, target)), allowed=allowed)
        louder = Frames(frames.values.masked_fill(~_real(frames), 9.0), frames.lengths)
        lengths = torch.full((len(target),), target.shape[1], device=target.device)
        yield Check(
            "what stands behind the end does not matter",
            _apart(together, self.module(louder, Rows(target, lengths))),
            allowed,
        )

    def _some(self, data: ScoreData, n: int) -> tuple[list[Samples], list[str]]:
        try:
            name, spoken = next(iter(self.recordings(data).items()))
            n = min(n, len(spoken))
            self.say(f"on {n} recordings of {name}")
            return [spoken.samples(i)[: self.exact.most] for i in range(n)], [spoken.texts[i] for i in range(n)]
        except RegardError:
            self.say(f"on {n} recordings of noise: the recipe's test set is not here")
        chance = np.random.default_rng(1)
        pieces = [i for i in range(len(self.tokenizer)) if i not in self.tokenizer.special_ids]
        sounds = [0.1 * chance.standard_normal(int(chance.uniform(0.3, 1.5) * self.front.rate)) for _ in range(n)]
        texts = [self.tokenizer.decode(chance.choice(pieces, 8).tolist()) for _ in range(n)]
        return [sound.astype(np.float32) for sound in sounds], [text if text.strip() else "a" for text in texts]

    def _said(self, spoken: Utterances, options: SpeechOptions) -> list[str]:
        found = self.quick([spoken.samples(i) for i in range(len(spoken))], options)
        return [several[0].text for several in found]

    def _transcribe(
        self, recordings: Sequence[Samples], options: SpeechOptions, keys: Sequence[int]
    ) -> list[Transcript]:
        said = self.quick(recordings, options, keys=keys)
        return [self._transcript(*pair, options) for pair in zip(recordings, said, strict=True)]

    def _transcript(self, samples: Samples, several: Sequence[Transcription], options: SpeechOptions) -> Transcript:
        best = several[0]
        return Transcript(
            best.text,
            best.score,
            best.log_prob,
            best.tokens,
            best.ids,
            len(samples) / self.front.rate,
            best.finished,
            [other.text for other in several[1:]],
            lambda: self.exact.times(samples, best, options),
        )

    def _at_rate(self, samples: Samples, rate: int) -> Samples:
        changed: Samples = resample(torch.from_numpy(samples), rate, self.front.rate).numpy()
        return changed


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def _real(frames: Frames) -> torch.Tensor:
    return (torch.arange(frames.values.shape[1], device=frames.lengths.device) < frames.lengths[:, None])[..., None]
