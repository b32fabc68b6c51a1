"""Parts joined are byte for byte what one process writes, for every task and every way of asking."""

import gzip

import pytest

from golden_inputs import BAD, BROKEN, FILES, GOLDEN, GOOD

pytestmark = pytest.mark.usefixtures("here", "inline")


def lines_of(task, here):
    """A list of inputs, some of which cannot be used, enough for two parts or more."""
    bad = "" if BAD[task] == BROKEN else BAD[task]
    several = [*GOOD[task], bad, GOOD[task][0]] * (4 if task in FILES else 20)
    path = here / "in.txt"
    path.write_text("".join(f"{line}\n" for line in several), encoding="utf-8")
    return path


def assert_same(command, here, run, path, *options, parts=2):
    """One process and many write the same."""
    one = command("predict", run, "--input", path, "--out", here / "one", *options)
    many = command("predict", run, "--input", path, "--out", here / "parts", "--part-size", 1, *options)
    assert many.code == one.code
    joined = b"".join(part.read_bytes() for part in sorted((here / "parts").glob("part-*")))
    assert joined == (here / "one").read_bytes()
    assert len(list((here / "parts").glob("part-*"))) >= parts
    failed = [line for line in one.err.splitlines() if line.endswith("failed")]
    assert [line for line in many.err.splitlines() if line.endswith("failed")] == failed
    problems = [line for line in one.err.splitlines() if line.startswith("error: ")]
    assert sorted(line for line in many.err.splitlines() if line.startswith("error: ")) == sorted(problems)
    return joined


@pytest.mark.parametrize("task", GOOD)
def test_every_task(command, here, task):
    run, path = GOLDEN / "finished" / task, lines_of(task, here)
    assert assert_same(command, here, run, path)


@pytest.mark.parametrize("task", GOOD)
def test_every_task_as_json(command, here, task):
    run, path = GOLDEN / "finished" / task, lines_of(task, here)
    joined = assert_same(command, here, run, path, "--json")
    assert joined.startswith(b"{")


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("translation", ["--align"]),
        ("translation", ["--json", "--n-best", "2", "--beam", "3", "--align"]),
        ("translation", ["decode.strategy=sample", "decode.seed=3"]),
        ("translation", ["--ensemble", GOLDEN / "finished" / "translation"]),
        ("language", ["--task", "Go on:"]),
        ("masked", ["--embed"]),
        ("masked", ["--embed", "--json"]),
    ],
)
def test_every_way_of_asking(command, here, task, options):
    run, path = GOLDEN / "finished" / task, lines_of(task, here)
    assert_same(command, here, run, path, *options)


def test_questions_on_a_passage(command, here):
    (here / "passage.txt").write_text("so the bird sees a cat .\n")
    (here / "in.txt").write_text("who sees\nwho\tlikes\n" * 60)
    assert_same(command, here, GOLDEN / "finished" / "answers", here / "in.txt", "--context", "passage.txt")


def test_files_folders_and_patterns(command, here):
    words = ["data/images/test", "data/images/train/*/*.png", "data/gone.png"]
    run = GOLDEN / "finished" / "images"
    one = command("predict", run, *words, "--out", "one")
    many = command("predict", run, *words, "--out", "parts", "--part-size", 1, "--join", "joined")
    assert (one.code, many.code) == (1, 1)
    assert (here / "joined").read_bytes() == (here / "one").read_bytes()
    assert len(list((here / "parts").glob("part-*"))) > 1


def test_one_file_by_itself(command, here):
    run = GOLDEN / "finished" / "speech"
    command("predict", run, GOOD["speech"][0], "--out", "one")
    command("predict", run, GOOD["speech"][0], "--out", "parts", "--workers", 1)
    assert (here / "parts" / "part-000000").read_bytes() == (here / "one").read_bytes()
    bad = command("predict", run, BAD["speech"], "--out", "bad", "--workers", 1)
    assert (bad.code, bad.err.splitlines()[-2]) == (1, f"error: {BAD['speech']}: no such file")


def test_a_header_stands_once_also_after_a_part_without_outputs(command, here):
    good, bad = GOOD["series"][0], BAD["series"]
    (here / "in.txt").write_text("".join(f"{name}\n" for name in [bad] * 8 + [good] * 16 + [bad] * 32 + [good] * 3))
    joined = assert_same(command, here, GOLDEN / "finished" / "series", here / "in.txt", parts=4)
    assert joined.count(b"input") == 1


ODD = {
    "nothing": b"",
    "one line": b"one two",
    "an empty line": b"\n",
    "line ends of others": b"one two\r\nthree\r\n" * 50,
    "a byte-order mark": b"\xef\xbb\xbfone\ntwo\n",
    "emoji": "one 😀 two\n👩‍👩‍👧\n\u2028six\x85\n".encode() * 40,
    "a long line": b"one " * 10_000 + b"\ntwo\n",
    "another encoding": "f\xfcnf\n".encode("latin-1") * 80,
    "gzip": gzip.compress(b"one two\nthree\n" * 70, mtime=0),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_inputs(command, here, name):
    (here / "in.txt").write_bytes(ODD[name])
    assert_same(command, here, GOLDEN / "finished" / "translation", here / "in.txt", "decode.max_length=8", parts=1)
