"""Of settings that exclude each other one counts, and it is the one that was asked for."""

import tomllib
from typing import Any

import pytest

from regard.config.settings import settings_of
from regard.config.toml import write_toml
from regard.errors import ConfigError
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.registry import task_names, task_spec

BY_EPOCHS = [
    name
    for name in task_names()
    if settings_of(task_spec(name).train)["epochs"].default and name != "words"  # words have no steps
]
N_BATCHES = 7


def trained(recipe: Any) -> tuple[int, int]:
    """Steps in all, and between evaluations."""
    train = recipe.train.for_epochs(N_BATCHES)
    return train.steps, train.eval_every


def test_some_tasks_count_epochs() -> None:
    assert set(BY_EPOCHS) >= {"labels", "answers", "series", "images", "captions"}


@pytest.mark.parametrize("task", BY_EPOCHS)
def test_steps_are_never_overruled_by_default_epochs(task: str) -> None:
    for recipe in (
        make_recipe({"task": task}, ["train.steps=16"]),
        make_recipe({"task": task, "train": {"steps": 16}}),
    ):
        assert trained(recipe) == (16, 500)
        written = recipe.resolved()["train"]
        assert written["steps"] == 16
        assert "epochs" not in written
        assert make_recipe(recipe.resolved()) == recipe


@pytest.mark.parametrize("task", BY_EPOCHS)
def test_epochs_that_are_given_count_and_evaluate_after_each(task: str) -> None:
    recipe = make_recipe({"task": task}, ["train.epochs=3"])
    assert trained(recipe) == (3 * N_BATCHES, N_BATCHES)
    assert not {"steps", "eval_every", "save_every"} & recipe.resolved()["train"].keys()
    assert make_recipe(tomllib.loads(write_toml(recipe.resolved()))) == recipe


def test_evaluations_that_are_asked_for_come_when_asked_for() -> None:
    recipe = make_recipe({"task": "series"}, ["train.epochs=3", "train.eval_every=5"])
    assert trained(recipe) == (3 * N_BATCHES, 5)
    assert recipe.resolved()["train"]["eval_every"] == 5
    assert make_recipe(recipe.resolved()) == recipe


def test_the_command_line_wins_over_the_recipe() -> None:
    epochs = {"task": "labels", "train": {"epochs": 4}}
    assert trained(make_recipe(epochs, ["train.steps=9"])) == (9, 500)
    steps = {"task": "labels", "train": {"steps": 9}}
    assert trained(make_recipe(steps, ["train.epochs=2"])) == (2 * N_BATCHES, N_BATCHES)
    assert trained(make_recipe(epochs, ["train.epochs=0", "train.steps=9"])) == (9, 500)
    assert trained(make_recipe(epochs, ["train.epochs=0"])) == (10_000, 500)
    ema = {"train": {"ema": 0.9}}
    assert (made := make_recipe(ema, ["train.average=3"]).train).average == 3
    assert made.ema == 0
    packed = {"task": "labels", "train": {"layout": "packed"}}
    assert make_recipe(packed, ["train.batch_examples=8"]).train.layout == "auto"
    assert (
        make_recipe({"task": "labels", "train": {"batch_examples": 8}}, ["train.layout=packed"]).train.batch_examples
        == 0
    )


@pytest.mark.parametrize(
    ("table", "overrides"),
    [
        ({"task": "labels", "train": {"steps": 9, "epochs": 2}}, []),
        ({"task": "labels"}, ["train.steps=9", "train.epochs=2"]),
        ({"task": "translation"}, ["train.steps=9", "train.epochs=2"]),
    ],
)
def test_both_in_one_place_are_an_error_that_says_which_to_drop(table: dict[str, Any], overrides: list[str]) -> None:
    with pytest.raises(
        ConfigError, match=r"train\.steps = 9 and train\.epochs = 2 are both given; leave out"
    ) as problem:
        make_recipe(table, overrides)
    assert problem.value.exit_code == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["train.ema=0.9", "train.average=2"], "train.ema and train.average are both set"),
        (["train.batch_examples=8", "train.layout=packed"], "train.batch_examples counts rows that are padded"),
        (["train.graphs=off", "train.cuda_graphs=on"], "train.graphs and train.cuda_graphs are both given"),
    ],
)
def test_other_contradictions_name_both(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_recipe({"task": "labels"}, given)


def old(task: str, **train: Any) -> dict[str, Any]:
    """A config.toml as older versions wrote it: every setting, by its old name."""
    names = {"cuda_graphs": "graphs", "final_lr_ratio": "final_rate"}
    every = {names.get(name, name): one.default for name, one in settings_of(task_spec(task).train).items()}
    return {"task": task, "train": every | train}


def test_runs_of_before_keep_their_meaning() -> None:
    assert trained(make_recipe(old("labels", epochs=2.0, steps=10_000))) == (2 * N_BATCHES, N_BATCHES)
    assert trained(make_recipe(old("labels", epochs=2.0, eval_every=3))) == (2 * N_BATCHES, N_BATCHES)
    assert trained(make_recipe(old("labels", epochs=0.0, steps=40, eval_every=20))) == (40, 20)
    assert trained(make_recipe(old("labels", epochs=2.0), ["train.steps=5"])) == (5, 500)
    assert trained(make_recipe(old("speech", steps=40))) == (40, 500)
    assert make_recipe(old("speech", batch_tokens=17)).train.batch_tokens == 4096  # it never counted
    assert make_recipe(old("words", epochs=2.0)).train.epochs == 2


def test_old_names_win_and_lose_as_the_new_ones() -> None:
    table = {"train": {"graphs": "on", "final_rate": 0.2}}
    assert make_recipe(table).train.cuda_graphs == "on"
    made = make_recipe(table, ["train.cuda_graphs=off", "train.final_rate=0.3"])
    assert (made.train.cuda_graphs, made.train.final_lr_ratio) == ("off", 0.3)
    assert make_recipe({"train": {"cuda_graphs": "on"}}, ["train.graphs=off"]).train.cuda_graphs == "off"
    assert not {"graphs", "final_rate"} & made.resolved()["train"].keys()
    speech = make_recipe({"task": "speech", "data": {"front": "whisper"}}, ["data.normal=none"]).data
    assert (speech.features, speech.normalize) == ("whisper", "none")
    captions = make_recipe({"task": "captions"}, ["train.words=0.1", "train.doubly=0.2"]).train
    assert (captions.bag_of_words, captions.doubly_stochastic) == (0.1, 0.2)
    assert make_recipe({"task": "masked"}, ["data.short=0.5"]).data.short_sequences == 0.5


def test_a_model_is_told_by_old_names_and_written_by_new_ones() -> None:
    recipe = make_recipe({"task": "images", "model": {"skip": 0.2}})
    assert dict(recipe.model) == {"name": "vit", "stochastic_depth": 0.2}
    assert dict(make_recipe({"task": "images"}, ["model.skip=0.2"]).model) == dict(recipe.model)
    with pytest.raises(ConfigError, match=r"model\.skip and model\.stochastic_depth are both given"):
        make_recipe({"task": "images", "model": {"skip": 0.2, "stochastic_depth": 0.1}})


def test_what_may_surprise_is_said() -> None:
    (said,) = make_recipe({}, ["train.steps=100", "train.patience=2"]).train.remarks()
    assert said == (
        "train.eval_every is 500 and train.steps 100: nothing is evaluated, the last weights are kept, and "
        "train.patience stops nothing; train.eval_every=100 evaluates them"
    )
    assert "train.eval_from is 90" in next(
        make_recipe({}, ["train.steps=9", "train.eval_every=3", "train.eval_from=90"]).train.remarks()
    )
    assert not list(make_recipe({"task": "labels"}).train.remarks())


@pytest.mark.parametrize("name", ["captions/shapes", "captions/flickr8k-attend", "labels/cola", "series/etth1-96"])
def test_shipped_recipes_can_be_cut_short(name: str) -> None:
    assert trained(make_recipe(find_recipe(name), ["train.steps=8", "train.eval_every=8"])) == (8, 8)
    assert trained(make_recipe(find_recipe(name), ["train.epochs=0", "train.steps=8"]))[0] == 8
    assert trained(make_recipe(find_recipe(name), ["train.epochs=1"]))[0] == N_BATCHES
