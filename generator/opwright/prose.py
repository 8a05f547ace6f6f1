"""What a spec says, in sentences: the head of C files, docstrings, and the text of reference pages.

In: an operation. Out: plain lines. Nothing is escaped here; the template that takes a line knows where it stands.
"""

from __future__ import annotations

import textwrap

from .kernel import LANES
from .model import Attribute, Op, Tensor
from .nest import Nest
from .wrapper import parameter_name

WIDTH = 110


def wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def axes(tensor: Tensor, op: Op) -> str:
    """`(N, C, X) as NCX or (N, X, C) as NXC`, extents in place of axis names."""
    ways = {name: way.dims for name, way in tensor.arrangements.items()} or {"": tensor.dims}
    parts = []
    for name, dims in ways.items():
        if tensor.layout:
            words = [allowed.value for allowed in op.attribute(tensor.layout).values or ()]
            orders = {word: op.layouts[tensor.layout][word] for word in words}
        else:
            orders = {"": tuple(dims)}
        shapes = [
            f"({', '.join(dims[axis].text for axis in order)}){f' as {word}' if word else ''}" for word, order in orders.items()
        ]
        many = f"arrangement {name}: " if len(ways) > 1 else ""
        parts.append(many + " or ".join(shapes))
    return "; ".join(parts)


def unit_head(op: Op, dtype: str, accumulate: str, nest: Nest) -> list[str]:
    """The contract that stands at the head of a C file."""
    semantics = op.semantics
    lines = [f"{op.op}, {dtype}.", "", *wrapped(op.summary), "", "Computes"]
    lines.append(f"    {semantics.assignment.text}")
    ranges = ", ".join(f"{letter} < {extent.text}" for letter, extent in semantics.ranges.items())
    lines += wrapped(f"for all {ranges}, from {semantics.init}.", "")
    if semantics.where:
        lines += wrapped("Only where " + " and ".join(guard.text for guard in semantics.where) + ".")
    if semantics.finish is not None:
        lines += wrapped(f"What is stored is {semantics.finish.text}; an optional input that is NULL counts as 0.")
    lines += [""]
    for tensor in op.tensors:
        lines += wrapped(f"{tensor.name}: {axes(tensor, op)}.")
    vectors = [dim.symbol for dim in op.dims.values() if dim.per_axis]
    if vectors:
        lines += ["", *wrapped(f"{', '.join(vectors)} and the letters over them have one value per spatial axis.")]
    lines += [
        "",
        *wrapped(
            "Gather form: each cell collects its own terms, in the order of the ranges above less the letters that name the "
            f"cell, in {accumulate}. An index outside its tensor contributes nothing and is never read. Loop bounds hold only "
            "valid terms, so nothing is tested inside. Where the innermost loop runs along the output, cells are summed in "
            f"blocks of {LANES}; where it runs along a reduction, as a dot product. One rounding at the store."
        ),
    ]
    return lines


def _attribute_line(attribute: Attribute) -> str:
    words = [allowed.value for allowed in attribute.values or ()]
    kind = {
        "s64": "an integer",
        "s64[]": "integers, one per spatial axis" if attribute.length == "spatial" else "integers",
        "string": "one of " + ", ".join(words),
        "f32": "a number",
    }[attribute.type or ""]
    limits = [f">= {attribute.min}"] if attribute.min is not None else []
    limits += [f"<= {attribute.max}"] if attribute.max is not None else []
    return f"{attribute.name}: {attribute.summary or ''} ({', '.join([kind, *limits])})"


def docstring(op: Op) -> str:
    """The docstring of the public function."""
    lines = [op.summary, ""]
    if op.description:
        lines += [*wrapped(op.description), ""]
    lines.append("Inputs:")
    for tensor in op.inputs:
        shape = "a vector of int32" if tensor.shape_of else axes(tensor, op)
        optional = " (optional)" if tensor.optional else ""
        lines += textwrap.wrap(f"{parameter_name(tensor)}{optional}: {shape}. {tensor.summary or ''}", 100, initial_indent="    ", subsequent_indent="        ")
    if op.attributes:
        lines += ["", "Attributes:"]
        for attribute in op.attributes:
            lines += textwrap.wrap(_attribute_line(attribute), 100, initial_indent="    ", subsequent_indent="        ")
    rows = [", ".join(f"{name} {dtype}" for name, dtype in row.items()) for row in op.dtypes]
    lines += ["", "dtypes, one row per call:"]
    lines += [f"    {row}" for row in rows]
    lines += ["", f"Returns {op.output.name}: {axes(op.output, op)}. Sizes:"]
    lines += [f"    {symbol} = {let.value.text}" for symbol, let in op.shape.items() if let.value is not None]
    lines += [f"    {dim.symbol}: {role}, {dim.summary or ''}" for role, dim in op.dims.items()]
    lines += [
        "",
        "`out` is written and returned where it is given. `threads` is the number of threads of this call (>= 1); the",
        "result is the same, bit for bit, for every number.",
        "",
        "Raises SpecError where the call breaks a rule of the spec, before anything is written.",
        f"Source: {', '.join(op.source) or op.at.file}.",
    ]
    return "\n".join(lines)
