"""Rows that are reduced as they stand: which there are, and calls for those that lie in one piece, one for each task.

In: a reduction along lanes, and its loops. Out: what the row of a task makes as a call, under the condition that it
lies so; groups.py makes of it a call for all rows of a group. Sums over the last axis of 65536x64 f32 take 0.69 of the
time of rows one by one (AMD Zen 5, gcc 12.2), over 23529x17 f64 0.66, maxima of f64 0.48, of s32 0.23, of s8 0.2 of the
time of sums of lanes in memory; with AVX2 0.4, 0.47, 0.13, 0.12 (Intel Xeon with AVX-512, gcc 12.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...derive.program import Part
from .. import nodes
from ..nodes import ONE, ZERO, Binary, Call, Do, Expr, If, Name, Unary
from .bounds import Bounds
from .elements import product
from .groups import rows_of_tasks
from .loops import Loop
from .tasks import Tasks

INTEGERS = ("s8", "u8", "s32")  # the least and greatest of which are found in their type
# By the type of values, those of cells that become such in registers; of others the loop over lanes is as fast.
CELLS = {"f32": ("f32", "bf16", "f16", *INTEGERS), "f64": ("f64", "f32", *INTEGERS), "s64": ("s64", *INTEGERS)}


def is_extreme(operator: str, dtype: str) -> bool:
    """Whether a row is reduced to the least or greatest of its integers."""
    return operator in ("max", "min") and dtype in INTEGERS


def stands(operator: str, accumulate: str, dtype: str) -> bool:
    """Whether functions reduce rows of a type as they stand, to values of another."""
    if is_extreme(operator, dtype):
        return accumulate in CELLS
    return dtype in CELLS[accumulate] and (operator == "sum" or dtype not in (*INTEGERS, "s64"))


def function(operator: str, accumulate: str, dtype: str, of: str = "row") -> str:
    """The function that reduces a row, or of `rows` one each."""
    return f"opwright_{operator}_{of}_{accumulate}_{dtype}"


def whole(tasks: Tasks, part: Part, reduced: Sequence[Loop], bounds: Bounds) -> If | None:
    """What one row makes; None if a call says more than where its rows lie, or tasks are taken one by one."""
    read, letters = part.reads[0], tasks.letters_of_tasks()
    step, guarded = tasks.step(read), bounds.low or bounds.high or bounds.tests or part.where or part.by
    if guarded or step is None or not letters or not tasks.is_number(part.target.tensor):
        return None
    if rows_of_tasks(tasks, tasks.phase) is None:
        return None
    name, known = tasks.own_loops(letters[-1])[-1].name, {*tasks.known(), *(one.name for one in tasks.of_task())}
    terms = [(term, nodes.names(term.index) <= known) for term in tasks.terms(read)]
    alone = all(isinstance(term.index, Name) for term, _ in terms)  # reduced letters begin at 0
    if not alone or not any(term.index == Name(name) for term, _ in terms):
        return None
    begin = nodes.chain("+", [product(term.index, term.stride) for term, inside in terms if inside], ZERO)
    tests: list[Expr] = [Binary("==", loop.extent, ONE) for loop in reduced]
    tests += [Binary("==", step, ONE), Binary("<=", tasks.along(), Name("block_"))]
    row, sums = Binary("+", tasks.pointer(read.tensor), begin), Unary("&", tasks.element(part.target))
    name = function(part.operator, tasks.values_of(part.target.tensor).accumulate, tasks.dtype(read.tensor), "rows")
    call = Call(name, (row, tasks.pitch_of_tasks(read), tasks.along(), ONE, sums))
    return If(nodes.both(tests), (Do(call),), source=part.source)
