"""Data and settings of every task on single texts, so small that each trains in seconds: a world of cats and dogs.

language    sentences "the cat sees a dog .", one a line
masked      the same, in documents
labels      is the animal that sees a cat or a dog?
answers     who sees whom?
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

ANIMALS, VERBS = ("cat", "dog"), ("sees", "hears", "likes")
TRAINED = ["train.plan=off", "train.device=cpu", "train.warmup=5", "train.n_samples=1", "train.log_every=1000"]


def sentence(chance: Random) -> str:
    """One sentence of the world."""
    return f"the {chance.choice(ANIMALS)} {chance.choice(VERBS)} a {chance.choice(ANIMALS)} ."


def write_texts(folder: Path, *, n: int = 12, sentences: int = 12, seed: int = 0) -> Path:
    """A folder of text files, one document each."""
    chance, texts = Random(seed), folder / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    for number in range(n):
        lines = [sentence(chance) for _ in range(sentences)]
        (texts / f"{number:02d}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return texts


def write_labels(folder: Path, name: str = "labels.tsv", *, n: int = 120, numbers: bool = False, seed: int = 0) -> Path:
    """A table of sentences and who sees, or, as a number, how many cats there are."""
    chance = Random(seed)
    lines = ["text\tlabel"]
    for _ in range(n):
        text = sentence(chance)
        lines.append(f"{text}\t{text.count('cat') if numbers else text.split()[1]}")
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


def write_questions(folder: Path, *, n: int = 60, seed: int = 0) -> Path:
    """A SQuAD file: in every article one passage, and the question who does something in it."""
    chance, articles = Random(seed), []
    for number in range(n):
        said, before = sentence(chance), "so " * chance.randint(0, 3)
        context, who, verb = before + said, *said.split()[1:3]
        answer = {"text": who, "answer_start": len(before) + 4}
        asked = {"id": str(number), "question": f"who {verb}", "answers": [answer]}
        articles.append({"title": f"article {number}", "paragraphs": [{"context": context, "qas": [asked]}]})
    path = folder / "questions.json"
    path.write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
    return path


TINY_BERT = "n_layers = 1, d_model = 32, n_heads = 2, d_feedforward = 64, dropout = 0.0, attention_dropout = 0.0"
TINY_GPT = "n_layers = 1, d_model = 32, n_heads = 2, dropout = 0.0"
BACKBONES = {
    "bert": f'{{ name = "bert", {TINY_BERT} }}',
    "gpt": f'{{ name = "gpt", {TINY_GPT} }}',
    "recurrent-encoder": '{ name = "recurrent-encoder", d_embedding = 16, d_hidden = 16, dropout = 0.0, '
    'attention = "additive" }',
}
WORDS = ["tokenizer.kind=words", "tokenizer.size=100"]


def options(text: str) -> list[str]:
    """`n_layers = 1, d_model = 32` as settings of a model."""
    return [f"model.{part.strip().replace(' = ', '=')}" for part in text.split(",")]


def language(folder: Path) -> list[str]:
    """Arguments of `regard train` for a language model."""
    shape = [*WORDS, *options(TINY_GPT), "data.context=16", "data.split=line", "train.batch_tokens=256"]
    steps = ["train.steps=120", "train.eval_every=60", "train.save_every=60", "train.lr=0.01", "decode.max_length=8"]
    return ["language", f'data.train=["{write_texts(folder)}"]', *shape, *steps, *TRAINED]


def masked(folder: Path) -> list[str]:
    """Arguments of `regard train` for a masked language model with next sentences."""
    shape = [*WORDS, *options(TINY_BERT), "data.sentences=lines", "data.length=32", "data.held_out=0.25"]
    steps = ["train.steps=120", "train.eval_every=60", "train.save_every=60", "train.lr=0.01", "decode.k=3"]
    steps += ["train.batch_tokens=512"]
    return ["masked", f'data.train=["{write_texts(folder)}"]', *shape, *steps, *TRAINED]


def labels(folder: Path, *, backbone: str = "bert", numbers: bool = False) -> list[str]:
    """Arguments of `regard train` for a classifier on a fresh backbone, or for a model of numbers."""
    shape = [*WORDS, f"model.backbone={BACKBONES[backbone]}", "data.max_tokens=16", "train.batch_tokens=128"]
    kind = ["data.labels=numbers"] if numbers else []
    return [
        "labels", f'data.train=["{write_labels(folder, numbers=numbers)}"]', *shape, *kind, *TRAINED,
        "train.epochs=8", "train.lr=0.01",
    ]  # fmt: skip


def answers(folder: Path) -> list[str]:
    """Arguments of `regard train` for a reader on a fresh BERT."""
    shape = [*WORDS, f"model.backbone={BACKBONES['bert']}", "data.max_tokens=24", "data.max_question=8"]
    steps = ["data.overlap=4", "train.batch_tokens=256", "train.epochs=12", "train.lr=0.01"]
    return ["answers", f'data.train=["{write_questions(folder)}"]', *shape, *steps, *TRAINED]


TASKS: dict[str, Any] = {"language": language, "masked": masked, "labels": labels, "answers": answers}


def train_tiny(task: str, folder: Path, *overrides: str, **how: Any) -> Path:
    """A run of a tiny model, made through the same functions as the command."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    name, *given = TASKS[task](folder, **how)
    recipe = make_recipe(find_recipe(name), [*given, *overrides])
    train(recipe, folder / "run", data_root=None, resume=False, say=lambda _: None)
    return folder / "run"
