"""The first command on a file of one's own: `regard train TASK --train FILE`, no settings, on two cores.

    python benchmarks/first_commands.py                 every case, whole and with a tenth of its data
    python benchmarks/first_commands.py trec images --whole --save

Each case is trained by the command line as a stranger would type it. The table says what came out on the test set,
what costs next to nothing on the same (`beside`), how long the whole command took, how long the plan said it would
take, and how long it took from then on: a plan is good if these two are within a factor of 1.5. The last line is JSON.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from record import DATA, row, save, spread
from regard.data.synthetic.digits import DigitStrings, Recordings
from regard.metrics.scores import bleu
from weights import MINILM, fetch

PLANNED = re.compile(r"about ([\d.]+) (s|min|hours|days) on this")
SECONDS = {"s": 1, "min": 60, "hours": 3600, "days": 86400}
TENTH = 10


@dataclass(frozen=True)
class Case:
    """A first command: its data, made in a folder, every n-th example of them; the arguments; figure and aim."""

    words: Callable[[Path, int], Sequence[str]]
    figure: tuple[str, str]  # test set, metric
    aim: float
    minutes: float
    less: bool = False
    score: Callable[[Path], float] | None = None  # what the aim is measured in, where the run does not say it

    def reached(self, value: float) -> bool:
        """Whether a figure is what is asked for."""
        return value <= self.aim if self.less else value >= self.aim


def trec(folder: Path, every: int) -> list[str]:
    """Questions of six classes, one a line as the corpus has them."""
    made = folder / "trec"
    made.mkdir()
    lines = (DATA / "trec" / "train.txt").read_bytes().splitlines(keepends=True)
    (made / "train.txt").write_bytes(b"".join(lines[::every]))
    (made / "test.txt").write_bytes((DATA / "trec" / "test.txt").read_bytes())
    return ["labels", "--train", str(made)]


def trec_start(folder: Path, every: int) -> list[str]:
    """The same on a small pretrained encoder."""
    return [*trec(folder, every), f"model.start={fetch(MINILM)}"]


def multi30k(folder: Path, every: int) -> list[str]:
    """English and German captions, two parallel files."""
    files = {name: [] for name in ("train", "val", "test_2016_flickr")}  # type: dict[str, list[str]]
    for name, made in files.items():
        n = every if name == "train" else max(1, every // TENTH)  # what is tested on stays whole, but for small cuts
        for side in ("en", "de"):
            with gzip.open(DATA / "multi30k" / f"{name}.{side}.gz", "rt", encoding="utf-8") as file:
                (folder / f"{name}.{side}").write_text("".join(file.readlines()[::n]), encoding="utf-8")
            made.append(str(folder / f"{name}.{side}"))
    sides, valid, test = files["train"], files["val"], json.dumps(files["test_2016_flickr"])
    return ["translation", "--train", *sides, "--valid", *valid, f"data.test.flickr={test}", "--minutes", "20"]


def lower_cased(folder: Path) -> float:
    """BLEU of the test captions, both sides lower-cased, as the aim is measured; the model knows nothing of it."""
    source, made = folder / "test_2016_flickr.en", folder / "translated.txt"
    words = ["predict", str(folder / "run"), "--input", str(source), "--out", str(made)]
    subprocess.run([sys.executable, "-m", "regard", *words], check=True, capture_output=True)
    hypotheses, references = (
        path.read_text(encoding="utf-8").splitlines() for path in (made, folder / "test_2016_flickr.de")
    )
    return bleu(hypotheses, references, tokenize="13a", lowercase=True, language=None).value


def etth1(folder: Path, every: int) -> list[str]:
    """Seven hourly series, by the split that papers use; a tenth is the last tenth of the time before the test."""
    with gzip.open(DATA / "ett" / "ETTh1.csv.gz", "rt", encoding="utf-8") as file:
        header, *rows = file.readlines()
    parts = [8640 // every, max(192, 2880 // every), 2880 // (1 if every <= TENTH else every // TENTH)]
    begin = 11_520 - parts[0] - parts[1]
    (folder / "ETTh1.csv").write_text("".join([header, *rows[begin : 11_520 + parts[2]]]), encoding="utf-8")
    return ["series", "--train", str(folder / "ETTh1.csv"), "data.horizon=96", f"data.split={parts}"]


def digits(folder: Path, every: int) -> list[str]:
    """Strings of spoken digits as WAV files and a table; nobody in the test set was heard saying these digits."""
    recordings = Recordings.read(DATA / "fsdd" / "fsdd.tar.gz", rate=8000)
    others = sorted(set(recordings.speakers) - {"theo"})
    for part, takes, n, seed in (
        ("train", (10, 10**6), 4000 // every, 0),
        ("test", (0, 5), 3000 // max(TENTH, every), 2),
    ):
        strings = DigitStrings(recordings.part(speakers=others, takes=takes), n, seed)
        (folder / part).mkdir()
        with (folder / f"{part}.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["audio", "text"])
            for i in range(n):
                name = f"{part}/{i:05d}.wav"
                write_wav(folder / name, strings.samples(i), 8000)
                table.writerow([name, strings.texts[i]])
    test = f'data.test.test=["{folder / "test.csv"}"]'
    return ["speech", "--train", str(folder / "train.csv"), test, "--minutes", "15"]


def images(folder: Path, every: int) -> list[str]:
    """A thousand images of each of CIFAR's first two classes, as a folder of class folders."""
    with tarfile.open(DATA / "cifar10" / "cifar10_jpg.tar.gz") as archive:
        for member in archive:
            part, _, rest = member.name.partition("/")
            label, _, name = rest.partition("/")
            if label not in ("airplane", "automobile") or not member.isfile():
                continue
            number = int(name.partition(".")[0])
            if part == "test" or (number < 1000 and number % every == 0):
                path = folder / "planes" / part / label / name
                path.parent.mkdir(parents=True, exist_ok=True)
                file = archive.extractfile(member)
                assert file is not None
                path.write_bytes(file.read())
    return ["images", "--train", str(folder / "planes")]


CASES = {
    "trec": Case(trec, ("test", "accuracy"), 0.88, 4),
    "trec-start": Case(trec_start, ("test", "accuracy"), 0.95, 6),
    "multi30k": Case(multi30k, ("flickr", "bleu"), 28.0, 20, score=lower_cased),
    "etth1": Case(etth1, ("test", "mse"), 0.375, 5, less=True),
    "digits": Case(digits, ("test", "WER"), 10.0, 15, less=True),
    "images": Case(images, ("test", "accuracy"), 0.80, 3),
}


def write_wav(path: Path, samples: np.ndarray[Any, Any], rate: int) -> None:
    """Samples from −1 to 1 as a file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes())


def one(name: str, every: int, runs: Path, *, seed: int = 1) -> dict[str, Any]:
    """Train a case by its command: what came out, and how long it took."""
    case, folder = CASES[name], runs / (name if every == 1 else f"{name}-tenth")
    folder.mkdir(parents=True)
    words = [*case.words(folder, every), "--out", str(folder / "run"), *([f"train.seed={seed}"] if seed > 1 else [])]
    code, said, seconds = _told([sys.executable, "-m", "regard", "train", *words])
    if code:
        return {"case": folder.name, "failed": said[-1][1].strip()}
    part, key = case.figure
    facts = json.loads((folder / "run" / "run.json").read_text())
    metrics = facts["metrics"][part]
    beside = {name: value["value"] for name, value in metrics.items() if name.endswith(f" {key}")}
    simple = {label: round(value, 4) for label, value in facts.get("baselines", {}).get(part, beside).items()}
    when, promised = next((at, found) for at, line in said if (found := PLANNED.search(line)))
    value = metrics[key]["value"] if case.score is None else case.score(folder)
    verdicts = [line.strip() for _, line in said if line.startswith(f"{part}: no")]
    return {
        "case": folder.name,
        "figure": key if case.score is None else f"{case.score.__name__.replace('_', '-')} {key}",
        "value": round(value, 4),
        "reached": case.reached(value) and seconds <= 60 * case.minutes if every == 1 else None,
        "beside": simple,
        "verdict": verdicts[0] if verdicts else "better",
        "minutes": round(seconds / 60, 2),
        "planned minutes": round(float(promised[1]) * SECONDS[promised[2]] / 60, 2),
        "then took": round((seconds - when) / 60, 2),
    }


def _told(words: Sequence[str]) -> tuple[int, list[tuple[float, str]], float]:
    """Run a command: its exit code, the lines it says with the seconds when each came, and how long it took."""
    began, said = time.monotonic(), []
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append((time.monotonic() - began, line))
    return process.returncode, said, time.monotonic() - began


def main() -> None:
    """Run the cases, print a table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--whole", action="store_true", help="only with all data")
    parser.add_argument("--tenth", action="store_true", help="only with a tenth of the data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="train.seed; 1 is the command without it")
    parser.add_argument("--runs", type=Path, default=Path("runs/first-commands"), help="where runs are kept")
    parser.add_argument("--save", action="store_true", help="write results/first_commands.json")
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"no case is called {sorted(unknown)[0]}; there are {', '.join(CASES)}")
    parts = [1] * (not options.tenth) + [TENTH] * (not options.whole)
    runs = options.runs / time.strftime("%Y%m%d-%H%M%S")
    told = []
    for name in options.cases or CASES:
        for every in parts:
            for seed in options.seeds:
                found = one(name, every, runs / f"seed-{seed}", seed=seed)
                told.append(found)
                print(f"seed {seed}  " + "  ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    if options.save:
        save("first_commands", rows_of(told, options.seeds))
    print(json.dumps(told))


def rows_of(told: Sequence[dict[str, Any]], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Result rows, means over seeds: the figure beside the best of what costs next to nothing, and the minutes."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for found in told:
        cases.setdefault(found["case"], []).append(found)
    rows = []
    for what, several in cases.items():
        if any("failed" in found for found in several):
            continue
        first, case = several[0], CASES[what.removesuffix("-tenth")]
        name, best = f"first command, {what}, two cores", min if case.less else max
        peer = best(first["beside"].items(), key=lambda item: item[1], default=(None, None))
        how: dict[str, Any] = {"seeds": list(seeds), "n": len(several), "recipe": "no settings"}
        how["chosen_on"] = "by the plan, from the training data"

        def mean(key: str, several: list[dict[str, Any]] = several) -> tuple[float, float | None]:
            values = [found[key] for found in several]
            return round(sum(values) / len(values), 4), spread(values)

        value, apart = mean("value")
        rows.append(row(name, first["figure"], value, spread=apart, peer=peer[0], peer_value=peer[1], **how))
        value, apart = mean("minutes")
        rows.append(row(name, "all of it", value, spread=apart, unit="minutes", **how))
        value, apart = mean("then took")
        planned = {"peer": "the plan", "peer_value": first["planned minutes"]}
        rows.append(row(name, "from the plan to the end", value, spread=apart, unit="minutes", **how, **planned))
    return rows


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
