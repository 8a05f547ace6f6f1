"""Whether two formulas say the same, decided on a grid of small cases.

In: two formulas and the kinds of their symbols. Out: how the second relates to the first. That is no proof, and
findings say so; the cases are the same at every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from ..language import expr
from ..language.expr import Binary, Call, Expr, Inexact, Kind, Number, Read, Unary
from ..language.schema import Assignment, Located

CASES = 400
MOST = 6
AXES = 2
PRIME = 2_147_483_647


def grid(names: frozenset[str], kinds: Mapping[str, Kind], least: Mapping[str, int]) -> Iterator[dict[str, expr.Value]]:
    """Small values for some symbols; those with a value per axis get two."""
    chance = random.Random(0)
    for case in range(CASES):
        top = 1 if case < CASES // 8 else MOST

        def one(name: str, top: int = top) -> int:
            low = least.get(name, 0)
            return chance.randint(low, max(low, top))

        yield {
            name: tuple(one(name) for _ in range(AXES)) if name in kinds and kinds[name].vector else one(name)
            for name in sorted(names)
        }


def _value(tree: Expr, symbols: Mapping[str, expr.Value]) -> Any:
    """A value, or the word `inexact`. An element of a tensor counts as a number made of its indices."""
    try:
        return expr.evaluate(_grounded(tree, symbols), symbols)
    except (Inexact, AssertionError, TypeError):
        return "inexact"


def _grounded(tree: Expr, symbols: Mapping[str, expr.Value]) -> Expr:
    if isinstance(tree, Read):
        where = tuple(_value(index, symbols) for index in tree.indices)
        return Number(random.Random(repr((tree.tensor, where))).randrange(1, PRIME))
    if isinstance(tree, Unary):
        return Unary(tree.op, _grounded(tree.operand, symbols))
    if isinstance(tree, Binary):
        return Binary(tree.op, _grounded(tree.left, symbols), _grounded(tree.right, symbols))
    if isinstance(tree, Call):
        return Call(tree.function, tuple(_grounded(argument, symbols) for argument in tree.arguments))
    return tree


def _names(tree: Expr) -> frozenset[str]:
    found = expr.names(tree)
    return found.union(*(expr.names(index) for read in expr.reads(tree) for index in read.indices))


def equal(was: Expr, now: Expr, kinds: Mapping[str, Kind], least: Mapping[str, int]) -> bool:
    """Whether two expressions have the same value in every case."""
    cases = grid(_names(was) | _names(now), kinds, least)
    return all(_value(was, case) == _value(now, case) for case in cases)


def same_formula(was: Any, now: Any, kinds: Mapping[str, Kind], least: Mapping[str, int]) -> bool:
    """The same for whole formulas and assignments."""
    if isinstance(was, Located) and isinstance(now, Located):
        return equal(was.tree, now.tree, kinds, least)
    if isinstance(was, Assignment) and isinstance(now, Assignment):
        targets = equal(was.target, now.target, kinds, least)
        return was.op == now.op and targets and equal(was.value, now.value, kinds, least)
    return False


def order(was: Expr, now: Expr, kinds: Mapping[str, Kind], least: Mapping[str, int]) -> str:
    """How a condition became: rewritten, tightened, loosened, or changed where the two cannot be ordered."""

    def holds(tree: Expr, case: Mapping[str, expr.Value]) -> bool:
        value = _value(tree, case)
        return value != "inexact" and (all(value) if isinstance(value, tuple) else bool(value))

    pairs = {(holds(was, case), holds(now, case)) for case in grid(_names(was) | _names(now), kinds, least)}
    lost, won = (True, False) in pairs, (False, True) in pairs
    return {(False, False): "rewritten", (True, False): "tightened", (False, True): "loosened"}.get(
        (lost, won), "changed"
    )
