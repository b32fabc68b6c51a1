"""How inputs are cut, what stands in the manifest, and that parts fit together."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from regard.errors import UsageError
from regard.scale import parts
from regard.scale.leads import fit_together
from regard.scale.manifest import Manifest, Record
from regard.scale.parts import cut
from regard.tasks.predicting.inputs import Given, Inputs


def inputs(n, chunk=512, **more):
    return Inputs((Given(f"text {i}", f"in.txt:{i}", f"text {i}") for i in range(1, n + 1)), None, chunk, **more)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 448, 2496, 2497, 9999])
@pytest.mark.parametrize("size", [1, 500, 2048])
def test_batches_are_those_of_one_process(n, size):
    made = list(cut(inputs(n), size))
    assert [chunk for part in made for chunk in part.chunks] == list(inputs(n).chunks())
    assert [part.number for part in made] == list(range(len(made)))
    assert made[0].start == 1
    assert all(after.start == before.start + before.n for before, after in pairwise(made))
    assert all(part.n >= size for part in made[:-1])
    assert sum(part.n for part in made) == n


def test_an_input_is_read_only_as_far_as_parts_are_asked_for():
    def each():
        for number in range(10_000):
            read.append(number)
            yield Given(str(number), str(number), str(number))

    read = []
    stream = cut(Inputs(each(), None, 512), 1)
    next(stream)
    assert len(read) == 64


def test_names_sort_as_their_numbers_do_and_there_is_an_end(monkeypatch):
    names = [part.name for part in cut(inputs(1500, chunk=8), 8)]
    assert len(names) > 100
    assert names == sorted(names)
    monkeypatch.setattr(parts, "MOST", 10)
    with pytest.raises(UsageError, match=r"more than 11 parts of 8 inputs") as problem:
        list(cut(inputs(1500, chunk=8), 8))
    assert problem.value.hint == "make them larger: --part-size 80, in a new folder"


def test_a_digest_tells_inputs_apart_and_files_by_size_and_time(tmp_path):
    one, same, other = (next(cut(inputs(n), 1)) for n in (3, 3, 4))
    assert one.digest(files=False) == same.digest(files=False) != other.digest(files=False)
    path = tmp_path / "a.wav"
    path.write_bytes(b"1")
    part = next(cut(Inputs([Given(str(path), "a.wav", "a.wav")], 1, 64, files=True), 1))
    before = part.digest(files=True)
    path.write_bytes(b"22")
    assert part.digest(files=True) != before
    path.unlink()
    assert part.digest(files=True) != before


@pytest.fixture
def manifest(tmp_path):
    made = Manifest(tmp_path)
    made.begin({"format": 1})
    for number in range(3):
        made.write_part(f"part-{number:06d}", b"a\n" * number, Record(number, n=number, failed=0, inputs="x"))
    return made


def test_a_manifest_is_read_as_it_was_written(manifest, tmp_path):
    found = Manifest(tmp_path)
    assert found.identity == {"format": 1}
    assert found.records == manifest.records
    assert all(found.stands(f"part-{number:06d}", record) for number, record in found.records.items())
    assert not found.complete
    found.end()
    assert Manifest(tmp_path).complete


@pytest.mark.parametrize("left", range(1, 60, 7))
def test_a_line_that_was_cut_short_is_as_if_it_were_not_there(manifest, tmp_path, left):
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(path.read_bytes()[:-left])
    found = Manifest(tmp_path)
    assert list(found.records) == ([0, 1] if left > 1 else [0, 1, 2])
    found.write_part("part-000002", b"b\n", Record(2, n=1, failed=0, inputs="y"))
    assert Manifest(tmp_path).records[2].inputs == "y"


def test_a_changed_figure_is_noticed(manifest, tmp_path):
    path = tmp_path / "manifest.jsonl"
    path.write_text(path.read_text().replace('"n": 1', '"n": 7'))
    assert list(Manifest(tmp_path).records) == [0, 2]


def test_a_changed_part_does_not_stand(manifest, tmp_path):
    (tmp_path / "part-000002").write_bytes(b"a\nb\n")
    (tmp_path / "part-000001").unlink()
    found = Manifest(tmp_path)
    assert [found.stands(f"part-{number:06d}", found.records[number]) for number in range(3)] == [True, False, False]


def test_the_later_line_of_a_part_holds(manifest, tmp_path):
    manifest.write_part("part-000001", b"new\n", replace(manifest.records[1], n=9))
    assert Manifest(tmp_path).records[1].n == 9
    assert len(path_lines(tmp_path)) == 5


def path_lines(folder):
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def texts(tmp_path, *leads):
    made, names = Manifest(tmp_path), []
    made.begin({})
    for number, (lead, content) in enumerate(leads):
        names.append(f"part-{number:06d}")
        record = Record(number, n=1, failed=0, inputs="", lead=lead, separates=True)
        made.write_part(names[-1], content, record)
    fit_together(made, names)
    return b"".join((tmp_path / name).read_bytes() for name in names), made


def test_texts_stand_apart_only_from_texts(tmp_path):
    joined, made = texts(tmp_path, (None, b""), ("\n", b"\na\n"), (None, b""), ("\n", b"\nb\n"))
    assert joined == b"a\n\nb\n"
    assert [record.lead for record in made.records.values()] == [None, "", None, "\n"]
    again = Manifest(tmp_path)
    fit_together(again, [f"part-{number:06d}" for number in range(4)])
    assert again.records == made.records
