"""What is planned for documents to fill gaps in; and that one document is enough."""

from pathlib import Path

import torch

from regard.checkpoints.run import RunFolder
from regard.config.data import TextConfig
from regard.tasks.masked.planning import plan_masked
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.text_size import text_size
from regard.tasks.texts import TextFiles
from regard.tasks.training import train
from regard.training.plan import Plan
from regard.training.setup import RunContext
from tiny_tasks import write_texts


def planned(path: Path, *given: str, device: str = "cpu") -> Plan:
    recipe = make_recipe(find_recipe("masked") | {"data": {"train": [str(path)]}}, given)
    return plan_masked(recipe, RunContext(RunFolder(path.parent / "run"), device=torch.device(device)))


def test_pairs_need_another_document_on_both_sides(tmp_path: Path) -> None:
    assert planned(write_texts(tmp_path, n=40)).settings["data"]["next_sentence"]
    few = planned(write_texts(tmp_path / "few", n=3))
    assert few.data.startswith("3 documents, ")
    assert not few.settings["data"]["next_sentence"]


def test_a_document_that_is_cut_counts_once(tmp_path: Path) -> None:
    path = write_texts(tmp_path, n=1) / "00.txt"
    assert planned(path).data.startswith("1 document, ")
    size = text_size(TextFiles(TextConfig(train=(str(path),), held_out=0.25)))
    assert (size.documents, size.held_documents, size.all_documents) == (1, 1, 1)
    assert size.held_characters / size.all_characters > 0.2


def test_holding_out_less_does_not_promise_pairs_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    # Of a tenth two documents are held out; of less, a part of the last.
    texts = ["A cat sees a dog. " * n for n in (360_000, 18_000, 18_000)]
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts), encoding="utf-8")
    data = planned(path).settings["data"]
    assert data["held_out"] < 0.1
    assert not data["next_sentence"]


def test_more_text_has_a_larger_model_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("A cat sees a dog, and the rain falls. " * 120_000, encoding="utf-8")
    sizes = [planned(path, device=device).settings["model"]["size"] for device in ("cpu", "cuda")]
    assert sizes == ["tiny", "small"]


def test_one_line_is_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("To be, or not to be, that is the question.\n", encoding="utf-8")
    given = ["train.device=cpu", "train.steps=2", "train.n_samples=0"]
    recipe = make_recipe(find_recipe("masked") | {"data": {"train": [str(path)]}}, given)
    said: list[str] = []
    facts = train(recipe, tmp_path / "run", data_root=None, resume=False, say=said.append)
    assert any(line.startswith("1 document, 43 characters → bert") for line in said)
    assert "nsp_loss" not in facts["metrics"]["valid"]
