"""What is planned for word vectors, how long it is said to take, and how many passes fit into some minutes."""

from pathlib import Path
from random import Random

import pytest
import torch

from regard.checkpoints.run import RunFolder
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train, with_plan
from regard.tasks.words import run as words_run
from regard.tasks.words.planning import plan_words
from regard.training.plan import Plan
from regard.training.setup import RunContext


def text(folder: Path, n: int) -> Path:
    chance, path = Random(1), folder / "text.txt"
    names = [f"w{i}" for i in range(50)]
    lines = (" ".join(chance.choice(names) for _ in range(10)) for _ in range(max(1, n // 10)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recipe_for(path: Path, *given: str):  # type: ignore[no-untyped-def]
    return make_recipe(find_recipe("words") | {"data": {"train": [str(path)]}}, given)


def planned(path: Path, *given: str) -> Plan:
    recipe = recipe_for(path, *given)
    plan = plan_words(recipe, RunContext(RunFolder(path.parent / "run"), device=torch.device("cpu")))
    with_plan(recipe, plan)  # it is a recipe
    return plan


def test_more_text_has_more_numbers_a_word_and_fewer_passes(tmp_path: Path) -> None:
    small, medium, large = (planned(text(tmp_path, n)) for n in (1000, 100_000, 400_000))
    assert small.data == "1.0k words of text"
    assert [plan.settings["data"]["min_count"] for plan in (small, medium, large)] == [1, 2, 5]
    assert [plan.settings["model"]["d_model"] for plan in (small, medium, large)] == [32, 64, 100]
    passes = [plan.settings["train"]["epochs"] for plan in (small, medium, large)]
    assert passes == sorted(passes, reverse=True)
    assert passes[0] == 40


def test_long_texts_are_counted_by_their_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text(tmp_path, 20_000)
    exact = planned(path)
    monkeypatch.setattr("regard.tasks.words.planning._LOOKED_AT", 10_000)
    assert planned(path).data == exact.data == "20.0k words of text"


def test_the_plan_alone_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    train(
        recipe_for(text(tmp_path, 500)), tmp_path / "run", data_root=None, resume=False, say=said.append, only_plan=True
    )
    assert len(said) == 1
    assert said[0].startswith("500 words of text → word-vectors of 50 words, 3.3k parameters, 40 passes, about ")
    assert said[0].endswith(" s on this CPU")
    assert not (tmp_path / "run").exists()


def test_measuring_leaves_no_trace_and_what_is_set_holds(tmp_path: Path) -> None:
    path = text(tmp_path, 500)
    for name, given in (("planned", ()), ("plain", ("train.plan=off", "data.min_count=1", "model.d_model=32"))):
        how = {"data_root": None, "resume": False, "say": lambda _: None}
        train(recipe_for(path, "train.epochs=2", *given), tmp_path / name, **how)  # type: ignore[arg-type]
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("planned", "plain"))
    assert one == other


def test_as_many_passes_as_fit_into_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_run, "seconds_a_pass", lambda *_: 30.0)
    said: list[str] = []
    how = {"data_root": None, "resume": False, "say": said.append}
    facts = train(recipe_for(text(tmp_path, 500)), tmp_path / "run", minutes=1.0, **how)  # type: ignore[arg-type]
    assert 1.5 < facts["training"]["epochs"] <= 1.8  # nine tenths of a minute
    assert "passes, about 5" in said[0]
    config = make_recipe(find_recipe(str(tmp_path / "run" / "config.toml")))
    assert config.train.epochs == facts["training"]["epochs"]


def test_little_time_is_a_part_of_a_pass_and_much_is_no_more_than_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = text(tmp_path, 500)
    for seconds, low, high in ((1e6, 0.0, 0.01), (1e-3, 40, 40)):
        monkeypatch.setattr(words_run, "seconds_a_pass", lambda *_, seconds=seconds: seconds)
        how = {"data_root": None, "resume": False, "say": lambda _: None}
        facts = train(recipe_for(path), tmp_path / str(seconds), minutes=0.1, **how)  # type: ignore[arg-type]
        assert low < facts["training"]["epochs"] <= high or low == facts["training"]["epochs"]
