"""From a folder to a model that is ready for its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoints.opening import open_model
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.weights import read_tensors
from regard.config.devices import choose_device
from regard.config.recipe import Recipe, make_recipe
from regard.data.audio.mel import SCALE, Scale
from regard.data.series.space import SeriesSpace
from regard.data.text.label_space import LabelSpace
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, ConfigError, EnvironmentProblem
from regard.tasks.answers.predictor import AnswerPredictor
from regard.tasks.answers.setup import windows_for
from regard.tasks.base import Predictor
from regard.tasks.captions.predictor import CaptionPredictor
from regard.tasks.images.predictor import ImagePredictor, image_space
from regard.tasks.labels.predictor import LabelPredictor
from regard.tasks.labels.setup import framer_for
from regard.tasks.language.predictor import LanguagePredictor
from regard.tasks.language.setup import context_of
from regard.tasks.masked.predictor import MaskedPredictor
from regard.tasks.pairs import Languages
from regard.tasks.series.baselines import Ridge
from regard.tasks.series.predictor import SeriesPredictor
from regard.tasks.series.setup import BASELINE
from regard.tasks.speech.predictor import SpeechPredictor
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.words.predictor import WordsPredictor

Open = Callable[[Pretrained, Recipe, nn.Module, str], Predictor[Any]]


def load(folder: Path | str, device: str = "auto", *, precision: str = "auto") -> Any:  # the task decides what it is
    """Open a trained model, ready for its task, on a device ("auto", "cpu", "cuda", "cuda:1").

    `folder` is a run, a Hugging Face folder, a llama2.c `.bin` or a `.gguf` file. `precision` is what predictions are
    computed in: "fp32" (what "auto" means), "bf16", or on a CPU "int8". Looking inside and log-probabilities always
    use the weights as they were trained.
    """
    run = RunFolder(folder)
    if not run.path.exists():
        raise CheckpointError(f"{run.path}: there is no such folder", hint="give the folder that `regard train` made")
    recipe = read_recipe(run) if run.exists() else None
    found = open_model(run.path)
    recipe = recipe or recipe_of(found)
    with torch.random.fork_rng(devices=[]):  # the first weights are drawn, only to be replaced
        module = found.module().to(_device(device))
    return OPEN[found.task](found, recipe, module, precision)


def recipe_of(found: Pretrained) -> Recipe:
    """A recipe for a model that others trained: its task, what it is, how it reads, and how it is to be decoded."""
    model = {"name": found.model, **given_options(found.options)}
    table = {"task": found.task, "model": model, "data": _reading(found), "decode": dict(found.decode)}
    return make_recipe(table)


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a recipe can hold them: what is not set is left out, also of a backbone."""
    return {
        name: given_options(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if value is not None
    }


def _reading(found: Pretrained) -> dict[str, Any]:
    """What the `[data]` section says about how a model reads: as much as it can."""
    if found.task == "masked":
        return {"next_sentence": bool(found.options.get("nsp", True))}
    if found.task == "speech":  # of others, Whisper
        return {"front": "whisper", "rate": 16_000, "n_mels": int(found.options["n_mels"])}
    if found.task not in ("labels", "answers"):
        return {}
    limit = found.options["backbone"].get("n_positions")
    longest = {} if limit is None else {"max_tokens": int(limit)}
    if found.task == "answers":
        return longest
    return longest | {"labels": "numbers" if found.options["n_outputs"] == 1 else "classes"}


def read_recipe(run: RunFolder) -> Recipe:
    """The recipe of a run."""
    table = run.read_config()
    if (run.path / "run.json").exists():
        run.read_facts()  # refuses what a newer version wrote
    try:
        return make_recipe(table)
    except ConfigError as problem:
        raise CheckpointError(
            f"{run.path / 'config.toml'}: {problem}", hint="it may have been written by another version of regard"
        ) from problem


def _translation(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> TranslationPredictor:
    languages = Languages.of(tokenizer_of(found), found.target_tokenizer, moses=recipe.data.moses)
    return TranslationPredictor([module], languages, recipe, precision=precision)


def _language(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> LanguagePredictor:
    context = context_of(found, recipe)
    return LanguagePredictor(module, tokenizer_of(found), recipe, context=context, precision=precision)


def _masked(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> MaskedPredictor:
    return MaskedPredictor(module, tokenizer_of(found), recipe)


def _labels(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> LabelPredictor:
    return LabelPredictor(module, framer_for(tokenizer_of(found), found.options, recipe), label_space(found), recipe)


def label_space(found: Pretrained) -> LabelSpace:
    """What a classifier's outputs mean: the run's labels, else those that were published; one output is a number."""
    folder = Path(found.origin) if Path(found.origin).is_dir() else Path(found.origin).parent
    if (folder / "labels.json").exists():
        return LabelSpace.load(folder)
    n = int(found.options["n_outputs"])
    return LabelSpace((found.labels or tuple(f"LABEL_{i}" for i in range(n))) if n > 1 else ())


def _answers(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> AnswerPredictor:
    return AnswerPredictor(module, windows_for(tokenizer_of(found), found.options, recipe), recipe)


def _words(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> WordsPredictor:
    return WordsPredictor(module, tokenizer_of(found), recipe)


def _series(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> SeriesPredictor:
    folder = Path(found.origin).parent
    ridge = None
    if (folder / BASELINE).exists():
        ridge = Ridge(read_tensors(folder / BASELINE)["ridge"].numpy())
    return SeriesPredictor(module, SeriesSpace.load(folder), recipe, ridge)


def _images(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> ImagePredictor:
    return ImagePredictor(module, image_space(found), recipe)


def _captions(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> CaptionPredictor:
    return CaptionPredictor([module], tokenizer_of(found), recipe, precision=precision)


def _speech(found: Pretrained, recipe: Recipe, module: nn.Module, precision: str) -> SpeechPredictor:
    folder = Path(found.origin).parent
    scale = Scale.load(folder) if (folder / SCALE).exists() else None
    return SpeechPredictor(module, tokenizer_of(found), recipe, recipe.data.hearing(scale), precision=precision)


OPEN: Mapping[str, Open] = {
    "translation": _translation,
    "language": _language,
    "masked": _masked,
    "labels": _labels,
    "answers": _answers,
    "words": _words,
    "series": _series,
    "images": _images,
    "captions": _captions,
    "speech": _speech,
}


def tokenizer_of(found: Pretrained) -> Tokenizer:
    """The tokenizer of a model, without which nothing can be asked of it."""
    if found.tokenizer is None:
        raise CheckpointError(
            f"{found.origin}: there is no tokenizer beside the weights",
            hint="put its files into the same folder",
        )
    return found.tokenizer


def _device(name: str) -> torch.device:
    try:
        return choose_device(name)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(str(problem), hint="use the device cpu, or auto") from problem
