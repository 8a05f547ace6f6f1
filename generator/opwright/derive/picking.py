"""Letters that a value names: in a sum of `select(idx[n] == k, x[k, c], 0)`, idx[n] alone says which k has a term.

In: a program, and a formula of a step. Out: its picks, each a letter and the value that it equals wherever the formula
adds anything but the operator's neutral value: loops go to that cell at once, and need not try all of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary
from .algebra.conditions import conjuncts
from .program import INITIAL, Array, Formula, Part, Program
from .rewrites.lone_sums import factors_of, product_of


@dataclass(frozen=True)
class Pick:
    """A letter, and the value that it has in all terms that count."""

    letter: str
    value: Expr


def picks(found: Program, part: Part, formula: Formula) -> tuple[Pick, ...]:
    """The letters that a formula's conditions name."""
    target = part.target.tensor
    if part.operator == "set" or target in found.integers or target in {read.tensor for read in formula.reads}:
        return ()
    equal: dict[str, Pick] = {}
    for condition in _conditions(formula.value, INITIAL[part.operator]):
        if isinstance(condition, Binary) and condition.op == "==":
            for side, value in ((condition.left, condition.right), (condition.right, condition.left)):
                if _names(found, part, side, value):
                    equal.setdefault(side.id, Pick(side.id, value))  # type: ignore[union-attr]
    return tuple(pick for pick in equal.values() if not expr.names(pick.value) & equal.keys())


def scattered(found: Program, part: Part) -> frozenset[str]:
    """The letters of a step's target that what it sums names: terms are put where they belong, one after the other."""
    target = expr.names(part.target)
    return frozenset(
        pick.letter
        for formula in part.formulas
        for pick in picks(found, part, formula)
        if pick.letter in target and _letters(found, pick.value) - target
    )


def picked(found: Program) -> Program:
    """The program in which a factor that is 0 unless a letter is named is the condition of the whole product.

    What is picked becomes an array of its own where another sum follows, so that this may be a contraction.
    """
    arrays, parts = dict(found.arrays), list[Part]()
    for part in found.parts:
        parts += _conditional(found, part, arrays)
    return dataclasses.replace(found, arrays=arrays, parts=tuple(parts))


def _conditional(found: Program, part: Part, arrays: dict[str, Array]) -> Iterator[Part]:
    """The steps that a sum of a product becomes; their arrays are added to `arrays`."""
    conditions, factors = _factors(part.formulas[0].value)
    if part.operator == "sum" and part.by is None and conditions:
        made = _valued(part, _chosen(conditions, factors))
        named = picks(found, made, made.formulas[0])
        if named and not part.where:
            apart = _apart(found, part, named, conditions, factors)
            if apart is not None:
                array, first, value = apart
                arrays[array.name] = array
                yield first
                yield from _conditional(dataclasses.replace(found, arrays=arrays), _valued(part, value), arrays)
                return
        part = made if named else part
    yield part


def _apart(
    found: Program, part: Part, named: tuple[Pick, ...], conditions: list[Expr], factors: list[Expr]
) -> tuple[Array, Part, Expr] | None:
    """What a step picks or sums before it sums or puts it elsewhere: an array, its step, and the value of the rest."""
    target = expr.names(part.target)
    for pick in named:
        own = [one for one in factors if pick.letter in expr.names(one)]
        others = [one for one in factors if one not in own]
        tests = [one for one in conditions if pick.letter in expr.names(one)]
        rest = [one for one in conditions if one not in tests]
        if pick.letter not in target and own and others:
            kept = target.union(*map(expr.names, (*others, *rest)))
            if (_letters(found, product_of(others)) - target) & _letters(found, product_of(own)):
                return _array(found, part, tests, own, kept, rest, others)
    kept = target.union(*map(expr.names, conditions))
    if len(factors) > 1 and _letters(found, product_of(factors)) - kept:
        return _array(found, part, [], factors, kept, conditions, [])
    return None


def _array(
    found: Program,
    part: Part,
    tests: list[Expr],
    own: list[Expr],
    kept: frozenset[str],
    rest: list[Expr],
    others: list[Expr],
) -> tuple[Array, Part, Expr]:
    """The sum of a product over all letters but those that are kept, and what a step is that reads it."""
    value = _chosen(tests, own)
    letters = [one for one in part.letters if one in kept and one in expr.names(value)]
    name = f"picked_{sum(array.startswith('picked_') for array in found.arrays)}_"
    axes = tuple(dataclasses.replace(found.letters[one], name=one) for one in letters)
    cells = Read(name, tuple(map(Name, letters)))
    return Array(name, "between", axes), part.of(cells, "sum", value), _chosen(rest, [cells, *others])


def _valued(part: Part, value: Expr) -> Part:
    made = part.of(part.target, "sum", value)
    return dataclasses.replace(part, formulas=made.formulas, letters=made.letters if not part.where else part.letters)


def _chosen(conditions: list[Expr], factors: list[Expr]) -> Expr:
    """A product where conditions hold, else 0."""
    value = product_of(factors or [Number(1)])
    if not conditions:
        return value
    return Call(
        "select", (functools.reduce(lambda one, other: Binary("and", one, other), conditions), value, Number(0))
    )


def _factors(value: Expr) -> tuple[list[Expr], list[Expr]]:
    """The conditions under which a product is not 0, and its factors."""
    conditions, factors = list[Expr](), list[Expr]()
    for factor in factors_of(value):
        if isinstance(factor, Call) and factor.function == "select" and _is(factor.arguments[2], 0):
            more, inner = _factors(factor.arguments[1])
            conditions += [factor.arguments[0], *more]
            factors += [one for one in inner if not _is(one, 1)]
        else:
            factors.append(factor)
    return conditions, factors


def _conditions(value: Expr, neutral: float) -> Iterator[Expr]:
    """What must hold for a value to be another than the neutral one."""
    while isinstance(value, Call) and value.function == "select" and _is(value.arguments[2], neutral):
        yield from conjuncts(value.arguments[0])
        value = value.arguments[1]


def _names(found: Program, part: Part, side: Expr, value: Expr) -> bool:
    """Whether one side of an equation is a letter, and the other, which is read, tells it."""
    if not isinstance(side, Name) or side.id not in part.letters or found.letters[side.id].kind != "one":
        return False
    return any(expr.reads(value)) and side.id not in expr.names(value)


def _letters(found: Program, tree: Expr) -> set[str]:
    return {*expr.names(tree)} & {*found.letters}


def _is(tree: Expr, value: float) -> bool:
    if isinstance(tree, Unary) and tree.op == "-":
        return _is(tree.operand, -value)
    return isinstance(tree, Number) and tree.value == value
