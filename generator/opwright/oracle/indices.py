"""The position of an element of a tensor, and the range of index arithmetic: the oracle's own reading.

In: pieces of a spec, and the facts of a call. Out: integers, or arrays of them over the letters of a chunk. The
generator's derivations from the same pieces (bounds.py, nest.py, types.py) are not used here, so that they can be
checked against these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..language import expr
from ..language.expr import Binary, Call, Expr, Inexact, Name, Number, Read, Unary
from ..language.model import Op, Tensor
from ..memo import memoised
from .extents import each

LIMIT = 2**62  # two indices below it add without overflow of int64
SMALL = 2**10  # for calls with smaller numbers only, an operation is checked once


@memoised
def vectors(op: Op) -> frozenset[str]:
    """The symbols with a value per spatial axis: such sizes, lists, and values computed from them per axis."""
    found = {dim.symbol for dim in op.dims.values() if dim.per_axis}
    found |= {a.symbol or a.name or "" for a in op.attributes if a.type in ("s64[]", "f32[]") and not a.shape_of}
    scalars = {dim.symbol for dim in op.dims.values()} - found
    made = {
        symbol: (let.neutral is not None, [let.value] if let.value else list(let.cases.values()))
        for symbol, let in op.lets.items()
        if symbol not in scalars
    }
    while True:
        new = {s for s, (is_list, trees) in made.items() if is_list or any(varies(t.tree, found) for t in trees)}
        if new <= found:
            return frozenset(found)
        found |= new


def varies(tree: Expr, vectors: set[str] | frozenset[str]) -> bool:
    """Whether a tree has a value per spatial axis: it names a vector outside of any, all and prod."""
    if isinstance(tree, Name):
        return tree.id in vectors
    if isinstance(tree, Call) and tree.function in expr.REDUCTIONS:
        return False
    return any(varies(child, vectors) for child in expr.children(tree))


def _exact(a: Any, b: Any) -> Any:
    quotient, rest = np.divmod(a, b)
    if np.any(rest):
        raise Inexact("a division in the semantics leaves a remainder")
    return quotient


INTEGER: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": _exact, "%": lambda a, b: np.mod(a, np.abs(b)),
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "neg": np.negative,
    "min": np.minimum, "max": np.maximum, "prod": np.multiply, "any": np.logical_or, "all": np.logical_and,
    "floor": np.floor_divide, "ceil": lambda a, b: -np.floor_divide(np.negative(a), b),
}  # fmt: skip
# The values of prod, any and all over a run without axes.
OF_NONE = {"prod": 1, "any": False, "all": True}


def operator(node: Expr) -> tuple[str, tuple[Expr, ...]]:
    """The operator of a node, as a key of INTEGER, and its operands."""
    if isinstance(node, Call):
        return node.function, expr.children(node.arguments[0]) if node.function in ("floor", "ceil") else node.arguments
    assert isinstance(node, (Unary, Binary))
    return "neg" if isinstance(node, Unary) and node.op == "-" else node.op, expr.children(node)


def apply(operation: Callable[..., Any], values: Sequence[Any]) -> Any:
    """A binary operation folded over any number of operands, from the left."""
    return operation(*values) if len(values) == 1 else functools.reduce(operation, values)


def integers(tree: Expr, symbols: Mapping[str, Any], axis: int = 0) -> Any:
    """The value of an integer or boolean expression on one spatial axis, over arrays of letters."""
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Name):
        value = symbols[tree.id]
        return value[axis] if isinstance(value, tuple) else value
    op, operands = operator(tree)
    if op == "number":
        return number(operands, symbols)
    if op in expr.REDUCTIONS:
        rank = next(len(symbols[name]) for name in expr.names(tree) if isinstance(symbols[name], tuple))
        values = [integers(operands[0], symbols, other) for other in range(rank)]
        return functools.reduce(INTEGER[op], values, OF_NONE[op])
    return apply(INTEGER[op], [integers(operand, symbols, axis) for operand in operands])


def number(letters: Sequence[Expr], symbols: Mapping[str, Any]) -> Any:
    """The flat index of some letters' values, the last one fastest: `symbols` has the index and the count of each."""
    result: Any = 0
    for letter in letters:
        assert isinstance(letter, Name)
        own, count = symbols[f"#{letter.id}"]
        result = result * count + own
    return result


def index(
    tensor: Tensor, read: Read, arrangement: str, symbols: Mapping[str, Any]
) -> dict[str, tuple[Expr, Mapping[str, Any]]]:
    """The index on each axis of a tensor: a tree, and the symbols over which it is evaluated."""
    if not tensor.arrangements:
        return {axis: (tree, symbols) for axis, tree in zip(tensor.dims, read.indices, strict=True)}
    letters = {letter: _value(tree, symbols) for letter, tree in zip(tensor.view, read.indices, strict=True)}
    inner = {**symbols, **letters}
    return {axis: (formula.tree, inner) for axis, formula in tensor.arrangements[arrangement].index.items()}


def _value(tree: Expr, symbols: Mapping[str, Any]) -> Any:
    """The value of an index; a tuple if it has one per spatial axis."""
    ranks = [len(symbols[name]) for name in expr.names(tree) if isinstance(symbols[name], tuple)]
    if ranks and varies(tree, {name for name, value in symbols.items() if isinstance(value, tuple)}):
        return tuple(integers(tree, symbols, axis) for axis in range(ranks[0]))
    return integers(tree, symbols)


def too_far(op: Op, facts: Mapping[str, Any]) -> bool:
    """Whether some index of a call can exceed LIMIT: every letter at its extent, every symbol at its magnitude, every
    minus as a plus, plus the extent of the axis. Unknown values give no bound."""
    ranks = [len(value) for value in facts.values() if isinstance(value, tuple)]
    if all(-SMALL <= entry <= SMALL for value in facts.values() for entry in each(value)) and _never_far(op):
        return False
    for axis in range(max([1, *ranks])):
        sizes = {s: abs(v[min(axis, len(v) - 1)] if isinstance(v, tuple) else v) for s, v in facts.items() if v != ()}
        if _too_far(op, sizes):
            return True
    return False


@memoised
def _never_far(op: Op) -> bool:
    """Whether no index exceeds LIMIT in a call whose symbols are at most SMALL."""
    named = [*(dim.symbol for dim in op.dims.values()), *(a.symbol or a.name or "" for a in op.attributes), *op.lets]
    return not _too_far(op, _Maximum(dict.fromkeys(named, SMALL)))


class _Maximum(dict[str, int]):
    """Upper bounds of symbols; a quotient is bounded by its dividend."""


def _too_far(op: Op, sizes: dict[str, int]) -> bool:
    """The same on one axis, from the magnitudes of all symbols."""
    for letters, reads in _walks(op):
        known = type(sizes)(sizes)
        for letter, extent in letters.items():
            if (reach := _reach(extent, sizes)) is not None:
                known[letter] = reach
        if any(_read_too_far(tensor, read, known) for tensor, read in reads):
            return True
    return False


Walk = tuple[Mapping[str, Expr], tuple[tuple[Tensor, Read], ...]]


@memoised
def _walks(op: Op) -> tuple[Walk, ...]:
    """The letters of the semantics with their extents, and the elements that they access; then those of finish."""
    semantics, output = op.semantics, op.output
    ranges = {letter: extent.tree for letter, extent in semantics.ranges.items()}
    reads = dict.fromkeys((semantics.assignment.target, *expr.reads(semantics.assignment.value)))
    walks: list[Walk] = [(ranges, tuple((op.tensor(read.tensor), read) for read in reads))]
    if semantics.finish is not None:
        finished = expr.reads(semantics.finish.tree)
        own = next(read for read in finished if read.tensor == output.name)
        cells = dict(zip((i.id for i in own.indices if isinstance(i, Name)), (e.tree for e in output.dims.values())))
        others = [read for read in finished if read.tensor != output.name]
        walks.append((cells, tuple((op.tensor(read.tensor), read) for read in others)))
    return tuple(walks)


def _read_too_far(tensor: Tensor, read: Read, known: dict[str, int]) -> bool:
    for arrangement, dims in tensor.dims_by_arrangement.items():
        inner, trees = known, dict(zip(tensor.dims, read.indices))
        if tensor.arrangements:
            found = {letter: _reach(tree, known) for letter, tree in zip(tensor.view, read.indices)}
            inner = type(known)({**known, **{letter: reach for letter, reach in found.items() if reach is not None}})
            trees = {name: formula.tree for name, formula in tensor.arrangements[arrangement].index.items()}
        for name, tree in trees.items():
            at, extent = _reach(tree, inner), _reach(dims[name].tree, known)
            if at is not None and extent is not None and at + extent > LIMIT:
                return True
    return False


def _reach(tree: Expr, symbols: Mapping[str, int]) -> int | None:
    if isinstance(tree, Number):
        return int(tree.value)
    if isinstance(tree, Name):
        return symbols.get(tree.id)
    if isinstance(tree, Unary):
        return _reach(tree.operand, symbols)
    assert isinstance(tree, Binary)
    left, right = _reach(tree.left, symbols), _reach(tree.right, symbols)
    if left is None or right is None or (tree.op == "/" and not right):
        return None
    if tree.op == "/":
        return left if isinstance(symbols, _Maximum) else -(-left // right)
    return left * right if tree.op == "*" else left + right
