"""The steps of an operation as a program: letters, the arrays that its steps read and write, and the steps in order.

In: an operation whose semantics are steps. Out: a `Program`, with the dependences between steps;
nothing here knows loops, C or a call. A letter is one number (`one`), a number per spatial axis (`spatial`), or stands
for a run of axes (`run`), and so does an axis, which may also be of extent 1 for each axis of a run (`ones`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read
from ..language.model import Attribute, Op, Step, Tensor
from ..language.schema import Assignment, Located
from ..language.source import Mark
from ..language.types import symbol_kinds
from ..memo import memoised
from .algebra.inside import Sizes, inside, sizes_of
from .algebra.poly import ONE, NotPolynomial, Poly, affine, polynomial, rational
from .algebra.slopes import slope

# The initial value of a cell, by operator.
# Extents from which indices may lie inside their axes: of reflections, more than the cells added.
FROM = (1, 4, 16, 64, 256, 1024, 4096)
BYTES, TRUTHS = ("s8", "u8"), ("boolean",)
INITIAL = {"set": 0.0, "sum": 0.0, "product": 1.0, "max": float("-inf"), "min": float("inf")}


@dataclass(frozen=True)
class Axis:
    """An axis of an array, or all axes of a run: its name, its extent, and its kind."""

    name: str
    extent: Expr
    kind: str


@dataclass(frozen=True)
class Array:
    """An array that steps read or write. `role`: input, list (an attribute), output, or between (an intermediate)."""

    name: str
    role: str
    axes: tuple[Axis, ...]
    paired: bool = False  # the product of some of several factors, which calls may multiply in another order
    seldom: bool = False  # only the cells of rows in which a sum is NaN are computed


@dataclass(frozen=True)
class Formula:
    """A step's assignment for one word of its attribute; '' if no attribute selects."""

    word: str
    assignment: Assignment

    @property
    def value(self) -> Expr:
        return self.assignment.value

    @property
    @memoised
    def reads(self) -> tuple[Read, ...]:
        """What the value reads, and what names the cell that it goes to."""
        trees = (*self.assignment.target.indices, self.assignment.value)
        return tuple(dict.fromkeys(read for tree in trees for read in expr.reads(tree)))

    def of(self, value: Expr, target: Read | None = None, operator: str | None = None) -> Formula:
        """The formula with another value, and with another target and operator where they are given."""
        own = self.assignment
        made = dataclasses.replace(own, value=value, target=target or own.target, op=operator or own.op)
        return dataclasses.replace(self, assignment=made)


@dataclass(frozen=True)
class Part:
    """One step: its formulas, which share target and operator, and its letters in the order of `ranges`."""

    number: int
    formulas: tuple[Formula, ...]
    by: str | None
    where: tuple[Located, ...]
    letters: tuple[str, ...]
    at: Mark
    unless_empty: tuple[str, ...] = ()  # letters summed before: nothing is added where one of them has no values

    @property
    def target(self) -> Read:
        return self.formulas[0].assignment.target

    @property
    def operator(self) -> str:
        return self.formulas[0].assignment.op

    @property
    @memoised
    def reads(self) -> tuple[Read, ...]:
        return tuple(dict.fromkeys(read for formula in self.formulas for read in formula.reads))

    @memoised
    def letters_of(self, formula: Formula) -> tuple[str, ...]:
        """The letters that one of its formulas walks, including those in `where`."""
        used = _names(formula.assignment).union(*(expr.names(guard.tree) for guard in self.where))
        return tuple(letter for letter in self.letters if letter in used)

    @property
    def source(self) -> str:
        """Its field in the spec."""
        return f"semantics.steps.{self.number}"

    def each(self, change: Callable[[Formula], Formula]) -> Part:
        """The step with each of its formulas changed."""
        return dataclasses.replace(self, formulas=tuple(map(change, self.formulas)))

    def replaced(self, old: Expr, new: Expr) -> Part:
        """The step with another value in place of one, wherever its formulas have it."""
        return self.each(lambda formula: formula.of(expr.replaced(formula.value, old, new)))

    def to(self, target: Read) -> Part:
        """The step with another target."""
        return self.each(lambda formula: formula.of(formula.value, target))

    def of(self, target: Read, operator: str, value: Expr, letters: Iterable[str] | None = None) -> Part:
        """A part of what it computes, as a step of its own. `letters`: those that it may walk, if not the step's."""
        formula = dataclasses.replace(self.formulas[0].of(value, target, operator), word="")
        used = _names(formula.assignment)
        own = tuple(letter for letter in (self.letters if letters is None else letters) if letter in used)
        return Part(self.number, (formula,), None, (), own, self.at)


@dataclass(frozen=True)
class Program:
    """All steps, with the extents of letters, and every array by name."""

    letters: Mapping[str, Axis]
    arrays: Mapping[str, Array]
    parts: tuple[Part, ...]
    same_cells: frozenset[frozenset[str]] = frozenset()  # pairs of runs with the same number of elements
    sizes: Sizes = field(default_factory=Sizes)  # what every call knows of them
    bytes: frozenset[str] = frozenset()  # inputs that hold bytes in every row
    truths: frozenset[str] = frozenset()  # inputs that hold truth values in every row
    whole: frozenset[str] = frozenset()  # arrays of integers that steps of another program make
    narrow: Mapping[str, str] = field(default_factory=dict)  # arrays between steps of a narrow data type: narrow.py

    @property
    @memoised
    def integers(self) -> frozenset[str]:
        """The arrays between steps that hold integers of 64 bits in every row, since functions of bits make them."""
        trees = {part.target.tensor: [formula.value for formula in part.formulas] for part in self.parts}
        found = {name for name, values in trees.items() if any(map(expr.of_bits, values))}
        return self.whole | {name for name in found if self.arrays[name].role == "between"}

    def between(self) -> tuple[Array, ...]:
        """The intermediates, in the order of their first step."""
        return tuple(array for array in self.arrays.values() if array.role == "between")

    def instead(self, part: Part, steps: Iterable[Part]) -> tuple[Part, ...]:
        """The steps, with others in place of one."""
        return tuple(new for one in self.parts for new in (steps if one is part else (one,)))

    def may_be_empty(self, letters: Iterable[str]) -> tuple[str, ...]:
        """Those letters that have no values in some calls."""
        extents = {letter: self.letters[letter].extent for letter in letters}
        some = [Name(symbol) for symbol in self.sizes.positive]
        return tuple(
            letter for letter, extent in extents.items() if not isinstance(extent, Number) and extent not in some
        )

    def has_values(self, letter: str) -> Expr:
        """Whether a letter has any values, as a condition on sizes."""
        extent = self.letters[letter].extent
        return Binary(">", extent if self.letters[letter].kind == "one" else Call("prod", (extent,)), Number(0))

    def divisor(self, letter: str) -> Expr:
        """The extent of a letter, at least 1: one without values has no cell."""
        extent = self.letters[letter].extent
        return Call("max", (extent, Number(1))) if self.may_be_empty([letter]) else extent

    def unless_empty(self, letters: Iterable[str], value: Expr) -> Expr:
        """A value, or 0 where one of some letters has no values."""
        for letter in self.may_be_empty(letters):
            value = Call("select", (self.has_values(letter), value, Number(0)))
        return value

    def walks(self, name: str, axis: int, index: Expr) -> str | None:
        """The letter that walks a whole axis alone; None if the index may leave it or repeat."""
        if not isinstance(index, Name) or index.id not in self.letters:
            return None
        letter, along = self.letters[index.id], self.arrays[name].axes[axis]
        return index.id if (letter.extent, letter.kind) == (along.extent, along.kind) else None

    def first_writer(self, name: str) -> Part:
        """The step that initialises an array."""
        return next(part for part in self.parts if part.target.tensor == name)

    @memoised
    def walkers(self, name: str) -> tuple[str | None, ...]:
        """By axis of an array between steps, the letter by which its first step writes it."""
        target = self.first_writer(name).target
        return tuple(self.walks(name, number, index) for number, index in enumerate(target.indices))

    @memoised
    def digits(self, name: str, axis: int, index: Expr) -> tuple[str, ...] | None:
        """The letters that together walk a whole axis, each element once: `(g * E + e) * K + k`."""
        letters = [letter for letter in self.letters.values() if letter.name in expr.names(index)]
        along = self.arrays[name].axes[axis]
        if len(letters) < 2 or {along.kind, *(letter.kind for letter in letters)} != {"one"}:
            return None
        try:
            found = affine(index, [letter.name for letter in letters], rational).with_symbols(self.sizes.values)
            extents = {letter.name: self._extent(letter) for letter in letters}
            rest, weight, order = dict(found.coefficients), ONE, list[str]()
            while (letter := next((one for one, factor in rest.items() if factor == weight), None)) is not None:
                order.insert(0, letter)
                weight = rest.pop(letter) * extents[letter]
            whole = not rest and not found.offset.terms and self.sizes.equal(weight, self._extent(along))
        except NotPolynomial:
            return None
        return tuple(order) if whole else None

    def _extent(self, axis: Axis) -> Poly:
        return rational(axis.extent).substitute(self.sizes.values)

    def covers(self, name: str, axis: int, index: Expr) -> bool:
        """Whether an index lies inside an axis whatever the sizes."""
        along = self.arrays[name].axes[axis]
        if isinstance(index, Call) and index.function == "number" and len(index.arguments) == 1:
            (letter,) = expr.names(index)
            pair = expr.names(self.letters[letter].extent) | expr.names(along.extent)
            return along.kind == self.letters[letter].kind == "run" and (len(pair) == 1 or pair in self.same_cells)
        walked = self.walks(name, axis, index) is not None or self.digits(name, axis, index) is not None
        return along.kind == "ones" or walked

    @memoised
    def walks_inside(self, name: str, axis: int, index: Expr) -> bool:
        """Whether an index lies inside an axis whatever the sizes; a letter may reach each cell several times."""
        if self.covers(name, axis, index):
            return True
        along = self.arrays[name].axes[axis]
        if isinstance(index, Call) and index.function == "named":  # where it stands, it is the number of a cell
            return index.arguments[1] == along.extent and along.kind == "one"
        letters = [self.letters[letter] for letter in self.letters if letter in expr.names(index)]
        if along.kind not in ("one", "spatial") or any(letter.kind != along.kind for letter in letters):
            return False
        return inside(index, along.extent, self.sizes, {letter.name: letter.extent for letter in letters})

    @memoised
    def inside_from(self, name: str, axis: int, index: Expr) -> int:
        """The least of some extents of an axis from which an index that bends or is rounded lies inside it; or 0."""
        along = self.arrays[name].axes[axis]
        letters = [letter for letter in self.letters.values() if letter.name in expr.names(index)]
        plain = all(slope(index, letter.name) is not None for letter in letters)
        if plain or not isinstance(along.extent, Name) or {along.kind, *(x.kind for x in letters)} > {along.kind}:
            return 0
        extents = {letter.name: letter.extent for letter in letters}
        for extent in FROM if along.kind in ("one", "spatial") else ():
            known, least = [*self.sizes.known], {**self.sizes.least, along.extent.id: extent}
            with contextlib.suppress(NotPolynomial):  # of an extent that is computed
                known.append(self._extent(along) - Poly.number(extent))
            sizes = dataclasses.replace(self.sizes, least=least, known=tuple(known))
            if inside(index, along.extent, sizes, extents):
                return extent
        return 0

    def is_inside(self, read: Read) -> bool:
        """Whether a cell is there whatever the sizes."""
        return all(self.walks_inside(read.tensor, axis, index) for axis, index in enumerate(read.indices))


def is_clamped(index: Expr, last: Expr) -> bool:
    """Whether an index is clamped between 0 and the last cell, as in `min(max(index, 0), last)`."""
    ends = {"min": last, "max": Number(0)}
    if not isinstance(index, Call) or index.function not in ends or ends[index.function] not in index.arguments:
        return False
    other = "max" if index.function == "min" else "min"
    inner = (one for one in index.arguments if isinstance(one, Call) and one.function == other)
    return any(ends[other] in one.arguments for one in inner)


@memoised
def summed_alone(tree: Expr) -> Read | None:
    """The one term of a sum, 0 added to a cell."""
    sums = isinstance(tree, Binary) and tree.op == "+" and tree.right == Number(0)
    return tree.left if sums and isinstance(tree.left, Read) else None  # type: ignore[union-attr]


def given(tree: Expr, letters: Container[str]) -> tuple[list[Expr], Expr]:
    """The conditions on sizes alone without which a value is 0, and what it is in calls in which they hold."""
    conditions: list[Expr] = []
    while isinstance(tree, Call) and tree.function == "select" and tree.arguments[2] == Number(0):
        if expr.reads(tree.arguments[0]) or any(name in letters for name in expr.names(tree.arguments[0])):
            break
        conditions.append(tree.arguments[0])
        tree = tree.arguments[1]
    return conditions, tree


@memoised
def constants(op: Op) -> Mapping[str, int]:
    """The values of `let` that are one number whatever the sizes, such as the cells of a window of two."""
    found: dict[str, int] = {}
    for symbol, let in op.lets.items():
        with contextlib.suppress(NotPolynomial):
            value = polynomial(let.value.tree).constant if let.value is not None else None
            if value is not None:
                found[symbol] = value
    return found


def kind_of_extent(op: Op, extent: Expr) -> str:
    """`run`, `ones` (an extent of 1 for each axis of a run), `spatial` or `one`."""
    names = expr.loose_names(extent)
    if names & op.runs:
        return "ones" if isinstance(extent, Call) else "run"
    kinds = symbol_kinds(op)
    return "spatial" if any(name in kinds and kinds[name].vector for name in names) else "one"


def readable_lists(op: Op) -> tuple[Attribute, ...]:
    """The attributes that steps index: lists with an entry per value of a size."""
    return tuple(attribute for attribute in op.attributes if attribute.per)


def assignments(step: Step) -> Iterator[tuple[str, Assignment]]:
    """The assignments of a step with the words that select them."""
    if step.do is not None:
        yield "", step.do
    for word, assignment in step.cases.items():
        if assignment is not None:
            yield word, assignment


def list_dtype(op: Op, name: str) -> str:
    """The data type in which kernels take a list that steps index: reals are rounded to f32 when a call is checked."""
    return "f32" if op.attribute(name).type == "f32[]" else "s64"


@memoised
def program(op: Op) -> Program:
    """The program of an operation of steps, before or after `steps.py` has checked it."""
    letters = {letter: _axis(op, letter, extent.tree) for letter, extent in op.semantics.ranges.items()}
    arrays = {tensor.name: _array(op, tensor) for tensor in op.tensors}
    for attribute in readable_lists(op):
        extent = Name(attribute.per or "")
        arrays[attribute.name or ""] = Array(attribute.name or "", "list", (Axis("E", extent, "one"),))
    parts = []
    for number, step in enumerate(op.semantics.steps):
        formulas = tuple(Formula(word, assignment) for word, assignment in assignments(step))
        used = frozenset[str]().union(*(_names(formula.assignment) for formula in formulas))
        used = used.union(*(expr.names(guard.tree) for guard in step.where))
        own = tuple(letter for letter in letters if letter in used)
        parts.append(Part(number, formulas, step.by, step.where, own, step.at))
        target = formulas[0].assignment.target
        if target.tensor not in arrays:
            axes = tuple(letters[i.id] for i in target.indices if isinstance(i, Name) and i.id in letters)
            arrays[target.tensor] = Array(target.tensor, "between", axes)
    roles = [(a.extents_of, a.fills) for a in op.attributes if a.extents_of and a.fills]
    same = (frozenset({op.dims[role].symbol, op.dims[whole].symbol}) for role, whole in roles)
    return Program(
        letters,
        arrays,
        tuple(parts),
        frozenset(same),
        sizes_of(op),
        _holding(op, BYTES),
        _holding(op, TRUTHS),
    )


def _holding(op: Op, kinds: tuple[str, ...]) -> frozenset[str]:
    """The inputs that hold some of these types in every row."""
    return frozenset(tensor.name for tensor in op.inputs if all(row.get(tensor.name) in kinds for row in op.dtypes))


def _names(assignment: Assignment) -> frozenset[str]:
    return expr.names(assignment.target) | expr.names(assignment.value)


def _array(op: Op, tensor: Tensor) -> Array:
    role = "output" if tensor in op.outputs else "input"
    axes = ((axis, extent.tree) for axis, extent in tensor.dims.items())
    return Array(tensor.name, role, tuple(_axis(op, axis, tree) for axis, tree in axes))


def _axis(op: Op, name: str, extent: Expr) -> Axis:
    """An axis or a letter; a difference or a rounded quotient that has a name in `let` is known by that name.

    A size that is another one, such as that of an output, is known as the other.
    """
    for _ in op.lets:
        let = op.lets.get(extent.id) if isinstance(extent, Name) else None
        if let is not None and let.value and isinstance(let.value.tree, Name) and kind_of_extent(op, extent) == "one":
            extent = let.value.tree
    if not isinstance(extent, Name | Number) and not (isinstance(extent, Binary) and extent.op in ("*", "/")):
        named = (Name(symbol) for symbol, let in op.lets.items() if let.value and let.value.tree == extent)
        extent = next(named, extent)
    return Axis(name, extent, kind_of_extent(op, extent))
