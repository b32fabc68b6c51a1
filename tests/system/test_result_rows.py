"""Published figures: every row is as its script wrote it, names a command that exists, and knows what it rests on."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def saved(tmp_path, benchmark):
    """A row that a script has just written, in a result folder of its own."""
    record = benchmark("record")
    made = record.row("some model", "WER", 4.2, seeds=[1], recipe="speech/digits-las",
                      command="python benchmarks/speech.py --seeds 1 --save")  # fmt: skip
    record.save("some", [made], root=tmp_path)
    return benchmark("stale").kept(tmp_path)[0]


def digest(benchmark, path: Path, text: str) -> str:
    path.write_text(text)
    return benchmark("inputs").digest(path)


def test_no_published_row_was_changed_by_hand_or_lacks_its_command(benchmark):
    stale = benchmark("stale")
    assert list(stale.faults(stale.kept())) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": 4.1}, "changed by hand"),
        ({"peer_value": 5.0}, "changed by hand"),
        ({"inputs": None}, "changed by hand"),
        ({"inputs": None, "date": "2099-01-01"}, "does not say what it rests on"),
        ({"command": "python benchmarks/nowhere.py --save"}, "benchmarks/nowhere.py is not there"),
        ({"command": "python benchmarks/speech.py --louder"}, "has no --louder"),
        ({"command": "regard train no-such-recipe"}, "no recipe no-such-recipe is shipped"),
        ({"command": "by hand"}, "no command of a script"),
    ],
)
def test_a_row_that_nobody_measured_is_noticed(change, said, saved, benchmark):
    stale = benchmark("stale")
    assert list(stale.faults([saved])) == []
    changed = stale.Kept("some", saved.row | change, None if "inputs" in change else saved.inputs)
    assert any(said in fault for fault in stale.faults([changed]))


def test_a_row_rests_on_its_recipe_and_on_the_modules_that_were_loaded(saved):
    assert {"recipes/speech/digits-las.toml", "src/regard/checkpoints/provenance.py"} <= set(saved.inputs)
    assert not any(name.startswith(("benchmarks/record.py", "tests/")) for name in saved.inputs)


def test_a_row_is_stale_once_a_file_it_rests_on_does_something_else(tmp_path, benchmark):
    stale = benchmark("stale")
    was = digest(benchmark, tmp_path / "part.py", "def half(x):\n    return x / 2\n")
    one = stale.Kept("some", {}, {"part.py": was})
    assert stale.standing(one, root=tmp_path) == ""
    (tmp_path / "part.py").write_text("def half(x):\n    return x // 2\n")
    assert stale.standing(one, root=tmp_path) == "part.py"
    (tmp_path / "part.py").unlink()
    assert stale.standing(one, root=tmp_path) == "part.py"
    assert stale.standing(stale.Kept("some", {}, None)) == "not known"


def test_comments_docstrings_and_layout_are_no_change(tmp_path, benchmark):
    plain = digest(benchmark, tmp_path / "a.py", "def f(x):\n    return {'a': x}\n")
    dressed = '"""What it is."""\n\ndef f(x):  # why\n    """How."""\n    return {\n        "a": x,\n    }\n'
    assert digest(benchmark, tmp_path / "b.py", dressed) == plain
    assert digest(benchmark, tmp_path / "c.py", "def f(x):\n    return {'b': x}\n") != plain
    recipe = digest(benchmark, tmp_path / "a.toml", "[train]\nlr = 0.1\nsteps = 3\n")
    assert digest(benchmark, tmp_path / "b.toml", "# why\n[train]\nsteps = 3\nlr = 0.1\n") == recipe
    kernel = digest(benchmark, tmp_path / "a.h", "int f() { return 1; }\n")
    assert digest(benchmark, tmp_path / "b.h", "// one\nint f() {  /* two */\n  return 1; }") == kernel


def test_figures_from_different_versions_of_a_file_rest_on_neither(benchmark):
    inputs = benchmark("inputs")
    assert inputs.merged([{"a": "1", "b": "2"}, {"a": "1", "c": "3"}]) == {"a": "1", "b": "2", "c": "3"}
    assert inputs.merged([{"a": "1"}, {"a": "2"}])["a"] not in ("1", "2")
    assert inputs.merged([{"a": "1"}, None]) is None


def test_what_other_processes_loaded_counts(monkeypatch, benchmark):
    inputs = benchmark("inputs")
    wanted = "src/regard/data/synthetic/dates.py"
    program = "import regard.data.synthetic.dates"
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.delenv("REGARD_LOADED", raising=False)
    inputs.trace()
    monkeypatch.setenv("REGARD_LOADED", os.environ["REGARD_LOADED"])  # so that it is put back
    subprocess.run([sys.executable, "-c", program], check=True)
    assert wanted in {path.relative_to(ROOT).as_posix() for path in inputs._told()}


def test_a_command_is_typed_as_it_stands(monkeypatch, benchmark):
    record = benchmark("record")
    monkeypatch.delenv("REGARD_COMMAND", raising=False)
    monkeypatch.setattr(record, "DATA", Path("/somewhere/data"))
    script, elsewhere = str(ROOT / "benchmarks" / "words.py"), "/somewhere/else/run"
    monkeypatch.setattr(sys, "argv", [script, "--data", "/somewhere/data/words", elsewhere, "train.lr=1"])
    assert record.command() == "python benchmarks/words.py --data $REGARD_DATA/words run train.lr=1"
    monkeypatch.setenv("REGARD_COMMAND", "python benchmarks/words.py --save")
    assert record.command() == "python benchmarks/words.py --save"


def test_a_row_replaces_its_like_from_another_processor_but_not_from_a_gpu(tmp_path, benchmark):
    record = benchmark("record")
    for machine, value in (("AMD EPYC, 2 cores", 1.0), ("NVIDIA H200", 9.0), ("Intel(R) Xeon(R), 2 cores", 2.0)):
        record.save("some", [record.row("a", "speed", value, hardware=machine)], root=tmp_path)
    told = json.loads((tmp_path / "some.json").read_text())
    assert [r["value"] for r in told["rows"]] == [9.0, 2.0]
    for machine, value in (("AMD EPYC, 2 cores", 40.0), ("NVIDIA H200", 41.0)):
        made = record.row("b", "BLEU", value, hardware=machine, recipe="multi30k-tiny")
        record.save("some", [made], root=tmp_path)
    told = json.loads((tmp_path / "some.json").read_text())
    assert [r["value"] for r in told["rows"]] == [9.0, 2.0, 41.0]
    assert set(told["inputs"]) == {r["inputs"] for r in told["rows"]}


def test_parts_of_a_figure_outlive_the_runs_they_were_measured_on(tmp_path, monkeypatch, benchmark):
    parts = benchmark("parts")
    monkeypatch.setattr(parts, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(parts, "KEPT", tmp_path / "results" / "parts")
    made = parts.Parts(tmp_path / "runs" / "glue")
    for seed in ("1", "2"):
        made.write(("ours", "rte", seed), {"accuracy": 60.0}, seconds=1.0, device="cpu")
    runs = tmp_path / "runs" / "captions" / "mean-1.json"
    parts.kept_part(runs, lambda: {"BLEU-4": 19.0}, recipe=None, collect=False)
    (tmp_path / "runs").rename(tmp_path / "gone")  # another machine, another checkout
    assert parts.Parts(tmp_path / "runs" / "glue").due([("ours", "rte", "2"), ("ours", "rte", "3")]) == [
        ("ours", "rte", "3")
    ]
    assert made.read(("ours", "rte", "1"))["figures"] == {"accuracy": 60.0}
    assert "benchmarks/parts.py" not in made.inputs([("ours", "rte", "1")])
    assert parts.kept_part(runs, lambda: pytest.fail("measured again"), recipe=None, collect=False)["BLEU-4"] == 19.0
    assert len(list((tmp_path / "results" / "parts" / "glue" / "inputs").iterdir())) == 1  # both rest on the same


def test_every_listed_command_exists_and_the_gpus_take_less_than_ten_minutes(benchmark):
    stale, commands = benchmark("stale"), benchmark("commands")
    for device in ("cpu", "cuda"):
        entries = commands.listed(device)
        assert [problem for entry in entries if (problem := stale._impossible(entry.run, ROOT))] == []
        assert len({entry.run for entry in entries}) == len(entries)
        assert all("--save" in entry.run or entry.part for entry in entries)
    assert all(entry.minutes < 10 for entry in commands.listed("cuda"))


def test_measuring_goes_on_where_it_stopped(monkeypatch, benchmark):
    measure, commands = benchmark("measure"), benchmark("commands")
    part, end, other = (commands.Listed(f"python {name}", 1, part=name == "part") for name in ("part", "end", "other"))
    monkeypatch.setattr(measure, "reason", lambda entry: "stale")
    assert [e.run for e, _ in measure.due([part, end, other], {})] == [part.run, end.run, other.run]
    assert [e.run for e, _ in measure.due([part, end, other], {part.run: {"status": 0}})] == [end.run, other.run]
    assert [e.run for e, _ in measure.due([end, other], {end.run: {"status": 1}})] == [other.run, end.run]
    monkeypatch.setattr(measure, "reason", lambda entry: None if entry == end else "stale")
    assert [e.run for e, _ in measure.due([part, end, other], {})] == [other.run]


@pytest.mark.parametrize(
    ("ours", "theirs", "less", "verdict"),
    [
        ([60.9, 61.7, 60.1], [57.6, 58.0, 57.2], False, "above"),
        ([60.9, 61.7, 60.1], [57.6, 58.0, 57.2], True, "below"),
        ([1.59, 1.60, 1.58], [1.88, 1.90, 1.86], True, "above"),
        ([12.9, 13.4, 12.4], [12.6, 12.7, 12.5], False, "no difference seen"),
        ([60.9], [57.6], False, None),
    ],
)
def test_a_row_claims_no_more_than_its_seeds_allow(ours, theirs, less, verdict, benchmark):
    assert benchmark("record").beside(ours, theirs, less=less)["verdict"] == verdict


def test_tables_say_what_is_unlike_what_was_chosen_on_and_what_rests_on_one_seed(benchmark):
    facts = {"metric": "BLEU", "value": 40.0, "unit": None, "spread": None, "peer": "others", "peer_value": 41.0,
             "hardware": "a machine", "recipe": "some"}  # fmt: skip
    rows = [
        facts | {"name": "a", "seeds": [1], "unlike": "they read twice", "chosen_on": "a tenth"},
        facts | {"name": "b", "seeds": [1, 2], "spread": 0.5, "peer_spread": 0.7, "verdict": "no difference seen"},
        facts | {"name": "c", "seeds": None, "deterministic": True, "peer": None},
    ]
    assert benchmark("tables")._list(rows) == [
        "| what | figure | against | chosen on | machine |",
        "|---|---|---|---|---|",
        "| a | BLEU **40**, one seed | others: 41 (*they read twice*) | a tenth | a machine |",
        "| b | BLEU **40** ± 0.5 | others: 41 ± 0.7 (*no difference seen*) | – | a machine |",
        "| c | BLEU **40** | – | – | a machine |",
    ]
