"""What suits some recordings: how they are heard, and a model by how many hours there are."""

from __future__ import annotations

import numpy as np

from regard.config.recipe import Recipe
from regard.data.audio.files import read_audio
from regard.errors import DataError
from regard.tasks.speech.config import TASK
from regard.tasks.speech.data import SpeechFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 32  # recordings that lengths and rates are taken from
_STRING = 2.5  # seconds of a string of digits


def plan_speech(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's recordings."""
    data = recipe.data
    n_all, each, rate = _heard(SpeechFiles(data, context.data_root, context.data))
    n_valid = max(1, round(data.valid_share * n_all))
    n = max(1, n_all if data.valid or data.digits else n_all - n_valid)
    hours = n * each / 3600
    gpu = context.device.type == "cuda"
    narrow = rate < 12_000  # as by telephone
    batch = 160.0 if hours < 50 or not gpu else 640.0
    small = hours < 20 or not gpu
    attends = recipe.model["name"] == TASK.models[0]  # Muon is for the matrices of attention blocks
    model = {"name": "speech-transformer", "size": "tiny" if small else "small", "dropout": 0.1}
    return Plan(
        data=f"{n:,} recordings, {hours:.1f} hours",
        steps=int(within(1000, 15 * n * each / batch, 100_000)),
        evaluations=12,
        patience=5,
        warmup=200,
        cost=1.5 * n_valid * each / batch,
        settings={
            "data": {"rate": 8000, "n_mels": 40} if narrow else {"n_mels": 40 if small else 80},
            "model": {} if "start" in recipe.model else model,
            "train": {
                "batch_seconds": batch,
                "optimizer": "muon" if attends else "adamw",
                "lr": 0.004 if small and attends else 0.002,
                "ctc": 0.3,
                "noise": 0.3,
                "ema": 0.998,
            },
            "decode": {"max_ratio": 1.0, "max_extra": 10},
        },
    )


def _heard(files: SpeechFiles) -> tuple[int, float, float]:
    """How many recordings there are, how long one is, and at what rate; those that cannot be read say nothing."""
    if files.data.digits:
        return files.data.n_train, _STRING, files.data.rate
    rows, heard = files.train_rows(), []
    for i in np.linspace(0, len(rows) - 1, min(_LOOKED_AT, len(rows))).astype(int):
        try:
            heard.append(read_audio(rows[i].path))
        except DataError:
            continue
    if not heard:
        return len(rows), _STRING, files.data.rate
    seconds, rates = zip(*((audio.seconds, audio.rate) for audio in heard), strict=True)
    return len(rows), float(np.mean(seconds)), float(np.median(rates))
