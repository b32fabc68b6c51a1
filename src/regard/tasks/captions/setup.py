"""Images with captions to train a captioner on."""

from __future__ import annotations

from typing import Any

from regard.config.recipe import Recipe
from regard.errors import ConfigError
from regard.metrics.verdict import Baseline
from regard.models.interfaces.captions import as_captioner
from regard.models.registry import entry
from regard.tasks.captions.config import CaptionConfig
from regard.tasks.captions.data import CaptionFiles, Pictures, as_text
from regard.tasks.captions.loss import Weights
from regard.tasks.captions.metrics import CaptionJudge, score_captions
from regard.tasks.captions.training import CaptionTraining, Views
from regard.tasks.captions.writer import CaptionWriter
from regard.tasks.measuring import Beside, measure
from regard.tasks.tokenizing import tokenizer_for
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_model, own_options, refuse_start


class CaptionSetup(TaskSetup):
    """Images, their captions, and a captioner."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        train = recipe.train
        assert isinstance(train, CaptionConfig)
        _check(recipe, train)
        self.files = CaptionFiles(recipe.data, context.data_root, context.data)
        self.sets = context.first(lambda say: self.files.read(say=say))
        captions = self.sets.train.captions
        self.tokenizer = tokenizer_for(
            recipe, context, None, lambda: [as_text(recipe.data, text) for several in captions for text in several]
        )
        shape = {"n_target": len(self.tokenizer), "pad_id": self.tokenizer.pad_id, "image_size": recipe.data.image_size}
        self.model, self.spec = begin_model(recipe, own_options(recipe) | shape)
        self.task: CaptionTraining = CaptionTraining(
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

    def about(self) -> str:
        """The images, the words."""
        sets, task = self.sets, self.task
        cut = f" ({task.left_out:,} too long left out)" if task.left_out else ""
        return (
            f"{len(self.tokenizer):,} words; {len(task.train):,} images with {sum(map(len, task.captions)):,} captions"
            f"{cut} to learn from, {len(sets.valid):,} to choose by"
        )

    def counts(self) -> dict[str, Any]:
        """How many images, captions and words."""
        captions = sum(map(len, self.task.captions))
        return {"images": len(self.task.train), "captions": captions, "words": len(self.tokenizer)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Every test set, captioned and scored; without one, the validation images."""
        writer, sets = CaptionWriter([as_captioner(self.model)], self.tokenizer), self.sets
        tests: dict[str, Pictures] = dict(sets.tests) or {"valid": sets.valid}
        beside = Beside("cider-d", self._baselines, ["more images"])
        decode = self.recipe.decode
        return measure(tests, lambda pictures: score_captions(writer, pictures, decode), say=say, beside=beside)

    def _baselines(self, name: str, pictures: Pictures) -> list[Baseline]:
        from regard.tasks.captions.baselines import caption_baselines

        train, judge = self.sets.train, CaptionJudge(pictures.captions)
        return caption_baselines(
            pictures.pixels,
            lambda texts: {"cider-d": judge.score(texts).figures()["CIDEr-D"]},
            train_pixels=train.pixels,
            train_captions=train.captions,
        )


def _check(recipe: Recipe, train: CaptionConfig) -> None:
    refuse_start(recipe, "a captioner")
    looks_once = "attention" in entry(recipe.model["name"]).options and recipe.model.get("attention") != "none"
    if train.doubly_stochastic and not looks_once:
        raise ConfigError(
            f"train.doubly_stochastic is {train.doubly_stochastic}, and this model does not look once a word",
            hint="leave it 0, or take model.name=captioner with an attention",
        )
