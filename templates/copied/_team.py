"""The threads of fast kernels: a pool written in C, handed to them by its address.

In: a number of workers. Out: what a kernel takes as its team. Compiled at the first call that more than one works on.
Where the program has another pool already, that of OpenMP, `borrow` has it do the work.
"""

from __future__ import annotations

from collections.abc import Sequence
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
UNIT = Unit(
    "opwright_team",
    CDEF
    + "void opwright_team_run(void (*work)(void *context, int64_t worker), void *context, int64_t workers);\n"
    + "void opwright_team_borrow(void *region, void *thread, void *threads, void *max_threads);\n",
    (HERE / "c" / "engine" / "team.c",),
    (HERE / "include",),
    ("-std=c11", "-O2", "-pthread"),
)


_borrowed: list[int] = []  # the addresses of functions of OpenMP's pool


def borrow(addresses: Sequence[int]) -> None:
    """Let OpenMP's pool do the work: GOMP_parallel, omp_get_thread_num, omp_get_num_threads, omp_get_max_threads."""
    _borrowed[:] = addresses
    if _teams:
        _lent()


def _lent() -> Any:
    library = _load.load(UNIT)
    if _borrowed:
        library.lib.opwright_team_borrow(*[library.ffi.cast("void *", address) for address in _borrowed])
    return library


# Plans keep a cast pointer, which owns nothing, and threads whose first calls come together each make a team: the first
# to arrive here serves them all, and nothing is ever taken out.
_teams: dict[int, Any] = {}


def team(workers: int) -> Any:
    """A `const opwright_team *` for `workers` of them; it lives as long as the process."""
    if workers not in _teams:
        library = _lent()
        _teams.setdefault(
            workers, library.ffi.new("opwright_team *", {"run": library.lib.opwright_team_run, "workers": workers})
        )
    return _teams[workers]


def thread_count(plan: Any, threads: Any) -> int:
    """How many threads a call has. Refusal where `threads` or the environment is no number of them."""
    if threads is not None:
        return min(_threads.check_threads("threads", threads), MAX_WORKERS)
    return 1 if plan.terms < SERIAL_TERMS else min(_threads.get_num_threads(), MAX_WORKERS)
