"""What a measured figure rests on: the scripts, recipes and modules of regard that took part, each with a digest.

    here()                       {"src/regard/attention/core.py": "3f0c…", "benchmarks/words.py": …} of this process
    merged([one, other])         of several processes; a file that changed in between is told apart from every version
    changed(inputs)              which of these files are no longer what they were

A digest is taken of what the code does: comments, docstrings and layout do not count, and neither does the version of
Python that reads it. The modules are those that are loaded when a figure is kept, so code that was never asked for is
not among them. Processes that a benchmark starts hand theirs on through a folder, `REGARD_LOADED` (`trace`).
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS, SOURCE, RECIPES = ROOT / "benchmarks", ROOT / "src", ROOT / "recipes"
KEEPERS = {"inputs.py", "record.py", "parts.py", "tables.py", "stale.py", "measure.py"}  # they measure nothing
NATIVE = "regard.fast.cpu.native"  # where C++ lies beside the module that compiles it
LOADED = "REGARD_LOADED"
MIXED = "mixed"  # parts of one figure were measured with different versions of a file
_LENGTH = 12  # characters of a digest

Inputs = dict[str, str]


def here(recipe: str | None = None) -> Inputs:
    """The files of this process and of those it traced, and the recipes of that name (`labels/*` is several)."""
    modules = _loaded() | _told()
    files = {*modules, *_native(modules), *recipe_files(recipe)}
    return {path.relative_to(ROOT).as_posix(): digest(path) for path in sorted(files) if path.is_file()}


def merged(several: Iterable[Inputs | None]) -> Inputs | None:
    """The inputs of a figure that was put together from others; nothing where one of them is not known."""
    together: Inputs = {}
    for inputs in several:
        if inputs is None:
            return None
        for name, found in inputs.items():
            together[name] = found if together.get(name, found) == found else MIXED
    return together


def changed(inputs: Inputs, *, root: Path = ROOT) -> list[str]:
    """The files that are not what they were, or are gone."""
    return [name for name, was in inputs.items() if not (root / name).exists() or digest(root / name) != was]


def digest(path: Path) -> str:
    """What a file says, as code or as settings; two files that do the same have the same."""
    return _digest(path, path.stat().st_mtime_ns)


@cache
def _digest(path: Path, _changed: int) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        said = _spelled(_without_docstrings(ast.parse(text)))
    elif path.suffix == ".toml":
        said = json.dumps(tomllib.loads(text), sort_keys=True, default=str)
    else:
        said = " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).split())
    return short(said)


def short(text: str) -> str:
    """The beginning of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def recipe_files(recipe: str | None) -> list[Path]:
    """The shipped recipes of a name: `language/wikitext2`, `multi30k-tiny` or `labels/*`."""
    if not recipe:
        return []
    return sorted(RECIPES.glob(f"{recipe}.toml" if "/" in recipe else f"*/{recipe}.toml"))


def trace() -> None:
    """From now on, Pythons that this process starts tell what they loaded: `benchmarks/tracing/sitecustomize.py`."""
    if LOADED in os.environ:  # somebody above asks already
        return
    os.environ[LOADED] = tempfile.mkdtemp(prefix="regard-loaded-")
    atexit.register(shutil.rmtree, os.environ[LOADED], ignore_errors=True)
    paths = [str(BENCHMARKS / "tracing"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def _told() -> set[Path]:
    """What processes that were traced loaded."""
    folder = os.environ.get(LOADED)
    return _read(Path(folder)) if folder else set()


def _read(folder: Path) -> set[Path]:
    lines = (line for file in folder.glob("*.txt") for line in file.read_text(encoding="utf-8").splitlines())
    return {path for line in lines if (path := _place(*line.split("\t", 1))) is not None}


def _loaded() -> set[Path]:
    """The modules of regard and the benchmarks that this process has loaded."""
    named = [(name, getattr(module, "__file__", None)) for name, module in sorted(sys.modules.items())]
    return {path for name, file in named if file and (path := _place(name, file)) is not None}


def _native(found: set[Path]) -> set[Path]:
    """The C++ that some of these modules compile."""
    folder = SOURCE / NATIVE.replace(".", "/")
    if not any(folder in path.parents for path in found):
        return set()
    return {path for path in folder.rglob("*") if path.suffix in (".h", ".cpp")}


def _place(module: str, file: str) -> Path | None:
    """Where a module lies in this checkout; an installed regard has its place here too."""
    path = Path(file).resolve()
    if module == "regard" or module.startswith("regard."):
        path = SOURCE / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        return path if path.exists() else None
    return path if path.parent == BENCHMARKS and path.name not in KEEPERS else None


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
                node.body = body[1:]
    return tree


def _spelled(node: object) -> str:
    """A tree as text. What is absent or empty is left out: versions of Python differ in what they add of that."""
    if isinstance(node, ast.JoinedStr):  # Python 3.12 ends some of them with an empty text
        node = ast.JoinedStr([part for part in node.values if getattr(part, "value", None) != ""])
    if isinstance(node, ast.AST):
        parts = [f"{name}={_spelled(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return f"[{','.join(map(_spelled, node))}]"
    return repr(node)
