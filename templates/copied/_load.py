"""Loads compiled units through cffi.

In: a `Unit`. Out: a `Library` to call, taken from the folder `_built` beside this module, from the user's cache, or
compiled now into that cache. The cache wants content and toolchain to match; where there is no compiler, an entry in it
serves wherever its content matches. What lies in `_built` was compiled from the sources beside it, as `_ship` does, and
goes by its unit's name: nothing is hashed, so that the first call of an installed package is quick.

What compiles, and the cache, are imported when something has to be looked for there.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import cffi

from ._errors import NO_MEMORY, BuildError
from ._units import Mode, Target, Unit, buildable, modes, targets

if TYPE_CHECKING:
    from ._build import Progress

BUILT = Path(__file__).resolve().parent / "_built"
INDEX = "index"  # a file of it with a line for each unit: its name, content and mode, and the file of its library


@dataclass(frozen=True)
class Library:
    """A loaded unit: cffi's `ffi` and `lib`, the mode they are in, the file they come from and the log of its build."""

    ffi: Any
    lib: Any
    mode: Mode
    path: Path
    log: Path

    def address(self, function: str) -> int:
        """Where a function of it is in memory."""
        return int(self.ffi.cast("uintptr_t", self.ffi.addressof(self.lib, function)))


# Plans keep functions of these libraries, which own nothing, so nothing is ever taken out.
_loaded: dict[str, Library] = {}
_loading = threading.RLock()  # a signal handler may call while its thread loads


def _forget_lock() -> None:
    """In a forked child, where the thread that holds the lock may not exist."""
    global _loading
    _loading = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)


def load(unit: Unit, progress: Progress | None = None) -> Library:
    """The library of `unit`, compiled first where no folder holds it. BuildError where that cannot be done."""
    try:
        if library := _shipped_library(unit):
            return library
        wanted = targets(unit)
        return _known(wanted) or _make(wanted, progress)
    except NO_MEMORY as error:
        raise BuildError(f"{unit.name} cannot be built or loaded: there is not enough memory ({error})") from error


def fit(unit: Unit) -> str:
    """What keeps `unit` from being had here; empty where it is there already or the compiler takes what it demands."""
    if unit.name in shipped() or not unit.probe:
        return ""
    from . import _compiler

    try:
        compiler = _compiler.find()
        if _built(unit, compiler.key):
            return ""
        reason = _compiler.refused(compiler.command, unit.flags, unit.include, unit.probe)
    except BuildError as error:
        reason = str(error)
    return "" if reason and _built(unit) else reason


def is_built(unit: Unit) -> bool:
    """Whether loading `unit` compiles nothing, as the cache has it of the compiler that is here."""
    from . import _compiler

    try:
        return _built(unit, _compiler.find().key)
    except BuildError:
        return False


def _built(unit: Unit, key: str = "") -> bool:
    """Whether the cache has a sound library of `unit` made by the compiler of a key, or by whatever compiler."""
    from . import _cache

    with contextlib.suppress(BuildError):
        folder = _cache.folder()
        return any(
            _cache.sound(target, entry)
            for target in targets(unit)
            for entry in ([folder / (target.stem + key)] if key else _entries(target, folder))
        )
    return False


@cache
def shipped() -> Mapping[str, tuple[str, Mode, Path]]:
    """The libraries that came with the package: by unit, the content they were made from, their mode and their file."""
    try:
        lines = (BUILT / INDEX).read_text("utf-8").splitlines()
    except OSError:
        return {}
    found = [line.split() for line in lines]
    return {unit: (content, cast(Mode, mode), BUILT / file) for unit, content, mode, file in found}


def _shipped_library(unit: Unit) -> Library | None:
    """The library of `unit` that came with the package; None where there is none that loads in a mode allowed here."""
    if unit.name in shipped():
        content, mode, path = shipped()[unit.name]
        if unit.plain or mode in modes():
            with contextlib.suppress(OSError, ImportError):
                return _opened_file(Target(unit, mode, content), path, path.with_suffix(".log"))
    return None


def _known(wanted: Sequence[Target]) -> Library | None:
    return next((_loaded[target.module] for target in wanted if target.module in _loaded), None)


def _entries(target: Target, folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob(f"{target.stem}*")) if not path.suffix]


def _find(wanted: Sequence[Target], folder: Path) -> Library | None:
    """The first library in the cache made from the same content by whatever compiler."""
    for target in wanted:
        for entry in _entries(target, folder):
            if library := _opened(target, entry):
                return library
    return None


def _make(wanted: Sequence[Target], progress: Progress | None) -> Library:
    """The library of the first of `wanted` that can be compiled here, from the cache, put there if need be."""
    from . import _cache, _compiler

    try:
        compiler = _compiler.find()
    except BuildError:
        with contextlib.suppress(BuildError):
            if library := _find(wanted, _cache.folder()):
                return library
        raise
    target, folder = buildable(wanted), _cache.folder()
    if library := _opened(target, folder / (target.stem + compiler.key)):
        return library
    from . import _build

    (entry,) = _build.ensure([target], folder, compiler, progress, _loads)
    try:
        return _open(target, entry)
    except (OSError, ImportError) as error:
        reason = " ".join(str(error).split())[:1000]
        raise BuildError(
            f"{entry / target.file} was built but does not load: {reason}; its log is {entry / 'build.log'}"
        ) from error


def _open(target: Target, entry: Path) -> Library:
    """The library in `entry`. OSError or ImportError where it is missing, broken or made for another system."""
    from . import _cache

    with _loading:
        if library := _loaded.get(target.module):
            return library
        with _cache.in_use(target, entry) as path:
            return _opened_file(target, path, entry / "build.log")


def _opened_file(target: Target, path: Path, log: Path) -> Library:
    """The library in a file. OSError or ImportError where it is broken or made for another system."""
    with _loading:
        if library := _loaded.get(target.module):
            return library
        if target.mode == "abi":
            ffi: Any = cffi.FFI()
            ffi.cdef(target.unit.cdef)
            lib = ffi.dlopen(str(path), os.RTLD_NOW)
        else:
            loader = importlib.machinery.ExtensionFileLoader(target.module, str(path))
            spec = importlib.util.spec_from_loader(target.module, loader)
            assert spec is not None  # given a loader, there is always one
            module: Any = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            ffi, lib = module.ffi, module.lib
        library = _loaded[target.module] = Library(ffi, lib, target.mode, path, log)
        return library


def _opened(target: Target, entry: Path) -> Library | None:
    """The library in `entry`, None where it cannot be loaded."""
    try:
        return _open(target, entry)
    except (OSError, ImportError):
        return None


def _loads(target: Target, entry: Path) -> bool:
    return _opened(target, entry) is not None
