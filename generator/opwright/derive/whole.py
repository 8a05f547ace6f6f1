"""The integers that kernels of steps compute in 64 bits: in indices, conditions and values.

In: an operation of steps, or an expression of one. Out: these expressions. Their divisors are checked
when a spec is loaded (no letters) and when a call is resolved (at least 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..language import expr
from ..language.expr import COMPARISONS, Binary, Call, Expr, Name, Number, Read
from ..language.kinds import Kind
from ..language.model import Op
from ..language.types import symbol_kinds
from .program import program


def is_whole(tree: Expr, kinds: Mapping[str, Kind]) -> bool:
    """Whether a tree consists of integers only, so that integers represent it exactly."""
    if isinstance(tree, Name):
        return tree.id in kinds and kinds[tree.id].base == "int"
    if isinstance(tree, Number):
        return isinstance(tree.value, int)
    if isinstance(tree, Read) or (isinstance(tree, Binary) and tree.op == "/"):
        return False
    if isinstance(tree, Call) and tree.function in ("floor", "ceil"):
        quotient = tree.arguments[0]
        sides = (quotient.left, quotient.right) if isinstance(quotient, Binary) and quotient.op == "/" else ()
        return bool(sides) and all(is_whole(side, kinds) for side in sides)
    if isinstance(tree, Call) and tree.function not in ("min", "max", "prod", "number"):
        return False
    return all(is_whole(child, kinds) for child in expr.children(tree))


def within_values(tree: Expr, kinds: Mapping[str, Kind]) -> Iterator[Expr]:
    """The integer parts of a value: operands of comparisons, remainders, quotients under floor and ceil."""
    if isinstance(tree, Read):
        return
    rounded = isinstance(tree, Call) and tree.function in ("floor", "ceil")
    if (rounded or (isinstance(tree, Binary) and tree.op == "%")) and is_whole(tree, kinds):
        yield tree
        return
    for child in expr.children(tree):
        if isinstance(tree, Binary) and tree.op in COMPARISONS and is_whole(child, kinds):
            yield child
        else:
            yield from within_values(child, kinds)


def kinds_in_steps(op: Op) -> dict[str, Kind]:
    """The kinds of symbols and letters."""
    return {**symbol_kinds(op), **{letter: Kind("int") for letter in op.semantics.ranges}}


def whole_trees(op: Op) -> Iterator[tuple[str, Expr]]:
    """Every integer expression of the steps, with its description: an index of an axis, or a number of a step."""
    found, kinds = program(op), kinds_in_steps(op)
    for part in found.parts:
        for read in (part.target, *part.reads):
            for axis, index in zip(found.arrays[read.tensor].axes, read.indices, strict=True):
                yield f"{read.tensor}.{axis.name}", index
        for guard in part.where:
            compared = (n for n in expr.walk(guard.tree) if isinstance(n, Binary) and n.op in COMPARISONS)
            yield from ((part.source, side) for node in compared for side in (node.left, node.right))
        for formula in part.formulas:
            yield from ((part.source, inner) for inner in within_values(formula.value, kinds))


def exact_quotients(tree: Expr) -> Iterator[Binary]:
    """The unrounded quotients, which must leave no remainder."""
    rounded = isinstance(tree, Call) and tree.function in ("floor", "ceil")
    if isinstance(tree, Binary) and tree.op == "/":
        yield tree
    for child in expr.children(tree):
        yield from (found for found in exact_quotients(child) if not rounded or found is not child)


def divisors(tree: Expr) -> Iterator[Expr]:
    """The divisors in an integer expression."""
    for node in expr.walk(tree):
        if isinstance(node, Binary) and node.op in "/%":
            yield node.right
