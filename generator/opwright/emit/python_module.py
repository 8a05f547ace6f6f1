"""The view of one operation's Python module: its rules as a list of statements.

In: an operation. Out: strings and small nodes for the templates under templates/python. The order of the
statements is that of call_plan.py; the package's run-time module `_rules.py` words refusals beyond the spec's own
sentences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..derive import bounds
from ..derive.algebra import slopes
from ..derive.call_plan import Bind, BindArrangement, Check, Compute, Extent, ParseAttribute, may_be_negative, plan
from ..derive.rules.missing_axes import ABSENT
from ..derive.sizes import uses_absent
from ..language import expr
from ..language.dtypes import DTYPES
from ..language.expr import substitute
from ..language.model import Attribute, Let, Op, Tensor
from ..language.types import spatial, symbol_kinds, symbol_of
from ..memo import memoised
from .printing import python
from .python_signature import Function, function, parameter_name


@dataclass(frozen=True)
class Statement:
    """One step of a resolution; `kind` names the macro that prints it."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Module(Function):
    """The Python module of an operation: what the two kinds of modules share."""

    statements: tuple[Statement, ...]
    words: dict[str, dict[str, Any]]
    layouts: dict[str, dict[str, tuple[str, ...]]]
    rows: tuple[dict[str, str], ...]
    values: dict[str, str]
    named: dict[str, str]


@dataclass(frozen=True)
class Wrapper(Module):
    """The Python module of an operation with one output."""

    classes: tuple[tuple[str, str | None], ...]
    output_axes: str
    output_layout: str
    arrangements: dict[str, tuple[str, ...]]
    terms: str


def spellings(op: Op) -> dict[str, dict[str, Any]]:
    """Of each attribute that is a word: what its spellings stand for, and why others are refused."""
    words = {}
    for attribute in op.attributes:
        if attribute.type == "string":
            accepted: dict[str, str] = {}
            for allowed in attribute.values or ():
                accepted |= dict.fromkeys((allowed.value, *allowed.aliases), allowed.value)
            refused = {bad.value: f"{bad.say} (discrepancy {bad.discrepancy})" for bad in attribute.refuse or ()}
            words[attribute.name or ""] = {"spellings": accepted, "refused": refused}
    return words


class Writer:
    """Turns the plan into statements."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.vectors = frozenset(name for name, kind in symbol_kinds(op).items() if kind.vector)
        self.statements: list[Statement] = []

    def add(self, kind: str, **fields: Any) -> None:
        self.statements.append(Statement(kind, fields))

    def print(self, tree: expr.Expr, vector: bool = False) -> str:
        text = python(tree, self.vectors)
        is_vector = bool(self._outside(tree) & self.vectors)
        return f"({text},) * rank" if vector and not is_vector else text

    def _outside(self, tree: expr.Expr) -> frozenset[str]:
        if isinstance(tree, expr.Call) and tree.function in expr.REDUCTIONS:
            return frozenset()
        own = frozenset({tree.id}) if isinstance(tree, expr.Name) else frozenset()
        return own.union(*(self._outside(child) for child in expr.children(tree)))

    def write(self) -> tuple[Statement, ...]:
        op = self.op
        self.add("dtypes")
        steps = plan(op)
        parses = [step.attribute for step in steps if isinstance(step, ParseAttribute)]
        for attribute in parses:
            if attribute.type != "s64[]":
                self.parse(attribute)
        self.ranks()
        for attribute in parses:
            if attribute.type == "s64[]":
                self.parse(attribute)
        for step in steps:
            if isinstance(step, Bind):
                self.bind(step)
            elif isinstance(step, Extent):
                self.extent(step)
            elif isinstance(step, Compute):
                self.compute(step)
            elif isinstance(step, Check):
                self.check(step)
        for say, tree in bounds.index_magnitudes(op):
            self.add("bound", value=python(tree, self.vectors, wrap="max"), say=say)
        return tuple(self.statements)

    def parse(self, attribute: Attribute) -> None:
        name = attribute.name or ""
        limits = {"minimum": attribute.min, "maximum": attribute.max}
        fields: dict[str, Any] = {"name": name, "symbol": symbol_of(attribute)}
        given: dict[str, float] = {key: value for key, value in limits.items() if value is not None}
        if attribute.type == "f32[]" and attribute.default is not None:
            given["default"] = float(attribute.default)
        if attribute.type == "s64[]":
            if attribute.surplus is not None:
                given["surplus"] = attribute.surplus
            if attribute.default is not None:
                given["default"] = int(attribute.default)
        fields["options"] = "".join(f", {key}={value}" for key, value in given.items())
        fields["length"] = "rank" if attribute.length == "spatial" else "None"
        self.add(
            {"s64": "integer", "s64[]": "integers", "f32": "real", "f32[]": "reals", "string": "word"}[
                attribute.type or ""
            ],
            **fields,
        )

    def ranks(self) -> None:
        first = True
        for tensor in self.op.data_inputs:
            dims = next(iter(tensor.arrangements.values())).dims if tensor.arrangements else tensor.dims
            vector = bool(spatial(dims, self.op))
            fixed = len(dims) - int(vector)
            span = self.op.spatial_rank
            fields = {
                "name": tensor.name,
                "optional": tensor.optional,
                "fixed": fixed,
                "min": span.min,
                "max": span.max,
            }
            self.add("spatial_rank" if vector and first else "rank", vector=vector, **fields)
            first = first and not vector
        if first:
            self.add("fixed_rank", rank=0)

    def axes_text(self, tensor: Tensor) -> str:
        """The order of a tensor's axes, as an expression of the generated code."""
        if tensor.layout:
            return f"LAYOUTS[{tensor.layout!r}][{tensor.layout}]".replace("'", '"')
        dims = tensor.dims or next(iter(tensor.arrangements.values())).dims
        return (
            "(" + "".join(f'"{axis}", ' for axis in dims).rstrip(" ") + ")"
            if len(dims) == 1
            else "(" + ", ".join(f'"{axis}"' for axis in dims) + ")"
        )

    def vector_axis(self, arrangement: BindArrangement) -> str:
        names = [axis.axis for axis in arrangement.axes if expr.loose_names(axis.extent.tree) & self.vectors]
        return f'"{names[0]}"' if names else "None"

    def bind(self, step: Bind) -> None:
        tensor = step.tensor
        givers = [
            (parameter_name(giver) if isinstance(giver, Tensor) else giver.name or "", isinstance(giver, Tensor))
            for giver in self.op.stated_by(tensor)
        ]
        arrangements: list[dict[str, Any]] = []
        for arrangement in step.arrangements:
            known = self.known(arrangement, f"{tensor.name}_axes")
            unknown = [(axis.axis, axis.extent.text) for axis in arrangement.axes if not axis.known]
            learned: list[dict[str, str | None]] = [
                {
                    "symbol": axis.unknown,
                    "axis": axis.axis,
                    "inverse": axis.inverse,
                    "factor": self.print(axis.factor) if axis.factor is not None else "",
                }
                for axis in arrangement.axes
                if not axis.known
            ]
            arrangements.append({"name": arrangement.name, "known": known, "unknown": unknown, "learned": learned})
        all_learned = [arrangement["learned"] for arrangement in arrangements]
        if len(arrangements) == 1 and not arrangements[0]["known"]:  # there is no choice
            arrangements = []
        self.add(
            "bind",
            learned=all_learned[0] if all(same == all_learned[0] for same in all_learned) else None,
            name=tensor.name,
            optional=tensor.optional,
            stated=step.stated,
            givers=givers,
            axes=self.axes_text(tensor),
            spatial=self.vector_axis(step.arrangements[0]),
            fixed=len(step.arrangements[0].axes) - (self.vector_axis(step.arrangements[0]) != "None"),
            arrangements=arrangements,
        )

    def known(self, arrangement: BindArrangement, axes: str) -> list[tuple[str, str]]:
        """The extents that a tensor must have, by axis; sizes that it determines itself come from its own axes."""
        computed: dict[str, expr.Expr] = {}
        found = []
        for axis in arrangement.axes:
            if axis.known:
                tree = substitute(axis.extent.tree, computed)
                found.append((axis.axis, self.print(tree, self.is_vector_axis(axis.extent.tree))))
                continue
            here: expr.Expr = expr.Name(f'{axes}["{axis.axis}"]')
            if axis.factor is not None:
                operator = {"times": "*", "divided": "/", "less": "-"}[axis.inverse]
                here = expr.Binary(operator, here, substitute(axis.factor, computed))
            computed[axis.unknown or ""] = here
        return found

    def is_vector_axis(self, tree: expr.Expr) -> bool:
        return bool(expr.loose_names(tree) & self.vectors)

    def extent(self, step: Extent) -> None:
        symbol, minimum = step.dim.symbol, step.dim.min or 0
        if minimum == 0 and symbol not in self.op.shape and not may_be_negative(self.op, symbol):
            return
        tensor = next(t for t in self.op.tensors if any(symbol in expr.names(e.tree) for e in self.extents(t)))
        argument = f"{tensor.name}_giver" if self.op.stated_by(tensor) else f'"{tensor.name}"'
        self.add("extent", rule=f"{step.role.replace('_', '-')}-extent", symbol=symbol, minimum=minimum,
                 argument=argument, vector=symbol in self.vectors, role=step.role)  # fmt: skip

    def extents(self, tensor: Tensor) -> Iterable[Any]:
        for dims in [tensor.dims, *(arrangement.dims for arrangement in tensor.arrangements.values())]:
            yield from dims.values()

    def compute(self, step: Compute) -> None:
        let: Let = step.let
        if let.value is not None:
            self.add("compute", symbol=step.symbol, value=self.print(let.value.tree, step.vector))
            return
        cases = [(word, self.print(formula.tree, step.vector)) for word, formula in let.cases.items()]
        self.add("cases", symbol=step.symbol, by=let.by, cases=cases)

    def check(self, step: Check) -> None:
        constraint = step.constraint
        assert constraint.expr is not None
        tree = constraint.expr.tree
        vector = bool(self._outside(tree) & self.vectors)
        condition = python(tree, self.vectors, wrap="all") if vector else python(tree, self.vectors)
        names = list(dict.fromkeys(n.id for n in expr.walk(tree) if isinstance(n, expr.Name)))
        nearest = constraint.nearest
        self.add(
            "check",
            condition=condition,
            rule=constraint.id,
            argument=constraint.argument,
            say=constraint.say,
            names=names,
            nearest=self.print(nearest.tree) if nearest is not None else None,
        )


@memoised
def wrapper(op: Op) -> Wrapper:
    """The view of an operation's Python module."""
    writer = Writer(op)
    statements = writer.write()
    words = spellings(op)
    layouts = {
        name: {word: axes for word, axes in op.layouts[name].items() if word in words[name]["spellings"]}
        for name in op.layout_attributes
    }
    kinds = symbol_kinds(op)
    parameters = {tensor.name: parameter_name(tensor) for tensor in op.inputs}
    own = function(op)
    return Wrapper(
        op=op,
        inputs=own.inputs,
        attributes=own.attributes,
        out_annotation=own.out_annotation,
        statements=statements,
        words=words,
        layouts=layouts,
        rows=tuple(
            {parameters.get(name, name): DTYPES[dtype].numpy for name, dtype in row.items() if name != "accumulate"}
            for row in op.dtypes
        ),
        classes=tuple(
            (group.name or "", python(group.when.tree, writer.vectors) if group.when else None) for group in op.classes
        ),
        values={symbol: symbol for symbol in kinds} | ({ABSENT: "(0,) * rank"} if uses_absent(op) else {}),
        named=named_values(op),
        output_axes=_output_axes(op, writer),
        output_layout=writer.axes_text(op.output),
        arrangements={tensor.name: tuple(tensor.arrangements) for tensor in op.tensors if len(tensor.arrangements) > 1},
        terms=_terms(op, writer),
    )


def _output_axes(op: Op, writer: Writer) -> str:
    if op.stated_by(op.output):
        return ""
    dims = op.output.dims
    parts = [
        f'"{axis}": {writer.print(extent.tree, writer.is_vector_axis(extent.tree))}' for axis, extent in dims.items()
    ]
    return "{" + ", ".join(parts) + "}"


def _terms(op: Op, writer: Writer) -> str:
    """How many terms the sums have, as Python."""
    trees = [extent.tree for extent in op.semantics.ranges.values()]
    factors = [expr.Call("prod", (tree,)) if writer.is_vector_axis(tree) else tree for tree in trees]
    return writer.print(slopes.product(factors))


def named_values(op: Op) -> dict[str, str]:
    """The name of each symbol: the role of a size, the name of an attribute, or the symbol of a value."""
    named = {dim.symbol: role for role, dim in op.dims.items()}
    named |= {symbol_of(a): a.name or "" for a in op.attributes if a.type != "string" and not a.shape_of}
    return named | {symbol: symbol for symbol in op.lets if symbol not in named}
