"""The pages, the pictures and the verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from regard.errors import UsageError
from regard.exhibits import gallery, shift
from regard.exhibits.exhibit import Exhibit, Finding, Scale
from regard.exhibits.phrases import Phrasebook, is_sentence, sentences
from regard.inspection.plots.panels import Bars, Heat, Line, Lines, Points, draw_panels

DOCS = Path(__file__).parents[2] / "docs" / "exhibits"


@pytest.fixture
def two_exhibits(monkeypatch):
    """Only what takes no time."""
    finding = Finding({"answer": 42}, "It is so.", [Bars("One", {"a": 1.0}, "x")], "Title")
    made = Exhibit("made", "A made-up one", "It claims this.", lambda scale: finding)
    chosen = {
        "shift": Exhibit("shift", "Shifts", "It shifts.", lambda scale: shift.run(Scale(small=True))),
        "made": made,
    }
    monkeypatch.setattr(gallery, "EXHIBITS", chosen)
    return chosen


def test_the_verb_lists_names_and_titles(command):
    answer = command("exhibits")
    assert answer.code == 0
    lines = dict(line.split(maxsplit=1) for line in answer.out.splitlines())
    assert lines == {name: exhibit.title for name, exhibit in gallery.EXHIBITS.items()}
    rows = [json.loads(line) for line in command("exhibits", "--json").out.splitlines()]
    assert [row["name"] for row in rows] == list(gallery.EXHIBITS)
    assert all(row["claim"] == gallery.EXHIBITS[row["name"]].claim for row in rows)


def test_the_verb_runs_one(command, two_exhibits, tmp_path):
    answer = command("exhibits", "made", "--out", tmp_path)
    assert (answer.code, answer.out) == (0, "answer\t42\n")
    assert "It claims this." in answer.err
    assert (tmp_path / "made.png").exists()
    page = (tmp_path / "made.md").read_text()
    assert "# A made-up one" in page
    assert "It is so." in page
    assert "| answer | 42 |" in page
    found = json.loads(command("exhibits", "shift", "--json", "--out", tmp_path).out)
    assert found["figures"]["width"] == 64
    assert Path(found["picture"]).exists()


def test_the_verb_runs_all_and_writes_an_index(command, two_exhibits, tmp_path):
    answer = command("exhibits", "--all", "--out", tmp_path)
    assert answer.code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "README.md", "made.md", "made.png", "shift.md", "shift.png"
    }  # fmt: skip
    index = (tmp_path / "README.md").read_text()
    assert "[A made-up one](made.md) | It claims this. | `made`" in index


def test_the_verb_says_what_is_wrong(command):
    answer = command("exhibits", "shfit")
    assert answer.code == 2
    assert answer.err.startswith("error: no exhibit is called 'shfit'; there are averaging, ")
    assert "hint: did you mean shift?" in answer.err
    assert command("exhibits", "qqqqqq").err.endswith("hint: regard exhibits lists them\n")
    both = command("exhibits", "shift", "--all")
    assert both.code == 2
    assert both.err.startswith("error: both --all and the name 'shift' were given")


def test_the_docs_have_a_page_and_a_picture_of_each():
    names = {path.name for path in DOCS.iterdir()}
    assert names == {"README.md"} | {f"{n}.{kind}" for n in gallery.EXHIBITS for kind in ("md", "png")}
    for name, exhibit in gallery.EXHIBITS.items():
        page = (DOCS / f"{name}.md").read_text()
        assert exhibit.claim in page
        assert exhibit.title in page
        assert (DOCS / f"{name}.png").stat().st_size <= 120_000


def test_index_in_docs_is_the_one_made_now(tmp_path):
    assert gallery.write_index(tmp_path).read_text() == (DOCS / "README.md").read_text()


def test_figures_are_readable():
    assert [gallery.figure(x) for x in (42, 187506.0, 0.25, 1e-14, 9.5167e17, 63082496, 12345.6)] == [
        "42", "187,506", "0.25", "1e-14", "9.52e+17", "63,082,496", "12,346"
    ]  # fmt: skip


def test_every_kind_of_panel_is_drawn(tmp_path):
    lines = Lines(
        "a", [Line("up", [1, 2], [1, 10]), Line("dots", [1, 2], [2, 3], look=1, dots=True)], "x", "y", log="y"
    )
    heat = Heat("c", [[0.1, 1.0]], rows=["r"], columns=["$x", "y"], texts=[["0.1", "1"]], marks=[(0, 1)], unit="w")
    points = Points("d", {"one": ([0, 1], [0, 1])}, "x", "y")
    path = draw_panels(
        [lines, Bars("b", {"p": 1, "q": 2}, "n", ["p"], log=True), heat, points], tmp_path / "p.png", title="T"
    )
    image = Image.open(path).convert("RGB")
    assert image.width == 1440
    quarters = [(x, y, x + image.width // 2, y + image.height // 2) for y in (0, image.height // 2)
                for x in (0, image.width // 2)]  # fmt: skip
    for box in quarters:
        colours = image.crop(box).getcolors(1 << 20)
        assert sum(count for count, (r, g, b) in colours if b > r + 60) > 500, "each panel shows the accent"
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_panels([], tmp_path / "q.png", title="T")


def test_the_little_language_knows_its_own():
    texts = sentences(300, seed=5)
    assert all(map(is_sentence, texts))
    assert texts == sentences(300, seed=5)
    assert texts != sentences(300, seed=6)
    for wrong in (
        "the dog see a cat .", "the dogs sees a cat .", "a dogs see a cat .", "the dog sees .", "the dog runs a cat .",
        "the dog near the tree see a cat .", "the dog sees a cat", "dog sees a cat .", "", "the tree sees a cat .",
    ):  # fmt: skip
        assert not is_sentence(wrong), wrong


def test_a_phrasebook_frames_and_pads():
    book = Phrasebook.of(["a b", "a"])
    words = book.tokenizer
    assert book.ids.tolist() == [
        [words.bos_id, *words.encode("a b"), words.eos_id],
        [words.bos_id, *words.encode("a"), words.eos_id, words.pad_id],
    ]
    assert book.lengths.tolist() == [4, 3]
