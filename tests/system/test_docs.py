"""README and docs tell the truth: tables are the recorded ones, links lead somewhere, names exist, commands parse."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
SEPARATORS = {"&&", "||", ";", "|", "&"}
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("tables")


def row(name: str, metric: str, value: float, **more: object) -> dict[str, object]:
    facts: dict[str, object] = dict.fromkeys(("unit", "spread", "peer", "peer_value"))
    facts |= {"name": name, "metric": metric, "value": value, "hardware": "a machine", "commit": "abcdef0"}
    return facts | more


def blocks(text: str, language: str = "") -> list[str]:
    """What stands between fences of one language."""
    return [block for said, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if said == language]


def commands(text: str) -> list[list[str]]:
    """The `regard` commands of a page's blocks, as a shell would cut them."""
    found = []
    for block in blocks(text):
        for line in block.replace("\\\n", " ").splitlines():
            if not re.search(r"\bregard ", line):
                continue
            words: list[str] = []
            for word in [*_words(line), ";"]:
                if word not in SEPARATORS:
                    words.append(word)
                    continue
                while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # REGARD_DATA=… before a command
                    words.pop(0)
                if words[:1] == ["regard"]:
                    found.append(_before_redirection(words[1:]))
                words = []
    return found


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(lexer)


def _before_redirection(words: list[str]) -> list[str]:
    at = next((i for i, word in enumerate(words) if word in ("<", ">")), len(words))
    return words[:at]


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can name, as GitHub calls them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_can_be_read_in_one_go():
    assert len(README.read_text().splitlines()) <= 200


def test_tables_are_the_recorded_results(tables):
    assert "<!-- headlines" in README.read_text()
    assert "<!-- table" in (ROOT / "docs" / "results.md").read_text()
    for page in tables.PAGES:
        assert tables.render(page.read_text()) == page.read_text(), f"{page.name}: run `make tables`"


def test_the_pages_leave_no_result_file_out(tables):
    shown = {name for page in tables.PAGES for name in re.findall(r"<!-- (?:table|grid) ([\w-]+)", page.read_text())}
    assert shown >= {path.stem for path in (ROOT / "results").glob("*.json")}


def test_a_table_may_show_rows_of_one_metric_by_their_names(tmp_path, tables):
    rows = [row(name, metric, 0.5) for name in ("one, far", "two, far", "another") for metric in ("mse", "mae")]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    text = tables.render("<!-- table some mse: one, anoth -->\n<!-- end -->", results=tmp_path)
    assert [line.split(" | ")[0] for line in text.splitlines()[3:-3]] == ["| one, far", "| another"]
    assert len(tables.render("<!-- table some -->\n<!-- end -->", results=tmp_path).splitlines()) == 2 + 2 + 6 + 2


def test_below_a_table_stand_its_file_and_the_commits_of_its_rows(tmp_path, tables):
    commits = ("0123456789abcdef0123456789abcdef01234567", "fedcba9, with changes", "fedcba9, with changes")
    rows = [row(f"{i}", "time", 1.0, commit=commit) for i, commit in enumerate(commits)]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    text = tables.render("<!-- table some -->\n<!-- end -->", results=tmp_path)
    assert text.splitlines()[-2] == "*[results/some.json](../results/some.json), by 0123456; fedcba9, with changes*"


def test_a_grid_has_a_line_for_each_name_and_peer_and_a_column_for_each_metric(tmp_path, tables):
    rows = [row("with", "BLEU", 30.0, spread=1.5, peer="others", peer_value=40.0), row("with", "CIDEr", 50.0),
            row("without", "BLEU", 20.0), row("else", "time", 1.0)]  # fmt: skip
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    text = tables.render("<!-- grid some: with -->\n<!-- end -->", results=tmp_path)
    assert text.splitlines()[1:-3] == [
        "|  | BLEU | CIDEr |",
        "|---|---|---|",
        "| with | 30 ± 1.5 | 50 |",
        "| without | 20 | – |",
        "| others | 40 | – |",
    ]


def test_a_spread_may_be_a_range(tmp_path, tables):
    (tmp_path / "some.json").write_text(json.dumps({"rows": [row("a", "time", 1.5, spread=[2.0, 1.0])]}))
    assert "time **1.5** (1 to 2)" in tables.render("<!-- table some -->\n<!-- end -->", results=tmp_path)


def test_headlines_are_chosen_rows_in_words_and_a_row_that_is_gone_is_named(tmp_path, tables):
    rows = [row("a", "WER", 2.5, unit="%", peer="them", peer_value=3.0), row("b", "WER", 9.0)]
    (tmp_path / "speech.json").write_text(json.dumps({"rows": rows}))
    asked = "<!-- headlines -->\n<!-- end -->"
    chosen = (tables.Headline("speech", "a", "WER", "Write down speech"),)
    told = tables.render(asked, results=tmp_path, headlines=chosen).splitlines()
    assert told[3:-1] == ["| [Write down speech](docs/results.md#speech) | WER **2.5** % | them: 3 | a machine |"]
    gone = (tables.Headline("speech", "c", "WER", "Write down speech"),)
    with pytest.raises(ValueError, match=r"speech\.json has 0 rows 'c' of 'WER'"):
        tables.render(asked, results=tmp_path, headlines=gone)


@each_page
def test_links_and_pictures_lead_somewhere(page):
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if "://" not in target]
    for target in targets:
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target
    assert page != README or any(target.endswith(".png") for target in targets), "the README shows a picture"


def test_the_readme_leads_to_every_page():
    targets = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)[)#]", README.read_text())}
    missing = [page.name for page in PAGES if page != README and page not in targets]
    assert not missing


@each_page
def test_modules_and_names_that_are_mentioned_exist(page):
    text = page.read_text()
    mentioned = set(re.findall(r"\bregard(?:\.[A-Za-z_]\w*)+", text))
    for module, names in re.findall(r"^from (regard[\w.]*) import (.+)$", text, re.MULTILINE):
        mentioned |= {f"{module}.{name.strip()}" for name in names.split(",")}
    for name in sorted(mentioned):
        _resolve(name)


def _resolve(dotted: str) -> object:
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise AssertionError(dotted)


@each_page
def test_files_that_are_mentioned_exist(page):
    named = re.findall(r"`((?:src|tests|benchmarks|docs|results|recipes)/[\w./-]*\w/?)`", page.read_text())
    named += re.findall(r"\b(benchmarks/\w+\.py)\b", page.read_text())
    missing = sorted({path for path in named if not (ROOT / path).exists()})
    assert not missing


def test_the_tree_names_every_room_and_no_other():
    tree = next(block for block in blocks(README.read_text()) if block.startswith("src/regard/"))
    named = set(re.findall(r"^  ([\w.]+)/?\s", tree, re.MULTILINE))
    package = ROOT / "src" / "regard"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    assert named == rooms | {"errors.py"}


@each_page
def test_python_that_is_shown_is_python(page):
    for block in blocks(page.read_text(), "python"):
        compile(block, str(page), "exec")


@each_page
def test_commands_that_are_shown_parse_and_their_settings_exist(page):
    """As typer parses them; what `train` is told has to make a recipe."""
    from regard.cli.main import app
    from regard.tasks.recipes import find_recipe, make_recipe

    top = typer.main.get_command(app)
    for words in commands(page.read_text()):
        verb, command, rest = top.resolve_command(top.make_context("regard", list(words)), list(words))
        given = command.make_context(verb, list(rest)).params
        if verb == "train" and "=" not in (given["recipe"] or "="):
            files = {"train": given["train_files"] or [], "valid": given["valid_files"] or []}
            table = find_recipe(given["recipe"])
            data = dict(table.get("data", {})) | {name: value for name, value in files.items() if value}
            make_recipe(table | {"data": data}, given["overrides"] or [])


def test_the_readme_shows_every_task():
    trained = {words[1] for words in commands(README.read_text()) if words[0] == "train"}
    assert trained == {path.parent.name for path in (ROOT / "src" / "regard" / "tasks").glob("*/predictor.py")}


def test_wrong_commands_would_be_found():
    """The checks above see what they are there to see."""
    text = "```\nA=b regard train x --out y  # why\nregard predict a 'b c' > d && regard look e \\\n    f\n```\n"
    assert commands(text) == [["train", "x", "--out", "y"], ["predict", "a", "b c"], ["look", "e", "f"]]
    with pytest.raises(AttributeError, match="nowhere"):
        _resolve("regard.attention.nowhere")
