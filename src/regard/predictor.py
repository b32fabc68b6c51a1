"""A trained model, ready for its task.

    model = regard.load("runs/de")
    model("A dog runs along the beach.")                      → Prediction: text, score, tokens, alternatives
    model(["A dog.", "A cat."], beam=5, n_best=3)             → one Prediction a text
    model.look("A dog runs along the beach.").plot("a.png")   what it looked at

What comes out for a text does not depend on the texts beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import nn

from regard.checkpoints import RunFolder, load_weights, read_tensors
from regard.decoding import DecodeOptions
from regard.decoding.options import ONLY_FOR
from regard.errors import CheckpointError, ConfigError, EnvironmentProblem, UsageError
from regard.inspection.alignments import Alignment
from regard.inspection.look import Look, look_at
from regard.layers.quick import quicken
from regard.models.protocol import as_seq2seq
from regard.options import typed
from regard.tasks.given import given_log_probs
from regard.tasks.pairs import Languages
from regard.tasks.translation import Translation, Translator
from regard.training.devices import choose_device
from regard.training.recipe import Recipe, make_recipe
from regard.training.train import new_model

PRECISIONS = ("auto", "fp32", "bf16", "int8")


@dataclass(frozen=True)
class Prediction:
    """What a model says: the text, how sure it is, the pieces, and what else it might have said, best first.

    `score` is what hypotheses are ranked by, `log_prob` the model's own log-probability of the pieces.
    """

    text: str
    score: float = 0.0
    tokens: list[str] = field(default_factory=list)
    alternatives: list[Prediction] = field(default_factory=list)
    log_prob: float = 0.0
    ids: list[int] = field(default_factory=list)
    finished: bool = True

    @classmethod
    def of(cls, translations: Sequence[Translation]) -> Prediction:
        """The best of several, with the others as its alternatives."""
        made = [cls(t.text, t.score, t.tokens, [], t.log_prob, t.ids, t.finished) for t in translations]
        made[0].alternatives.extend(made[1:])
        return made[0]


class Predictor:
    """A model with its languages and the recipe it was made by. Made by `load`."""

    def __init__(
        self, modules: Sequence[nn.Module], languages: Languages, config: Recipe, *, precision: str = "auto"
    ) -> None:
        self.modules, self.languages, self.config = list(modules), languages, config
        self.precision = precision
        quick = [as_seq2seq(_in_precision(module, precision)) for module in self.modules]
        self._translator = Translator(quick, languages)

    @property
    def module(self) -> nn.Module:
        """The model itself; of an ensemble, the first."""
        return self.modules[0]

    @overload
    def __call__(self, inputs: str, /, *, prefix: str | None = None, **options: Any) -> Prediction: ...

    @overload
    def __call__(
        self, inputs: Sequence[str], /, *, prefix: str | None = None, keys: Sequence[int] | None = None, **options: Any
    ) -> list[Prediction]: ...

    def __call__(
        self,
        inputs: str | Sequence[str],
        /,
        *,
        prefix: str | None = None,
        keys: Sequence[int] | None = None,
        **options: Any,
    ) -> Prediction | list[Prediction]:
        """Predict for one text, or for each of several.

        `prefix` is how every output has to begin, `options` are fields of `DecodeOptions` that win over the recipe's,
        and `keys` name the texts in the random stream of sampling (by default their places).
        """
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        _check_texts(texts)
        prefixes = None if prefix is None else [prefix] * len(texts)
        found = self._translator(texts, self.options(options), prefixes=prefixes, keys=keys)
        predictions = [Prediction.of(several) for several in found]
        return predictions[0] if isinstance(inputs, str) else predictions

    def look(self, text: str, target: str | None = None) -> Look:
        """What the model looks at when it translates `text`, as it would itself, or into the `target` given."""
        _check_texts([text] if target is None else [text, target])
        source = self.languages.source.encode([text])[0]
        written = self(text).ids if target is None else self.languages.target.encode([target])[0]
        return look_at(self.module, self.languages, source=source, target=written)

    def log_probs(self, texts: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """What the model thinks of translations given: the log-probability of each piece and of the end after it."""
        sides = self.languages.source.encode(texts), self.languages.target.encode(targets)
        return given_log_probs(as_seq2seq(self.module), self.languages, sources=sides[0], targets=sides[1])

    def align(self, text: str, prediction: Prediction) -> Alignment:
        """Which word of the prediction comes from which word of the text; a text without words aligns to nothing."""
        source = self.languages.source.encode([text])[0]
        if not source:
            return Alignment([], np.zeros((0, 0)), "argmax")
        return look_at(self.module, self.languages, source=source, target=prediction.ids, kinds=["cross"]).align()

    def options(self, overrides: Mapping[str, Any]) -> DecodeOptions:
        """The recipe's decoding options, changed by the overrides.

        An override that only one strategy knows chooses that strategy: `beam=5` is a beam search. What the recipe
        says about a strategy that is not used is left aside.
        """
        given = dict(overrides)
        defaults = {f.name: f.default for f in fields(DecodeOptions)}
        implied = {ONLY_FOR[name] for name in given if name in ONLY_FOR and str(given[name]) != str(defaults[name])}
        if "strategy" not in given and len(implied) == 1:
            given["strategy"] = implied.pop()
        base = asdict(self.config.decode)
        strategy = given.get("strategy", base["strategy"])
        kept = {name: value for name, value in base.items() if ONLY_FOR.get(name, strategy) == strategy}
        return typed(DecodeOptions, kept | given, where="decode")

    def ensemble(self, *others: Predictor) -> Predictor:
        """A predictor for which these models vote at every step; they have to share their vocabularies."""
        own = _fingerprints(self.languages)
        for number, other in enumerate(others, start=2):
            if _fingerprints(other.languages) != own:
                raise UsageError(
                    f"model {number} of the ensemble has other vocabularies than the first, so they cannot vote",
                    hint="train both with the same data and the same [tokenizer]",
                )
        modules = [module for predictor in (self, *others) for module in predictor.modules]
        return Predictor(modules, self.languages, self.config, precision=self.precision)


def load(folder: Path | str, device: str = "auto", *, precision: str = "auto") -> Predictor:
    """Open a run folder: the model it holds, ready for its task, on a device ("auto", "cpu", "cuda", "cuda:1").

    `precision` is what predictions are computed in: "fp32" (what "auto" means), "bf16", or on a CPU "int8". Looking
    inside and log-probabilities always use the weights as they were trained.
    """
    run = RunFolder(folder)
    if not run.path.is_dir():
        raise CheckpointError(f"{run.path}: there is no such folder", hint="give the folder that `regard train` made")
    recipe = _recipe(run)
    if not run.weights.exists():
        raise CheckpointError(
            f"{run.path}: the run has no weights yet (model.safetensors)",
            hint=f"train it to its first evaluation: regard train --resume --out {run.path}",
        )
    languages = Languages.load(run.path, moses=recipe.data.moses)
    with torch.random.fork_rng(devices=[]):  # the first weights are drawn, only to be replaced
        model = new_model(recipe, languages)
    load_weights(model, read_tensors(run.weights), origin=str(run.weights))
    return Predictor([model.to(_device(device)).eval()], languages, recipe, precision=precision)


def _recipe(run: RunFolder) -> Recipe:
    table = run.read_config()
    if (run.path / "run.json").exists():
        run.read_facts()  # refuses what a newer version wrote
    try:
        return make_recipe(table)
    except ConfigError as problem:
        raise CheckpointError(
            f"{run.path / 'config.toml'}: {problem}", hint="it may have been written by another version of regard"
        ) from problem


def _in_precision(module: nn.Module, precision: str) -> nn.Module:
    """The model to decode with: its weights packed on a CPU, cast on a GPU."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}; allowed are {', '.join(PRECISIONS)}")
    if next(module.parameters()).device.type == "cpu":
        return quicken(module, "bf16" if precision == "bf16" else "int8" if precision == "int8" else "fp32")
    if precision == "int8":
        raise UsageError("precision int8 is for the CPU", hint="use bf16 on a GPU, or the device cpu")
    return deepcopy(module).bfloat16() if precision == "bf16" else module


def _device(name: str) -> torch.device:
    try:
        return choose_device(name)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(str(problem), hint="use the device cpu, or auto") from problem


def _check_texts(texts: Sequence[object]) -> None:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"input {number} is {type(text).__name__}; allowed are texts (str)")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"input {number} is not valid Unicode: {text[:40]!a}") from None


def _fingerprints(languages: Languages) -> tuple[str, str]:
    return languages.source.tokenizer.fingerprint(), languages.target.tokenizer.fingerprint()
