"""What a newcomer meets first: importing, the command, its mistakes, and a README that tells the truth."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("matplotlib", "transformers", "fastapi", "sklearn", "tokenizers", "typer", "rich", "pydantic")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from regard.cli.main import run; run()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_import_loads_nothing_heavy():
    loaded = python("import sys, regard; print(' '.join(sys.modules))").stdout.split()
    assert "torch" in loaded
    assert not set(HEAVY) & set(loaded)


def test_import_takes_little_longer_than_torch():
    def seconds(module: str) -> float:
        """Of processor time, which other tests at work on the same cores change little."""
        return float(python(f"import time, {module}; print(time.process_time())").stdout)

    pairs = [(seconds("regard"), seconds("torch")) for _ in range(5)]
    assert min(ours for ours, _ in pairs) <= min(theirs for _, theirs in pairs) + 0.3


def test_every_public_name_is_there_and_an_unknown_one_is_not():
    import regard

    for name in regard.__all__:
        assert getattr(regard, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'atention'"):
        _ = regard.atention


def test_version_is_the_packages():
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert command("--version").stdout == f"regard {declared}\n"


def test_an_unknown_command_is_one_line_and_a_hint():
    result = command("trian")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "error: No such command 'trian'" in result.stderr
    assert "hint:" in result.stderr
    assert "Traceback" not in result.stderr


def test_readme_tables_are_the_recorded_results():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from tables import render
    finally:
        sys.path.pop(0)
    text = (ROOT / "README.md").read_text()
    assert "<!-- table" in text
    assert render(text) == text, "run `make tables`"


def test_a_table_may_show_rows_of_one_metric_by_their_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from tables import render

    facts = {"unit": None, "spread": None, "peer": None, "hardware": "a machine"}
    rows = [{"name": name, "metric": metric, "value": 0.5} | facts
            for name in ("one, far", "two, far", "another") for metric in ("mse", "mae")]  # fmt: skip
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    text = render("<!-- table some mse: one, anoth -->\n<!-- end -->", results=tmp_path)
    assert [line.split(" | ")[0] for line in text.splitlines()[3:-1]] == ["| one, far", "| another"]
    assert len(render("<!-- table some -->\n<!-- end -->", results=tmp_path).splitlines()) == 2 + 2 + 6


def test_a_grid_has_a_line_for_each_name_and_peer_and_a_column_for_each_metric(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from tables import render

    def fact(name: str, metric: str, value: float, **more: object) -> dict[str, object]:
        return {"name": name, "metric": metric, "value": value, "spread": None, "peer": None, "peer_value": None} | more

    rows = [fact("with", "BLEU", 30.0, spread=1.5, peer="others", peer_value=40.0), fact("with", "CIDEr", 50.0),
            fact("without", "BLEU", 20.0), fact("else", "time", 1.0)]  # fmt: skip
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    told = render("<!-- grid some: with -->\n<!-- end -->", results=tmp_path).splitlines()
    assert told[1:-1] == [
        "|  | BLEU | CIDEr |",
        "|---|---|---|",
        "| with | 30 ± 1.5 | 50 |",
        "| without | 20 | – |",
        "| others | 40 | – |",
    ]


def test_readme_links_and_pictures_exist():
    text = (ROOT / "README.md").read_text()
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    assert any(t.endswith(".png") for t in targets), "the README shows a picture"
    missing = [t for t in targets if not (ROOT / t).exists()]
    assert not missing
