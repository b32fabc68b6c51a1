"""How the golden runs were made: run once, at commit a5af3f4, by version 0.1.0. No test runs it.

    PYTHONPATH=src OMP_NUM_THREADS=1 REGARD_COMMIT=a5af3f4 python tests/golden/make.py

It is kept to show what the folders are. A later version would write other folders, and the point of these is that they
stay as version 0.1.0 left them. Written are

    data/             what the runs were trained on and are asked about: numerals, animals, shapes, tones, waves
    finished/NAME     a run that was trained to its end; answers begins at the weights of finished/masked
    stopped/NAME      a run that was interrupted or killed on its way, with the checkpoint it goes on from
    ends/NAME         the weights that a stopped run ends with when nothing stops it
    expected.json     what the command line said about each: the arguments, and the records that it printed

A run keeps what is needed to open it and to go on with it; reports, samples and encoded data are left out, and of
finished runs their checkpoints. Rates are high and models tiny, so that something is learnt in a few steps; the epsilon
of the optimizer is large, so that rounding, which differs between machines, does not become weights.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
NUMERALS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}
ANIMALS, VERBS = ("cat", "dog", "bird"), ("sees", "hears", "likes")
COLOURS = {"red": (220, 30, 30), "green": (30, 180, 60), "blue": (40, 60, 220)}
PITCHES = {"low": 200.0, "mid": 420.0, "high": 800.0}
RATE = 2000


# ---- data


def write(name: str, lines: Sequence[str]) -> None:
    path = Path("data") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def sentence(chance: Random) -> str:
    return f"the {chance.choice(ANIMALS)} {chance.choice(VERBS)} a {chance.choice(ANIMALS)} ."


def write_pairs() -> None:
    chance = Random(1)
    for name, n in (("train", 120), ("valid", 10), ("test", 10)):
        sources = [" ".join(chance.choices(list(NUMERALS), k=chance.randint(1, 4))) for _ in range(n)]
        write(f"pairs/{name}.tsv", [f"{s}\t{' '.join(NUMERALS[word] for word in s.split())}" for s in sources])


def write_texts() -> None:
    chance = Random(2)
    for part, n in (("train", 8), ("test", 2)):
        for number in range(n):
            write(f"texts/{part}/{number}.txt", [sentence(chance) for _ in range(8)])


def write_labels() -> None:
    chance = Random(3)
    for name, n in (("train", 40), ("test", 10)):
        said = [sentence(chance) for _ in range(n)]
        bad = [",cat", "the cat sees ,"] if name == "train" else []
        write(f"labels/{name}.csv", ["text,label", *(f"{text},{text.split()[1]}" for text in said), *bad])
        write(f"numbers/{name}.csv", ["text,label", *(f"{text},{text.count('cat')}.5" for text in said)])


def write_questions() -> None:
    chance = Random(4)
    for name, n in (("train", 30), ("test", 8)):
        articles = []
        for number in range(n):
            said, before = sentence(chance), "so " * chance.randint(0, 3)
            who, verb = said.split()[1:3]
            answer = {"text": who, "answer_start": len(before) + 4}
            asked = {"id": f"{name}-{number}", "question": f"who {verb}", "answers": [answer]}
            articles.append({"title": str(number), "paragraphs": [{"context": before + said, "qas": [asked]}]})
        write(f"questions/{name}.json", [json.dumps({"version": "1.1", "data": articles})])


def write_images() -> None:
    """Bars that lie, bars that stand, and squares, 12 pixels a side."""
    chance = np.random.default_rng(5)
    for part, n in (("train", 8), ("test", 3)):
        for label, number in product(("lying", "square", "standing"), range(n)):
            pixels = np.full((12, 12, 3), chance.integers(0, 60, 3))
            height, width = {"lying": (2, 9), "square": (5, 5), "standing": (9, 2)}[label]
            top, left = chance.integers(0, 13 - height), chance.integers(0, 13 - width)
            pixels[top : top + height, left : left + width] = chance.integers(160, 256, 3)
            save_image(f"images/{part}/{label}/{number}.png", pixels)


def write_captions() -> None:
    """Pictures of two halves, 12 pixels a side; one row of the training table names a picture that is not there."""
    for part, seeds in (("train", (0, 1)), ("test", (2,))):
        rows = ["image,caption"]
        for seed, (left, right) in product(seeds, product(COLOURS, COLOURS)):
            pixels = np.zeros((12, 12, 3))
            pixels[:, :6], pixels[:, 6:] = COLOURS[left], COLOURS[right]
            noise = np.random.default_rng(seed).integers(-6, 7, 3)
            place = f"pictures/{left}-{right}-{seed}.png"
            save_image(f"captions/{place}", (pixels + noise).clip(0, 255))
            rows += [f"{place},a {left} half and a {right} half", f"{place},{left} left and {right} right"]
        bad = ["pictures/gone.png,a picture that is not there"] if part == "train" else []
        write(f"captions/{part}.csv", [*rows, *bad])


def save_image(name: str, pixels: np.ndarray) -> None:
    path = Path("data") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def write_speech() -> None:
    """A tone a word, at 2,000 samples a second."""
    chance, noise = Random(6), np.random.default_rng(6)
    for part, n in (("train", 28), ("valid", 6), ("test", 6)):
        rows = ["audio,text"]
        for number in range(n):
            words = chance.choices(list(PITCHES), k=chance.randint(1, 3))
            time = np.arange(round(0.12 * RATE)) / RATE
            tones = [[0.3 * np.sin(2 * np.pi * PITCHES[word] * time), np.zeros(round(0.04 * RATE))] for word in words]
            sound = np.concatenate([np.zeros(round(0.04 * RATE)), *(part for tone in tones for part in tone)])
            sound = sound + 0.002 * noise.standard_normal(len(sound))
            path = Path("data/speech") / f"{part}-{number}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            with wave.open(str(path), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes((sound * 32767).astype("<i2").tobytes())
            rows.append(f"{path.name},{' '.join(words)}")
        bad = ["gone.wav,low low"] if part == "train" else []
        write(f"speech/{part}.csv", [*rows, *bad])


def write_series() -> None:
    """Waves by the hour; and working days, the second column made of the first on the same day."""
    chance, n = np.random.default_rng(7), 160
    hours = np.datetime64("2020-01-01T00:00:00") + np.arange(n) * np.timedelta64(1, "h")
    one = 10 + 3 * np.sin(2 * np.pi * np.arange(n) / 12) + 0.3 * chance.standard_normal(n)
    two = 2 - one + 0.3 * chance.standard_normal(n)
    rows = [f"{str(t).replace('T', ' ')},{a:.4f},{b:.4f}" for t, a, b in zip(hours, one, two, strict=True)]
    write("series/hours.csv", ["date,one,two", *rows])
    days = np.busday_offset("2020-01-01", np.arange(n), roll="forward")
    b = chance.standard_normal(n)
    rows = [f"{day},{5 + y + y * y:.4f},{y:.4f}" for day, y in zip(days, b, strict=True)]
    write("series/days.csv", ["date,a,b", *rows])


def write_words() -> None:
    """Animals among animals, numerals among numerals."""
    chance = Random(8)
    kinds = (ANIMALS, tuple(NUMERALS)[:4], tuple(COLOURS))
    write("words/text.txt", [" ".join(chance.choices(chance.choice(kinds), k=12)) for _ in range(160)])
    pairs = [("cat", "dog", 9), ("one", "two", 8), ("red", "blue", 9), ("cat", "two", 1), ("red", "dog", 2)]
    write("words/pairs.txt", [f"{a}\t{b}\t{judged}" for a, b, judged in pairs])


# ---- runs


@dataclass(frozen=True)
class Plan:
    """A task with its settings; what `predict` is asked, and `evaluate` beside nothing at all."""

    task: str
    settings: Sequence[str]
    asked: Sequence[Sequence[str]]
    scored: Sequence[Sequence[str]] = ((),)


QUICK = ("train.device=cpu", "train.n_samples=1", "train.log_every=10", "train.epsilon=1e-4", "train.warmup=4")
STEPS = ("train.steps=40", "train.eval_every=20", "train.save_every=20")
LONG = ("train.steps=200", "train.eval_every=100", "train.save_every=100")
PAIRS = ('data.train=["data/pairs/train.tsv"]', 'data.valid=["data/pairs/valid.tsv"]',
         'data.test.numerals=["data/pairs/test.tsv"]', "data.overlap=keep", "train.batch_tokens=160",
         "train.label_smoothing=0.05", "decode.max_length=12")  # fmt: skip
TRANSFORMER = ("model.name=transformer", "model.d_model=16", "model.n_heads=2", "model.d_feedforward=24",
               "model.n_encoder_layers=1", "model.n_decoder_layers=1")  # fmt: skip
TEXTS = ('data.train=["data/texts/train"]', 'data.test.animals=["data/texts/test"]', "data.held_out=0.25")
GPT = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "model.d_feedforward=24", "model.n_positions=16")
BERT = ('name = "bert", n_layers = 1, d_model = 16, n_heads = 2, d_feedforward = 24, n_positions = 32, dropout = 0.0, '
        "attention_dropout = 0.0")  # fmt: skip
WORDS = ("tokenizer.kind=words", "tokenizer.size=60")
LABELS = ('data.train=["data/labels/train.csv"]', 'data.test.animals=["data/labels/test.csv"]', "data.max_tokens=16",
          "data.valid_share=0.2")  # fmt: skip
CAPTIONS = ('data.train=["data/captions/train.csv"]', 'data.valid=["data/captions/test.csv"]',
            'data.test.halves=["data/captions/test.csv"]', "data.image_size=12", "data.bad=drop",
            "train.batch_images=6", "train.epochs=14", "train.lr=0.03", "train.label_smoothing=0.05",
            "train.weight_decay=0.01", "train.epsilon=1e-3", "decode.max_length=8")  # fmt: skip
SPEECH = ('data.train=["data/speech/train.csv"]', 'data.valid=["data/speech/valid.csv"]',
          'data.test.tones=["data/speech/test.csv"]', "data.bad=drop", f"data.rate={RATE}", "data.n_mels=8",
          "data.window=0.032", "data.hop=0.016", "tokenizer.kind=words", "train.batch_seconds=4", "train.speed=0.05",
          "train.warp=0.05", "train.noise=0.2", "train.band_masks=1", "train.band_width=1", "train.time_masks=1",
          "train.lr=0.02", "train.label_smoothing=0.05", "decode.max_length=6")  # fmt: skip
SERIES = ("train.batch_examples=24", "train.epochs=4", "train.lr=0.01", "model.dropout=0.1")
SKIPGRAMS = ('data.train=["data/words/text.txt"]', 'data.test.alike=["data/words/pairs.txt"]', "model.d_model=8",
             "data.window=3", "data.min_count=2", "data.sample=0.1", "decode.k=3",
             "train.batch_tokens=256")  # fmt: skip

SAID = ("one two three", "six five four", "two", "three one six two")
HEARD = ("data/speech/test-0.wav", "data/speech/test-1.wav", "data/speech/test-2.wav")
SEEN = ("data/captions/pictures/red-blue-2.png", "data/captions/pictures/green-green-2.png")
BEGUN = ("the cat", "the dog sees", "a")
HIDDEN = ("the cat <mask> a dog .", "the <mask> sees a bird .")
ASKED = ("who sees\tso the bird sees a cat .", "who likes\tthe dog likes a dog .")
SHOWN = tuple(f"data/images/test/{label}/0.png" for label in ("lying", "square", "standing"))

FINISHED = {
    "translation": Plan(
        "translation",
        (*PAIRS, *WORDS, *TRANSFORMER, *LONG, "train.lr=0.03", "train.schedule=cosine",
         "train.graphs=off", "train.final_rate=0.1", "train.clip=0.5", "model.dropout=0.05"),
        [SAID, (*SAID, "--beam", "3", "--n-best", "2"), (*SAID[:2], "--align")],
    ),
    "translation-recurrent": Plan(
        "translation",
        (*PAIRS, "tokenizer.kind=chars", "tokenizer.joint=false", "model.name=recurrent", "model.d_embedding=8",
         "model.d_hidden=16", "model.n_layers=1", "model.dropout=0.05", *LONG, "train.lr=0.03", "train.clip=2",
         "train.batch_tokens=400", "train.schedule=linear", "train.final_rate=0.2", "train.average=2",
         "decode.max_length=24"),
        [SAID, (*SAID[:2], "decode.strategy=beam", "decode.beam=2", "decode.length_penalty=0.4")],
    ),
    "language": Plan(
        "language",
        (*TEXTS, *WORDS, *GPT, *STEPS, "data.context=12", "data.split=line", "train.batch_tokens=96", "train.lr=0.03",
         "train.graphs=off", "train.final_rate=0.1", "train.clip=0.5", "train.ema=0.9", "decode.max_length=6"),
        [BEGUN, (*BEGUN, "decode.strategy=sample", "decode.temperature=0.5", "decode.seed=3"),
         (*BEGUN[:1], "--beam", "2")],
        [(), ("--stride", "4")],
    ),
    "language-recurrent": Plan(
        "language",
        (*TEXTS, "tokenizer.kind=bpe", "tokenizer.size=270", "model.name=recurrent-lm", "model.d_model=8",
         "model.d_hidden=16", "model.n_layers=1", *LONG, "data.context=16", "train.batch_tokens=96", "train.lr=0.05",
         "decode.max_length=6"),
        [BEGUN],
    ),
    "masked": Plan(
        "masked",
        (*TEXTS, *WORDS, *(f"model.{part.replace(' = ', '=')}" for part in BERT.split(", ")), *LONG,
         "data.sentences=lines", "data.length=24", "data.short=0.3", "data.mask_share=0.2", "train.batch_tokens=192",
         "train.lr=0.03", "train.clip=0.5", "train.final_rate=0.1", "decode.k=3"),
        [HIDDEN, (*HIDDEN, "decode.k=2")],
    ),
    "labels": Plan(
        "labels",
        (*LABELS, *WORDS, f"model.backbone={{ {BERT} }}", "data.bad=drop", "data.objective=macro_f1",
         "train.epochs=6", "train.batch_examples=8", "train.lr=0.02", "train.graphs=off", "train.clip=0.5"),
        [("the cat sees a dog .", "the bird hears a cat .", "the dog likes a dog .")],
    ),
    "labels-numbers": Plan(
        "labels",
        (*(part.replace("data/labels", "data/numbers") for part in LABELS), *WORDS, "data.labels=numbers",
         'model.backbone={ name = "recurrent-encoder", d_embedding = 8, d_hidden = 8, attention = "additive" }',
         "data.objective=spearman", "train.epochs=6", "train.batch_tokens=64", "train.lr=0.02"),
        [("the cat sees a dog .", "the bird hears a dog .", "the cat likes a cat .")],
    ),
    "answers": Plan(
        "answers",
        ('data.train=["data/questions/train.json"]', 'data.test.who=["data/questions/test.json"]',
         "data.split=[0.8, 0.2]", "model.start=finished/masked", "data.max_tokens=24", "data.max_question=8",
         "data.overlap=4", "train.batch_tokens=128", "train.epochs=6", "train.lr=0.02", "train.final_rate=0.1"),
        [ASKED, (*ASKED, "--n-best", "2")],
    ),
    "images": Plan(
        "images",
        ('data.train=["data/images/train"]', 'data.test.bars=["data/images/test"]', "data.size=12", "data.bad=drop",
         "data.valid_share=0.2", "model.size=nano", "model.patch=4", "model.stem=conv", "model.stem_layers=2",
         "model.stem_width=8", "model.d_model=12", "model.n_heads=2", "model.d_feedforward=24", "model.n_layers=2",
         "model.skip=0.2", "train.operations=1", "train.magnitude=4", "train.erase=0.2", "train.cutmix=1.0",
         "train.mix=0.3", "train.epochs=12", "train.evaluations=2", "train.batch_examples=8", "train.lr=0.02",
         "train.clip=0.5", "train.graphs=off", "train.flip=false"),
        [SHOWN, (*SHOWN[:2], "decode.k=2", "decode.flip=true")],
    ),
    "captions": Plan(
        "captions",
        (*CAPTIONS, "model.name=captioner", "model.widths=[4,6,8]", "model.n_blocks=1", "model.d_embedding=8",
         "model.d_hidden=12", "model.dropout=0.05", "model.feature_dropout=0.0", "train.doubly=0.2",
         "train.words=0.1", "train.captions_each=1", "train.crop=0.9", "train.jitter=0.1", "train.clip=0.5"),
        [SEEN, (*SEEN, "--beam", "2", "--n-best", "2")],
    ),
    "captions-transformer": Plan(
        "captions",
        (*CAPTIONS, "model.name=transformer-captioner", "model.widths=[4,6,8]", "model.n_blocks=1", "model.d_model=12",
         "model.n_heads=2", "model.d_feedforward=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
         "train.words=0.0", "train.captions_each=2"),
        [SEEN],
    ),
    "speech": Plan(
        "speech",
        (*SPEECH, *LONG, "model.name=speech-transformer", "model.d_model=12", "model.n_heads=2", "model.strides=[2]",
         "model.d_feedforward=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1", "data.normal=global",
         "train.ctc=0.3", "train.graphs=off", "train.final_rate=0.1", "train.clip=0.5"),
        [HEARD, (*HEARD, "--beam", "2", "decode.ctc=0.4"), (*HEARD, "decode.ctc=1")],
    ),
    "speech-las": Plan(
        "speech",
        (*SPEECH, *LONG, "model.name=las", "model.d_listener=8", "model.d_speller=12", "model.d_embedding=8",
         "model.n_halvings=1", "data.normal=none", "train.ctc=0.2"),
        [HEARD, (*HEARD, "--beam", "2")],
    ),
    "series": Plan(
        "series",
        (*SERIES, 'data.train=["data/series/hours.csv"]', "data.context=18", "data.horizon=4", "model.patch=6",
         "model.stride=3", "model.d_model=8", "model.n_heads=2", "model.d_feedforward=16", "model.n_layers=1",
         "data.quantiles=[0.1, 0.5, 0.9]", "train.clip=0.5", "train.final_rate=0.1", "train.graphs=off"),
        [("data/series/hours.csv",)],
    ),
    "series-together": Plan(
        "series",
        (*SERIES, 'data.train=["data/series/days.csv"]', "data.targets=a", "data.inputs=b", "data.together=true",
         "data.steps=any", "data.context=6", "data.horizon=1", "model.name=series-transformer", "model.d_model=8",
         "model.n_heads=2", "model.d_feedforward=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
         "train.loss=mae"),
        [("data/series/days.csv",)],
    ),
    "words": Plan("words", (*SKIPGRAMS, "train.epochs=4", "train.lr=0.2"), [("cat", "one", "red + blue")]),
}  # fmt: skip

BY_EPOCHS = {"labels", "answers", "images", "captions", "series", "words"}


@dataclass(frozen=True)
class Stop:
    """After which step a signal is sent, and which."""

    step: int
    signal: signal.Signals


SHORT = ("train.steps=12", "train.eval_every=6", "train.save_every=4", "train.log_every=2")
STOPPED = {
    "language": (
        Stop(5, signal.SIGINT),
        Plan(
            "language",
            (*TEXTS, *WORDS, *GPT, *SHORT, "data.context=12", "train.batch_tokens=96", "train.lr=0.03",
             "train.graphs=off", "train.final_rate=0.1", "train.clip=0.5", "train.ema=0.8", "decode.max_length=6"),
            [BEGUN],
        ),
    ),
    "translation": (
        Stop(25, signal.SIGKILL),
        Plan(
            "translation",
            (*PAIRS, *TRANSFORMER, *SHORT, "tokenizer.size=280", "tokenizer.dropout=0.1", "model.dropout=0.1",
             "train.steps=30", "train.save_every=10", "train.eval_from=30", "train.lr=0.05",
             "train.average=2", "train.clip=2", "train.optimizer=muon", "train.r_drop=0.2", "train.keep_best=0"),
            [SAID],
        ),
    ),
    "words": (
        Stop(83, signal.SIGINT),
        Plan("words", (*SKIPGRAMS, "train.epochs=3", "train.lr=0.1"), [("cat", "one", "red + blue")]),
    ),
}  # fmt: skip

# A training that sends itself a signal after a step, as somebody at the keyboard would: the same step every time.
SIGNALLING = """
import os, sys
import regard.training.loop as loop
import regard.training.words as words
from regard.cli.main import run

step, number = int(sys.argv.pop(1)), int(sys.argv.pop(1))
whole, learn = loop.Trainer._step, words.learn_vectors

def stepping(self, *given):
    whole(self, *given)
    if self.progress.step == step:
        os.kill(os.getpid(), number)

def learning(*given, tell, after):
    def telling(told):
        if told.step >= step:
            os.kill(os.getpid(), number)
        return tell(told)
    learn(*given, tell=telling, after=after)

loop.Trainer._step, words.learn_vectors = stepping, learning
run()
"""


def command(*words: str) -> list[dict[str, Any]]:
    """What `regard …` prints, in this process."""
    from regard.cli.main import run

    said, sys.argv = io.StringIO(), ["regard", *words]
    with contextlib.redirect_stdout(said):
        try:
            run()
        except SystemExit as left:
            if left.code:
                raise RuntimeError(f"regard {' '.join(words)}: exit {left.code}") from None
    return [json.loads(line) for line in said.getvalue().splitlines()]


def train_arguments(plan: Plan, out: str) -> list[str]:
    quick = () if plan.task == "words" else QUICK
    return ["train", plan.task, *quick, *plan.settings, "--out", out]


def told(plan: Plan, run: str) -> dict[str, Any]:
    """What the command line says about a run. How figures were computed names versions of others, and is left out."""
    asked = [{"arguments": list(a), "records": command("predict", run, *a, "--json", "--device", "cpu")}
             for a in plan.asked]  # fmt: skip
    scored = [{"arguments": list(a), "records": command("evaluate", run, *a, "--json", "--device", "cpu")}
              for a in plan.scored]  # fmt: skip
    for each in scored:
        for record in each["records"]:
            for metric in record["metrics"].values():
                metric.pop("signature", None)
    return {"predict": asked, "evaluate": scored}


def prune(run: Path, *, finished: bool) -> None:
    """Leave what is needed to open a run and to go on with it."""
    for name in ("events", "samples", "data", *(["checkpoints"] if finished else [])):
        shutil.rmtree(run / name, ignore_errors=True)


def make_finished(name: str) -> dict[str, Any]:
    plan, run = FINISHED[name], f"finished/{name}"
    command(*train_arguments(plan, run))
    prune(Path(run), finished=True)
    found = {"task": plan.task} | told(plan, run)
    prune(Path(run), finished=True)
    return found | {"again": again(plan, run)}


def again(plan: Plan, run: str) -> dict[str, Any]:
    """A short training by the run's config.toml: settings beside it, and sum and norm of every tensor it ends with."""
    from safetensors.numpy import load_file

    settings = ["train.epochs=1"] if plan.task in BY_EPOCHS else ["train.steps=5", "train.eval_every=5"]
    with tempfile.TemporaryDirectory() as folder:
        command("train", f"{run}/config.toml", *settings, "--out", f"{folder}/again")
        tensors = {k: t.astype(np.float64) for k, t in load_file(f"{folder}/again/model.safetensors").items()}
    return {
        "arguments": settings,
        "weights": {k: [t.sum(), np.sqrt((t * t).sum())] for k, t in sorted(tensors.items())},
    }


def make_stopped(name: str) -> dict[str, Any]:
    (stop, plan), run, whole = STOPPED[name], f"stopped/{name}", f"ends/{name}"
    command(*train_arguments(plan, whole))
    found = {"task": plan.task} | told(plan, whole)
    shutil.copy(f"{whole}/model.safetensors", f"{whole}.safetensors")
    shutil.rmtree(whole)
    where = [sys.executable, "-c", SIGNALLING, str(stop.step), str(int(stop.signal))]
    code = subprocess.run([*where, *train_arguments(plan, run)], check=False).returncode
    assert code == {signal.SIGINT: 130, signal.SIGKILL: -9}[stop.signal], code
    assert not Path(run, "run.json").exists(), "it was not stopped"
    prune(Path(run), finished=False)
    return found


def main() -> None:
    import torch

    import regard

    assert regard.__version__ == "0.1.0", f"these are runs of version 0.1.0, and this is {regard.__version__}"
    os.chdir(HERE)
    torch.set_num_threads(1)
    for name in ("data", "finished", "stopped", "ends"):
        shutil.rmtree(name, ignore_errors=True)
    for make in (write_pairs, write_texts, write_labels, write_questions, write_images, write_captions, write_speech,
                 write_series, write_words):  # fmt: skip
        make()
    expected = {
        "finished": {name: make_finished(name) for name in FINISHED},
        "stopped": {name: make_stopped(name) for name in STOPPED},
    }
    Path("expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
