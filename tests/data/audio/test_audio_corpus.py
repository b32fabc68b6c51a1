"""Recordings and their texts from tables and folders; everything that is wrong is named at once."""

import json

import numpy as np
import pytest
import tiny_speech

from regard.data.audio.corpus import AudioCorpus, read_spoken
from regard.errors import DataError


def test_tables_of_every_kind_list_the_same(tmp_path):
    rows = [("a.wav", "low mid"), ("b.wav", "top")]
    for name, _ in rows:
        tiny_speech.write_wav(tmp_path / name, tiny_speech.spoken(["low"]))
    (tmp_path / "t.csv").write_text("text,audio\n" + "".join(f"{text},{name}\n" for name, text in rows))
    (tmp_path / "t.tsv").write_text("audio\ttext\n" + "".join(f"{name}\t{text}\n" for name, text in rows))
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"audio": n, "text": t}) + "\n" for n, t in rows))
    for kind in ("csv", "tsv", "jsonl"):
        found = read_spoken(tmp_path / f"t.{kind}")
        assert [(row.path, row.text) for row in found] == [(tmp_path / name, text) for name, text in rows]
        assert found[1].where == f"{tmp_path / f't.{kind}'}:{2 if kind == 'jsonl' else 3}"
    with pytest.raises(DataError, match=r"t.csv:1: no column 'path'; it has: text, audio"):
        read_spoken(tmp_path / "t.csv", audio="path")


def test_a_folder_pairs_sound_with_text(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("a.wav", "deep/b.WAV"):
        tiny_speech.write_wav(tmp_path / name, tiny_speech.spoken(["mid"]))
    (tmp_path / "a.txt").write_text("low\n mid\n")
    with pytest.raises(DataError, match=r"b.WAV: there is no b.txt beside it"):
        read_spoken(tmp_path)
    (tmp_path / "deep" / "b.txt").write_text("top")
    assert [row.text for row in read_spoken(tmp_path)] == ["low mid", "top"]
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no recordings"):
        read_spoken(tmp_path / "none")


def test_samples_come_back_at_the_rate_asked_for(tmp_path):
    table = tiny_speech.write_table(tmp_path, n=5)
    corpus = AudioCorpus.build(read_spoken(table), tmp_path / "made", rate=8000)
    sound = tiny_speech.spoken(corpus.texts[3].split(), seed=3)
    assert (len(corpus), corpus.rate, len(corpus.samples(3))) == (5, 8000, 2 * len(sound))
    same = AudioCorpus.build(read_spoken(table), tmp_path / "made", rate=tiny_speech.RATE)
    np.testing.assert_allclose(same.samples(3), sound, atol=1e-4)
    assert same.lengths.tolist() == [len(same.samples(i)) for i in range(5)]
    assert same.fingerprint() != corpus.fingerprint()
    assert same.where(3) == f"{table}:5"
    assert len(list((tmp_path / "made").iterdir())) == 2
    again = AudioCorpus.build(read_spoken(table), tmp_path / "made", rate=tiny_speech.RATE)
    assert again.fingerprint() == same.fingerprint()
    assert len(list((tmp_path / "made").iterdir())) == 2


def test_all_that_is_wrong_is_named_with_its_row(tmp_path):
    table = tiny_speech.write_table(tmp_path, n=6)
    lines = table.read_text().splitlines()
    sounds = tmp_path / "sounds-table"
    (sounds / "0.wav").write_bytes(b"no sound at all")
    lines[2] = "sounds-table/1.wav,"
    lines[3] = "sounds-table/gone.wav,low"
    lines[4] = ",low"
    tiny_speech.write_wav(sounds / "4.wav", np.zeros(3 * tiny_speech.RATE, np.float32))
    table.write_text("\n".join(lines) + "\n")
    options = {"rate": 4000, "shortest": 0.05, "longest": 2.0}
    with pytest.raises(DataError) as error:
        AudioCorpus.build(read_spoken(table), tmp_path / "made", **options)
    said = str(error.value).splitlines()
    assert len(said) == 5
    for line, (row, words) in zip(
        said,
        [(2, "not a sound file"), (3, "the text is empty"), (4, "gone.wav: no such file"), (5, "names no recording"),
         (6, "lasts 3.00 s, allowed are 0.05 to 2 s")],
        strict=True,
    ):  # fmt: skip
        assert f"table.csv:{row}: " in line
        assert words in line
    assert "data.bad" in error.value.hint
    told = []
    kept = AudioCorpus.build(read_spoken(table), tmp_path / "made", **options, bad="drop", say=told.append)
    assert len(kept) == 1
    assert "5 of 6 recordings dropped" in told[0]
    assert not list((tmp_path / "made").glob(".draft*"))


def test_nothing_that_can_be_used(tmp_path):
    (tmp_path / "t.csv").write_text("audio,text\ngone.wav,low\n")
    with pytest.raises(DataError, match=r"no recording can be used; the first: .*gone\.wav"):
        AudioCorpus.build(read_spoken(tmp_path / "t.csv"), tmp_path / "made", rate=4000, bad="drop")
    (tmp_path / "e.csv").write_text("audio,text\n")
    with pytest.raises(DataError, match=r"e\.csv: is empty"):
        read_spoken(tmp_path / "e.csv")
