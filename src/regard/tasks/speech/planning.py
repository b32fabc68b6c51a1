"""What suits some recordings: how they are heard, and a model by how many hours there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.config.recipe import Recipe
from regard.data.audio.files import Audio, read_audio
from regard.errors import DataError
from regard.tasks.speech.data import SpeechFiles
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 32  # recordings that lengths and rates are taken from


def plan_speech(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's recordings."""
    files, data = SpeechFiles(recipe.data, context.data_root, context.data), recipe.data
    if data.digits:
        strings = files.tests()["test"]
        n, n_valid, each, rate = data.n_train, data.n_valid, float(strings.lengths.mean()) / data.rate, float(data.rate)
    else:
        rows = files.train_rows()
        n_valid = round(data.valid_share * len(rows))
        n = len(rows) - (0 if data.valid else n_valid)
        each, rate = _usual([row.path for row in rows])
    hours = n * each / 3600
    gpu = context.device.type == "cuda"
    narrow = rate < 12_000  # as by telephone
    batch = 160.0 if hours < 50 or not gpu else 640.0
    recurrent = recipe.model.get("name") == "las"
    small = hours < 20 or not gpu
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
                "optimizer": "adamw" if recurrent else "muon",  # muon is for attention blocks
                "lr": 0.002 if recurrent or not small else 0.004,
                "ctc": 0.3,
                "noise": 0.3,
                "ema": 0.998,
            },
            "decode": {"max_ratio": 1.0, "max_extra": 10},
        },
    )


def _usual(paths: Sequence[Path]) -> tuple[float, float]:
    """The mean of the seconds of some recordings, and the median of their rates; what cannot be read does not count."""
    chosen = np.linspace(0, len(paths) - 1, min(_LOOKED_AT, len(paths))).astype(int)
    heard = [audio for i in chosen if (audio := _readable(paths[i])) is not None]
    if not heard:
        return 1.0, 16_000.0
    return float(np.mean([audio.seconds for audio in heard])), float(np.median([audio.rate for audio in heard]))


def _readable(path: Path) -> Audio | None:
    """The sound of a file, if it is one; what is not is named when the recordings are read."""
    try:
        return read_audio(path)
    except DataError:
        return None
