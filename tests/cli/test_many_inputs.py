"""Many inputs: what cannot be used is named and counted, and takes nothing else with it, whatever the task."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

import regard
from golden_inputs import BAD, BROKEN, FILES, GOLDEN, GOOD
from regard.cli import progress
from regard.cli.progress import Progress
from regard.errors import DataError, UsageError
from regard.tasks.predictions import attempt


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """A folder with a copy of the golden data, where commands are given."""
    shutil.copytree(GOLDEN / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def run_of(task):
    return GOLDEN / "finished" / task


def said(answer):
    """What a command says, without that the runs of tests/golden are older than hashes."""
    lines = answer.err.splitlines(keepends=True)
    return "".join(line for line in lines if "an older version wrote it, without hashes" not in line)


def records(answer):
    return [json.loads(line) for line in answer.out.splitlines()]


def assert_near(found, expected):
    """The same but for the last digits of numbers, which differ with the size of a batch."""
    if isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    elif isinstance(expected, dict | list):
        assert len(found) == len(expected)
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            assert_near(found[key], expected[key])
    else:
        assert found == expected


@pytest.mark.parametrize("task", GOOD)
def test_a_bad_input_leaves_the_others_alone(command, task):
    first, second = GOOD[task]
    whole = command("predict", run_of(task), first, second, "--json")
    answer = command("predict", run_of(task), first, BAD[task], second, "--json")
    assert (whole.code, answer.code) == (0, 1)
    one, bad, two = records(answer)
    assert_near([one, two], records(whole))
    assert set(bad) == {"input", "error"}
    assert bad["input"] == BAD[task].replace("\udcff", "?")
    assert bad["error"]
    assert "Traceback" not in answer.err
    lines = answer.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1
    name = BAD[task] if task in FILES else repr(BAD[task])
    assert any(line.startswith(f"error: {name}") for line in lines)
    assert lines[-1] == "1 of 3 inputs failed"


@pytest.mark.parametrize("task", GOOD)
def test_good_inputs_fail_nothing(command, task):
    answer = command("predict", run_of(task), *GOOD[task])
    assert answer.code == 0
    assert "failed" not in answer.err


@pytest.mark.parametrize("task", ["masked", "answers", "words"])
def test_the_nth_line_belongs_to_the_nth_text(command, task, here):
    first, second = GOOD[task]
    (here / "in.txt").write_text(f"{first}\n{BAD[task]}\n{second}\n")
    alone = [command("predict", run_of(task), text).out for text in (first, second)]
    answer = command("predict", run_of(task), "--input", "in.txt")
    assert answer.code == 1
    assert answer.out == f"{alone[0]}\n{alone[1]}"
    assert f"error: in.txt:2: {'has no mask' if task == 'masked' else ''}" in answer.err
    piped = command("predict", run_of(task), stdin=(here / "in.txt").read_text())
    assert (piped.code, piped.out) == (1, answer.out)
    assert "error: <stdin>:2: " in piped.err


def test_texts_of_several_lines_stand_apart_where_one_is_missing(command):
    first, second = GOOD["language"]
    answer = command("predict", run_of("language"), BROKEN, first, BROKEN, second)
    assert answer.code == 1
    assert answer.out.split("\n\n") == command("predict", run_of("language"), first, second).out.split("\n\n")
    assert answer.err.splitlines()[-1] == "2 of 4 inputs failed"


def test_an_only_input_fails_as_the_command(command):
    answer = command("predict", run_of("masked"), BAD["masked"], "--json")
    assert (answer.code, answer.out) == (2, "")
    assert said(answer).startswith("error: text 1 has no mask")
    assert "failed" not in answer.err


def test_wrong_options_are_said_once(command):
    answer = command("predict", run_of("masked"), *GOOD["masked"], "decode.k=0")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("error: ") == 1
    answer = command("predict", run_of("images"), *GOOD["images"], "decode.strategy=beam")
    assert (answer.code, answer.err.count("error: ")) == (2, 1)


def test_every_way_a_file_can_be_bad(command, here):
    first, second = GOOD["images"]
    (here / "empty.png").write_bytes(b"")
    (here / "text.png").write_text("hello")
    (here / "cut.png").write_bytes(Path(first).read_bytes()[:40])
    (here / "none").mkdir()
    (here / "none" / "notes.txt").write_text("no image")
    bad = ["empty.png", "text.png", "cut.png", "none", "gone*.png", "gone.png"]
    answer = command("predict", run_of("images"), first, *bad, second, "--json")
    said = records(answer)
    assert [one["input"] for one in said] == [first, *bad, second]
    assert ["error" in one for one in said] == [False, *[True] * 6, False]
    assert said[4]["error"] == (
        "there is no file in this folder that ends in .jpg, .jpeg, .png, .bmp, .gif, .webp, .tif, .tiff, .ppm, .pgm"
    )
    assert said[5]["error"] == "there is no file whose name fits this pattern"
    assert answer.code == 1
    for name in bad:
        assert f"error: {name}: " in answer.err
    assert answer.err.splitlines()[-1] == "6 of 8 inputs failed"


def test_a_bad_row_of_a_table_names_its_file_and_line(command, here):
    lines = Path("data/series/hours.csv").read_text().splitlines()
    cells = lines[5].split(",")
    lines[5] = ",".join([*cells[:-1], "much"])
    (here / "bad.csv").write_text("\n".join(lines) + "\n")
    answer = command("predict", run_of("series"), "bad.csv", "data/series/hours.csv", "--json")
    bad, good = records(answer)
    assert answer.code == 1
    assert "error: bad.csv:6: " in answer.err
    assert bad["input"] == "bad.csv"
    assert good["input"] == "data/series/hours.csv"


def test_folders_and_patterns(command, here):
    run = run_of("images")
    (here / "photos" / "more").mkdir(parents=True)
    for name in ("b.png", "a.PNG", ".hidden.png", "more/c.png", "notes.txt"):
        shutil.copy(GOOD["images"][0], here / "photos" / name)
    (here / "photos" / ".cache").mkdir()
    shutil.copy(GOOD["images"][0], here / "photos" / ".cache" / "d.png")
    names = ["photos/a.PNG", "photos/b.png", "photos/more/c.png"]
    answer = command("predict", run, "photos/")
    assert (answer.code, said(answer)) == (0, "")
    assert [line.split("\t")[0] for line in answer.out.splitlines()] == names
    alone = command("predict", run, names[1]).out
    assert answer.out.splitlines()[1] == f"{names[1]}\t{alone.rstrip()}", "one file by its name has no column for it"
    assert [one["input"] for one in records(command("predict", run, "photos/*.png", "--json"))] == ["photos/b.png"]
    assert command("predict", run, "photos/*.png").out == f"photos/b.png\t{alone}"
    listed = command("predict", run, stdin="photos/b.png\n\nphotos/more\n")
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == ["photos/b.png", "photos/more/c.png"]
    shutil.copy(GOOD["images"][0], here / "x[1].png")
    assert command("predict", run, "x[1].png").out == alone, "a file that is called so is no pattern"


def test_a_name_with_a_tab_stays_in_its_column(command, here):
    shutil.copy(GOOD["images"][0], here / "a\tb\n.png")
    answer = command("predict", run_of("images"), ".")
    assert answer.out.splitlines()[0].startswith("a\\tb\\n.png\t")
    assert records(command("predict", run_of("images"), "a*.png", "--json"))[0]["input"] == "a\tb\n.png"


def test_forecasts_of_several_files_are_one_table(command, here):
    for name in ("a.csv", "b.csv"):
        shutil.copy("data/series/hours.csv", here / name)
    alone = command("predict", run_of("series"), "a.csv").out.splitlines()
    both = command("predict", run_of("series"), "a.csv", "gone.csv", "b.csv").out.splitlines()
    assert both[0] == f"input,{alone[0]}"
    assert both[1:] == [f"{name},{row}" for name in ("a.csv", "b.csv") for row in alone[1:]]


def test_a_text_is_a_text_even_where_a_file_is_called_so(command, here):
    (here / "cat").write_text("red\n")
    answer = command("predict", run_of("words"), "cat")
    assert answer.out == command("predict", run_of("words"), " cat").out
    assert said(answer) == "cat is taken as a text; to read the lines of the file: --input cat\n"


def test_vectors_of_some_texts(command):
    answer = command("predict", run_of("masked"), "a cat", BROKEN, "a dog", "--embed")
    first, nothing, second = answer.out.splitlines()
    assert answer.code == 1
    assert nothing == ""
    assert len(json.loads(first)) == len(json.loads(second)) > 1
    as_json = records(command("predict", run_of("masked"), "a cat", BROKEN, "--embed", "--json"))
    assert [set(one) for one in as_json] == [{"vector"}, {"input", "error"}]


def test_questions_with_a_tab_are_refused_one_by_one(command, here):
    (here / "passage.txt").write_text("so the bird sees a cat .\n")
    answer = command("predict", run_of("answers"), "who sees", "who\tsees", "who", "--context", "passage.txt")
    assert answer.code == 1
    assert len(answer.out.splitlines()) == 3
    assert "with --context inputs are questions alone" in answer.err


# ---- --out


@pytest.mark.parametrize("task", GOOD)
def test_a_file_holds_what_would_be_said(command, here, task):
    said = command("predict", run_of(task), *GOOD[task])
    answer = command("predict", run_of(task), *GOOD[task], "--out", "new/out.txt")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.endswith("outputs: new/out.txt\n")
    assert (here / "new" / "out.txt").read_text() == said.out
    assert [path.name for path in (here / "new").iterdir()] == ["out.txt"]


def test_a_file_is_there_whole_or_not_at_all(command, here):
    out = here / "out.txt"
    out.write_text("before")
    answer = command("predict", run_of("masked"), "--input", "gone.txt", "--out", out)
    assert (answer.code, out.read_text()) == (1, "before")
    answer = command("predict", run_of("images"), "gone.png", "none.png", "--out", out)
    assert (answer.code, out.read_text()) == (1, "before")
    answer = command("predict", run_of("images"), "gone.png", GOOD["images"][0], "--out", out)
    assert answer.code == 1
    assert out.read_text().startswith(GOOD["images"][0])
    assert sorted(path.name for path in here.iterdir()) == ["data", "out.txt"]


def test_places_that_cannot_be_written_to(command, here):
    good = GOOD["images"][0]
    answer = command("predict", run_of("images"), good, "--out", "data")
    assert (answer.code, "--out data: is a folder" in answer.err) == (2, True)
    answer = command("predict", run_of("images"), good, "--out", good)
    assert (answer.code, "is one of the inputs" in answer.err) == (2, True)
    answer = command("predict", run_of("images"), good, "--out", f"{good}/out.txt")
    assert (answer.code, "Traceback" in answer.err) == (1, False)
    assert command("predict", run_of("images"), good, "--out", "/dev/null").code == 0
    assert not Path("/dev/null").is_file()
    answer = command("predict", run_of("language"), "the cat", "--stream", "--out", "out.txt")
    assert (answer.code, "--stream and --out out.txt were given" in answer.err) == (2, True)


# ---- how it is done


def test_good_inputs_stay_together():
    tries = []

    def predict(some):
        tries.append(len(some))
        if 5 in some:
            raise DataError("five")
        return [100 + value for value in some]

    values = list(range(64))
    found = attempt(predict, values)
    assert [one for i, one in enumerate(found) if i != 5] == [100 + i for i in values if i != 5]
    assert str(found[5]) == "five"
    assert len(tries) <= 13
    assert attempt(predict, []) == []


def test_what_no_input_can_be_blamed_for_is_raised():
    def refuse(*_):
        raise UsageError("k")

    with pytest.raises(UsageError):
        attempt(refuse, [1, 2], check=refuse)
    assert [str(one) for one in attempt(refuse, [1, 2])] == ["k", "k"]


def test_a_model_can_be_asked_the_same_from_python():
    model, told = regard.load(run_of("labels"), "cpu"), []
    model.say = told.append
    texts = ["the cat sees a dog . " * 20, BROKEN, GOOD["labels"][0]]
    long, problem, short = model.attempt(texts)
    assert isinstance(problem, UsageError)
    assert short == model(texts[2])
    assert long.label == model(texts[0]).label
    assert told[0] == "1 of 1 texts were cut to 16 tokens", "of tries that failed nothing is told"
    assert model.attempt([]) == []
    with pytest.raises(UsageError, match=r"decode\.k means nothing"):
        model.attempt(GOOD["labels"], k=3)


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.mark.parametrize(("total", "line"), [(5000, "1,200 of 5,000  300/s  13 s left"), (None, "1,200 done  300/s")])
def test_progress_is_said_in_plain_lines_after_a_while(capsys, clock, total, line):
    with Progress(total, to_file=True) as counted:
        counted.add(300)
        assert capsys.readouterr().err == ""
        clock.now = 4.0
        counted.add(900)
        assert capsys.readouterr().err == f"{line}\n"
        clock.now = 5.0
        counted.add(1)
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("total", [2_345_678, None])
def test_a_bar_is_one_whole_line_on_a_narrow_terminal(monkeypatch, clock, total):
    shown = io.StringIO()
    console = Console(file=shown, width=60, force_terminal=True, color_system=None, highlight=False, soft_wrap=True)
    monkeypatch.setattr(progress, "talk", lambda: console)
    with Progress(total, to_file=True) as counted:
        clock.now = 1000.0
        counted.add(1_234_567)
        bar = counted._bar
        assert bar is not None
        plain = Console(width=60, file=io.StringIO())
        plain.print(bar.get_renderable())
        lines = plain.file.getvalue().rstrip("\n").splitlines()
    assert len(lines) == 1
    assert lines[0].rstrip().endswith("left" if total else "/s")
    assert "1,234,567" in lines[0]


def test_outputs_on_a_terminal_are_progress_enough(monkeypatch, capsys, clock):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with Progress(10, to_file=False) as counted:
        clock.now = 100.0
        counted.add(5)
    assert capsys.readouterr().err == ""
