"""The operation of a gradient: its name, its tensors, and the parts of the forward operation's spec that it repeats.

In: an operation and its `Gradient`. Out: an unchecked `Op` with readable texts.
An input that no step reads is present for the sizes that only it determines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...language import expr
from ...language.expr import Binary, Expr, Name, Number, Read
from ...language.model import Attribute, Constraint, Let, Op, Relation, Semantics, Step, Tensor
from ...language.schema import Assignment, Located
from ...language.source import Mark
from ...language.spelling import spell
from ...language.types import formulas, symbol_of
from ..program import Part, Program, assignments
from .choose import gradient, rows_of
from .inverse import gathered
from .statements import Gradient, Statement, Underivable, inside, located
from .versions import forward, prepared

STRETCH = ("broadcast", "broadcast_if")


def derived(op: Op, made: Gradient) -> Op:
    """The operation that computes a gradient."""
    return _Signature(prepared(op), made).op()


class _Signature:
    def __init__(self, op: Op, made: Gradient) -> None:
        self.forward, self.made = op, made
        self.found: Program = forward(op)
        self.rows = rows_of(op, made.of, made.outputs)
        self.steps = (
            *(self.again(self.found.parts[number]) for number in made.parts),
            *map(self.step, made.statements),
        )
        self.read = {read.tensor for step in self.steps for a in step.assignments for read in expr.reads(a.value)}

    def op(self) -> Op:
        forward, made = self.forward, self.made
        outputs = tuple(self.gradient_of(forward.tensor(name)) for name in made.of)
        inputs = self.inputs(outputs)
        symbols = self.symbols(inputs, outputs)
        attributes = self.attributes(symbols, (*inputs, *outputs))
        lets = {s: let for s, let in {**forward.let, **forward.padding}.items() if s in symbols}
        lets |= {_stated_symbol(s): let for s, let in forward.shape.items() if s in symbols and let.value is None}
        lets |= {s: forward.shape[s] for s in sorted(self.computed(symbols, inputs))}
        whole = set(made.of) == set(gradient(forward).of)
        return dataclasses.replace(
            forward,
            op=f"{forward.op}Backward" + ("" if whole else "".join(map(_camel, made.of))),
            function_=None,
            revision=1,
            summary=f"The gradient of {forward.op} with respect to its {_listed(made.of)}.",
            description=None,
            deprecated=None,
            source=(),
            dims={role: dim for role, dim in forward.dims.items() if dim.symbol in symbols and dim.symbol not in lets},
            attributes=attributes,
            layouts={n: t for n, t in forward.layouts.items() if n in {x.layout for x in (*inputs, *outputs)}},
            inputs=inputs,
            outputs=outputs,
            dtypes=self.dtypes(inputs, outputs),
            let=lets,
            padding={},
            shape={},
            constraints=self.constraints(symbols, inputs, attributes),
            semantics=self.semantics(),
            relations=(Relation(gradient_of=forward.op),),
            discrepancies=(),
        )

    # Steps.

    def again(self, part: Part) -> Step:
        """A recomputed forward step; its output becomes an intermediate."""
        step = self.forward.semantics.steps[part.number]
        solution = gathered(self.found, part)
        if solution is None:
            return self.stepped({word: self.moved(one) for word, one in assignments(step)}, step.by, step.where)
        needs = (need for need in solution.needs if not isinstance(need.indices[0], Name))
        where = dict.fromkeys((*solution.where, *(guard for need in needs for guard in inside(self.found, need))))
        given = tuple(located(expr.changed(guard.tree, solution.trees.get)) for guard in step.where)
        made = {word: self.moved(one, solution.trees) for word, one in assignments(step)}
        return self.stepped(made, step.by, (*given, *map(located, where)))

    def moved(self, assignment: Assignment, trees: Mapping[Expr, Expr] = MappingProxyType({})) -> Assignment:
        """An assignment to the intermediate of an output, with letters replaced."""

        def visit(node: Expr) -> Expr | None:
            if not isinstance(node, Read):
                return trees.get(node)
            inner = dataclasses.replace(node, indices=tuple(expr.changed(index, visit) for index in node.indices))
            return self.bare(inner)

        target = visit(assignment.target)
        assert isinstance(target, Read)
        return _assignment(target, assignment.op, expr.changed(assignment.value, visit))

    def bare(self, read: Read) -> Expr:
        """An element of a recomputed output, without its axes of extent 1."""
        between = {self.found.parts[number].target.tensor for number in self.made.parts}
        if read.tensor not in between or read.tensor not in {t.name for t in self.forward.outputs}:
            return read
        return Read(read.tensor, tuple(index for index in read.indices if index != Number(0)))

    def step(self, statement: Statement) -> Step:
        stretched = {self.made.diff(name) for name in self.made.of if self.forward.tensor(name).broadcast}
        op = "sum" if statement.target.tensor in stretched else statement.op
        made = {word: self.moved(_assignment(statement.target, op, value)) for word, value in statement.cases.items()}
        return self.stepped(made, statement.by, tuple(map(located, statement.where)))

    def stepped(self, made: Mapping[str, Assignment], by: str | None, where: tuple[Located, ...]) -> Step:
        for assignment in made.values():
            if len(spell(assignment.value)) > expr.MAX_LENGTH:
                message = f"the value of '{assignment.target.tensor}' has more than {expr.MAX_LENGTH} characters"
                raise Underivable(message)
        if by is None:
            return Step(do=made[""], where=where)
        return Step(where=where, by=by, cases=dict(made))

    def semantics(self) -> Semantics:
        names = frozenset[str]().union(
            *(expr.names(a.target) | expr.names(a.value) for step in self.steps for a in step.assignments),
            *(expr.names(guard.tree) for step in self.steps for guard in step.where),
        )
        ranges = {letter: extent for letter, extent in self.forward.semantics.ranges.items() if letter in names}
        return Semantics(ranges=ranges, steps=self.steps)

    # Tensors.

    def gradient_of(self, tensor: Tensor) -> Tensor:
        """The output that has the gradient of an input, and its shape."""
        return Tensor(
            name=self.made.diff(tensor.name),
            when=tensor.when,
            broadcast_as=tensor.name if tensor.broadcast else None,
            may_lack=tensor.may_lack,
            layout=tensor.layout,
            dims=tensor.dims,
            summary=f"The gradient with respect to {tensor.name}.",
        )

    def inputs(self, outputs: Iterable[Tensor]) -> tuple[Tensor, ...]:
        forward, made = self.forward, self.made
        shapes = {tensor.broadcast_as for tensor in outputs}
        chosen = [tensor for tensor in forward.data_inputs if tensor.name in self.read | shapes]
        reused = [tensor for tensor in forward.outputs if tensor.name in made.reused]
        given = []
        for number, name in enumerate(made.outputs):
            tensor = forward.tensor(name)
            optional = number > 0 and made.diff(name) in self.read and not tensor.may_lack
            if made.diff(name) in self.read:
                summary = f"The gradient with respect to {name}."
                shape: dict[str, Any] = {}
                if tensor.broadcast_as:  # what was summed over the elements that share one is read at all of them
                    shape = {key: getattr(forward.tensor(tensor.broadcast_as), key) for key in STRETCH}
                    shape["broadcast_as"] = None
                given.append(
                    dataclasses.replace(tensor, name=made.diff(name), optional=optional, summary=summary, **shape)
                )
        if given and given[0].optional and not any(not tensor.optional for tensor in given):
            given[0] = dataclasses.replace(given[0], optional=False)
        found = [*chosen, *reused, *given]
        for tensor in self.carried(found, outputs):
            found.insert(len([t for t in found if t in forward.data_inputs]), tensor)
        order = {tensor.name: number for number, tensor in enumerate(forward.data_inputs)}
        found.sort(key=lambda t: (bool(t.optional or t.when), order.get(t.name, len(order))))
        return tuple(found)

    def carried(self, found: list[Tensor], outputs: Iterable[Tensor]) -> list[Tensor]:
        """The inputs that are needed to determine sizes or data types."""
        carried: list[Tensor] = []
        wanted = self.names_of((*found, *outputs)) | self.symbols_of_steps()
        sizes = {dim.symbol for dim in self.forward.dims.values()}
        for tensor in (t for t in self.forward.data_inputs if t not in found and not t.optional and t.when is None):
            missing = (wanted & sizes) - self.symbols_known([*found, *carried])
            if missing & self.names_of((tensor,)) and self.symbols_known([tensor, *found, *carried]) & missing:
                carried.append(tensor)
        for tensor in [*carried]:  # a later one may determine all that an earlier one was taken for
            rest = [other for other in carried if other is not tensor]
            if wanted & self.symbols_known([*found, *carried]) <= self.symbols_known([*found, *rest]):
                carried = rest
        for tensor in (t for t in self.forward.data_inputs if t not in found and not t.optional and t.when is None):
            if self.rows_distinguished([*found, *carried]) < self.rows_distinguished([*found, *carried, tensor]):
                carried.append(tensor)
        return carried

    def rows_distinguished(self, tensors: Iterable[Tensor]) -> int:
        """How many rows of data types these tensors distinguish, among those with different outputs."""
        made = [*map(self.made.diff, self.made.of)]
        rows = {tuple(self.row(row)[name] for name in [*(t.name for t in tensors), *made]) for row in self.rows}
        alike = {row[: -len(made)] for row in rows}
        return len(alike) - len(rows)

    def symbols_known(self, tensors: Iterable[Tensor]) -> set[str]:
        """The sizes that the extents of required tensors determine, without broadcasting."""
        known = {symbol_of(attribute) for attribute in self.forward.attributes}
        axes = [
            extent.tree
            for tensor in tensors
            for axis, extent in tensor.dims.items()
            if not tensor.optional and tensor.when is None and axis not in tensor.broadcast
        ]
        lets = {**self.forward.let, **self.forward.padding}
        while True:
            new = {next(iter(left)) for tree in axes if _solvable(tree, left := expr.names(tree) - known)}
            new |= {s for s, let in lets.items() if all(expr.names(f.tree) <= known for f in formulas(let))} - known
            if not new:
                return known
            known |= new

    def names_of(self, tensors: Iterable[Tensor]) -> set[str]:
        return {name for tensor in tensors for extent in tensor.dims.values() for name in expr.names(extent.tree)}

    def symbols_of_steps(self) -> set[str]:
        semantics = self.semantics()
        names = {name for extent in semantics.ranges.values() for name in expr.names(extent.tree)}
        for step in semantics.steps:
            names |= {name for guard in step.where for name in expr.names(guard.tree)}
            for a in step.assignments:
                names |= expr.names(a.target) | expr.names(a.value)
        return names - semantics.ranges.keys()

    def symbols(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> set[str]:
        """All names in expressions of the gradient."""
        tensors = (*inputs, *outputs)
        found = self.names_of(tensors) | self.symbols_of_steps()
        found |= {name for tensor in tensors if tensor.when for name in expr.names(tensor.when.tree)}
        for constraint in self.forward.constraints:
            if constraint.expr and self.holds(constraint.expr.tree, found):
                found |= expr.names(constraint.expr.tree)
        grown = True
        while grown:
            lets = {**self.forward.let, **self.forward.padding, **self.stated(tensors)}
            more = {n for s, let in lets.items() if s in found for f in formulas(let) for n in expr.names(f.tree)}
            grown = not more <= found
            found |= more
        return found

    def holds(self, tree: Expr, symbols: set[str]) -> bool:
        """Whether a constraint uses only sizes and attributes that exist here."""
        sizes = {dim.symbol for dim in self.forward.dims.values()} & expr.names(tree)
        return sizes <= symbols

    def dtypes(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> tuple[dict[str, str], ...]:
        names = [tensor.name for tensor in (*inputs, *outputs)]
        rows = [{**{name: self.row(row)[name] for name in names}, "accumulate": row["accumulate"]} for row in self.rows]
        return tuple(row for number, row in enumerate(rows) if row not in rows[:number])

    def row(self, row: Mapping[str, str]) -> dict[str, str]:
        """A row with the data types of gradients: those of the tensors that they are gradients of."""
        return {**row, **{self.made.diff(name): dtype for name, dtype in row.items()}}

    # The rest.

    def attributes(self, symbols: set[str], tensors: Iterable[Tensor]) -> tuple[Attribute, ...]:
        tensors = tuple(tensors)
        words = {tensor.layout for tensor in tensors} | {name for t in tensors for name in t.broadcast_if}
        words |= {step.by for step in self.steps}
        words |= {let.by for s, let in self.forward.lets.items() if s in symbols}
        roles = {role for role, dim in self.forward.dims.items() if dim.symbol in symbols}
        return tuple(
            dataclasses.replace(a, source=None, reason=None, dtype_of=None)
            for a in self.forward.attributes
            if not a.dtype_of
            and (a.name in words or symbol_of(a) in symbols or a.locates in roles or (a.per and a.name in self.read))
        )

    def constraints(
        self, symbols: set[str], inputs: tuple[Tensor, ...], attributes: tuple[Attribute, ...]
    ) -> tuple[Constraint, ...]:
        arguments = {tensor.name for tensor in inputs} | {attribute.name for attribute in attributes}
        first = inputs[0].name
        found = []
        for constraint in self.forward.constraints:
            if constraint.expr and self.holds(constraint.expr.tree, symbols):
                argument = constraint.argument if constraint.argument in arguments else first
                found.append(dataclasses.replace(constraint, use=None, source=None, argument=argument))
        for symbol, let in self.stated(inputs).items():
            if symbol in symbols - self.computed(symbols, inputs):
                found += self.shaped(symbol, let, inputs)
        return tuple(found)

    def stated(self, tensors: Iterable[Tensor]) -> dict[str, Let]:
        """The extents of the forward operation's output whose formulas name only sizes that tensors have."""
        missing = {dim.symbol for dim in self.forward.dims.values()} - self.names_of(tensors) - {*self.forward.shape}
        lets = self.forward.shape.items()
        return {s: let for s, let in lets if not any(expr.names(f.tree) & missing for f in formulas(let))}

    def computed(self, symbols: set[str], inputs: Iterable[Tensor]) -> set[str]:
        """The extents of the forward operation's output that no input tells alone: `rows * columns`."""
        told = {extent.tree for tensor in inputs for extent in tensor.dims.values()}
        lets = self.forward.shape.items()
        return {s for s, let in lets if s in symbols and Name(s) not in told and let.value is not None}

    def shaped(self, symbol: str, let: Let, inputs: tuple[Tensor, ...]) -> list[Constraint]:
        """The forward operation's output extent, which the gradient receives."""
        value = let.value.tree if let.value is not None else Name(_stated_symbol(symbol))
        given = next(tensor.name for tensor in inputs if tensor.name in map(self.made.diff, self.made.outputs))
        own = Constraint(
            id=f"{symbol.lower()}-follows",
            expr=located(Binary("==", Name(symbol), value)),
            say=f"{given} has the extents of the output of {self.forward.op} for its input",
            argument=given,
        )
        return [own]


def _assignment(target: Read, op: str, value: Expr) -> Assignment:
    return Assignment(target, op, value, "", Mark())


def _stated_symbol(symbol: str) -> str:
    """The name of an extent's value for a word of an attribute."""
    return f"{symbol}stated"


def _solvable(tree: Expr, left: frozenset[str]) -> bool:
    """Whether an extent tells the one size that is left in it: X * Y does, not X * X."""
    divides = isinstance(tree, Binary) and tree.op in "*/" and isinstance(tree.left, Name)
    times = sum(isinstance(node, Name) and node.id in left for node in expr.walk(tree))
    return len(left) == times == 1 and (isinstance(tree, Name) or divides)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
