"""Plans: what follows from data alone, what a budget changes, and that nothing set by hand is touched."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from regard.config.training import TrainConfig
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train, with_plan
from regard.training.plan import Pace, Plan, shortened
from tiny_tasks import write_labels

PLAN = Plan(data="some", steps=1000, evaluations=10, warmup=300, settings={"train": {"lr": 0.5, "batch_tokens": 64}})


def labels(folder: Path, *given: str):  # type: ignore[no-untyped-def]
    table = find_recipe("labels") | {"data": {"train": [str(write_labels(folder))]}}
    return make_recipe(table, ["train.device=cpu", *given])


def fit(folder: Path, out: str, *given: str, **how: object) -> list[str]:
    said: list[str] = []
    train(labels(folder, *given), folder / out, data_root=None, resume=False, say=said.append, **how)  # type: ignore[arg-type]
    return said


def test_what_follows_from_steps_follows_from_those_given_by_hand() -> None:
    assert PLAN.table({})["train"] == {
        "steps": 1000, "warmup": 100, "eval_every": 100, "save_every": 100, "log_every": 50, "patience": 5, "lr": 0.5,
        "batch_tokens": 64,
    }  # fmt: skip
    by_hand = PLAN.table({"steps": 30})["train"]
    assert (by_hand["steps"], by_hand["warmup"], by_hand["eval_every"], by_hand["log_every"]) == (30, 3, 3, 1)
    assert "steps" not in PLAN.table({"epochs": 2})["train"]


def test_nothing_that_is_set_is_changed_and_the_rest_is_planned() -> None:
    recipe = make_recipe({"task": "translation"}, ["train.lr=0.25", "train.eval_every=7", "model.d_model=16"])
    assert recipe.plans
    planned = with_plan(recipe, replace(PLAN, settings={**PLAN.settings, "model": {"d_model": 32, "n_heads": 2}}))
    assert (planned.train.lr, planned.train.eval_every, planned.train.batch_tokens) == (0.25, 7, 64)
    assert (planned.model["d_model"], planned.model["n_heads"]) == (16, 2)
    assert not make_recipe(planned.resolved()).plans
    epochs = with_plan(make_recipe({"task": "labels"}, ["train.epochs=2"]), PLAN)
    assert epochs.train.epochs == 2


def test_a_plan_for_one_model_is_not_forced_on_another() -> None:
    recipe = make_recipe({"task": "translation"}, ["model.name=recurrent"])
    planned = with_plan(recipe, replace(PLAN, settings={"model": {"name": "transformer", "n_encoder_layers": 2}}))
    assert planned.model == {"name": "recurrent"}


@pytest.mark.parametrize("section", ["model", "train", "tokenizer"])
def test_a_recipe_that_says_how_to_train_is_not_planned_unless_asked(section: str) -> None:
    assert not make_recipe({"task": "labels", section: {}}).plans
    assert make_recipe({"task": "labels", section: {}}, ["train.plan=on"]).plans
    assert not make_recipe({"task": "labels"}, ["train.plan=off"]).plans
    assert make_recipe({"task": "labels", "data": {"train": ["a.csv"]}}).plans


def test_a_budget_leaves_room_for_evaluations() -> None:
    pace = Pace(seconds=0.5, cost=4.0)
    steps = pace.steps_in(100, evaluations=10)
    assert steps == 136  # of nine tenths: 180 steps of time, 44 of them for evaluations and the end
    config = shortened(TrainConfig(), PLAN, steps, {"warmup": 3})
    assert (config.steps, config.eval_every) == (136, 14)
    assert config.warmup == TrainConfig().warmup  # somebody set it
    assert pace.duration(config) == pytest.approx(0.5 * (136 + 4 * (9 + 1)))


def test_the_same_data_gives_the_same_bits_and_measuring_leaves_no_trace(tmp_path: Path) -> None:
    said = fit(tmp_path, "one", "train.steps=6")
    assert "about" in said[0]
    assert "up to 6 steps" in said[0]
    assert "stops when accuracy no longer rises" in said[0]
    config = make_recipe(find_recipe(str(tmp_path / "one" / "config.toml")))
    assert config.model["grams"]
    assert config.train.plan == "off"
    train(config, tmp_path / "again", data_root=None, resume=False, say=lambda _: None)
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "again"))
    assert all(a[name].equal(b[name]) for name in a)
    assert a.keys() == b.keys()


def test_a_plan_alone_trains_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    said = fit(tmp_path, "none", only_plan=True)
    assert "→ classifier" in said[-1]
    assert not (tmp_path / "none").exists()


def test_minutes_are_kept(tmp_path: Path) -> None:
    began = time.monotonic()
    fit(tmp_path, "short", "train.steps=1000000", minutes=0.05)
    assert time.monotonic() - began < 30
    steps = make_recipe(find_recipe(str(tmp_path / "short" / "config.toml"))).train.steps
    assert 1 <= steps < 100_000
    assert (tmp_path / "short" / "run.json").exists()


def test_a_budget_that_cuts_epochs_short_is_kept_when_the_run_goes_on(tmp_path: Path) -> None:
    fit(tmp_path, "short", "train.epochs=100000", minutes=0.05)
    kept = make_recipe(find_recipe(str(tmp_path / "short" / "config.toml")))
    assert kept.train.epochs == 0
    facts = train(kept, tmp_path / "short", data_root=None, resume=True, say=lambda _: None)
    assert facts["training"]["step"] <= kept.train.steps


def test_plain_defaults_are_there_for_the_asking(tmp_path: Path) -> None:
    said = fit(tmp_path, "plain", "train.plan=off", "train.steps=2", 'model.backbone={name="bert",size="tiny"}')
    assert not any("about" in line for line in said)
    assert "grams" not in make_recipe(find_recipe(str(tmp_path / "plain" / "config.toml"))).model
