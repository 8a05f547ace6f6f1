"""Two spellings of one meaning made one, so that what follows sees the same letters and operators.

In: a program. Out: the program in which a sum that has one term for each cell assigns it; in which a step that walks an
axis by one letter `c`, and reads at `floor(c / W)`, walks it by `g * W + w` if another step does; in which a step that
writes around an axis, `y[(c + S) % C] = x[c]`, reads around it, `x[(c - S) % C]`; and in which a sum of products that
reads a factor at `K - 1 - k` counts `k` from the other end, if that makes it a contraction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..algebra.conditions import plus_zero
from ..algebra.slopes import minus, negated, plus, slope, times, without
from ..contraction import contraction
from ..gradient.disjoint import disjoint
from ..program import Formula, Part, Program


def respelled(found: Program) -> Program:
    """The program in one spelling."""
    pairs = list(dict.fromkeys(_pairs(found)))
    grouped = dataclasses.replace(found, parts=tuple(_grouped(found, part, pairs) for part in found.parts))
    parts = tuple(_turned(grouped, part) for part in grouped.parts)
    return dataclasses.replace(found, parts=parts) if parts != found.parts else found


def unwound(found: Program) -> Program:
    """The program in which steps that write around an axis go through its cells in order.

    300 rows of 1001 f32 that are rolled by `y[n, (l + S) % L] = x[n, l]` take 0.05 of their time (Zen 5, gcc 12.2).
    """
    return dataclasses.replace(found, parts=tuple(_unwound(found, part) for part in found.parts))


def numbered(found: Program) -> Program:
    """The program whose indices have sums of digits for the numbers of several letters, `number(u, v)`."""

    def sum_of_digits(node: Expr) -> Expr | None:
        several = isinstance(node, Call) and node.function == "number" and len(node.arguments) > 1
        return counted(found, node) if isinstance(node, Call) and several else None

    def of_reads(node: Expr) -> Expr | None:
        if not isinstance(node, Read):
            return None
        inner = (expr.changed(expr.changed(index, sum_of_digits), of_reads) for index in node.indices)
        return dataclasses.replace(node, indices=tuple(inner))

    return dataclasses.replace(found, parts=tuple(changed(found, part, of_reads) for part in found.parts))


def counted(found: Program, number: Call) -> Expr | None:
    """The number of letters, `number(u, v)`, as a sum of digits; None if one of them walks several axes."""
    letters = [found.letters[one.id] for one in number.arguments if isinstance(one, Name)]
    total: Expr = Number(0)
    for letter in letters:
        total = plus(times(total, letter.extent), Name(letter.name))
    return None if any(letter.kind != "one" for letter in letters) else total


def assigned(found: Program, once: Callable[[Program, Part], bool]) -> Program:
    """The program in which sums of one term, as in an outer product, are assigned, 0 added to -0.

    `once`: whether a step reaches each cell of its target once at most. Other steps may write other cells, as
    where steps join arrays, `y[i] += a[i]` and `y[i + A] += b[i]`: no array of sums is cleared, read and added to.
    """

    def set_once(formula: Formula) -> Formula:
        return formula.of(plus_zero(formula.value), operator="set")

    def alone(part: Part) -> bool:
        others = [other for other in found.parts if other.target.tensor == part.target.tensor and other is not part]
        plain = not (part.by or part.where or part.target.tensor in {read.tensor for read in part.reads})
        from_0 = all(other.operator in ("sum", "set") for other in others)
        return not others or (plain and from_0 and all(disjoint(found, part, other) for other in others))

    def of(part: Part) -> Part:
        single = part.operator == "sum" and set(part.letters) <= expr.names(part.target)
        if not (single and once(found, part) and alone(part)):
            return part
        return part.each(set_once)

    return dataclasses.replace(found, parts=tuple(map(of, found.parts)))


def _pairs(found: Program) -> Iterator[tuple[Expr, str, str, Expr]]:
    """The axes that two letters walk: the extent, both letters, and the index."""
    for part in found.parts:
        for read in (part.target, *part.reads):
            for number, index in enumerate(read.indices):
                pair = found.digits(read.tensor, number, index) or ()
                if len(pair) == 2:
                    yield found.arrays[read.tensor].axes[number].extent, pair[0], pair[1], index


def _grouped(found: Program, part: Part, pairs: list[tuple[Expr, str, str, Expr]]) -> Part:
    """A step that walks an axis by one letter, in those of a step that walks it by groups."""
    for extent, outer, inner, index in pairs:
        if {outer, inner} & {*part.letters} or part.where or contraction(found, part):
            continue
        numbers = frozenset[str]().union(*(expr.names_outside_indices(formula.value) for formula in part.formulas))
        for letter in (letter for letter in part.letters if letter not in numbers):
            quotient = Call("floor", (Binary("/", Name(letter), found.letters[inner].extent),))
            read = any(quotient in one.indices for one in part.reads)
            if read and (found.letters[letter].extent, found.letters[letter].kind) == (extent, "one"):
                rest = Binary("%", Name(letter), found.letters[inner].extent)
                made = exchanging(found, part, {quotient: Name(outer), rest: Name(inner), Name(letter): index})
                part = made if {outer, inner} <= {*made.letters} else part  # else its terms were fewer
                break
    return part


def _unwound(found: Program, part: Part) -> Part:
    target = part.target
    if any(formula.assignment.target != target for formula in part.formulas):
        return part
    for number, (axis, index) in enumerate(zip(found.arrays[target.tensor].axes, target.indices, strict=True)):
        if axis.kind != "one" or not isinstance(index, Binary) or index.op != "%" or index.right != axis.extent:
            continue
        others = (*target.indices[:number], *target.indices[number + 1 :], axis.extent)
        alone = expr.names(index.left) - frozenset[str]().union(*map(expr.names, others))
        for letter in (letter for letter in part.letters if letter in alone):
            growth, walked = slope(index.left, letter), found.letters[letter]
            if growth in (Number(1), Number(-1)) and (walked.extent, walked.kind) == (axis.extent, "one"):
                back = minus(Name(letter), without(index.left, letter))
                place = Binary("%", back if growth == Number(1) else negated(back), axis.extent)
                return exchanging(found, part, {index: Name(letter), Name(letter): place})
    return part


def _turned(found: Program, part: Part) -> Part:
    """A sum of products with letters that count from the other end, if it is a contraction then."""
    if part.operator != "sum" or contraction(found, part) or part.by or part.where:
        return part
    made = part
    for letter in part.letters:
        last = minus(found.letters[letter].extent, Number(1))
        back = [index for read in made.reads for index in read.indices if _counts_back(index, letter, last)]
        if back:
            other = Binary("-", last, Name(letter))
            made = exchanging(found, made, {**dict.fromkeys(back, Name(letter)), Name(letter): other})
    parts = found.instead(part, (made,))
    return made if made is not part and contraction(dataclasses.replace(found, parts=parts), made) else part


def _counts_back(index: Expr, letter: str, last: Expr) -> bool:
    return slope(index, letter) == Number(-1) and without(index, letter) == last


def exchanging(found: Program, part: Part, exchanged: Mapping[Expr, Expr]) -> Part:
    """A step with trees exchanged, throughout. The number of letters that are no letters then is a sum of digits."""

    def visit(node: Expr) -> Expr | None:
        named = not isinstance(node, Call) or node.function != "number" or node in exchanged
        if isinstance(node, Call) and not named:
            named = all(isinstance(exchanged.get(letter, letter), Name) for letter in node.arguments)
        digits = counted(found, node) if isinstance(node, Call) and not named else None
        return exchanged.get(node) if digits is None else expr.changed(digits, exchanged.get)

    return changed(found, part, visit)


def changed(found: Program, part: Part, visit: Callable[[Expr], Expr | None]) -> Part:
    """A step with trees replaced, throughout: the largest ones that `visit` replaces."""
    formulas = []
    for formula in part.formulas:
        target = expr.changed(formula.assignment.target, visit)
        assert isinstance(target, Read)
        formulas.append(formula.of(expr.changed(formula.value, visit), target))
    guards = tuple(dataclasses.replace(guard, tree=expr.changed(guard.tree, visit)) for guard in part.where)
    trees = [tree for formula in formulas for tree in (formula.assignment.target, formula.value)]
    used = frozenset[str]().union(*map(expr.names, [*trees, *(guard.tree for guard in guards)]))
    letters = tuple(letter for letter in found.letters if letter in used)
    return dataclasses.replace(part, formulas=tuple(formulas), where=guards, letters=letters)


def exchanged_in(tree: Expr, exchanged: Mapping[Expr, Expr]) -> Expr:
    """A tree with each of the largest parts that are named exchanged once; those of indices, too."""
    return expr.changed(tree, exchanged.get)
