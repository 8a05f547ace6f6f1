"""Rules about semantics: legal reads, writes, guards and finishes, and the kinds of values.

In: operations whose expressions over a call are valid (expressions.py). Out: problems.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from ..derive.rules.exactness import quotients
from ..derive.rules.missing_axes import neutrals
from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary, substitute
from ..language.kinds import Kind
from ..language.model import Op, Tensor
from ..language.schema import Located, place
from ..language.source import Mark, Problem, suggestion
from ..language.types import symbol_kinds
from .expressions import is_vector, noted_kind

INIT = re.compile(r"-?(inf|[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)")
F32_MIN, F32_MAX = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def semantics(op: Op) -> Iterator[Problem]:
    meaning = op.semantics
    kinds = symbol_kinds(op)
    letters = {letter: Kind("int", is_vector(extent.tree, kinds)) for letter, extent in meaning.ranges.items()}
    scope = {**kinds, **letters}
    at = meaning.assignment.at
    problems: list[Problem] = []
    if not INIT.fullmatch(meaning.init) or not _fits_f32(float(meaning.init)):
        problems.append(
            Problem(
                place(meaning.init, meaning.at),
                "semantics-init",
                "init must be a number that f32 can represent, inf or -inf",
            )
        )
    target = meaning.assignment.target
    if target.tensor != op.output.name:
        message = f"the assignment must be to the output '{op.output.name}', not to '{target.tensor}'"
        problems.append(Problem(at, "semantics-target", message))
    else:
        problems += _element(op, target, scope, at)
    problems += _value(
        op, meaning.assignment.value, scope, meaning.assignment.value_at, [tensor.name for tensor in op.data_inputs]
    )
    for guard in meaning.where:
        problems += _guard(guard, scope)
    if meaning.finish:
        problems += _finish(op, meaning.finish, kinds)
    problems += _used_inputs(op)
    yield from problems
    yield from quotients(op)
    yield from neutrals(op)


def _fits_f32(value: float) -> bool:
    return math.isinf(value) or value == 0 or F32_MIN <= abs(value) <= F32_MAX


def _indices(names: Sequence[str]) -> str:
    return f"{len(names)} {'index' if len(names) == 1 else 'indices'} ({', '.join(names)})"


def _element(op: Op, read: Read, scope: Mapping[str, Kind], at: Mark) -> Iterator[Problem]:
    """An element of a tensor has the right number of indices, each of the kind of its axis."""
    tensor, at = op.tensor(read.tensor), at.moved(read.column)
    names = tensor.view or tuple(tensor.dims)
    if len(read.indices) != len(names):
        message = f"'{read.tensor}' takes {_indices(names)}, not {len(read.indices)}"
        yield Problem(at, "semantics-indices", message)
        return
    problems: list[Problem] = []
    for index in read.indices:
        noted_kind(Read(read.tensor, (index,)), scope, at.moved(-read.column), problems)
    yield from problems
    for extents, indices in [] if problems else _axes(tensor, read):
        for axis, index in indices.items():
            kind = noted_kind(index, scope, at, problems)
            if kind and kind.vector != is_vector(extents[axis], scope):
                one, other = (
                    ("one value", "a value per spatial axis")
                    if kind.vector
                    else ("a value per spatial axis", "one value")
                )
                yield Problem(
                    at, "semantics-vector", f"axis {axis} of '{read.tensor}' has {one}, but its index has {other}"
                )
    yield from problems


def _axes(tensor: Tensor, read: Read) -> Iterator[tuple[dict[str, Expr], dict[str, Expr]]]:
    """Extents and indices of an element by axis, once per arrangement."""
    if not tensor.arrangements:
        yield (
            {axis: extent.tree for axis, extent in tensor.dims.items()},
            dict(zip(tensor.dims, read.indices, strict=True)),
        )
    view = dict(zip(tensor.view, read.indices, strict=False))
    for arrangement in tensor.arrangements.values():
        extents = {axis: extent.tree for axis, extent in arrangement.dims.items()}
        yield extents, {axis: substitute(index.tree, view) for axis, index in arrangement.index.items()}


def _value(op: Op, tree: Expr, scope: Mapping[str, Kind], at: Mark, readable: list[str]) -> Iterator[Problem]:
    """A real value of one cell: only printable operations, over elements of readable tensors."""
    problems: list[Problem] = []
    for read in expr.reads(tree):
        if read.tensor not in readable:
            message = f"'{read.tensor}' is not a tensor that can be read here{suggestion(read.tensor, readable)}"
            yield Problem(at.moved(read.column), "semantics-read", message)
            return
        if read.tensor != op.output.name:
            problems += _element(op, read, scope, at)
    if not problems:
        kind = noted_kind(tree, scope, at, problems)
        if kind and (kind.vector or kind.base == "bool"):
            problems.append(Problem(at, "semantics-value", f"a cell has one number, but this is {kind}"))
    yield from problems
    yield from _printable(tree, at)


def _printable(tree: Expr, at: Mark) -> Iterator[Problem]:
    """Values use only + - * / min max and prod(); indices are checked separately."""
    here = at.moved(tree.column)
    if isinstance(tree, Read):
        return
    if isinstance(tree, Number) and not (_fits_f32(float(tree.value)) and not math.isnan(tree.value)):
        yield Problem(here, "semantics-value", f"{tree.value} is not representable in f32")
    if isinstance(tree, Call) and tree.function == "prod":
        inner = [node for argument in tree.arguments for node in expr.walk(argument)]
        if any(
            isinstance(n, Read) or n == Name("count") or (isinstance(n, Call) and n.function in expr.REDUCTIONS)
            for n in inner
        ):
            yield Problem(
                here,
                "semantics-value",
                "prod() in semantics takes sizes per spatial axis, not elements, count or another prod()",
            )
        return
    calls = isinstance(tree, Call) and tree.function not in ("min", "max")
    operators = isinstance(tree, (Unary, Binary)) and tree.op not in "+-*/"
    if calls or operators:
        yield Problem(here, "semantics-value", "values may only use + - * / min max and prod()")
    for child in expr.children(tree):
        yield from _printable(child, at)


def _guard(guard: Located, scope: Mapping[str, Kind]) -> Iterator[Problem]:
    problems: list[Problem] = []
    kind = noted_kind(guard.tree, scope, guard.at, problems)
    yield from problems
    if kind and kind.base != "bool":
        yield Problem(guard.at, "semantics-where", f"where must be a truth value, but this is {kind}")
    for node in expr.walk(guard.tree):
        real = isinstance(node, Number) and isinstance(node.value, float)
        if real or isinstance(node, Read) or (isinstance(node, Call) and node.function in expr.REDUCTIONS):
            message = "where compares integers, axis by axis, without reads, real numbers, any, all or prod"
            yield Problem(guard.at.moved(node.column), "semantics-where", message)


def _finish(op: Op, finish: Located, kinds: Mapping[str, Kind]) -> Iterator[Problem]:
    output = op.output
    cells = [read for read in expr.reads(finish.tree) if read.tensor == output.name]
    axes = tuple(output.view) or tuple(output.dims)
    if len(cells) != 1 or len(cells[0].indices) != len(axes):
        yield Problem(
            finish.at, "semantics-finish", f"finish must read '{output.name}' exactly once, with {len(axes)} indices"
        )
        return
    formals = [index.id for index in cells[0].indices if isinstance(index, Name)]
    if len(set(formals)) != len(axes) or set(formals) & (kinds.keys() | {"count"}):
        message = f"the indices of '{output.name}' in finish must be distinct letters that are not symbols"
        yield Problem(finish.at.moved(cells[0].column), "semantics-finish", message)
        return
    extents = dict(zip(formals, (extent.tree for extent in output.dims.values()), strict=False))
    others = [read for read in expr.reads(finish.tree) if read.tensor != output.name]
    for read in others:
        yield from _finish_read(op, read, extents, finish.at.moved(read.column))
    letters = {formal: Kind("int", formal in extents and is_vector(extents[formal], kinds)) for formal in formals}
    scope = {**kinds, **letters, "count": Kind("int")}
    yield from _value(op, finish.tree, scope, finish.at, [output.name, *(tensor.name for tensor in op.data_inputs)])
    if _values(finish.tree) & set(formals):
        yield Problem(finish.at, "semantics-finish", "letters of finish may only occur in indices")


def _values(tree: Expr) -> frozenset[str]:
    """The names outside indices."""
    if isinstance(tree, Read):
        return frozenset()
    own = frozenset({tree.id}) if isinstance(tree, Name) else frozenset()
    return own.union(*map(_values, expr.children(tree)))


def _finish_read(op: Op, read: Read, extents: Mapping[str, Expr], at: Mark) -> Iterator[Problem]:
    """Other reads of finish follow the output's cell, so that they stay within their tensor."""
    tensor = next((tensor for tensor in op.data_inputs if tensor.name == read.tensor), None)
    if tensor is None:
        return
    axes = [extent.tree for extent in tensor.dims.values()]
    walked = [extents.get(index.id) if isinstance(index, Name) else None for index in read.indices]
    if tensor.arrangements or op.output.arrangements or (len(axes) == len(walked) and axes != walked):
        message = f"finish reads '{read.tensor}' by letters of '{op.output.name}' on axes of the same extents only"
        yield Problem(at, "semantics-finish", message)


def _used_inputs(op: Op) -> Iterator[Problem]:
    trees = [op.semantics.assignment.value, *([op.semantics.finish.tree] if op.semantics.finish else [])]
    used = {read.tensor for tree in trees for read in expr.reads(tree)}
    for tensor in op.data_inputs:
        if tensor.name not in used and not tensor.optional:
            yield Problem(tensor.at, "input-unused", f"semantics never reads the required input '{tensor.name}'")
