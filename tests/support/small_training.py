"""Small things to train: a corpus of dates with a model that fits in a moment, and a task whose scores are scripted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoints.run import RunFolder
from regard.config.training import TrainConfig
from regard.data.batching.plan import Position
from regard.data.synthetic.dates import date_pairs
from regard.data.text.corpus import Corpus
from regard.data.text.pairs import Pair
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.registry import build
from regard.tasks.translation.data import Languages, TextSide
from regard.tasks.translation.training import PairTraining
from regard.training.protocol import Losses
from regard.training.setup import RunContext
from regard.training.trainer import Trainer

MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"d_model": 16, "n_heads": 2, "d_feedforward": 24, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "recurrent": {"d_embedding": 12, "d_hidden": 12, "n_layers": 1, "tied": "all"},
}


def dates(folder: Path, *, n: int = 60) -> tuple[Languages, Corpus, list[Pair]]:
    """Languages learnt from dates, their corpus, and some pairs to validate on."""
    pairs = [Pair(source, target, i) for i, (source, target) in enumerate(date_pairs(n, 0, split="train"))]
    valid = [Pair(source, target, i) for i, (source, target) in enumerate(date_pairs(4, 0, split="valid"))]
    tokenizer = learn_tokenizer((text for pair in pairs for text in pair[:2]), "bpe", size=290)
    side = TextSide(tokenizer)
    return Languages(side, side), Corpus.build(pairs, tokenizer, tokenizer, folder / "corpus"), valid


def pair_task(folder: Path, *, packed: bool = False, **options: Any) -> PairTraining:
    languages, corpus, valid = dates(folder)
    settings = {"budget_tokens": 200, "seed": 1, "packed": packed} | options
    return PairTraining(languages, corpus, valid, **settings)


def model_for(task: PairTraining, name: str = "transformer", **options: Any) -> nn.Module:
    torch.manual_seed(5)
    size = len(task.languages.source.tokenizer)
    return build(name, MODELS[name] | {"n_source": size, "n_target": size, "dropout": 0.2} | options)


def context_in(path: Path, *, device: str = "cpu") -> RunContext:
    path.mkdir(parents=True, exist_ok=True)
    return RunContext.join(RunFolder(path), device=device)


@dataclass(frozen=True)
class Numbers:
    """A batch of inputs and wanted outputs."""

    inputs: Tensor
    outputs: Tensor

    @property
    def n_tokens(self) -> int:
        return len(self.inputs)

    def to(self, device: torch.device) -> "Numbers":
        return self

    def pin_memory(self) -> "Numbers":
        return self


class Scripted:
    """A line to fit; its evaluations give the scores of a list, and what it drew is remembered."""

    objective = "score"
    unit = "numbers"

    def __init__(self, scores: Sequence[float] = (), *, spoil_at: int = -1) -> None:
        self.scores, self.spoil_at = list(scores), spoil_at
        self.evaluated: list[dict[str, Tensor]] = []
        self.draws: list[float] = []

    def batches(self, position: Position, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Position, Numbers]]:
        while True:
            number = position.batch
            values = torch.linspace(-1, 1, 4 + number % 3)[:, None] + number
            position = Position(0, number + 1)
            outputs = values * (float("nan") if number == self.spoil_at else 3)
            yield position, Numbers(values, outputs)

    def loss(self, model: Any, batch: Numbers) -> Losses:
        self.draws.append(float(torch.rand(())))
        total = (model(batch.inputs) - batch.outputs).square().sum()
        return Losses(total, total.detach(), torch.tensor(batch.n_tokens))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        assert not model.training
        self.evaluated.append({name: p.detach().clone() for name, p in model.named_parameters()})
        return {"score": self.scores[len(self.evaluated) - 1]}

    def samples(self, model: Any, n: int) -> list[tuple[str, str, str]]:
        return []


def scripted_trainer(folder: Path, task: Scripted, **options: Any) -> Trainer:
    torch.manual_seed(0)
    settings = {"device": "cpu", "steps": 20, "lr": 0.01, "warmup": 0, "eval_every": 2, "save_every": 2, "log_every": 5}
    return Trainer(task, nn.Linear(1, 1), TrainConfig(**settings | options), context_in(folder))
