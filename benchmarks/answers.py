"""SQuAD: a small pretrained encoder fine-tuned to answer by regard, beside transformers from the same weights.

    python benchmarks/answers.py --jobs 6 --save                  three seeds, three sides; parts are kept
    python benchmarks/answers.py --who ours --seeds 1             a part of it
    python benchmarks/answers.py --collect --save                 only put together what is there

Only SQuAD's development articles are at hand: four fifths of them, by questions, are learnt from, the others are asked
about. Windows, epochs and batches are those of the recipe answers/squad on all sides; the final weights count.
Ours reads every window twice (R-Drop) and scores the passage's tokens only; `alike` is ours with one reading, at the
peer's rate.

    python benchmarks/answers.py --choose --jobs 6                the rates of all sides, on articles that are neither
                                                                  learnt from nor reported; the peer's is kept
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from pathlib import Path

import torch

from answers_peer import fine_tune_answers
from chosen import chosen, keep
from glue import FINAL, trained
from parts import Figures, Part, Parts, folder_of, mean
from record import DATA, beside, row, save, spread
from regard.config.recipe import Recipe
from regard.config.training import TuningConfig
from regard.data.io.paths import find_data
from regard.tasks.answers.config import AnswerData
from regard.tasks.answers.data import AnswerFiles, QuestionSets
from regard.tasks.answers.metrics import answer_figures
from regard.tasks.answers.squad import read_squad, split_by_article
from regard.tasks.recipes import find_recipe, make_recipe

SIDES = ("ours", "alike", "peer")
SPLIT = (0.8, 0.2)
RATES = ("3e-5", "5e-5", "1e-4", "2e-4")
UNLIKE = {
    "ours": "ours reads each window twice a step (R-Drop) and scores the passage's tokens only",
    "alike": "ours scores the passage's tokens only",
}
FIGURES = ("f1", "exact")
TINY = ["train.epochs=1", "train.batch_examples=4", "train.warmup=2", "data.max_tokens=96", "data.overlap=32"]


def one(part: Part, options: argparse.Namespace) -> Figures:
    """Exact match and F1 of one side with one seed."""
    who, seed, *tried = part
    rate = [] if who == "ours" else chosen("answers", "peer").get("squad", "").split()
    rate = [f"train.lr={tried[0]}"] if tried else rate
    recipe = recipe_of(seed, options=options, more=[*(["train.r_drop=0"] if who == "alike" else []), *rate])
    found = peer(recipe, options) if who == "peer" else trained(recipe, options)
    return {figure: round(found[figure], 3) for figure in FIGURES}


def peer(recipe: Recipe, options: argparse.Namespace) -> Figures:
    """The other side: fine-tune it, and ask it."""
    assert isinstance(recipe.train, TuningConfig)
    sets: QuestionSets = AnswerFiles(recipe.data, options.data_root).read()
    said = fine_tune_answers(
        find_data(str(recipe.model["start"]), options.data_root),
        sets.train,
        sets.valid,
        data=recipe.data,
        config=recipe.train,
        options=recipe.decode,
        device=options.device,
    )
    return answer_figures(said, sets.valid)


def recipe_of(seed: str, *, options: argparse.Namespace, more: list[str]) -> Recipe:
    """The recipe, the same for all sides but for `more`; without test articles, for nothing is chosen."""
    table = find_recipe("answers/squad")
    if options.start:
        table["model"]["start"] = options.start
    settings = [f"train.seed={seed}", f"train.device={options.device}", f"data.split={list(SPLIT)}", *FINAL]
    if options.choose and not options.tiny:
        table["data"]["train"] = [str(_learnt_from(table["data"]["train"][0], options))]
    if options.tiny:
        table["data"]["train"] = [str(_few(table["data"]["train"][0], options))]
    return make_recipe(table, [*settings, *(TINY if options.tiny else []), *more, *options.set])


def _learnt_from(name: str, options: argparse.Namespace) -> Path:
    """A file of the articles that are learnt from where figures are reported; a part of them is chosen on."""
    place = Path(find_data(name, options.data_root))
    questions = read_squad(place)
    learnt, _ = split_by_article(questions, SPLIT, seed=AnswerData.model_fields["split_seed"].default)
    passages = {question.context for question in learnt}
    table = json.loads(gzip.decompress(place.read_bytes()))
    kept = [article for article in table["data"] if article["paragraphs"][0]["context"] in passages]
    path: Path = options.parts / f"learnt-from-{os.getpid()}.json"
    path.write_text(json.dumps({"data": kept}))
    return path


def _few(name: str, options: argparse.Namespace) -> Path:
    """A file with two questions of one passage of five articles."""
    table = json.loads(gzip.decompress(Path(find_data(name, options.data_root)).read_bytes()))
    for article in table["data"]:
        article["paragraphs"] = article["paragraphs"][:1]
        article["paragraphs"][0]["qas"] = article["paragraphs"][0]["qas"][:2]
    path: Path = options.parts / "few.json"
    path.write_text(json.dumps({"data": table["data"][:5]}))
    return path


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", default=["1", "2", "3"])
    parser.add_argument("--who", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--parts", type=Path, help="where parts are kept; results/parts/answers")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--start", help="the pretrained encoder, a Hugging Face folder, instead of the recipe's")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="change the recipe, for all sides")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="how many parts at a time")
    parser.add_argument("--tiny", action="store_true", help="a few questions: does it run?")
    parser.add_argument("--collect", action="store_true", help="train nothing, put together what is there")
    parser.add_argument("--choose", action="store_true", help="try rates on articles that are not reported")
    parser.add_argument("--rates", nargs="+", default=RATES, help="which to try")
    parser.add_argument("--save", action="store_true", help="write results/answers.json")
    options = parser.parse_args()
    options.parts = options.parts or folder_of("answers", [*(["tiny"] if options.tiny else []), *options.set])
    return options


def choose(parts: Parts, options: argparse.Namespace) -> None:
    """Print what each rate gave each side, and keep the peer's best."""
    found = {
        who: {rate: mean([parts.read((who, seed, rate))["figures"]["f1"] for seed in options.seeds])
              for rate in options.rates}
        for who in options.who
    }  # fmt: skip
    for who, rates in found.items():
        print(f"  {who:<6}" + "  ".join(f"{rate}: {value:.2f}" for rate, value in rates.items()))
    if "peer" in found and len(options.rates) > 1:
        keep("answers", "peer", {"squad": f"train.lr={max(found['peer'], key=found['peer'].__getitem__)}"})
    print(json.dumps(found))


def main() -> None:
    options = parsed()
    parts = Parts(options.parts, recipe=lambda _: "answers/squad")
    tried = [(rate,) for rate in options.rates] if options.choose else [()]
    wanted: list[Part] = [(who, seed, *t) for seed in options.seeds for who in options.who for t in tried]

    def command(part: Part) -> list[str]:
        more = [*(["--set", *options.set] if options.set else []), *(["--tiny"] if options.tiny else [])]
        start = ["--start", options.start] if options.start else []
        places = ["--parts", str(options.parts), "--data-root", str(options.data_root), "--device", options.device]
        trial = ["--choose", "--rates", part[2]] if options.choose else []
        return [__file__, "--who", part[0], "--seeds", part[1], *places, *start, *more, *trial]

    if not options.collect:
        parts.do(wanted, lambda part: one(part, options), device=options.device, jobs=options.jobs, command=command)
    missing = parts.missing(wanted)
    if missing:
        sys.exit(f"{len(missing)} parts are missing, the first is {'-'.join(missing[0])}")
    if options.choose:
        choose(parts, options)
        return
    rows = []
    for who in (side for side in ("ours", "alike") if side in options.who and "peer" in options.who):
        facts = {side: [parts.read((side, seed)) for seed in options.seeds] for side in (who, "peer")}
        where = {key: facts[who][0][key] for key in ("hardware", "versions", "commit", "date")}
        where |= {"inputs": parts.inputs([(side, seed) for side in facts for seed in options.seeds])}
        theirs_by = chosen("answers", "peer").get("squad", "the recipe's rate, not searched for it")
        where |= {"chosen_on": f"rates on other articles; peer: {theirs_by}", "unlike": UNLIKE[who]}
        for figure in FIGURES:
            ours, theirs = ([fact["figures"][figure] for fact in facts[side]] for side in (who, "peer"))
            title = "SQuAD, articles held out" + ("" if who == "ours" else ", set up as the peer")
            rows.append(
                row(title, figure, mean(ours), n=len(ours), spread=spread(ours), recipe="answers/squad",
                    peer="transformers, same weights", **beside(ours, theirs),
                    seeds=list(map(int, options.seeds)), **where)
            )  # fmt: skip
            print(f"  {title:<45}{figure:<8}{mean(ours):7.2f}  peer {mean(theirs):7.2f}")
    if options.save and rows:
        print(f"saved {save('answers', rows)}")
    print(json.dumps({"-".join(part): parts.read(part)["figures"] for part in wanted}))


if __name__ == "__main__":
    main()
