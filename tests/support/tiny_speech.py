"""A language of four tones, so plain that a model learns to write it down in seconds: low, mid, high and top."""

from __future__ import annotations

import wave
from pathlib import Path
from random import Random

import numpy as np

RATE = 4000
PITCHES = {"low": 300.0, "mid": 600.0, "high": 1000.0, "top": 1500.0}


def spoken(words: list[str], *, seed: int = 0, seconds: float = 0.12) -> np.ndarray:
    """The sound of words: a tone each, with pauses and a little hiss."""
    chance = np.random.default_rng(seed)
    parts = [np.zeros(round(0.03 * RATE))]
    for word in words:
        time = np.arange(round(seconds * RATE)) / RATE
        parts += [0.3 * np.sin(2 * np.pi * PITCHES[word] * time), np.zeros(round(chance.uniform(0.03, 0.06) * RATE))]
    whole = np.concatenate(parts)
    return (whole + 0.003 * chance.standard_normal(len(whole))).astype(np.float32)


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    """A PCM WAV file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def write_table(folder: Path, *, n: int = 200, seed: int = 0, name: str = "table.csv") -> Path:
    """Recordings of one to three words, and the table that lists them."""
    chance, sounds = Random(seed), folder / f"sounds-{Path(name).stem}"
    sounds.mkdir(parents=True, exist_ok=True)
    lines = ["audio,text"]
    for i in range(n):
        words = chance.choices(list(PITCHES), k=chance.randint(1, 3))
        write_wav(sounds / f"{i}.wav", spoken(words, seed=1000 * seed + i))
        lines.append(f"{sounds.name}/{i}.wav,{' '.join(words)}")
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


QUICK = ["train.plan=off", "train.device=cpu", "train.n_samples=1", "train.log_every=1000", "train.warmup=10",
         "train.speed=0.0",
         "train.warp=0.0", "train.noise=0.2", "train.band_masks=1", "train.band_width=2", "train.time_masks=0",
         "train.batch_seconds=12", "train.label_smoothing=0.0", "tokenizer.kind=words"]  # fmt: skip
HEARING = ["data.rate=4000", "data.n_mels=16", "data.window=0.032", "data.hop=0.016"]
MODELS = {
    "speech-transformer": ["model.name=speech-transformer", "model.d_model=32", "model.n_heads=2", "model.dropout=0.0",
                           "model.d_feedforward=64", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
                           "model.strides=[2]"],
    "las": ["model.name=las", "model.d_listener=24", "model.d_speller=32", "model.d_embedding=8",
            "model.n_halvings=1", "model.dropout=0.0"],
}  # fmt: skip


def speech(folder: Path, model: str = "speech-transformer") -> list[str]:
    """Arguments of `regard train` for a transcriber of tones."""
    table, valid = write_table(folder), write_table(folder, n=24, seed=1, name="valid.csv")
    steps = ["train.steps=450", "train.eval_every=150", "train.save_every=150", "train.lr=0.004", "train.ctc=0.3"]
    files = [f'data.train=["{table}"]', f'data.valid=["{valid}"]', "decode.max_length=8"]
    return ["speech", *files, *HEARING, *MODELS[model], *QUICK, *steps]


def train_speech(folder: Path, *given: str, model: str = "speech-transformer") -> Path:
    """A run of a tiny transcriber, made through the same functions as the command."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    arguments = speech(folder, model)
    recipe = make_recipe(find_recipe(arguments[0]), [*arguments[1:], *given])
    train(recipe, folder / "run", data_root=None, resume=False, say=lambda _: None)
    return folder / "run"
