"""Strings of spoken digits: Listen, Attend and Spell and a Transformer, on test takes and on a speaker never heard.

    python benchmarks/speech.py --device cuda --seeds 1 2 3 --save         both recipes, three seeds each
    python benchmarks/speech.py --prepare digits/fsdd/fsdd.npz             the recordings, decoded once, for a machine
                                                                           without the package that reads FLAC
    python benchmarks/speech.py --collect --save                           only put together what is there

Recordings are found under the data root (REGARD_DATA or --data-root): fsdd/fsdd.npz if it is there, else
fsdd/fsdd.tar.gz. Word and character error rates are per cent of 500 strings each; weights are chosen on other takes of
the speakers trained on. `--whisper FILE` measures OpenAI's tiny.en on the same strings. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

from parts import inputs_of, kept_part, kept_place, stands
from record import DATA, row, save, spread
from regard.data.synthetic.digits import WORDS, Recordings
from regard.tasks.base import ScoreData
from regard.tasks.opening import load
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.speech.config import SpeechData
from regard.tasks.speech.data import SpeechFiles
from regard.tasks.speech.metrics import score_transcripts
from regard.tasks.training import train

RECIPES = {"las": "speech/digits-las", "transformer": "speech/digits-transformer"}
NAMES = {"las": "Listen, Attend and Spell", "transformer": "speech Transformer", "whisper": "Whisper tiny.en"}
SETS = {"test": "test takes", "unseen": "unseen speaker"}


def recordings_under(root: Path) -> str:
    """The recordings by name: decoded already where that was done, else the archive."""
    return "fsdd/fsdd.npz" if (root / "fsdd" / "fsdd.npz").exists() else "fsdd/fsdd.tar.gz"


def one(model: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model and keep its run: its figures, and how long it took."""
    out = options.parts / f"{model}-{seed}"
    limit = [f"train.steps={options.steps}"] if options.steps else []
    place = [f"data.digits={recordings_under(options.data_root)}", f"data.unseen={options.unseen}"]
    settings = [*place, f"train.seed={seed}", f"train.device={options.device}", *limit, *options.set]
    recipe = make_recipe(find_recipe(RECIPES[model]), settings)
    began = time.monotonic()
    facts = train(
        recipe, out, data_root=options.data_root, resume=out.exists(), say=lambda line: print(line, flush=True)
    )
    found = {part: {name: metric["value"] for name, metric in facts["metrics"][part].items()} for part in SETS}
    beam = beamed(out, options)
    return {"sets": found, "beam": beam, "seconds": time.monotonic() - began, "parameters": facts["parameters"]}


def beamed(run: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The same with a beam whose hypotheses the alignment weighs as well."""
    model = load(run, options.device)
    found = {}
    for evaluation in model.evaluate(ScoreData(root=options.data_root, made=run / "data"), beam=5, ctc=0.4):
        found[evaluation.data] = {name: metric.value for name, metric in evaluation.metrics.items()}
        print(f"{evaluation.data}, beam 5 with alignment: WER {found[evaluation.data]['WER']:.2f}", flush=True)
    return found


def measured(model: str, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """A part that was measured before, or is now."""
    path = kept_place(options.parts / f"{model}-{seed}.json")
    if path.exists() and not stands(path) and not options.collect:
        shutil.rmtree(options.parts / f"{model}-{seed}", ignore_errors=True)  # a run of other code is not gone on with
    return kept_part(path, lambda: one(model, seed, options), recipe=RECIPES[model], collect=options.collect)


def whisper(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """What Whisper writes of the same strings; figures are read as words before they are compared."""
    model, found = load(options.whisper, options.device), {}
    data = SpeechData(
        digits=recordings_under(options.data_root), unseen=options.unseen, rate=8000, n_test=options.n_whisper
    )
    for name, spoken in SpeechFiles(data, options.data_root, options.parts).tests().items():
        said = [model.transcribe(spoken.samples(i), 8000).text for i in range(len(spoken))]
        figures = score_transcripts([in_words(text) for text in said], list(spoken.texts))
        found[name] = {key: metric.value for key, metric in figures.items()}
        print(f"Whisper tiny.en, {name}: WER {found[name]['WER']:.2f}", flush=True)
    return found


def in_words(text: str) -> str:
    """Figures as the words that are said: 80845 is eight zero eight four five."""
    return re.sub(r"\d", lambda figure: f" {WORDS[int(figure[0])]} ", text)


def rows_of(model: str, found: list[dict[str, Any]], seeds: list[int]) -> list[dict[str, Any]]:
    """Result rows: means over seeds, greedy and with the beam."""
    rows = []
    for part, shown in SETS.items():
        for key, how in (("sets", "greedy"), ("beam", "beam 5 with alignment")):
            for metric in ("WER", "CER"):
                values = [figures[key][part][metric] for figures in found]
                rows.append(
                    row(f"{NAMES[model]}, {shown}, {how}", metric, sum(values) / len(values), n=len(values), unit="%",
                        spread=spread(values), recipe=RECIPES[model], seeds=seeds, inputs=inputs_of(found),
                        chosen_on="other takes of the speakers trained on")
                )  # fmt: skip
    return rows


def main() -> None:
    """Measure what is asked for, print a table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--steps", type=int, default=0, help="instead of the recipe's")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--unseen", default="theo", help="the speaker who is kept out of training")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--parts", type=Path, default=Path("runs/speech"), help="where runs and figures are kept")
    parser.add_argument("--set", nargs="*", default=[], help="settings section.key=value for all of them")
    parser.add_argument("--prepare", type=Path, help="decode the recordings into this file, and do nothing else")
    parser.add_argument("--whisper", type=Path, help="OpenAI's tiny.en.pt, to measure it beside them")
    parser.add_argument("--n-whisper", type=int, default=500, help="strings of each set for Whisper")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    parser.add_argument("--save", action="store_true", help="write results/speech.json")
    options = parser.parse_args()
    if options.prepare:
        options.prepare.parent.mkdir(parents=True, exist_ok=True)
        Recordings.read(options.data_root / "fsdd" / "fsdd.tar.gz").save(options.prepare)
        print(f"{options.prepare}: {options.prepare.stat().st_size / 2**20:.1f} MiB")
        return
    options.parts.mkdir(parents=True, exist_ok=True)
    rows, told = [], {}
    for model in options.models:
        found = [figures for seed in options.seeds if (figures := measured(model, seed, options)) is not None]
        if not found:
            continue
        rows += rows_of(model, found, options.seeds)
        for part, shown in SETS.items():
            greedy, beam = (sum(f[key][part]["WER"] for f in found) / len(found) for key in ("sets", "beam"))
            told[f"{model} {part}"] = {"wer": greedy, "wer beam": beam}
            print(f"{NAMES[model]:<26} {shown:<15} WER {greedy:6.2f}   beam 5 with alignment {beam:6.2f}")
        seconds = sum(figures["seconds"] for figures in found) / len(found)
        rows.append(row(f"{NAMES[model]}, training and evaluation", "time", seconds, unit="s", n=len(found),
                        recipe=RECIPES[model], seeds=options.seeds, inputs=inputs_of(found)))  # fmt: skip
    if options.whisper:
        for part, figures in whisper(options).items():
            told[f"whisper {part}"] = {"wer": figures["WER"]}
            rows += [row(f"{NAMES['whisper']}, {SETS[part]}", metric, figures[metric], unit="%", n=options.n_whisper,
                         deterministic=True)
                     for metric in ("WER", "CER")]  # fmt: skip
    if options.save:
        save("speech", rows)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
