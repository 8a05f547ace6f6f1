"""The cache: broken entries heal, nobody else's code is loaded, and what is not used any more goes."""

import os
import shutil

import opwright_kernels as ok
import pytest
from opwright_kernels import _build, _cache, _load
from support.units import DAMAGES, entries, modes

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


def test_a_cache_that_cannot_be_made_is_told(unit, cache):
    cache.write_text("a file")
    with pytest.raises(ok.BuildError, match="cannot be made"):
        _load.load(unit)


def test_the_cache_follows_xdg_and_else_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("OPWRIGHT_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _cache.folder() == tmp_path / "xdg" / "opwright"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the XDG specification says to ignore
    assert _cache.folder() == tmp_path / "home" / ".cache" / "opwright"
