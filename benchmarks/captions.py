"""Captions of Flickr8k: the same captioner with attention and without, and a Transformer, trained by the same script.

    python benchmarks/captions.py --device cuda --seeds 1 2 3 --save             everything
    python benchmarks/captions.py --device cuda --seeds 1 2 3 --at-once 3        three runs at a time on one GPU
    python benchmarks/captions.py --models attend --seeds 1 --steps 200          a part of it; parts are kept
    python benchmarks/captions.py --collect --save                               only put together what is there
    python benchmarks/captions.py --collect --draw docs/pictures                 pictures of what is there: the first
                                                                                 seed's looks, and those at shapes

The official split; weights are chosen by CIDEr-D on the development images, and all of the 1,000 test images count,
with five references each. Xu et al. (2015), table 1, stand beside: theirs is another condition (images of 224 × 224
through a VGG network that was trained on ImageNet), ours sees 80 × 80 pixels with convolutions learnt from these 6,000
images alone. What can be compared is attention with no attention, in the same condition. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from PIL import Image

from parts import inputs_of, kept_part, kept_place, stands
from record import DATA, row, save, spread
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

RECIPES = {name: f"captions/flickr8k-{name}" for name in ("attend", "mean", "transformer")}
FIGURES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "CIDEr-D")
PEER = "Show, Attend and Tell, soft (VGG pretrained on ImageNet, 224 × 224)"
PUBLISHED = {"BLEU-1": 67.0, "BLEU-2": 44.8, "BLEU-3": 29.9, "BLEU-4": 19.5}
UNLIKE = "the peer sees 224 × 224 pixels through a network trained on ImageNet, ours 80 × 80 with nothing pretrained"
DRAWN, ACROSS = 3, 1100  # captions in a picture of the documentation, and its width in pixels


def one(model: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Train one model: its figures on the test images, and how long it took. The run stays, to be looked at."""
    settings = [f"train.seed={seed}", f"train.device={options.device}", *options.set]
    if options.steps:
        each = max(1, options.steps // 4)
        settings += [f"train.steps={options.steps}", f"train.eval_every={each}", f"train.save_every={options.steps}",
                     f"train.eval_from={each}"]  # fmt: skip
    recipe = make_recipe(find_recipe(RECIPES[model]), settings)
    folder, began = options.parts / f"{model}-{seed}", time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    facts = train(recipe, folder, data_root=options.data_root, resume=False, say=lambda text: print(text, flush=True))
    shutil.rmtree(folder / "checkpoints")
    figures = {name: facts["metrics"]["test"][name.lower()]["value"] for name in FIGURES}
    return figures | {"parameters": facts["parameters"], "seconds": time.monotonic() - began}


def measured(model: str, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """A part that was measured before, or is now."""
    path = options.parts / f"{model}-{seed}.json"
    return kept_part(path, lambda: dict(one(model, seed, options)), recipe=RECIPES[model], collect=options.collect)


def measure_at_once(options: argparse.Namespace) -> None:
    """Start a process for every part that is not there yet, so many at a time."""
    every = [(model, seed) for model in options.models for seed in options.seeds]
    wanted = [(m, s) for m, s in every if not stands(kept_place(options.parts / f"{m}-{s}.json"))]
    given = ["--device", options.device, "--data-root", str(options.data_root), "--parts", str(options.parts)]
    given += ["--steps", str(options.steps)] + (["--set", *options.set] if options.set else [])
    running: list[subprocess.Popen[bytes]] = []
    for model, seed in wanted:
        while len([process for process in running if process.poll() is None]) >= options.at_once:
            time.sleep(0.5)
        command = [sys.executable, __file__, "--models", model, "--seeds", str(seed), *given]
        running.append(subprocess.Popen(command))
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("a run failed; see above")


def rows_of(model: str, found: list[dict[str, Any]], seeds: list[int]) -> list[dict[str, Any]]:
    """Result rows: mean over seeds, with the published figure beside it."""
    rows = []
    for metric in FIGURES:
        values = [figures[metric] for figures in found]
        peer: dict[str, Any] = {}
        if metric in PUBLISHED and model == "attend":
            peer = {"peer": PEER, "peer_value": PUBLISHED[metric], "unlike": UNLIKE}
        rows.append(
            row(f"{model}, Flickr8k test, 80 × 80, from scratch", metric, sum(values) / len(values), n=len(values),
                unit="0–100", recipe=RECIPES[model], seeds=seeds,
                chosen_on="CIDEr-D on the development images", inputs=inputs_of(found), spread=spread(values), **peer)
        )  # fmt: skip
    return rows


def draw(options: argparse.Namespace) -> None:
    """Pictures for the documentation, of the runs that are there; `runs/captions/shapes` is that of captions/shapes."""
    for name, run in (("flickr8k", f"attend-{options.seeds[0]}"), ("shapes", "shapes")):
        if (options.parts / run / "model.safetensors").exists():
            draw_run(options.parts / run, options.draw / f"captions-{name}.png", options)


def draw_run(run: Path, path: Path, options: argparse.Namespace) -> None:
    """Where a captioner looked, on test images that it does well on, no two of them with the same caption."""
    from regard import load
    from regard.tasks.base import ScoreData
    from regard.tasks.captions.look import draw_captions
    from regard.tasks.captions.metrics import CaptionJudge

    model = load(run, options.device)
    (pictures,) = model.test_sets(ScoreData(root=options.data_root, made=run / "data")).values()
    captions = [several[0] for several in model.writer(pictures.pixels, model.options({}))]
    scores = CaptionJudge(pictures.captions).score([caption.text for caption in captions]).cider
    looks, said = [], set()
    for i in (-scores).argsort().tolist():
        if captions[i].text not in said and len(looks) < DRAWN:
            said.add(captions[i].text)
            looks.append(looked(model, pictures.pixels[i], captions[i].ids))
    draw_captions(looks, path)
    with Image.open(path) as drawn:
        drawn = drawn.convert("RGB").resize(
            (ACROSS, round(drawn.height * ACROSS / drawn.width)), Image.Resampling.LANCZOS
        )
    drawn.quantize(200).save(path, optimize=True)
    print(f"drawn: {path}")


def looked(model: Any, pixels: Any, ids: list[int]) -> Any:
    """An image of the set, larger, with what was said and where the model looked."""
    from torch import from_numpy

    from regard.data.images.files import fit_image
    from regard.inspection.look import look_at
    from regard.tasks.captions.look import CaptionLook, caption_case

    seen = look_at(caption_case(model.module, model.tokenizer, pixels, ids), kinds=["cross"], alternatives=0)
    fine = fit_image(from_numpy(pixels.copy()), size=480).numpy()
    look = CaptionLook(seen.axes, seen.maps, None, seen.title, fine)
    return fine, look.words, look.over_image(), look.title


def main() -> None:
    """Measure what is asked for, print a table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument(
        "--parts", type=Path, default=Path("runs/captions"), help="where runs and their figures are kept"
    )
    parser.add_argument("--steps", type=int, default=0, help="train so many steps instead of the recipe's")
    parser.add_argument("--at-once", type=int, default=1, help="how many runs share the device")
    parser.add_argument("--set", nargs="*", default=[], help="settings section.key=value for all of them")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    parser.add_argument("--draw", type=Path, help="write pictures there")
    parser.add_argument("--save", action="store_true", help="write results/captions.json")
    options = parser.parse_args()
    options.parts.mkdir(parents=True, exist_ok=True)
    if options.at_once > 1 and not options.collect:
        measure_at_once(options)
    rows, told = [], {}
    for model in options.models:
        found = [figures for seed in options.seeds if (figures := measured(model, seed, options)) is not None]
        if not found:
            continue
        rows += rows_of(model, found, options.seeds)
        told[model] = {name: sum(f[name] for f in found) / len(found) for name in (*FIGURES, "parameters", "seconds")}
        shown = "  ".join(f"{name} {told[model][name]:.2f}" for name in FIGURES)
        print(
            f"{model:<12} {shown}   {told[model]['parameters'] / 1e6:.2f}M parameters, {told[model]['seconds']:.0f} s"
        )
    print("Xu et al.    " + "  ".join(f"{name} {value:.2f}" for name, value in PUBLISHED.items()) + f"   {PEER}")
    if options.draw:
        draw(options)
    if options.save:
        save("captions", rows)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
