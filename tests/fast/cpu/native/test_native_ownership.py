"""A library that somebody else could have written is never loaded: it is refused, said, and done without."""

import hashlib
import logging
import os
import stat

import pytest
import torch

from regard.fast.cpu.native import build, loaded, loading, ownership, why
from regard.fast.cpu.native.ownership import Untrusted, check_file, make_private
from regard.fast.cpu.packed_linear import pack_linears

PLANTED = b"a library of somebody else's"


@pytest.fixture
def folder(tmp_path):
    return make_private(tmp_path / "cache" / "regard" / "native")


def test_it_is_made_for_the_user_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        folder = make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, *folder.parents[:2])] == [0o700] * 3
    assert make_private(folder) == folder


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o701])
def test_a_folder_that_is_open_to_others(folder, mode):
    folder.chmod(mode)
    with pytest.raises(Untrusted, match=rf"{folder} is open to others \(mode {mode:04o}; allowed is 0700\)"):
        make_private(folder)


def test_a_folder_of_another_user(folder, monkeypatch):
    monkeypatch.setattr(ownership, "_ROOT", 4321)
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with pytest.raises(Untrusted, match=r"belongs to \w+"):
        ownership._check_folder(folder)
    with pytest.raises(Untrusted, match="who could put another folder in its place"):
        make_private(folder)


def test_a_folder_that_is_a_link(folder, tmp_path):
    link = tmp_path / "cache" / "regard" / "linked"
    link.symlink_to(folder)
    with pytest.raises(Untrusted, match="is a link, a folder was expected"):
        make_private(link)


def test_links_above_are_followed_and_what_they_lead_to_is_checked(folder, tmp_path):
    link = tmp_path / "short"
    link.symlink_to(folder.parent)
    assert make_private(link / "native") == folder
    folder.parents[1].chmod(0o777)
    with pytest.raises(Untrusted, match=r"others can write to .*cache "):
        make_private(link / "native")


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_a_folder_above_that_others_can_write(folder, monkeypatch, mode):
    monkeypatch.setattr(ownership, "_is_own_group", lambda group: False)
    folder.parent.chmod(mode)
    with pytest.raises(Untrusted, match=rf"others can write to {folder.parent} \(mode {mode:04o}\)"):
        make_private(folder)


def test_a_folder_above_where_others_touch_only_what_is_theirs(folder):
    """As in /tmp: with the sticky bit nobody else can rename or remove ours."""
    folder.parent.chmod(0o1777)
    assert make_private(folder) == folder


def test_the_group_that_a_user_is_alone_in(folder, monkeypatch):
    monkeypatch.setattr(ownership, "_is_own_group", lambda group: True)
    folder.parent.chmod(0o775)
    assert make_private(folder) == folder


@pytest.mark.parametrize(
    ("name", "members", "own"), [("me", [], True), ("me", ["me"], True), ("me", ["you"], False), ("us", [], False)]
)
def test_whose_group_it_is(monkeypatch, name, members, own):
    import grp
    import pwd
    from types import SimpleNamespace

    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(gr_name=name, gr_mem=members))
    assert ownership._is_own_group(1000) is own


def test_files(folder, monkeypatch):
    path = folder / "a.so"
    check_file(path)
    path.write_bytes(PLANTED)
    path.chmod(0o711)
    check_file(path)
    for mode in (0o722, 0o720, 0o702):
        path.chmod(mode)
        with pytest.raises(Untrusted, match=f"others can write to .*a.so \\(mode {mode:04o}\\)"):
            check_file(path)
    (folder / "b.so").symlink_to(path)
    with pytest.raises(Untrusted, match=r"b.so is a link, a plain file was expected"):
        check_file(folder / "b.so")
    (folder / "c.so").mkdir()
    with pytest.raises(Untrusted, match=r"c.so is a folder"):
        check_file(folder / "c.so")
    path.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with pytest.raises(Untrusted, match=r"belongs to .*, not to user 4321"):
        check_file(path)


def test_without_owners_there_is_no_trust(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "getuid")
    with pytest.raises(Untrusted, match="does not tell whose it is"):
        make_private(tmp_path / "native")


def planted(folder, monkeypatch):
    """A whole file under the very name that would be loaded, and a list of what is loaded."""
    compiler = folder.parent / "a-compiler"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit 0\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    version, _ = build._run([str(compiler), "--version"])
    command = [str(compiler), *build.FLAGS, f"-march={build.NATIVE}"]
    path = folder / f"kernels-{build._key(command, version)}.so"
    path.write_bytes(PLANTED + build._MARK + hashlib.sha256(PLANTED).digest())
    path.chmod(0o700)
    opened = []
    monkeypatch.setattr(loading, "Kernels", lambda path: opened.append(path))
    monkeypatch.setattr(loading, "_outcomes", {})
    monkeypatch.setattr(build, "cache_folder", lambda: folder)
    return path, opened


def test_what_is_the_users_own_is_loaded(folder, monkeypatch):
    path, opened = planted(folder, monkeypatch)
    loaded()
    assert opened == [path]


@pytest.mark.parametrize("how", ["folder open", "parent open", "file open", "file linked", "folder linked"])
def test_a_planted_library_is_never_loaded(folder, monkeypatch, caplog, how):
    path, opened = planted(folder, monkeypatch)
    if how == "file linked":
        path.rename(folder.parent / "theirs.so")
        path.symlink_to(folder.parent / "theirs.so")
    elif how == "folder linked":
        folder.rename(folder.parent / "theirs")
        folder.symlink_to(folder.parent / "theirs")
    else:
        {"folder open": folder, "parent open": folder.parent, "file open": path}[how].chmod(0o777)
    before = path.read_bytes()
    with caplog.at_level(logging.WARNING, logger="regard"):
        assert loaded() is None
        assert loaded() is None
    assert opened == []
    assert path.read_bytes() == before, "it is not written over either: it is not ours"
    (said,) = caplog.messages
    assert said == f"compiled kernels are not used, PyTorch's own are: {why()}"
    layer = pack_linears(torch.nn.Sequential(torch.nn.Linear(4, 4)))[0]
    assert layer.native is None
    assert layer(torch.ones(2, 4)).shape == (2, 4)
