"""Where an extreme stands: a step that numbers the terms that equal it is made in the pass that finds the extreme.

In: a reduction to a maximum, `peak[i] max= x[i, k]`, and the step after it, `first[i] min= select(x[i, k] == peak[i],
number(k), inf)`; or either the other way around. Out: the update of the number for a term: one beyond the extreme so
far begins anew. An extreme that is NaN equals no term. An extreme that nothing else reads is not stored. The gradient
of max pool by 2 of 2x16x56x56x32, channels last, takes 0.80 of the time of two passes, bf16 0.76 (AMD Zen 5, gcc 12.2).
"""

from __future__ import annotations

from ...derive.algebra.conditions import is_number
from ...derive.program import INITIAL, Part, Program
from ...language import expr
from ..nodes import Assign, Binary, Conditional, Expr, Stmt
from .values import Values

BEYOND = {"max": ">", "min": "<"}


def number(part: Part, other: Part) -> expr.Call | None:
    """How a step numbers those terms of another that equal its extreme; None if it does anything else."""
    if not {part.operator, other.operator} <= BEYOND.keys() or len(part.formulas) != 1 or len(other.formulas) != 1:
        return None
    term, chosen = part.formulas[0].value, other.formulas[0].value
    if not isinstance(chosen, expr.Call) or chosen.function != "select" or part.by or other.by:
        return None
    test, found, none = chosen.arguments
    equal = isinstance(test, expr.Binary) and test.op == "==" and {test.left, test.right} == {term, part.target}
    if not equal or part.target in expr.reads(term) or not is_number(none, INITIAL[other.operator]):
        return None
    return found if isinstance(found, expr.Call) and found.function == "number" else None


def follow(found: Program, part: Part, others: tuple[Part, ...]) -> bool:
    """Whether the steps beside one number its terms, and nobody else reads its extreme."""
    readers = [one for one in found.parts if part.target.tensor in {read.tensor for read in one.reads}]
    return bool(others) and {*map(id, readers)} == {*map(id, others)} and all(number(part, one) for one in others)


def updated(part: Part, other: Part, cells: tuple[Expr, Expr], term: Expr, place: Expr) -> Stmt:
    """The number so far in the second of two cells, where the first has the extreme so far, after a term."""
    extreme, cell = cells
    sooner = Conditional(Binary(BEYOND[other.operator], place, cell), place, cell)
    kept = Conditional(Binary("==", term, extreme), sooner, cell)
    return Assign(cell, Conditional(Binary(BEYOND[part.operator], term, extreme), place, kept), source=other.source)


def ended(values: Values, other: Part, cells: tuple[Expr, Expr]) -> Stmt:
    """The number after the last term: none where the extreme is NaN."""
    extreme, cell = cells
    none = values.number(INITIAL[other.operator])
    return Assign(cell, Conditional(Binary("==", extreme, extreme), cell, none), source=other.source)
