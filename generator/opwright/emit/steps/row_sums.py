"""Sums of rows that lie in one piece, one for each task: a group of tasks makes those of neighbouring rows at once.

In: a sum along lanes, and its loops. Out: the sum of the row of a task as a call, under the condition that the row lies
so; groups.py makes of it a call for all rows of a group. Sums over the last axis of 65536x64 f32 take 0.69 of the time
of rows one by one (AMD Zen 5, gcc 12.2).
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


def whole(tasks: Tasks, part: Part, reduced: Sequence[Loop], bounds: Bounds) -> If | None:
    """The sum of one row; None if a call says more than where its rows lie, or tasks are taken one by one."""
    read, letters = part.reads[0], tasks.letters_of_tasks()
    step, guarded = tasks.step(read), bounds.low or bounds.high or bounds.tests or part.where or part.by
    if part.operator != "sum" or guarded or step is None or not letters or not tasks.is_number(part.target.tensor):
        return None
    if rows_of_tasks(tasks, tasks.phase) is None:
        return None
    name, known = tasks.own_loops(letters[-1])[-1].name, {*tasks.known(), *(one.name for one in tasks.of_task())}
    terms = [(term, nodes.names(term.index) <= known) for term in tasks.terms(read)]
    alone = all(isinstance(term.index, Name) for term, _ in terms)  # reduced letters begin at 0
    pitch = [term.stride for term, _ in terms if term.index == Name(name)]
    if not alone or not pitch:
        return None
    begin = nodes.chain("+", [product(term.index, term.stride) for term, inside in terms if inside], ZERO)
    tests: list[Expr] = [Binary("==", loop.extent, ONE) for loop in reduced]
    tests += [Binary("==", step, ONE), Binary("<=", tasks.along(), Name("block_"))]
    row, sums = Binary("+", tasks.pointer(read.tensor), begin), Unary("&", tasks.element(part.target))
    call = Call(f"opwright_sum_rows_{tasks.dtype(read.tensor)}", (row, pitch[0], tasks.along(), ONE, sums))
    return If(nodes.both(tests), (Do(call),), source=part.source)
