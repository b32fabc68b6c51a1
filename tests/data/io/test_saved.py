"""Folders as the `datasets` package saves them."""

import json

import pytest

from regard.config.data import TextConfig
from regard.data.io.saved import saved_part
from regard.data.io.tables import read_header, table_format
from regard.data.text.labelled import LabelSource
from regard.data.text.pairs import PairSource
from regard.errors import DataError
from regard.tasks.answers.config import AnswerData
from regard.tasks.answers.data import AnswerFiles
from regard.tasks.answers.squad import Answer, Question, read_squad
from regard.tasks.labels.config import LabelData
from regard.tasks.labels.data import LabelFiles
from regard.tasks.texts import TextFiles
from regard.tasks.translation.config import PairData
from regard.tasks.translation.data import PairFiles

pyarrow = pytest.importorskip("pyarrow")


def save(folder, *parts):
    folder.mkdir(parents=True)
    for i, rows in enumerate(parts):
        table = pyarrow.Table.from_pylist(rows)
        name = folder / f"data-{i:05d}-of-{len(parts):05d}.arrow"
        with pyarrow.OSFile(str(name), "wb") as raw, pyarrow.ipc.new_stream(raw, table.schema) as writer:
            writer.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")
    return folder


def pair(en, de):
    return {"id": "0", "translation": {"en": en, "de": de}}


def test_pairs_and_labels_of_a_saved_folder(tmp_path):
    path = save(tmp_path / "pairs", [pair("a", "x")], [pair("b", "y"), pair("c", "z")])
    assert table_format(path) == "arrow"
    assert read_header(path, format="arrow") == ["id", "translation.en", "translation.de"]
    source = PairSource(path)
    assert [tuple(one) for one in source.pairs()] == [("a", "x", 1, ""), ("b", "y", 2, ""), ("c", "z", 3, "")]
    assert source.fingerprint() != PairSource(save(tmp_path / "other", [pair("a", "y")])).fingerprint()
    labelled = save(tmp_path / "labels", [{"review": "good", "stars": 1}])
    assert [tuple(one) for one in LabelSource(labelled).examples()] == [("good", None, "1", 1)]
    next(path.glob("*.arrow")).write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"data-00000-of-00002.arrow: cannot be read as Arrow"):
        list(PairSource(path).pairs())


def test_the_parts_of_a_saved_folder_are_taken_for_what_they_are(tmp_path):
    folder = tmp_path / "all"
    save(folder / "train", [pair("a", "x")])
    save(folder / "validation", [pair("b", "y")])
    assert (saved_part(folder, "valid"), saved_part(folder, "test")) == (str(folder / "validation"), None)
    files = PairFiles(PairData(train=(str(folder),)))
    assert [one.source for one in files.train.pairs()] == ["a"]
    assert [one.source for one in files.valid.pairs()] == ["b"]
    for part, text in (("train", "good"), ("validation", "bad"), ("test", "fine")):
        save(tmp_path / "films" / part, [{"text": text, "label": "1"}, {"text": "x", "label": "0"}])
    sets = LabelFiles(LabelData(train=(str(tmp_path / "films"),))).read()
    assert [part[0].text for part in (sets.train, sets.valid, sets.tests["test"])] == ["good", "bad", "fine"]


def test_texts_of_a_saved_folder(tmp_path):
    folder = tmp_path / "texts"
    for part, text in (("train", "a long story"), ("validation", "another")):
        save(folder / part, [{"text": text}, {"text": f"{text} again"}])
    files = TextFiles(TextConfig(train=(str(folder),)))
    assert [one.text for one in files.train_documents()] == ["a long story", "a long story again"]
    assert [one.text for one in files.valid_documents()] == ["another", "another again"]
    alone = TextFiles(TextConfig(train=(str(folder / "train"),)))
    assert alone.valid is None
    assert alone.fingerprints()["train"] == files.fingerprints()["train"]


def test_questions_of_a_saved_folder(tmp_path):
    row = {"id": "1", "title": "Rome", "context": "Rome lies on the Tiber.", "question": "Where is Rome?"}
    asked = row | {"answers": {"text": ["on the Tiber"], "answer_start": [10]}}
    save(tmp_path / "squad" / "train", [asked, asked | {"id": "2", "answers": {"text": [], "answer_start": []}}])
    save(tmp_path / "squad" / "validation", [asked | {"id": "3"}])
    sets = AnswerFiles(AnswerData(train=(str(tmp_path / "squad"),))).read()
    assert [(one.id, one.article, one.answers) for one in sets.train] == [
        ("1", "Rome", (Answer("on the Tiber", 10),)),
        ("2", "Rome", ()),
    ]
    assert [one.id for one in sets.valid] == ["3"]
    lines = tmp_path / "asked.jsonl"
    listed = row | {"answers": [{"text": "Tiber", "answer_start": 17}]}
    lines.write_text(json.dumps(listed | {"title": None}) + "\n")
    assert read_squad(lines)[0] == Question(
        "1", "Where is Rome?", row["context"], (Answer("Tiber", 17),), row["context"]
    )
    lines.write_text(json.dumps({"context": "a", "question": "b"}) + "\n")
    with pytest.raises(DataError, match="answers"):
        read_squad(lines)
