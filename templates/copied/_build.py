"""Compiles the generated C and loads it through cffi.

In: a `Unit` (declarations, sources, headers, flags). Out: a `Library` to call, taken from the folder `_built` beside
this module, from the user's cache, or compiled now into that cache. What several units have in common is a unit of its
own that they need: it is compiled once, to an object that lies in the cache like a library.

An entry of either folder is a directory `<unit>-<content>-<toolchain>` with the library, its SHA-256 and the build log.
`content` hashes what the library is made from: C text, declarations, flags, platform, and for API mode Python's ABI and
cffi. `toolchain` hashes who made it: the compiler's own version output and the CPU's features. Neither holds a path.
The cache wants both to match. An entry in `_built` (or, where there is no compiler, in the cache) serves wherever its
content matches: whatever instruction set it uses is named in its flags. To ship a library, copy its entry to `_built`.

Of the environment, OPWRIGHT_CACHE_DIR, OPWRIGHT_FFI (api or abi) and CC are honoured. CFLAGS and LDFLAGS are not: a
stray -ffast-math would break what the kernels promise. This module writes nowhere but in the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import cffi

from ._isa import cpu_flags
from ._threads import cpu_count

Mode = Literal["api", "abi", "object"]
Progress = Callable[[str, int, int], None]
"""Called with the name of what is done, how many are, and how many there are in all."""

BUILT = Path(__file__).resolve().parent / "_built"
_LOG_LINES = 25  # of a failed build, shown in the error
# What makes a library of objects.
_LINK = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
_RECIPE = "6"  # raised when this module compiles otherwise than before: part of every content hash


class BuildError(RuntimeError):
    """The kernels can be neither found nor compiled; the message says why and what to do."""


@dataclass(frozen=True)
class Unit:
    """What becomes one extension, or one object that extensions need.

    `cdef` holds plain C declarations (no `...`), `sources` the C files that define them, `include` the folders of the
    headers that these include, `flags` the flags for compiling and linking, complete but for -fPIC and -I. `tuning` are
    flags for the sake of speed, of a word or more each: each is left out where the compiler refuses `probe` with it or
    warns. `needs` are units of one file each that become objects and are linked in. `probe` is C that every compiler
    must take that is fit for the unit.
    """

    name: str
    cdef: str
    sources: tuple[Path, ...]
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    tuning: tuple[str, ...] = ()
    needs: tuple[Unit, ...] = ()
    probe: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"unit name {self.name!r} is not an identifier")
        if any("native" in flag for flag in self.flags):
            raise ValueError(f"unit {self.name}: 'native' in its flags means another CPU elsewhere; name the features")
        if any(len(unit.sources) != 1 for unit in self.needs):
            raise ValueError(f"unit {self.name} needs a unit that is not one file, which has no one object")


@dataclass(frozen=True)
class Library:
    """A loaded unit: cffi's `ffi` and `lib`, the mode they are in, the file they come from and the log of its build."""

    ffi: Any
    lib: Any
    mode: Mode
    path: Path
    log: Path


@dataclass(frozen=True)
class _Target:
    """A unit in one mode, and the names that follow from its content."""

    unit: Unit
    mode: Mode
    content: str

    @property
    def module(self) -> str:
        return f"_opwright_{self.unit.name}_{self.content}"

    @property
    def stem(self) -> str:
        return f"{self.unit.name}-{self.content}-"

    def library(self, entry: Path) -> Path:
        return entry / f"{self.module}.{'o' if self.mode == 'object' else 'so'}"

    @property
    def needs(self) -> list[_Target]:
        return [_target(unit, "object") for unit in self.unit.needs]

    def steps(self) -> list[str]:
        """What its build does, for a progress bar."""
        after = {"api": ["cffi glue", "link"], "abi": ["link"], "object": []}[self.mode]
        return [f"{self.unit.name}: {step}" for step in [*(path.name for path in self.unit.sources), *after]]


_loaded: dict[str, Library] = {}
_loading = threading.Lock()


def load(unit: Unit, progress: Progress | None = None) -> Library:
    """The library of `unit`, compiled first where no folder holds it. BuildError where that cannot be done."""
    targets = [_target(unit, mode) for mode in _modes()]
    with _loading:
        for target in targets:
            if target.module in _loaded:
                return _loaded[target.module]
        library = _find(targets, BUILT) or _make(targets, progress)
        _loaded[library.path.stem] = library  # which is the name of its module
        return library


def build(units: Sequence[Unit], progress: Progress | None = None) -> list[Path]:
    """Compile those of `units` that the cache lacks, without loading any; the library file of each, in order.

    BuildError, once every unit was tried, with what the first that failed has to say.
    """
    compiler, folder = _compiler(), _cache()
    targets = [_buildable([_target(unit, mode) for mode in _modes()]) for unit in units]
    entries = _ensure_all(targets, folder, compiler, progress)
    return [target.library(entry) for target, entry in zip(targets, entries, strict=True)]


def fit(unit: Unit) -> str:
    """What keeps `unit` from being had here; empty where it is there already or the compiler takes what it demands."""
    targets = [_target(unit, mode) for mode in _modes()]
    folders = [BUILT]
    with contextlib.suppress(BuildError):
        folders.append(_cache())
    if any(_sound(target, entry) for target in targets for at in folders for entry in at.glob(f"{target.stem}*")):
        return ""
    try:
        return _refused(_compiler().command, unit.flags, unit.include, unit.probe) if unit.probe else ""
    except BuildError as error:
        return str(error)


@cache
def _refused(command: tuple[str, ...], flags: tuple[str, ...], include: tuple[Path, ...], probe: str) -> str:
    """What a compiler says of `probe`, on one line; empty where it takes it."""
    folders = [flag for folder in include for flag in ("-I", str(folder.absolute()))]
    answer = _call([*command, *flags, *folders, "-fsyntax-only", "-x", "c", "-"], text=probe)
    said = next((line for line in answer.stdout.splitlines() if "error" in line), answer.stdout.strip()[:200])
    return f"the C compiler refuses it: {said}" if answer.returncode else ""


def _tuning(compiler: _Compiler, unit: Unit) -> list[str]:
    """The words of those of a unit's tuning flags that a compiler takes."""
    flags = ("-Werror", *unit.flags)
    taken = [
        flag
        for flag in unit.tuning
        if not _refused(compiler.command, (*flags, *flag.split()), unit.include, unit.probe)
    ]
    return [word for flag in taken for word in flag.split()]


def _forget_lock() -> None:
    """In a forked child, where the thread that holds the lock may not exist."""
    global _loading
    _loading = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def _find(targets: Sequence[_Target], folder: Path) -> Library | None:
    """The first library in `folder` made from the same content by whatever compiler."""
    for target in targets:
        for entry in sorted(folder.glob(f"{target.stem}*")):
            if library := _open(target, entry):
                return library
    return None


def _make(targets: Sequence[_Target], progress: Progress | None) -> Library:
    """The library of the first of `targets` that can be compiled here, from the cache, put there if need be."""
    try:
        compiler = _compiler()
    except BuildError:
        with contextlib.suppress(BuildError):
            if library := _find(targets, _cache()):
                return library
        raise
    target, folder = _buildable(targets), _cache()
    if library := _open(target, folder / (target.stem + compiler.key)):
        return library
    (entry,) = _ensure_all([target], folder, compiler, progress, _loads)
    library = _open(target, entry)
    if library is None:
        raise BuildError(f"{target.library(entry)} was built but does not load; its log is {entry / 'build.log'}")
    return library


# --- what to build, and by which key


def _modes() -> tuple[Mode, ...]:
    """The modes to look for, the better one first."""
    wanted = os.environ.get("OPWRIGHT_FFI")
    if not wanted:
        return "api", "abi"
    if wanted not in ("api", "abi"):
        raise BuildError(f"OPWRIGHT_FFI is {wanted!r}, expected 'api' or 'abi'")
    return ("api",) if wanted == "api" else ("abi",)


def _buildable(targets: Sequence[_Target]) -> _Target:
    """The first of `targets` that can be compiled here: API mode needs Python's headers."""
    for target in targets:
        if target.mode == "abi" or any((folder / "Python.h").is_file() for folder in _python_include()):
            return target
    raise BuildError(
        "OPWRIGHT_FFI is 'api', but Python.h is missing: install Python's headers "
        "(Debian and Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel), or unset it"
    )


def _python_include() -> list[Path]:
    return [Path(folder) for name in ("include", "platinclude") if (folder := sysconfig.get_path(name))]


def _target(unit: Unit, mode: Mode) -> _Target:
    parts: list[str | bytes] = [_RECIPE, unit.name, mode, unit.cdef, *unit.flags, sys.platform, platform.machine()]
    parts += ["tuning", *unit.tuning, unit.probe]
    parts.append(str(sysconfig.get_config_var("MULTIARCH")))  # glibc or musl
    parts += [_target(needed, "object").content for needed in unit.needs]
    if mode == "api":
        parts += [str(sysconfig.get_config_var("SOABI")), cffi.__version__]
    for source in unit.sources:
        parts += [source.name, source.read_bytes()]
    for folder in unit.include:
        for header in sorted(folder.rglob("*.h")):
            parts += [header.relative_to(folder).as_posix(), header.read_bytes()]
    return _Target(unit, mode, _digest(parts)[:24])


def _digest(parts: Sequence[str | bytes]) -> str:
    """SHA-256 over `parts`, each with its length, so that no two lists of parts look alike."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(b"%d:" % len(data))
        total.update(data)
    return total.hexdigest()


@dataclass(frozen=True)
class _Compiler:
    command: tuple[str, ...]
    key: str


def _compiler() -> _Compiler:
    """$CC, else the first of cc, gcc and clang. BuildError where there is none."""
    wanted = shlex.split(os.environ.get("CC", ""))
    names = wanted[:1] or ["cc", "gcc", "clang"]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise BuildError(
            f"no C compiler: {', '.join(names)} not found on the PATH{' (CC names it)' if wanted else ''}."
            " Install gcc or clang (Debian and Ubuntu: apt install gcc; Fedora: dnf install gcc;"
            " macOS: xcode-select --install), or set CC to a C11 compiler"
        )
    return _identify((found, *wanted[1:]))


@cache
def _identify(command: tuple[str, ...]) -> _Compiler:
    question = [*command, "--version"]
    try:
        answer = _call(question)
    except OSError as error:
        raise BuildError(f"the C compiler cannot be run: {shlex.join(question)}: {error}") from error
    if answer.returncode:
        raise BuildError(f"the C compiler does not work: {shlex.join(question)} says: {answer.stdout.strip()}")
    return _Compiler(command, _digest([*command[1:], answer.stdout, *sorted(cpu_flags())])[:12])


def _call(command: list[str], folder: Path | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run `command` with its messages untranslated, both streams in stdout; `text` is what it reads."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


# --- the cache


def _cache() -> Path:
    """The user's cache folder, made where it does not exist. BuildError where it is not private to the user."""
    if wanted := os.environ.get("OPWRIGHT_CACHE_DIR"):
        return _private(Path(wanted).expanduser().absolute())
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return _private((base if base.is_absolute() else Path.home() / ".cache") / "opwright")
    except RuntimeError as error:  # from Path.home
        raise BuildError(f"no home folder for the kernel cache ({error}); set OPWRIGHT_CACHE_DIR") from error


def _private(folder: Path) -> Path:
    """`folder`, made where it does not exist; nobody else may be able to put a library there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise BuildError(f"the kernel cache {folder} cannot be made ({error}); set OPWRIGHT_CACHE_DIR") from error
    if status.st_uid != os.getuid():
        raise BuildError(f"the kernel cache {folder} belongs to user {status.st_uid}, not you; set OPWRIGHT_CACHE_DIR")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildError(f"others can write to the kernel cache {folder}; chmod go-w it, or set OPWRIGHT_CACHE_DIR")
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, against other processes and against other threads of this one."""
    with open(path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:  # closing alone would not do: a child forked meanwhile has the file open too
            fcntl.flock(lock, fcntl.LOCK_UN)


def _sound(target: _Target, entry: Path) -> bool:
    """Whether the library in `entry` is the one that was put there: loading a truncated one can kill the process."""
    try:
        expected = (entry / "sha256").read_text("ascii")
        return hashlib.sha256(target.library(entry).read_bytes()).hexdigest() == expected
    except (OSError, ValueError):
        return False


def _open(target: _Target, entry: Path) -> Library | None:
    """The library in `entry`, None where it is missing, broken or made for another system."""
    if not _sound(target, entry):
        return None
    path = target.library(entry)
    try:
        if target.mode == "abi":
            ffi = cffi.FFI()
            ffi.cdef(target.unit.cdef)
            return Library(ffi, ffi.dlopen(str(path), os.RTLD_NOW), "abi", path, entry / "build.log")
        loader = importlib.machinery.ExtensionFileLoader(target.module, str(path))
        spec = importlib.util.spec_from_loader(target.module, loader)
        assert spec is not None  # given a loader, there is always one
        module: Any = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (OSError, ImportError):
        return None
    return Library(module.ffi, module.lib, "api", path, entry / "build.log")


def _loads(target: _Target, entry: Path) -> bool:
    return _open(target, entry) is not None


# --- compiling


class _Steps:
    """Counts the steps of a build and tells `progress`, one thread at a time."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress = progress
        self.total = total
        self.done = 0
        self.lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self.lock:
            self.done += 1
            if self.progress:
                self.progress(name, self.done, self.total)


def _ensure_all(
    targets: Sequence[_Target],
    folder: Path,
    compiler: _Compiler,
    progress: Progress | None,
    good: Callable[[_Target, Path], bool] | None = None,
) -> list[Path]:
    """The entries of `targets`, and before anybody asks those of the objects that they need."""
    needed = {part.module: part for target in targets for part in target.needs}
    everything = [*targets, *needed.values()]
    step = _Steps(progress, sum(len(target.steps()) for target in everything))
    for target in everything:  # before threads ask the compiler the same at the same time
        if not _sound(target, folder / (target.stem + compiler.key)):
            _tuning(compiler, target.unit)
    # `jobs` compile, in the order in which they are given; `waiting` holds a thread for each library.
    with ThreadPoolExecutor(cpu_count()) as jobs, ThreadPoolExecutor(max(len(targets), 1)) as waiting:
        parts = {
            module: jobs.submit(_ensure, part, folder, compiler, _at_once, {}, step) for module, part in needed.items()
        }
        entries = [
            waiting.submit(_ensure, target, folder, compiler, jobs.submit, parts, step, good or _sound)
            for target in targets
        ]
    for part in parts.values():
        part.result()
    return [entry.result() for entry in entries]


def _at_once(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """What `submit` of an executor does, for a thread that is one of these already."""
    done: Future[Any] = Future()
    done.set_result(work(*arguments))
    return done


def _ensure(
    target: _Target,
    folder: Path,
    compiler: _Compiler,
    submit: Callable[..., Future[Any]],
    parts: Mapping[str, Future[Path]],
    step: _Steps,
    good: Callable[[_Target, Path], bool] = _sound,
) -> Path:
    """The entry of `target` in `folder`, compiled where it is not `good`. Whoever comes second waits and finds it.

    `submit` has a command run, `parts` are the entries of what the target needs, by its module's name.
    """
    entry = folder / (target.stem + compiler.key)
    work, failed = entry.with_name(entry.name + ".tmp"), entry.with_name(entry.name + ".log")
    try:
        with _locked(entry.with_name(entry.name + ".lock")):
            if good(target, entry):
                for name in target.steps():
                    step(name)
                return entry
            shutil.rmtree(work, ignore_errors=True)  # left by a builder that was killed
            try:
                work.mkdir(mode=0o700)
                _compile(target, work, failed, compiler, submit, parts, step)
                shutil.rmtree(entry, ignore_errors=True)
                work.rename(entry)
            finally:
                shutil.rmtree(work, ignore_errors=True)
            failed.unlink(missing_ok=True)
            return entry
    except OSError as error:
        raise BuildError(f"{target.unit.name} cannot be built in {folder}: {error}") from error


def _compile(
    target: _Target,
    work: Path,
    failed: Path,
    compiler: _Compiler,
    submit: Callable[..., Future[Any]],
    parts: Mapping[str, Future[Path]],
    step: _Steps,
) -> None:
    """Make the library, its hash and its log in the folder `work`. On failure BuildError, and the log at `failed`."""
    unit, names = target.unit, target.steps()
    # In API mode only the glue, which lies in the same library, calls the kernels; objects are for their library only.
    visibility = ["-fvisibility=hidden"] if target.mode != "abi" else []
    shared = [*compiler.command, *unit.flags, "-fPIC", *visibility]

    def run(name: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        answer = _call(command, work)
        step(name)
        return answer

    path = target.library(work)
    folders = [flag for folder in unit.include for flag in ("-I", str(folder.absolute()))]
    compiled = [*shared, *_tuning(compiler, unit), *folders, "-c"]
    commands = [
        [*compiled, str(source.absolute()), "-o", path.name if target.mode == "object" else f"{index}.o"]
        for index, source in enumerate(unit.sources)
    ]
    if target.mode == "api":
        _write_glue(target, work / "glue.c")
        folders = [flag for folder in _python_include() for flag in ("-I", str(folder))]
        # -O0: it hands arguments over and no more, and compiles in a third of the time.
        commands.append([*shared, "-O0", "-w", *folders, "-c", "glue.c", "-o", "glue.o"])
    answers: list[Future[subprocess.CompletedProcess[str]]] = [
        submit(run, name, command) for name, command in zip(names, commands, strict=False)
    ]
    try:
        needed = [part.library(parts[part.module].result()) for part in target.needs]
    finally:
        finished = [answer.result() for answer in answers]
    if target.mode != "object" and not any(answer.returncode for answer in finished):
        objects = [*(command[-1] for command in commands), *map(str, needed)]
        finished.append(run(names[-1], [*shared, *_LINK, *objects, "-o", path.name, "-lm"]))
    log = "".join(f"$ {shlex.join(answer.args)}\n{answer.stdout}" for answer in finished)
    if any(answer.returncode for answer in finished):
        failed.write_text(log, "utf-8", "replace")
        said = "\n".join(line for answer in finished if answer.returncode for line in answer.stdout.splitlines())
        last = "\n".join(f"  {line}" for line in said.splitlines()[-_LOG_LINES:])
        raise BuildError(f"{unit.name} does not compile; the whole log is {failed}, and ends:\n{last}")
    (work / "build.log").write_text(log, "utf-8", "replace")
    (work / "sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest(), "ascii")
    for leftover in [*work.glob("*.o"), *work.glob("glue.c")]:
        if leftover != path:
            leftover.unlink()


def _write_glue(target: _Target, path: Path) -> None:
    """The C of the Python module, by cffi; it repeats the declarations, so it needs none of the unit's headers."""
    ffi = cffi.FFI()
    ffi.cdef(target.unit.cdef)
    includes = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    ffi.set_source(target.module, includes + target.unit.cdef, compiler_verbose=False)
    ffi.emit_c_code(str(path))
