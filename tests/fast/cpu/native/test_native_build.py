"""Kernels are compiled once, by anyone, at the same time, and what cannot be had is said and done without."""

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from regard.fast.cpu.native import build, loaded, loading, why
from regard.fast.cpu.native.loading import Kernels
from regard.fast.cpu.packed_linear import PackedLinear, pack_linears

FROM_A_PROCESS = """
import torch
from regard.fast.cpu.native import NativeLinear, loaded, why
kernels = loaded()
assert kernels is not None, why()
rows = torch.arange(12.0).view(2, 6)
assert torch.equal(NativeLinear(kernels, torch.eye(6))(rows), rows)
"""


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has loaded nothing, with an empty cache."""
    monkeypatch.setattr(loading, "_outcomes", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "regard" / "native"


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The kernels, compiled once for all tests."""
    path, reason = build.built(folder=tmp_path_factory.mktemp("kernels"))
    if path is None:
        pytest.skip(reason)
    return path


def compiler(folder: Path, script: str) -> str:
    """A compiler of our own, which has a version and does as the script says; `$last` is where its result belongs."""
    path = folder / "a-compiler"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit 0\nfor last; do :; done\n{script}\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def quick_compiler(fresh, once, monkeypatch, tmp_path):
    """Hands out the same result every time, a little later."""
    monkeypatch.setenv("CXX", compiler(tmp_path, f'sleep 0.3; cp {once} "$last"'))


@pytest.fixture
def compiled(quick_compiler):
    return build.built()[0]


def test_the_second_time_it_is_there(compiled):
    before = compiled.stat().st_mtime_ns
    assert build.built() == (compiled, "")
    assert compiled.stat().st_mtime_ns == before
    assert [path.name for path in compiled.parent.iterdir()] == [compiled.name], "nothing is left lying about"
    assert loaded() is not None
    assert why() == ""


@pytest.mark.parametrize("damage", ["cut short", "one byte", "nonsense", "empty"])
def test_a_damaged_file_is_made_again(compiled, damage):
    whole = compiled.read_bytes()
    changed = whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]
    compiled.write_bytes(
        {"cut short": whole[:-100], "one byte": changed, "nonsense": b"no library", "empty": b""}[damage]
    )
    assert loaded() is not None
    assert Kernels(compiled).bits in (7, 8)
    assert len(compiled.read_bytes()) >= len(whole) - 100


def test_a_whole_file_that_does_not_load_is_made_again(compiled):
    compiled.write_bytes(b"no library" + build._MARK + hashlib.sha256(b"no library").digest())
    assert loaded() is not None


def test_other_sources_other_name(compiled, monkeypatch, tmp_path):
    others = tmp_path / "sources"
    shutil.copytree(build.SOURCES, others)
    monkeypatch.setattr(build, "SOURCES", others)
    assert build.built() == (compiled, "")
    (others / "lanes.h").write_text("// changed")
    assert build.built()[0] != compiled


def test_another_processor_another_name(compiled, monkeypatch):
    monkeypatch.setattr(build, "_processor", lambda: "another")
    assert build.built()[0] != compiled


def test_another_version_of_the_compiler_another_name(compiled, tmp_path):
    script = tmp_path / "a-compiler"
    script.write_text(script.read_text().replace("echo 1 ", "echo 2 "))
    assert build.built()[0] != compiled


@pytest.mark.usefixtures("quick_compiler")
def test_processes_at_the_same_time(fresh):
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen([sys.executable, "-c", FROM_A_PROCESS], env=env, stderr=subprocess.PIPE) for _ in "12"]
    for process in started:
        _, told = process.communicate(timeout=120)
        assert process.returncode == 0, told.decode()
    assert len(list(fresh.iterdir())) == 1


def test_without_a_compiler_pytorch_does_it(fresh, monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    assert loaded() is None
    assert why() == "CXX is '/nowhere/c++', which is no command"
    layer = PackedLinear(torch.randn(8, 16), None, precision="int8")
    assert layer.native is None
    rows = torch.randn(3, 16)
    assert (layer(rows) - rows @ layer.weight.T).norm() / (rows @ layer.weight.T).norm() < 0.05


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('echo "x.h:1: fatal error: no x" >&2; exit 1', "failed: x.h:1: fatal error: no x"),
        ("exit 3", "failed: exit code 3"),
        ('echo half > "$last"; kill -9 $$', "was killed (SIGKILL)"),
        ('echo no > "$last"', "does not load"),
    ],
)
def test_compilers_that_fail(fresh, monkeypatch, tmp_path, script, reason):
    monkeypatch.setenv("CXX", compiler(tmp_path, script))
    assert loaded() is None
    assert reason in why()
    assert not list(fresh.glob("making-*")), "nothing is left lying about"
    assert pack_linears(torch.nn.Sequential(torch.nn.Linear(4, 4)))[0].native is None


def test_a_process_that_was_killed_while_it_compiled(fresh, once, monkeypatch, tmp_path):
    """Its draft is never taken for a library, and the next one that compiles clears it away once it is old."""
    monkeypatch.setenv("CXX", compiler(tmp_path, 'echo half > "$last"; sleep 60'))
    command = [sys.executable, "-c", "from regard.fast.cpu.native import loaded; loaded()"]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, start_new_session=True)
    for _ in range(600):
        if any(draft.stat().st_size for draft in fresh.glob("making-*.so")):
            break
        time.sleep(0.1)
    os.killpg(process.pid, 9)
    process.wait()
    (draft,) = fresh.iterdir()
    monkeypatch.setenv("CXX", compiler(tmp_path, f'cp {once} "$last"'))
    path, _ = build.built()
    assert draft.exists(), "another process may still be at it"
    os.utime(draft, (1, 1))
    path.unlink()
    assert build.built() == (path, "")
    assert list(fresh.iterdir()) == [path]


def test_a_command_that_is_no_compiler(fresh, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    assert loaded() is None
    assert why() == "false does not run"


def test_a_cache_that_cannot_be_written(fresh, monkeypatch, tmp_path):
    (tmp_path / "regard").write_text("a file where the folder would be")
    assert loaded() is None
    assert "cannot be written" in why() or "compiler" in why()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_home_that_is_read_only(fresh, quick_compiler, monkeypatch, number):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert loaded() is None
    assert why() == f"{fresh} cannot be written: {os.strerror(number)}"
    layer = pack_linears(torch.nn.Sequential(torch.nn.Linear(4, 4)))[0]
    assert layer.native is None
    assert layer(torch.ones(1, 4)).shape == (1, 4)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_home_without_the_right_to_write(fresh, quick_compiler, tmp_path):
    tmp_path.chmod(0o500)
    try:
        assert loaded() is None
        assert "cannot be written" in why()
    finally:
        tmp_path.chmod(0o700)


def test_what_is_there_is_used_though_nothing_can_be_written(compiled, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(build.tempfile, "mkstemp", refuse)
    assert build.built() == (compiled, "")


def test_no_home_at_all(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert build.built()[0] is None


def test_a_cache_in_the_folder_one_happens_to_be_in_is_not_asked_for(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert build.cache_folder() == Path.home() / ".cache" / "regard" / "native"


@pytest.mark.parametrize("value", ["0", "off"])
def test_switched_off(monkeypatch, value):
    monkeypatch.setenv("REGARD_NATIVE", value)
    assert loaded() is None
    assert loading.at_hand() is None
    assert why() == f"REGARD_NATIVE={value} switches them off"


def test_a_processor_named_in_the_environment_is_the_one_they_are_for(fresh, monkeypatch):
    monkeypatch.setattr(loading, "_load", lambda machine: loading._Outcome(None, f"made for {machine}"))
    assert why() == "made for native"
    monkeypatch.setenv("REGARD_NATIVE", "haswell")
    assert why() == "made for haswell"
    monkeypatch.setenv("REGARD_NATIVE", "1")
    assert why() == "made for native"


def test_another_processor(fresh, monkeypatch):
    monkeypatch.setattr(loading.platform, "machine", lambda: "riscv64")
    assert loaded() is None
    assert why() == "the kernels are for x86-64, and this is riscv64"


def test_where_there_is_a_compiler_there_are_kernels():
    """A mistake in the sources would otherwise go unseen: everything works without them."""
    if isinstance(build.find_compiler(), str) or "avx2" not in build._processor():
        pytest.skip("no compiler, or no AVX2")
    assert loaded() is not None, why()
    assert loaded(machine="haswell") is not None, why(machine="haswell")


def test_nothing_is_compiled_by_importing(fresh):
    code = "import regard, regard.layers, regard.models.transformer, regard.fast.cpu.native"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
    assert not fresh.exists()
