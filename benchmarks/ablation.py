"""What pre-training is worth: Table 5 of Radford et al. (2018) in small, and BERT with and without.

    python benchmarks/ablation.py --jobs 12 --save                     everything; parts are kept, and found again
    python benchmarks/ablation.py --who gpt gpt-scratch --tasks rte    a part of it
    python benchmarks/ablation.py --collect --save                     only put together what is there

    gpt            a small GPT read WikiText-2 before; fine-tuning adds the language model's loss, λ = 0.5
    gpt-no-aux     the same without that loss
    gpt-scratch    the same, not pre-trained
    lstm           as gpt, with one LSTM layer in the place of the blocks: 1024 units to a width of 384, the paper's
                   proportion (2048 to 768); pre-trained on as many tokens
    bert           a small BERT pre-trained on WikiText-2 with masks and next sentences
    bert-scratch   the same, not pre-trained

All are fine-tuned alike, at one rate for as many epochs, and the final weights count. SST-2 is cut to 10,000 evenly
spaced training examples. The paper's models read a billion words before, these two million: what can be compared is the
order.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from glue import FINAL, UNCOMPILED, trained
from glue_tasks import TASKS, thinned
from parts import Figures, Part, Parts, folder_of, mean
from record import DATA, row, save, spread
from regard.checkpoints.opening import open_model
from regard.checkpoints.run import RunFolder
from regard.config.recipe import Recipe
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

PRETRAINED = {  # how each backbone is pre-trained: a recipe, and what is changed in it
    "gpt": ("language/wikitext2", ["tokenizer.lowercase=true"]),
    "lstm": (
        "language/wikitext2",
        ["tokenizer.lowercase=true", "model.name=recurrent-lm", "train.compile=off", "train.cuda_graphs=off"],
    ),
    "bert": ("masked/wikitext2", []),
}
CONTESTANTS = {  # who: the backbone, whether it is pre-trained, the weight of the language model's loss
    "gpt": ("gpt", True, 0.5),
    "gpt-no-aux": ("gpt", True, 0.0),
    "gpt-scratch": ("gpt", False, 0.5),
    "lstm": ("lstm", True, 0.5),
    "bert": ("bert", True, 0.0),
    "bert-scratch": ("bert", False, 0.0),
}
NAMES = {
    "gpt": "GPT, pre-trained, auxiliary loss",
    "gpt-no-aux": "GPT, pre-trained",
    "gpt-scratch": "GPT, not pre-trained, auxiliary loss",
    "lstm": "LSTM, pre-trained, auxiliary loss",
    "bert": "BERT, pre-trained",
    "bert-scratch": "BERT, not pre-trained",
}
BEFORE = {  # what is told of pre-training
    "gpt": {"perplexity": "perplexity a piece", "word_perplexity": "perplexity a word"},
    "lstm": {"perplexity": "perplexity a piece", "word_perplexity": "perplexity a word"},
    "bert": {"mlm_accuracy": "masked pieces told right", "nsp_accuracy": "next sentences told right"},
}
TUNING = ["train.lr=2e-4", "train.epochs=4", "train.r_drop=0", "train.warmup=50", "data.max_tokens=128"]
SUBSET = {"sst2": 10_000}
TINY_TEXT = ["data.train=['wikitext-2/valid.txt.gz']", "data.test={}", "model.size=tiny", "tokenizer.size=1000",
             "train.steps=6", "train.batch_tokens=1024", "train.eval_every=3", "train.n_samples=1"]  # fmt: skip
TINY_TUNING = ["train.epochs=1", "train.batch_examples=8"]


def one(part: Part, options: argparse.Namespace) -> Figures:
    """Pre-train a backbone, or fine-tune a contestant on a task with a seed: its figures."""
    if part[0] == "pretrain":
        return pretrain(part[1], options)
    who, name, seed = part
    found = trained(recipe_of(who, name, seed=seed, options=options), options)
    return {figure: round(100 * found[figure], 3) for figure in TASKS[name].figures}


def pretrain(backbone: str, options: argparse.Namespace) -> Figures:
    """Pre-train a backbone on WikiText-2, or go on with it; how well it does on the validation text."""
    name, changes = PRETRAINED[backbone]
    tiny = TINY_TEXT if options.tiny else []
    recipe = make_recipe(find_recipe(name), [f"train.device={options.device}", *changes, *tiny])
    folder = run_of(backbone, options)
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    facts = train(recipe, folder, data_root=options.data_root, resume=RunFolder(folder).exists(), say=say)
    return {figure: metric["value"] for figure, metric in facts["metrics"]["valid"].items()}


def run_of(backbone: str, options: argparse.Namespace) -> Path:
    """Where a pre-trained backbone is."""
    folder: Path = options.parts / "pretrained" / backbone
    return folder


def recipe_of(who: str, name: str, *, seed: str, options: argparse.Namespace) -> Recipe:
    """A task's recipe, on the contestant's backbone."""
    backbone, pretrained, lm_weight = CONTESTANTS[who]
    start = run_of(backbone, options)
    table = find_recipe(f"labels/{name}")
    if pretrained:
        table["model"] = {"start": str(start)}
    else:
        model = open_model(str(start))
        table["model"] = {"backbone": {"name": model.model, **model.options}}
        table["tokenizer"] = {"file": str(start / "tokenizer.json")}
    table["data"]["train"] = [_files(name, options)]
    settings = [
        f"train.seed={seed}",
        f"train.device={options.device}",
        f"train.lm_weight={lm_weight}",
        *TUNING,
        *FINAL,
        *UNCOMPILED,
        *(["train.cuda_graphs=off"] if backbone == "lstm" else []),
    ]
    return make_recipe(table, [*settings, *(TINY_TUNING if options.tiny else []), *options.set])


def _files(name: str, options: argparse.Namespace) -> str:
    task = TASKS[name]
    if options.tiny:
        return str(thinned(task, options.data_root, options.parts / "data", n_train=48, n_dev=32))
    if name in SUBSET:
        return str(thinned(task, options.data_root, options.parts / "data", n_train=SUBSET[name]))
    return f"glue/{task.title}"


def averages(parts: Parts, options: argparse.Namespace) -> dict[str, list[float]]:
    """The mean of all tasks' first figures, for each contestant and seed."""
    return {
        who: [sum(_value(parts, who, name, seed) for name in options.tasks) / len(options.tasks)
              for seed in options.seeds]
        for who in options.who
    }  # fmt: skip


def rows_of(parts: Parts, options: argparse.Namespace) -> list[dict[str, Any]]:
    """How well each backbone did in pre-training, then every contestant, task by task and on average."""
    rows = []
    for backbone in sorted({CONTESTANTS[who][0] for who in options.who}):
        facts, (recipe, _) = parts.read(("pretrain", backbone)), PRETRAINED[backbone]
        rows += [
            row(f"WikiText-2's validation text, {backbone}", title, round(facts["figures"][figure], 4), n=1,
                recipe=recipe, seeds=[1], inputs=facts.get("inputs"), **_where(facts))
            for figure, title in BEFORE[backbone].items()
        ]  # fmt: skip
    for who in options.who:
        where = _where(parts.read((who, options.tasks[0], options.seeds[0])))
        measured: list[Part] = [(who, name, seed) for name in options.tasks for seed in options.seeds]
        where |= {"inputs": parts.inputs([*measured, ("pretrain", CONTESTANTS[who][0])])}
        figures = {f"{TASKS[name].title} {TASKS[name].figures[0]}": [_value(parts, who, name, s) for s in options.seeds]
                   for name in options.tasks}  # fmt: skip
        figures["average"] = averages(parts, options)[who]
        rows += [
            row(NAMES[who], title, mean(values), n=len(values), spread=spread(values),
                recipe="labels/*", seeds=[int(seed) for seed in options.seeds], **where)
            for title, values in figures.items()
        ]  # fmt: skip
    return rows


def _where(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: facts[key] for key in ("hardware", "versions", "commit", "date")}


def _value(parts: Parts, who: str, name: str, seed: str) -> float:
    value: float = parts.read((who, name, seed))["figures"][TASKS[name].figures[0]]
    return value


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--who", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS), help="none: only pre-train")
    parser.add_argument("--seeds", nargs="+", default=["1", "2", "3"])
    parser.add_argument("--parts", type=Path, help="where parts are kept; results/parts/ablation")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="change fine-tuning, for all")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="how many parts at a time")
    parser.add_argument("--tiny", action="store_true", help="a few examples: does it run?")
    parser.add_argument("--collect", action="store_true", help="train nothing, put together what is there")
    parser.add_argument("--save", action="store_true", help="write results/ablation.json")
    options = parser.parse_args()
    options.parts = options.parts or folder_of("ablation", [*(["tiny"] if options.tiny else []), *options.set])
    return options


def _recipe_name(part: Part) -> str:
    return PRETRAINED[part[1]][0] if part[0] == "pretrain" else f"labels/{part[1]}"


def main() -> None:
    options = parsed()
    parts = Parts(options.parts, recipe=_recipe_name)
    backbones = sorted({CONTESTANTS[who][0] for who in options.who}, reverse=True)  # the LSTM, the slowest, first
    before: list[Part] = [("pretrain", backbone) for backbone in backbones]
    wanted: list[Part] = [(w, t, s) for t in options.tasks for s in options.seeds for w in options.who]

    def command(part: Part) -> list[str]:
        chosen = (
            ["--who", part[1], "--tasks"]
            if part[0] == "pretrain"
            else ["--who", part[0], "--tasks", part[1], "--seeds", part[2]]
        )
        places = ["--parts", str(options.parts), "--data-root", str(options.data_root), "--device", options.device]
        more = ["--set", *options.set] if options.set else []
        return [__file__, *chosen, *places, *(["--tiny"] if options.tiny else []), *more]

    if not options.collect:
        for stage in (before, wanted):
            parts.do(stage, lambda part: one(part, options), device=options.device, jobs=options.jobs, command=command)
    if not wanted:
        return
    missing = parts.missing(wanted)
    if missing:
        sys.exit(f"{len(missing)} parts are missing, the first is {'-'.join(missing[0])}")
    rows = rows_of(parts, options)
    for who, values in sorted(averages(parts, options).items(), key=lambda item: -mean(item[1])):
        figures = "  ".join(
            f"{TASKS[name].title} {mean([_value(parts, who, name, s) for s in options.seeds]):.2f}"
            for name in options.tasks
        )
        print(f"  {who:<14}average {mean(values):6.2f} ± {spread(values) or 0:<5}  {figures}")
    if options.save:
        print(f"saved {save('ablation', rows)}")
    print(json.dumps({who: mean(values) for who, values in averages(parts, options).items()}))


if __name__ == "__main__":
    main()
