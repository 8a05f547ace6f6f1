"""The C compiler: which one, what it takes, and whether it keeps to the numbers that kernels promise.

In: the environment variable CC, questions, commands. Out: what the compiler answers; BuildError where it cannot be run.
CFLAGS and LDFLAGS are not honoured, and a compiler that would break the numerics is refused, wherever its flag is from.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from ._errors import BuildError
from ._isa import cpu_flags
from ._units import Unit, digest
from ._words import quoted

WARNED_AFTER = 60.0  # seconds until a compiler that does not end is talked about
KILLED_AFTER = 900.0  # seconds until it is given up
_POLL = 0.5  # seconds between looks at the clock
_MAX_OUTPUT = 2000  # characters of what a compiler says, in a message

Answer = TypeVar("Answer")

# Each of these calls stays in the assembly of a compiler that computes as IEEE 754 has it, and is found to be dead by
# one that was allowed not to, by a flag in CC or by default, whatever macros it defines.
_PROMISES = {
    "opwright_nan": "to assume that NaN does not occur",
    "opwright_order": "to reorder sums",
    "opwright_zero": "to ignore the sign of zero",
    "opwright_quotient": "to multiply by reciprocals",
    "opwright_width": "to compute in precisions other than float and double",
}
_NUMERICS = """
void opwright_nan(void), opwright_order(void), opwright_zero(void), opwright_quotient(void), opwright_width(void);
static unsigned bits(float x) { union { float number; unsigned bits; } both = {x}; return both.bits; }
void opwright_numerics(float x);
void opwright_numerics(float x)
{
    if (x != x) opwright_nan();
    if (bits((x + 1e8f) - x) != bits(1e8f)) opwright_order();
    if (bits(x + 0.0f) != bits(x)) opwright_zero();
    if (bits(x / 3.0f) != bits(x * (1.0f / 3.0f))) opwright_quotient();
#if !defined(__FLT_EVAL_METHOD__) || __FLT_EVAL_METHOD__ == 0
    opwright_width();
#endif
}
"""


@dataclass(frozen=True)
class Compiler:
    """The words that call it, and what it contributes to the name of an entry."""

    command: tuple[str, ...]
    key: str


def find() -> Compiler:
    """$CC, else the first of cc, gcc and clang. BuildError where there is none that works."""
    text = os.environ.get("CC", "")
    try:
        wanted = shlex.split(text)
    except ValueError as error:
        raise BuildError(f"CC is {quoted(text)}, which is not a command: {error}") from error
    names = wanted[:1] or ["cc", "gcc", "clang"]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        listed = quoted(names[0])[1:-1] if wanted else ", ".join(names)
        raise BuildError(
            f"no C compiler: {listed} not found on the PATH{' (CC names it)' if wanted else ''}."
            " Install gcc or clang (Debian and Ubuntu: apt install gcc; Fedora: dnf install gcc;"
            " macOS: xcode-select --install), or set CC to a C11 compiler"
        )
    return _identify((found, *wanted[1:]))


_answers: dict[Any, Any] = {}
_asking = threading.RLock()


def _asked_once(question: Callable[..., Answer]) -> Callable[..., Answer]:
    """As functools.cache, but threads that ask the same at once wait for one answer: asking takes time."""

    @wraps(question)
    def ask(*arguments: Any) -> Answer:
        with _asking:
            key = (question, arguments)
            if key not in _answers:
                _answers[key] = question(*arguments)
            answer: Answer = _answers[key]
            return answer

    return ask


def _forget_lock() -> None:
    """In a forked child, where the thread that holds the lock may not exist."""
    global _asking
    _asking = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)


@_asked_once
def _identify(command: tuple[str, ...]) -> Compiler:
    question = [*command, "--version"]
    answer = call(question)
    if answer.returncode:
        output = answer.stdout.strip()[:_MAX_OUTPUT]
        raise BuildError(f"the C compiler does not work: {_shown(question)} says: {output}")
    return Compiler(command, digest([*command[1:], answer.stdout, *sorted(cpu_flags())])[:12])


@_asked_once
def check_numerics(command: tuple[str, ...]) -> None:
    """BuildError where a compiler would not compute as IEEE 754 has it."""
    question = ["-std=gnu11", "-fno-lto", "-w", "-S", "-x", "c", "-", "-o", "-"]
    program, *own = command
    # Units say -O2 after what CC says, which the linker yet heeds: -Ofast has it turn denormals off in all the process.
    answers = [
        call(words, text=_NUMERICS) for words in ([program, "-O2", *own, *question], [*command, "-O2", *question])
    ]
    assemblies = [answer.stdout for answer in answers if not answer.returncode]
    broken = [freedom for name, freedom in _PROMISES.items() if any(name not in assembly for assembly in assemblies)]
    # What -mdaz-ftz says, no code shows: an object that is linked turns denormals off in every thread that loads it.
    if "crtfastmath" in call([*command, "-O2", "-shared", "-###", "-x", "c", os.devnull, "-o", os.devnull]).stdout:
        broken.append("to take denormals for zero")
    if broken:
        raise BuildError(
            f"the C compiler breaks the numerics that kernels promise: {_shown(command)} is free {', '.join(broken)};"
            " remove -ffast-math and similar flags from CC"
        )


@_asked_once
def refused(command: tuple[str, ...], flags: tuple[str, ...], include: tuple[Path, ...], probe: str) -> str:
    """What a compiler says of `probe`, on one line; empty where it takes it."""
    answer = call([*command, *flags, *folders(include), "-fsyntax-only", "-x", "c", "-"], text=probe)
    message = next((line for line in answer.stdout.splitlines() if "error" in line), answer.stdout.strip())
    return f"the C compiler refuses it: {message[:200]}" if answer.returncode else ""


def tuning(compiler: Compiler, unit: Unit) -> list[str]:
    """The words of those of a unit's tuning flags that a compiler takes."""
    flags = ("-Werror", *unit.flags)
    return [
        word
        for flag in unit.tuning
        if not refused(compiler.command, (*flags, *flag.split()), unit.include, unit.probe)
        for word in flag.split()
    ]


def folders(include: Sequence[Path], flag: str = "-I") -> list[str]:
    """The flags that name the folders of headers."""
    return [word for folder in include for word in (flag, str(folder.absolute()))]


def call(
    command: Sequence[str], folder: Path | None = None, text: str = "", stop: threading.Event | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command` with its messages untranslated, both streams in stdout; `text` is what it reads.

    BuildError where it cannot be run, where it does not end, and once `stop` is set.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a compiler has children, which are to end with it
        )
    except (OSError, ValueError, RuntimeError) as error:  # no memory, no more processes, a NUL in CC, Python is ending
        raise BuildError(f"the C compiler cannot be run: {_shown(command)}: {error}") from error
    with process:
        try:
            output = _output_of(process, text, stop)
        except BaseException:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def _output_of(process: subprocess.Popen[str], text: str, stop: threading.Event | None) -> str:
    """What a compiler says until it ends."""
    started, warned, given = time.monotonic(), False, text or None
    while stop is None or not stop.is_set():
        try:
            output, _ = process.communicate(given, timeout=_POLL)
            return str(output)
        except subprocess.TimeoutExpired:
            given = None
        waited = time.monotonic() - started
        what = f"the C compiler, process {process.pid}: {_shown(process.args)}"
        if waited > KILLED_AFTER:
            raise BuildError(f"given up after {waited:.0f} s: {what}")
        if waited > WARNED_AFTER and not warned:
            warned = True
            warnings.warn(f"waiting for {what}; given up after {KILLED_AFTER:.0f} s", RuntimeWarning, stacklevel=2)
    raise BuildError("the build was interrupted")


def _shown(command: Any) -> str:
    """A command, as much of it as a message has room for."""
    words = shlex.join(map(str, command))
    return words if len(words) <= _MAX_OUTPUT else words[: _MAX_OUTPUT - 3] + "..."
