"""Where labelled texts are: folders, files and shares, the same every time."""

from pathlib import Path

import pytest

from regard.errors import ConfigError, DataError
from regard.tasks.labels.config import LabelData
from regard.tasks.labels.data import LabelFiles

ROWS = "".join(f"text {i}\t{i % 2}\n" for i in range(40))
HEADER = "sentence\tlabel\n"


def folder(tmp_path: Path, **files: str) -> Path:
    made = tmp_path / "set"
    made.mkdir()
    for name, content in files.items():
        (made / f"{name}.tsv").write_text(content)
    return made


def test_a_folder_holds_its_parts(tmp_path: Path) -> None:
    folder(tmp_path, train=HEADER + ROWS, dev=HEADER + "a\t1\n", test=HEADER + "b\t0\nc\t1\n")
    files = LabelFiles(LabelData(train=("set",)), tmp_path)
    sets = files.read()
    assert (len(sets.train), len(sets.valid), [len(test) for test in sets.tests.values()]) == (40, 1, [2])
    assert sets.space.names == ("0", "1")
    assert sorted(files.fingerprints()) == ["test", "train", "valid"]


def test_a_test_file_without_labels_is_left_alone(tmp_path: Path) -> None:
    folder(tmp_path, train=HEADER + ROWS, dev=HEADER + "a\t1\n", test="index\tsentence\n0\tb\n")
    assert LabelFiles(LabelData(train=("set",)), tmp_path).read().tests == {}


def test_without_validation_data_a_share_is_held_out(tmp_path: Path) -> None:
    path = folder(tmp_path, train=HEADER + ROWS) / "train.tsv"
    sets = [LabelFiles(LabelData(train=(str(path),), valid_share=0.25)).read() for _ in range(2)]
    assert sets[0] == sets[1]
    assert (len(sets[0].train), len(sets[0].valid)) == (30, 10)
    assert not {e.line for e in sets[0].train} & {e.line for e in sets[0].valid}
    path.write_text(HEADER + "a\t1\n")
    with pytest.raises(DataError, match="1 examples are too few to hold some out"):
        LabelFiles(LabelData(train=(str(path),))).read()


def test_labels_of_other_sets_are_those_of_training(tmp_path: Path) -> None:
    folder(tmp_path, train=HEADER + ROWS, dev=HEADER + "a\t1\nb\t7\n")
    with pytest.raises(DataError, match=r"dev.tsv:3: the label '7' is not among those of the training data: 0, 1"):
        LabelFiles(LabelData(train=("set",)), tmp_path).read()
    said: list[str] = []
    sets = LabelFiles(LabelData(train=("set",), bad="drop"), tmp_path).read(say=said.append)
    assert len(sets.valid) == 1
    assert "1 of 2 rows dropped" in said[0]


def test_numbers_on_request(tmp_path: Path) -> None:
    path = folder(tmp_path, train=HEADER + ROWS)
    sets = LabelFiles(LabelData(train=(str(path),), labels="numbers")).read()
    assert sets.space.numeric


def test_several_files_and_named_tests(tmp_path: Path) -> None:
    path = folder(tmp_path, a="x\ty\n" + ROWS, b="x\ty\n" + ROWS)
    data = LabelData(
        train=("set/a.tsv", "set/b.tsv"), valid=("set/a.tsv",), test={"b": ("set/b.tsv",)}, text="x", label="y"
    )
    sets = LabelFiles(data, tmp_path).read()
    assert (len(sets.train), len(sets.valid), list(sets.tests)) == (80, 40, ["b"])
    assert len(LabelFiles(data, tmp_path).sources([str(path / "a.tsv")])) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "data.train names no file"),
        ({"valid_share": 1.5}, "data.valid_share is 1.5, above 0 and below 1"),
        ({"max_tokens": 2}, "data.max_tokens is 2, at least 4"),
    ],
)
def test_options_that_make_no_sense(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LabelFiles(LabelData(**options)).read()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: there is no such file here or under"):
        LabelFiles(LabelData(train=("nowhere",)), tmp_path).read()
    folder(tmp_path, other=ROWS)
    with pytest.raises(DataError, match=r"set: no file is called train\.\*; it holds other.tsv"):
        LabelFiles(LabelData(train=("set",)), tmp_path).read()


@pytest.mark.parametrize(("name", "numeric"), [("glue/MRPC", False), ("glue/STS-B", True), ("trec", False)])
def test_real_folders(data_root: Path, name: str, numeric: bool) -> None:
    sets = LabelFiles(LabelData(train=(name,)), data_root).read()
    assert sets.space.numeric is numeric
    assert min(len(sets.train), len(sets.valid)) > 400
    assert len(sets.tests.get("test", [])) == (500 if name == "trec" else 0)
