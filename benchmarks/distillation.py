"""Transformer tiny on Multi30k, taught by four of its kind (Kim and Rush, 2016: knowledge distillation by sequences).

    python benchmarks/distillation.py --device cuda --save           teachers, their translations, three students
    python benchmarks/distillation.py --only teachers                a part of it; what is there is not made again

Four teachers, no two alike, translate the training text together, a beam of five. A student then learns from the text
as it was and from what they made of it: 58,000 pairs, half of them in words that a model of its size can explain. No
other data takes part, and a student is as large and as fast as one without teachers.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from pathlib import Path

import torch

import regard
from multi30k import collect, shown, trained
from record import DATA, save
from regard.data.io.lines import read_lines
from regard.data.io.paths import find_data
from regard.tasks.base import Predictor
from regard.tasks.recipes import find_recipe
from regard.tasks.translation.predictor import TranslationPredictor

RECIPE = "translation/multi30k-tiny"
TEACHERS = {  # what each has of its own
    "A": ["train.seed=1", "train.steps=8000", "model.dropout=0.3"],
    "B": ["train.seed=2", "train.steps=10000", "model.dropout=0.25"],
    "C": ["train.seed=3", "train.steps=8000", "model.dropout=0.3", "tokenizer.dropout=0.05", "train.lr=0.002",
          "train.warmup=2000"],
    "D": ["train.seed=4", "train.steps=12000", "model.dropout=0.35"],
}  # fmt: skip
STUDENTS = ["train.steps=14000"]  # there is more to learn from
TITLE = "Transformer tiny, taught by four models of its size that translate its training text"
UNLIKE = "ours learns also from what four such models, trained on the same text, make of it; the peer does not"
PARTS = ("teachers", "text", "students")
_AT_ONCE = 1024


def taught(teachers: Sequence[Path], options: argparse.Namespace) -> list[str]:
    """The files to learn from: the training text twice, as it was and as the teachers translate it together."""
    files = [options.runs / f"both.{language}.gz" for language in ("en", "de")]
    if all(file.exists() for file in files):
        return [str(file) for file in files]
    names = find_recipe(RECIPE)["data"]["train"]
    sources, targets = (list(read_lines(find_data(name, options.data_root))) for name in names)
    first, *others = (_opened(folder, options.device) for folder in teachers)
    together, said = first.ensemble(*others), []
    for start in range(0, len(sources), _AT_ONCE):
        said += [one.plain() for one in together(sources[start : start + _AT_ONCE])]
        print(f"  {len(said):,} of {len(sources):,} sentences translated", flush=True)
    for file, lines in zip(files, (sources * 2, targets + said), strict=True):
        file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    return [str(file) for file in files]


def _opened(folder: Path, device: str) -> TranslationPredictor:
    predictor: Predictor = regard.load(folder, device=device)
    assert isinstance(predictor, TranslationPredictor)
    return predictor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=PARTS, help="which parts to do")
    parser.add_argument("--seeds", nargs="+", default=["1", "2", "3"])
    parser.add_argument("--teachers", nargs="+", default=[], dest="only_one", choices=list(TEACHERS), help="only these")
    parser.add_argument("--runs", type=Path, default=Path("runs/distillation"), help="where runs and texts are kept")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="change the students")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--save", action="store_true", help="write results/multi30k.json")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    teachers = [options.runs / name for name in TEACHERS]
    if "teachers" in options.only:
        for folder in teachers:
            if not options.only_one or folder.name in options.only_one:
                trained(folder, RECIPE, TEACHERS[folder.name], device=options.device, root=options.data_root)
    files = taught(teachers, options) if {"text", "students"} & set(options.only) else []
    if "students" in options.only:
        learn = [f"data.train={files}", *STUDENTS, *options.set]
        students = [
            trained(options.runs / f"student-{s}", RECIPE, [f"train.seed={s}", *learn], device=options.device,
                    root=options.data_root)
            for s in options.seeds
        ]  # fmt: skip
        rows = collect(TITLE, students, unlike=UNLIKE)
        shown(rows)
        if options.save:
            print(f"saved {save('multi30k', rows)}")


if __name__ == "__main__":
    main()
