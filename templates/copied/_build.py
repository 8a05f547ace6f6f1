"""Compiles units into the cache.

In: units (declarations, sources, headers, flags). Out: entries of the cache. What several units have in common is a
unit of its own that they need: it is compiled once, to an object that lies in the cache like a library. Threads compile
at the same time; where none can be started the calling one does it all. Nothing is written but in the cache.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from subprocess import CompletedProcess
from typing import Any

import cffi

from . import _cache, _compiler, _entries
from ._errors import NO_MEMORY, BuildError
from ._threads import cpu_count
from ._units import Target, Unit, buildable, python_include, targets

Progress = Callable[[str, int, int], None]
"""Called with the name of the unit that is done, the number of finished units and the total."""
Check = Callable[[Target, Path], bool]

_LOG_LINES = 25  # of a failed build, shown in the error
_LOG_LETTERS = 8000
# What makes a library of objects.
_LINK = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)


def build(units: Sequence[Unit], progress: Progress | None = None) -> list[Path]:
    """Compile those of `units` that the cache lacks, without loading any; the library file of each, in order.

    BuildError, once every unit was tried, with what the first that failed has to say.
    """
    compiler, folder = _compiler.find(), _cache.folder()
    wanted = [buildable(targets(unit)) for unit in units]
    try:
        entries = ensure(wanted, folder, compiler, progress)
    except NO_MEMORY as error:
        raise BuildError(f"kernels cannot be built: there is not enough memory ({error})") from error
    return [entry / target.file for target, entry in zip(wanted, entries, strict=True)]


def ensure(
    wanted: Sequence[Target],
    folder: Path,
    compiler: _compiler.Compiler,
    progress: Progress | None,
    good: Check = _cache.sound,
) -> list[Path]:
    """The entries of targets in `folder`, compiled where they are not `good`, and before them the objects they need."""
    needed = {part.module: part for target in wanted for part in target.needs}
    steps = _Steps(progress, sum(len(target.steps()) for target in [*wanted, *needed.values()]))
    # `jobs` compile, in the order in which they are given; `waiting` holds a thread for each library.
    with _Crew(cpu_count()) as jobs, _Crew(len(wanted)) as waiting:
        building = _Building(folder, compiler, steps)
        try:
            for module, part in needed.items():
                building.parts[module] = jobs.submit(building.entry, part, _at_once, _cache.sound)
            entries = [waiting.submit(building.entry, target, jobs.submit, good) for target in wanted]
            waited = [*building.parts.values(), *entries]
            # Python sees an interrupt that comes just before a wait only after it, so that none may last long.
            while wait(waited, timeout=1).not_done:
                pass
        except BaseException:
            building.stop.set()  # the crews are waited for, and end soon
            raise
    if building.compiled:
        _entries.clear(folder)
    for future in building.parts.values():
        future.result()
    return [entry.result() for entry in entries]


class _Crew:
    """Threads that do work in the order in which it is given; where none can be started, whoever gives it does it."""

    def __init__(self, max_threads: int) -> None:
        self.max_threads = max_threads
        self.threads: list[threading.Thread] = []
        self.starting = threading.Lock()
        self.todo: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in self.threads:
            self.todo.put(None)
        for thread in self.threads:
            thread.join()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self.todo.put(lambda: _do(done, work, arguments))
        with self.starting:
            if len(self.threads) < self.max_threads:
                thread = threading.Thread(target=self.serve, name="opwright-build", daemon=True)
                try:
                    thread.start()
                    self.threads.append(thread)
                except (RuntimeError, MemoryError):  # no more threads to be had, or Python is ending
                    self.max_threads = len(self.threads)
        if not self.threads and (next_one := self.todo.get()) is not None:
            next_one()
        if done.done() and isinstance(done.exception(), KeyboardInterrupt):
            done.result()
        return done

    def serve(self) -> None:
        while (work := self.todo.get()) is not None:
            work()


def _do(done: Future[Any], work: Callable[..., Any], arguments: Sequence[Any]) -> None:
    try:
        done.set_result(work(*arguments))
    except BaseException as error:
        done.set_exception(error)


def _at_once(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """What `submit` of a crew does, for one of its threads."""
    done: Future[Any] = Future()
    _do(done, work, arguments)
    return done


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


Submit = Callable[..., "Future[Any]"]


@dataclass
class _Building:
    """What is common to all that a call builds. `parts` are the entries of objects, by module; `stop` ends it early."""

    folder: Path
    compiler: _compiler.Compiler
    steps: _Steps
    stop: threading.Event = field(default_factory=threading.Event)
    parts: dict[str, Future[Path]] = field(default_factory=dict)
    compiled: bool = False

    def entry(self, target: Target, submit: Submit, good: Check) -> Path:
        """The entry of a target, compiled where it is not `good`. Whoever comes second waits and finds it."""
        entry = self.folder / (target.stem + self.compiler.key)

        def done() -> bool:
            return self.stop.is_set() or good(target, entry)

        try:
            with _entries.turn(entry, done):
                if done():
                    for name in target.steps():
                        self.steps(name)
                    return entry
                _compiler.check_numerics(self.compiler.command)
                with _entries.workplace(entry) as work:
                    self.compile(target, work, submit)
                    _entries.put(work, entry, done)
                self.compiled = True
                _entries.remove(entry.with_name(entry.name + ".log"))
                return entry
        except OSError as error:
            raise BuildError(f"{target.unit.name} cannot be built in {self.folder}: {error}") from error

    def compile(self, target: Target, work: Path, submit: Submit) -> None:
        """Make the library, its hash and its log in the folder `work`. On failure BuildError, and the log beside it."""
        names, commands = target.steps(), self.commands(target, work)
        answers: list[Future[CompletedProcess[str]]] = [
            submit(self.run, name, command, work) for name, command in zip(names, commands, strict=False)
        ]
        try:
            needed = [self.parts[part.module].result() / part.file for part in target.needs]
        finally:
            finished = [answer.result() for answer in answers if answer.exception() is None]
        for answer in answers:
            answer.result()
        if target.mode != "object" and not any(answer.returncode for answer in finished):
            objects = [*(command[-1] for command in commands), *map(str, needed)]
            link = [*self.shared(target), *_LINK, *objects, "-o", target.file, *target.unit.links, "-lm"]
            finished.append(self.run(names[-1], link, work))
        log = work / "build.log"
        log.write_text("".join(f"$ {shlex.join(a.args)}\n{a.stdout}" for a in finished), "utf-8", "replace")
        if any(answer.returncode for answer in finished):
            failed = self.folder / f"{target.stem}{self.compiler.key}.log"
            _entries.remove(failed)
            log.replace(failed)
            raise BuildError(
                f"{target.unit.name} does not compile; the whole log is {failed}, and ends:\n{_end(finished)}"
            )
        path = work / target.file
        (work / "sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest(), "ascii")
        for leftover in [*work.glob("*.o"), *work.glob("*.c")]:
            if leftover != path:
                leftover.unlink()
        for entry in work.iterdir():  # a library that others can write to is not loaded
            entry.chmod(entry.stat().st_mode & ~0o022)

    def run(self, name: str, command: list[str], work: Path) -> CompletedProcess[str]:
        answer = _compiler.call(command, work, stop=self.stop)
        _entries.alive()
        self.steps(name)
        return answer

    def shared(self, target: Target) -> list[str]:
        """The beginning of a target's commands."""
        # In API mode only the glue, which lies in the same library, calls the kernels; so it is with objects.
        visibility = ["-fvisibility=hidden"] if target.mode != "abi" else []
        return [*self.compiler.command, *target.unit.flags, "-fPIC", *visibility]

    def commands(self, target: Target, work: Path) -> list[list[str]]:
        """What compiles each file of a target; the last word is the object."""
        commands: list[list[str]] = []
        for one in target.modules:
            unit = one.unit
            folders = [*_compiler.folders(unit.include), *_compiler.folders(unit.system, "-isystem")]
            begin = [*self.shared(target), *_compiler.tuning(self.compiler, unit), *folders, "-c"]
            for source in unit.sources:
                made = target.file if target.mode == "object" else f"{len(commands)}.o"
                commands.append([*begin, str(source.absolute()), "-o", made])
            if target.mode == "api":
                glue, headers = f"{len(commands)}.c", _compiler.folders(python_include())
                _write_glue(one, work / glue)
                # -O0: it hands arguments over and no more, and compiles in a third of the time.
                words = ["-O0", "-w", *headers, "-c", glue, "-o", f"{len(commands)}.o"]
                commands.append([*self.shared(target), *words])
        return commands


def _end(answers: Sequence[CompletedProcess[str]]) -> str:
    """The last output of compilers that failed, indented."""
    lines = [line for answer in answers if answer.returncode for line in answer.stdout.splitlines()]
    return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:])[-_LOG_LETTERS:]


def _write_glue(target: Target, path: Path) -> None:
    """The C of the Python module, by cffi; it repeats the declarations, so it needs none of the unit's headers."""
    ffi = cffi.FFI()
    ffi.cdef(target.unit.cdef)
    includes = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
    ffi.set_source(target.module, includes + target.unit.cdef, compiler_verbose=False)
    ffi.emit_c_code(str(path))
