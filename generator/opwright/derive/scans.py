"""Running sums: `dst[c] += src[d]` where d <= c, in as many steps as there are terms.

In: a program. Out: the same program, in which such a step becomes two: the term of each cell, and then, from the first
cell to the last, what the cell before has added up. It adds the same terms in the same order; so do running products,
maxima and minima.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..language import expr
from ..language.expr import Binary, Expr, Name, Number, Read
from .access import substitute
from .program import Formula, Part, Program

ORDERS = {"<=": (0, 1, 0), "<": (0, 1, 1), ">=": (1, 0, 0), ">": (1, 0, 1)}  # where term and cell are, and the distance


def scanned(found: Program) -> Program:
    """The program with running sums as two steps each."""
    parts = [made for part in found.parts for made in _steps(found, part)]
    return dataclasses.replace(found, parts=tuple(parts)) if len(parts) > len(found.parts) else found


def _steps(found: Program, part: Part) -> Iterator[Part]:
    scan = _scan(found, part)
    if scan is None:
        yield part
        return
    term, cell, distance = scan
    before: Expr = Binary("-", Name(cell), Number(1))
    (formula,), (guard,) = part.formulas, part.where
    own = tuple(letter for letter in part.letters if letter != term)
    value = substitute(formula.value, {term: before if distance else Name(cell)})
    inside = (dataclasses.replace(guard, tree=Binary(">=", Name(cell), Number(1))),) if distance else ()
    assignment = dataclasses.replace(formula.assignment, value=value)
    yield dataclasses.replace(part, formulas=(Formula("", assignment),), where=inside, letters=own)
    indices = tuple(before if index == Name(cell) else index for index in part.target.indices)
    assignment = dataclasses.replace(formula.assignment, value=Read(part.target.tensor, indices))
    walked = tuple(letter for letter in own if letter in expr.names(part.target))
    yield dataclasses.replace(part, formulas=(Formula("", assignment),), where=(), letters=walked)


def _scan(found: Program, part: Part) -> tuple[str, str, int] | None:
    """The letter of the terms of a running sum, that of its cells, and 1 if a cell's own term is left out."""
    first = found.first_writer(part.target.tensor)
    guard = part.where[0].tree if len(part.where) == 1 else None
    if part.operator == "set" or part.by is not None or first is not part or not isinstance(guard, Binary):
        return None
    names = [side.id for side in (guard.left, guard.right) if isinstance(side, Name) and side.id in found.letters]
    if guard.op not in ORDERS or len(names) != 2:
        return None
    first_side, second_side, distance = ORDERS[guard.op]
    term, cell = names[first_side], names[second_side]
    terms, cells = found.letters[term], found.letters[cell]
    alike = (terms.extent, terms.kind) == (cells.extent, cells.kind) and cells.kind == "one"
    walks = [found.walks(part.target.tensor, n, index) for n, index in enumerate(part.target.indices)]
    alone = term not in expr.names(part.target) and cell not in expr.names(part.formulas[0].value)
    known = part.target.tensor in {read.tensor for read in part.reads}
    between = found.arrays[part.target.tensor].role == "between"
    return (term, cell, distance) if alike and alone and between and not known and walks.count(cell) == 1 else None
