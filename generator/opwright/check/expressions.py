"""Rules about expressions over a call: the names and kinds in each, and that a call determines all of them.

In: operations with complete entries and valid names. Out: problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..derive.algebra.conditions import conjuncts
from ..derive.call_plan import Bind, plan
from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read
from ..language.kinds import Kind, kind_of
from ..language.model import GroupClass, Op, Tensor
from ..language.schema import Located, place
from ..language.source import Mark, Problem, SpecInvalid, suggestion
from ..language.types import formulas, has_symbol, symbol_kinds, symbol_of


def call_symbols(op: Op) -> set[str]:
    """The symbols of a call: sizes, attributes that are numbers, named values."""
    attributes = {symbol_of(a) for a in op.attributes if has_symbol(a)}
    return attributes | {dim.symbol for dim in op.dims.values()} | op.lets.keys()


def call_expressions(op: Op) -> Iterator[tuple[Located, str, bool, str]]:
    """Every expression over a call: its description, its base, and whether it may be a vector."""
    per_axis = {dim.symbol for dim in op.dims.values() if dim.per_axis}
    scalars = {dim.symbol for dim in op.dims.values()} - per_axis
    for tensor in op.tensors:
        for dims in tensor.dims_by_arrangement.values():
            for axis, extent in dims.items():
                yield extent, "int", True, f"the extent of axis {axis} of '{tensor.name}'"
        if tensor.when:
            yield tensor.when, "bool", False, f"`when` of '{tensor.name}'"
    for attribute in op.attributes:
        for role, size in (attribute.blocks or {}).items():
            yield size, "int", False, f"the extent of blocks of '{role}'"
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


def symbols(op: Op) -> Iterator[Problem]:
    known = call_symbols(op)
    for located, _, _, what in call_expressions(op):
        for node in expr.walk(located.tree):
            at = located.at.moved(node.column)
            if isinstance(node, Read):
                yield Problem(at, "expression-read", f"{what} cannot read elements of a tensor; only semantics can")
            elif isinstance(node, Number) and isinstance(node.value, float):
                yield Problem(
                    at,
                    "expression-real",
                    f"{what} is an integer expression; real numbers are allowed in semantics only",
                )
            elif isinstance(node, Call) and (
                node.function in expr.REAL_FUNCTIONS or node.function in expr.LETTER_FUNCTIONS
            ):
                yield Problem(at, "expression-function", f"{what} cannot use {node.function}(); only steps can")
            elif isinstance(node, Call) and node.function in expr.SCALE_FUNCTIONS and not op.stepped:
                message = f"{what} cannot use {node.function}(); only operations of `steps` can"
                yield Problem(at, "expression-function", message)
            elif isinstance(node, Name) and node.id not in known:
                own = _symbol(op, node.id)
                hint = f"; the symbol of '{node.id}' is {own}" if own else suggestion(node.id, known)
                yield Problem(at, "unknown-symbol", f"unknown symbol '{node.id}'{hint}")
    for tensor in op.tensors:
        yield from _view(tensor, known)
    yield from _lets(op)
    yield from _dims(op)


def _symbol(op: Op, name: str) -> str | None:
    """The symbol of a size by its role, or of an attribute by its name."""
    found = {attribute.name: attribute.symbol for attribute in op.attributes}
    return found.get(name) or next((dim.symbol for role, dim in op.dims.items() if role == name), None)


def _view(tensor: Tensor, known: set[str]) -> Iterator[Problem]:
    """A view has letters of its own, and every arrangement uses all of them."""
    letters = set(tensor.view)
    if len(letters) < len(tensor.view) or letters & (known | {"count"}):
        yield Problem(
            tensor.at, "tensor-view", f"the view of '{tensor.name}' consists of distinct letters that are not symbols"
        )
    for arrangement in tensor.arrangements.values():
        used = frozenset().union(*(expr.names(index.tree) for index in arrangement.index.values()))
        if unused := [letter for letter in tensor.view if letter not in used]:
            yield Problem(arrangement.at, "tensor-view", f"no index of this arrangement uses {', '.join(unused)}")
        for index in arrangement.index.values():
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
            message = (
                f"'{symbol}' in shape is not a size of dims{suggestion(symbol, sizes)}; define other values in let"
            )
            yield Problem(place(symbol, let.at), "shape-symbol", message)
    pending = {s: frozenset().union(*(expr.names(f.tree) for f in formulas(let))) for s, let in op.lets.items()}
    while ready := [symbol for symbol, needed in pending.items() if symbol in sizes or not needed & pending.keys()]:
        pending = {symbol: needed for symbol, needed in pending.items() if symbol not in ready}
    for symbol in pending:
        yield Problem(op.lets[symbol].at, "let-circle", f"'{symbol}' is defined in terms of itself")


def _dims(op: Op) -> Iterator[Problem]:
    extents = [
        extent.tree for tensor in op.tensors for dims in tensor.dims_by_arrangement.values() for extent in dims.values()
    ]
    used = frozenset[str]().union(*map(expr.names, extents))
    for role, dim in op.dims.items():
        if dim.symbol not in used:
            yield Problem(dim.at, "dim-unused", f"no tensor has an axis of the size '{role}' ({dim.symbol})")
    vectors = any(dim.per_axis for dim in op.dims.values()) or any(a.length == "spatial" for a in op.attributes)
    if vectors != (op.spatial_rank.max > 0):
        message = "a spatial_rank above 0 requires sizes or lists per spatial axis, and these require it"
        yield Problem(op.spatial_rank.at if op.spatial_rank.max else op.at, "spatial-rank", message)


def noted_kind(tree: Expr, scope: Mapping[str, Kind], at: Mark, problems: list[Problem]) -> Kind | None:
    try:
        return kind_of(tree, scope, at)
    except SpecInvalid as invalid:
        problems.extend(invalid.problems)
        return None


def runs(op: Op, expressions: Iterable[tuple[Located, str]]) -> Iterator[Problem]:
    """A run stands alone, in ones() or in prod(): no arithmetic on its single axes."""
    for located, what in expressions:
        tree = located.tree
        inner = tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree
        if isinstance(inner, Name):
            continue
        for node in _bare(tree):
            if node.id in op.runs:
                message = f"{what} uses '{node.id}', which is a run of axes, as a number; only prod({node.id}) is one"
                yield Problem(located.at.moved(node.column), "run-arithmetic", message)


def _bare(tree: Expr) -> Iterator[Name]:
    """The names of a tree outside prod()."""
    if isinstance(tree, Name):
        yield tree
    alone = isinstance(tree, Call) and tree.function == "prod" and isinstance(tree.arguments[0], Name)
    for child in () if alone else expr.children(tree):
        yield from _bare(child)


def expressions(op: Op) -> Iterator[Problem]:
    problems: list[Problem] = []
    yield from runs(op, ((located, what) for located, _, _, what in call_expressions(op)))
    try:
        kinds = symbol_kinds(op)
    except SpecInvalid as invalid:
        yield from invalid.problems
        return
    for located, base, vector, what in call_expressions(op):
        kind = noted_kind(located.tree, kinds, located.at, problems)
        if kind and (kind.base != base or (kind.vector and not vector)):
            problems.append(Problem(located.at, "expression-kind", f"{what} must be {Kind(base)}, but this is {kind}"))
        for node in expr.walk(located.tree):
            real = (
                kind and isinstance(node, Binary) and node.op == "/" and kind_of(node, kinds, located.at).base == "real"
            )
            if real:
                problems.append(Problem(located.at.moved(node.column), "expression-real", "'/' divides integers here"))
    yield from problems
    yield from _per_axis(op, kinds)
    yield from _nearest(op)
    for group in op.classes:
        yield from _class(group, kinds)


def is_vector(tree: Expr, kinds: Mapping[str, Kind]) -> bool:
    return any(kinds[name].vector for name in expr.loose_names(tree))


def _is_spatial(op: Op, tree: Expr, kinds: Mapping[str, Kind]) -> bool:
    return any(kinds[name].vector for name in expr.loose_names(tree) - op.runs)


def _per_axis(op: Op, kinds: Mapping[str, Kind]) -> Iterator[Problem]:
    """Spatial axes: at most one entry of dims stands for all of them, and a required input determines their number."""
    fixed = bool(op.semantics.steps) and op.spatial_rank.min == op.spatial_rank.max
    known = fixed or op.spatial_rank.max == 0
    for tensor in op.tensors:
        for dims in tensor.dims_by_arrangement.values():
            spatial = [axis for axis, extent in dims.items() if _is_spatial(op, extent.tree, kinds)]
            known = known or bool(spatial and not tensor.optional and tensor not in op.outputs)
            if len(spatial) > 1:
                yield Problem(
                    tensor.at,
                    "tensor-spatial",
                    f"axes {', '.join(spatial)} of '{tensor.name}' are all per spatial axis; one may be",
                )
        spatial_axes = {
            tuple(axis for axis, extent in dims.items() if _is_spatial(op, extent.tree, kinds))
            for dims in tensor.dims_by_arrangement.values()
        }
        if len(spatial_axes) > 1:
            yield Problem(
                tensor.at, "tensor-spatial", f"the arrangements of '{tensor.name}' differ in their spatial axis"
            )
    if not known:
        yield Problem(
            op.spatial_rank.at,
            "spatial-rank",
            "no required input has spatial axes, so calls do not determine how many there are; with steps,"
            " spatial_rank can give one number",
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
            message = f"the nearest value may only use symbols of the condition, not {', '.join(sorted(unknown))}"
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
            message = f"`when` of class '{group.name}' must state {symbol} == {value.text}: kernels rely on it"
            yield Problem(at, "class-let", message)


def steps(op: Op) -> Iterator[Problem]:
    for step in plan(op):
        if isinstance(step, Bind) and (step.tensor.optional or step.tensor.when):
            for axis in (axis for arrangement in step.arrangements for axis in arrangement.axes if not axis.known):
                only = f"only the optional input '{step.tensor.name}' determines the size {axis.unknown}"
                message = f"{only}, but calls may omit it"
                yield Problem(axis.extent.at, "extent-optional", message)
