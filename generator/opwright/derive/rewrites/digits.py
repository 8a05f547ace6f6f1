"""Letters that indices take apart, `x[n, floor(l / W), l % W]`: each becomes two letters, its digits.

In: a program. Out: the program in which a letter by whose quotient and remainder elements are read is `high * W + low`,
where its extent is a multiple of W in every call. So is one whose quotient counts groups of an axis, as in
`x[n, floor(o / W) * E + e]`: 500x128 by 4 groups of 47x32 f32 take 0.09 of their time, attention of 12 heads by 4 along
one axis 0.12 (Intel Xeon, gcc 12.2). So is one by whose quotient a product reads what several cells share, as queries
share keys by threes: 200x11x64 by 352x64 f32 in groups of 32 take 0.11. An array between steps that has the letter has
both digits instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..algebra.poly import NotPolynomial, Poly, polynomial
from ..algebra.slopes import product
from ..program import Axis, Part, Program
from ..roles import COLUMNS, REDUCED, ROWS, WINDOW, roles
from .accumulating import renamed_part
from .lone_sums import factors_of
from .respelling import exchanging


def in_digits(found: Program) -> Program:
    """The program with such letters in two."""
    while (split := next(filter(None, (_split(found, *one) for one in _taken_apart(found))), None)) is not None:
        found = split
    return found


def _taken_apart(found: Program) -> Iterator[tuple[str, Expr, Expr]]:
    """Such letters, the one divisor of each, and the extent of its quotient."""
    empty = {letter for part in found.parts for letter in part.unless_empty}
    for letter, axis in found.letters.items():
        quotients, rests = set[Expr](), set[Expr]()
        for part in found.parts if axis.kind == "one" and letter not in empty else ():
            for index in _indices([part]):
                for node in (
                    node for node in expr.walk(index) if isinstance(node, Binary) and node.left == Name(letter)
                ):
                    quotients |= {node.right} if node.op == "/" else set()
                    rests |= {node.right} if node.op == "%" else set()
        if len(quotients) == 1 and (quotients == rests or not rests):
            (by,) = quotients
            extent = divided(found, axis.extent, by)
            if extent is not None:
                yield letter, by, extent


def _split(found: Program, letter: str, by: Expr, extent: Expr) -> Program | None:
    """The program with both digits; None if a step that reduces the letter has one alone: its terms are more, or if the

    letter is not read by its remainder, and its quotient neither counts groups nor finds what products share.
    """
    high, low = f"{letter}_high_", f"{letter}_low_"
    digits = {high: Axis(high, extent, "one"), low: Axis(low, by, "one")}
    letters = dict[str, Axis]()
    for name, axis in found.letters.items():
        letters |= digits if name == letter else {name: axis}
    index = Binary("+", Binary("*", Name(high), by), Name(low))
    quotient, rest = Binary("/", Name(letter), by), Binary("%", Name(letter), by)
    exchanged: dict[Expr, Expr] = {Call("floor", (quotient,)): Name(high), rest: Name(low), Name(letter): index}
    for node in _numbers(found, letter):
        digit = ((Name(high), Name(low)) if one == Name(letter) else (one,) for one in node.arguments)
        exchanged[node] = Call("number", tuple(one for pair in digit for one in pair))
    made = dataclasses.replace(found, letters=letters)
    parts = [exchanging(made, part, exchanged) if letter in part.letters else part for part in found.parts]
    if any(len({*part.letters} & {*digits}) == 1 for part in parts):
        return None
    halved = any(rest in expr.walk(index) for index in _indices(found.parts))
    if not halved and not _groups(made, parts, high, low) and not _shares(parts, Name(high), index):
        return None
    arrays = dict(found.arrays)
    for array in found.between():
        uses = [read for part in parts for read in (part.target, *part.reads) if read.tensor == array.name]
        for number in (n for n in reversed(range(len(array.axes))) if {use.indices[n] for use in uses} == {index}):
            axes = arrays[array.name].axes
            axes = (*axes[:number], *digits.values(), *axes[number + 1 :])
            arrays[array.name] = dataclasses.replace(array, axes=axes)
            parts = [renamed_part(part, array.name, array.name, {number: (high, low)}) for part in parts]
    return dataclasses.replace(made, arrays=arrays, parts=tuple(parts))


def _indices(parts: Iterable[Part]) -> Iterator[Expr]:
    """Of all reads."""
    return (index for part in parts for read in part.reads for index in read.indices)


def _groups(found: Program, parts: Iterable[Part], high: str, low: str) -> bool:
    """Whether the high digit, where it does not stand alone, goes through a whole axis with other letters."""
    places = [(read.tensor, n, index) for part in parts for read in part.reads for n, index in enumerate(read.indices)]
    beside = [one for one in places if {high, low} & expr.names(one[2]) == {high} and one[2] != Name(high)]
    return bool(beside) and all(found.digits(*one) is not None for one in beside)


def _shares(parts: Iterable[Part], high: Expr, both: Expr) -> bool:
    """Whether products read an operand by the high digit and another by both, and nothing moves along their axes.

    In digits, the windows of a convolution of cells that an array repeats take twice their time.
    """
    shared = False
    for part in parts:
        axes = [[index for index in read.indices if expr.names(index) & expr.names(both)] for read in part.reads]
        indices = {*(index for some in axes for index in some), *part.target.indices}
        if any(expr.names(index) & expr.names(both) and index not in (high, both) for index in indices):
            return False
        shared = shared or ([high] in axes and [both] in axes and _is_dense(part))
    return shared


def _is_dense(part: Part) -> bool:
    """Whether a step sums products of two elements, each of which it uses often."""
    factors = [*factors_of(part.formulas[0].value)] if part.operator == "sum" else []
    reads = [factor for factor in factors if isinstance(factor, Read)]
    found = {role.removeprefix(f"{WINDOW} ") for role in roles(part.target, reads, part.letters).values()}
    return len(factors) == len(reads) == 2 and {ROWS, COLUMNS, REDUCED} <= found


def _numbers(found: Program, letter: str) -> Iterator[Call]:
    """The calls of `number` that count a letter, alone or with others: they count its digits."""
    for part in found.parts:
        trees = [*(guard.tree for guard in part.where), part.target, *(formula.value for formula in part.formulas)]
        for node in (node for tree in trees for node in expr.walk(tree)):
            if isinstance(node, Call) and node.function == "number" and Name(letter) in node.arguments:
                yield node


def divided(found: Program, extent: Expr, by: Expr) -> Expr | None:
    """The extent divided by a number that divides it in every call; None if it may not."""
    if (extent, by) in found.sizes.divides:
        return Binary("/", extent, by)
    try:
        whole, divisor = (polynomial(one).substitute(found.sizes.values) for one in (extent, by))
        same = [whole, *(whole - one for one in found.sizes.known if found.sizes.equal(whole - one, whole))]
        trees = (_tree(found, one / divisor) for one in same if len(one.terms) == len(divisor.terms) == 1)
        return next((tree for tree in trees if tree is not None), None)
    except NotPolynomial:
        return None


def _tree(found: Program, value: Poly) -> Expr | None:
    """A product as an expression; None if it is a quotient of which no constraint says that it leaves no remainder."""
    named = next((Name(name) for name, own in found.sizes.values.items() if own == value), None)
    if named is not None:
        return named
    ((powers, factor),) = value.terms
    above = [Name(name) for name, power in powers for _ in range(power)]
    below = [Name(name) for name, power in powers for _ in range(-power)]
    if not below:
        return product([*([Number(factor)] if factor != 1 else []), *above]) if factor > 0 else None
    exact = next((one for one in above if (one, below[0]) in found.sizes.divides), None)
    if len(below) > 1 or exact is None:
        return None
    above.remove(exact)
    return product([*([Number(factor)] if factor != 1 else []), *above, Binary("/", exact, below[0])])
