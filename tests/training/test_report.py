"""What a run says: lines for machines that survive a kill, lines for people on stderr, nothing from other processes."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from regard.checkpoints.run import RunFolder
from regard.training.report import Reporter


def reporter(folder: Path, *, speaks: bool = True, tensorboard: bool = False, unit: str = "tokens") -> Reporter:
    return Reporter(RunFolder(folder), steps=100, speaks=speaks, tensorboard=tensorboard, unit=unit)


def steps_in(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_run_forgets_what_its_checkpoint_does_not_know(tmp_path: Path) -> None:
    first = reporter(tmp_path)
    first.start(0)
    for step in (5, 10, 10, 15):
        first.metrics(step, {"loss": 1 / step})
    first.stop()
    again = reporter(tmp_path)
    again.start(10)
    assert steps_in(tmp_path) == [5, 10, 10]
    again.metrics(15, {"loss": 0.25})
    assert steps_in(tmp_path) == [5, 10, 10, 15]
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1]) == {"step": 15, "loss": 0.25}
    reporter(tmp_path).start(0)
    assert steps_in(tmp_path) == []


@pytest.mark.parametrize("torn", ['{"step": 10, "lo', '{"loss": 3.0}', "[1, 2]", '"step"', "\x00\x00\x00"])
def test_a_torn_line_is_dropped(tmp_path: Path, torn: str) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 5, "loss": 2.0}\n' + torn)
    again = reporter(tmp_path)
    again.start(20)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 5, "loss": 2.0}\n'
    again.metrics(25, {"loss": 1.0})
    assert steps_in(tmp_path) == [5, 25]


def test_one_json_object_a_line_and_a_plain_line_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = reporter(tmp_path)
    told.start(0)
    told.metrics(5, {"loss": 1.23456789012, "epoch": 2, "lr": 1e-4})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "step": 5,
        "loss": 1.2345679,
        "epoch": 2,
        "lr": 1e-4,
    }
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "step 5/100  loss 1.235  epoch 2  rate 0.0001  1 s left\n"


def test_figures_are_told_in_words_and_speed_in_what_the_task_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = reporter(tmp_path, unit="images")
    told.metrics(5, {"loss": 1.0, "nll": 0.9, "tokens_per_second": 1234.5})
    told.metrics(100, {"valid_nll": 2.0, "bleu": 31.25, "minus_loss": -2.0, "valid_log_likelihood": -2.0})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("step 5/100  loss 1  1,234 images/s")
    assert lines[1] == "step 100/100  validation loss 2  BLEU 31.25"
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])["nll"] == 0.9


def test_where_nothing_is_reported_for_a_while_a_step_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    told = reporter(tmp_path)
    told.start(0)
    for step, at in ((1, 101.0), (2, 103.0), (3, 104.0), (4, 140.0)):
        now[0] = at
        told.tick(step)
    assert capsys.readouterr().err.splitlines() == ["step 2/100  2 min left", "step 4/100  58 min left"]


def test_on_sixty_columns_the_bar_stays_on_its_line(tmp_path: Path) -> None:
    told = reporter(tmp_path)
    screen = io.StringIO()
    told.console = Console(file=screen, force_terminal=True, width=60, highlight=False)
    told.start(0)
    told.tick(1)
    told.metrics(50, {"loss": 1.0, "lr": 1e-3, "tokens_per_second": 123456.0, "epoch": 12})
    told.stop()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()
    assert max(map(len, shown)) <= 60
    assert any("50/100" in line and "loss 1" in line for line in shown)


def test_only_the_first_process_speaks_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 5}\n')
    silent = reporter(tmp_path, speaks=False, tensorboard=True)
    silent.start(0)
    silent.metrics(5, {"loss": 1.0})
    silent.samples(5, [("a", "b", "c")])
    silent.say("hello")
    silent.stop()
    assert capsys.readouterr() == ("", "")
    assert steps_in(tmp_path) == [5]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_samples_can_be_read_and_are_cut_short_for_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = reporter(tmp_path)
    told.samples(3, [("[bold]ein[/] Hund", "a dog", "x" * 200), ("zwei", "two", "2")])
    text = (tmp_path / "samples" / "step-00000003.txt").read_text()
    first = f"source     [bold]ein[/] Hund\nreference  a dog\nmodel      {'x' * 200}\n"
    assert text == first + "\nsource     zwei\nreference  two\nmodel      2\n"
    assert capsys.readouterr().err == f"  [bold]ein[/] Hund → {'x' * 99}…\n"
    told.samples(4, [])
    assert not (tmp_path / "samples" / "step-00000004.txt").exists()


def test_tensorboard_has_the_same_figures_and_no_step_twice(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for start, steps in ((0, (5, 10, 15)), (10, (15, 20))):
        told = reporter(tmp_path, tensorboard=True)
        told.start(start)
        for step in steps:
            told.metrics(step, {"loss": float(step + start)})
        told.stop()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(5, 5), (10, 10), (15, 25), (20, 30)]
