"""Rules about declarations: complete entries, attributes, tensors, dtypes, constraints, classes, relations.

In: an operation. Out: problems. A rule is a generator function that yields its violations.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ..derive.variants import ISAS, row_name
from ..language.dtypes import ACCUMULATORS, DTYPES, OF_KERNELS
from ..language.library import Page
from ..language.model import Attribute, Constraint, Let, Op, Tensor
from ..language.schema import place
from ..language.source import Mark, Problem, suggestion, unknown
from .rules import KINDS, incomplete, kind_of_relation, repeated

MAX_VARIANTS = 512
# The rules of the generated package itself; constraints may not use their names.
PACKAGE_RULES = frozenset({
    "dtypes", "overflow", "index-overflow", "memory", "spatial-rank", "inexact-division", "negative-extent",
    "threads", "out",
})  # fmt: skip
ARGUMENT_RULES = ("missing", "kind", "int64", "length", "range", "value", "rank", "shape", "shape-missing")
# The types of attribute that each key applies to.
KEYS_OF_TYPES: dict[str, tuple[str, ...]] = {
    "symbol": ("s64", "s64[]", "f32", "f32[]", "bool"),
    "min": ("s64", "s64[]", "f32", "f32[]"),
    "max": ("s64", "s64[]", "f32", "f32[]"),
    "length": ("s64[]", "f32[]"),
    "surplus": ("s64[]",),
    "neutral": ("s64[]", "f32[]"),
    "shape_of": ("s64[]",),
    "values": ("string",),
    "refuse": ("string",),
    "locates": ("s64", "s64[]"),
    "dtype_of": ("string",),
    "per": ("s64[]", "f32[]"),
    "order_of": ("s64[]",),
    "extents_of": ("s64[]",),
    "fills": ("s64[]",),
    "keeps": ("s64[]",),
    "blocks": ("s64[]",),
}
# Keys that only operations of steps may use, by the entry that has them.
OF_STEPS: dict[str, tuple[str, ...]] = {
    "dims": ("run",),
    "attributes": ("locates", "dtype_of", "per", "order_of", "extents_of", "fills", "keeps", "blocks"),
    "inputs": ("broadcast", "broadcast_if", "broadcast_as", "absent", "when", "may_lack", "joined"),
    "outputs": ("broadcast", "broadcast_if", "broadcast_as", "absent", "when", "may_lack", "joined"),
}
CONSTRAINT_KEYS = ("id", "expr", "say", "argument")
DISCREPANCY_KEYS = ("id", "page", "library", "ruling", "why")
INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
REAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
LIST = re.compile(rf"\[({INTEGER.pattern}(, *{INTEGER.pattern})*)?\]")


def complete(op: Op) -> Iterator[Problem]:
    for attribute in op.attributes:
        yield from incomplete(attribute, ("name", "type"), attribute.at, "attribute-incomplete", "attribute")
    for role, dim in op.dims.items():
        yield from incomplete(dim, ("symbol",), dim.at, "dim-incomplete", f"size '{role}'")
    for constraint in op.constraints:
        yield from incomplete(constraint, CONSTRAINT_KEYS, constraint.at, "constraint-incomplete", "constraint")
    for discrepancy in op.discrepancies:
        yield from incomplete(discrepancy, DISCREPANCY_KEYS, discrepancy.at, "discrepancy-incomplete", "discrepancy")
    for group in op.classes:
        yield from incomplete(group, ("name",), group.at, "class-incomplete", "class")
    if op.semantics.reduce is None and not op.semantics.steps:
        yield Problem(op.semantics.at, "missing-key", "'reduce' or 'steps' is missing: what the operation computes")
    for symbol, let in op.lets.items():
        if (let.value is None) == (let.by is None) or bool(let.by) != bool(let.cases):
            yield Problem(let.at, "let-form", f"'{symbol}' needs either a value, or `by` with a case per word")


def counted(op: Op) -> Iterator[Problem]:
    if len(op.outputs) != 1:
        yield Problem(
            op.at.key("outputs"), "one-output", f"an operation has exactly one output, this one has {len(op.outputs)}"
        )
    if not op.data_inputs:
        yield Problem(op.at.key("inputs"), "one-input", "an operation needs at least one input")
    if not op.dtypes:
        yield Problem(op.at.key("dtypes"), "dtypes-none", "at least one row of data types is needed")
    if op.spatial_rank.min > op.spatial_rank.max:
        yield Problem(op.spatial_rank.at, "spatial-rank", "the minimum number of spatial axes exceeds the maximum")
    elif op.spatial_rank.min == 0 < op.spatial_rank.max:
        message = "calls have at least one spatial axis; an operation without spatial axes omits spatial_rank"
        yield Problem(op.spatial_rank.at, "spatial-rank", f"{message} (did you mean min: 1?)")


def plain(op: Op) -> Iterator[Problem]:
    """Keys that require steps, used in an operation with a single `reduce`."""
    items = {"dims": op.dims.values(), "attributes": op.attributes, "inputs": op.inputs, "outputs": op.outputs}
    for section, keys in OF_STEPS.items():
        for item in items[section]:
            for key in keys:
                if getattr(item, key):
                    yield Problem(item.at.key(key), "steps-only", f"'{key}' requires `steps`; write `reduce` as a step")
    for attribute in op.attributes:
        if attribute.type in ("bool", "f32[]"):
            message = f"an attribute of type {attribute.type} requires `steps`; write `reduce` as a step"
            yield Problem(attribute.at.key("type"), "steps-only", message)


def attributes(op: Op) -> Iterator[Problem]:
    for attribute in op.attributes:
        for key, types in KEYS_OF_TYPES.items():
            if getattr(attribute, key) is not None and attribute.type not in types:
                message = f"'{key}' is a key of {', '.join(types)} attributes; '{attribute.name}' is {attribute.type}"
                if key == "symbol" and attribute.per:
                    message += f"; semantics read it by name, as {attribute.name}[...]"
                yield Problem(attribute.at, "attribute-key", message)
        if attribute.min is not None and attribute.max is not None and attribute.min > attribute.max:
            yield Problem(attribute.at, "attribute-range", f"min {attribute.min} is greater than max {attribute.max}")
        yield from _default(op, attribute)
        yield from _list(attribute)
        yield from _words(op, attribute)


def _default(op: Op, attribute: Attribute) -> Iterator[Problem]:
    at, default = place(attribute.default, attribute.at), attribute.default
    stated = bool(attribute.shape_of)
    free = stated or attribute.dtype_of is not None  # `out` may state it
    if bool(attribute.required) == (default is not None) and (default is not None or not free):
        yield Problem(at, "attribute-default", f"'{attribute.name}' must either be required or have a default")
    if default is None:
        return
    if stated:
        yield Problem(at, "attribute-default", f"'{attribute.name}' states a shape, which has no default")
    real, truth = REAL, re.compile("true|false")
    patterns = {"f32": real, "f32[]": real, "string": re.compile(".+"), "bool": truth}
    pattern = patterns.get(attribute.type or "", INTEGER)
    if attribute.locates and attribute.type == "s64[]" and LIST.fullmatch(default):
        return
    if attribute.blocks and default == "[]":
        return
    if not pattern.fullmatch(default):
        message = f"the default {default[:40]!r} is not a value of type {attribute.type}"
        if default.startswith("["):
            message += "; write one number, which fills a list"
        yield Problem(at, "attribute-default", message)
    elif attribute.type == "string":
        words = [allowed.value for allowed in attribute.values or ()]
        words += [tensor.name for tensor in op.inputs] if attribute.dtype_of else []
        yield from unknown(default, words, at, "attribute-default", f"word of '{attribute.name}'")
    elif attribute.type != "bool" and not _within(attribute, float(default)):
        yield Problem(at, "attribute-default", f"the default {default} is not within min and max")


def _within(attribute: Attribute, value: float) -> bool:
    minimum = -math.inf if attribute.min is None else attribute.min
    maximum = math.inf if attribute.max is None else attribute.max
    return math.isfinite(value) and minimum <= value <= maximum and -(2**63) <= value < 2**63


def _list(attribute: Attribute) -> Iterator[Problem]:
    roles = (attribute.locates, attribute.per, attribute.order_of, attribute.extents_of, attribute.blocks)
    if attribute.type not in ("s64[]", "f32[]") or any(roles):
        return
    name, at = attribute.name, attribute.at
    if attribute.length is None or (attribute.length == "any") != bool(attribute.shape_of):
        message = f"'{name}' needs `length: spatial`; `length: any` is for lists that state a shape, with shape_of"
        yield Problem(at, "attribute-length", message)
    elif attribute.length == "spatial" and attribute.neutral is None:
        message = f"'{name}' needs `neutral`: the value on spatial axes that a call does not have"
        yield Problem(at, "attribute-neutral", message)
    elif attribute.neutral is not None and not _within(attribute, attribute.neutral):
        yield Problem(at, "attribute-neutral", f"the neutral value {attribute.neutral} is not within min and max")


def _words(op: Op, attribute: Attribute) -> Iterator[Problem]:
    if attribute.type != "string":
        return
    if not attribute.values:
        yield Problem(attribute.at, "attribute-values", f"'{attribute.name}' needs `values`: the words that it accepts")
    words = [(word, value.at) for value in attribute.values or () for word in (value.value, *value.aliases)]
    refused = [(refusal.value, refusal.at) for refusal in attribute.refuse or ()]
    yield from repeated([*words, *refused], "attribute-values", f"word of '{attribute.name}'")
    known = [discrepancy.id or "" for discrepancy in op.discrepancies]
    for refusal in attribute.refuse or ():
        at = place(refusal.discrepancy, refusal.at)
        yield from unknown(refusal.discrepancy, known, at, "refuse-discrepancy", "discrepancy of this operation")


def tensors(op: Op) -> Iterator[Problem]:
    optional = False
    for tensor in op.inputs:
        if optional and not tensor.optional:
            yield Problem(tensor.at, "input-order", f"the required input '{tensor.name}' follows an optional one")
        optional = optional or tensor.optional
        yield from (_shape_input(op, tensor) if tensor.shape_of is not None else _data_tensor(op, tensor))
    output = op.output
    if output.optional or output.shape_of or output.parameter:
        yield Problem(output.at, "output-key", "an output cannot be optional, state a shape or have a `parameter`")
    yield from _data_tensor(op, output)
    for attribute in op.attributes:
        if attribute.shape_of:
            at = place(attribute.shape_of, attribute.at)
            yield from unknown(attribute.shape_of, [output.name], at, "shape-of", "output")
    yield from _statements(op)


def _shape_input(op: Op, tensor: Tensor) -> Iterator[Problem]:
    yield from unknown(tensor.shape_of or "", [op.output.name], place(tensor.shape_of, tensor.at), "shape-of", "output")
    if tensor.layout or tensor.dims or tensor.view or tensor.arrangements:
        yield Problem(
            tensor.at, "shape-input", f"'{tensor.name}' is a vector that states a shape; it has no axes of its own"
        )
    if tensor.name in [attribute.name for attribute in op.attributes] and not tensor.parameter:
        yield Problem(
            tensor.at, "shape-input", f"an attribute is also called '{tensor.name}'; give this input a `parameter`"
        )


def _statements(op: Op) -> Iterator[Problem]:
    givers = op.stated_by(op.output)
    if not givers:
        if op.output.arrangements:
            yield Problem(
                op.output.at,
                "output-stated",
                "an output with arrangements needs a list or an input that states its shape",
            )
        return
    kinds = Counter(type(giver) for giver in givers)
    if max(kinds.values()) > 1:
        yield Problem(givers[-1].at, "shape-giver", "at most one input and one attribute may state a shape")
    only = givers[0]
    if len(givers) == 1 and (only.optional if isinstance(only, Tensor) else not only.required):
        message = f"nothing but '{only.name}' states the shape of '{op.output.name}', so every call must give it"
        yield Problem(only.at, "shape-giver", message)


def _data_tensor(op: Op, tensor: Tensor) -> Iterator[Problem]:
    if bool(tensor.dims) == bool(tensor.arrangements):
        yield Problem(
            tensor.at, "tensor-axes", f"'{tensor.name}' needs either dims or arrangements, and at least one axis"
        )
        return
    if bool(tensor.view) != bool(tensor.arrangements):
        yield Problem(tensor.at, "tensor-view", f"'{tensor.name}': `view` requires `arrangements` and vice versa")
    if tensor.parameter:
        yield Problem(tensor.at, "tensor-parameter", "only inputs that state a shape have a `parameter`")
    first, *_ = tensor.dims_by_arrangement.values()
    for name, arrangement in tensor.arrangements.items():
        if list(arrangement.index) != list(arrangement.dims) or set(arrangement.dims) != set(first):
            message = (
                f"arrangement '{name}' must have dims and index for the same axes as the first: {', '.join(first)}"
            )
            yield Problem(arrangement.at, "arrangement-axes", message)
    folded = [(axis.lower(), place(axis, tensor.at)) for axis in first]
    yield from repeated(folded, "axis-case", f"axis of '{tensor.name}' (in any case)")
    if tensor.layout is not None:
        yield from _layout(op, tensor, sorted(first))


def _layout(op: Op, tensor: Tensor, axes: list[str]) -> Iterator[Problem]:
    at = place(tensor.layout, tensor.at)
    words = {a.name or "": [v.value for v in a.values or ()] for a in op.attributes if a.type == "string"}
    if tensor.layout not in words:
        yield from unknown(tensor.layout or "", words, at, "layout-attribute", "string attribute")
        return
    rows = op.layouts.get(tensor.layout, {})
    for word in words[tensor.layout]:
        if word not in rows:
            yield Problem(
                at,
                "layout-row",
                f"layouts has no row for the word '{word}' of '{tensor.layout}'{suggestion(word, rows)}",
            )
        elif sorted(rows[word]) != axes:
            found, wanted = ", ".join(rows[word]), ", ".join(axes)
            yield Problem(at, "layout-axes", f"layout {word} orders the axes {found}, but '{tensor.name}' has {wanted}")


def dtypes(op: Op) -> Iterator[Problem]:
    legal = {tensor.name: OF_KERNELS for tensor in op.tensors}
    legal |= {tensor.name: ("s32",) for tensor in op.inputs if tensor.shape_of}
    legal["accumulate"] = ACCUMULATORS
    rows: list[tuple[str, Mark]] = []
    first: dict[tuple[str, ...], str] = {}
    for row in op.dtypes:
        at = place(next(iter(row), None), op.at.key("dtypes"))
        for name, dtype in row.items():
            yield from unknown(name, legal, place(name, at), "dtype-key", "tensor")
            if name in legal and dtype not in legal[name]:
                others = {OF_KERNELS: tuple(DTYPES), ACCUMULATORS: ("s64",)}.get(legal[name], ())
                hint = "; semantics with `steps` instead of `reduce` take it" if dtype in others else ""
                message = f"'{name}' may be {' or '.join(legal[name])}, not {dtype}{hint}"
                yield Problem(place(dtype, at), "dtype-value", message)
        missing = legal.keys() - row.keys()
        if missing:
            yield Problem(at, "dtype-missing", f"this row does not name {', '.join(sorted(missing))}")
            continue
        name = row_name(op, row)
        rows.append((name, at))
        other = first.setdefault(tuple(row[tensor.name] for tensor in op.data_inputs), name)
        if other != name:
            message = f"no call reaches this row: the inputs of row {other} have the same types, and the first row wins"
            yield Problem(at, "dtype-unreached", message)
    yield from repeated(rows, "dtype-row", "row of data types")


def constraints(op: Op) -> Iterator[Problem]:
    arguments = {str(a.name) for a in op.attributes} | {
        tensor.parameter or tensor.name for tensor in (*op.inputs, *op.outputs)
    }
    taken = {f"{argument}-{suffix}" for argument in arguments for suffix in ARGUMENT_RULES}
    taken |= {f"{role.replace('_', '-')}-extent" for role in op.dims} | PACKAGE_RULES
    for constraint in op.constraints:
        name = constraint.id or ""
        if name in taken or name.startswith("out-"):
            yield Problem(place(name, constraint.at), "constraint-id", f"'{name}' is a rule of the package itself")
        at = place(constraint.argument, constraint.at)
        yield from unknown(constraint.argument or "", arguments, at, "constraint-argument", "attribute or tensor")
    yield from repeated([(c.id or "", c.at) for c in op.constraints], "constraint-id", "constraint")
    yield from repeated([(d.id or "", d.at) for d in op.discrepancies], "discrepancy-id", "discrepancy")


def classes(op: Op) -> Iterator[Problem]:
    yield from repeated([(group.name or "", group.at) for group in op.classes], "class-name", "class")
    for group in op.classes:
        last = group is op.classes[-1]
        if last and group.when is not None:
            yield Problem(group.at, "class-when", "the last class takes all remaining calls; it cannot have `when`")
        if not last and group.when is None:
            yield Problem(
                group.at,
                "class-when",
                f"class '{group.name}' needs `when`; only the last class takes all remaining calls",
            )


def relations(op: Op) -> Iterator[Problem]:
    tensors = [tensor.name for tensor in (*op.inputs, *op.outputs)]
    inputs = [tensor.name for tensor in op.data_inputs]
    words = [v.value for name in op.layout_attributes for v in op.attribute(name).values or ()]
    for relation in op.relations:
        kind, _ = kind_of_relation(relation)
        if not kind:
            yield Problem(relation.at, "relation-kind", f"a relation is exactly one of {', '.join(KINDS)}")
        for key, owner, value in (("in", "adjoint", relation.in_), ("of", "gradient", relation.of)):
            if kind and (value is not None) != (kind == owner):
                yield Problem(relation.at, "relation-key", f"'{key}' goes with {owner}, and {owner} with '{key}'")
            if value is not None:
                yield from unknown(value, inputs, place(value, relation.at), "relation-tensor", "input")
        if kind == "gradient_of" and (relation.with_ or relation.formats):
            message = "the names of a derived gradient are determined: 'gradient_of' takes neither `with` nor `formats`"
            yield Problem(relation.at, "relation-key", message)
        for ours in relation.with_.values():
            yield from unknown(ours, tensors, place(ours, relation.at), "relation-tensor", "tensor of this operation")
        for word in relation.formats:
            yield from unknown(
                word, words, place(word, relation.at), "relation-format", "layout word of this operation"
            )


def sources(op: Op, pages: Mapping[str, Page]) -> Iterator[Problem]:
    if not pages:
        return
    cited = [(source, op.at) for source in op.source]
    items: tuple[Attribute | Tensor | Let | Constraint, ...]
    items = (*op.attributes, *op.inputs, *op.outputs, *op.lets.values(), *op.constraints)
    cited += [(item.source, item.at) for item in items if item.source]
    for source, at in cited:
        yield from unknown(source, pages, place(source, at), "source-page", "page in sources.yaml")


def variant_count(op: Op) -> Iterator[Problem]:
    sizes = [len(op.attribute(name).values or ()) for name in op.layout_attributes]
    count = len(op.dtypes) * math.prod(sizes) * max(len(op.classes), 1) * len(ISAS)
    if count > MAX_VARIANTS:
        message = f"dtype rows, layouts and classes make {count} kernels; an operation has at most {MAX_VARIANTS}"
        yield Problem(place(op.op, op.at), "variants", message)
