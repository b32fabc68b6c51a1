"""What is planned for images with captions, and that two images are enough."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.checkpoints.run import RunFolder
from regard.errors import DataError
from regard.tasks.captions.planning import plan_captions
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train, with_plan
from regard.training.plan import Plan
from regard.training.setup import RunContext


def written(folder: Path, n: int, *, caption: str = "a red thing, on grass", images: bool = False) -> Path:
    path = folder / "captions.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["image", "caption"])
        for i in range(n):
            rows.writerows([[f"{i}.png", caption], [f"{i}.png", f"number {i % 5}"]])
    for i in range(n if images else 0):
        Image.fromarray(np.full((20, 20, 3), 40 * i % 255, np.uint8)).save(folder / f"{i}.png")
    return path


def planned(path: Path | None, *given: str, device: str = "cpu") -> Plan:
    table = {"train": [str(path)]} if path is not None else {}
    recipe = make_recipe(find_recipe("captions") | {"data": table}, given)
    plan = plan_captions(recipe, RunContext(RunFolder("run"), device=torch.device(device)))
    with_plan(recipe, plan)  # it is a recipe
    return plan


def test_more_images_have_a_larger_model_and_fewer_passes(tmp_path: Path) -> None:
    few, some, many = (planned(written(tmp_path, n)) for n in (40, 1000, 4000))
    assert few.data == "40 images, 80 captions"
    assert many.data == "4,000 images, 8,000 captions"
    assert [plan.settings["model"]["size"] for plan in (few, some, many)] == ["tiny", "small", "small"]
    assert [plan.settings["tokenizer"]["min_frequency"] for plan in (few, some, many)] == [1, 2, 5]
    passes = [plan.steps * plan.settings["train"]["batch_images"] / n for plan, n in ((some, 900), (many, 3600))]
    assert passes[0] > passes[1]
    assert planned(tmp_path / "captions.csv", device="cuda").settings["model"]["size"] == "base"


def test_images_are_not_mirrored_where_captions_tell_left_from_right(tmp_path: Path) -> None:
    assert planned(written(tmp_path, 10)).settings["train"]["flip"]
    assert not planned(written(tmp_path, 10, caption="A cat, left of a dog.")).settings["train"]["flip"]


def test_drawn_shapes_have_their_own_plan() -> None:
    plan = planned(None, "data.synthetic=shapes", "data.image_size=48", "data.n_train=400")
    assert plan.data == "400 drawn images"
    assert plan.steps == 150


def test_two_images_are_enough_and_one_is_not(tmp_path: Path) -> None:
    given = ["train.device=cpu", "train.steps=1", "train.n_samples=0"]
    table = find_recipe("captions") | {"data": {"train": [str(written(tmp_path, 2, images=True))]}}
    said: list[str] = []
    train(make_recipe(table, given), tmp_path / "run", data_root=None, resume=False, say=said.append)
    assert any(line.startswith("2 images, 4 captions → captioner") for line in said)
    written(tmp_path, 1)
    with pytest.raises(DataError, match="1 images cannot be divided") as problem:
        train(make_recipe(table, given), tmp_path / "one", data_root=None, resume=False, say=lambda _: None)
    assert "--valid FILE" in str(problem.value.hint)
