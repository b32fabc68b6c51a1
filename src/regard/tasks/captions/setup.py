"""Images with captions to train a captioner on."""

from __future__ import annotations

from typing import Any

import torch

from regard.checkpoints.spec import ModelSpec, with_defaults
from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError
from regard.models.flops import count_parameters
from regard.models.interfaces.captions import as_captioner
from regard.models.registry import build, entry
from regard.tasks.captions.config import CaptionConfig
from regard.tasks.captions.data import CaptionFiles, CaptionSets, as_text
from regard.tasks.captions.loss import Weights
from regard.tasks.captions.metrics import CaptionJudge
from regard.tasks.captions.training import CaptionTraining, Views
from regard.tasks.captions.writer import CaptionWriter
from regard.tasks.tokenizing import tokenizer_for
from regard.training.setup import RunContext, Say


class CaptionSetup:
    """Images, their captions, and a captioner."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        self.recipe = recipe
        train = recipe.train
        assert isinstance(train, CaptionConfig)
        _check(recipe, train)
        self.files = CaptionFiles(recipe.data, context.data_root, context.run.path / "data")
        self.sets = context.first(lambda say: self.files.read(say=say))
        self.tokenizer = tokenizer_for(recipe, context, None, lambda: texts_of(recipe, self.sets))
        self.described = describe(recipe, self.tokenizer)
        torch.manual_seed(train.seed)
        self.model = build(self.described.model, self.described.options)
        self.task = CaptionTraining(
            self.tokenizer,
            self.sets.train,
            self.sets.valid,
            recipe.data,
            batch_images=train.batch_images,
            seed=train.seed,
            captions_each=train.captions_each,
            weights=Weights(train.label_smoothing, train.bag_of_words, train.doubly_stochastic),
            views=Views(train.crop, train.flip, train.jitter),
        )

    def introduction(self) -> str:
        """The model's size, the images, the words."""
        sets, task = self.sets, self.task
        cut = f" ({task.left_out:,} too long left out)" if task.left_out else ""
        return (
            f"{self.recipe.model['name']}: {count_parameters(self.model):,} parameters; {len(self.tokenizer):,} words; "
            f"{len(task.train):,} images with {sum(map(len, task.captions)):,} captions{cut} to learn from, "
            f"{len(sets.valid):,} to choose by"
        )

    def facts(self) -> dict[str, Any]:
        """How many images and captions, and the fingerprints of the files."""
        return {
            "images": len(self.task.train),
            "captions": sum(map(len, self.task.captions)),
            "words": len(self.tokenizer),
            "fingerprints": self.files.fingerprints(),
        }

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Every test set, captioned and scored."""
        found = {}
        writer = CaptionWriter([as_captioner(self.model)], self.tokenizer)
        for name, pictures in self.sets.tests.items():
            captions = [several[0].text for several in writer(pictures.pixels, self.recipe.decode)]
            metrics = CaptionJudge(pictures.captions).judged(captions).metrics()
            found[name] = {key: metric.record() for key, metric in metrics.items()}
            say(f"{name}: " + "  ".join(f"{m.name} {m.value:.{m.digits}f}" for m in metrics.values()))
        return found


def describe(recipe: Recipe, tokenizer: Tokenizer) -> ModelSpec:
    """The model of a recipe, for these words."""
    options = {key: value for key, value in recipe.model.items() if key != "name"}
    shape = {"n_target": len(tokenizer), "pad_id": tokenizer.pad_id, "image_size": recipe.data.image_size}
    return with_defaults(ModelSpec(recipe.task, recipe.model["name"], options | shape))


def texts_of(recipe: Recipe, sets: CaptionSets) -> list[str]:
    """The training captions as the tokenizer gets them."""
    return [as_text(recipe.data, text) for several in sets.train.captions for text in several]


def _check(recipe: Recipe, train: CaptionConfig) -> None:
    if "start" in recipe.model:
        raise ConfigError("model.start is for models of texts; a captioner begins anew")
    looks_once = "attention" in entry(recipe.model["name"]).options and recipe.model.get("attention") != "none"
    if train.doubly_stochastic and not looks_once:
        raise ConfigError(
            f"train.doubly_stochastic is {train.doubly_stochastic}, and this model does not look once a word",
            hint="leave it 0, or take model.name=captioner with an attention",
        )
