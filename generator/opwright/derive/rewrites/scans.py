"""Running sums: `dst[c] += src[d]` where d <= c, or d >= c, in as many steps as there are terms.

In: a program. Out: the same program, in which such a step becomes two: the term of each cell, and then, from the first
cell to the last (or back), what the neighbouring cell has added up; so do running products, maxima and minima. The
condition may also depend on attributes, as in `d < c or not EX and d == c`: each part then has a condition of its own.
Terms may decay from cell to cell (decays.py).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...language import expr
from ...language.evaluate import COMPARED
from ...language.expr import Binary, Expr, Name, Number, Read, Unary, replaced, substitute
from ...language.schema import Located
from ..algebra.slopes import folded, minus, slope, without
from ..program import Part, Program, given, summed_alone
from .accumulating import plain
from .decays import Decay, decay

MAX_CONDITIONS = 4  # on attributes in one guard


@dataclass(frozen=True)
class Scan:
    """The letter of the terms, that of the cells, and which calls include terms before, at and behind a cell."""

    term: str
    cell: str
    before: Expr | bool
    here: Expr | bool
    behind: Expr | bool
    guard: Located
    decay: Decay | None  # by which terms become less from cell to cell

    def value(self, value: Expr, cells: int) -> Expr:
        """The value of a term so many cells before its own."""
        return value if self.decay is None else replaced(value, self.decay.factor, self.decay.beside(cells))


def scanned(found: Program) -> Program:
    """The program with running sums as several steps each."""
    parts = [made for part in found.parts for made in _steps(found, part)]
    return dataclasses.replace(found, parts=tuple(parts)) if len(parts) > len(found.parts) else found


def _steps(found: Program, part: Part) -> Iterator[Part]:
    scan = _scan(found, part)
    if scan is None:
        yield part
        return
    cell, one, last = Name(scan.cell), Number(1), minus(found.letters[scan.cell].extent, Number(1))
    begun = _begun(found, part, scan)
    yield from (begun,) if begun is not None else _term(part, scan, cell, 0, (scan.here,))
    other = _not(scan.here)
    inside = (Binary(">=", cell, one), Binary("<", cell, last))
    for shown, cells, bound in ((scan.before, 1, inside[0]), (scan.behind, -1, inside[1])):
        place = Binary("-" if cells > 0 else "+", cell, one)
        yield from _term(part, scan, place, cells, (shown, other), bound)
    yield from _run(part, scan, cell, Binary("-", cell, one), scan.before, 1)
    # steps run from the first cell to the last, so that cells are counted from the end
    behind = Binary("-", last, cell), Binary("-", found.letters[scan.cell].extent, cell)
    yield from _run(part, scan, *behind, scan.behind, -1)


def _begun(found: Program, part: Part, scan: Scan) -> Part | None:
    """The step that begins each cell with its own term, in one way for all calls; None if not all cells have one."""
    made = [*_term(part, scan, Name(scan.cell), 0, (scan.here,))]
    if scan.here is not True or not plain(found, made[0]) or {*made[0].letters} - expr.names(part.target):
        return None  # or not all have but one
    (formula,) = made[0].formulas
    value = Binary("+", formula.value, Number(0)) if part.operator == "sum" else formula.value  # 0 - 0 is 0
    return dataclasses.replace(made[0], formulas=(formula.of(value, operator="set"),))


def _term(
    part: Part, scan: Scan, place: Expr, cells: int, conditions: Sequence[Expr | bool], *more: Expr
) -> Iterator[Part]:
    """The step that gives each cell the term at a place, so many cells before it, in calls with these conditions."""
    if False in conditions:
        return
    (formula,) = part.formulas
    own = tuple(letter for letter in part.letters if letter != scan.term)
    value = substitute(scan.value(formula.value, cells), {scan.term: place})
    guards = [dataclasses.replace(scan.guard, tree=tree) for tree in (*conditions, *more) if not isinstance(tree, bool)]
    yield dataclasses.replace(part, formulas=(formula.of(value),), where=tuple(guards), letters=own)


def _run(part: Part, scan: Scan, cell: Expr, neighbour: Expr, condition: Expr | bool, cells: int) -> Iterator[Part]:
    """The step that adds to each cell what its neighbour, so many cells before it, has added up."""
    if condition is False:
        return
    (formula,) = part.formulas
    places = [
        tuple(at if index == Name(scan.cell) else index for index in part.target.indices) for at in (cell, neighbour)
    ]
    target, value = (Read(part.target.tensor, place) for place in places)
    taken = value if scan.decay is None else Binary("*", scan.decay.over(cells), value)
    walked = tuple(letter for letter in part.letters if letter in expr.names(part.target))
    guards = () if condition is True else (dataclasses.replace(scan.guard, tree=condition),)
    yield dataclasses.replace(part, formulas=(formula.of(taken, target),), where=guards, letters=walked)


def _scan(found: Program, part: Part) -> Scan | None:
    """What makes a step a running sum; None if it is none."""
    first = found.first_writer(part.target.tensor)
    if part.operator == "set" or part.by is not None or first is not part or len(part.where) != 1:
        return None
    (guard,) = part.where
    names = [name for name in part.letters if name in expr.names(guard.tree)]
    if len(names) != 2:
        return None
    targets = expr.names(part.target)
    term, cell = names if names[1] in targets else names[::-1]
    terms, cells = found.letters[term], found.letters[cell]
    alike = (terms.extent, terms.kind) == (cells.extent, cells.kind) and cells.kind == "one"
    walks = [found.walks(part.target.tensor, n, index) for n, index in enumerate(part.target.indices)]
    value = part.formulas[0].value
    less = decay(value, cell, term) if part.operator == "sum" and cell in expr.names(value) else None
    alone = term not in targets and (less is not None or cell not in expr.names(value))
    known = part.target.tensor in {read.tensor for read in part.reads}
    between = found.arrays[part.target.tensor].role == "between"
    if not (alike and alone and between and not known and walks.count(cell) == 1):
        return None
    shown = [_decided(guard.tree, term, cell, sign) for sign in (-1, 0, 1)]
    if None in shown or _both(shown[0], shown[2]):
        return None
    before, here, behind = (tree for tree in shown if tree is not None)
    return Scan(term, cell, before, here, behind, guard, less) if before is not False or behind is not False else None


def _decided(tree: Expr, term: str, cell: str, sign: int) -> Expr | bool | None:
    """A condition for a term before (-1), at (0) or behind (1) its cell; None if it depends on the two otherwise."""
    if not {term, cell} & expr.names(tree):
        return tree
    if isinstance(tree, Unary) and tree.op == "not":
        inner = _decided(tree.operand, term, cell, sign)
        return None if inner is None else _not(inner)
    if not isinstance(tree, Binary):
        return None
    if tree.op in COMPARED:
        return _compared(tree, term, cell, sign)
    left, right = (_decided(side, term, cell, sign) for side in (tree.left, tree.right))
    if left is None or right is None or tree.op not in ("and", "or"):
        return None
    return _combined(tree.op, left, right)


def _compared(tree: Binary, term: str, cell: str, sign: int) -> bool | None:
    """The truth of a comparison of term and cell; None if it also depends on their distance or on anything else."""
    difference = folded(Binary("-", tree.left, tree.right))
    slopes = slope(difference, term), slope(difference, cell)
    rest = without(without(difference, term), cell)
    if slopes not in ((Number(1), Number(-1)), (Number(-1), Number(1))) or not isinstance(rest, Number):
        return None
    factor = 1 if slopes[0] == Number(1) else -1
    truths = {COMPARED[tree.op](factor * sign * distance + rest.value, 0) for distance in (1, 2, 3)}
    return truths.pop() if len(truths) == 1 and abs(rest.value) < 2 else None


def _not(tree: Expr | bool) -> Expr | bool:
    if isinstance(tree, bool):
        return not tree
    return tree.operand if isinstance(tree, Unary) and tree.op == "not" else Unary("not", tree)


def _combined(op: str, left: Expr | bool, right: Expr | bool) -> Expr | bool:
    deciding = op == "or"  # the truth value that decides
    for one, other in ((left, right), (right, left)):
        if isinstance(one, bool):
            return one if one == deciding else other
    assert not isinstance(left, bool)
    assert not isinstance(right, bool)
    return Binary(op, left, right)


def _both(one: Expr | bool | None, other: Expr | bool | None) -> bool:
    """Whether two conditions may hold in one call, as far as their operators tell."""
    if one is None or other is None or False in (one, other):
        return False
    atoms = list(dict.fromkeys(atom for tree in (one, other) if not isinstance(tree, bool) for atom in _atoms(tree)))
    if len(atoms) > MAX_CONDITIONS:
        return True
    for values in itertools.product((False, True), repeat=len(atoms)):
        truth = dict(zip(atoms, values, strict=True))
        if _truth(one, truth) and _truth(other, truth):
            return True
    return False


def _atoms(tree: Expr) -> Iterator[Expr]:
    if isinstance(tree, Unary) and tree.op == "not":
        yield from _atoms(tree.operand)
    elif isinstance(tree, Binary) and tree.op in ("and", "or"):
        yield from (*_atoms(tree.left), *_atoms(tree.right))
    else:
        yield tree


def _truth(tree: Expr | bool, truth: Mapping[Expr, bool]) -> bool:
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, Unary) and tree.op == "not":
        return not _truth(tree.operand, truth)
    if isinstance(tree, Binary) and tree.op in ("and", "or"):
        sides = (_truth(side, truth) for side in (tree.left, tree.right))
        return all(sides) if tree.op == "and" else any(sides)
    return truth[tree]


def run_alone(found: Program, parts: Sequence[Part], part: Part) -> bool:
    """Whether a step makes running sums of cells that those before copy, or copies such sums: one thread does it all.

    Sums of 300001 f32 take 0.64 of the time of phases that leave them in memory for each other, f64 0.44 (Intel Xeon,
    gcc 12.2).
    """
    array, both = parts[-1].target.tensor, (*parts, part)
    if any(one.where or one.by or {*one.letters} != {*part.letters} for one in both):
        return False
    if _runs(parts[-1]):
        return part.operator == "set" and moves(found, part) and {read.tensor for read in part.reads} == {array}
    return _runs(part) and part.target.tensor == array and all(moves(found, one) for one in parts)


def _runs(part: Part) -> bool:
    """Whether each cell of a step takes what its neighbour has."""
    return part.operator != "set" and part.target.tensor in {read.tensor for read in part.reads}


def moves(found: Program, part: Part) -> bool:
    """Whether a step only copies cells, as they are or with 0 added, or sets them to a number."""
    values = [given(formula.value, found.letters)[1] for formula in part.formulas]
    return all(isinstance(summed_alone(value) or value, (Read, Number)) for value in values)
