"""Who imports whom: no cycles, any module first, no folder that is a drawer; and the switch keeps `fast` out."""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import regard

ROOT = Path(regard.__file__).parent
FILES = {path: ".".join(("regard", *path.relative_to(ROOT).with_suffix("").parts)) for path in ROOT.rglob("*.py")}
MODULES = {name.removesuffix(".__init__") for name in FILES.values()}


def imported_first(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """What runs when the module is imported: neither in functions, nor for type checkers only."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
        elif isinstance(node, ast.If | ast.Try | ast.With):
            pending += [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]


def imports(path: Path) -> set[str]:
    """The modules of regard that a file names at its top level; a package stands for its own file."""
    named = set()
    for node in imported_first(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{path}: imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                named.add(whole if whole in MODULES else str(node.module))
    return named & MODULES


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {name.removesuffix(".__init__"): imports(path) for path, name in FILES.items()}
    assert len(graph) > 300
    order = list(TopologicalSorter(graph).static_order())  # raises a CycleError that names the cycle
    assert order.index("regard.attention.masks") < order.index("regard.attention.core") < order.index("regard")


def test_no_folder_is_a_drawer() -> None:
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in FILES)
    assert {folder: n for folder, n in sizes.items() if n > 24} == {}


@pytest.mark.slow
def test_every_module_can_be_imported_first() -> None:
    """Each in a process of its own, forked from one that has what is not ours."""
    script = """
import importlib, os, sys, torch, numpy, tokenizers, pydantic, sklearn.base
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as problem:
            os._exit(0 if not problem.name.startswith("regard") else 1)
        except BaseException as problem:
            print(name, repr(problem), flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} cannot be imported first")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, *sorted(MODULES - {"regard.__main__"})], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_switched_off_nothing_of_fast_is_imported(tmp_path: Path) -> None:
    script = f"""
import sys
from regard.cli.main import app
from typer.testing import CliRunner
def regard(*line):
    done = CliRunner().invoke(app, [*map(str, line)])
    assert done.exit_code == 0, done.output
    return done.output
run = {str(tmp_path / "run")!r}
pairs = {str(tmp_path / "pairs.tsv")!r}
with open(pairs, "w") as file:
    file.writelines(f"a{{i % 7}} b{{i % 5}}\\tb{{i % 5}} a{{i % 7}}\\n" for i in range(200))
regard("train", "translation", "--train", pairs, "--valid", pairs, "model.name=transformer", "model.d_model=16",
       "model.n_heads=2", "model.d_feedforward=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1",
       "data.overlap=keep", "data.duplicate=keep", "tokenizer.kind=words", "train.steps=4", "train.eval_every=2",
       "train.r_drop=1.0", "train.device=cpu", "--out", run)
assert regard("predict", run, "a1 b2")
assert "BLEU" in regard("evaluate", run, "--data", pairs)
assert "holds" in regard("verify", run, "--n", "3", "--data", pairs)
seen = [name for name in sys.modules if name.startswith("regard.fast")]
assert not seen, seen
"""
    environment = {**os.environ, "REGARD_FAST": "0", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
