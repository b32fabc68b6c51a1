"""Tiny Shakespeare by characters: a shipped recipe beside nanoGPT's settings, seed by seed; `language.py shakespeare`.

Losses are over the whole validation text, the last tenth. Both sides keep the weights that do best on it. The peer is
nanoGPT's own model.py where its place is given, else transformers' GPT-2 with the same settings.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

from language_peers import CPU_SETTINGS, GPU_SETTINGS, NanoGPT
from parts import inputs_of, kept_part
from record import beside, row, spread
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import load_weights, read_tensors
from regard.config.devices import computing
from regard.tasks.language.setup import LanguageSetup
from regard.tasks.recipes import find_recipe, make_recipe
from regard.training.setup import RunContext
from regard.training.trainer import Trainer

RECIPES = {"cpu": "language/shakespeare-tiny", "cuda": "language/shakespeare-small"}
PUBLISHED = 1.4697  # nanoGPT's README, on a GPU
NANO_SEED = 1337  # its train.py's; ours of seed 1 stands beside it
Measured = tuple[float, float]  # validation loss, seconds


def say(text: str) -> None:
    print(text, flush=True)


def shakespeare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Both sides with every seed: wall time, and the loss on the whole validation text."""
    device, found = options.device, [_kept(seed, options) for seed in options.seeds]
    rests_on = {} if options.steps or options.set else {"inputs": inputs_of(found)}
    who_all = [who for who in found[0] if who != "inputs"]
    for who in who_all:
        say(f"  {who}: " + ", ".join(f"{one[who][0]:.4f} in {one[who][1]:.0f} s" for one in found))
    say(json.dumps({who: {"valid": mean(one[who][0] for one in found)} for who in who_all}))
    ours = [one["regard"] for one in found]
    theirs = [one["nanoGPT"] for one in found if "nanoGPT" in one]
    own = "nanoGPT's model.py and settings" if options.nanogpt else "nanoGPT's settings, transformers GPT-2"
    facts = {
        "peer": own if theirs else "nanoGPT, published", "recipe": RECIPES[device], "seeds": options.seeds,
        **rests_on, "n": len(ours), "chosen_on": "weights and settings of both sides on the validation text itself",
        "unlike": "ours: another optimizer (Muon), rotary positions, averaged weights; the peer: as it ships",
    }  # fmt: skip
    name, losses, times = f"tiny Shakespeare, characters, {device}", [v for v, _ in ours], [s for _, s in ours]
    other: dict[str, Any] = {"peer_value": PUBLISHED}
    if theirs:
        other = beside(losses, [v for v, _ in theirs], less=True)
    rows = [row(name, "validation loss", round(mean(losses), 4), unit="nats a character", **other,
                spread=spread(losses), **facts)]  # fmt: skip
    at = round(mean(s for _, s in theirs), 1) if theirs else None
    return [*rows, row(name, "training time", round(mean(times), 1), unit="s", peer_value=at, **facts)]


def _kept(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Both sides with one seed, measured before or now; what is only tried is not kept."""
    if options.steps or options.set:
        return dict(_both(seed, options))
    folder = Path("runs/shakespeare")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{options.device}-{'nanogpt' if options.nanogpt else 'settings'}-{seed}.json"
    found = kept_part(path, lambda: dict(_both(seed, options)), recipe=RECIPES[options.device], collect=False)
    assert found is not None
    return found


def _both(seed: int, options: argparse.Namespace) -> dict[str, Measured]:
    device = options.device
    short = [f"train.{key}={options.steps}" for key in ("steps", "eval_every", "save_every") if options.steps]
    fixed = [f"train.device={device}", "train.n_samples=0", f"train.seed={seed}"]
    recipe = make_recipe(find_recipe(RECIPES[device]), [*fixed, *short, *options.set])
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        context = RunContext.join(run, device=device, data_root=options.data_root, say=say)
        setup = LanguageSetup(recipe, context)
        say(setup.introduction())
        trainer = Trainer(setup.task, setup.model, recipe.train.for_epochs(setup.task.batches_an_epoch), context)
        begin = time.perf_counter()
        trainer.fit()
        seconds = time.perf_counter() - begin
        load_weights(setup.model, read_tensors(run.weights), origin="the run")
        setup.model.eval()
        with computing(trainer.device, bf16=trainer.bf16):
            found = {"regard": (setup.task.evaluate(setup.model)["valid_nll"], seconds)}
        if device == "cpu" or options.peer or options.nanogpt:
            found["nanoGPT"] = _nanogpt(setup, seed, options)
    return found


def _nanogpt(setup: LanguageSetup, seed: int, options: argparse.Namespace) -> Measured:
    """Validation loss and seconds of the peer, on the very same ids, its evaluations and its start included."""
    train, valid = (torch.from_numpy(text.ids.astype(np.int64)) for text in (setup.task.train, setup.task.valid))
    settings = CPU_SETTINGS if options.device == "cpu" else GPU_SETTINGS
    shape = replace(settings.shape, vocabulary=setup.task.tokenizer.size)
    settings = replace(settings, shape=shape, steps=options.steps or settings.steps)
    begin = time.perf_counter()
    peer = NanoGPT(settings, train, valid, device=options.device, seed=NANO_SEED + seed - 1, file=options.nanogpt)
    peer.fit(say)
    seconds = time.perf_counter() - begin
    return peer.measure(valid), seconds
