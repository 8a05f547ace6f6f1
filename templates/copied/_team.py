"""The threads of fast kernels: a pool written in C, handed to them by its address.

In: a number of workers. Out: what a kernel takes as its team. Compiled at the first call that more than one works on.
Where PyTorch is there, its threads do the work if they are those of GNU's OpenMP: `borrow`.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

from . import _load, _threads
from ._units import Unit

HERE = Path(__file__).parent
CDEF = """\
typedef void opwright_team_function(void (*work)(void *context, int64_t worker), void *context, int64_t workers);
typedef struct opwright_team {
    opwright_team_function *run;
    int64_t workers;
} opwright_team;
"""
MAX_WORKERS = 256  # workers of a call; each wants scratch memory of its own
# Fewer terms than this are done by the calling thread. Two threads begin to pay where one needs 40 us, or 100 us if the
# other sleeps: at 2**18 terms with few channels or depthwise, at 2**21 in denser problems (AMD Zen 5, gcc 12.2, f32).
SERIAL_TERMS = 2**18
OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads")
UNIT = Unit(
    "opwright_team",
    CDEF
    + "void opwright_team_run(void (*work)(void *context, int64_t worker), void *context, int64_t workers);\n"
    + "void opwright_team_borrow(void *region, void *thread, void *threads, void *max_threads);\n",
    (HERE / "c" / "engine" / "team.c",),
    (HERE / "include",),
    ("-std=c11", "-O2", "-pthread"),
)


# Plans keep a cast pointer, which owns nothing, and threads whose first calls come together each make a team: the first
# to arrive here serves them all, and nothing is ever taken out.
_teams: dict[int, Any] = {}


def team(workers: int) -> Any:
    """A `const opwright_team *` for `workers` of them; it lives as long as the process."""
    if workers not in _teams:
        library = _load.load(UNIT)
        _teams.setdefault(
            workers, library.ffi.new("opwright_team *", {"run": library.lib.opwright_team_run, "workers": workers})
        )
    borrow()
    return _teams[workers]


def borrow() -> None:
    """Have PyTorch's threads do the work where the program has imported it: two pools would disturb each other."""
    if _teams and "torch._C" in sys.modules:
        _borrowed()


# What PyTorch computes leaves its threads spinning for milliseconds, in which threads of our own wait for a CPU. Calls
# in turns with PyTorch's, two threads: x + y of 1M f32 take 0.53 of the time of two pools, erf's GELU 0.64, softmax of
# 1025x777 0.58, a linear layer of 197x768 by 768x1000 0.64 (AMD EPYC, Zen 4, PyTorch 2.13).
@cache
def _borrowed() -> bool:
    """Whether the pool of the team is now GNU OpenMP's of PyTorch; some builds of it have another, or none."""
    library = _load.load(UNIT)
    try:
        pytorch = ctypes.CDLL(str(Path(sys.modules["torch"].__file__ or "").parent / "lib" / "libtorch_cpu.so"))
        functions = [ctypes.cast(getattr(pytorch, name), ctypes.c_void_p).value for name in OPENMP]
    except (OSError, AttributeError):
        return False
    library.lib.opwright_team_borrow(*[library.ffi.cast("void *", function) for function in functions])
    return True


def thread_count(plan: Any, threads: Any) -> int:
    """How many threads a call has. Refusal where `threads` or the environment is no number of them."""
    if threads is not None:
        return min(_threads.check_threads("threads", threads), MAX_WORKERS)
    return 1 if plan.terms < SERIAL_TERMS else min(_threads.get_num_threads(), MAX_WORKERS)
