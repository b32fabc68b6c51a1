"""Recordings to train a transcriber on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from regard.checkpoints.weights import weights_of
from regard.config.recipe import Recipe
from regard.data.audio.augmentation import Changes
from regard.data.audio.corpus import Utterances
from regard.data.audio.mel import Front
from regard.metrics.verdict import Baseline
from regard.models.interfaces.speech import as_speech
from regard.tasks.measuring import Beside, measure
from regard.tasks.speech.config import SpeechTrainConfig
from regard.tasks.speech.data import SpeechFiles, hearing, scale_of
from regard.tasks.speech.metrics import score_recordings, score_transcripts
from regard.tasks.speech.training import SpeechTraining
from regard.tasks.speech.transcriber import Transcriber
from regard.tasks.tokenizing import tokenizer_for
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_model, load_known, own_options, start_for


class SpeechSetup(TaskSetup):
    """Recordings, their texts, and a model that listens and spells."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = SpeechFiles(recipe.data, context.data_root, context.data)
        self.sets = context.first(lambda say: self.files.read(say=say))
        start = start_for(recipe, context.data_root)
        self.tokenizer = tokenizer_for(recipe, context, start, lambda: iter(self.sets.train.texts))
        self.front = self._front(context)
        train = recipe.train
        assert isinstance(train, SpeechTrainConfig)
        self.task = SpeechTraining(
            self.tokenizer,
            self.front,
            self.sets.train,
            self.sets.valid,
            batch_seconds=train.batch_seconds,
            seed=train.seed,
            changes=Changes(**{one.name: getattr(train, one.name) for one in fields(Changes)}),
            label_smoothing=train.label_smoothing,
            ctc=train.ctc,
            decode=recipe.decode,
            seconds=recipe.data.max_seconds,
        )
        heard = {"n_mels": recipe.data.n_mels, "n_target": len(self.tokenizer), "pad_id": self.tokenizer.pad_id}
        options = own_options(recipe) | heard if start is None else dict(start.options) | own_options(recipe)
        self.model, self.spec = begin_model(recipe, options | ({"ctc": True} if train.ctc > 0 else {}))
        if start is not None:
            new = {name: held for name, held in weights_of(self.model).items() if name.startswith("ctc.")}
            load_known(self.model, new | dict(start.tensors), origin=start.origin)

    def about(self) -> str:
        """The pieces, and how much there is to listen to."""
        sets = {"learn from": self.sets.train, "choose by": self.sets.valid}
        shown = ", ".join(f"{len(spoken):,} recordings ({_minutes(spoken)}) to {what}" for what, spoken in sets.items())
        return f"{len(self.tokenizer)} pieces; {shown}"

    def counts(self) -> dict[str, Any]:
        """How many recordings."""
        return {"recordings": len(self.sets.train)}

    def facts(self) -> dict[str, Any]:
        """How many recordings, and the fingerprints of sound and texts."""
        sets = {"train": self.sets.train, "valid": self.sets.valid} | dict(self.sets.tests)
        return self.counts() | {"fingerprints": {name: spoken.fingerprint() for name, spoken in sets.items()}}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Error rates on the validation recordings, and on every test set."""
        seconds, decode = self.recipe.data.max_seconds, self.recipe.decode
        transcriber = Transcriber(as_speech(self.model), self.tokenizer, self.front, seconds=seconds)
        sets = {"valid": self.sets.valid} | dict(self.sets.tests)
        beside = Beside("WER", self._baselines, ["more recordings", "a Whisper model: regard predict FOLDER"])
        return measure(
            sets, lambda recordings: score_recordings(transcriber, recordings, decode), say=say, beside=beside
        )

    def _baselines(self, name: str, recordings: Utterances) -> list[Baseline]:
        from regard.tasks.speech.baselines import speech_baselines

        def judge(texts: Sequence[str]) -> dict[str, float]:
            return {"WER": score_transcripts(texts, list(recordings.texts))["WER"].value}

        return speech_baselines(list(self.sets.train.texts), judge, n=len(recordings))

    def _front(self, context: RunContext) -> Front:
        data = self.recipe.data
        if data.normalize != "global" or data.features == "whisper":
            return hearing(data)
        scale = scale_of(hearing(replace(data, normalize="none")), self.sets.train)
        context.keep(scale.save)
        return hearing(data, scale)


def _minutes(spoken: Utterances) -> str:
    return f"{spoken.lengths.sum() / spoken.rate / 60:,.1f} minutes"
