"""The cache: broken entries heal, nobody else's code is loaded, and what is not used any more goes."""

import fcntl
import hashlib
import os
import shutil
import time

import opwright_kernels as ok
import pytest
from opwright_kernels import _build, _cache, _entries, _load, _units
from support.units import DAMAGES, entries, make_unit, modes

if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
    pytest.skip("a C compiler is missing", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("cache")


# --- entries that broke


@pytest.mark.parametrize("mode", modes)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_entry_heals(unit, cache, monkeypatch, mode, damage):
    monkeypatch.setenv("OPWRIGHT_FFI", mode)
    (path,) = _build.build([unit])
    damage(path)
    assert _load.load(unit).lib.twice(21) == 42
    assert len(entries(cache)) == 1


def test_what_a_killed_builder_left_is_cleared_away(unit, cache):
    (path,) = _build.build([unit])
    leftover = path.parent.with_name(path.parent.name + ".0123.tmp")
    path.parent.rename(leftover)
    assert _load.load(unit).lib.twice(1) == 2
    assert not leftover.exists()


# --- the folder


def test_the_cache_is_made_private(unit, cache):
    _build.build([unit])
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_cache_that_others_can_write_is_refused(unit, cache, mode):
    cache.mkdir()
    cache.chmod(mode)
    with pytest.raises(ok.BuildError, match="others can write to the kernel cache"):
        _load.load(unit)
    assert list(cache.iterdir()) == []


def test_a_cache_of_someone_else_is_refused(unit, cache, monkeypatch):
    cache.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: cache.parent.stat().st_uid + 1)
    with pytest.raises(ok.BuildError, match=r"belongs to user \d+, not you; set OPWRIGHT_CACHE_DIR"):
        _load.load(unit)


def test_a_cache_that_cannot_be_made_is_an_error_that_names_it(unit, cache):
    cache.write_text("a file")
    with pytest.raises(ok.BuildError, match="cannot be made"):
        _load.load(unit)


def test_the_error_says_why_a_library_does_not_load(unit, cache, monkeypatch):
    compile_ = _build._Building.compile

    def compile_rubbish(building, target, work, submit):
        compile_(building, target, work, submit)
        (work / target.file).write_bytes(b"not a library")
        (work / "sha256").write_text(hashlib.sha256(b"not a library").hexdigest())

    monkeypatch.setattr(_build._Building, "compile", compile_rubbish)
    with pytest.raises(
        ok.BuildError, match=r"was built but does not load: .*(file too short|invalid ELF header).*build\.log"
    ):
        _load.load(unit)


def test_the_cache_follows_xdg_and_else_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("OPWRIGHT_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _cache.folder() == tmp_path / "xdg" / "opwright"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the XDG specification says to ignore
    assert _cache.folder() == tmp_path / "home" / ".cache" / "opwright"


# --- what is not used any more


def aged(path, days):
    past = time.time() - days * 24 * 3600
    os.utime(path, (past, past))


def test_what_nobody_has_used_for_long_is_removed_when_something_is_built(tmp_path, cache):
    old, used, young = (_build.build([make_unit(tmp_path / str(n), factor=n)])[0].parent for n in (2, 3, 4))
    strange = cache / "somebody's notes"
    strange.mkdir()
    for entry in (old, used, strange):
        aged(entry, 91)
    aged(old.with_name(old.name + ".lock"), 91)
    aged(young, 89)
    assert _load.load(make_unit(tmp_path / "3", factor=3)).lib.twice(5) == 15
    _build.build([make_unit(tmp_path / "3", factor=3)])
    assert old.exists()  # nothing was built: nobody waits for a look at the whole folder
    (new,) = _build.build([make_unit(tmp_path / "5", factor=5)])
    assert set(cache.iterdir()) == {
        strange,
        *(entry for folder in (used, young, new.parent) for entry in (folder, folder.with_name(folder.name + ".lock"))),
    }


def test_an_entry_that_another_process_is_loading_stays_however_old_it_is(tmp_path, cache):
    (path,) = _build.build([make_unit(tmp_path / "2")])
    aged(path.parent, 1000)
    loading = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(loading, fcntl.LOCK_SH)
    _entries.clear(cache)
    assert path.exists()
    os.close(loading)
    _entries.clear(cache)
    assert not path.parent.exists()


def test_an_entry_that_is_going_is_built_anew_and_not_loaded(unit, cache):
    (path,) = _build.build([unit])
    clearing = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(clearing, fcntl.LOCK_EX)
    assert _load._opened(_units.buildable(_units.targets(unit)), path.parent) is None
    os.close(clearing)
    assert _load.load(unit).path == path


def test_the_folder_of_a_builder_at_work_is_left_alone(unit, cache):
    (path,) = _build.build([unit])
    with _entries.workplace(path.parent) as work:
        aged(work, 1000)
        _entries.clear(cache)
        assert work.is_dir()
    assert not work.exists()


def test_a_builder_whose_folder_is_cleared_away_at_once_makes_another(unit, cache, monkeypatch):
    """Another process may come between the making of a folder and its lock."""
    (path,) = _build.build([unit])
    made, folder = [], _entries._folder_beside

    def cleared(entry):
        made.append(folder(entry))
        if len(made) < 3:
            _entries.clear(cache)
        return made[-1]

    monkeypatch.setattr(_entries, "_folder_beside", cleared)
    with _entries.workplace(path.parent) as work:
        assert work == made[2]
        assert work.is_dir()


def test_who_loses_a_race_takes_the_entry_of_the_winner(unit, cache, tmp_path):
    (path,) = _build.build([unit])
    with _entries.workplace(path.parent) as work:
        (work / "mine").touch()
        _entries.put(work, path.parent, lambda: True)
    assert path.exists()
    assert not (path.parent / "mine").exists()
