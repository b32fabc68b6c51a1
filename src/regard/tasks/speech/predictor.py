"""A trained transcriber.

model = regard.load("runs/digits")
model("a.wav")                                 → Transcript: text, score, tokens, words with their times
model(["a.wav", "b.flac"], beam=5)             → one a recording
model((samples, 16_000))                       the same for samples that are in memory; or model(samples, rate=16_000)
model.look("a.wav").plot("seen.png")           which stretch of the sound it listened to for each word
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.data.audio.corpus import Utterances
from regard.data.audio.files import SUFFIXES, Samples
from regard.data.audio.inputs import AudioInput, SampleInput, audio_of, check_recordings, is_recording
from regard.data.audio.mel import SCALE, WHISPER_SECONDS, Front, Scale
from regard.data.audio.resampling import resample
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, UsageError
from regard.models.interfaces.speech import as_speech
from regard.models.precision import in_precision
from regard.tasks.base import Predictor, ScoreData, check_texts, folder_of, one_or_many, tokenizer_of
from regard.tasks.decode_settings import DecodeSettings
from regard.tasks.measuring import Scores
from regard.tasks.speech.config import Fallback, SpeechOptions
from regard.tasks.speech.cutting import pieces
from regard.tasks.speech.data import SpeechFiles, hearing
from regard.tasks.speech.metrics import score_recordings
from regard.tasks.speech.segments import Segment, segments_of
from regard.tasks.speech.timing import TimedWord
from regard.tasks.speech.transcriber import Transcriber, Transcription

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check
    from regard.inspection.record import Look

_VERIFIED = 12  # recordings that promises are measured on, at most
_AT_ONCE = 64  # recordings that are read before any of them is transcribed


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording: text, score, pieces, what else it may have been, and when each word was said.

    `language` is the code of the language that was found, where that was asked for.
    """

    text: str
    score: float
    log_prob: float
    tokens: list[str]
    ids: list[int]
    seconds: float
    finished: bool
    alternatives: list[str] = field(default_factory=list)
    language: str = ""
    timing: Callable[[], list[TimedWord]] = field(default=list, repr=False, compare=False)

    @cached_property
    def words(self) -> list[TimedWord]:
        """The words with their times, read off the attention when they are asked for."""
        return self.timing()

    @cached_property
    def segments(self) -> list[Segment]:
        """The text in parts as subtitles have them, with the times of the whole recording."""
        return segments_of(self.text, self.words)

    def plain(self) -> str:
        """The text in one line."""
        return " ".join(self.text.split())

    def record(self) -> dict[str, Any]:
        """Text, score, pieces, and words and segments with their times."""
        facts = {name: getattr(self, name) for name in ("text", "score", "log_prob", "tokens", "seconds", "finished")}
        facts |= {"language": self.language} if self.language else {}
        words, segments = ([one.record() for one in timed] for timed in (self.words, self.segments))
        return facts | {"words": words, "segments": segments, "alternatives": self.alternatives}


class SpeechSettings(DecodeSettings, total=False):
    """The fields of `SpeechOptions`, as a call takes them."""

    ctc: float
    prompt: tuple[str, ...]
    not_first: tuple[int, ...]
    heads: tuple[str, ...]
    vad: bool
    language: str
    translate: bool
    initial_prompt: str
    fallback: Fallback
    no_speech_threshold: float
    log_prob_threshold: float
    compression_ratio_threshold: float


class SpeechPredictor(Predictor[AudioInput, Transcript]):
    """A model that listens and spells, with its pieces and its way of hearing."""

    suffixes = SUFFIXES
    verified_on = ("recordings", "recordings of noise")

    def __init__(
        self, module: nn.Module, tokenizer: Tokenizer, config: Recipe, front: Front, *, precision: str = "auto"
    ) -> None:
        super().__init__(module, config)
        self.tokenizer, self.front = tokenizer, front
        seconds = config.data.max_seconds
        self.quick = Transcriber(as_speech(in_precision(module, precision)), tokenizer, front, seconds=seconds)
        self.exact = Transcriber(as_speech(module), tokenizer, front, seconds=seconds)

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        folder = folder_of(pretrained)
        scale = Scale.load(folder) if (folder / SCALE).exists() else None
        n_mels = int(pretrained.options["n_mels"])
        if scale is not None and {len(scale.mean), len(scale.deviation)} != {n_mels}:
            raise CheckpointError(f"{folder / SCALE}: is for {len(scale.mean)} bands, and the model has {n_mels}")
        return cls(module, tokenizer_of(pretrained), recipe, hearing(recipe.data, scale), precision=precision)

    @classmethod
    def reading(cls, pretrained: Pretrained) -> dict[str, Any]:
        """As Whisper hears, the one model of others there is."""
        return {"features": "whisper", "rate": 16_000, "n_mels": int(pretrained.options["n_mels"])}

    @classmethod
    def for_others(cls, pretrained: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """With how Whisper hears, and that its tokenizer is Whisper's: what a pipeline of transformers asks for."""
        spec, tensors, _ = super().for_others(pretrained)
        heard = {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "WhisperProcessor",
            "feature_size": int(spec.options.get("n_mels", 80)),
            "sampling_rate": 16_000,
            "hop_length": 160,
            "n_fft": 400,
            "chunk_length": WHISPER_SECONDS,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": False,
        }
        tokenizer = tokenizer_of(pretrained)
        named = {role: tokenizer.core.id_to_token(i) for role, i in tokenizer.special_tokens.present().items()}
        read = {f"{role}_token": token for role, token in named.items()}
        read |= {"tokenizer_class": "WhisperTokenizer", "unk_token": named.get("eos")}
        return spec, tensors, {"preprocessor_config.json": heard, "tokenizer_config.json": read}

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one recording, not several."""
        return is_recording(inputs)

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Recordings are paths, samples, or samples with their rate."""
        check_recordings(inputs)

    def with_models(self, wrap: Callable[[Any], Any]) -> Self:
        """The same, writing with what `wrap` makes of its model; times are read off the model itself."""
        other = copy(self)
        other.quick = copy(self.quick)
        other.quick.model = wrap(self.quick.model)
        return other

    def predict(
        self,
        inputs: Sequence[AudioInput],
        *,
        rate: int | None = None,
        **options: Unpack[SpeechSettings],
    ) -> list[Transcript]:
        """Transcribe recordings; `rate` is that of samples that come without one.

        `options` are fields of `SpeechOptions` that win over the recipe's.
        """
        chosen = self.options(options)
        transcripts: list[Transcript] = []
        for begin in range(0, len(inputs), _AT_ONCE):
            places = range(begin, min(begin + _AT_ONCE, len(inputs)))
            recordings = [self.read(inputs[i], rate=rate, where=f"input {i}") for i in places]
            transcripts += self._transcribe(recordings, chosen)
        return transcripts

    __call__ = one_or_many(predict)

    def transcribe(self, samples: SampleInput, rate: int, **options: Unpack[SpeechSettings]) -> Transcript:
        """Transcribe samples (n,) from −1 to 1 that are in memory."""
        return self((samples, rate), **options)

    def read(self, recording: AudioInput, *, rate: int | None = None, where: str = "the recording") -> Samples:
        """The samples of a recording at the rate that the model hears."""
        audio = audio_of(recording, rate=rate, where=where)
        samples: Samples = resample(torch.from_numpy(audio.samples), audio.rate, self.front.rate).numpy()
        return samples

    def case(
        self,
        input: AudioInput,
        target: str | None = None,
        *,
        rate: int | None = None,
        window: int = 0,
        **options: Any,
    ) -> ForwardCase:
        """A recording and what the model writes of it, or the target, ready to be looked at.

        Of one that is longer than the model reads at once it is one of the windows, from 0.
        """
        from regard.tasks.speech.look import speech_case

        chosen, samples = self.options(options), self.read(input, rate=rate)
        windows = pieces(samples, self.exact.most, self.front.rate)
        if len(windows) > 1 and window == 0:
            self.say(f"the recording is read in {len(windows)} windows; this is the first, and looks() shows all")
        if not 0 <= window < len(windows):
            raise UsageError(f"window {window} was asked for; there are 0 to {len(windows) - 1}")
        begin, end = windows[window]
        if target is None:
            ids = self._transcribe([samples[begin:end]], chosen)[0].ids
        else:
            check_texts([target])
            ids = self.tokenizer.encode(target)
        title = Path(input).name if isinstance(input, str | Path) else ""
        if len(windows) > 1:
            title = f"{title} {begin / self.front.rate:.1f} to {end / self.front.rate:.1f} s".strip()
        return speech_case(
            self.exact, self.tokenizer, samples[begin:end], ids=ids, options=chosen, title=title,
            offset=begin / self.front.rate,
        )  # fmt: skip

    def looks(self, input: AudioInput, target: str | None = None, **options: Any) -> Iterator[Look]:
        """What the model listens to in each window of a recording, with the times of the whole."""
        self.check_inputs([input])
        rate = options.get("rate")
        n = len(pieces(self.read(input, rate=rate), self.exact.most, self.front.rate))
        if n > 1 and target is not None:
            raise UsageError(f"a target was given, and the recording is read in {n} windows", hint="cut it first")
        talk, self.say = self.say, lambda _: None
        try:
            for window in range(n):
                yield self.look(input, target, window=window, **options)
        finally:
            self.say = talk

    def given_examples(self, data: ScoreData) -> Utterances:
        """The recordings of the files given."""
        return SpeechFiles(self.config.data, data.root, data.made).given(data.files, say=self.say)

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Utterances]:
        """The recordings of every test set of the recipe."""
        return SpeechFiles(self.config.data, data.root, data.made).tests(say=self.say)

    def score(self, examples: Utterances, options: SpeechOptions) -> Scores:
        """WER and CER of the transcripts of a test set."""
        return score_recordings(self.quick, examples, options)

    def shared(self, other: Self, name: str, examples: Utterances, data: ScoreData) -> tuple[Utterances, Utterances]:
        """The same recordings, each at the rate that its model hears."""
        theirs: Utterances | None = other.test_sets(data).get(name)
        if theirs is None or list(theirs.texts) != list(examples.texts):
            raise UsageError(
                f"the two models' recipes have different recordings called {name!r}",
                hint="say what to compare them on: --data FILE",
            )
        return examples, theirs

    def sample(self, examples: Utterances, n: int) -> list[tuple[Samples, str]]:
        """The first recordings with their texts."""
        places = range(min(n, _VERIFIED, len(examples)))
        return [(examples.samples(i)[: self.exact.most], examples.texts[i]) for i in places]

    def random_sample(self, n: int) -> list[tuple[Samples, str]]:
        """Noise, with texts of random pieces."""
        chance, n = np.random.default_rng(1), min(n, _VERIFIED)
        pieces = [i for i in range(len(self.tokenizer)) if i not in self.tokenizer.special_ids]
        sounds = [0.1 * chance.standard_normal(int(chance.uniform(0.3, 1.5) * self.front.rate)) for _ in range(n)]
        texts = [self.tokenizer.decode(chance.choice(pieces, 8).tolist()) for _ in range(n)]
        return [
            (sound.astype(np.float32), text if text.strip() else "a") for sound, text in zip(sounds, texts, strict=True)
        ]

    def promises(self, sample: list[tuple[Samples, str]]) -> Iterator[Check]:
        """Batching, caching, fused kernels, saving and silence."""
        from regard.tasks.speech.invariants import measure_speech

        recordings, texts = zip(*sample, strict=True)
        ids = self.tokenizer.encode_batch(list(texts))
        return measure_speech(self.exact, recordings, texts=ids, prompt=self.config.decode.prompt)

    def _transcribe(self, recordings: Sequence[Samples], options: SpeechOptions) -> list[Transcript]:
        written = self.quick(recordings, options)
        return [self._transcript(*pair, options) for pair in zip(recordings, written, strict=True)]

    def _transcript(self, samples: Samples, best_first: Sequence[Transcription], options: SpeechOptions) -> Transcript:
        best, *others = best_first
        shared = {
            name: getattr(best, name) for name in ("text", "score", "log_prob", "tokens", "ids", "finished", "language")
        }
        seconds, alternatives = len(samples) / self.front.rate, [other.text for other in others]
        timing = partial(self.exact.times, samples, best, options)
        return Transcript(**shared, seconds=seconds, alternatives=alternatives, timing=timing)
