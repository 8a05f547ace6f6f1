"""The operation on spatial axes that a call does not have. Kernels walk all axes that any call may have.

In: an operation. Out: the values of its expressions there, and the problems of expressions that do not reduce to one
cell at index 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...language import expr
from ...language.evaluate import evaluate
from ...language.model import Op
from ...language.source import Problem
from ...language.types import symbol_kinds, symbol_of

# A symbol of kernels: 1 on the spatial axes that a call does not have. Kernels always walk all of them.
ABSENT = "absent"


class MissingAxes:
    """The values of expressions on a spatial axis that a call does not have: extents should be 1, indices 0."""

    def __init__(self, op: Op) -> None:
        self.op = op
        kinds = symbol_kinds(op)
        neutral = {symbol_of(attribute): attribute.neutral or 0 for attribute in op.attributes}
        neutral |= {symbol: let.neutral or 0 for symbol, let in op.lets.items()}
        self.possible = op.spatial_rank.min < op.spatial_rank.max
        self.symbols = frozenset(kinds)
        self.vectors = {name for name, kind in kinds.items() if kind.vector}
        self.values: dict[str, expr.Value] = {name: neutral.get(name, 1) for name in self.vectors}
        self.values |= {dim.symbol: 1 for dim in op.dims.values() if dim.per_axis}

    def value(self, tree: expr.Expr) -> expr.Value | None:
        """The value of a tree there, with letters 0; None if it depends on a scalar or a remainder."""
        try:
            return evaluate(tree, {**dict.fromkeys(expr.names(tree) - self.symbols, 0), **self.values})
        except (KeyError, expr.Inexact):
            return None

    def with_value(self, symbol: str, value: int) -> MissingAxes:
        """The same with another value for a symbol."""
        other = MissingAxes(self.op)
        other.values[symbol] = value
        return other

    def fits(self, tree: expr.Expr, wanted: expr.Value) -> bool:
        """Whether a tree is `wanted` on a missing axis, so that kernels can walk it like any other."""
        return not self.possible or self.value(tree) == wanted

    def fits_always(self, tree: expr.Expr, wanted: expr.Value) -> bool:
        """Whether a tree is `wanted` on a missing axis, whatever the scalars of the call are."""
        names, kinds = expr.names(tree), symbol_kinds(self.op)
        scalars = [name for name in names & self.symbols if name not in self.values]
        for number in (0, 1, 2, 7):
            given = {name: bool(number % 2) if kinds[name].base == "bool" else number for name in scalars}
            try:
                found = evaluate(tree, {**dict.fromkeys(names - self.symbols, 0), **given, **self.values})
            except expr.Inexact:
                continue
            if found != wanted:
                return False
        return True


def on_missing_axes(op: Op) -> Iterator[tuple[expr.Expr, expr.Value]]:
    """The expressions that kernels compute per spatial axis, and their required value on a missing axis."""
    semantics = op.semantics
    values = [semantics.assignment.target, semantics.assignment.value]
    values += [semantics.finish.tree] if semantics.finish else []
    arrangements = [arrangement for tensor in op.tensors for arrangement in tensor.arrangements.values()]
    extents = [*semantics.ranges.values(), *(extent for tensor in op.tensors for extent in tensor.dims.values())]
    extents += [extent for arrangement in arrangements for extent in arrangement.dims.values()]
    wanted: list[tuple[expr.Expr, expr.Value]] = [(extent.tree, 1) for extent in extents]
    for value in values:
        products = [n for n in expr.walk(value) if isinstance(n, expr.Call) and n.function == "prod"]
        wanted += [(call.arguments[0], 1) for call in products]
        wanted += [(index, 0) for read in expr.reads(value) for index in read.indices]
    wanted += [(index.tree, 0) for arrangement in arrangements for index in arrangement.index.values()]
    wanted += [(guard.tree, True) for guard in semantics.where]
    vectors = set(MissingAxes(op).vectors)
    vectors |= {letter for letter, extent in semantics.ranges.items() if expr.loose_names(extent.tree) & vectors}
    return ((tree, value) for tree, value in wanted if expr.loose_names(tree) & vectors)


# The values that a neutral one is compared with, and the reason for each.
_BETTER = (0, 1, -1, 2)


def neutrals(op: Op) -> Iterator[Problem]:
    """A neutral value reduces a missing spatial axis to one cell at index 0."""
    missing = MissingAxes(op)
    if not missing.possible:
        return
    wanted = list(on_missing_axes(op))
    given = [(symbol_of(a), a.neutral, a.at, a.min, a.max) for a in op.attributes]
    given += [(symbol, let.neutral, let.at, None, None) for symbol, let in op.lets.items()]
    for symbol, neutral, at, minimum, maximum in given:
        mine = [(tree, value) for tree, value in wanted if symbol in expr.names(tree)]
        wrong = [(tree, value) for tree, value in mine if not missing.fits(tree, value)]
        if neutral is None or not wrong:
            continue
        for better in _BETTER:
            inside = (minimum is None or minimum <= better) and (maximum is None or better <= maximum)
            if inside and all(missing.with_value(symbol, better).fits(tree, value) for tree, value in mine):
                what = "a condition would not hold"
                if wrong[0][1] is not True:
                    what = f"{'an extent' if wrong[0][1] else 'an index'} would be {missing.value(wrong[0][0])}"
                    what += f", not {wrong[0][1]}"
                message = f"{neutral} is not neutral: on a spatial axis that a call does not have, {what}"
                yield Problem(at, "neutral", f"{message}; write neutral: {better} for '{symbol}'")
                break


def of_steps(op: Op) -> Iterator[Problem]:
    """Problems of expressions of steps that are not neutral on a missing spatial axis, which steps walk, too."""
    missing = MissingAxes(op)
    if not missing.possible:
        return
    wanted = [(extent.tree, 1, extent.at) for extent in op.semantics.ranges.values()]
    for step in op.semantics.steps:
        wanted += [(guard.tree, True, guard.at) for guard in step.where]
        for made in step.assignments:
            reads = (made.target, *expr.reads(made.value))
            wanted += [(index, 0, made.at.moved(index.column)) for read in reads for index in read.indices]
            products = [n for n in expr.walk(made.value) if isinstance(n, expr.Call) and n.function == "prod"]
            wanted += [(call.arguments[0], 1, made.value_at.moved(call.column)) for call in products]
    letters = {
        letter for letter, extent in op.semantics.ranges.items() if expr.loose_names(extent.tree) & missing.vectors
    }
    for tree, value, at in wanted:
        spatial = expr.loose_names(tree) & (missing.vectors | letters) - op.runs
        calls = [node.function for node in expr.walk(tree) if isinstance(node, expr.Call)]
        numbered = not expr.LETTER_FUNCTIONS.keys().isdisjoint(calls)
        if spatial and not numbered and not missing.fits_always(tree, value):
            what = "hold" if value is True else f"be {value}"
            message = f"on a spatial axis that a call does not have this must {what}; use attributes with `neutral`"
            yield Problem(at, "neutral", f"{message}, or give spatial_rank one number of axes")
