"""Loads compiled units through cffi.

In: a `Unit`. Out: a `Library` to call, taken from the folder `_built` beside this module, from the user's cache, or
compiled now into that cache. The cache wants content and toolchain to match. An entry in `_built` (or, where there is
no compiler, in the cache) serves wherever its content matches: whatever instruction set it uses is named in its flags.
To ship a library, copy its entry to `_built`.

What compiles is imported when something has to be: most processes find everything in the cache.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cffi

from . import _cache
from ._errors import BuildError
from ._units import Mode, Target, Unit, buildable, targets

if TYPE_CHECKING:
    from ._build import Progress

BUILT = Path(__file__).resolve().parent / "_built"


@dataclass(frozen=True)
class Library:
    """A loaded unit: cffi's `ffi` and `lib`, the mode they are in, the file they come from and the log of its build."""

    ffi: Any
    lib: Any
    mode: Mode
    path: Path
    log: Path


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
    wanted = targets(unit)
    try:
        return _known(wanted) or _find(wanted, BUILT, own=False) or _make(wanted, progress)
    except MemoryError as error:
        raise BuildError(f"{unit.name} cannot be built or loaded: there is not enough memory ({error})") from error


def fit(unit: Unit) -> str:
    """What keeps `unit` from being had here; empty where it is there already or the compiler takes what it demands."""
    from . import _compiler

    wanted = targets(unit)
    folders = [(BUILT, False)]
    with contextlib.suppress(BuildError):
        folders.append((_cache.folder(), True))
    if any(
        _cache.sound(target, entry, own) for target in wanted for at, own in folders for entry in _entries(target, at)
    ):
        return ""
    try:
        return _compiler.refused(_compiler.find().command, unit.flags, unit.include, unit.probe) if unit.probe else ""
    except BuildError as error:
        return str(error)


def _known(wanted: Sequence[Target]) -> Library | None:
    return next((_loaded[target.module] for target in wanted if target.module in _loaded), None)


def _entries(target: Target, folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob(f"{target.stem}*")) if not path.suffix]


def _find(wanted: Sequence[Target], folder: Path, own: bool) -> Library | None:
    """The first library in `folder` made from the same content by whatever compiler."""
    for target in wanted:
        for entry in _entries(target, folder):
            if library := _opened(target, entry, own):
                return library
    return None


def _make(wanted: Sequence[Target], progress: Progress | None) -> Library:
    """The library of the first of `wanted` that can be compiled here, from the cache, put there if need be."""
    from . import _compiler

    try:
        compiler = _compiler.find()
    except BuildError:
        with contextlib.suppress(BuildError):
            if library := _find(wanted, _cache.folder(), own=True):
                return library
        raise
    target, folder = buildable(wanted), _cache.folder()
    if library := _opened(target, folder / (target.stem + compiler.key)):
        return library
    from . import _build

    (entry,) = _build.ensure([target], folder, compiler, progress, _loads)
    try:
        return _open(target, entry, own=True)
    except (OSError, ImportError) as error:
        reason = " ".join(str(error).split())[:1000]
        raise BuildError(
            f"{entry / target.file} was built but does not load: {reason}; its log is {entry / 'build.log'}"
        ) from error


def _open(target: Target, entry: Path, own: bool) -> Library:
    """The library in `entry`. OSError or ImportError where it is missing, broken or made for another system."""
    with _loading:
        if library := _loaded.get(target.module):
            return library
        with _cache.in_use(target, entry, own) as path:
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
        library = _loaded[target.module] = Library(ffi, lib, target.mode, path, entry / "build.log")
        return library


def _opened(target: Target, entry: Path, own: bool = True) -> Library | None:
    """The library in `entry`, None where it cannot be loaded."""
    try:
        return _open(target, entry, own)
    except (OSError, ImportError):
        return None


def _loads(target: Target, entry: Path) -> bool:
    return _opened(target, entry) is not None
