"""The steps of an operation as reverse mode takes them: no step writes anew what another one made or read.

In: an operation. Out: an equal one of steps, or the same if steps cannot say it. A `reduce` becomes steps. Where a step
overwrites all cells of an array, `dst[x] = dst[x] / total[]`, the values before get a name of their own, `dst_before`;
so do those that a step reads before others add to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read, Unary
from ...language.model import Op, Step
from ...language.schema import Assignment
from ...memo import memoised
from ..algebra.conditions import conjuncts
from ..program import Part, Program, program
from ..rewrites.as_steps import in_steps
from .disjoint import disjoint
from .inverse import quotients, within
from .shared import fresh
from .statements import inside, located, needs_of, plain

JOINS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "product": lambda a, b: Binary("*", a, b),
    "max": lambda a, b: Call("max", (a, b)),
    "min": lambda a, b: Call("min", (a, b)),
}


@memoised
def prepared(op: Op) -> Op:
    """The operation whose steps are differentiated."""
    op = op if op.stepped else in_steps(op, fresh(f"{op.output.name}_sum", _taken(op))) or op
    while op.stepped and (split := next(_splits(op), None)) is not None:
        op = split
    return _counting(op)


@memoised
def forward(op: Op) -> Program:
    """The program of a prepared operation. A version may have cells that are written at other indices than letters."""
    found = program(op)
    arrays = dict(found.arrays)
    for name in (part.target.tensor for part in found.parts if arrays[part.target.tensor].role == "between"):
        reads = (r for part in found.parts for r in (part.target, *part.reads) if r.tensor == name)
        letters = next((r.indices for r in reads if all(isinstance(i, Name) for i in r.indices)), ())
        axes = tuple(found.letters[index.id] for index in letters if isinstance(index, Name))
        arrays[name] = replace(arrays[name], axes=axes)
    return replace(found, arrays=arrays)


def _counting(op: Op) -> Op:
    """The operation with a letter for the values of each one that has one quotient, should a gradient walk them."""
    trees = [tree for step in op.semantics.steps for one in step.assignments for tree in (one.target, one.value)]
    found = {letter: by for tree in trees for read in expr.reads(tree) for letter, by in quotients(read)}
    more = {within(letter): located(by) for letter, by in found.items() if within(letter) not in op.semantics.ranges}
    return replace(op, semantics=replace(op.semantics, ranges={**op.semantics.ranges, **more})) if more else op


def _taken(op: Op) -> set[str]:
    """The names in an operation."""
    taken = {*op.semantics.ranges, *op.lets, *(tensor.name for tensor in op.tensors)}
    taken |= {dim.symbol for dim in op.dims.values()} | {str(attribute.name) for attribute in op.attributes}
    return taken | {one.target.tensor for step in op.semantics.steps for one in step.assignments}


def _splits(op: Op) -> Iterator[Op]:
    """The operation with one version more, if any array needs one."""
    found = forward(op)
    for name in dict.fromkeys(part.target.tensor for part in found.parts):
        writers = [part for part in found.parts if part.target.tensor == name]
        for later in writers[1:]:
            if _rewrites(found, writers, later) and _separable(found, name, later):
                made = _Version(op, found, name, later.number).made()
                yield from () if made is None else (made,)


def _rewrites(found: Program, writers: list[Part], later: Part) -> bool:
    """Whether a step changes cells that another one made and does more than add to them, or that a step has read."""
    before = [part for part in writers if part.number < later.number]
    between = found.parts[before[0].number + 1 : later.number + 1]
    if any(read.tensor == later.target.tensor for part in between for read in part.reads):
        return True
    if later.operator == "set":
        return not all(disjoint(found, part, later) for part in before)
    return later.operator != "sum" or any(part.operator not in ("set", "sum") for part in before)


def _separable(found: Program, name: str, later: Part) -> bool:
    """Whether the cells before a step can have a name of their own."""
    writers = [part for part in found.parts if part.target.tensor == name and part.number < later.number]
    scattered = [part for part in writers if plain(found, part.target) is None]
    if plain(found, later.target) is None or any(part.operator not in ("set", "sum") for part in scattered):
        return False
    alone = _lone_axes(later.target)
    uses = [r for part in found.parts[: later.number + 1] for r in (part.target, *part.reads) if r.tensor == name]
    return all(use.indices[number] == Number(0) for use in uses for number in alone)


def _lone_axes(target: Read) -> list[int]:
    """The axes of one cell, which intermediates do not have."""
    return [number for number, index in enumerate(target.indices) if not isinstance(index, Name)]


class _Version:
    """An operation in which the values of an array before one of its steps have a name of their own."""

    def __init__(self, op: Op, found: Program, name: str, number: int) -> None:
        self.op, self.found, self.name, self.number = op, found, name, number
        self.target = found.parts[number].target
        self.before = self.renamed(self.target, fresh(f"{name}_before", _taken(op)))

    def renamed(self, read: Read, name: str) -> Read:
        alone = _lone_axes(self.target)
        return Read(name, tuple(index for number, index in enumerate(read.indices) if number not in alone))

    def made(self) -> Op | None:
        steps = self.op.semantics.steps
        last = self.last(steps[self.number])
        if last is None:
            return None
        found = (*map(self.earlier, steps[: self.number]), *last, *steps[self.number + 1 :])
        return replace(self.op, semantics=replace(self.op.semantics, steps=found))

    def moved(self, tree: Expr) -> Expr:
        """A tree that reads the values before."""
        own = self.before.tensor
        return expr.changed(
            tree, lambda n: self.renamed(n, own) if isinstance(n, Read) and n.tensor == self.name else None
        )

    def earlier(self, step: Step) -> Step:
        """A step before, which writes and reads the new name."""

        def of(assignment: Assignment) -> Assignment:
            target = self.moved(assignment.target)
            assert isinstance(target, Read)
            return replace(assignment, target=target, value=self.moved(assignment.value))

        return _mapped(step, of)

    def last(self, step: Step) -> tuple[Step, ...] | None:
        """The step itself, which makes all of the array from the values before; None if it cannot."""
        part = self.found.parts[self.number]
        if part.operator == "sum":
            copy = Step(do=Assignment(part.target, "set", self.before, "", step.at), at=step.at)
            return copy, self.overwriting(step, lambda value: value, "sum")
        if not all(step.cases.values()) or set(part.letters) - expr.names(part.target):
            return None
        guards = self.conditions(part)
        named = frozenset[str]().union(*map(expr.names, guards)) & self.found.letters.keys()
        if any(self.found.letters[letter].kind != "one" for letter in named):
            return None

        def joined(value: Expr) -> Expr:
            return JOINS[part.operator](self.before, value) if part.operator in JOINS else value

        made = replace(self.overwriting(step, joined, "set"), where=tuple(map(located, guards)))
        return (made,) if not guards else (self.elsewhere(step, guards), made)

    def conditions(self, part: Part) -> list[Expr]:
        """Where a step does something: its conditions, and that the elements exist which it reads."""
        needs = needs_of(self.found, part.reads)
        guards = (
            *(guard.tree for guard in part.where),
            *(guard for need in needs for guard in inside(self.found, need)),
        )
        return list(dict.fromkeys(one for guard in guards for one in conjuncts(guard)))

    def elsewhere(self, step: Step, guards: list[Expr]) -> Step:
        """The step that keeps the values before, where the step itself does nothing."""
        whole = reduce(lambda one, other: Binary("and", one, other), guards)
        kept = Assignment(self.target, "set", self.before, "", step.at)
        return Step(do=kept, where=(located(Unary("not", whole)),), at=step.at)

    def overwriting(self, step: Step, of: Callable[[Expr], Expr], op: str) -> Step:
        """A step that reads the values before, with its own changed."""
        return _mapped(step, lambda one: replace(one, op=op, value=of(self.moved(one.value))))


def _mapped(step: Step, of: Callable[[Assignment], Assignment]) -> Step:
    """A step with each of its assignments changed."""
    cases = {word: one and of(one) for word, one in step.cases.items()}
    return replace(step, do=step.do and of(step.do), cases=cases)
