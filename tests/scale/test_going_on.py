"""A folder of parts that was left: what stands is not computed again, and nothing else is taken for it."""

import os
import shutil
import sys

import pytest

from golden_inputs import GOLDEN, GOOD
from regard.checkpoints.lock import locked
from regard.cli.progress import Progress
from regard.scale.engine import Death

TRANSLATION = GOLDEN / "finished" / "translation"
PARTS = ["--out", "parts", "--part-size", "1", "decode.max_length=8"]
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def lines(here):
    """Enough lines for four parts."""
    path = here / "in.txt"
    path.write_text("".join(f"{line}\n" for line in GOOD["translation"]) * 250)
    return path


def stamps(here):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (here / "parts").glob("part-*")}


def joined(here):
    return b"".join(path.read_bytes() for path in sorted((here / "parts").glob("part-*")))


def test_what_stands_is_left_alone(command, here, lines, inline):
    first = command("predict", TRANSLATION, lines, *PARTS)
    before = stamps(here)
    again = command("predict", TRANSLATION, lines, *PARTS, "--workers", 1, "--join", "out.txt")
    assert (first.code, again.code, len(before), len(inline)) == (0, 0, 4, 1)
    assert stamps(here) == before
    assert "500 inputs of 500 had been predicted for before" in again.err
    assert "joined: cat parts/part-*" in first.err
    assert (here / "out.txt").read_bytes() == joined(here)


def test_a_damaged_and_a_missing_part_are_made_again(command, here, lines, inline):
    command("predict", TRANSLATION, lines, *PARTS)
    whole, before = joined(here), stamps(here)
    content = (here / "parts" / "part-000001").read_bytes()
    (here / "parts" / "part-000001").write_bytes(content[:-2] + b"x\n")
    (here / "parts" / "part-000003").unlink()
    answer = command("predict", TRANSLATION, lines, *PARTS)
    assert answer.code == 0
    assert joined(here) == whole
    assert {name for name, stamp in stamps(here).items() if before[name] != stamp} == {"part-000001", "part-000003"}
    assert "parts/part-000001: is not as it was written, and is made again" in answer.err
    assert "320 inputs of 500 had been predicted for before" in answer.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--json"], "was begun with no --json, and now it is --json"),
        (["decode.max_length=9"], "was begun with decode.max_length=8, and now it is decode.max_length=9"),
        (["--part-size", "2"], "was begun with --part-size 1, and now it is --part-size 2"),
        (["--precision", "bf16"], "was begun with --precision auto, and now it is --precision bf16"),
        (["--ensemble", TRANSLATION], "was begun with another --ensemble, or without one"),
    ],
)
def test_other_settings_are_refused(command, here, lines, inline, options, reason):
    command("predict", TRANSLATION, lines, *PARTS)
    before = stamps(here)
    answer = command("predict", TRANSLATION, lines, *PARTS, *options)
    assert answer.code == 1
    assert answer.err.splitlines()[-2:] == [
        f"error: parts: {reason}",
        "hint: go on as it was begun, give another --out, or begin anew: rm -r parts",
    ]
    assert stamps(here) == before


def test_another_run_and_a_run_that_changed_are_refused(command, here, lines, inline):
    mine = shutil.copytree(TRANSLATION, here / "mine")
    command("predict", mine, lines, *PARTS)
    moved = command("predict", TRANSLATION, lines, *PARTS)
    assert moved.code == 0  # the same model at another place
    other = command("predict", GOLDEN / "finished" / "labels", lines, "--out", "parts", "--part-size", "1")
    assert (other.code, "error: parts: was begun with another run, " in other.err) == (1, True)
    config = mine / "config.toml"
    config.write_text(config.read_text().replace("max_length", "max_length ", 1))
    changed = command("predict", mine, lines, *PARTS)
    assert changed.code == 1
    assert f"error: parts: was begun with {mine}, which has changed since" in changed.err


def test_an_input_that_changed_is_refused(command, here, lines, inline):
    command("predict", TRANSLATION, lines, *PARTS)
    lines.write_text(lines.read_text() + "one\n")
    changed = command("predict", TRANSLATION, lines, *PARTS)
    assert (changed.code, f"error: parts: {lines} has changed since it was begun" in changed.err) == (1, True)
    shutil.copy(lines, here / "other.txt")
    other = command("predict", TRANSLATION, "other.txt", *PARTS)
    assert (other.code, f"error: parts: was begun with another input, {lines}" in other.err) == (1, True)


def test_a_file_that_changed_is_refused(command, here, inline):
    run = GOLDEN / "finished" / "images"
    shutil.copytree("data/images/test", "mine")
    command("predict", run, "mine", "--out", "parts", "--workers", 1)
    picture = next(path for path in sorted((here / "mine").rglob("*.png")))
    os.utime(picture, (1, 1))
    changed = command("predict", run, "mine", "--out", "parts", "--workers", 1)
    assert changed.code == 1
    assert "error: parts: mine has changed since it was begun (inputs 1 to " in changed.err


def test_a_part_that_cannot_be_made_is_reported_and_tried_again_next_time(command, here, lines, inline, monkeypatch):
    from regard.cli import parts

    make = parts._engine

    def fragile(*given):
        engine = make(*given)
        answer = engine.answer
        engine.answer = lambda part: Death("was ended by SIGKILL") if part.number == 1 else answer(part)
        return engine

    with monkeypatch.context() as patch:
        patch.setattr(parts, "_engine", fragile)
        answer = command("predict", TRANSLATION, lines, *PARTS, "--join", "out.txt")
    assert answer.code == 1
    why = "the process that predicts for them was ended by SIGKILL"
    assert f"error: parts/part-000001: inputs 65 to 192 are left out: {why}" in answer.err
    assert "1 part of 4 in parts could not be made" in answer.err
    assert len(stamps(here)) == 3
    assert not (here / "out.txt").exists()
    assert command("predict", TRANSLATION, lines, *PARTS, "--join", "out.txt").code == 0
    command("predict", TRANSLATION, "--input", lines, "--out", "one.txt", "decode.max_length=8")
    assert (here / "out.txt").read_bytes() == (here / "one.txt").read_bytes()


def test_two_drivers_do_not_share_a_folder(command, here, lines, inline):
    with locked(here / "parts", what="prediction"):
        answer = command("predict", TRANSLATION, lines, *PARTS)
    assert (answer.code, "error: parts: another prediction is at work here" in answer.err) == (1, True)


def test_ctrl_c_says_how_to_go_on(command, here, lines, inline, monkeypatch):
    def stop(self, n):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "add", stop)
        answer = command("predict", TRANSLATION, lines, *PARTS)
    assert answer.code == 130
    assert answer.err.splitlines()[-2:] == ["stopped", "hint: the parts in parts stand; the same command goes on"]
    assert len(stamps(here)) == 1
    assert command("predict", TRANSLATION, lines, *PARTS).code == 0


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (["in.txt", "--workers", "2"], "several workers write parts to a folder, and none was given", "--out parts"),
        (["in.txt", "--out", "in.txt", "--workers", "2"], "--out in.txt: is a file, a folder for parts was expected",
         "--out parts"),
        (["in.txt", "--out", "p", "--workers", "0"], "--workers 0: allowed is a number from 1, or auto", None),
        (["in.txt", "--out", "p", "--workers", "many"], "--workers many: allowed is a number from 1, or auto", None),
        (["in.txt", "--out", "p", "--engine", "x"], "--engine x: allowed is one of local, ray", None),
        (["A text.", "--out", "p", "--workers", "2"], "A text.: with --workers the input is one file, a text a line",
         "--input in.txt"),
        (["--out", "p", "--workers", "2"], "several workers need an input that can be read again",
         "name a file: --input in.txt"),
        (["--input", "-", "--out", "p", "--workers", "2"], "standard input cannot be read again when the work goes on",
         "save it to a file first"),
        (["in.txt", "--out", "data", "--workers", "2"], "data: holds other files (", "give a new folder as --out"),
        (["in.txt", "--out", "p", "--workers", "2", "--join", "p/x"], "--join p/x: is inside --out p",
         "give a file elsewhere"),
        (["in.txt", "--out", "p", "--workers", "2", "--stream"],
         "--stream and --workers were given; --stream works in one process alone", None),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(command, here, lines, given, message, hint):
    answer = command("predict", TRANSLATION, *given)
    assert answer.code == 2
    told = [line for line in answer.err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert told[0].startswith(f"error: {message}")
    assert told[1:] == ([] if hint is None else [f"hint: {hint}"])
    assert not (here / "p").exists()


def test_a_missing_file_and_a_missing_ray_are_said(command, here, lines, monkeypatch):
    gone = command("predict", TRANSLATION, "--input", "gone.txt", "--out", "p", "--workers", "2")
    assert (gone.code, "error: gone.txt: no such file" in gone.err) == (1, True)
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = command("predict", TRANSLATION, lines, "--out", "p", "--engine", "ray")
    assert answer.code == 1
    assert answer.err.splitlines()[-2:] == [
        "error: --engine ray needs Ray, which is not installed",
        "hint: pip install 'regard[scale]'",
    ]
