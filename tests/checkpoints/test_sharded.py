"""Tensors in pieces: put together for whoever opens them, and damage is noticed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints.run import RunFolder
from regard.checkpoints.sharded import Piece, index_name, open_tensors, write_index, write_pieces
from regard.checkpoints.weights import write_tensors
from regard.data.io.hashes import Damaged

WHOLE = {"matrix": torch.arange(35.0).view(7, 5), "bias": torch.arange(3.0), "step": torch.tensor(4.0)}


def pieces_of(part: int, parts: int) -> dict[str, Any]:
    """The rows of each tensor that one of several processes holds; what has none belongs to the first."""
    held: dict[str, Any] = {"step": WHOLE["step"]} if part == 0 else {}
    for name in ("matrix", "bias"):
        each = -(-len(WHOLE[name]) // parts)
        rows = WHOLE[name][part * each : (part + 1) * each]
        if len(rows):
            held[name] = Piece(rows, WHOLE[name].shape, (part * each,) + (0,) * (rows.ndim - 1))
    return held


def write(folder: Path, parts: int, table: str = "model") -> dict[str, Any]:
    written = [write_pieces(folder, table, pieces_of(part, parts), part=part, parts=parts) for part in range(parts)]
    known = {next(iter(pieces.values())).file: hashed for hashed, pieces in written}
    return known | {index_name(table): write_index(folder, table, [pieces for _, pieces in written])}


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_pieces_are_put_together(tmp_path: Path, parts: int) -> None:
    write(tmp_path, parts)
    opened = open_tensors(tmp_path, "model")
    assert opened.keys() == WHOLE.keys()
    for name, tensor in WHOLE.items():
        assert torch.equal(opened[name].read(), tensor)
        assert opened[name].nbytes == tensor.nbytes
    for begin in range(7):
        for n in range(8 - begin):
            assert torch.equal(opened["matrix"].read((begin, 1), (n, 3)), WHOLE["matrix"][begin : begin + n, 1:4])


def test_a_whole_file_is_one_piece(tmp_path: Path) -> None:
    write_tensors(tmp_path / "model.safetensors", WHOLE)
    opened = open_tensors(tmp_path, "model")
    assert torch.equal(opened["matrix"].read((2, 0), (3, 5)), WHOLE["matrix"][2:5])


def spoil(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / index_name("model")
        said = json.loads(path.read_text())
        change(said["tensors"])
        path.write_text(json.dumps(said))

    return changed


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (spoil(lambda said: said["matrix"]["pieces"].pop()), "4 of its 7 rows are there"),
        (spoil(lambda said: said["matrix"]["pieces"][1].update(offsets=[3, 0])), "missing or there twice"),
        (spoil(lambda said: said["matrix"]["pieces"][1].update(shape=[2, 5])), "does not have the piece"),
        (spoil(lambda said: said["matrix"].update(pieces=[])), "has no pieces"),
        (spoil(lambda said: said["matrix"]["pieces"][0].pop("file")), "not an index of tensors"),
        (lambda folder: (folder / "model-00002-of-00002.safetensors").unlink(), "there is no such file"),
        (lambda folder: (folder / "model-00002-of-00002.safetensors").write_bytes(b"short"), "not a whole safetensors"),
    ],
    ids=["gap", "overlap", "size", "none", "no file", "missing", "cut"],
)
def test_damage_is_noticed(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    write(tmp_path, 2)
    damage(tmp_path)
    with pytest.raises(Damaged, match=message):
        open_tensors(tmp_path, "model")


def test_a_damaged_piece_lets_the_checkpoint_before_it_be_used(tmp_path: Path) -> None:
    run, said = RunFolder(tmp_path), list[str]()
    for step in (1, 2):
        run.begin_checkpoint(step)
        run.end_checkpoint(step, write(run.draft_of(step), 3), {"step": step})
    path = run.folder_of(2) / "model-00002-of-00003.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    saved = run.open_newest(["model"], say=said.append)
    assert saved is not None
    assert saved.step == 1
    assert "model-00002-of-00003.safetensors: damaged" in said[0]
    assert "of step 1" in said[0]
    assert torch.equal(run.read(1, ["model"])[0]["model"]["matrix"], WHOLE["matrix"])
