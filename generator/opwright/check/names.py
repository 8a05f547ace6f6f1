"""Rules about names: every name has one meaning, and none is a name of the generated code."""

from __future__ import annotations

from collections.abc import Iterator

from ..derive.signature import FAST_NAMES, PORTABLE_NAMES
from ..emit.shared import modules
from ..language.entries import ATTRIBUTE
from ..language.model import IDENTIFIER, SYMBOL, Op
from ..language.reserved import OUT, RESERVED, RESERVED_BY_CALL, example
from ..language.schema import place
from ..language.source import Mark, Problem
from ..language.surface import TAKEN_BY_PACKAGE
from ..language.types import symbol_of

# Names that every generated Python module defines.
PYTHON_NAMES = frozenset({
    "rules", "rank", "row", "resolve", "group_class", "annotations", "Accessed", "Any", "ArrayInfo", "ArrayLike",
    "Aten", "Blocks", "Chain", "Contraction", "Field", "InputInfo", "Integers", "Lanes", "Operation", "Output",
    "Related", "SizeField", "StepOperation", "Steps", "VariantInfo", "warnings",
    "WORDS", "LAYOUTS", "ROWS", "CDEF", "OPERATION",
})  # fmt: skip
# Suffixes of its variables for each tensor: `src_axes`.
TENSOR_SUFFIXES = ("shape", "giver", "order", "axes", "arrangement")
TENSORS = ("input", "output")
# A word that no name has, as variables of the C interface do.
OWN_WORD = "opw"
# Names in the entries of fast kernels, which take tensors as parameters.
ENTRY_NAMES = FAST_NAMES | {"problem"}
# `accumulate` is a word of the rows of data types, `count` one of finish. Kernels of steps end their names with `_`.
ALWAYS_TAKEN = PYTHON_NAMES | {"accumulate"}
TAKEN = PORTABLE_NAMES | ALWAYS_TAKEN | {"count"}


def _named(op: Op) -> Iterator[tuple[str, str, Mark]]:
    """Everything in the same namespace: what it is, its name, its place."""
    attributes = {attribute.name for attribute in op.attributes}
    for attribute in op.attributes:
        yield "attribute", attribute.name or "", attribute.at
        if attribute.symbol and attribute.symbol != attribute.name:
            yield "symbol", attribute.symbol, attribute.at
    for dim in op.dims.values():
        yield "size", dim.symbol, place(dim.symbol, dim.at)
    for section in (op.let, op.padding):
        for symbol, let in section.items():
            yield "value", symbol, place(symbol, let.at)
    for letter in op.semantics.ranges:
        yield "range letter", letter, place(letter, op.semantics.at)
    outputs = {tensor.name for tensor in op.outputs}
    targets = {a.target.tensor: a.at for step in op.semantics.steps for a in reversed(step.assignments)}
    for name, at in targets.items():
        if name not in outputs and name not in {tensor.name for tensor in op.inputs}:
            yield "name of a step", name, at
    for what, tensors in zip(TENSORS, (op.inputs, op.outputs), strict=True):
        for tensor in tensors:
            if not (tensor.shape_of and tensor.parameter and tensor.name in attributes):
                yield what, tensor.name, place(tensor.name, tensor.at)
            if tensor.parameter and tensor.parameter != tensor.name:
                yield "parameter", tensor.parameter, place(tensor.parameter, tensor.at)


def names(op: Op) -> Iterator[Problem]:
    yield from _function_name(op)
    seen: dict[str, str] = {}
    shapes = {giver.name for giver in op.stated_by(op.output)}
    derived = {f"{tensor.name}_{suffix}" for tensor in (*op.inputs, *op.outputs) for suffix in TENSOR_SUFFIXES} - shapes
    taken = ALWAYS_TAKEN if op.semantics.steps else TAKEN
    members = frozenset(_members(op))
    for what, name, at in _named(op):
        own = ENTRY_NAMES if what in TENSORS and op.normal_form is not None else frozenset[str]()
        own = own | (taken | derived if what != "name of a step" else frozenset())  # names of steps exist in C only
        if what not in ("output", "name of a step") or not op.semantics.steps:
            own = own | {OUT}
        own = own | (members if what == "attribute" else frozenset())
        if name in own or name.startswith("opwright") or OWN_WORD in name.split("_"):
            pattern = (IDENTIFIER if what in ("attribute", *TENSORS, "parameter", "name of a step") else SYMBOL).pattern
            hint = example(name, pattern, own | RESERVED | RESERVED_BY_CALL)
            message = f"generated code defines '{name}' itself; choose another name for this {what}{hint}"
            yield Problem(at, "name-reserved", message + ATTRIBUTE.alias.format(name) * (what == "attribute"))
        if name in seen:
            other = "another" if seen[name] == what else "an" if seen[name][0] in "aio" else "a"
            message = f"the {what} '{name}' has the same name as {other} {seen[name]}; names must be unique"
            if {what, seen[name]} == {"size", "symbol"}:
                message += ". An attribute's number can be an extent itself: leave it out of dims"
            yield Problem(at, "name-taken", message)
        seen.setdefault(name, what)
    folded: dict[str, str] = {}
    for symbol, at in _symbols(op):
        other = folded.setdefault(symbol.lower(), symbol)
        if other != symbol:
            yield Problem(
                at,
                "name-case",
                f"'{symbol}' and '{other}' differ only in case; entries of both would be '{symbol.lower()}_'",
            )


def _members(op: Op) -> Iterator[str]:
    """What kernels of steps have in their struct of sizes, beside the numbers of attributes."""
    for step in op.semantics.steps:
        yield from (f"{assignment.target.tensor}_at" for assignment in step.assignments)
    for run in op.runs:
        yield from (f"{run}_rank", f"{run}_extents")
    yield from (f"word_{attribute.name}" for attribute in op.attributes if attribute.type in ("string", "bool"))


def _function_name(op: Op) -> Iterator[Problem]:
    if op.function in RESERVED | RESERVED_BY_CALL | {
        OUT
    } | TAKEN_BY_PACKAGE | TAKEN | modules() or op.function.startswith("opwright"):
        message = f"its function would be '{op.function}', which is a reserved word or another name of the package"
        message += "; `function` gives it another name"
        yield Problem(place(op.function_ or op.op, op.at), "op-name", message)


def _symbols(op: Op) -> Iterator[tuple[str, Mark]]:
    for attribute in op.attributes:
        if attribute.type != "string" and not attribute.shape_of:
            yield symbol_of(attribute), attribute.at
    for dim in op.dims.values():
        yield dim.symbol, place(dim.symbol, dim.at)
    for symbol, let in op.lets.items():
        yield symbol, place(symbol, let.at)
