"""A spec in sentences: the head of C files, docstrings, and parts of the reference pages.

In: an operation. Out: plain lines. Nothing is escaped here; the template that prints a line knows the context.
The head of a C file consists of names and expressions only, never of free text: an edited description changes no C.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from ..derive.sizes import SizeField, vector_axes
from ..language import expr
from ..language.model import Attribute, Op, Tensor
from ..language.schema import Located
from ..language.types import symbol_kinds, symbol_of
from .entries import Entries
from .python_signature import parameter_name

WIDTH = 110
DOCSTRING_WIDTH = 108


def wrapped(text: str, indent: str = "", width: int = WIDTH, hanging: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + hanging, break_long_words=False)


def enumerated(words: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def shapes(op: Op, tensor: Tensor, dims: Mapping[str, Located]) -> list[tuple[str, str]]:
    """The word of each layout, '' if there is only one order, with the extents in that order."""
    if tensor.layout:
        words = [allowed.value for allowed in op.attribute(tensor.layout).values or ()]
        orders = {word: op.layouts[tensor.layout][word] for word in words}
    else:
        orders = {"": tuple(dims)}
    return [(word, f"({', '.join(dims[axis].text for axis in order)})") for word, order in orders.items()]


def axes(tensor: Tensor, op: Op) -> str:
    """`(N, C, X) as NCX or (N, X, C) as NXC`, with extents instead of axis names; one part per arrangement."""
    parts = []
    for name, dims in tensor.dims_by_arrangement.items():
        text = " or ".join(f"{shape}{f' as {word}' if word else ''}" for word, shape in shapes(op, tensor, dims))
        parts.append(f"arranged as {name} {text}" if len(tensor.arrangements) > 1 else text)
    return "; ".join(parts)


def vector_symbols(op: Op) -> list[str]:
    """The symbols with one value per spatial axis."""
    return [symbol for symbol, kind in symbol_kinds(op).items() if kind.vector]


def vector_letters(op: Op) -> list[str]:
    """The range letters with one value per spatial axis."""
    vectors = set(vector_symbols(op))
    return [letter for letter, extent in op.semantics.ranges.items() if expr.loose_names(extent.tree) & vectors]


def ranges(op: Op) -> str:
    return ", ".join(f"{letter} < {extent.text}" for letter, extent in op.semantics.ranges.items())


def unit_head(op: Op, row: Mapping[str, str], sizes: Sequence[SizeField]) -> list[str]:
    """The contract at the head of a C file."""
    dtypes = [f"{tensor.name} {row[tensor.name]}" for tensor in op.tensors]
    lines = [f"{op.op}: {', '.join(dtypes)}; sums in {row['accumulate']}.", ""]
    lines += _computes(op)
    lines += ["", *_arrays(op)]
    lines += ["", *_spatial(op, sizes)]
    lines += ["", *_guarantees(op, sizes)]
    lines += ["", *_numerics(op, row)]
    return lines


def entries_head(op: Op, e: Entries) -> list[str]:
    """The head of a file of fast kernels: how a call becomes a problem of the engine."""
    solved = {"y": "the small tensor", "x": "the big tensor", "w": "the weights"}[e.solve]
    isas = enumerated([isa.name for isa in e.isas])
    lines = [f"{op.op}, {e.dtype}: the fast kernels, one text for {isas}.", ""]
    lines += wrapped(
        f"The head of c/{op.function}_{e.dtype}.c says what is computed; sums use f32, in an order of the "
        "engine's own, and rounded once. Here a call becomes a problem in normal form, solved for "
        f"{solved}: engine/problem.h says what its members mean, engine/solves.h what solves it."
    )
    lines += [f"On {isa.name} {isa.exception}." for isa in e.isas if isa.exception]
    lines += ["", *wrapped(
        "Layouts are strides, in elements. KERNEL defines a kernel for one group class and one "
        "combination of layouts, and the function that returns its bytes of scratch memory for a number of workers."
    )]  # fmt: skip
    return lines


def _computes(op: Op) -> list[str]:
    semantics = op.semantics
    target = semantics.assignment.target.tensor
    lines = ["Computes, where every letter runs from 0,", *wrapped(semantics.assignment.text, "    ", 116, "    ")]
    lines += wrapped(f"for all {ranges(op)}.")
    if semantics.where:
        lines += wrapped(f"Only where {enumerated([guard.text for guard in semantics.where])}.")
    lines += wrapped(
        f"A cell of {target} starts at {semantics.init}. A term with an index outside its tensor does not exist: "
        "it is not read, and the values of its other factors, even Inf and NaN, do not matter."
    )
    if semantics.finish is not None:
        text = semantics.finish.text
        also = "; count is the number of its terms" if "count" in expr.names(semantics.finish.tree) else ""
        lines += wrapped(f"A cell is stored as {text}{also}.")
    optional = [tensor.name for tensor in op.data_inputs if tensor.optional]
    if optional:
        lines += wrapped(
            f"{enumerated(optional)} may be NULL and then {'counts' if len(optional) == 1 else 'count'} as 0."
        )
    return lines


def _arrays(op: Op) -> list[str]:
    output = op.output.name
    lines = wrapped(
        f"Arrays are dense, the last axis fastest. {output} overlaps no input; inputs may overlap each other."
    )
    for tensor in op.tensors:
        many = len(tensor.arrangements) > 1
        for number, (name, dims) in enumerate(tensor.dims_by_arrangement.items()):
            by_word = ", ".join(f"{shape}{f' as {word}' if word else ''}" for word, shape in shapes(op, tensor, dims))
            where = f" if sizes->{tensor.name}_arrangement is {number} ({name})" if many else ""
            lines += wrapped(f"{tensor.name}{where}: {by_word}.", "    ", hanging="    ")
            if name:
                index = tensor.arrangements[name].index
                element = f"{tensor.name}[{', '.join(tensor.view)}]"
                at = ", ".join(f"{axis} = {index[axis].text}" for axis in dims)
                letters = {axis: extent.text for axis, extent in dims.items()}
                axes_named = ", ".join(f"{axis} of extent {extent}" for axis, extent in letters.items())
                lines += wrapped(f"{element} is at {at}; its axes are {axes_named}.", "        ")
    return lines


def _spatial(op: Op, sizes: Sequence[SizeField]) -> list[str]:
    vectors = [field.name for field in sizes if field.length]
    if not vectors:
        return ["There are no spatial axes: every size is one number."]
    letters = vector_letters(op)
    names = vector_axes(op)
    also = f", and so have the letters {enumerated(letters)}" if letters else ""
    fillers: dict[int, list[str]] = {}
    for size in sizes:
        if size.length:
            fillers.setdefault(size.neutral, []).append(size.name)
    neutral = [f"{number} as {enumerated(found)}" for number, found in sorted(fillers.items())]
    suffixes = ", ".join("_" + axis for axis in names)
    return wrapped(
        f"{enumerated(vectors)} have one value per spatial axis{also}; suffixes {suffixes} "
        f"name the axes. A call with fewer axes uses the last ones, preceded by {enumerated(neutral)}."
    )


def _guarantees(op: Op, sizes: Sequence[SizeField]) -> list[str]:
    known = {field.name for field in sizes}
    minimum: dict[int, list[str]] = {}
    for dim in op.dims.values():
        minimum.setdefault(dim.min or 0, []).append(dim.symbol)
    for attribute in op.attributes:
        if symbol_of(attribute) in known and attribute.min is not None:
            minimum.setdefault(attribute.min, []).append(symbol_of(attribute))
    conditions = [f"{', '.join(symbols)} >= {number}" for number, symbols in sorted(minimum.items())]
    conditions += [c.expr.text for c in op.constraints if c.expr is not None and expr.names(c.expr.tree) <= known]
    guarantees = f"The caller guarantees: {'; '.join(conditions)}; no sum of an index exceeds 2**62."
    lines = wrapped(guarantees, hanging="    ")
    if op.classes:
        parts = [f"{group.name}{f' where {group.when.text}' if group.when else ''}" for group in op.classes]
        lines += wrapped(f"A function's group class must be the call's: {', else '.join(parts)}.", hanging="    ")
    return lines


def _numerics(op: Op, row: Mapping[str, str]) -> list[str]:
    real = row["accumulate"]
    verb = "compared" if op.semantics.assignment.op == "max" else "added"
    return wrapped(
        f"Inputs widen to {real} exactly. Terms are computed in {real}, each operation rounded "
        f"separately (no contraction), and {verb} one by one in the order given above each function, which depends "
        f"on neither part nor parts. The only rounding to {row[op.output.name]} is at the store: to nearest, ties to "
        "even. Divisions of integers leave no remainder."
    )


def limits(attribute: Attribute) -> str:
    """`>= 1`, `>= 0 and <= 7`, or nothing."""
    parts = [f">= {attribute.min}"] if attribute.min is not None else []
    parts += [f"<= {attribute.max}"] if attribute.max is not None else []
    return " and ".join(parts)


def _attribute_line(attribute: Attribute) -> str:
    words = [f'"{allowed.value}"' for allowed in attribute.values or ()]
    kind = {
        "s64": "An integer",
        "s64[]": "Integers, one per spatial axis" if attribute.length == "spatial" else "Integers",
        "string": enumerated(words, "or"),
        "f32": "A number",
    }[attribute.type or ""]
    bounds = limits(attribute)
    return f"{attribute.name}: {attribute.summary or ''} {kind}{f', {bounds}' if bounds else ''}."


def dtype_lines(op: Op) -> list[str]:
    """One line per row: `f32: all tensors f32, sums in f32`; shape vectors, always int32, are left out."""
    lines = []
    for row in op.dtypes:
        data = {tensor.name: row[tensor.name] for tensor in op.tensors}
        kinds = set(data.values())
        dtypes = (
            f"all {next(iter(kinds))}"
            if len(kinds) == 1
            else ", ".join(f"{name} {dtype}" for name, dtype in data.items())
        )
        lines.append(f"{dtypes}; sums in {row['accumulate']}")
    return lines


def docstring(op: Op) -> str:
    """The docstring of the public function."""
    lines = [*paragraphs(op.summary, deprecation(op), op.description), "Inputs:"]
    for tensor in op.inputs:
        shape = "a vector of int32" if tensor.shape_of else axes(tensor, op)
        optional = " (optional)" if tensor.optional else ""
        lines += entry(f"{parameter_name(tensor)}{optional}: {tensor.summary or ''} Shape: {shape}.")
    if op.attributes:
        lines += ["", "Attributes:"]
        for attribute in op.attributes:
            lines += entry(_attribute_line(attribute))
    lines += ["", "Returns:"]
    lines += entry(f"{op.output.name}: {op.output.summary or ''} Shape: {axes(op.output, op)}.")
    lines += ["", "Sizes:"]
    lines += entry(", ".join(f"{dim.symbol} {role}" for role, dim in op.dims.items()) + ".")
    lines += [line for s, let in op.shape.items() if let.value for line in entry(f"{s} = {let.value.text}")]
    lines += ["", "dtypes, one row per call:", *(f"    {line}" for line in dtype_lines(op)), ""]
    lines += wrapped(
        "Writes into `out` and returns it if it is given. `threads` (>= 1) is the number of threads of this call; "
        "the result is bit-identical for every number. `specialize` lets kernels be compiled for the sizes of "
        "calls like this one: False, True, or a number of calls to wait for. Raises SpecError if a call breaks a rule, "
        f"before anything is written. docs/{op.function}.md has every rule and formula.",
        width=DOCSTRING_WIDTH,
    )
    return "\n".join(lines)


def deprecation(op: Op) -> str | None:
    """The warning of calls of a deprecated operation."""
    return f"{op.op} is deprecated: {op.deprecated}" if op.deprecated else None


def paragraphs(*texts: str | None) -> Iterable[str]:
    for text in texts:
        if text:
            yield from [*wrapped(text, width=DOCSTRING_WIDTH), ""]


def entry(text: str) -> list[str]:
    return wrapped(" ".join(text.split()), "    ", DOCSTRING_WIDTH, "    ")
