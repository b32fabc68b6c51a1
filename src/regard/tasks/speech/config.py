"""The settings of the task, and what it consists of.

    train = ["train.csv"]                tables with the columns `audio` and `text`, or folders of x.wav beside x.txt
    digits = "fsdd/fsdd.tar.gz"          instead: strings of spoken digits, made from single recordings

Of the digits' speakers `unseen` is kept for a test of its own. Of the others, takes 0 to 4 are tested on, 5 to 9 chosen
by, and the rest trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.data import BadRows, DataConfig, TokenizerConfig, TokenizerKind
from regard.config.settings import setting
from regard.config.training import ScheduleName, TrainConfig
from regard.data.audio.mel import FrontName, Normal
from regard.decoding.options import DecodeOptions
from regard.tasks.registry import TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class SpeechData(DataConfig):
    """The `[data]` section: recordings, and how they are heard (see `regard.data.audio.mel`)."""

    audio: str = setting("audio", "the column that names recordings")
    text: str = setting("text", "the column of what is said")
    valid_share: float = setting(0.05, "share of the training recordings to choose by without data.valid", gt=0, lt=1)
    bad: BadRows = setting("refuse", "rows that cannot be used: all named at once, or dropped and counted")
    digits: str | None = setting(None, "single spoken digits to make strings of, instead of data.train")
    unseen: str = setting("theo", "the speaker of digits who is never heard in training")
    n_train: int = setting(8_000, "strings of digits to learn from", ge=1)
    n_valid: int = setting(300, "strings of digits to choose by", ge=1)
    n_test: int = setting(500, "strings of digits to report on", ge=1)
    features: FrontName = setting("mel", "what sound is turned into: log-mel bands, or those of Whisper", was="front")
    rate: int = setting(16_000, "samples a second; recordings are brought to it", ge=1)
    n_mels: int = setting(80, "mel bands", ge=1)
    window: float = setting(0.025, "seconds that a frame is made of", gt=0)
    hop: float = setting(0.01, "seconds between frames", gt=0)
    normalize: Normal = setting(
        "utterance", "bands are normalised by each recording, by the training data, or not at all", was="normal"
    )
    min_seconds: float = setting(0.05, "shorter recordings are bad rows", ge=0)
    max_seconds: float = setting(
        30.0, "longer recordings are bad rows; when a model is asked, they are cut at quiet places", gt=0, infinite=True
    )

    def contradictions(self) -> Iterator[str]:
        """One source of recordings, some of which fit."""
        if self.min_seconds >= self.max_seconds:
            yield f"data.min_seconds is {self.min_seconds} and max_seconds {self.max_seconds}; 0 <= min < max"
        if self.digits and self.train:
            yield "data.digits and data.train are both given; allowed is one of the two"


@dataclass(frozen=True, kw_only=True)
class SpeechPieces(TokenizerConfig):
    """The `[tokenizer]` section: characters, unless something else is asked for."""

    kind: TokenizerKind = "chars"
    size: int = 1_000
    lowercase: bool = True


@dataclass(frozen=True, kw_only=True)
class SpeechTrainConfig(TrainConfig):
    """What suits models of speech: batches of seconds, clipping, a cosine, and recordings that change every time."""

    unused: ClassVar = ("batch_tokens", "layout", "r_drop")

    steps: int = 3000
    batch_seconds: float = setting(160.0, "seconds of sound a batch, padding included", gt=0)
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    schedule: ScheduleName = "cosine"
    warmup: int = 200
    clip: float = 1.0
    ctc: float = setting(0.0, "weight of the alignment's loss beside the speller's; 0: none", ge=0, lt=1)
    speed: float = setting(0.1, "recordings are played faster or slower by up to this share", ge=0, le=0.5)
    gain: float = setting(6.0, "decibels that they are made louder or quieter by", ge=0)
    noise: float = setting(0.5, "chance that noise is added", ge=0, le=1)
    warp: float = setting(0.1, "bands are moved by up to this share, as by another vocal tract", ge=0, le=0.3)
    band_masks: int = setting(2, "SpecAugment: masks over frequencies", ge=0)
    band_width: int = setting(6, "SpecAugment: bands of such a mask at most", ge=0)
    time_masks: int = setting(2, "SpecAugment: masks over time", ge=0)
    time_width: float = setting(0.05, "SpecAugment: share of the frames of such a mask at most", ge=0, le=0.5)


Fallback = Literal["never", "long", "always"]  # "long": for recordings that are cut into pieces


@dataclass(frozen=True, kw_only=True)
class SpeechOptions(DecodeOptions):
    """The `[decode]` section. Letter by letter, texts that leave a word out end first: beams are more patient here."""

    patience: float = 2.0
    ctc: float = setting(0.0, "weight of the alignment's score in a beam; 1: its best path alone, greedily", ge=0, le=1)
    prompt: tuple[str, ...] = setting((), "special tokens that begin every text, such as Whisper's")
    not_first: tuple[int, ...] = setting((), "ids that may not begin a text", ge=0)
    heads: tuple[str, ...] = setting((), 'layers and heads whose attention follows the sound, "2.5"; unset: all')
    vad: bool = setting(True, "voice activity: silence and steady noise are left out before anything is written")
    language: str = setting("", "Whisper: the language that is spoken, as a code such as de; auto: the likeliest")
    translate: bool = setting(False, "Whisper: write in English what is said in another language")
    initial_prompt: str = setting("", "Whisper: a text that came before, for names and style")
    fallback: Fallback = setting(
        "never", "texts that repeat themselves or that the model doubts are drawn anew, ever more freely"
    )
    no_speech_threshold: float = setting(
        0.6, "Whisper: doubted texts are left out where its probability of no speech is higher", ge=0, le=1
    )
    log_prob_threshold: float = setting(-1.0, "average log-probability of a token below which a text is doubted", le=0)
    compression_ratio_threshold: float = setting(
        2.4, "texts that zlib makes this many times shorter repeat themselves", gt=0
    )

    def contradictions(self) -> Iterator[str]:
        """A weight among hypotheses needs several of them."""
        yield from super().contradictions()
        if 0 < self.ctc < 1 and self.strategy != "beam":
            yield (
                f"decode.ctc is {self.ctc}, which weighs the hypotheses of a beam, and the strategy is "
                f"{self.strategy!r}; set decode.beam as well, or decode.ctc=1 for the alignment alone"
            )
        wrong = [head for head in self.heads if not all(part.isdigit() for part in head.split(".")) or "." not in head]
        if wrong:
            yield f"decode.heads holds {wrong[0]!r}; allowed are a layer and a head, such as '2.5'"


TASK = TaskSpec(
    name="speech",
    help="what is said in a recording",
    models=("speech-transformer", "las"),
    data=SpeechData,
    tokenizer=SpeechPieces,
    decode=SpeechOptions,
    train=SpeechTrainConfig,
    size="small",
    plan="regard.tasks.speech.planning:plan_speech",
    setup="regard.tasks.speech.setup:SpeechSetup",
    inputs="regard.tasks.speech.data:named_files",
    predictor="regard.tasks.speech.predictor:SpeechPredictor",
    flags=("beam", "n_best", "target", "format", "language", "translate", "initial_prompt"),
    serves=("transcribe",),
    use=Use(
        does="writes down what is said in a recording",
        figures=("wer",),
        loss="nats a token",
        asked=("talk.wav",),
        looked="talk.wav",
        data="recordings.csv",
        limits=("It may write words where nobody speaks; it hears voices like those of its training data best.",),
    ),
)
