"""Rules of operations of steps: legal values of the keys of the operation, its tensors, attributes and data types.

In: an operation with complete entries. Out: problems. Features that steps do not support are refused here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...language import expr
from ...language.expr import Call, Expr, Name, Number
from ...language.model import Op, Tensor
from ...language.schema import place
from ...language.source import Problem, suggestion, unknown

# Keys that operations of steps must not use, and why they are not needed.
INSTEAD = {
    "normal_form": "leave it out: which steps are contractions follows from the roles of their letters",
    "classes": "leave it out: kernels of steps take every size from the call, and an extent of 1 costs them no loop",
}


def words_of_attributes(op: Op) -> dict[str, list[str]]:
    """The words of string attributes and of boolean attributes."""
    found = {a.name or "": [v.value for v in a.values or ()] for a in op.attributes if a.type == "string"}
    return found | {a.name or "": ["false", "true"] for a in op.attributes if a.type == "bool"}


def counted(op: Op) -> Iterator[Problem]:
    """Keys that operations of steps must have, and keys for `reduce` only."""
    if not op.outputs:
        yield Problem(op.at.key("outputs"), "one-output", "an operation has at least one output")
    if not op.inputs:
        yield Problem(op.at.key("inputs"), "one-input", "an operation needs at least one input")
    if not op.dtypes:
        yield Problem(op.at.key("dtypes"), "dtypes-none", "at least one row of data types is needed")
    semantics = op.semantics
    for key in ("reduce", "finish", "where", "init"):
        if key in dict(semantics.at.keys):
            message = f"'{key}' is a key of semantics with `reduce`; write it in a step"
            yield Problem(semantics.at.key(key), "steps-key", message)
    for key in ("normal_form", "classes"):
        if getattr(op, key):
            yield Problem(op.at.key(key), "steps-key", f"'{key}' goes with `reduce`; {INSTEAD[key]}")
    for tensor in (*op.inputs, *op.outputs):
        for key in ("arrangements", "view", "shape_of", "parameter"):  # inputs with shape_of are lists by now
            if getattr(tensor, key):
                message = f"'{key}' of a tensor goes with `reduce`; steps do not have it yet"
                yield Problem(tensor.at.key(key), "steps-key", message)
    if op.spatial_rank.min > op.spatial_rank.max:
        message = "the minimum number of spatial axes exceeds the maximum"
        yield Problem(op.spatial_rank.at, "spatial-rank", message)


def tensors(op: Op) -> Iterator[Problem]:
    """Inputs and outputs: axes, layouts, broadcasting, and the calls that have them."""
    optional = False
    for tensor in op.inputs:
        absent = tensor.optional or tensor.when is not None
        if optional and not absent:
            yield Problem(tensor.at, "input-order", f"the required input '{tensor.name}' follows an optional one")
        optional = optional or absent
        if tensor.absent is not None and not is_number(tensor.absent):
            at = place(tensor.absent, tensor.at)
            yield Problem(at, "tensor-absent", "`absent` is a number, such as 0, 1 or -inf")
        if tensor.absent is not None and not tensor.optional:
            yield Problem(tensor.at, "tensor-absent", f"'{tensor.name}' is never omitted; make it `optional`")
    for tensor in op.outputs:
        if tensor.optional or tensor.absent or tensor.broadcast or tensor.joined:
            message = "an output cannot be optional, joined or broadcast; `when` says which calls have it"
            yield Problem(tensor.at, "output-key", message)
    for tensor in op.tensors:
        yield from _axes(op, tensor)
    yield from _joined(op)
    yield from _lacking(op)
    yield from _attributes(op)
    yield from _orders(op)
    yield from _shapes(op)
    yield from _extents(op)
    yield from _blocks(op)


def is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e30 or text in ("inf", "-inf")
    except ValueError:
        return False


def _axes(op: Op, tensor: Tensor) -> Iterator[Problem]:
    sizes = {dim.symbol for dim in op.dims.values()} - op.lets.keys()
    for axis in tensor.broadcast:
        at = place(axis, tensor.at)
        yield from unknown(axis, tensor.dims, at, "tensor-broadcast", f"axis of '{tensor.name}'")
        extent = tensor.dims.get(axis)
        if extent is not None and not (isinstance(extent.tree, expr.Name) and extent.tree.id in sizes):
            message = f"axis {axis} of '{tensor.name}' cannot broadcast along the computed extent {extent.text}"
            yield Problem(at, "tensor-broadcast", f"{message}; give it a size of `dims`, and tie both by a constraint")
    words = words_of_attributes(op)
    for name, word in tensor.broadcast_if.items():
        yield from unknown(name, words, place(name, tensor.at), "tensor-broadcast", "string attribute")
        yield from unknown(word, words.get(name, ()), place(word, tensor.at), "tensor-broadcast", f"word of '{name}'")
    if len(tensor.broadcast_if) > 1 or (tensor.broadcast_if and not tensor.broadcast):
        yield Problem(tensor.at, "tensor-broadcast", "`broadcast_if` names one attribute, for the axes of `broadcast`")
    if tensor.layout is None:
        return
    at = place(tensor.layout, tensor.at)
    if tensor.layout not in words:
        yield from unknown(tensor.layout, words, at, "layout-attribute", "string or truth attribute")
        return
    rows = op.layouts.get(tensor.layout, {})
    for word in words[tensor.layout]:
        served = tensor in op.inputs and not tensor.broadcast_if
        left = {a for a, e in tensor.dims.items() if _is_ones(e.tree) or (served and _served_size(op, tensor, e.tree))}
        left -= set(rows.get(word, ()))
        if word not in rows:
            message = f"layouts has no row for the word '{word}' of '{tensor.layout}'{suggestion(word, rows)}"
            yield Problem(at, "layout-row", message)
        elif sorted((*rows[word], *left)) != sorted(tensor.dims):
            found, wanted = ", ".join(rows[word]), ", ".join(tensor.dims)
            message = f"layout {word} orders the axes {found}, but '{tensor.name}' has {wanted}"
            yield Problem(
                at,
                "layout-axes",
                f"{message}; only axes of extent 1 or ones(...) may be omitted,"
                " and by an input those whose size a required input without layout has",
            )


def _served_size(op: Op, tensor: Tensor, size: Expr) -> bool:
    """Whether an earlier required input with all its axes has an axis of a size."""
    before = op.inputs[: op.inputs.index(tensor)]
    whole = [t for t in before if not (t.optional or t.when or t.layout or t.broadcast or t.may_lack or t.joined)]
    return any(extent.tree == size for other in whole for extent in other.dims.values())


def _is_ones(tree: Expr) -> bool:
    return tree == Number(1) or (isinstance(tree, Call) and tree.function == "ones")


def _joined(op: Op) -> Iterator[Problem]:
    """Inputs joined from a list of arrays: along an axis of a size that neither broadcasts nor may be omitted."""
    plain = {dim.symbol for dim in op.dims.values() if not dim.per_axis and not dim.run}
    for tensor in op.inputs:
        if tensor.joined is None:
            continue
        at = place(tensor.joined, tensor.at)
        yield from unknown(tensor.joined, tensor.dims, at, "joined", f"axis of '{tensor.name}'")
        tree = tensor.dims[tensor.joined].tree if tensor.joined in tensor.dims else None
        if tree is not None and not (isinstance(tree, Name) and tree.id in plain):
            message = f"arrays are joined along an axis whose extent is a size of dims; {tensor.joined} is not one"
            yield Problem(at, "joined", message)
        if tensor.optional or tensor.when or tensor.joined in (*tensor.broadcast, *tensor.may_lack):
            message = f"'{tensor.name}' is joined from at least one array, so it must be required and have the axis"
            yield Problem(at, "joined", f"{message} {tensor.joined}, neither broadcast nor omitted")


def _lacking(op: Op) -> Iterator[Problem]:
    """Axes that arrays may omit: the first input with such an axis determines by its rank whether a call has it."""
    plain = {dim.symbol for dim in op.dims.values() if not dim.per_axis and not dim.run}
    counted = {attribute.locates for attribute in op.attributes if attribute.type == "s64"}
    located = {Name(op.dims[role].symbol) for role in counted if role in op.dims}
    seen: set[str] = set()
    for tensor in op.tensors:
        new = []
        for axis in tensor.may_lack:
            at = place(axis, tensor.at)
            yield from unknown(axis, tensor.dims, at, "may-lack", f"axis of '{tensor.name}'")
            tree = tensor.dims[axis].tree if axis in tensor.dims else None
            if isinstance(tree, Name) and tree.id in plain:
                new += [tree.id] if tree.id not in seen else []
            elif tree is not None:
                yield Problem(
                    at,
                    "may-lack",
                    f"the extent of an axis that may be omitted must be a size of dims; that of {axis} is not",
                )
        if tensor.may_lack and (tensor.optional or tensor.when or {e.tree for e in tensor.dims.values()} & located):
            message = f"'{tensor.name}' cannot omit axes: it is optional, or an s64 with `locates` counts its axes"
            yield Problem(tensor.at, "may-lack", message)
        if new and (tensor in op.outputs or len(new) > 1):
            which = "no input may omit it" if tensor in op.outputs else "no call determines which"
            yield Problem(tensor.at, "may-lack", f"'{tensor.name}' may omit {' and '.join(new)}, but {which}")
        seen |= set(new)


def _orders(op: Op) -> Iterator[Problem]:
    """Lists that order the axes of a tensor; nothing else may order or omit them."""
    tensors = {tensor.name: tensor for tensor in op.tensors}
    lists = [attribute.locates for attribute in op.attributes if attribute.type == "s64[]" and attribute.locates]
    runs = {op.dims[role].symbol for role in lists if role in op.dims}
    seen: set[str] = set()
    for attribute in op.attributes:
        if attribute.order_of is None:
            continue
        at = place(attribute.order_of, attribute.at)
        yield from unknown(attribute.order_of, tensors, at, "order-of", "tensor")
        tensor = tensors.get(attribute.order_of)
        if tensor is None:
            continue
        names = frozenset[str]().union(*(expr.names(extent.tree) for extent in tensor.dims.values()))
        if (
            tensor.layout
            or tensor.broadcast
            or tensor.may_lack
            or tensor.optional
            or names & runs
            or tensor.name in seen
        ):
            message = f"'{attribute.name}' alone orders the axes of '{tensor.name}'; the tensor must be required"
            yield Problem(at, "order-of", f"{message}, without `layout`, `broadcast`, `may_lack` and `locates`")
        if not attribute.required:
            yield Problem(
                attribute.at, "order-of", f"'{attribute.name}' must be required: no default fits every number of axes"
            )
        seen.add(tensor.name)


def _shapes(op: Op) -> Iterator[Problem]:
    """Lists that state the shape of an output, in the order of its layout: one per output, and required."""
    outputs = {tensor.name: tensor for tensor in op.outputs}
    seen: set[str] = set()
    for attribute in op.attributes:
        if attribute.shape_of is None:
            continue
        at = place(attribute.shape_of, attribute.at)
        yield from unknown(attribute.shape_of, outputs, at, "shape-of", "output")
        output = outputs.get(attribute.shape_of)
        if attribute.shape_of in seen or not attribute.required:
            message = (
                f"one list states the shape of '{attribute.shape_of}', and every call must give it: make it `required`"
            )
            yield Problem(attribute.at, "shape-of", message)
        if output and (output.may_lack or any(other.order_of == output.name for other in op.attributes)):
            yield Problem(at, "shape-of", f"'{output.name}' has its shape from a list, so it omits and orders no axes")
        seen.add(attribute.shape_of)


def _extents(op: Op) -> Iterator[Problem]:
    """Lists that give the extents of a run of outputs."""
    roles = {role for role, dim in op.dims.items() if dim.run}
    inputs = frozenset[str]().union(*(expr.names(e.tree) for t in op.data_inputs for e in t.dims.values()))
    truths = [attribute.name or "" for attribute in op.attributes if attribute.type == "bool"]
    seen: set[str] = set()
    for attribute in op.attributes:
        name, at = attribute.name, attribute.at
        if attribute.extents_of is None:
            if attribute.fills or attribute.keeps:
                yield Problem(
                    at, "extents-of", "`fills` and `keeps` require `extents_of`, the run whose extents the list gives"
                )
            continue
        yield from unknown(attribute.extents_of, roles, place(attribute.extents_of, at), "extents-of", "run of axes")
        if attribute.fills:
            yield from unknown(attribute.fills, roles, place(attribute.fills, at), "extents-of", "run of axes")
        if attribute.keeps:
            yield from unknown(attribute.keeps, truths, place(attribute.keeps, at), "extents-of", "truth attribute")
        if attribute.keeps and not attribute.fills:
            yield Problem(at, "extents-of", "`keeps` refers to the run of `fills`; give both")
        dim = op.dims.get(attribute.extents_of)
        if dim and (dim.symbol in inputs or dim.symbol in seen):
            yield Problem(at, "extents-of", f"'{dim.symbol}' is already determined by an input or another list")
        if not attribute.required or attribute.min is not None or attribute.max is not None:
            yield Problem(at, "extents-of", f"'{name}' gives extents, so it must be required, without min and max")
        seen.add(dim.symbol if dim else "")


def _blocks(op: Op) -> Iterator[Problem]:
    """Lists of the extents of blocks: of one size, which the first input with it must not omit."""
    plain = {role for role, dim in op.dims.items() if not dim.per_axis and not dim.run}
    for attribute in (attribute for attribute in op.attributes if attribute.blocks is not None):
        at = place(next(iter(attribute.blocks or ()), None), attribute.at)
        if len(attribute.blocks or ()) != 1 or attribute.required or attribute.default != "[]":
            message = f"'{attribute.name}' must have blocks of one size, and the default [], which means no blocks"
            yield Problem(at, "blocks", message)
        for role in attribute.blocks or ():
            yield from unknown(role, plain, at, "blocks", "size")
            symbol = Name(op.dims[role].symbol) if role in plain else None
            first = next((t for t in op.inputs if any(e.tree == symbol for e in t.dims.values())), None)
            if symbol and (first is None or first.optional or first.when or first.layout or first.may_lack):
                message = f"the first input with an axis of {symbol.id} must be required, without layout and `may_lack`"
                yield Problem(at, "blocks", message)


def _attributes(op: Op) -> Iterator[Problem]:
    dims = op.dims
    scalars = {dim.symbol for dim in dims.values() if not dim.per_axis and not dim.run}
    for attribute in op.attributes:
        name = attribute.name or ""
        if attribute.locates is not None:
            yield from unknown(attribute.locates, dims, place(attribute.locates, attribute.at), "locates", "size")
            dim = dims.get(attribute.locates)
            if attribute.type not in ("s64", "s64[]") or (dim and dim.per_axis):
                message = f"'{name}' locates an axis as an s64, or the axes of a run as an s64[]"
                yield Problem(attribute.at, "locates", message)
            elif dim and attribute.type == "s64[]" and not dim.run:
                yield Problem(attribute.at, "locates", f"'{attribute.locates}' has one axis; make '{name}' an s64")
            elif dim and not any(e.tree == Name(dim.symbol) for t in op.data_inputs for e in t.dims.values()):
                message = f"no input has an axis of extent {dim.symbol} for '{name}' to locate"
                hint = f"give the axis a size of its own, and compute {dim.symbol} from it in let"
                yield Problem(attribute.at, "locates", f"{message}; {hint}")
        if attribute.dtype_of is not None:
            outputs = [tensor.name for tensor in op.outputs]
            at = place(attribute.dtype_of, attribute.at)
            yield from unknown(attribute.dtype_of, outputs, at, "dtype-of", "output")
            wanted = {row.get(attribute.dtype_of, "") for row in op.dtypes}
            if {value.value for value in attribute.values or ()} != wanted:
                message = f"the values of '{name}' are the data types of its output: {', '.join(sorted(wanted))}"
                yield Problem(attribute.at, "dtype-of", message)
        if attribute.per is not None:
            yield from unknown(attribute.per, scalars, place(attribute.per, attribute.at), "attribute-per", "size")
        if attribute.per is not None and attribute.length is not None:
            yield Problem(attribute.at, "attribute-per", f"'{name}' has either `per` or `length`")
        if attribute.type == "f32[]" and attribute.per is None and attribute.length != "spatial":
            message = f"'{name}' needs `per`, the size that gives its number of entries, or `length: spatial`"
            yield Problem(attribute.at, "attribute-per", message)
