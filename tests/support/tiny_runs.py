"""A model that trains in seconds, for tests of what is done with a trained one: numerals, English → German."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from regard.cli.main import run

NUMERALS = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "seven": "sieben",
    "eight": "acht", "nine": "neun", "ten": "zehn",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code, its data, its talk."""

    code: int
    out: str
    err: str


class Command:
    """Runs `regard …` within this process; anything but a clean exit fails the test."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: object, stdin: str = "") -> Answer:
        self.capsys.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        with pytest.raises(SystemExit) as exit_:
            run()
        captured = self.capsys.readouterr()
        return Answer(int(exit_.value.code or 0), captured.out, captured.err)


def translate(text: str) -> str:
    """What a perfect model says."""
    return " ".join(NUMERALS[word] for word in text.split())


def write_pairs(folder: Path, name: str, *, n: int, seed: int) -> list[Path]:
    """Two parallel texts of numerals, one to six words a line."""
    random = Random(seed)
    lines = [" ".join(random.choices(list(NUMERALS), k=random.randint(1, 6))) for _ in range(n)]
    paths = [folder / f"{name}.en", folder / f"{name}.de"]
    for path, side in zip(paths, (lines, map(translate, lines)), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return paths


def settings(folder: Path) -> list[str]:
    """Arguments of `regard train` for the tiny model; the files are written into the folder."""
    sets = {name: write_pairs(folder, name, n=n, seed=i) for i, (name, n) in enumerate(SIZES.items())}
    files = {name: "[" + ", ".join(f'"{path}"' for path in paths) + "]" for name, paths in sets.items()}
    return [
        "translation",
        f"data.train={files['train']}",
        f"data.valid={files['valid']}",
        f"data.test={{numerals = {files['test']}}}",
        *TINY,
    ]


SIZES = {"train": 1000, "valid": 40, "test": 40}
TINY = [
    "data.overlap=keep",
    "tokenizer.kind=words",
    "tokenizer.size=100",
    "tokenizer.joint=false",
    "model.name=transformer",
    "model.d_model=32",
    "model.n_heads=2",
    "model.d_feedforward=64",
    "model.n_encoder_layers=1",
    "model.n_decoder_layers=1",
    "model.dropout=0",
    "train.plan=off",
    "train.device=cpu",
    "train.steps=300",
    "train.lr=0.01",
    "train.warmup=20",
    "train.schedule=cosine",
    "train.batch_tokens=512",
    "train.label_smoothing=0",
    "train.eval_every=300",
    "train.save_every=300",
    "decode.max_length=24",
]


def train_tiny(folder: Path, *overrides: str) -> Path:
    """A run of the tiny model, made through the same functions as the command."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    name, *given = settings(folder)
    recipe = make_recipe(find_recipe(name), [*given, *overrides])
    train(recipe, folder / "run", data_root=None, resume=False, say=lambda _: None)
    return folder / "run"
