"""Predicting loads what predicting needs: no training, nothing that looks or draws, no checkpoints of others."""

import os
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "finished"
MOST = 150
SCRIPT = """
import atexit, sys
def show():
    print("\\n".join(sorted(name for name in sys.modules if name.split(".")[0] in ("regard", "matplotlib", "sklearn"))))
atexit.register(show)
sys.argv = ["regard", "predict", *sys.argv[1:], "--device", "cpu"]
from regard.cli.main import run
run()
"""


def test_predicting_loads_neither_training_nor_looking() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    line = [sys.executable, "-c", SCRIPT, str(GOLDEN / "language"), "the cat"]
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    said, *names = done.stdout.splitlines()
    assert said.startswith("the cat")
    assert "regard.tasks.language.predictor" in names
    heavy = ("regard.training", "regard.inspection", "regard.checkpoints.foreign", "regard.exhibits", "matplotlib",
             "sklearn")  # fmt: skip
    assert [name for name in names if name.startswith(heavy)] == []
    others = [name for name in names if name.startswith("regard.tasks.") and name.endswith((".training", ".setup"))]
    assert others == []
    assert len(names) <= MOST, f"{len(names)} modules are loaded: {names}"
