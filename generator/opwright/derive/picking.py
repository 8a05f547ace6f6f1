"""Letters that a value names: in a sum of `select(idx[n] == k, x[k, c], 0)`, idx[n] alone says which k has a term.

In: a program. Out: the program that goes to the cell named at once, `select(within(idx[n], K), x[named(idx[n], K), c],
0)`, and adds to the cell `y[idx[n], c]` where the letter is the target's. Several letters are named by their number,
`idx[n] == number(k, l)`: by its quotient and remainder. Programs alone have such indices and these functions:
`within(v, K)` says whether a number is that of a cell, `named(v, K)` is this number where it is one, and `cell(v)` the
integer that a real number is, or -1. `named(v, K, B, T)` is one digit of a number of a cell among T, `v / B % K`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary, substitute
from ..language.model import Op
from .algebra.conditions import conjunction, conjuncts, is_number, plus_zero
from .algebra.slopes import ONE, times
from .program import INITIAL, Array, Formula, Part, Program
from .rewrites.accumulating import loose_axes, plain
from .rewrites.lone_sums import factors_of, product_of
from .whole import kinds_in_steps

INTEGERS = ("s64", "s32", "s8", "u8")  # whose elements are numbers of cells as they stand


@dataclass(frozen=True)
class Pick:
    """A letter, the value that it has in all terms that count, and the condition that says so."""

    letter: str
    value: Expr
    condition: Expr
    beside: tuple[str, ...] = ()  # the letters of whose number with it this is the value, the last one fastest


def picks(found: Program, part: Part, formula: Formula) -> tuple[Pick, ...]:
    """The letters that a formula's conditions name."""
    target = part.target.tensor
    if part.operator == "set" or target in found.integers or target in {read.tensor for read in formula.reads}:
        return ()
    equal: dict[str, Pick] = {}
    for pick in _equal(found, part, formula.value, INITIAL[part.operator]):
        reads = expr.reads(pick.value)  # what is not there, or perhaps not, names nothing
        if not any(loose_axes(found, read) or gathers(read) for read in reads):
            equal.setdefault(pick.letter, pick)
    return _together([pick for pick in equal.values() if not expr.names(pick.value) & equal.keys()])


def _together(named: Sequence[Pick]) -> tuple[Pick, ...]:
    """Those that name all letters of a number, or one alone."""
    told = {(pick.letter, pick.condition) for pick in named}
    return tuple(pick for pick in named if all((one, pick.condition) in told for one in pick.beside))


def _equal(found: Program, part: Part, value: Expr, neutral: float) -> Iterator[Pick]:
    """What the conditions of a value say of letters."""
    for condition in _conditions(value, neutral):
        if isinstance(condition, Binary) and condition.op == "==":
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                letters = _counted_letters(side)
                if letters and all(_names(found, part, letter, other) for letter in letters):
                    beside = tuple(letters) if len(letters) > 1 else ()
                    yield from (Pick(letter, other, condition, beside) for letter in letters)


def _counted_letters(side: Expr) -> list[str]:
    """The letter that one side of an equation is, or those whose number it is; none of others."""
    numbered = isinstance(side, Call) and side.function == "number"
    letters = [one.id for one in (side.arguments if numbered else (side,)) if isinstance(one, Name)]  # type: ignore[union-attr]
    return letters if len({*letters}) == len(letters) else []


def scatters(part: Part) -> bool:
    """Whether the cells of a step's target are those that a value names: terms go there one after the other."""
    return bool(gathers(part.target))


def gathers(read: Read) -> list[Read]:
    """What an element's indices read."""
    return [inner for index in read.indices for inner in expr.reads(index)]


def looked_up(found: Program, op: Op) -> Program:
    """The program in which steps go to the cells that their conditions name."""
    integers = _integers(op)
    for part in found.parts:
        made = _at_cells(found, part, integers)
        if made is not part:
            found = dataclasses.replace(found, parts=found.instead(part, (made,)))
            found = dataclasses.replace(found, parts=found.instead(made, (_assigned(found, made),)))
    return found


def _integers(op: Op) -> frozenset[str]:
    """The names of integers: of tensors whose elements are numbers of cells as they stand, symbols and letters."""
    tensors = (t.name for t in op.tensors if all(row.get(t.name) in INTEGERS for row in op.dtypes))
    return frozenset((*tensors, *(name for name, kind in kinds_in_steps(op).items() if kind.base == "int")))


def _at_cells(found: Program, part: Part, integers: frozenset[str]) -> Part:
    """A step without the letters that its conditions name."""
    placed, neutral = expr.names(part.target), INITIAL[part.operator]
    formulas = []
    for formula in part.formulas:
        named = [*picks(found, part, formula)]
        rest = _untested(formula.value, neutral, {pick.condition for pick in named})
        named = [pick for pick in named if not counted(rest, pick.letter)]
        walked = {found.walks(read.tensor, *pair) for read in formula.reads for pair in enumerate(read.indices)}
        put = {found.walks(part.target.tensor, *pair) for pair in enumerate(part.target.indices)}
        named = [pick for pick in named if pick.letter not in placed or (pick.letter in put and part.by is None)]
        cells: dict[str, Expr] = {}
        tests: dict[Expr, list[Expr]] = {}
        for pick in _together(named):
            index = _cell(found, pick, integers)
            alone = isinstance(index, Read) or (isinstance(index, Call) and index.function == "cell")
            chosen = pick.letter not in placed and (alone or pick.letter not in walked)
            extent = found.letters[pick.letter].extent
            if pick.beside and not {*pick.beside} & placed:
                cells[pick.letter], test = _digit(found, pick, integers)
                tests.setdefault(pick.condition, []).append(test)
                continue
            cells[pick.letter] = Call("named", (index, extent)) if chosen else index
            tests.setdefault(pick.condition, []).extend([Call("within", (index, extent))] if chosen else [])
        value = _tested(formula.value, neutral, tests)
        target = dataclasses.replace(part.target, indices=tuple(substitute(one, cells) for one in part.target.indices))
        formulas.append(formula.of(substitute(value, cells), target))
    if tuple(formulas) == part.formulas:
        return part
    where = tuple(dataclasses.replace(guard, tree=substitute(guard.tree, cells)) for guard in part.where)
    made = dataclasses.replace(part, formulas=tuple(formulas), where=where)
    trees = [tree for one in formulas for tree in (one.assignment.target, one.value)]
    used = frozenset[str]().union(*map(expr.names, [*trees, *(guard.tree for guard in where)]))
    return dataclasses.replace(made, letters=tuple(letter for letter in part.letters if letter in used))


def _assigned(found: Program, part: Part) -> Part:
    """A step that assigns where each cell of its target has one term at most; 0 is added to a sum of -0."""
    writers = [other for other in found.parts if other.target.tensor == part.target.tensor]
    if len(writers) > 1 or not {*part.letters} <= expr.names(part.target) or not plain(found, part):
        return part

    def once(formula: Formula) -> Formula:
        value = plus_zero(formula.value) if part.operator == "sum" else formula.value
        return formula.of(value, operator="set")

    return part.each(once)


def _index(value: Expr, integers: frozenset[str]) -> Expr:
    """The number of the cell that a value names: elements of integers, and their sums with letters, are integers."""
    reads = expr.reads(value)
    whole = all(read.tensor in integers for read in reads)
    sums = len(reads) == 1 and all(
        (isinstance(node, Binary) and node.op in ("+", "-"))
        or isinstance(node, (Read, Number))
        or (isinstance(node, Name) and node.id in integers)
        for node in expr.outside_indices(value)
    )
    positive = not any(
        isinstance(node, Binary) and node.op == "-" and expr.reads(node.right) for node in expr.outside_indices(value)
    )
    reals = any(isinstance(node, Number) and not isinstance(node.value, int) for node in expr.outside_indices(value))
    return value if whole and sums and positive and not reals else Call("cell", (value,))


def _cell(found: Program, pick: Pick, integers: frozenset[str]) -> Expr:
    """The number of the cell along one letter: a digit of a number of several."""
    index = _index(pick.value, integers)
    for letter in pick.beside[::-1]:
        if letter == pick.letter:
            return index if letter == pick.beside[0] else Binary("%", index, found.divisor(letter))
        index = Call("floor", (Binary("/", index, found.divisor(letter)),))
    return index


def _digit(found: Program, pick: Pick, integers: frozenset[str]) -> tuple[Expr, Expr]:
    """The same as a digit of the number of a cell, and whether there is a cell of this number."""
    index, behind = _index(pick.value, integers), dict[str, Expr]()
    total: Expr = ONE
    for letter in pick.beside[::-1]:
        behind[letter] = total
        total = times(found.letters[letter].extent, total)
    named = Call("named", (index, found.letters[pick.letter].extent, behind[pick.letter], total))
    return named, Call("within", (index, total))


def counted(value: Expr, letter: str) -> bool:
    """Whether a value needs a letter as an integer, in what is more than an index or a condition."""
    counts = ("number", "floor", "ceil", "prod")
    return any(
        letter in expr.names(node)
        for node in expr.outside_indices(value)
        if (isinstance(node, Call) and node.function in counts) or (isinstance(node, Binary) and node.op == "%")
    ) or any(
        isinstance(node, Call) and node.function == "number" and letter in expr.names(node) for node in expr.walk(value)
    )


def _tested(value: Expr, neutral: float, tests: Mapping[Expr, Sequence[Expr]]) -> Expr:
    """A value with other conditions in place of some, or without them: they come first, as others read such cells."""
    rest = _untested(value, neutral, tests)
    first = (tests[one] for one in dict.fromkeys(_conditions(value, neutral)) if one in tests)
    named = list(dict.fromkeys(test for some in first for test in some))
    if not named:
        return rest
    if isinstance(rest, Call) and rest.function == "select" and is_number(rest.arguments[2], neutral):
        condition, chosen, other = rest.arguments
        return dataclasses.replace(rest, arguments=(conjunction([*named, *conjuncts(condition)]), chosen, other))
    return Call("select", (conjunction(named), rest, expr.children(value)[2]))


def _untested(value: Expr, neutral: float, tests: Container[Expr]) -> Expr:
    """A value without some of its conditions."""
    if not isinstance(value, Call) or value.function != "select" or not is_number(value.arguments[2], neutral):
        return value
    condition, chosen, other = value.arguments
    left = [one for one in conjuncts(condition) if one not in tests]
    inner = _untested(chosen, neutral, tests)
    return dataclasses.replace(value, arguments=(conjunction(left), inner, other)) if left else inner


def picked(found: Program, op: Op) -> Program:
    """The program in which a factor that is 0 unless a letter is named is the condition of the whole product.

    What is picked becomes an array of its own where another sum follows, so that this may be a contraction.
    """
    arrays, parts = dict(found.arrays), list[Part]()
    for part in found.parts:
        parts += _conditional(dataclasses.replace(found, arrays=arrays), part, arrays, _integers(op))
    return dataclasses.replace(found, arrays=arrays, parts=tuple(parts))


def conditioned(found: Program) -> Program:
    """The program whose sums have such a factor as the condition of all of the product, whatever becomes of letters."""

    def of(part: Part) -> Part:
        return _when_named(found, part) if part.operator == "sum" else part

    return dataclasses.replace(found, parts=tuple(map(of, found.parts)))


def _conditional(found: Program, part: Part, arrays: dict[str, Array], integers: frozenset[str]) -> Iterator[Part]:
    """The steps that a sum of a product becomes; their arrays are added to `arrays`, which are those of the program."""
    if part.operator == "sum":
        conditions, factors = _factors(part.formulas[0].value)
        part = _when_named(found, part)
        named = picks(found, part, part.formulas[0]) if part.by is None and not part.where else ()
        named = tuple(pick for pick in named if not pick.beside)
        apart = _apart(found, part, named, conditions, factors, integers) if named and conditions else None
        if apart is not None:
            target, (array, first, tests, value) = expr.names(part.target), apart
            arrays[array.name] = array
            yield first
            # What no condition lets in adds nothing, even beside infinite factors.
            outer = [one for one in tests if _letters(found, one) <= target]
            if outer and _letters(found, product_of(value)) - target:
                inner = tests if len(outer) < len(tests) else []  # one may read the cell that another says is there
                array, product, _, value = _array(found, part, inner, value, target)
                arrays[array.name] = array
                yield from _conditional(found, product, arrays, integers)
                tests = outer
            yield from _conditional(found, part.of(part.target, "sum", _chosen(tests, value)), arrays, integers)
            return
    yield part


def _when_named(found: Program, part: Part) -> Part:
    """A sum with terms only where they may be other than 0."""
    return part.each(lambda formula: _of_named(found, part, formula))


def _of_named(found: Program, part: Part, formula: Formula) -> Formula:
    """A product of which a factor is 0 unless a letter is named has only terms in which it is: others are not read."""
    if not names_letter(found, part, formula.value) or part.target.tensor in {r.tensor for r in formula.reads}:
        return formula
    value = _chosen(*_factors(formula.value))
    return formula.of(value)


def names_letter(found: Program, part: Part, value: Expr) -> bool:
    """Whether a product is 0 unless a letter is that which something names."""
    return any(not pick.beside for pick in _equal(found, part, _chosen(*_factors(value)), INITIAL["sum"]))


def _apart(
    found: Program,
    part: Part,
    named: tuple[Pick, ...],
    conditions: list[Expr],
    factors: list[Expr],
    integers: frozenset[str],
) -> tuple[Array, Part, list[Expr], list[Expr]] | None:
    """What a step picks or sums first: an array, and its step; with the conditions and factors of what is left."""
    target = expr.names(part.target)
    inside = not any(loose_axes(found, read) for read in part.reads)
    for pick in named:
        own = [one for one in factors if pick.letter in expr.names(one)]
        others = [one for one in factors if one not in own]
        tests = [one for one in conditions if pick.letter in expr.names(one)]
        free = [one for one in named if one.letter not in target.union(*map(expr.names, others))]
        if pick not in free or not own or not others or not inside:
            continue
        if any(counted(one, other.letter) for one in conditions for other in free):
            continue
        if (_letters(found, product_of(others)) - target) & _letters(found, product_of(own)):
            rest = _of_cells(found, free, conditions, tests, integers)
            kept = target.union(*map(expr.names, (*others, *rest)))
            array, first, summed, cells = _array(found, part, tests, own, kept)
            empty = found.may_be_empty(one for one in summed if one not in {other.letter for other in named})
            return array, first, [*map(found.has_values, empty), *rest], [*cells, *others]
    kept = target.union(*map(expr.names, conditions))
    if len(factors) > 1 and _letters(found, product_of(factors)) - kept:
        array, first, _, cells = _array(found, part, [], factors, kept)
        return array, first, conditions, cells
    return None


def _of_cells(
    found: Program, free: list[Pick], conditions: list[Expr], tests: list[Expr], integers: frozenset[str]
) -> list[Expr]:
    """Conditions without the letters that some of them name: cells exist, and the others hold for these."""
    told = {pick.condition: pick for pick in free if any(pick.condition in conjuncts(one) for one in tests)}
    cells: dict[str, Expr] = {}
    exist = list[Expr]()
    for pick in told.values():
        index, extent = _index(pick.value, integers), found.letters[pick.letter].extent
        cells[pick.letter] = Call("named", (index, extent))
        exist.append(Call("within", (index, extent)))
    each = [one for test in conditions for one in conjuncts(test)]
    return exist + [substitute(one, cells) for one in each if one not in told]


def _array(
    found: Program, part: Part, tests: list[Expr], own: list[Expr], kept: frozenset[str]
) -> tuple[Array, Part, list[str], list[Expr]]:
    """The sum of a product over all letters but those that are kept, the letters of which it is, and its cell."""
    value = _chosen(tests, own)
    letters = [one for one in part.letters if one in kept and one in expr.names(value)]
    summed = [one for one in part.letters if one not in kept and one in expr.names(value)]
    name = f"picked_{sum(array.startswith('picked_') for array in found.arrays)}_"
    axes = tuple(dataclasses.replace(found.letters[one], name=one) for one in letters)
    cells = Read(name, tuple(map(Name, letters)))
    return Array(name, "between", axes), part.of(cells, "sum", value), summed, [cells]


def _chosen(conditions: list[Expr], factors: list[Expr]) -> Expr:
    """A product where conditions hold, else 0."""
    value = product_of(factors or [Number(1)])
    if not conditions:
        return value
    return Call("select", (conjunction(conditions), value, Number(0)))


def _factors(value: Expr) -> tuple[list[Expr], list[Expr]]:
    """The conditions under which a product is not 0, and its factors."""
    conditions, factors = list[Expr](), list[Expr]()
    for factor in factors_of(value):
        if isinstance(factor, Call) and factor.function == "select" and is_number(factor.arguments[2], 0):
            more, inner = _factors(factor.arguments[1])
            conditions += [factor.arguments[0], *more]
            factors += [one for one in inner if not is_number(one, 1)]
        elif (scaled := _scaled(factor)) is not None:
            conditions += scaled[0]
            factors += scaled[1]
        else:
            factors.append(factor)
    return conditions, factors


def _scaled(factor: Expr) -> tuple[list[Expr], list[Expr]] | None:
    """The same of a product that is negated or divided; None if it is not, or has no conditions."""
    divided = isinstance(factor, Binary) and factor.op == "/"
    if not divided and not (isinstance(factor, Unary) and factor.op == "-"):
        return None
    conditions, factors = _factors(expr.children(factor)[0])
    *others, last = factors or [Number(1)]
    scaled = Binary("/", last, factor.right) if isinstance(factor, Binary) else Unary("-", last)
    return (conditions, [*others, scaled]) if conditions else None


def _conditions(value: Expr, neutral: float) -> Iterator[Expr]:
    """What must hold for a value to be another than the neutral one."""
    while isinstance(value, Call) and value.function == "select" and is_number(value.arguments[2], neutral):
        yield from conjuncts(value.arguments[0])
        value = value.arguments[1]


def _names(found: Program, part: Part, letter: str, value: Expr) -> bool:
    """Whether one side of an equation has a letter, and the other, which is read, tells it."""
    if letter not in part.letters or found.letters[letter].kind != "one":
        return False
    return any(expr.reads(value)) and letter not in expr.names(value)


def _letters(found: Program, tree: Expr) -> set[str]:
    return {*expr.names(tree)} & {*found.letters}
