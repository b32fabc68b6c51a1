"""Recordings to train a transcriber on."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn

from regard.checkpoints.spec import ModelSpec, Pretrained, with_defaults
from regard.checkpoints.weights import weights_of
from regard.config.recipe import Recipe
from regard.data.audio.augmentation import Changes
from regard.data.audio.corpus import Utterances
from regard.data.audio.mel import Front
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError
from regard.metrics.scores import Metric
from regard.models.flops import count_parameters
from regard.models.interfaces.speech import as_speech
from regard.models.registry import build
from regard.tasks.speech.config import SpeechTrainConfig
from regard.tasks.speech.data import SpeechFiles, SpokenSets, hearing, scale_of
from regard.tasks.speech.metrics import score_transcripts
from regard.tasks.speech.training import SpeechTraining
from regard.tasks.speech.transcriber import Transcriber
from regard.tasks.tokenizing import tokenizer_for
from regard.training.setup import RunContext, Say
from regard.training.warm_start import load_known, open_start


class SpeechSetup:
    """Recordings, their texts, and a model that listens and spells."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        self.recipe = recipe
        self.files = SpeechFiles(recipe.data, context.data_root, context.run.path / "data")

        def prepare(say: Say) -> SpokenSets:
            return self.files.read(say=say)

        self.sets = context.first(prepare)
        start = open_start(recipe, context.data_root)
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
        self.described = describe(recipe, self.tokenizer, start, ctc=train.ctc > 0)
        torch.manual_seed(train.seed)
        self.model = build(self.described.model, self.described.options)
        if start is not None:
            new = {name: held for name, held in weights_of(self.model).items() if name.startswith("ctc.")}
            load_known(self.model, new | dict(start.tensors), origin=start.origin)

    def introduction(self) -> str:
        """The model's size, and how much there is to listen to."""
        sets = {"learn from": self.sets.train, "choose by": self.sets.valid}
        shown = ", ".join(f"{len(spoken):,} recordings ({_minutes(spoken)}) to {what}" for what, spoken in sets.items())
        size = count_parameters(self.model)
        return f"{self.recipe.model['name']}: {size:,} parameters, {len(self.tokenizer)} pieces; {shown}"

    def facts(self) -> dict[str, Any]:
        """How many recordings, and the fingerprints of sound and texts."""
        sets = {"train": self.sets.train, "valid": self.sets.valid} | dict(self.sets.tests)
        return {
            "recordings": len(self.sets.train),
            "fingerprints": {name: spoken.fingerprint() for name, spoken in sets.items()},
        }

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Error rates on the validation recordings, and on every test set."""
        found = {}
        for name, spoken in ({"valid": self.sets.valid} | dict(self.sets.tests)).items():
            figures = measured(self.model, self.tokenizer, self.front, spoken, self.recipe)
            found[name] = {key: metric.record() for key, metric in figures.items()}
            say(f"{name}: " + "  ".join(f"{metric.name} {metric.value:.2f}" for metric in figures.values()))
        return found

    def _front(self, context: RunContext) -> Front:
        data = self.recipe.data
        if data.normalize != "global" or data.features == "whisper":
            return hearing(data)
        scale = scale_of(hearing(replace(data, normalize="none")), self.sets.train)
        if context.group.first:
            scale.save(context.run.path)
        return hearing(data, scale)


def describe(recipe: Recipe, tokenizer: Tokenizer, start: Pretrained | None, *, ctc: bool) -> ModelSpec:
    """The model of a recipe, for this tokenizer and this way of hearing."""
    options = {key: value for key, value in recipe.model.items() if key not in ("name", "start")}
    name = recipe.model["name"]
    if start is not None:
        if start.model != name:
            raise ConfigError(f"{start.origin} is a {start.model}; model.name says {name!r}")
        return with_defaults(
            ModelSpec(recipe.task, name, dict(start.options) | options | ({"ctc": True} if ctc else {}))
        )
    heard = {"n_mels": recipe.data.n_mels, "n_target": len(tokenizer), "pad_id": tokenizer.pad_id}
    return with_defaults(ModelSpec(recipe.task, name, options | heard | ({"ctc": True} if ctc else {})))


def measured(
    model: nn.Module, tokenizer: Tokenizer, front: Front, spoken: Utterances, recipe: Recipe
) -> dict[str, Metric]:
    """Error rates of a model on recordings, decoded as the recipe says."""
    transcriber = Transcriber(as_speech(model), tokenizer, front, seconds=recipe.data.max_seconds)
    said = transcriber([spoken.samples(i) for i in range(len(spoken))], recipe.decode)
    return score_transcripts([several[0].text for several in said], list(spoken.texts))


def _minutes(spoken: Utterances) -> str:
    return f"{spoken.lengths.sum() / spoken.rate / 60:,.1f} minutes"
