"""The terms that a sum has: those that its conditions name, whichever cells of other factors stand beside them.

In: an operation of steps, and an assignment. Out: the assignment that the interpreter computes.
"""

from __future__ import annotations

import dataclasses
import functools

from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary
from ..language.model import Op
from ..language.schema import Assignment
from .statements import axis_kind, integers_of, letters_of, target_of


def named_alone(op: Op, assignment: Assignment) -> Assignment:
    """An assignment whose sum has only the terms that its conditions name.

    A factor `select(index[n] == k, a, 0)` of a product is the condition of all of it: no other cells are read.
    So is an element of an intermediate that a step sets to such a factor.
    """
    whole = integers_of(op)
    value = _as_set(op, assignment.value, whole) if assignment.target.tensor not in whole else assignment.value
    conditions, factors = _factors(value)
    others = assignment.target.tensor not in {read.tensor for read in expr.reads(value)}
    if assignment.op != "sum" or not others or not any(_names_letter(op, one) for one in conditions):
        return assignment
    both, product = _joined("and", conditions), _joined("*", factors)
    return dataclasses.replace(assignment, value=Call("select", (both, product, Number(0))))


def _as_set(op: Op, tree: Expr, whole: frozenset[str]) -> Expr:
    """A product with what a step sets an element to in place of it, where it is a factor that names a letter."""
    if isinstance(tree, Read):
        made = _setting(op, tree, whole)
        if made is None:
            return tree
        pairs = zip(made.target.indices, tree.indices, strict=True)
        letters = {letter.id: index for letter, index in pairs if isinstance(letter, Name)}
        value = _as_set(op, made.value, whole)
        named = any(_names_letter(op, one) for one in _factors(value)[0])
        return expr.substitute(value, letters) if named else tree
    inner: tuple[Expr, ...] = expr.children(tree)
    if isinstance(tree, Binary) and tree.op == "*":
        left, right = (_as_set(op, side, whole) for side in inner)
        return dataclasses.replace(tree, left=left, right=right)
    if isinstance(tree, Binary) and tree.op == "/":
        return dataclasses.replace(tree, left=_as_set(op, tree.left, whole))
    if isinstance(tree, Unary) and tree.op == "-":
        return dataclasses.replace(tree, operand=_as_set(op, tree.operand, whole))
    if isinstance(tree, Call) and tree.function == "select" and tree.arguments[2] == Number(0):
        arguments = (tree.arguments[0], _as_set(op, tree.arguments[1], whole), tree.arguments[2])
        return dataclasses.replace(tree, arguments=arguments)
    return tree


def _setting(op: Op, read: Read, whole: frozenset[str]) -> Assignment | None:
    """What sets an intermediate, if one step does, each cell by its letters, and letters of these extents read it."""
    steps = op.semantics.steps
    writing = [number for number, step in enumerate(steps) if target_of(step).tensor == read.tensor]
    if len(writing) != 1 or read.tensor in whole | {tensor.name for tensor in op.tensors}:
        return None
    step = steps[writing[0]]
    if step.do is None or step.do.op != "set" or step.where:
        return None
    own = [index.id for index in step.do.target.indices if isinstance(index, Name)]
    if len({*own}) < len(step.do.target.indices) or {*own} != {*letters_of(op, step, step.do)}:
        return None
    later = {target_of(other).tensor for other in steps[writing[0] :]}
    ranges = op.semantics.ranges
    alike = all(
        isinstance(index, Name) and index.id in ranges and ranges[index.id].tree == ranges[letter].tree
        for letter, index in zip(own, read.indices, strict=True)
    )
    return step.do if alike and not later & {one.tensor for one in expr.reads(step.do.value)} else None


def _joined(operator: str, trees: list[Expr]) -> Expr:
    return functools.reduce(lambda one, other: Binary(operator, one, other), trees)


def _factors(tree: Expr) -> tuple[list[Expr], list[Expr]]:
    """The conditions outside of which a product has a factor 0, and its factors where they hold."""
    if isinstance(tree, Binary) and tree.op == "*":
        (first, left), (second, right) = map(_factors, (tree.left, tree.right))
        return first + second, left + right
    if isinstance(tree, Binary) and tree.op == "/":
        conditions, factors = _factors(tree.left)
        return conditions, [dataclasses.replace(tree, left=_joined("*", factors))]
    if isinstance(tree, Unary) and tree.op == "-":
        conditions, factors = _factors(tree.operand)
        return conditions, [dataclasses.replace(tree, operand=_joined("*", factors))]
    if isinstance(tree, Call) and tree.function == "select" and tree.arguments[2] == Number(0):
        conditions, factors = _factors(tree.arguments[1])
        return [tree.arguments[0], *conditions], factors
    return [], [tree]


def _names_letter(op: Op, condition: Expr) -> bool:
    """Whether a condition says that a letter of one number equals something that is read."""
    if not isinstance(condition, Binary) or condition.op != "==":
        both = isinstance(condition, Binary) and condition.op == "and"
        return both and any(_names_letter(op, side) for side in expr.children(condition))
    return any(
        isinstance(side, Name)
        and side.id in op.semantics.ranges
        and axis_kind(op, op.semantics.ranges[side.id].tree) == "one"
        and expr.reads(value)
        and side.id not in expr.names(value)
        for side, value in ((condition.left, condition.right), (condition.right, condition.left))
    )
