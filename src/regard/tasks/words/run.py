"""From a recipe for word vectors to a run; one that was stopped, or killed, goes on where it was last saved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from regard.checkpoints.run import RunFolder
from regard.checkpoints.shards import load_parts
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import weights_of
from regard.config.recipe import Recipe
from regard.config.wording import roughly, several, short_count
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, ConfigError, DataError
from regard.metrics.scores import Metric
from regard.models.flops import count_parameters
from regard.models.word_vectors import WordVectors
from regard.tasks.measuring import measure
from regard.tasks.words.data import score_words, text_files, word_tests
from regard.tasks.words.skipgrams import RESERVED, WordStream, cutter, read_words, word_tokenizer
from regard.tasks.words.training import SkipGramOptions, SkipGramProgress, learn_vectors, seconds_a_pass
from regard.training.plan import RESERVE, Plan
from regard.training.report import cut_after, write_metrics
from regard.training.run import Course, write_facts
from regard.training.setup import RunContext
from regard.training.signals import Interrupted, listening
from regard.training.warm_start import begin_model, own_options

_SECONDS, _SAVED = 2.0, 60.0  # between two reports, and two checkpoints
_FEWEST = 0.01  # of a pass, however little time there is


def train_words(recipe: Recipe, context: RunContext, course: Course) -> dict[str, Any]:
    """Read the text, learn the vectors, measure them, and write the run; what run.json says in the end."""
    began = time.monotonic()
    if not context.group.first:
        return {}
    run, files = context.run, text_files(recipe.data, context.data_root, context.run.path / "data")
    cut = cutter(recipe.tokenizer.kind, lowercase=recipe.tokenizer.lowercase)
    fingerprint = files.train.fingerprint()
    stream = _read(files.train, cut, recipe)
    tokenizer = word_tokenizer(stream.words, recipe.tokenizer.kind, lowercase=recipe.tokenizer.lowercase)
    model, spec = _model(recipe, len(tokenizer))
    so_far = _restore(model, run, fingerprint, course, context.say)  # before anything is written over
    if course.plan is not None or course.minutes is not None:
        seconds = math.inf if course.minutes is None else 60 * course.minutes - (time.monotonic() - began)
        recipe = _foreseen(recipe, context, course.plan, model, stream, so_far.progress.done, seconds)
    else:
        context.say(
            f"{len(stream.words):,} words with {model.config.d_model} numbers each, {len(stream.ids):,} occurrences; "
            f"documents: {len(np.unique(stream.documents)):,}"
        )
    if course.only_plan:
        return {}
    run.write_config(recipe.resolved())
    run.write_model(spec)
    tokenizer.save(run.path / "tokenizer.json")
    run.seal()
    training = _learn(model, stream, recipe, context, so_far)
    run.write_weights(weights_of(model))
    data = {"words": len(stream.words), "tokens": len(stream.ids), "fingerprints": {"train": fingerprint}}
    metrics = _measure(model, tokenizer, recipe, context)
    return write_facts(recipe, model, replace(context, device=torch.device("cpu")), data, training, metrics)


def _read(source: Any, cut: Callable[[str], list[str]], recipe: Recipe) -> WordStream:
    data = recipe.data
    try:
        return read_words(source.documents(), cut, min_count=data.min_count, max_words=data.max_words)
    except DataError as problem:
        if str(problem).startswith(source.name):
            raise
        raise DataError(f"{source.name}: {problem}", hint=problem.hint) from problem


def _model(recipe: Recipe, n_tokens: int) -> tuple[WordVectors, ModelSpec]:
    with torch.random.fork_rng(devices=[]):
        model, spec = begin_model(recipe, own_options(recipe) | {"n_tokens": n_tokens, "n_reserved": len(RESERVED)})
    assert isinstance(model, WordVectors)
    return model.eval(), spec


@dataclass(frozen=True)
class _SoFar:
    """What a checkpoint says: of which text the vectors are, how far they are, and the seconds that took."""

    fingerprint: str
    progress: SkipGramProgress = field(default_factory=SkipGramProgress)
    seconds: float = 0.0


def _restore(
    model: WordVectors, run: RunFolder, fingerprint: str, course: Course, say: Callable[[str], None]
) -> _SoFar:
    """Take the newest checkpoint that is whole, if there is one."""
    saved = run.read_newest(["model"], say=say)
    if saved is None:
        return _SoFar(fingerprint)
    step, tensors, facts = saved
    origin = f"{run.checkpoints / f'step-{step:08d}'}"
    try:
        so_far = _SoFar(str(facts["fingerprint"]), SkipGramProgress(**facts["told"]), float(facts["seconds"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise CheckpointError(f"{origin}: its state.json is of another version ({problem!r})") from problem
    if so_far.fingerprint != fingerprint and not course.changed_data:
        raise ConfigError(f"{run.path} was begun with another text", hint="begin a new run, with another --out")
    load_parts(model, tensors["model"], origin=origin)
    return replace(so_far, fingerprint=fingerprint)


def _foreseen(
    recipe: Recipe,
    context: RunContext,
    plan: Plan | None,
    model: WordVectors,
    stream: WordStream,
    done: float,
    seconds: float,
) -> Recipe:
    """Say what is going to happen, and how long it takes; as many passes as fit into the seconds there are.

    `done` is the share of the passes that an earlier part of the run made: they take no time.
    """
    epochs = recipe.train.epochs
    each = seconds_a_pass(model, stream, _options(recipe))
    if seconds < math.inf:
        epochs = min(epochs, max(_FEWEST, round(done * epochs + RESERVE * max(0.0, seconds) / each, 3)))
    context.say(
        f"{plan.data if plan is not None else short_count(len(stream.ids)) + ' words of text'} → "
        f"{recipe.model['name']} of {len(stream.words):,} words, {short_count(count_parameters(model))} parameters, "
        f"{several(epochs, 'pass', 'passes')}, about "
        f"{roughly(each * max(0.0, epochs - done * recipe.train.epochs))} on this CPU"
    )
    return replace(recipe, train=replace(recipe.train, epochs=epochs))


def _options(recipe: Recipe) -> SkipGramOptions:
    data, train = recipe.data, recipe.train
    return SkipGramOptions(
        window=data.window,
        negatives=data.negatives,
        sample=data.sample,
        epochs=train.epochs,
        lr=train.lr,
        batch=train.batch_tokens,
        seed=train.seed,
    )


def _learn(
    model: WordVectors, stream: WordStream, recipe: Recipe, context: RunContext, so_far: _SoFar
) -> dict[str, Any]:
    began = reported = saved = time.monotonic()
    last = so_far.progress
    cut_after(context.run.metrics, last.step)
    if last.step:
        context.say(f"going on after {last.done:.0%}")

    def save() -> None:
        seconds = so_far.seconds + time.monotonic() - began
        facts = {"fingerprint": so_far.fingerprint, "told": last._asdict(), "seconds": seconds}
        context.run.save(last.step, files={"model": weights_of(model)}, facts=facts)
        context.run.keep([last.step, *context.run.before(last.step)])

    with listening() as stopping:

        def tell(progress: SkipGramProgress) -> bool:
            nonlocal reported, saved, last
            last, now = progress, time.monotonic()
            if now - reported >= _SECONDS or progress.done == 1.0:
                reported, rate = now, (progress.words - so_far.progress.words) / max(now - began, 1e-9)
                context.say(f"{progress.done:4.0%}  loss {progress.loss:.3f}  {rate:,.0f} words/s")
                lr = recipe.train.lr * (1 - progress.done)
                write_metrics(
                    context.run.metrics, progress.step, {"loss": progress.loss, "lr": lr, "tokens_per_second": rate}
                )
            if now - saved >= _SAVED:
                saved = now
                save()
            return not stopping.is_set()

        learn_vectors(model, stream, _options(recipe), tell=tell, after=last)
        save()
        if stopping.is_set() and last.done < 1.0:
            context.run.write_weights(weights_of(model))  # what there is can be used
            raise Interrupted(f"stopped after {last.done:.0%}", hint="go on with --resume")
    seconds = so_far.seconds + time.monotonic() - began
    return {"seconds": seconds, "words": last.words, "loss": last.loss, "epochs": recipe.train.epochs}


def _measure(model: WordVectors, tokenizer: Tokenizer, recipe: Recipe, context: RunContext) -> dict[str, Any]:
    """Figures on the recipe's test sets, by name."""
    ids, lowercase = tokenizer.core.get_vocab(), recipe.tokenizer.lowercase

    def line(metrics: Mapping[str, Metric]) -> list[str]:
        figure = next(iter(metrics.values()))
        return [f"{figure.name} {figure.value:.4f}  ({metrics['covered'].signature})"]

    tests = word_tests(recipe.data, context.data_root)
    return measure(tests, lambda test: score_words(model, ids, test, lowercase=lowercase), say=context.say, lines=line)
