"""What the tests of compiling and loading share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opwright_kernels import _load
from opwright_kernels._units import Unit
from support.units import make_unit


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache of this test's own, and a clean environment."""
    for name in ("CC", "CFLAGS", "LDFLAGS", "OPWRIGHT_FFI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_load, "BUILT", tmp_path / "none")
    _load.shipped.cache_clear()
    before = dict(_load._loaded)
    _load._loaded.clear()
    yield tmp_path / "cache"
    _load.shipped.cache_clear()
    _load._loaded.update(before)


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return make_unit(tmp_path / "c")
