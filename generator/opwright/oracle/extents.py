"""The extents of tensors, as the oracle reads them off shapes and works them out.

In: pieces of a spec and the facts of a call. Out: what an axis tells, and shapes in the order of layouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Binary, Expr, Name
from ..language.model import Op, Tensor

Fact = Union[int, tuple[int, ...]]  # noqa: UP007 (evaluated at run time)
Facts = dict[str, Fact]
_UNDONE = {"*": "/", "/": "*", "+": "-", "-": "+"}


def solve(tree: Expr, facts: Facts) -> tuple[str, Expr] | None:
    """What an axis tells: ('', its extent) where it is known, or a symbol and that symbol in terms of the extent."""
    if not expr.names(tree) - facts.keys():
        return "", tree
    extent: Expr = Name("")
    while isinstance(tree, Binary) and tree.op in _UNDONE:  # take off what is known, from the outside
        if not expr.names(tree.right) - facts.keys():
            tree, extent = tree.left, Binary(_UNDONE[tree.op], extent, tree.right)
        elif tree.op in "*+" and not expr.names(tree.left) - facts.keys():
            tree, extent = tree.right, Binary(_UNDONE[tree.op], extent, tree.left)
        else:
            return None
    return (tree.id, extent) if isinstance(tree, Name) else None


def each(value: expr.Value | None) -> tuple[int, ...]:
    """The entries of a vector, the one of a scalar, none of what is not known."""
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


def shape_of(
    op: Op, tensor: Tensor, ways: Mapping[str, str], words: Mapping[str, str], facts: Facts
) -> tuple[int, ...]:
    """The extents of a tensor in the order of its layout. KeyError where something is not known."""
    arrangements = tensor.ways
    dims = arrangements[ways.get(tensor.name, next(iter(arrangements)))]
    order = op.layouts[tensor.layout][words[tensor.layout]] if tensor.layout else tuple(dims)
    return tuple(extent for axis in order for extent in each(evaluate(dims[axis].tree, facts)))
