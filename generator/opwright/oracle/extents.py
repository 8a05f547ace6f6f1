"""The extents of tensors: the oracle's own inference from shapes.

In: pieces of a spec and the facts of a call. Out: the facts that an axis implies, and shapes in layout order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Union

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Binary, Expr, Name
from ..language.model import Op, Tensor
from ..memo import memoised

Fact = Union[int, tuple[int, ...]]  # noqa: UP007 (evaluated at run time)
Facts = dict[str, Fact]
_UNDONE = {"*": "/", "/": "*", "+": "-", "-": "+"}


def solve(tree: Expr, facts: Facts) -> tuple[str, Expr] | None:
    """The fact that an axis implies: ('', its extent) if known, or a symbol and its value in terms of the extent."""
    return _solved(tree, expr.names(tree).difference(facts))


@memoised
def _solved(tree: Expr, unknown: frozenset[str]) -> tuple[str, Expr] | None:
    """The same, memoised by the unknown names, because the oracle asks for it very often."""
    return _taken_off(tree, Name(""), unknown) if unknown else ("", tree)


def _taken_off(tree: Expr, extent: Expr, unknown: frozenset[str]) -> tuple[str, Expr] | None:
    """The inner symbol, after the known operands are removed from outside in."""
    if isinstance(tree, Name):
        return tree.id, extent
    if not isinstance(tree, Binary) or tree.op not in _UNDONE:
        return None
    if not expr.names(tree.right) & unknown:
        return _taken_off(tree.left, Binary(_UNDONE[tree.op], extent, tree.right), unknown)
    if tree.op in "*+" and not expr.names(tree.left) & unknown:
        return _taken_off(tree.right, Binary(_UNDONE[tree.op], extent, tree.left), unknown)
    return None


def each(value: expr.Value | None) -> tuple[int, ...]:
    """The entries of a vector, the single one of a scalar, none of an unknown value."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def shape_of(
    op: Op, tensor: Tensor, arrangements: Mapping[str, str], words: Mapping[str, str], facts: Facts
) -> tuple[int, ...]:
    """The extents of a tensor in the order of its layout. Raises KeyError if one is unknown."""
    found = tensor.dims_by_arrangement
    dims = found[arrangements.get(tensor.name, next(iter(found)))]
    order = op.layouts[tensor.layout][words[tensor.layout]] if tensor.layout else tuple(dims)
    return tuple(extent for axis in order for extent in each(evaluate(dims[axis].tree, facts)))


def stated_extents(entries: Sequence[int], whole: Sequence[int] | None, keeps: bool) -> tuple[int, ...] | None:
    """The extents in a list, with as many elements as `whole`; None if there are none.

    For -1 the only extent that gives this many elements is tried, and also 0 and 1, which detect that any extent fits.
    """
    if whole is None:
        return tuple(entries) if all(entry >= 0 for entry in entries) else None
    if any(entry < -1 for entry in entries) or entries.count(-1) > 1 or (keeps and 0 in entries[len(whole) :]):
        return None
    filled = [whole[at] if keeps and entry == 0 else entry for at, entry in enumerate(entries)]
    cells = math.prod(whole)
    others = math.prod(entry for entry in filled if entry != -1)
    tried = {tuple(extent if entry == -1 else entry for entry in filled) for extent in (0, 1, cells // max(others, 1))}
    fitting = [extents for extents in tried if math.prod(extents) == cells]
    return fitting[0] if len(fitting) == 1 else None
