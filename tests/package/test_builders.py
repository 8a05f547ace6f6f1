"""Builders that are killed, stopped, interrupted, or short of threads, memory and a compiler that ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _build, _compiler, _isa, _load
from opwright_kernels._units import Unit
from support.draws import FULL
from support.units import PACKAGES, entries, make_unit

pytestmark = [pytest.mark.hard, pytest.mark.usefixtures("cache")]

# A process that loads the unit below `folder`, which first reads how long to wait.
LOADING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that runs in the background ignores it
from pathlib import Path
from opwright_kernels import _compiler, _entries, _load
from opwright_kernels._units import Unit
{first}
f = Path({folder!r})
unit = Unit("demo", {cdef!r}, (f / "twice.c", f / "thrice.c"), (f / "include",), {flags!r})
print(_load.load(unit).lib.twice(21))
"""


def started(unit: Unit, first: str = "", **environment: str) -> subprocess.Popen[str]:
    folder = str(unit.sources[0].parent)
    program = LOADING.format(folder=folder, first=first, cdef=unit.cdef, flags=unit.flags)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A compiler that hangs at its first file, and tells where it got to; afterwards it may not be left running."""
    pids = tmp_path / "pids"
    compiler = tmp_path / "slow-cc"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *twice.c*) echo $$ >> {pids}; exec sleep 600;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)

    def hanging() -> str:
        return pids.read_text() if pids.exists() else ""

    hanging.path = str(compiler)  # type: ignore[attr-defined]
    yield hanging
    for pid in map(int, hanging().split()):
        wait_for(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(true: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def left_over(cache: Path) -> list[str]:
    return sorted(
        path.name for path in cache.iterdir() if path.suffix not in (".lock", "") or path.name.endswith(".tmp")
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_half_made_stays_after_a_builder_was_ended(
    unit: Unit, cache: Path, tmp_path: Path, slow: Callable[[], str], how: signal.Signals
) -> None:
    child = started(unit, CC=slow.path)  # type: ignore[attr-defined]
    wait_for(slow)
    began = time.monotonic()
    child.send_signal(how)
    assert child.wait(60) != 0
    assert time.monotonic() - began < 10
    child.communicate()
    if how == signal.SIGINT:
        assert left_over(cache) == []
    else:  # it had no time; whoever builds next, no matter what, clears it away
        os.kill(int(slow().split()[0]), signal.SIGKILL)
        assert left_over(cache) != []
        _build.build([make_unit(tmp_path / "another", factor=5)])
        assert left_over(cache) == []


def test_who_waits_for_a_stopped_builder_says_so_and_takes_over(
    unit: Unit, cache: Path, slow: Callable[[], str]
) -> None:
    first = started(unit, CC=slow.path)  # type: ignore[attr-defined]
    wait_for(slow)
    first.send_signal(signal.SIGSTOP)
    try:
        patience = "_entries.WARNED_AFTER, _entries.TAKEN_OVER_AFTER = 0.5, 1.5"
        second = started(unit, patience, CC="cc")  # the same compiler by all that it says of itself
        out, err = second.communicate(timeout=60)
        assert (second.returncode, out.strip()) == (0, "42"), err
        assert re.search(rf"waiting for process {first.pid} on .*, which builds demo-.* after 2 s this process", err)
    finally:
        os.kill(int(slow().split()[0]), signal.SIGKILL)
        first.send_signal(signal.SIGCONT)
        first.communicate(timeout=60)
    assert len(entries(cache)) == 1
    assert left_over(cache) in ([], [f"{entries(cache)[0]}.log"])  # the first one's compiler was killed


def test_a_compiler_that_does_not_end_is_talked_about_and_given_up(
    unit: Unit, cache: Path, slow: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", slow.path)  # type: ignore[attr-defined]
    monkeypatch.setattr(_compiler, "WARNED_AFTER", 0.2)
    monkeypatch.setattr(_compiler, "KILLED_AFTER", 1.0)
    with (
        pytest.warns(
            RuntimeWarning, match=r"waiting for the C compiler, process \d+: .*twice\.c.*; given up after 1 s"
        ),
        pytest.raises(ok.BuildError, match=r"given up after \d s: the C compiler, process \d+: .*twice\.c"),
    ):
        _load.load(unit)
    assert left_over(cache) == []


@pytest.mark.parametrize("seed", range(12 if FULL else 2))
def test_builders_that_are_killed_at_any_time_leave_a_cache_that_works(cache: Path, tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    unit = make_unit(tmp_path / "c")
    for turn in range(5):
        children = [started(unit) for _ in range(2)]
        time.sleep(random.uniform(0.1, 1.2))
        for child in children[: random.integers(1, 3)]:
            child.kill()
        for child in children:
            out, err = child.communicate(timeout=120)
            assert child.returncode == -signal.SIGKILL or out.strip() == "42", err
        entries = sorted(path for path in cache.glob("*") if path.is_dir() and path.suffix != ".tmp")
        for number, entry in enumerate(entries):
            if random.random() < 0.5:
                next(entry.glob("*.*"), entry).rename(entry.with_name(f"gone-{turn}-{number}.tmp"))
    assert _load.load(unit).lib.twice(21) == 42


# --- threads and memory

AFTER_MAIN = """
import threading, time
import numpy as np
import opwright_kernels as ok

def call():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    x, w = np.ones((1, 9, 16), np.float32), np.ones((3, 16, 8), np.float32)
    y = ok.convolution(x, w, strides=[1], pads_begin=[0], pads_end=[0], dilations=[1], threads=3)
    print("right" if (y == 48).all() else "wrong", flush=True)

threading.Thread(target=call).start()
"""
NO_THREADS = """
import threading
import numpy as np
import opwright_kernels as ok

def start(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = start
x, w = np.ones((1, 9, 16), np.float32), np.ones((3, 16, 8), np.float32)
for specialize in (False, 1, True):
    y = ok.convolution(x, w, strides=[1], pads_begin=[0], pads_end=[0], dilations=[1], threads=3, specialize=specialize)
    assert (y == 48).all()
print("right")
"""
# As little room as the first number says, in MiB beyond what the process has; user and processes where root can set them.
LIMITED = """
import os, resource, sys
import numpy as np
import opwright_kernels as ok

# The interpreter may lie where that user cannot look.
import encodings.ascii, sysconfig
from opwright_kernels import _build

sysconfig.get_config_vars()

# The stack grows within the limit, too, and the process dies where it cannot: it is large before.
nested = []
for _ in range(600):
    nested = [nested]
repr(nested)

convolve = ok.convolution  # loads the module
room, user = int(sys.argv[1]), int(sys.argv[2])
x, w = np.ones((1, 9, 16), np.float32), np.ones((3, 16, 8), np.float32)
if user:
    os.setuid(user)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
if room:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20),) * 2)
try:
    y = convolve(x, w, strides=[1], pads_begin=[0], pads_end=[0], dilations=[1], threads=4)
    print("right" if (y == 48).all() else "wrong")
except ok.BuildError as error:
    print("BuildError", error)
except ok.SpecError as error:
    print(error.rule, error)
"""


def output_of(program: str, *arguments: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("isa", ["portable", ""] if FULL else ["portable"])
def test_a_first_call_after_the_main_thread_has_ended_builds(isa: str) -> None:
    assert output_of(AFTER_MAIN, OPWRIGHT_ISA=isa) == "right"


@pytest.mark.parametrize("isa", ["portable", ""] if FULL else ["portable"])
def test_where_no_thread_can_be_started_the_caller_builds_and_computes(isa: str) -> None:
    assert output_of(NO_THREADS, OPWRIGHT_ISA=isa) == "right"


@pytest.mark.parametrize("room", [1, 2, 4, 8, 64, 512] if FULL else [1])
def test_too_little_memory_for_a_build_is_a_build_error_or_the_rule_memory(room: int) -> None:
    answer = output_of(LIMITED, room, 0, OPWRIGHT_ISA="portable")
    assert answer.split()[0] in ("right", "BuildError", "memory")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who has no process yet")
def test_where_no_process_can_be_started_either_that_is_a_build_error(tmp_path: Path) -> None:
    answer = output_of(LIMITED, 0, 65533, OPWRIGHT_ISA="portable", OPWRIGHT_CACHE_DIR=f"/tmp/opwright-{os.getpid()}")
    assert answer.startswith("BuildError the C compiler cannot be run: ")


RECOVERED = """
import os
import numpy as np
import opwright_kernels as ok
from opwright_kernels import _isa

x, w = np.ones((1, 9, 16), np.float32), np.ones((3, 16, 8), np.float32)
lists = dict(strides=[1], pads_begin=[0], pads_end=[0], dilations=[1])
cache = os.environ.pop("OPWRIGHT_CACHE_DIR")
os.environ.update(CC="no-such-compiler", OPWRIGHT_CACHE_DIR=cache)
try:
    ok.convolution(x, w, **lists)
except ok.BuildError:
    del os.environ["CC"], os.environ["OPWRIGHT_CACHE_DIR"]
    assert (ok.convolution(x, w, **lists) == 48).all()
    print(ok.explain("convolution", x, w, **lists).variant.isa)
"""


def test_a_compiler_that_is_there_at_the_second_call_makes_the_best_kernels() -> None:
    best = next(isa.name for isa in _isa.usable(_isa.ISAS) if "f32" in (isa.dtypes or ("f32",)))
    assert output_of(RECOVERED) == best
