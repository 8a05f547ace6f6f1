"""The interpreter's reading of steps: axes, letters, and divisors of integers.

In: an operation of steps. Out: extents of arrays by axis, the letters that an assignment walks. Kernels are derived
from a separate reading (derive/program.py), so that the two check each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Binary, Call, Expr, Inexact, Name, Number, Read
from ..language.model import Op, Step
from ..language.schema import Assignment
from ..language.types import symbol_kinds
from .extents import Facts, each

# The initial value of a cell, by operator.
BEGINNING = {"set": 0.0, "sum": 0.0, "product": 1.0, "max": float("-inf"), "min": float("inf")}


def axis_kind(op: Op, extent: Expr) -> str:
    """What an extent stands for: `run`, `ones` (1 for each axis of a run), `spatial` or `one` axis."""
    if isinstance(extent, Call) and extent.function == "ones":
        return "ones"
    if isinstance(extent, Name) and extent.id in op.runs:
        return "run"
    kinds = symbol_kinds(op)
    return "spatial" if any(kinds[name].vector for name in expr.loose_names(extent) if name in kinds) else "one"


def axes_of(op: Op, array: str) -> dict[str, Expr]:
    """The extents of a tensor, of a list, or of an array that steps define, by axis."""
    for tensor in op.tensors:
        if tensor.name == array:
            return {axis: extent.tree for axis, extent in tensor.dims.items()}
    for attribute in op.attributes:
        if attribute.name == array:
            return {"": Name(attribute.per or "")}
    target = next(a.target for step in op.semantics.steps for a in step.assignments if a.target.tensor == array)
    return {index.id: op.semantics.ranges[index.id].tree for index in target.indices if isinstance(index, Name)}


def arrays_of(op: Op) -> tuple[str, ...]:
    """Every array that steps read or write."""
    named = [tensor.name for tensor in op.tensors] + [a.name or "" for a in op.attributes if a.per]
    named += [a.target.tensor for step in op.semantics.steps for a in step.assignments]
    return tuple(dict.fromkeys(named))


def integers_of(op: Op) -> frozenset[str]:
    """The intermediates of integers: what steps with functions of bits write, beside the outputs."""
    outputs = {tensor.name for tensor in op.outputs}
    assignments = [made for step in op.semantics.steps for made in step.assignments]
    return frozenset(made.target.tensor for made in assignments if expr.of_bits(made.value)) - outputs


def chosen(step: Step, word: str) -> Assignment:
    """The assignment of a step for a word of its attribute."""
    found = step.do if step.do is not None else step.cases[word]
    assert found is not None
    return found


def letters_of(op: Op, step: Step, assignment: Assignment) -> tuple[str, ...]:
    """The letters that an assignment and its conditions name, in the order of `ranges`."""
    trees = (assignment.target, assignment.value, *(guard.tree for guard in step.where))
    used = frozenset[str]().union(*map(expr.names, trees))
    return tuple(letter for letter in op.semantics.ranges if letter in used)


def summed_over(op: Op, step: Step) -> tuple[str, ...]:
    """The letters over which a step accumulates: those of its assignments that its target does not name."""
    walked = {letter for made in step.assignments for letter in letters_of(op, step, made)}
    return tuple(letter for letter in op.semantics.ranges if letter in walked - expr.names(target_of(step)))


def target_of(step: Step) -> Read:
    """What a step writes; all its assignments share it."""
    return step.assignments[0].target


def reads_of(step: Step) -> tuple[Read, ...]:
    """Every element that a step reads, whatever word is chosen."""
    return tuple(read for made in step.assignments for read in expr.reads(made.value))


# Divisors of integers.


def uneven(op: Op, facts: Facts) -> bool:
    """Whether some divisor of integers is below 1, or an unrounded quotient leaves a remainder."""
    reals = {attribute.symbol or attribute.name or "" for attribute in op.attributes if attribute.type == "f32"}
    return any(_is_uneven(quotient, rounded, facts) for quotient, rounded in _quotients(op, reals))


def _is_uneven(quotient: Binary, rounded: bool, facts: Facts) -> bool:
    if not expr.names(quotient.right) <= facts.keys():
        return False
    try:
        if any(entry < 1 for entry in each(evaluate(quotient.right, facts))):
            return True
        if quotient.op == "/" and not rounded:
            evaluate(quotient, facts)
    except Inexact:
        return True
    return False


def _quotients(op: Op, reals: set[str]) -> Iterator[tuple[Binary, bool]]:
    """Quotients and remainders of integers, and whether floor or ceil rounds them."""
    for step in op.semantics.steps:
        for guard in step.where:
            yield from _within(guard.tree, reals, exact=True)
        for assignment in step.assignments:
            for read in (assignment.target, *expr.reads(assignment.value)):
                for index in read.indices:
                    yield from _within(index, reals, exact=True)
            yield from _within(assignment.value, reals, exact=False)


def _within(tree: Expr, reals: set[str], *, exact: bool) -> Iterator[tuple[Binary, bool]]:
    """In values, only remainders and rounded quotients of integers are integers; other quotients are real."""
    if isinstance(tree, Read):
        return
    rounded = isinstance(tree, Call) and tree.function in ("floor", "ceil")
    inner = tree.arguments[0] if isinstance(tree, Call) and rounded else tree
    if isinstance(inner, Binary) and inner.op in "/%" and (exact or is_integer(tree, reals)):
        yield inner, rounded
    for child in expr.children(inner):
        yield from _within(child, reals, exact=exact)


def is_integer(tree: Expr, reals: set[str]) -> bool:
    """Whether a part of a value consists of integers, without reals and unrounded quotients."""
    if isinstance(tree, Number):
        return isinstance(tree.value, int)
    if isinstance(tree, Name):
        return tree.id not in reals
    if isinstance(tree, Read) or (isinstance(tree, Call) and tree.function in expr.REAL_FUNCTIONS):
        return False
    if isinstance(tree, Call) and tree.function in ("floor", "ceil"):
        quotient = tree.arguments[0]
        return isinstance(quotient, Binary) and quotient.op == "/" and _all_integers(quotient, reals)
    return not (isinstance(tree, Binary) and tree.op == "/") and _all_integers(tree, reals)


def _all_integers(tree: Expr, reals: set[str]) -> bool:
    return all(is_integer(child, reals) for child in expr.children(tree))
