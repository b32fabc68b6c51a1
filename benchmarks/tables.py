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


@dataclass(frozen=True)
class Headline:
    """A row that the README shows: by its file, name and metric, and in words for those who have not seen the file."""

    subject: str
    name: str
    metric: str
    what: str


HEADLINES = (
    Headline("translation-speed", "train, cuda, beside nn.Transformer compiled", "target tokens/s",
             "Train a Transformer base, bf16"),
    Headline("translation-speed", "beam 5, batch 16 fp32, cpu, Marian", "speed",
             "Translate with a Transformer base, fp32, beam 5 (the Marian of transformers)"),
    Headline("language", "train GPT-2 124M, regard", "tokens/s", "Train GPT-2 124M"),
    Headline("multi30k", "Transformer tiny, taught by four, test 2016", "BLEU, lower-cased Moses tokens",
             "Multi30k English → German, Transformer tiny taught by four"),
    Headline("language", "tiny Shakespeare, characters, cuda", "validation loss", "Tiny Shakespeare by characters"),
    Headline("answers", "SQuAD, articles held out", "f1", "Fine-tune a MiniLM on SQuAD's development articles"),
    Headline("images", "CIFAR-10 from scratch, residual stem and Transformer, 7.8M", "test accuracy",
             "CIFAR-10 from scratch, 7.8M parameters, 110 epochs"),
    Headline("speech", "speech Transformer, test takes, beam 5 with alignment", "WER", "Strings of spoken digits"),
    Headline("series", "patch-forecaster, ETTh1, 96 steps", "mse", "ETTh1, the next 96 hours"),
    Headline("words", "word vectors, text8 6.9M, gensim at rate 0.05", "WordSim-353", "Word vectors from text8"),
)  # fmt: skip


def render(text: str, *, results: Path | None = None, headlines: tuple[Headline, ...] = HEADLINES) -> str:
    """The text with every table replaced by what the result files say now."""
    folder = results or ROOT / "results"

    def fresh(asked: re.Match[str]) -> str:
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
    lines = [f"| {r['name']} | {_figure(r)} | {_peer(r)} | {r['hardware']} |" for r in rows]
    return ["| what | figure | against | machine |", "|---|---|---|---|", *lines]


def _grid(rows: list[dict[str, Any]]) -> list[str]:
    """Names down, metrics across; a peer that rows were measured against has a line of its own."""
    metrics = list(dict.fromkeys(r["metric"] for r in rows))
    cells: dict[str, dict[str, str]] = {}
    for r in rows:
        cells.setdefault(r["name"], {})[r["metric"]] = f"{_number(r['value'])}{_spread(r)}"
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
        found = [r for r in rows if (r["name"], r["metric"]) == (headline.name, headline.metric)]
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


def _figure(r: dict[str, Any]) -> str:
    return f"{r['metric']} **{_number(r['value'])}**{_spread(r)} {r['unit'] or ''}".strip()


def _peer(r: dict[str, Any]) -> str:
    if r["peer"] is None:
        return "–"
    return r["peer"] if r["unit"] == "×" else f"{r['peer']}: {_number(r['peer_value'])}"


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
