"""From a recipe to a run: prepare the data, build the model, train it, and measure what came out."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoints import RunFolder, load_weights, read_tensors, weights_of
from regard.data import Corpus, PairSource
from regard.decoding import DecodeOptions
from regard.errors import ConfigError, UsageError
from regard.models.account import count_parameters
from regard.models.protocol import as_seq2seq
from regard.models.registry import build
from regard.tasks.metrics import Metric, exact_match, score_translations
from regard.tasks.pair_training import PairTraining
from regard.tasks.pairs import Languages, PairFiles, encode_training, read_pairs
from regard.tasks.translation import Translator, usual_bleu
from regard.training.averaging import averaged
from regard.training.devices import choose_device
from regard.training.distributed import World
from regard.training.loop import Trainer
from regard.training.recipe import Recipe

Say = Callable[[str], None]


def train(recipe: Recipe, out: Path, *, data_root: Path | None, resume: bool, say: Say) -> dict[str, Any]:
    """Train a recipe in the folder `out`, or go on with the run that is there; what run.json says in the end."""
    run = RunFolder(out)
    _check_folder(run, recipe, resume=resume)
    device = choose_device(recipe.train.device)
    world = World.join(device)
    files = PairFiles(recipe.data, data_root, run.path / "data")
    languages, corpus = _prepare(files, recipe, run, world, say=say)
    task = _task(recipe, files, languages, corpus, packed=_packed(recipe, device))
    model = new_model(recipe, languages)
    trainer = Trainer(task, model, recipe.train, run)
    if world.first:
        _introduce(recipe, model, task, say)
    if resume and trainer.restore() and world.first:
        say(f"going on after step {trainer.progress.step}")
    progress = trainer.fit()
    if not world.first:
        return {}
    if not progress.best:  # never evaluated: keep what there is
        if trainer.averager and progress.step % recipe.train.eval_every:
            trainer.averager.snapshot(model)
        with averaged(model, trainer.averager):
            run.write_weights(weights_of(model))
    load_weights(model, read_tensors(run.weights), origin=str(run.weights))
    facts = _facts(recipe, files, model, task) | {"training": progress.facts()}
    facts["metrics"] = measure(model.eval(), languages, files.tests, recipe.decode, say=say)
    run.write_facts(facts)
    return facts


def measure(
    model: nn.Module, languages: Languages, tests: Mapping[str, PairSource], decode: DecodeOptions, *, say: Say
) -> dict[str, dict[str, Any]]:
    """Translate every test set and score it: name → metric → value and signature."""
    found = {}
    translator = Translator([as_seq2seq(model)], languages)
    for name, source in tests.items():
        pairs = list(source.pairs())
        hypotheses = [several[0].text for several in translator([pair.source for pair in pairs], decode)]
        metrics = scores(languages, hypotheses, [pair.target for pair in pairs])
        found[name] = {key: asdict(metric) for key, metric in metrics.items()}
        say(f"{name}: " + "  ".join(f"{metric.name} {metric.value:.2f}" for metric in metrics.values()))
    return found


def scores(languages: Languages, hypotheses: list[str], references: list[str]) -> dict[str, Metric]:
    """All that is reported of a set of translations, by name."""
    several = {metric.name.lower(): metric for metric in score_translations(hypotheses, references)}
    usual = usual_bleu(languages, hypotheses, references)
    extra = {} if usual.signature == several["bleu"].signature else {"usual bleu": usual}
    exact = exact_match(hypotheses, references)
    return extra | several | {"exact match": exact}


def _prepare(files: PairFiles, recipe: Recipe, run: RunFolder, world: World, *, say: Say) -> tuple[Languages, Corpus]:
    """The first process prepares the data, the others find it ready."""
    if not world.first:
        world.wait()
    languages, corpus = encode_training(
        files, recipe.tokenizer, run.path / "data", say=say if world.first else lambda _: None
    )
    if world.first:
        run.write_config(recipe.resolved())
        languages.save(run.path)
        world.wait()
    return languages, corpus


def _task(recipe: Recipe, files: PairFiles, languages: Languages, corpus: Corpus, *, packed: bool) -> PairTraining:
    train = recipe.train
    valid = list(read_pairs(files.valid, recipe.data, say=lambda _: None))
    return PairTraining(
        languages,
        corpus,
        valid,
        budget_tokens=train.batch_tokens,
        seed=train.seed,
        packed=packed,
        label_smoothing=train.label_smoothing,
        r_drop=train.r_drop,
        piece_dropout=recipe.tokenizer.dropout,
    )


def new_model(recipe: Recipe, languages: Languages) -> nn.Module:
    """The untrained model of a recipe, for these vocabularies; its first weights come from the recipe's seed."""
    torch.manual_seed(recipe.train.seed)
    options = {key: value for key, value in recipe.model.items() if key != "name"}
    sizes = {"n_source": len(languages.source.tokenizer), "n_target": len(languages.target.tokenizer)}
    if recipe.model["name"] == "transformer" and not languages.joint and "tied" not in options:
        options["tied"] = "output"  # two vocabularies cannot share one matrix
    return build(recipe.model["name"], options | sizes)


def _packed(recipe: Recipe, device: torch.device) -> bool:
    """Packed where it pays by itself: a Transformer on a GPU."""
    if recipe.train.layout != "auto":
        if recipe.train.layout == "packed" and recipe.model["name"] != "transformer":
            raise ConfigError("train.layout=packed is for Transformers; recurrent models read padded rows")
        return recipe.train.layout == "packed"
    return device.type == "cuda" and recipe.model["name"] == "transformer"


def _check_folder(run: RunFolder, recipe: Recipe, *, resume: bool) -> None:
    if not run.exists():
        return
    if not resume:
        raise UsageError(
            f"{run.path}: there is a run already", hint="give another --out, or go on with this one: --resume"
        )
    before, now = run.read_config(), recipe.resolved()
    changed = [name for name in ("task", "model", "data", "tokenizer") if before.get(name) != now.get(name)]
    if changed:
        raise ConfigError(
            f"{run.path} was begun with another [{'], ['.join(changed)}]; it cannot go on with these",
            hint="resume with the recipe of the run, or begin a new one",
        )


def _introduce(recipe: Recipe, model: nn.Module, task: PairTraining, say: Say) -> None:
    size = f" {recipe.model['size']}" if "size" in recipe.model else ""
    say(
        f"{recipe.model['name']}{size}: {count_parameters(model):,} parameters; {len(task.corpus):,} pairs, "
        f"{task.plan.padding():.1%} padding"
    )


def _facts(recipe: Recipe, files: PairFiles, model: nn.Module, task: PairTraining) -> dict[str, Any]:
    sources = {"train": files.train, "valid": files.valid} | dict(files.tests)
    return {
        "task": recipe.task,
        "seed": recipe.train.seed,
        "parameters": count_parameters(model),
        "pairs": len(task.corpus),
        "padding": round(task.plan.padding(), 4),
        "fingerprints": {name: source.fingerprint() for name, source in sources.items()},
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What this was made with."""
    found = {"python": platform.python_version()}
    for name in ("regard", "torch", "tokenizers", "sacrebleu"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
