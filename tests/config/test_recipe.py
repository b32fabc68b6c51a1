"""Recipes: everything wrong is said at once, values have their types, and a resolved recipe is the recipe again."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from regard.config.recipe import override, read_recipe
from regard.config.toml import write_toml
from regard.config.training import TrainConfig
from regard.errors import ConfigError
from regard.tasks.recipes import find_recipe, make_recipe, shipped


def problems_of(table: dict[str, Any], *overrides: str) -> str:
    with pytest.raises(ConfigError) as problem:
        make_recipe(table, overrides)
    assert problem.value.exit_code == 2
    return str(problem.value)


def test_all_problems_at_once_with_the_nearest_names() -> None:
    text = problems_of(
        {"modle": {}, "data": {"n_train": "many"}, "train": {"stpes": 3, "lr": "fast"}, "decode": {"beem": 4}},
        "model.dropuot=0.1",
        "tokenizer.kind=bpee",
        "task=translate",
    )
    for line in (
        "[modle] is not a section; did you mean [model]?",
        "task = 'translate': there are translation",
        "data.n_train = 'many': input should be a valid integer",
        "train.stpes is not known; did you mean train.steps?",
        "train.lr = 'fast': input should be a valid number",
        "decode.beem is not known; did you mean decode.beam?",
        "model.dropuot is not known; did you mean model.dropout?",
        "tokenizer.kind is 'bpee'; allowed: bpe, unigram, wordpiece, chars, bytes, words",
    ):
        assert line in text, text


def test_values_out_of_range_are_all_named() -> None:
    text = problems_of({"train": {"steps": 0, "lr": 0, "label_smoothing": 1, "seed": -1, "ema": 0.9, "average": 2}})
    for part in (
        "train.steps is 0, at least 1",
        "train.lr is 0.0, above 0",
        "train.label_smoothing is 1.0, from 0 to below 1",
        "train.seed is -1, at least 0",
        "train.ema and train.average are both set",
    ):
        assert part in text, text


def test_an_unknown_model_or_size_is_named() -> None:
    assert "no model is called 'transfomer'" in problems_of({"model": {"name": "transfomer"}})
    assert "did you mean transformer?" in problems_of({"model": {"name": "transfomer"}})
    assert "no size of transformer is called 'tinny'" in problems_of({}, "model.size=tinny")


def test_a_section_that_is_a_value_is_a_problem_like_others() -> None:
    text = problems_of({"train": 5, "model": "transformer"}, "data.n_trian=3")
    assert "train = 5: a section was expected, such as [train]" in text
    assert "model = 'transformer': a section was expected, such as [model]" in text
    assert "data.n_trian is not known; did you mean data.n_train?" in text


def test_overrides_have_the_declared_types() -> None:
    recipe = make_recipe(
        {"train": {"steps": 3}},
        ["train.lr=1", "train.steps=1_000", "train.betas=[0.8, 1]", "train.device=cpu", 'model.d_model="512"',
         "data.test.flickr=['a.en', 'a.de']", "tokenizer.joint=false", "decode.strategy=beam", "decode.beam=4"],
    )  # fmt: skip
    assert (recipe.train.lr, type(recipe.train.lr)) == (1.0, float)
    assert (recipe.train.steps, type(recipe.train.steps)) == (1000, int)
    assert recipe.train.betas == (0.8, 1.0)
    assert recipe.train.device == "cpu"
    assert recipe.data.test == {"flickr": ("a.en", "a.de")}
    assert recipe.tokenizer.joint is False
    assert recipe.decode.beam == 4


@pytest.mark.parametrize("text", ["train.steps", "=3", "train.=3", ".steps=3"])
def test_what_is_no_override_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an override") as problem:
        make_recipe({}, [text])
    assert problem.value.hint == "write section.key=value, such as train.steps=500"


def test_an_override_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="steps is a value, not a section"):
        make_recipe({"train": {"steps": 3}}, ["train.steps.more=1"])


def test_overrides_win_and_leave_the_table_alone() -> None:
    table = {"train": {"steps": 3}, "data": {"test": {"a": ["x", "y"]}}}
    changed = override(table, ["train.steps=4", "data.test.b=['z', 'w']"])
    assert changed == {"train": {"steps": 4}, "data": {"test": {"a": ["x", "y"], "b": ["z", "w"]}}}
    assert table == {"train": {"steps": 3}, "data": {"test": {"a": ["x", "y"]}}}


def test_dates_are_texts_without_quotes() -> None:
    changed = override({}, ["data.valid_from=2020-12-01", "data.test_from=2021-01-01T06:00:00", "data.at=07:30:00"])
    assert changed["data"] == {"valid_from": "2020-12-01", "test_from": "2021-01-01T06:00:00", "at": "07:30:00"}


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["data.test.one=['a.en', 'a.de']", "data.test.two=['b.tsv']", "data.columns=['en', 'de']",
         "data.moses=['en', 'de']"],
        ["decode.strategy=beam", "decode.beam=4", "decode.patience=inf", "decode.banned=[1, 2]", "train.lr=3e-9"],
        ["model.size=tiny", "model.dropout=0", "train.betas=[0.9, 0.999]"],
    ],
)  # fmt: skip
def test_resolved_and_written_and_read_it_is_the_same_recipe(overrides: list[str]) -> None:
    recipe = make_recipe({}, overrides)
    resolved = recipe.resolved()
    read = tomllib.loads(write_toml(resolved))
    assert read == resolved  # what `--resume` compares
    assert make_recipe(read) == recipe
    assert {"steps", "seed", "lr"} <= resolved["train"].keys()


def test_every_shipped_recipe_is_usable() -> None:
    names = shipped()
    assert "translation/dates" in names
    for name in names:
        assert make_recipe(find_recipe(name)).task == name.split("/")[0]
    assert find_recipe("dates") == find_recipe("translation/dates")
    assert find_recipe("translation") == {"task": "translation"}


def test_an_unknown_recipe_has_a_nearest_name() -> None:
    with pytest.raises(ConfigError, match="no recipe is called 'translation/dats'") as problem:
        find_recipe("translation/dats")
    assert problem.value.hint == "did you mean translation/dates?"


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 3")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_recipe(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_recipe(tmp_path / "bytes.toml")


def test_a_config_made_by_hand_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"train\.clip is -1, at least 0; train\.ema is 1\.0, from 0 to below 1"):
        TrainConfig(clip=-1, ema=1.0)
