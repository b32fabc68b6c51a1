"""Write the tables of the pages with figures from results/*.json, between a comment and `<!-- end -->`.

    python benchmarks/tables.py [--check]

    <!-- table series -->                            all rows of results/series.json
    <!-- table series mse: dlinear, ridge -->        those of one metric, whose names begin with one of these
    <!-- grid captions: attend, mean -->             a line for each name that begins so, a column for each metric
    <!-- headlines -->                               the rows of `HEADLINES`, which the README shows

Below each table and grid stands where it comes from: the result file, and the commits that made the rows. A test runs
`render` on these pages and holds them to it, so a figure that is shown is always one that was recorded.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "reliability.md")
_TABLE = re.compile(
    r"(<!-- (?P<kind>table|grid) (?P<name>[\w-]+)(?P<metric> [\w-]+)?(?:: (?P<begins>[^>]*?))? -->\n).*?<!-- end -->",
    re.DOTALL,
)
_HEADLINES = re.compile(r"(<!-- headlines -->\n).*?<!-- end -->", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_SHOWN = 7  # characters of a commit
_SPEEDS = re.compile(
    r"\b(time|minutes|seconds?|speed|tokens/s|images/s|sentences/s|epochs|memory|p50|p95|p99|plan|all of it)\b"
)  # metrics that are measured of a machine, not of what was learnt


@dataclass(frozen=True)
class Headline:
    """A row that the README shows: by its file, name and metric, and in words for those who have not seen the file."""

    subject: str
    name: str
    metric: str
    what: str
    was: str = ""  # the row to show until the one of that name is measured


HEADLINES = (
    Headline("translation-speed", "train, cuda, beside nn.Transformer compiled", "target tokens/s",
             "Train a Transformer base, bf16"),
    Headline("translation-speed", "beam 5, batch 16 fp32, cpu, CTranslate2", "speed",
             "Translate with a Transformer base on two cores, fp32, beam 5", was="beam 5, batch 16 fp32, cpu, Marian"),
    Headline("serving", "32 users, over CTranslate2 behind a collector", "speed",
             "Serve a Transformer base in int8 to 32 users, two cores"),
    Headline("language", "train GPT-2 124M, regard without biases", "tokens/s", "Train GPT-2 124M",
             was="train GPT-2 124M, regard"),
    Headline("multi30k", "Transformer tiny, test 2016", "BLEU, lower-cased Moses tokens",
             "Multi30k English → German, Transformer tiny"),
    Headline("language", "tiny Shakespeare, characters, cuda", "validation loss", "Tiny Shakespeare by characters"),
    Headline("answers", "SQuAD, articles held out", "f1", "Fine-tune a MiniLM on SQuAD's development articles"),
    Headline("images", "CIFAR-10 from scratch, residual stem and Transformer, 7.8M", "test accuracy",
             "CIFAR-10 from scratch, 7.8M parameters, 110 epochs"),
    Headline("speech", "speech Transformer, test takes, beam 5 with alignment", "WER", "Strings of spoken digits"),
    Headline("series", "patch-forecaster, ETTh1, 96 steps", "mse", "ETTh1, the next 96 hours"),
)  # fmt: skip


def render(text: str, *, results: Path | None = None, headlines: tuple[Headline, ...] = HEADLINES) -> str:
    """The text with every table replaced by what the result files say now."""
    folder = results or ROOT / "results"

    def fresh(asked: re.Match[str]) -> str:
        if not (folder / f"{asked['name']}.json").exists():
            return asked[1] + "*Not measured yet: `make results`.*\n<!-- end -->"
        rows = _rows(folder / f"{asked['name']}.json", asked)
        lines = _grid(rows) if asked["kind"] == "grid" else _list(rows)
        return asked[1] + "\n".join([*lines, "", _source(asked["name"], rows)]) + "\n<!-- end -->"

    def chosen(asked: re.Match[str]) -> str:
        return asked[1] + "\n".join(_headlines(folder, headlines)) + "\n<!-- end -->"

    return _HEADLINES.sub(chosen, _TABLE.sub(fresh, text))


def _rows(path: Path, asked: re.Match[str]) -> list[dict[str, Any]]:
    rows = json.loads(path.read_text())["rows"]
    if asked["metric"]:
        rows = [r for r in rows if r["metric"] == asked["metric"].strip()]
    if asked["begins"]:
        begins = tuple(begin.strip() for begin in asked["begins"].split(","))
        rows = [r for r in rows if r["name"].startswith(begins)]
    return rows


def _list(rows: list[dict[str, Any]]) -> list[str]:
    """A line a row; what was chosen on which data has a column where any of them was chosen."""
    chosen = any(r.get("chosen_on") for r in rows)
    heads = ["what", "figure", "against", *(["chosen on"] if chosen else []), "machine"]
    lines = [
        [r["name"], _figure(r), _peer(r), *([r.get("chosen_on") or "–"] if chosen else []), r["hardware"]] for r in rows
    ]
    head, *body = (f"| {' | '.join(line)} |" for line in (heads, *lines))
    return [head, "|---" * len(heads) + "|", *body]


def _grid(rows: list[dict[str, Any]]) -> list[str]:
    """Names down, metrics across; a peer that rows were measured against has a line of its own."""
    metrics = list(dict.fromkeys(r["metric"] for r in rows))
    cells: dict[str, dict[str, str]] = {}
    for r in rows:
        cells.setdefault(r["name"], {})[r["metric"]] = f"{_number(r['value'])}{_spread(r)}{_alone(r)}"
    for r in rows:
        if r["peer"] is not None:
            cells.setdefault(r["peer"], {})[r["metric"]] = _number(r["peer_value"])
    lines = [f"| {' | '.join([name, *(found.get(metric, '–') for metric in metrics)])} |"
             for name, found in cells.items()]  # fmt: skip
    return [f"| {' | '.join(['', *metrics])} |", "|---" * (1 + len(metrics)) + "|", *lines]


def _headlines(folder: Path, headlines: tuple[Headline, ...]) -> list[str]:
    """The chosen rows; each leads to its subject's section of the results page."""
    lines = []
    for headline in headlines:
        rows = json.loads((folder / f"{headline.subject}.json").read_text())["rows"]
        by_name = {n: [r for r in rows if (r["name"], r["metric"]) == (n, headline.metric)]
                   for n in (headline.name, headline.was)}  # fmt: skip
        found = by_name[headline.name] or by_name[headline.was]
        if len(found) != 1:
            raise ValueError(f"results/{headline.subject}.json has {len(found)} rows {headline.name!r} of "
                             f"{headline.metric!r}; HEADLINES needs one")  # fmt: skip
        link = f"[{headline.what}](docs/results.md#{headline.subject})"
        lines.append(f"| {link} | {_figure(found[0])} | {_peer(found[0])} | {found[0]['hardware']} |")
    return ["| what | figure | against | machine |", "|---|---|---|---|", *lines]


def _source(subject: str, rows: list[dict[str, Any]]) -> str:
    """Where recipe, command, seeds and versions of these rows are kept, and by which code they were made."""
    commits = dict.fromkeys(_COMMIT.sub(lambda found: found[0][:_SHOWN], r["commit"]) for r in rows)
    return f"*[results/{subject}.json](../results/{subject}.json), by {'; '.join(commits)}*"


def _spread(r: dict[str, Any]) -> str:
    """The standard deviation over seeds, or the lowest and the highest of several rounds."""
    if isinstance(r["spread"], list):
        return f" ({_number(min(r['spread']))} to {_number(max(r['spread']))})"
    return f" ± {r['spread']:.2g}" if r["spread"] is not None else ""


def is_quality(r: dict[str, Any]) -> bool:
    """Whether a figure is of what a model learnt, wherever that was, and not of a machine."""
    return bool(r.get("recipe")) and not _SPEEDS.search(r["metric"])


def rests_on_one_seed(r: dict[str, Any]) -> bool:
    """Whether a trained model's quality could have come out otherwise with another seed, and nobody tried."""
    return is_quality(r) and not r.get("deterministic") and len(r.get("seeds") or [0]) == 1


def _alone(r: dict[str, Any]) -> str:
    return ", one seed" if rests_on_one_seed(r) else ""


def _figure(r: dict[str, Any]) -> str:
    return f"{r['metric']} **{_number(r['value'])}**{_spread(r)} {r['unit'] or ''}".strip() + _alone(r)


def _peer(r: dict[str, Any]) -> str:
    """Who stands beside, with what, and what differs besides the software."""
    if r["peer"] is None:
        return "–"
    said: str = r["peer"]
    if r["unit"] != "×" and r["peer_value"] is not None:
        said = f"{said}: {_number(r['peer_value'])}{_spread({'spread': r.get('peer_spread')})}"
    notes = [note for note in (r.get("verdict"), r.get("unlike")) if note and note not in ("above", "below")]
    return f"{said} (*{'; '.join(notes)}*)" if notes else said


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> None:
    for path in PAGES:
        text = path.read_text()
        fresh = render(text)
        if "--check" not in sys.argv:
            path.write_text(fresh)
        elif fresh != text:
            sys.exit(f"{path.relative_to(ROOT)}: tables differ from results/; run `make tables`")


if __name__ == "__main__":
    main()
