"""What is planned for a text to go on with: pieces, size and passes by how much of it there is."""

from pathlib import Path

import pytest
import torch

from regard.checkpoints.run import RunFolder
from regard.tasks.language.planning import plan_language
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train, with_plan
from regard.training.plan import Plan
from regard.training.setup import RunContext

WORDS = ["the", "cat", "sees", "a", "dog", "and", "hears", "birds", ",", "while", "rain", "falls", "on", "hills", "."]


def text(folder: Path, content: str) -> Path:
    path = folder / "text.txt"
    path.write_text(content, encoding="utf-8")
    return path


def planned(folder: Path, content: str, *given: str, device: str = "cpu") -> Plan:
    recipe = make_recipe(find_recipe("language") | {"data": {"train": [str(text(folder, content))]}}, given)
    plan = plan_language(recipe, RunContext(RunFolder(folder / "run"), device=torch.device(device)))
    with_plan(recipe, plan)  # it is a recipe
    return plan


def prose(n: int) -> str:
    return " ".join(WORDS[i * i % len(WORDS)] for i in range(n // 2))[:n]


def test_a_small_text_is_read_by_characters(tmp_path: Path) -> None:
    plan = planned(tmp_path, prose(300_000))
    assert plan.data == "300k characters"
    assert plan.settings["tokenizer"] == {"kind": "chars", "size": 512}
    assert plan.settings["model"]["size"] == "tiny"


def test_many_different_characters_or_much_text_are_read_in_subwords(tmp_path: Path) -> None:
    strange = "".join(chr(0x100 + i % 300) + " " for i in range(5000))
    assert planned(tmp_path, strange).settings["tokenizer"]["kind"] == "bpe"
    pieces = planned(tmp_path, prose(4_000_000)).settings["tokenizer"]
    assert pieces == {"kind": "bpe", "size": 4000}


def test_without_spaces_every_character_is_a_piece(tmp_path: Path) -> None:
    chinese = "".join(chr(0x4E00 + i * i % 1500) for i in range(20_000))
    pieces = planned(tmp_path, chinese).settings["tokenizer"]
    assert pieces["kind"] == "chars"
    assert pieces["size"] >= len(set(chinese)) + 8


def test_a_gpu_has_a_larger_model_for_the_same_text(tmp_path: Path) -> None:
    here, there = (planned(tmp_path, prose(1_000_000), device=device) for device in ("cpu", "cuda"))
    assert (here.settings["model"]["size"], there.settings["model"]["size"]) == ("tiny", "small")
    assert here.settings["data"]["context"] < there.settings["data"]["context"]
    assert here.steps * here.settings["train"]["batch_tokens"] < there.steps * there.settings["train"]["batch_tokens"]


def test_of_a_large_text_less_is_held_out(tmp_path: Path) -> None:
    assert planned(tmp_path, prose(300_000)).settings["data"]["held_out"] == 0.1
    assert planned(tmp_path, prose(9_000_000)).settings["data"]["held_out"] < 0.1
    valid = planned(tmp_path, prose(9_000_000), f'data.valid=["{tmp_path / "text.txt"}"]')
    assert "held_out" not in valid.settings["data"]


def test_what_is_given_decides_what_follows_from_it(tmp_path: Path) -> None:
    assert planned(tmp_path, prose(30_000), "tokenizer.kind=bpe").settings["tokenizer"]["size"] == 512
    tuned = planned(tmp_path, prose(30_000), "model.start=runs/other")
    assert tuned.settings["model"] == tuned.settings["tokenizer"] == {}
    assert tuned.settings["train"]["lr"] < 1e-3
    assert "d_model" in planned(tmp_path, prose(30_000)).settings["model"]
    sized = planned(tmp_path, prose(30_000), "model.size=small").settings
    assert "d_model" not in sized["model"]
    assert sized["train"]["lr"] == 0.002
    assert "optimizer" not in planned(tmp_path, prose(30_000), "model.name=recurrent-lm").settings["train"]


@pytest.mark.parametrize("content", ["one line\n", "a\r\nb 🙂\r\nc\r\n", "hello"])
def test_next_to_nothing_is_no_obstacle(tmp_path: Path, content: str) -> None:
    recipe = make_recipe(
        find_recipe("language") | {"data": {"train": [str(text(tmp_path, content))]}},
        ["train.device=cpu", "train.steps=2", "train.n_samples=0"],
    )
    said: list[str] = []
    facts = train(recipe, tmp_path / "run", data_root=None, resume=False, say=said.append)
    assert any("characters → gpt" in line and "validation loss no longer falls" in line for line in said)
    assert "valid" in facts["metrics"]
