"""The spec of an operation of steps in sentences: heads of C files, docstrings, reference pages.

In: an operation of steps. Out: plain lines and the view of a page. Nothing is escaped here; the template that prints a
line knows the context. The head of a C file consists of names and expressions only, never of free text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...derive.arguments import in_place
from ...derive.phases import staged
from ...derive.rewrites.parted import parted
from ...derive.variants import ISAS
from ...language import expr
from ...language.library import Page
from ...language.model import Attribute, Op, Step, Tensor
from .. import prose, reference, split_prose
from ..printing import latex
from .module import StepWrapper, row_label

_KINDS = {
    "s64": "An integer",
    "s64[]": "Integers",
    "f32": "A number",
    "f32[]": "Numbers",
    "bool": "True or False",
}
_OPERATORS = {"set": "=", "sum": "+=", "product": "*=", "max": "max=", "min": "min="}


@dataclass(frozen=True)
class StepEntry:
    """A step on the page: its assignments with the words that select them, and its conditions."""

    cases: tuple[tuple[str, str, str], ...]  # word, text, LaTeX
    by: str
    where: tuple[str, ...]


@dataclass(frozen=True)
class StepPage:
    """The content of the reference page of an operation of steps."""

    op: Op
    signature: tuple[str, ...]
    sizes: tuple[tuple[str, str, str, int, str], ...]
    ranges: str
    steps: tuple[StepEntry, ...]
    begins: bool  # whether some array accumulates, or some index may be out of bounds
    inputs: tuple[tuple[int, str, str, str, str], ...]
    outputs: tuple[tuple[int, str, str, str], ...]
    in_place: str
    attributes: tuple[tuple[str, str, str, str, str, str], ...]
    values: tuple[reference.FormulaEntry, ...]
    padding: tuple[reference.FormulaEntry, ...]
    shape: tuple[reference.FormulaEntry, ...]
    rules: tuple[reference.RuleEntry, ...]
    dtypes: tuple[tuple[str, ...], ...]
    dtype_columns: tuple[str, ...]
    kernels: tuple[str, ...]
    fast: tuple[str, ...]  # further instruction sets that they are compiled for
    phases: tuple[str, ...]
    relations: tuple[tuple[str, str, str], ...]
    splits: tuple[tuple[str, str], ...]
    sources: tuple[tuple[str, Page | None], ...]


def _pointwise(op: Op) -> bool:
    """Whether a single step sets each cell once, and reads by plain letters."""
    assignments = [assignment for step in op.semantics.steps for assignment in step.assignments]
    reads = [read for one in assignments for read in (one.target, *expr.reads(one.value))]
    bare = all(isinstance(index, expr.Name) for read in reads for index in read.indices)
    return len(op.semantics.steps) == 1 and bare and all(one.op == "set" for one in assignments)


def shape_text(op: Op, tensor: Tensor) -> str:
    """`(B, C, A)`, or the order of each word of a layout."""
    if tensor.broadcast_as is not None:
        return f"that of {tensor.broadcast_as}"
    lacking = f", or without {prose.enumerated(tensor.may_lack, 'or')}" if tensor.may_lack else ""
    if tensor.layout is None:
        return f"({', '.join(extent.text for extent in tensor.dims.values())}){lacking}"
    orders = op.layouts[tensor.layout]
    attribute = op.attribute(tensor.layout)
    words = ["false", "true"] if attribute.type == "bool" else [value.value for value in attribute.values or ()]
    shapes = [f"({', '.join(tensor.dims[axis].text for axis in orders[word])}) as {word}" for word in words]
    return " or ".join(shapes) + lacking


def steps_text(op: Op) -> Iterator[str]:
    """Every step as a line or more."""
    for step in op.semantics.steps:
        yield from _step_lines(step)


def _step_lines(step: Step) -> Iterator[str]:
    guards = f" where {prose.enumerated([guard.text for guard in step.where])}" if step.where else ""
    if step.do is not None:
        yield f"{step.do.text}{guards}"
        return
    for word, assignment in step.cases.items():
        if assignment is not None:
            yield f"{assignment.text}{guards} (where {step.by} is {word})"


def unit_head(op: Op, row: Mapping[str, str]) -> list[str]:
    """The contract at the head of a C file."""
    dtypes = [f"{tensor.name} {row[tensor.name]}" for tensor in op.tensors]
    lines = [f"{op.op}: {', '.join(dtypes)}; values in {row['accumulate']}.", ""]
    alone = len(op.semantics.steps) == 1
    many = "Computes step by step, each for all values of its letters, which run from 0,"
    lines += ["Computes, with letters from 0," if alone else many]
    for line in steps_text(op):
        lines += prose.wrapped(line, "    ", 116, "    ")
    lines += prose.wrapped(f"for all {prose.ranges(op)}.")
    return lines


def docstring(op: Op) -> str:
    """The docstring of the public function."""
    lines = [*prose.paragraphs(op.summary, prose.deprecation(op), op.description), "Inputs:"]
    for tensor in op.inputs:
        only = f" (only where {tensor.when.text})" if tensor.when else " (optional)" if tensor.optional else ""
        only += f" (a list of arrays, joined along {tensor.joined})" if tensor.joined else ""
        lines += prose.entry(f"{tensor.name}{only}: {tensor.summary or ''} Shape: {shape_text(op, tensor)}.")
    if op.attributes:
        lines += ["", "Attributes:"]
        for attribute in op.attributes:
            lines += prose.entry(f"{attribute.name}: {attribute.summary or ''} {_kind(attribute)}.")
    lines += ["", "Returns:"]
    for tensor in op.outputs:
        only = f" (only where {tensor.when.text})" if tensor.when else ""
        lines += prose.entry(f"{tensor.name}{only}: {tensor.summary or ''} Shape: {shape_text(op, tensor)}.")
    lines += ["", "Sizes:"]
    lines += prose.entry(", ".join(f"{dim.symbol} {role}" for role, dim in op.dims.items()) + ".")
    lines += ["", "dtypes, one row per call:", *itertools.chain(*map(prose.entry, prose.dtype_lines(op))), ""]
    arrays = "`out`, a tuple of arrays, one per output" if len(op.outputs) > 1 else "`out`"
    lines += prose.wrapped(
        f"Writes into {arrays}, and returns it if it is given. `threads` (>= 1) changes no bit of the result, "
        f"`specialize` has no effect. {in_place_text(op)}Raises SpecError if the call breaks a rule, before "
        f"anything is written: docs/{op.function}.md.",
        width=prose.DOCSTRING_WIDTH,
    )
    return "\n".join(lines)


def in_place_text(op: Op) -> str:
    """The inputs that `out` may be, as a sentence; '' if there are none."""
    found = in_place(parted(op))
    if not found:
        return ""
    named = len(op.outputs) > 1
    inputs_text = [
        f"{prose.enumerated(inputs, 'or')}{f' for {name}' if named else ''}" for name, inputs in found.items()
    ]
    return f"`out` may be the input itself, {'; '.join(inputs_text)}, if dtype, shape and strides agree. "


def _kind(attribute: Attribute) -> str:
    words = [f'"{allowed.value}"' for allowed in attribute.values or ()]
    kind = prose.enumerated(words, "or") if attribute.type == "string" else _KINDS[attribute.type or ""]
    if attribute.per:
        kind += f", one for each of {attribute.per}, or one for all"
    if attribute.shape_of:
        kind += f", the shape of {attribute.shape_of}"
    if attribute.extents_of:
        left = f"; -1 for the rest of {attribute.fills}" if attribute.fills else ""
        zero = f", 0 for its extent at that position if {attribute.keeps}" if attribute.keeps else ""
        kind += f", the extents of {attribute.extents_of}{left}{zero}"
    if attribute.order_of:
        kind += f", one for each axis of {attribute.order_of}: its number in the order of the spec"
    for role, size in (attribute.blocks or {}).items():
        kind += f", the extents of blocks: {size.text} along the axis of {role}, 1 along all others; or []"
    bounds = prose.limits(attribute)
    return f"{kind}{f', {bounds}' if bounds else ''}"


def page(op: Op, wrapped: StepWrapper, pages: Mapping[str, Page]) -> StepPage:
    """The reference page."""
    inputs = [f"{p.name}={p.default}" if p.default else p.name for p in wrapped.inputs]
    keywords = [f"{p.name}={p.default}" if p.default else p.name for p in wrapped.attributes]
    return StepPage(
        op=op,
        signature=(*inputs, "*", *keywords, "out=None", "threads=None", "specialize=None"),
        sizes=tuple(
            (dim.symbol, role, _axes_of(dim.run, dim.per_axis), dim.min or 0, dim.summary or "")
            for role, dim in op.dims.items()
        ),
        ranges=prose.ranges(op),
        steps=tuple(map(_entry, op.semantics.steps)),
        begins=not _pointwise(op),
        inputs=tuple(
            (number, tensor.name, _needed(tensor), shape_text(op, tensor), tensor.summary or "")
            for number, tensor in enumerate(op.inputs, start=1)
        ),
        outputs=tuple(
            (number, tensor.name, shape_text(op, tensor), tensor.summary or "")
            for number, tensor in enumerate(op.outputs, start=1)
        ),
        in_place=in_place_text(op).rstrip(),
        attributes=tuple(
            (
                attribute.name or "",
                attribute.symbol or attribute.name or "",
                _kind(attribute),
                attribute.default or ("" if attribute.required else "of `out`"),
                attribute.summary or "",
                attribute.reason or "",
            )
            for attribute in op.attributes
        ),
        values=reference.formulas(op, "let"),
        padding=reference.formulas(op, "padding"),
        shape=reference.formulas(op, "shape"),
        rules=reference.rules(op),
        dtypes=tuple(tuple(row.values()) for row in op.dtypes),
        dtype_columns=tuple(op.dtypes[0]),
        kernels=tuple(f"{op.function}_{row_label(op, row)}" for row in op.dtypes),
        fast=tuple(isa.name for isa in ISAS if isa.fast and isa.serves(op, op.dtypes[0])),
        phases=tuple(_phase(parted(op), number) for number in range(len(staged(parted(op)).phases))),
        relations=reference.relations(op),
        splits=split_prose.lines(op),
        sources=tuple((name, pages.get(name)) for name in reference.cited_pages(op)),
    )


def _axes_of(run: bool | None, per_axis: bool | None) -> str:
    return "any number" if run else "one per spatial axis" if per_axis else "one"


def _needed(tensor: Tensor) -> str:
    if tensor.when is not None:
        return f"only where {tensor.when.text}"
    if tensor.optional:
        return f"optional, else {tensor.absent or 0}"
    if tensor.joined:
        return f"a list of arrays, joined along {tensor.joined}"
    return f"may be broadcast along {', '.join(tensor.broadcast)}" if tensor.broadcast else "required"


def _entry(step: Step) -> StepEntry:
    named = {"": step.do} if step.do is not None else step.cases
    cases = []
    for word, assignment in named.items():
        if assignment is not None:
            sign = _OPERATORS[assignment.op]
            relation = sign if sign == "=" else rf"\mathrel{{\mathrm{{{sign[:-1]}}}{{=}}}}"
            formula = f"{latex(assignment.target)} {relation} {latex(assignment.value)}"
            cases.append((word, assignment.text, formula))
    return StepEntry(tuple(cases), step.by or "", tuple(guard.text for guard in step.where))


def _phase(op: Op, number: int) -> str:
    phase = staged(op).phases[number]
    steps = prose.enumerated([*dict.fromkeys(str(part.number + 1) for part in phase.parts)])
    own = prose.enumerated([letter for letter in phase.own if not letter.endswith("_")])
    return f"steps {steps}, at once for each {own}" if own else f"steps {steps}, by one thread"
