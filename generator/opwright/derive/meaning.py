"""Rules about expressions: what each may mention, of which kind it is, and that kernels follow from the semantics.

In: operations whose entries are complete and whose names are settled (the first stages of structure.py). Out: problems.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from ..emit.entries import forms
from ..emit.kernels import kernel
from ..language import expr
from ..language.expr import Binary, Call, Expr, Kind, Name, Number, Read, Unary
from ..language.model import GroupClass, Op, Tensor
from ..language.schema import Located, place
from ..language.source import Mark, Problem, SpecInvalid, suggestion
from ..language.types import formulas, has_symbol, symbol_kinds, symbol_of
from . import steps as stepwise
from .access import substitute
from .call_plan import Bind, plan
from .exactness import conjuncts, quotients
from .missing_axes import neutrals
from .sizes import size_fields
from .variants import PORTABLE, Variant, layout_choices

INIT = re.compile(r"-?(inf|[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)")
F32_LEAST, F32_MOST = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def call_symbols(op: Op) -> set[str]:
    """The symbols of a call: sizes, attributes that are numbers, named values."""
    attributes = {symbol_of(a) for a in op.attributes if has_symbol(a)}
    return attributes | {dim.symbol for dim in op.dims.values()} | op.lets.keys()


def call_expressions(op: Op) -> Iterator[tuple[Located, str, bool, str]]:
    """Every expression over a call: its base, whether it may be a vector, and what it is."""
    per_axis = {dim.symbol for dim in op.dims.values() if dim.per_axis}
    scalars = {dim.symbol for dim in op.dims.values()} - per_axis
    for tensor in op.tensors:
        for dims in tensor.ways.values():
            for axis, extent in dims.items():
                yield extent, "int", True, f"the extent of axis {axis} of '{tensor.name}'"
        if tensor.when:
            yield tensor.when, "bool", False, f"`when` of '{tensor.name}'"
    for symbol, let in op.lets.items():
        for formula in formulas(let):
            yield formula, "int", symbol not in scalars, f"the value of '{symbol}'"
    for constraint in op.constraints:
        if constraint.expr:
            yield constraint.expr, "bool", True, f"constraint '{constraint.id}'"
        if constraint.nearest:
            yield constraint.nearest, "int", True, f"the nearest value of constraint '{constraint.id}'"
    for group in op.classes:
        if group.when:
            yield group.when, "bool", False, f"`when` of class '{group.name}'"
        for symbol, value in group.let.items():
            yield value, "int", False, f"'{symbol}' of class '{group.name}'"
    for letter, extent in op.semantics.ranges.items():
        yield extent, "int", True, f"the extent of range letter '{letter}'"


# Symbols: known everywhere, defined once, in no circle.


def symbols(op: Op) -> Iterator[Problem]:
    known = call_symbols(op)
    for located, _, _, what in call_expressions(op):
        for node in expr.walk(located.tree):
            at = located.at.moved(node.column)
            if isinstance(node, Read):
                yield Problem(at, "expression-read", f"{what} cannot read elements of a tensor; only semantics can")
            elif isinstance(node, Number) and isinstance(node.value, float):
                yield Problem(at, "expression-real", f"{what} is in integers; real numbers stand in semantics only")
            elif isinstance(node, Call) and node.function in expr.REAL_FUNCTIONS:
                yield Problem(at, "expression-function", f"{what} has no {node.function}(); only values of steps have")
            elif isinstance(node, Name) and node.id not in known:
                yield Problem(at, "unknown-symbol", f"unknown symbol '{node.id}'{suggestion(node.id, known)}")
    for tensor in op.tensors:
        yield from _view(tensor, known)
    yield from _lets(op)
    yield from _dims(op)


def _view(tensor: Tensor, known: set[str]) -> Iterator[Problem]:
    """A view's letters are its own, and every arrangement places all of them."""
    letters = set(tensor.view)
    if len(letters) < len(tensor.view) or letters & (known | {"count"}):
        yield Problem(
            tensor.at, "tensor-view", f"the view of '{tensor.name}' is made of distinct letters that are no symbols"
        )
    for way in tensor.arrangements.values():
        used = frozenset().union(*(expr.names(index.tree) for index in way.index.values()))
        if unused := [letter for letter in tensor.view if letter not in used]:
            yield Problem(way.at, "tensor-view", f"no index of this arrangement uses {', '.join(unused)}")
        for index in way.index.values():
            for name in expr.names(index.tree) - letters - known:
                yield Problem(index.at, "unknown-symbol", f"unknown symbol '{name}'{suggestion(name, letters | known)}")
            if expr.reads(index.tree):
                yield Problem(
                    index.at, "expression-read", "an index of an arrangement cannot read elements of a tensor"
                )


def _lets(op: Op) -> Iterator[Problem]:
    words = {a.name: [value.value for value in a.values or ()] for a in op.attributes if a.type == "string"}
    for symbol, let in op.lets.items():
        if let.by is None:
            continue
        at = place(let.by, let.at)
        if let.by not in words:
            yield Problem(at, "let-by", f"there is no string attribute '{let.by}'{suggestion(let.by, map(str, words))}")
        elif set(let.cases) != set(words[let.by]):
            wanted = ", ".join(words[let.by])
            yield Problem(at, "let-cases", f"the cases of '{symbol}' must be exactly the words of '{let.by}': {wanted}")
    sizes = {dim.symbol for dim in op.dims.values()}
    for symbol, let in op.shape.items():
        if symbol not in sizes:
            message = f"'{symbol}' in shape is no size of dims{suggestion(symbol, sizes)}; other values stand in let"
            yield Problem(place(symbol, let.at), "shape-symbol", message)
    pending = {s: frozenset().union(*(expr.names(f.tree) for f in formulas(let))) for s, let in op.lets.items()}
    while ready := [symbol for symbol, needed in pending.items() if symbol in sizes or not needed & pending.keys()]:
        pending = {symbol: needed for symbol, needed in pending.items() if symbol not in ready}
    for symbol in pending:
        yield Problem(op.lets[symbol].at, "let-circle", f"'{symbol}' is defined by way of itself")


def _dims(op: Op) -> Iterator[Problem]:
    extents = [extent.tree for tensor in op.tensors for dims in tensor.ways.values() for extent in dims.values()]
    used = frozenset[str]().union(*map(expr.names, extents))
    for role, dim in op.dims.items():
        if dim.symbol not in used:
            yield Problem(dim.at, "dim-unused", f"no tensor has an axis of the size '{role}' ({dim.symbol})")
    vectors = any(dim.per_axis for dim in op.dims.values()) or any(a.length == "spatial" for a in op.attributes)
    if vectors != (op.spatial_rank.max > 0):
        message = "sizes and lists per spatial axis go with a spatial_rank, and a spatial_rank of more than 0 with them"
        yield Problem(op.spatial_rank.at if op.spatial_rank.max else op.at, "spatial-rank", message)


# Kinds.


def _kind(tree: Expr, scope: Mapping[str, Kind], at: Mark, problems: list[Problem]) -> Kind | None:
    try:
        return expr.kind_of(tree, scope, at)
    except SpecInvalid as invalid:
        problems.extend(invalid.problems)
        return None


def expressions(op: Op) -> Iterator[Problem]:
    problems: list[Problem] = []
    yield from stepwise.runs(op, ((located, what) for located, _, _, what in call_expressions(op)))
    try:
        kinds = symbol_kinds(op)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    for located, base, vector, what in call_expressions(op):
        kind = _kind(located.tree, kinds, located.at, problems)
        if kind and (kind.base != base or (kind.vector and not vector)):
            problems.append(Problem(located.at, "expression-kind", f"{what} must be {Kind(base)}, but this is {kind}"))
        for node in expr.walk(located.tree):
            real = (
                kind
                and isinstance(node, Binary)
                and node.op == "/"
                and expr.kind_of(node, kinds, located.at).base == "real"
            )
            if real:
                problems.append(Problem(located.at.moved(node.column), "expression-real", "'/' divides integers here"))
    yield from problems
    yield from _per_axis(op, kinds)
    yield from _nearest(op)
    for group in op.classes:
        yield from _class(group, kinds)


def _is_vector(tree: Expr, kinds: Mapping[str, Kind]) -> bool:
    return any(kinds[name].vector for name in expr.names(tree))


def _is_spatial(op: Op, tree: Expr, kinds: Mapping[str, Kind]) -> bool:
    return any(kinds[name].vector for name in expr.names(tree) - op.runs)


def _per_axis(op: Op, kinds: Mapping[str, Kind]) -> Iterator[Problem]:
    """Spatial axes: at most one entry of dims stands for all of them, and a required input tells how many there are."""
    told = op.spatial_rank.max == 0
    for tensor in op.tensors:
        for dims in tensor.ways.values():
            spatial = [axis for axis, extent in dims.items() if _is_spatial(op, extent.tree, kinds)]
            told = told or bool(spatial and not tensor.optional and tensor not in op.outputs)
            if len(spatial) > 1:
                yield Problem(
                    tensor.at,
                    "tensor-spatial",
                    f"axes {', '.join(spatial)} of '{tensor.name}' are all per spatial axis; one may be",
                )
        ways = {
            tuple(axis for axis, extent in dims.items() if _is_spatial(op, extent.tree, kinds))
            for dims in tensor.ways.values()
        }
        if len(ways) > 1:
            yield Problem(
                tensor.at, "tensor-spatial", f"the arrangements of '{tensor.name}' differ in their spatial axis"
            )
    if not told:
        yield Problem(
            op.spatial_rank.at,
            "spatial-rank",
            "no required input has spatial axes, so that no call tells how many there are",
        )


def _nearest(op: Op) -> Iterator[Problem]:
    integers = {attribute.name for attribute in op.attributes if attribute.type in ("s64", "s64[]")}
    for constraint in op.constraints:
        if constraint.nearest is None or constraint.expr is None:
            continue
        if constraint.argument not in integers:
            yield Problem(constraint.nearest.at, "nearest", "only an integer attribute has a nearest value")
        unknown = expr.names(constraint.nearest.tree) - expr.names(constraint.expr.tree)
        if unknown:
            message = f"the nearest value may use what the condition uses, and not {', '.join(sorted(unknown))}"
            yield Problem(constraint.nearest.at, "nearest", message)


def _class(group: GroupClass, kinds: Mapping[str, Kind]) -> Iterator[Problem]:
    equal = (
        [(n.left, n.right) for n in conjuncts(group.when.tree) if isinstance(n, Binary) and n.op == "=="]
        if group.when
        else []
    )
    for symbol, value in group.let.items():
        at = place(symbol, group.at)
        if symbol not in kinds:
            yield Problem(at, "unknown-symbol", f"unknown symbol '{symbol}'{suggestion(symbol, kinds)}")
        elif not {(Name(symbol), value.tree), (value.tree, Name(symbol))} & set(equal):
            message = f"`when` of class '{group.name}' must say {symbol} == {value.text}: kernels rely on it"
            yield Problem(at, "class-let", message)


# Semantics.


def semantics(op: Op) -> Iterator[Problem]:
    meaning = op.semantics
    kinds = symbol_kinds(op)
    letters = {letter: Kind("int", _is_vector(extent.tree, kinds)) for letter, extent in meaning.ranges.items()}
    scope = {**kinds, **letters}
    at = meaning.assignment.at
    problems: list[Problem] = []
    if not INIT.fullmatch(meaning.init) or not _fits_f32(float(meaning.init)):
        problems.append(
            Problem(place(meaning.init, meaning.at), "semantics-init", "init is a number of f32, inf or -inf")
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
    return math.isinf(value) or value == 0 or F32_LEAST <= abs(value) <= F32_MOST


def _element(op: Op, read: Read, scope: Mapping[str, Kind], at: Mark) -> Iterator[Problem]:
    """One element of a tensor: the right number of indices, each of the kind of its axis."""
    tensor, at = op.tensor(read.tensor), at.moved(read.column)
    names = tensor.view or tuple(tensor.dims)
    if len(read.indices) != len(names):
        message = f"'{read.tensor}' takes {len(names)} indices ({', '.join(names)}) and has {len(read.indices)}"
        yield Problem(at, "semantics-indices", message)
        return
    problems: list[Problem] = []
    for index in read.indices:
        _kind(Read(read.tensor, (index,)), scope, at.moved(-read.column), problems)
    yield from problems
    for extents, indices in [] if problems else _axes(tensor, read):
        for axis, index in indices.items():
            kind = _kind(index, scope, at, problems)
            if kind and kind.vector != _is_vector(extents[axis], scope):
                one, other = (
                    ("one value", "a value per spatial axis")
                    if kind.vector
                    else ("a value per spatial axis", "one value")
                )
                yield Problem(
                    at, "semantics-vector", f"axis {axis} of '{read.tensor}' has {one}, and its index {other}"
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
    for way in tensor.arrangements.values():
        extents = {axis: extent.tree for axis, extent in way.dims.items()}
        yield extents, {axis: substitute(index.tree, view) for axis, index in way.index.items()}


def _value(op: Op, tree: Expr, scope: Mapping[str, Kind], at: Mark, readable: list[str]) -> Iterator[Problem]:
    """A real value of one cell: what kernels can print, over elements of the tensors that it may read."""
    problems: list[Problem] = []
    for read in expr.reads(tree):
        if read.tensor not in readable:
            message = f"'{read.tensor}' is no tensor that can be read here{suggestion(read.tensor, readable)}"
            yield Problem(at.moved(read.column), "semantics-read", message)
            return
        if read.tensor != op.output.name:
            problems += _element(op, read, scope, at)
    if not problems:
        kind = _kind(tree, scope, at, problems)
        if kind and (kind.vector or kind.base == "bool"):
            problems.append(Problem(at, "semantics-value", f"a cell takes one number, but this is {kind}"))
    yield from problems
    yield from _printable(tree, at)


def _printable(tree: Expr, at: Mark) -> Iterator[Problem]:
    """Only + - * / min max and prod() make values; indices are checked by themselves."""
    here = at.moved(tree.column)
    if isinstance(tree, Read):
        return
    if isinstance(tree, Number) and not (_fits_f32(float(tree.value)) and not math.isnan(tree.value)):
        yield Problem(here, "semantics-value", f"{tree.value} is no number of f32")
    if isinstance(tree, Call) and tree.function == "prod":
        inner = [node for argument in tree.arguments for node in expr.walk(argument)]
        if any(
            isinstance(n, Read) or n == Name("count") or (isinstance(n, Call) and n.function in expr.REDUCTIONS)
            for n in inner
        ):
            yield Problem(
                here,
                "semantics-value",
                "prod() in semantics takes sizes per spatial axis, no elements, count or other prod()",
            )
        return
    calls = isinstance(tree, Call) and tree.function not in ("min", "max")
    operators = isinstance(tree, (Unary, Binary)) and tree.op not in "+-*/"
    if calls or operators:
        yield Problem(here, "semantics-value", "values are made with + - * / min max and prod() only")
    for child in expr.children(tree):
        yield from _printable(child, at)


def _guard(guard: Located, scope: Mapping[str, Kind]) -> Iterator[Problem]:
    problems: list[Problem] = []
    kind = _kind(guard.tree, scope, guard.at, problems)
    yield from problems
    if kind and kind.base != "bool":
        yield Problem(guard.at, "semantics-where", f"where must be a truth value, but this is {kind}")
    for node in expr.walk(guard.tree):
        real = isinstance(node, Number) and isinstance(node.value, float)
        if real or isinstance(node, Read) or (isinstance(node, Call) and node.function in expr.REDUCTIONS):
            message = "where compares integers, axis by axis; it has no reads, real numbers, any, all or prod"
            yield Problem(guard.at.moved(node.column), "semantics-where", message)


def _finish(op: Op, finish: Located, kinds: Mapping[str, Kind]) -> Iterator[Problem]:
    output = op.output
    cells = [read for read in expr.reads(finish.tree) if read.tensor == output.name]
    axes = tuple(output.view) or tuple(output.dims)
    if len(cells) != 1 or len(cells[0].indices) != len(axes):
        yield Problem(
            finish.at, "semantics-finish", f"finish reads '{output.name}' exactly once, with {len(axes)} indices"
        )
        return
    formals = [index.id for index in cells[0].indices if isinstance(index, Name)]
    if len(set(formals)) != len(axes) or set(formals) & (kinds.keys() | {"count"}):
        message = f"the indices of '{output.name}' in finish are distinct letters that are no symbols"
        yield Problem(finish.at.moved(cells[0].column), "semantics-finish", message)
        return
    extents = dict(zip(formals, (extent.tree for extent in output.dims.values()), strict=False))
    others = [read for read in expr.reads(finish.tree) if read.tensor != output.name]
    for read in others:
        yield from _finish_read(op, read, extents, finish.at.moved(read.column))
    letters = {formal: Kind("int", formal in extents and _is_vector(extents[formal], kinds)) for formal in formals}
    scope = {**kinds, **letters, "count": Kind("int")}
    yield from _value(op, finish.tree, scope, finish.at, [output.name, *(tensor.name for tensor in op.data_inputs)])
    if _values(finish.tree) & set(formals):
        yield Problem(finish.at, "semantics-finish", "letters of finish stand in indices only")


def _values(tree: Expr) -> frozenset[str]:
    """The names that stand for themselves, outside indices."""
    if isinstance(tree, Read):
        return frozenset()
    own = frozenset({tree.id}) if isinstance(tree, Name) else frozenset()
    return own.union(*map(_values, expr.children(tree)))


def _finish_read(op: Op, read: Read, extents: Mapping[str, Expr], at: Mark) -> Iterator[Problem]:
    """Other reads of finish walk with the output's cell, so that they never leave their tensor."""
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


# The steps of a call, the kernels.


def steps(op: Op) -> Iterator[Problem]:
    try:
        found = plan(op)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    for step in found:
        if isinstance(step, Bind) and (step.tensor.optional or step.tensor.when):
            for axis in (axis for way in step.ways for axis in way.axes if not axis.known):
                message = (
                    f"only the optional input '{step.tensor.name}' tells the size {axis.unknown}; a call may lack it"
                )
                yield Problem(axis.extent.at, "extent-optional", message)


def kernels(op: Op) -> Iterator[Problem]:
    """Every layout and class once; the data types change no loop."""
    try:
        members = [member.name for member in size_fields(op)]
        for name in {name for name in members if members.count(name) > 1}:
            yield Problem(op.at, "name-collision", f"the name '{name}' would stand twice among the sizes of a kernel")
        for layouts in layout_choices(op):
            for group in op.classes or (None,):
                kernel(Variant(op, op.dtypes[0], layouts, group, PORTABLE))
        if op.normal_form is not None:
            forms(op, op.normal_form)
    except SpecInvalid as invalid:
        yield from invalid.problems
