"""The indices of an element solved for its letters: the cell is given, and the letters that reach it follow from it.

In: an element, `mean[n, o * S + k - P]`, and the letters of its cell, `mean[n, x]`. Out: `o` as a function of `x` and
`k`, with the conditions for `o` to be one of its values. `floor(c / W)` has W letters `c` for each cell, which a letter
of its own counts. An index that goes around its axis, `(c + Q) % C`, has one, which goes around it the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..algebra.slopes import minus, negated, slope, without
from ..program import Part, Program
from .statements import Need, plain
from .terms import ONE, Sum, Term, add, factor, negative, terms_of, tree_of


@dataclass
class Solved:
    """What stands in place of letters and of the indices that they make, what must be true, and letters that count."""

    trees: dict[Expr, Expr] = field(default_factory=dict)
    letters: set[str] = field(default_factory=set)  # those that follow from the others
    where: list[Expr] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    counting: list[str] = field(default_factory=list)


def within(letter: str) -> str:
    """The name of the letter that counts the values of another one for which a quotient is the same."""
    return f"{letter}Within"


def quotients(read: Read) -> list[tuple[str, Expr]]:
    """The letters that an element is read at the quotients of, with the divisors."""
    found = []
    for index in read.indices:
        inner = index.arguments[0] if isinstance(index, Call) and index.function == "floor" else None
        if isinstance(inner, Binary) and inner.op == "/" and isinstance(inner.left, Name):
            found.append((inner.left.id, inner.right))
    return found


def solved(found: Program, read: Read, cell: Sequence[str], free: frozenset[str]) -> Solved | None:
    """The solution for some letters that may be replaced; None if there is no simple one."""
    made = Solved()
    rest = [index for index in read.indices if index != Number(0)]
    if len(rest) != len(cell):
        return None
    for number, (index, letter) in enumerate(zip(rest, cell, strict=True)):
        others = frozenset[str]().union(*map(expr.names, (*rest[:number], *rest[number + 1 :])))
        own = [name for name in found.letters if name in expr.names(index) & free - others]
        if not (own and _solve(found, made, index, letter, own)):
            return None
        made.trees[index] = Name(letter)
    return None if free - made.letters & {*cell, *made.counting} else made


def gathered(found: Program, part: Part) -> Solved | None:
    """A step by the letters of the cells of an intermediate, which it writes at other indices; None if not solved."""
    array = found.arrays[part.target.tensor]
    if array.role != "between" or plain(found, part.target) is not None:
        return None
    return solved(found, part.target, [axis.name for axis in array.axes], frozenset(part.letters))


def _solve(found: Program, made: Solved, index: Expr, cell: str, own: Sequence[str]) -> bool:
    """Solve one index for one of its letters."""
    for letter, divisor in quotients(Read("", (index,))):
        inner = within(letter)
        if inner not in found.letters or found.letters[inner].extent != divisor:
            return False
        made.counting.append(inner)
        return _record(found, made, letter, Binary("+", Binary("*", Name(cell), divisor), Name(inner)))
    if _around(found, made, index, cell, own):
        return True
    steps = [(name, step) for name in own if (step := _step(terms_of(index), name)) is not None]
    if not steps:
        return False
    # the letter of a window's place rather than that of its taps
    letter, step = min(steps, key=lambda one: (one[1] == negative(ONE), one[1] == ONE))
    others = tuple(term for term in terms_of(index) if letter not in term.names)
    if step == negative(ONE):
        return _record(found, made, letter, tree_of(add(others, negative(factor(Name(cell))))))
    rest = tree_of(add(factor(Name(cell)), negative(others)))
    if step == ONE:
        return _record(found, made, letter, rest)
    by = tree_of(step)
    made.where.append(Binary("==", Binary("%", rest, by), Number(0)))
    return _record(found, made, letter, Call("floor", (Binary("/", rest, by),)))


def _around(found: Program, made: Solved, index: Expr, cell: str, own: Sequence[str]) -> bool:
    """Solve an index that goes around the whole axis for a letter that walks as many cells."""
    axis = found.letters[cell]
    if not isinstance(index, Binary) or index.op != "%" or index.right != axis.extent:
        return False
    for letter in own:
        growth, walked = slope(index.left, letter), found.letters[letter]
        if growth in (Number(1), Number(-1)) and (walked.extent, walked.kind) == (axis.extent, "one"):
            back = minus(Name(cell), without(index.left, letter))
            made.trees[Name(letter)] = Binary("%", back if growth == Number(1) else negated(back), index.right)
            made.letters.add(letter)
            return True
    return False


def _step(index: Sum, letter: str) -> Sum | None:
    """The step of an index for one of its letters; None if it is neither a positive multiple of it nor counts down."""
    own = [term for term in index if letter in term.names]
    factors = tuple(entry for term in own for entry in term.factors if entry != (Name(letter), 1))
    step = Term(own[0].coefficient if own else Fraction(0), factors)
    known = step.coefficient > 0 or (step,) == negative(ONE)
    return (step,) if len(own) == 1 and known and letter not in step.names else None


def _record(found: Program, made: Solved, letter: str, tree: Expr) -> bool:
    made.trees[Name(letter)] = tree
    made.letters.add(letter)
    made.needs.append(Need((tree,), (found.letters[letter],)))
    return True
