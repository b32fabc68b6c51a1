"""Which changes to the source does no test notice? A tool for people; pytest does not collect it.

    python tests/mutants.py [--n 100] [--seed 1] [--rooms attention layers …] [--jobs 2] [--only file:line …]

A seed chooses places by their syntax, as many in each room: a comparison turned, + and - or * and / exchanged, a number
or a truth changed, a condition that always holds (or never, where it guards an error), a line left out. Each change is
made in a copy of the tree, and the quick tests of its neighbourhood are run until one fails: those that import the
module, that are named like it, or that stand in the folder that mirrors its own. The tests that noticed something are
run once more without any change, where they have to pass. Prints a line a change, and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
from pathlib import Path
from random import Random

import pytest
import sacrebleu  # noqa: F401 - imported before the forks, like much that tests import
import tokenizers  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).parent.parent
ROOMS = ("attention", "layers", "models", "decoding", "metrics", "data", "tasks", "training", "checkpoints")
ALSO = {"models": "contract"}  # rooms whose tests stand in another folder as well
LEFT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "results")
MOST = 10  # files of tests a change
LOG = ".tests.log"
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


@dataclass(frozen=True)
class Mutant:
    """A change: from byte `begin` to byte `end` of a file it says `new` instead of `old`."""

    file: str
    line: int
    kind: str
    old: str
    new: str
    begin: int
    end: int


@dataclass(frozen=True)
class Outcome:
    """What became of it: noticed by a test, survived, out of time or not run."""

    mutant: Mutant
    end: str
    by: str = ""


@dataclass(frozen=True)
class Attempt:
    """A change that is being tested in a tree, which held `source` before."""

    mutant: Mutant
    tree: Path
    source: bytes
    pid: int
    until: float


def main() -> None:
    options = _parser().parse_args()
    if options.only:
        chosen = [mutant for place in options.only for mutant in _at(place)]
    else:
        chosen = choose(options.rooms, n=options.n, seed=options.seed)[options.after :]
    outcomes = list[Outcome]()
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder) / str(job) for job in range(options.jobs)]
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=LEFT)
        for outcome in _outcomes(chosen, list(trees), options.limit):
            outcomes.append(outcome)
            where = f"{outcome.mutant.file}:{outcome.mutant.line}"
            print(
                f"{outcome.end:12} {where}  {outcome.mutant.old!r} → {outcome.mutant.new!r}  {outcome.by}", flush=True
            )
        flawed = _failing(trees[0], sorted({outcome.by for outcome in outcomes if outcome.by}))
    survivors = [asdict(outcome.mutant) for outcome in outcomes if outcome.end != "noticed" or outcome.by in flawed]
    print(json.dumps({"tried": len(outcomes), "survived": len(survivors), "flawed": flawed, "survivors": survivors}))


def _outcomes(chosen: list[Mutant], free: list[Path], limit: float) -> Iterator[Outcome]:
    """Try changes, one a tree at a time."""
    waiting, running = chosen[::-1], list[Attempt]()
    while waiting or running:
        while waiting and free:
            running.append(_start(waiting.pop(), free.pop(), limit))
        for attempt in list(running):
            if outcome := _ended(attempt):
                running.remove(attempt)
                free.append(attempt.tree)
                yield outcome
        time.sleep(0.05)


def choose(rooms: list[str], *, n: int, seed: int) -> list[Mutant]:
    """So many changes, shared out among the rooms, their files and the kinds of change."""
    random, chosen = Random(seed), list[Mutant]()
    files = {room: sorted((ROOT / "src/regard" / room).rglob("*.py")) for room in rooms}
    while len(chosen) < n:
        for room in rooms:
            places = list(mutants_in(random.choice(files[room])))
            if kinds := sorted({place.kind for place in places}):
                kind = random.choice(kinds)
                place = random.choice([place for place in places if place.kind == kind])
                chosen += [place] if place not in chosen else []
    return chosen[:n]


def mutants_in(path: Path) -> Iterator[Mutant]:
    """Every change that can be made to the functions of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _inside(ast.parse(source)):
        for kind, place, new in _changes(node):
            assert place.end_lineno is not None
            assert place.end_col_offset is not None
            begin, end = (
                starts[place.lineno - 1] + place.col_offset,
                starts[place.end_lineno - 1] + place.end_col_offset,
            )
            old = re.sub(r"\s+", " ", source[begin:end].decode())
            yield Mutant(str(path.relative_to(ROOT)), place.lineno, kind, old, new, begin, end)


def _inside(tree: ast.AST, *, within: bool = False) -> Iterator[ast.AST]:
    """The nodes of functions' bodies, without texts, errors, assertions and annotations."""
    if isinstance(tree, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if within:
        yield tree
    if isinstance(tree, ast.FunctionDef):
        for statement in tree.body:
            made = tree.name == "__init__"  # nothing works without what is assigned there
            value = statement.value if made and isinstance(statement, ast.Assign) else statement
            yield from _inside(value, within=True)
        return
    for name, value in ast.iter_fields(tree):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns", "decorator_list"):
                yield from _inside(child, within=within)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """What can be made of one node: the kind, what is replaced, and by what."""
    match node:
        case ast.Compare(left, [operator], comparators) if type(operator) in COMPARED:
            yield "comparison", node, f"({ast.unparse(ast.Compare(left, [COMPARED[type(operator)]()], comparators))})"
        case ast.BinOp(ast.Constant(str()), _, _) | ast.BinOp(_, _, ast.Constant(str())):
            return
        case ast.BinOp(left, operator, right) if type(operator) in COMPUTED:
            yield "arithmetic", node, f"({ast.unparse(ast.BinOp(left, COMPUTED[type(operator)](), right))})"
        case ast.Constant(bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(int(value) | float(value)):
            yield "constant", node, str(value + 1 if isinstance(value, int) else value * 2 or 1.0)
        case ast.If(test, body, []):
            yield "guard", test, str(not isinstance(body[-1], ast.Raise))
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "line", node, "pass"


def neighbours(file: str, tree: Path) -> list[str]:
    """The tests that are about a source file, the nearest first."""
    parts = Path(file).with_suffix("").parts[2:]
    module, room = re.compile(rf"{re.escape('.'.join(('regard', *parts)))}\b"), tree / "tests" / parts[0]
    mirror, also = tree.joinpath("tests", *parts[:-1]), tree / "tests" / ALSO.get(parts[0], parts[0])

    def distance(test: Path) -> int | None:
        named, imports = parts[-1] in test.stem, module.search(test.read_text(encoding="utf-8")) is not None
        if room in test.parents and (named or imports):
            return 0 if named and imports else 1
        return 2 if imports else 3 if test.parent in (mirror, also) else None

    tests = sorted(
        path for path in (tree / "tests").rglob("test_*.py") if tree / "tests" / "system" not in path.parents
    )
    near = sorted((far, test) for test in tests if (far := distance(test)) is not None)
    return [str(test.relative_to(tree)) for _, test in near[:MOST]]


def _start(mutant: Mutant, tree: Path, limit: float) -> Attempt:
    """Make the change in a tree, and fork its tests."""
    path = tree / mutant.file
    source = path.read_bytes()
    _write(path, source[: mutant.begin] + mutant.new.encode() + source[mutant.end :])
    tests = ["-m", "not slow and not gpu", *neighbours(mutant.file, tree)]
    return Attempt(mutant, tree, source, _fork(tree, tests), time.monotonic() + limit)


def _ended(attempt: Attempt) -> Outcome | None:
    """What became of a change, which is undone then; None while its tests run."""
    done, status = os.waitpid(attempt.pid, os.WNOHANG)
    late = not done and time.monotonic() > attempt.until
    if not done and not late:
        return None
    if late:
        os.killpg(attempt.pid, signal.SIGKILL)
        os.waitpid(attempt.pid, 0)
    _write(attempt.tree / attempt.mutant.file, attempt.source)
    if late:
        return Outcome(attempt.mutant, "out of time")
    code = os.waitstatus_to_exitcode(status)
    if code != 1:  # 5: there were no tests; anything else: they could not be run, and say nothing
        return Outcome(attempt.mutant, "survived" if code in (0, 5) else "not run")
    found = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", (attempt.tree / LOG).read_text(), re.MULTILINE)
    return Outcome(attempt.mutant, "noticed", found[1] if found else "")


def _fork(tree: Path, arguments: list[str]) -> int:
    """Run pytest over a tree, in a process of its own that has imported already what all tests import."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.chdir(tree)
        log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ["PYTHONPATH"] = str(tree / "src")
        sys.path.insert(0, str(tree / "src"))
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE", *arguments]))
    finally:
        os._exit(code)


def _write(path: Path, source: bytes) -> None:
    """Write a source file, and forget what was compiled of it: its time and size may be the same."""
    path.write_bytes(source)
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _failing(tree: Path, tests: list[str]) -> list[str]:
    """Those that fail without any change: they say nothing."""

    def fails(tests: list[str]) -> bool:
        return os.waitpid(_fork(tree, tests), 0)[1] != 0

    return [test for test in tests if fails([test])] if fails(tests) else []


def _at(place: str) -> list[Mutant]:
    """All changes of a line, given as file:line."""
    file, line = place.rsplit(":", 1)
    return [mutant for mutant in mutants_in(ROOT / file) if mutant.line == int(line)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Change the source, and see whether a test notices.")
    parser.add_argument("--n", type=int, default=100, help="how many changes")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, choices=ROOMS, help="where")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--limit", type=float, default=240, help="seconds that the tests of a change may take")
    parser.add_argument("--after", type=int, default=0, help="leave out so many of them")
    parser.add_argument("--only", nargs="+", metavar="FILE:LINE", help="all changes of these lines instead")
    return parser


if __name__ == "__main__":
    main()
