"""Labelled texts from files: layouts that are known, columns that are named, and bad rows called by their place."""

import gzip
import json
import re
from pathlib import Path

import pytest

from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example, LabelSource, read_examples
from regard.errors import CheckpointError, DataError, UsageError

LAYOUTS = {
    "CoLA": ("gj04\t1\t\tHe said \"so.\ngj04\t0\t*\tSo \"he.\n", ["He said \"so.", "So \"he."], None, ["1", "0"]),
    "SST-2": ("sentence\tlabel\nit 's \" good \t1\nbad\t0\n", ["it 's \" good ", "bad"], None, ["1", "0"]),
    "MRPC": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\t\" A .\tB .\n0\t7\t8\tC\tD\n",
        ["\" A .", "C"],
        ["B .", "D"],
        ["1", "0"],
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n1\tC\tD\tnot_entailment\n",
        ["A", "C"],
        ["B", "D"],
        ["entailment", "not_entailment"],
    ),
    "STS-B": (
        "index\tgenre\tsentence1\tsentence2\tscore\n0\tx\tA\tB\t5.000\n1\tx\tC\tD\t3.8\n",
        ["A", "C"],
        ["B", "D"],
        ["5.000", "3.8"],
    ),
    "TREC": ("DESC:manner How ?\nHUM:ind Who \"is caf\xe9 ?\n", ["How ?", "Who \"is caf\xe9 ?"], None, ["DESC", "HUM"]),
}  # fmt: skip


def write(folder: Path, content: str | bytes, name: str = "train.tsv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_known_layouts_are_recognised(tmp_path: Path, name: str, ending: str) -> None:
    content, texts, pairs, labels = LAYOUTS[name]
    encoding = "latin-1" if name == "TREC" else "utf-8"
    path = write(tmp_path, gzip.compress(content.replace("\n", ending).encode(encoding)), "train.tsv.gz")
    source = LabelSource(path)
    found = read_examples(source, numbers=source.layout.numbers)
    assert [example.text for example in found] == texts
    assert [example.pair for example in found] == (pairs or [None, None])
    assert [example.label for example in found] == labels
    assert source.layout.numbers == (name == "STS-B")


def test_fine_labels_of_trec(tmp_path: Path) -> None:
    path = write(tmp_path, "DESC:manner How ?\n", "train.txt")
    assert [e.label for e in LabelSource(path, format="trec-fine").examples()] == ["DESC:manner"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "tsv"])
def test_columns_can_be_named(tmp_path: Path, kind: str) -> None:
    rows = [
        {"review": 'He said "no", \nfirmly 👍🏽', "stars": 5, "about": "Straße"},
        {"review": "b", "stars": 1, "about": "c"},
    ]
    path = tmp_path / f"x.{kind}"
    if kind == "jsonl":
        write(tmp_path, "\n".join(json.dumps(row) for row in rows), path.name)
    elif kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif kind == "csv":
        write(tmp_path, 'stars,review,about\r\n5,"He said ""no"", \r\nfirmly 👍🏽",Straße\r\n1,b,c\r\n', path.name)
    else:
        rows[0]["review"] = 'He said "no", firmly 👍🏽'
        write(tmp_path, 'stars\treview\tabout\n5\tHe said "no", firmly 👍🏽\tStraße\n1\tb\tc\n', path.name)
    found = list(LabelSource(path, text="review", label="stars", pair="about").examples())
    assert [(e.text, e.pair, e.label) for e in found] == [(r["review"], r["about"], str(r["stars"])) for r in rows]


def test_columns_can_be_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "x,yes,A\ny,no,B\n", "x.csv")
    assert list(LabelSource(path, text=2, label=1).examples()) == [
        Example("A", None, "yes", 1),
        Example("B", None, "no", 2),
    ]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "train.tsv: is empty"),
        ("text\tlabel\n", {}, "train.tsv: is empty"),
        ("a\tb\tc\n", {}, "train.tsv:1: no column looks like the text or the label; it has: a, b, c"),
        ("text\treview\tlabel\tstars\n", {"text": "txt", "label": "label"}, "train.tsv:1: no column 'txt'"),
        ("text\tlabel\nA\n", {}, "train.tsv:2: has 1 column, at least 2 are needed"),
        ("text\tlabel\nA\t1\n", {"text": "txt", "label": "label"}, "train.tsv:1: no column 'txt'; it has: text, label"),
        (b"text\tlabel\n\xc3\xa9\t1\n\xff\t1\n", {}, "train.tsv:3: not UTF-8"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: str | bytes, options: dict, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_examples(LabelSource(write(tmp_path, content), **options))
    assert message in str(error.value)


BAD = "text\tlabel\nA\t1\n\t0\nC\t\nD\t2\n\nE\tx\n"


def test_all_bad_rows_are_named_at_once(tmp_path: Path) -> None:
    source = LabelSource(write(tmp_path, BAD))
    with pytest.raises(DataError) as error:
        read_examples(source, known=["0", "1"])
    lines = str(error.value).splitlines()
    assert [re.sub(r".*train.tsv", "", line) for line in lines] == [
        ":3: a text is empty",
        ":4: the label is empty",
        ":5: the label '2' is not among those of the training data: 0, 1",
        ":6: a text is empty",
        ":7: the label 'x' is not among those of the training data: 0, 1",
    ]
    assert error.value.hint == 'correct them, or drop them: data.bad="drop"'


def test_bad_rows_can_be_dropped_and_are_counted(tmp_path: Path) -> None:
    said: list[str] = []
    found = read_examples(LabelSource(write(tmp_path, BAD)), known=["0", "1"], bad="drop", say=said.append)
    assert [example.text for example in found] == ["A"]
    assert "5 of 6 rows dropped" in said[0]
    with pytest.raises(DataError, match=r"no row can be used; the first: .*train.tsv:2: the label '1'"):
        read_examples(LabelSource(tmp_path / "train.tsv"), known=["9"], bad="drop")


@pytest.mark.parametrize("label", ["high", "nan", "inf", "1,5"])
def test_numbers_are_numbers(tmp_path: Path, label: str) -> None:
    source = LabelSource(write(tmp_path, f"text\tlabel\nA\t1.5\nB\t{label}\n"))
    with pytest.raises(DataError, match=f"train.tsv:3: the label '{label}' is not a number"):
        read_examples(source, numbers=True)


def test_many_bad_rows_are_cut_short(tmp_path: Path) -> None:
    source = LabelSource(write(tmp_path, "text\tlabel\n" + "A\t\n" * 3000))
    with pytest.raises(DataError) as error:
        read_examples(source)
    assert str(error.value).endswith("… and 2,995 more")
    assert len(str(error.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "format 'xml' is not known; allowed: tsv, csv, jsonl, parquet, arrow, trec, trec-fine"),
        ({"text": "a"}, "columns given are {'text': 'a'}; text and label are needed together"),
        ({"pair": "a"}, "columns given are {'pair': 'a'}"),
    ],
)
def test_descriptions_that_make_no_sense(options: dict, message: str) -> None:
    with pytest.raises(UsageError) as error:
        LabelSource("x.tsv", **options)
    assert str(error.value).startswith(message)


def test_labels_of_any_type_are_texts(tmp_path: Path) -> None:
    labels = [1, 1.0, 2.5, True, "b ", None]
    lines = "\n".join(json.dumps({"text": "A", "label": label}) for label in labels)
    found = [e.label for e in LabelSource(write(tmp_path, lines, "x.jsonl")).examples()]
    assert found == ["1", "1", "2.5", "true", "b", ""]
    bad = write(tmp_path, '{"text": "A", "label": [1]}', "y.jsonl")
    with pytest.raises(DataError, match=r"y.jsonl:1: a label is text or a number, not \[1\] \(list\)"):
        list(LabelSource(bad).examples())


def test_fingerprints_know_content_and_reading(tmp_path: Path) -> None:
    path = write(tmp_path, "a\tb\nA\t1\n")
    one = LabelSource(path, text="a", label="b").fingerprint()
    assert one != LabelSource(path, text="b", label="a").fingerprint()
    assert one == LabelSource(write(tmp_path, "a\tb\nA\t1\n", "other.tsv"), text="a", label="b").fingerprint()


def examples(*labels: str) -> list[Example]:
    return [Example("A", None, label, i) for i, label in enumerate(labels)]


def test_classes_are_in_order_and_kept(tmp_path: Path) -> None:
    assert LabelSpace.of(examples("10", "9", "b", "a", "9")).names == ("9", "10", "a", "b")
    space = LabelSpace.of(examples("né", "ja"))
    assert (space.encode("né"), space.decode(1), space.n_outputs, space.numeric) == (1, "né", 2, False)
    space.save(tmp_path)
    assert LabelSpace.load(tmp_path) == space


def test_numbers_are_put_on_a_scale_and_back(tmp_path: Path) -> None:
    space = LabelSpace.of(examples("1", "3", "5"), numbers=True)
    assert (space.encode("3"), space.n_outputs, space.numeric) == (0, 1, True)
    assert space.decode(space.encode("5")) == pytest.approx(5)
    space.save(tmp_path)
    assert LabelSpace.load(tmp_path) == space


def test_labels_that_teach_nothing() -> None:
    with pytest.raises(DataError, match="one label only, 'a': there is nothing to tell apart"):
        LabelSpace.of(examples("a", "a"))
    with pytest.raises(DataError, match="all 2 labels are 2: there is nothing to learn"):
        LabelSpace.of(examples("2", "2.0"), numbers=True)
    with pytest.raises(DataError, match="there are 300 different labels, all of them numbers") as error:
        LabelSpace.of(examples(*map(str, range(300))))
    assert error.value.hint == 'if they are measurements rather than classes, say data.labels="numbers"'


@pytest.mark.parametrize("content", ["{", "[]", '{"names": 1}', '{"names": [], "mean": "x", "scale": 1}'])
def test_a_broken_list_of_labels_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"labels.json: not a list of labels"):
        LabelSpace.load(tmp_path)
    with pytest.raises(CheckpointError, match="there is no such file"):
        LabelSpace.load(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("name", "n_train", "n_dev", "names"),
    [
        ("CoLA", 8551, 1043, ("0", "1")),
        ("SST-2", 67349, 872, ("0", "1")),
        ("RTE", 2490, 277, ("entailment", "not_entailment")),
        ("STS-B", 5749, 1500, ()),
    ],
)
def test_glue_as_it_is(data_root: Path, name: str, n_train: int, n_dev: int, names: tuple[str, ...]) -> None:
    train, dev = (LabelSource(data_root / "glue" / name / f"{part}.tsv.gz") for part in ("train", "dev"))
    found = read_examples(train, numbers=not names)
    space = LabelSpace.of(found, numbers=not names)
    assert (len(found), space.names) == (n_train, names)
    assert len(read_examples(dev, numbers=not names, known=names or None)) == n_dev


def test_trec_as_it_is(data_root: Path) -> None:
    found = read_examples(LabelSource(data_root / "trec" / "train.txt"))
    assert (len(found), len(LabelSpace.of(found).names)) == (5452, 6)
