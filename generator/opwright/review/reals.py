"""Normal forms of formulas over elements of tensors: formulas that differ only by rounding have equal forms.

In: a formula, and how its integer parts are read. Out: its form; equal forms give the same values up to rounding.
Nothing is cancelled, taken out of min or max, or multiplied by zero, and no factor that may be infinite is
distributed over a sum: infinities, NaN and signs would differ. Arguments of floor and ceil are compared operation by
operation, because rounding can make these functions jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction

from ..language.expr import CONVERSIONS, REAL_FUNCTIONS, Binary, Call, Expr, Name, Number, Read, Unary, children
from .algebra import Unproven

Product = tuple[tuple[Hashable, int], ...]
Form = frozenset[tuple[Product, Fraction]]
MAX_TERMS = 200
SMOOTH = REAL_FUNCTIONS.keys() - {"round", "sign", "select", *CONVERSIONS}  # rounding an argument only rounds the value
COMMUTATIVE = ("+", "*", "==", "!=", "and", "or")


class Reals:
    """Reads formulas; `element` and `whole` give the identity of a read and of an integer part."""

    def __init__(self, element: Callable[[Read], Hashable], whole: Callable[[Expr], Hashable]) -> None:
        self.element, self.whole = element, whole

    def form(self, tree: Expr) -> Form:
        """A formula as a sum of products."""
        if isinstance(tree, Number):
            if not math.isfinite(tree.value):
                return _one(("number", tree.value))
            return frozenset({((), Fraction(tree.value))} if tree.value else ())
        if isinstance(tree, Read):
            return _one(("element", self.element(tree)))
        if isinstance(tree, Name) or (isinstance(tree, Call) and tree.function == "prod"):
            return _one(("whole", self.whole(tree)))
        if isinstance(tree, Unary) and tree.op == "-":
            return frozenset((product, -factor) for product, factor in self.form(tree.operand))
        if isinstance(tree, Binary) and tree.op in "+-":
            left, right = self.form(tree.left), self.form(tree.right)
            return _sum(left, right if tree.op == "+" else frozenset((product, -factor) for product, factor in right))
        if isinstance(tree, Binary) and tree.op in "*/":
            left, right = self.form(tree.left), self.form(tree.right)
            return _times(left, right if tree.op == "*" else _inverse(right))
        if isinstance(tree, Call) and tree.function in ("min", "max"):
            return _one((tree.function, frozenset(map(self.form, tree.arguments))))
        if isinstance(tree, Call) and tree.function == "select":
            condition, *choices = tree.arguments
            return _one(("select", self.exact(condition), *map(self.form, choices)))
        if isinstance(tree, Call) and tree.function in SMOOTH:
            return _one((tree.function, *map(self.form, tree.arguments)))
        if isinstance(tree, (Call, Unary, Binary)):
            return _one(self.exact(tree))
        raise Unproven

    def exact(self, tree: Expr) -> Hashable:
        """A formula by its operations in order: where rounding can cause a jump, none may change."""
        if isinstance(tree, Number):
            return "number", repr(tree.value)
        if isinstance(tree, Read):
            return "element", self.element(tree)
        if isinstance(tree, Name) or (isinstance(tree, Call) and tree.function in ("prod", "number")):
            return "whole", self.whole(tree)
        assert isinstance(tree, (Call, Unary, Binary))
        operation = tree.function if isinstance(tree, Call) else tree.op
        operands = [self.exact(operand) for operand in children(tree)]
        turned = operation in COMMUTATIVE and isinstance(tree, Binary)
        return (type(tree).__name__, operation, *(sorted(operands, key=repr) if turned else operands))


def _one(key: Hashable) -> Form:
    return frozenset({(((key, 1),), Fraction(1))})


def _sum(left: Form, right: Form) -> Form:
    if not left or not right:
        raise Unproven  # -0.0 + 0 is 0.0
    terms = dict(left)
    for product, factor in right:
        if terms.get(product, 0) * factor < 0:  # inf - inf is NaN
            raise Unproven
        terms[product] = terms.get(product, Fraction(0)) + factor
    return frozenset(terms.items())


def _times(left: Form, right: Form) -> Form:
    if not left or not right or len(left) * len(right) > MAX_TERMS:
        raise Unproven
    if not (_number(left) or _number(right)):
        left, right = _whole(left), _whole(right)
    terms: dict[Product, Fraction] = {}
    for ours, a in left:
        for theirs, b in right:
            powers = dict(ours)
            for key, power in theirs:
                if powers.get(key, 0) * power < 0:  # 0 / 0 is NaN
                    raise Unproven
                powers[key] = powers.get(key, 0) + power
            terms[tuple(sorted(powers.items(), key=repr))] = a * b
    return frozenset(terms.items())


def _number(form: Form) -> bool:
    return all(not product for product, _ in form)


def _whole(form: Form) -> Form:
    """A sum as one factor."""
    return form if len(form) == 1 else frozenset({(((form, 1),), Fraction(1))})


def _inverse(form: Form) -> Form:
    if not form:
        raise Unproven
    if len(form) > 1:
        return frozenset({(((form, -1),), Fraction(1))})
    ((product, factor),) = form
    return frozenset({(tuple((key, -power) for key, power in product), 1 / factor)})
