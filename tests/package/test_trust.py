"""Code that somebody else planted in the cache, or could have, is not loaded and leads nowhere."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import opwright_kernels as ok
import pytest
from opwright_kernels import _build, _load, _private
from opwright_kernels._units import Unit
from support.units import make_unit

pytestmark = [pytest.mark.hard, pytest.mark.usefixtures("cache")]
STRANGER = 65533
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


def give_entry(entry: Path, library: Path) -> None:
    os.chown(entry, STRANGER, STRANGER)


def give_library(entry: Path, library: Path) -> None:
    os.chown(library, STRANGER, STRANGER)


def give_hash(entry: Path, library: Path) -> None:
    os.chown(entry / "sha256", STRANGER, STRANGER)


def open_entry(entry: Path, library: Path) -> None:
    entry.chmod(0o777)


def open_library(entry: Path, library: Path) -> None:
    library.chmod(0o666)


def link_entry(entry: Path, library: Path) -> None:
    elsewhere = entry.parent.parent / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)


def link_library(entry: Path, library: Path) -> None:
    elsewhere = entry.parent.parent / "elsewhere"
    library.rename(elsewhere)
    library.symlink_to(elsewhere)


def pipe_library(entry: Path, library: Path) -> None:
    library.unlink()
    os.mkfifo(library, 0o600)


PLANTED = [
    pytest.param(give_entry, marks=as_root),
    pytest.param(give_library, marks=as_root),
    pytest.param(give_hash, marks=as_root),
    open_entry,
    open_library,
    link_entry,
    link_library,
    pipe_library,
]


def plant(unit: Unit, tmp_path: Path) -> Path:
    """An entry for `unit` whose library is another one, by its hash the right one."""
    (path,) = _build.build([unit])
    (other,) = _build.build([make_unit(tmp_path / "other", factor=1000)])
    shutil.copy(other, path)
    (path.parent / "sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest())
    return path


@pytest.mark.parametrize("how", PLANTED)
@pytest.mark.parametrize("compiler", [True, False], ids=["compiler", "no-compiler"])
def test_an_entry_that_somebody_else_could_have_written_is_built_anew(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Callable[[Path, Path], None], compiler: bool
) -> None:
    monkeypatch.setenv("OPWRIGHT_FFI", "abi")
    path = plant(unit, tmp_path)
    how(path.parent, path)
    if compiler:
        assert _load.load(unit).lib.twice(21) == 42
        _load._loaded.clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    if compiler:  # what was built instead is there to stay
        assert _load.load(unit).lib.twice(21) == 42
    else:
        with pytest.raises(ok.BuildError, match="no C compiler"):
            _load.load(unit)


def test_the_same_entry_is_loaded_where_only_the_user_could_have_written_it(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPWRIGHT_FFI", "abi")
    plant(unit, tmp_path)
    assert _load.load(unit).lib.twice(21) == 21000


@as_root
def test_an_entry_that_its_owner_keeps_from_being_deleted_makes_room(
    unit: Unit, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plant(unit, tmp_path)
    os.chown(path.parent, STRANGER, STRANGER)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as it is for a user who is not root
    assert _load.load(unit).lib.twice(21) == 42
    assert path.parent.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("name", [".lock", ".log"])
@pytest.mark.parametrize("what", ["link", "pipe", "folder", "dangling"])
def test_a_file_in_the_place_of_a_lock_or_a_log_is_neither_written_nor_waited_for(
    tmp_path: Path, cache: Path, name: str, what: str
) -> None:
    good = make_unit(tmp_path / "c")
    (path,) = _build.build([good])
    at = path.parent.with_name(path.parent.name + name)
    shutil.rmtree(path.parent)
    at.unlink(missing_ok=True)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    if what == "folder":
        at.mkdir()
        (at / "full").touch()
    elif what == "pipe":
        os.mkfifo(at)
    else:
        at.symlink_to(precious if what == "link" else tmp_path / "nowhere")
    assert _load.load(good).lib.twice(1) == 2
    assert precious.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


# --- parents


def folder_in(parent: Path) -> Path:
    return _private.folder(parent / "deeper" / "cache")


@as_root
def test_a_parent_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(ok.BuildError, match=rf"lies in {tmp_path}, which belongs to user {STRANGER}, not you"):
        folder_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_others_can_write_to_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(ok.BuildError, match=f"lies in {tmp_path}, which others can write to; chmod go-w it, or set"):
        folder_in(tmp_path)
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)
    made = folder_in(tmp_path)
    assert made == tmp_path / "deeper" / "cache"
    assert [path.stat().st_mode & 0o777 for path in (made, made.parent)] == [0o700, 0o700]


def test_a_parent_that_a_group_can_write_to_is_refused_unless_nobody_else_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o775)
    monkeypatch.setattr(_private, "_own_group", lambda group: False)
    with pytest.raises(ok.BuildError, match="which others can write to"):
        folder_in(tmp_path)
    monkeypatch.setattr(_private, "_own_group", lambda group: True)
    assert folder_in(tmp_path).is_dir()


def test_links_of_the_user_are_followed_and_the_folders_behind_them_judged(tmp_path: Path) -> None:
    home, real = tmp_path / "home", tmp_path / "real"
    home.mkdir()
    (real / "inner").mkdir(parents=True)
    (home / "absolute").symlink_to(real)
    (home / "relative").symlink_to("../real/./inner/..")
    (home / "circle").symlink_to("circle")
    for name in ("absolute", "relative"):
        assert _private.folder(home / name / ".." / "real" / "cache") == real / "cache"
    with pytest.raises(ok.BuildError, match="contains the link"):
        folder_in(home / "circle")
    real.chmod(0o777)
    with pytest.raises(ok.BuildError, match=f"lies in {real}, which others can write to"):
        folder_in(home / "relative")


@as_root
def test_a_link_of_somebody_else_is_refused_wherever_it_points_at_the_moment(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to("mine")
    os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(ok.BuildError, match=f"contains the link {tmp_path / 'link'}, which belongs to user {STRANGER}"):
        folder_in(tmp_path / "link")


FLIP = """
import os, sys
os.setuid({stranger})
while True:
    for target in ("mine", "theirs"):
        os.symlink(target, {link!r} + ".new")
        os.rename({link!r} + ".new", {link!r})
"""


@as_root
def test_a_link_that_is_flipped_while_it_is_looked_at_never_leads_to_code_of_its_owner(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    with tempfile.TemporaryDirectory() as name:  # which the other user can get to
        base, link = Path(name), Path(name) / "shared" / "cache"
        base.chmod(0o755)
        (base / "shared").mkdir()
        (base / "shared").chmod(0o1777)
        monkeypatch.setenv("OPWRIGHT_FFI", "abi")
        monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(base / "shared" / "mine"))
        _build.build([unit])
        path = plant(unit, tmp_path)
        shutil.copytree(base / "shared" / "mine", base / "shared" / "theirs")
        for each in [base / "shared" / "theirs", *(base / "shared" / "theirs").rglob("*")]:
            os.chown(each, STRANGER, STRANGER)
        shutil.rmtree(path.parent)
        _build.build([unit])
        monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(link))
        program = FLIP.format(stranger=STRANGER, link=str(link))
        flipping = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
        try:
            while not link.is_symlink():
                assert flipping.poll() is None
            for _ in range(40):
                with pytest.raises(ok.BuildError, match=rf"user {STRANGER}"):
                    _load.load(unit)
        finally:
            flipping.kill()
            flipping.wait()


@as_root
def test_a_user_who_is_not_root_may_keep_a_cache_below_folders_of_root(tmp_path: Path) -> None:

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "own").mkdir()
        os.chown(Path(name) / "own", STRANGER, STRANGER)
        child = os.fork()
        if child == 0:
            os.setuid(STRANGER)
            try:
                own = _private.folder(Path(name) / "own" / "cache")
                os._exit(0 if own.stat().st_uid == STRANGER else 2)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_in_a_sandbox_that_does_not_know_root_its_stand_in_may_own_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = tmp_path.stat().st_uid
    (tmp_path / "own").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr(_private, "_stand_in", lambda: {0, owner})
    with pytest.raises(ok.BuildError, match=f"the kernel cache {tmp_path}/own belongs to user {owner}, not you"):
        _private.folder(tmp_path / "own")  # the last one has to be the user's own
