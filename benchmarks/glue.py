"""GLUE: a small pretrained encoder fine-tuned by regard, beside a plain fine-tune of the same weights by transformers.

    python benchmarks/glue.py --jobs 12 --save                       everything: five tasks, three seeds, three sides
    python benchmarks/glue.py --tasks rte --seeds 1 --who ours       a part of it; parts are kept, and found again
    python benchmarks/glue.py --collect --save                       only put together what is there

    ours     the recipes labels/*: R-Drop, that is every text is read twice a step; numbers are centred and scaled; CoLA
             and RTE are read off the mean of all tokens, the others off [CLS] through the pooler, as the peer does
    alike    our trainer set up as the peer is, at the peer's rate: one reading of a text, [CLS], numbers as they are
    peer     BertForSequenceClassification in the loop of transformers' Trainer, see `glue_peer.py`

All start from the same weights and see the same data as often, in batches of the same size. The final weights count on
all sides; nobody chooses by the figures that are reported. What the recipes say, and the peer's rate (`chosen.json`),
were chosen by `glue_choose.py` on the same tenth of the training examples.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from chosen import chosen
from glue_peer import fine_tune_labels
from glue_tasks import TASKS, GlueTask, thinned
from parts import Figures, Part, Parts, folder_of, mean
from record import DATA, beside, row, save, spread
from regard.config.recipe import Recipe
from regard.config.training import TuningConfig
from regard.data.io.paths import find_data
from regard.data.text.label_space import LabelSpace
from regard.tasks.labels.data import LabelFiles
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

SIDES = ("ours", "alike", "peer")
AS_THE_PEER = ["train.r_drop=0", "model.pooling=first", "model.transform=pooler"]
UNLIKE = "ours reads each text twice a step (R-Drop); CoLA, RTE: mean of all tokens; STS-B: numbers scaled"
FINAL = ["train.eval_from=1000000000", "train.n_samples=0", "train.keep_best=0"]  # the last weights, unseen till then
UNCOMPILED = ["train.compile=off"]  # a run takes seconds, compiling it half a minute; steps are recorded on a GPU
TINY = ["train.epochs=1", "train.batch_examples=8", "train.warmup=2"]


def one(part: Part, options: argparse.Namespace) -> Figures:
    """The figures of one side on one task with one seed, from 0 to 100."""
    who, name, seed = part
    more = [] if who == "ours" or options.unchosen else chosen("glue", "peer").get(name, "").split()
    recipe = recipe_of(name, seed=seed, options=options, more=[*(AS_THE_PEER if who == "alike" else []), *more])
    if who == "peer":
        assert isinstance(recipe.train, TuningConfig)
        sets = LabelFiles(recipe.data, options.data_root).read()
        folder = find_data(str(recipe.model["start"]), options.data_root)
        found = fine_tune_labels(folder, sets, recipe.train, max_tokens=recipe.data.max_tokens, device=options.device)
    else:
        with unscaled() if who == "alike" else nullcontext():
            found = trained(recipe, options)
    return {figure: round(100 * found[figure], 3) for figure in TASKS[name].figures}


def recipe_of(name: str, *, seed: str, options: argparse.Namespace, more: list[str]) -> Recipe:
    """The recipe of a task, the same for all sides but for `more`."""
    table = find_recipe(f"labels/{name}")
    if options.start:
        table["model"]["start"] = options.start
    table["data"]["train"] = [_files(TASKS[name], options)]
    settings = [
        f"train.seed={seed}",
        f"train.device={options.device}",
        *FINAL,
        *UNCOMPILED,
        *(TINY if options.tiny else []),
    ]
    return make_recipe(table, [*settings, *more, *options.set])


def trained(recipe: Recipe, options: argparse.Namespace) -> Figures:
    """Train a recipe in a folder that is thrown away, and what run.json says about the validation examples."""
    folder = Path(tempfile.mkdtemp(dir=options.parts))
    try:
        facts = train(recipe, folder / "run", data_root=options.data_root, resume=False, say=lambda _: None)
    finally:
        shutil.rmtree(folder)
    return {name: metric["value"] for name, metric in facts["metrics"]["valid"].items()}


@contextmanager
def unscaled() -> Iterator[None]:
    """Numbers are learnt as they are, as the peer learns them."""
    of = LabelSpace.of

    def plain(*examples: Any, **options: Any) -> LabelSpace:
        return replace(of(*examples, **options), mean=0.0, scale=1.0)

    LabelSpace.of = plain  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        LabelSpace.of = of  # type: ignore[method-assign]


def _files(task: GlueTask, options: argparse.Namespace) -> str:
    """The folder of a task; its training file alone, where a part of that is what is measured on."""
    if options.tiny:
        return str(thinned(task, options.data_root, options.parts / "data", n_train=48, n_dev=32))
    folder = f"glue/{task.title}"
    return f"{folder}/train.tsv.gz" if options.held_out else folder


def rows_of(parts: Parts, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What was measured, our sides beside the peer."""
    rows = []
    for who in (side for side in ("ours", "alike") if side in options.who):
        for name in options.tasks:
            facts = {side: [parts.read((side, name, seed)) for seed in options.seeds] for side in (who, "peer")}
            values = {side: [fact["figures"] for fact in several] for side, several in facts.items()}
            for figure in TASKS[name].figures:
                ours, theirs = ([found[figure] for found in values[side]] for side in (who, "peer"))
                where = {key: facts[who][0][key] for key in ("hardware", "versions", "commit", "date")}
                where |= {"inputs": parts.inputs([(side, name, seed) for side in facts for seed in options.seeds])}
                title = f"{TASKS[name].title}{'' if who == 'ours' else ', set up as the peer'}"
                rows.append(
                    row(title, figure, mean(ours), n=len(ours), spread=spread(ours), recipe=f"labels/{name}",
                        peer="transformers, same weights", **beside(ours, theirs),
                        chosen_on=_chosen_on(name), unlike=UNLIKE if who == "ours" else None,
                        seeds=list(map(int, options.seeds)), **where)
                )  # fmt: skip
    return rows


def _chosen_on(name: str) -> str:
    """Who was searched on what."""
    theirs = chosen("glue", "peer").get(name)
    peer = f"the peer's rate on the same ({theirs})" if theirs else "the peer at the recipe's rate, not searched"
    return f"ours on a tenth of the training examples; {peer}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", nargs="+", default=["1", "2", "3"])
    parser.add_argument("--who", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--parts", type=Path, help="where parts are kept; results/parts/glue")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--start", help="the pretrained encoder, a Hugging Face folder, instead of the recipes'")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="change recipes, for all sides")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="how many parts at a time")
    parser.add_argument("--held-out", action="store_true", help="measure on a tenth of the training examples")
    parser.add_argument("--tiny", action="store_true", help="a few examples: does it run?")
    parser.add_argument("--collect", action="store_true", help="train nothing, put together what is there")
    parser.add_argument("--save", action="store_true", help="write results/glue.json")
    options = parser.parse_args()
    changed = [*(["held-out"] if options.held_out else []), *(["tiny"] if options.tiny else []), *options.set]
    options.parts = options.parts or folder_of("glue", changed)
    options.unchosen = options.held_out
    return options


def main() -> None:
    options = parsed()
    parts = Parts(options.parts, recipe=lambda part: f"labels/{part[1]}")
    wanted = [(who, task, seed) for task in options.tasks for seed in options.seeds for who in options.who]

    def command(part: Part) -> list[str]:
        who, task, seed = part
        flags = [flag for flag in ("--held-out", "--tiny") if getattr(options, flag[2:].replace("-", "_"))]
        more = ["--set", *options.set] if options.set else []
        start = ["--start", options.start] if options.start else []
        places = ["--parts", str(options.parts), "--data-root", str(options.data_root), "--device", options.device]
        return [__file__, "--tasks", task, "--seeds", seed, "--who", who, *places, *start, *flags, *more]

    if not options.collect:
        parts.do(wanted, lambda part: one(part, options), device=options.device, jobs=options.jobs, command=command)
    missing = parts.missing(wanted)
    if missing:
        sys.exit(f"{len(missing)} parts are missing, the first is {'-'.join(missing[0])}")
    if "peer" not in options.who or options.who == ["peer"]:
        print(json.dumps({"-".join(part): parts.read(part)["figures"] for part in wanted}))
        return
    rows = rows_of(parts, options)
    for r in rows:
        print(
            f"  {r['name']:<30}{r['metric']:<10}{r['value']:7.2f} ± {r['spread'] or 0:<5}  peer {r['peer_value']:7.2f}"
        )
    if options.save:
        print(f"saved {save('glue', rows)}")
    print(json.dumps({f"{r['name']} {r['metric']}": [r["value"], r["peer_value"]] for r in rows}))


if __name__ == "__main__":
    main()
