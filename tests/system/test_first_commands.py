"""The first commands on a small cut of real data: each plans, trains, and says what costs next to nothing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CUTS = {"trec": 20, "multi30k": 100, "etth1": 20, "digits": 100, "images": 20}


@pytest.fixture
def first_commands(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import first_commands

    monkeypatch.setattr(first_commands, "DATA", data_root)
    return first_commands


@pytest.mark.slow
@pytest.mark.parametrize("case", CUTS)
def test_it_plans_trains_and_ends_honestly(case: str, first_commands: Any, command: Any, tmp_path: Path) -> None:
    words = list(first_commands.CASES[case].words(tmp_path, CUTS[case]))
    if "--minutes" in words:
        words = words[: words.index("--minutes")]
    answer = command("train", *words, "--minutes", "0.15", "train.device=cpu", "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert re.search(r"→ .*parameters, .*steps, about [\d.]+ (s|min) on this CPU", answer.err)
    part, figure = first_commands.CASES[case].figure
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert figure in facts["metrics"][part]
    beside = facts.get("baselines", {}).get(part) or [name for name in facts["metrics"][part] if "naive" in name]
    assert beside
    assert (tmp_path / "run" / "README.md").exists()


def test_every_case_has_a_cut(first_commands: Any) -> None:
    assert set(CUTS) == set(first_commands.CASES) - {"trec-start"}
