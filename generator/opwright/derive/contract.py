"""The hash of an operation's contract: what callers write, what is refused, and what is returned.

In: an operation. Out: a hash. It covers only names that callers write (parameters, words, rules of errors):
sizes, range letters and axes are numbered in order of occurrence, named values are replaced by their
definitions, and integers are compared as polynomials. Prose, and what affects only kernels, is left out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ..language.expr import LOGIC, Binary, Call, Expr, Name, Number, Read, Unary, walk
from ..language.hashing import digest
from ..language.model import Attribute, Let, Op, Tensor
from ..language.schema import Located
from ..language.types import symbol_of
from ..memo import memoised
from .algebra.poly import ONE, NotPolynomial, Poly

ALGEBRA: dict[str, Callable[[Poly, Poly], Poly]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
MIRRORED = {">=": "<=", ">": "<"}
IN_ANY_ORDER = ("min", "max", *LOGIC, "==", "!=")
Letters = dict[str, str]


@memoised
def contract_hash(op: Op) -> str:
    """The hash as hexadecimal. Operations with equal hashes accept the same calls and return the same results."""
    return digest((_Steps if op.stepped else _Contract)(op).whole())


class _Contract:
    def __init__(self, op: Op) -> None:
        self.op = op
        self.dims = {dim.symbol: dim for dim in op.dims.values()}
        self.numbers: Letters = {}  # of sizes, in order of occurrence
        self.attributes = {symbol_of(attribute): f"attribute {attribute.name}" for attribute in op.attributes}
        self.tensors = {tensor.name: f"input {number}" for number, tensor in enumerate(op.inputs)}
        self.tensors |= {tensor.name: "output" for tensor in op.outputs}
        self.values: dict[str, Poly] = {}

    def whole(self) -> list[Any]:
        op = self.op
        tensors = [[t.parameter or t.name, t.optional, *self.tensor(t)] for t in op.inputs]
        rows = [[row.get(name, "") for name in (*self.tensors, "accumulate")] for row in op.dtypes]
        parts = [
            op.function_ or op.op,
            [op.spatial_rank.min, op.spatial_rank.max],
            [*tensors, self.tensor(op.output)],
            sorted(self.attribute(attribute) for attribute in op.attributes),
            sorted(rows),
            sorted([rule.id, self.text(rule.expr.tree)] for rule in op.constraints if rule.expr),
            self.semantics(),
        ]
        numbered = [self.dims[symbol] for symbol in self.numbers]
        return [*parts, self.computed(), [[dim.per_axis, dim.min] for dim in numbered]]

    def computed(self) -> list[Any]:
        """The sizes that have a formula, and their minimal extents."""
        symbols = [symbol for symbol in self.dims if symbol in self.op.lets]
        return sorted([self.text(Name(symbol)), self.dims[symbol].min] for symbol in symbols)

    def tensor(self, tensor: Tensor) -> list[Any]:
        """The output whose shape it states, and for each word of its layout and each arrangement the axes in memory."""
        letters = {letter: f"letter {number}" for number, letter in enumerate(tensor.view)}
        arrangements: list[tuple[dict[str, Located], dict[str, Expr]]] = [
            (arrangement.dims, {axis: index.tree for axis, index in arrangement.index.items()})
            for arrangement in tensor.arrangements.values()
        ]
        places: dict[str, Expr] = {axis: Number(number) for number, axis in enumerate(tensor.dims)}
        made = []
        for dims, index in arrangements or [(tensor.dims, places)]:
            for word, order in sorted(self.words(tensor, dims)):
                axes = [[self.text(dims[axis].tree), self.text(index[axis], letters)] for axis in order]
                made.append([word, axes])
        return [tensor.layout, bool(tensor.shape_of), made]

    def words(self, tensor: Tensor, dims: Iterable[str]) -> Iterable[tuple[str, Iterable[str]]]:
        """Each order of the axes, by its word."""
        return self.op.orders(tensor.layout).items() if tensor.layout else [("", dims)]

    def attribute(self, a: Attribute) -> list[Any]:
        words = sorted([word.value, sorted(word.aliases)] for word in a.values or ())
        bounds = [str(bound) for bound in (a.min, a.max, a.surplus, a.neutral)]
        given = [bool(a.required), "" if a.default is None else _number(a.default.strip("[]") or a.default)]
        return [a.name, a.type, *given, *bounds, a.length or "", bool(a.shape_of), words]

    def semantics(self) -> list[Any]:
        """The sum in any order, because that affects only rounding: letters are numbered as in the assignment."""
        meaning = self.op.semantics
        sum_ = meaning.assignment
        used = [name for tree in (sum_.target, sum_.value) for name in _names(tree) if name in meaning.ranges]
        letters = {letter: f"letter {n}" for n, letter in enumerate(dict.fromkeys([*used, *meaning.ranges]))}
        extents = [self.text(meaning.ranges[letter].tree) for letter in letters]
        guards = sorted(self.text(guard.tree, letters) for guard in meaning.where)
        reduced = [self.term(sum_.target, letters).terms, sum_.op, self.term(sum_.value, letters).terms]
        finish: list[Any] = []
        if meaning.finish:  # whose letters are those that it reads by
            own = [
                name for name in _names(meaning.finish.tree) if name not in self.dims and name not in self.attributes
            ]
            free = [name for name in dict.fromkeys(own) if name not in self.op.lets and name != "count"]
            finish = [self.term(meaning.finish.tree, {name: f"letter {n}" for n, name in enumerate(free)}).terms]
        return [_number(meaning.init), extents, guards, reduced, finish]

    def term(self, tree: Expr, letters: Letters) -> Poly:
        """An expression of real values up to rounding; cancelled parts would differ for infinities and NaN."""
        if isinstance(tree, Number):
            return Poly.number(tree.value) if isinstance(tree.value, int) else Poly.symbol(repr(tree.value))
        if isinstance(tree, Read):
            return Poly.symbol(
                digest(
                    [self.tensors.get(tree.tensor, tree.tensor), [self.text(index, letters) for index in tree.indices]]
                )
            )
        if isinstance(tree, Name):
            return self.name(tree.id, letters)
        if isinstance(tree, Call):
            parts = [self.term(part, letters).terms for part in tree.arguments]
            return Poly.symbol(digest([tree.function, sorted(parts) if tree.function in IN_ANY_ORDER else parts]))
        if isinstance(tree, Unary):
            inner = self.term(tree.operand, letters)
            return -inner if tree.op == "-" else Poly.symbol(digest([tree.op, inner.terms]))
        left, right = self.term(tree.left, letters), self.term(tree.right, letters)
        if tree.op in ("+", "-", "*"):
            made = _combined(tree.op, left, right)
            if made is not None and made.symbols == left.symbols | right.symbols and not _cancels(tree.op, left, right):
                return made
        sides = [left.terms, right.terms]
        return Poly.symbol(digest([tree.op, sorted(sides) if tree.op in IN_ANY_ORDER else sides]))

    def text(self, tree: Expr, letters: Mapping[str, str] = MappingProxyType({})) -> str:
        """The hash of an integer expression."""
        return digest(self.poly(tree, letters).terms)

    def poly(self, tree: Expr, letters: Mapping[str, str]) -> Poly:
        if isinstance(tree, Number) and isinstance(tree.value, int):
            return Poly.number(tree.value)
        if isinstance(tree, Name):
            return self.name(tree.id, letters)
        if isinstance(tree, Unary) and tree.op == "-":
            return -self.poly(tree.operand, letters)
        if isinstance(tree, Binary) and tree.op in LOGIC:
            sides = {self.text(side, letters): side for side in operands(tree, tree.op)}
            alone = self.poly(next(iter(sides.values())), letters)
            return alone if len(sides) == 1 else Poly.symbol(digest([tree.op, sorted(sides)]))
        extreme = isinstance(tree, Call) and tree.function in ("min", "max")
        if isinstance(tree, Call) and extreme and len({self.text(part, letters) for part in tree.arguments}) == 1:
            return self.poly(tree.arguments[0], letters)
        if isinstance(tree, Call) and tree.function in ("floor", "ceil"):
            (inner,) = tree.arguments
            if isinstance(inner, Binary) and inner.op == "/" and self.poly(inner.right, letters) == ONE:
                return self.poly(inner.left, letters)
        if isinstance(tree, Binary) and tree.op in ALGEBRA:
            left, right = self.poly(tree.left, letters), self.poly(tree.right, letters)
            made = _combined(tree.op, left, right)
            return Poly.symbol(digest([tree.op, left.terms, right.terms])) if made is None else made
        return Poly.symbol(digest(self.node(tree, letters)))

    def node(self, tree: Expr, letters: Mapping[str, str]) -> list[Any]:
        """An expression that is not a polynomial, by its operands."""
        if isinstance(tree, Unary):
            return [tree.op, self.text(tree.operand, letters)]
        if isinstance(tree, Binary):
            sides = [self.text(side, letters) for side in (tree.left, tree.right)]
            if tree.op in MIRRORED:
                return [MIRRORED[tree.op], sides[::-1]]
            return [tree.op, sorted(sides) if tree.op in IN_ANY_ORDER else sides]
        if isinstance(tree, Call):
            parts = [self.text(argument, letters) for argument in tree.arguments]
            return [tree.function, sorted(parts) if tree.function in IN_ANY_ORDER else parts]
        return [type(tree).__name__, str(getattr(tree, "value", ""))]

    def name(self, name: str, letters: Mapping[str, str]) -> Poly:
        """The definition of a name; names that are not values of the call are words of the language, as `count`."""
        if name in letters:
            return Poly.symbol(letters[name])
        if name in self.op.lets:  # first: a size that is computed stands for its formula
            if name not in self.values:
                self.values[name] = self.let(self.op.lets[name])
            return self.values[name]
        if name in self.dims:
            return Poly.symbol(self.numbers.setdefault(name, f"size {len(self.numbers)}"))
        return Poly.symbol(self.attributes.get(name, name))

    def let(self, let: Let) -> Poly:
        if let.value is not None and let.neutral is None:
            return self.poly(let.value.tree, {})
        cases = sorted([word, self.text(case.tree)] for word, case in let.cases.items())
        whole = self.text(let.value.tree) if let.value is not None else ""
        return Poly.symbol(digest([whole, let.by or "", cases, str(let.neutral)]))


class _Steps(_Contract):
    """The contract of an operation of steps; intermediates are numbered as letters are."""

    def __init__(self, op: Op) -> None:
        super().__init__(op)
        self.tensors |= {tensor.name: f"output {number}" for number, tensor in enumerate(op.outputs)}

    def whole(self) -> list[Any]:
        """The same, with all outputs; runs are distinguished from other sizes."""
        op = self.op
        rows = [[row.get(name, "") for name in (*self.tensors, "accumulate")] for row in op.dtypes]
        parts = [
            op.function_ or op.op,
            [op.spatial_rank.min, op.spatial_rank.max],
            [[t.parameter or t.name, t.optional, *self.stepped(t)] for t in op.inputs],
            [self.stepped(t) for t in op.outputs],
            sorted([*self.attribute(a), *self.placed(a)] for a in op.attributes),
            sorted(rows),
            sorted([rule.id, self.text(rule.expr.tree)] for rule in op.constraints if rule.expr),
            self.semantics(),
        ]
        computed = self.computed()
        numbered = [self.dims[symbol] for symbol in self.numbers]
        return [*parts, *([computed] if computed else []), [[d.per_axis, bool(d.run), d.min] for d in numbered]]

    def stepped(self, tensor: Tensor) -> list[Any]:
        """Its axes in memory by word, and the positions of those that may broadcast, be missing or be joined."""
        dims, places = tensor.dims, {axis: place for place, axis in enumerate(tensor.dims)}
        for axis in dims:  # sizes occur in the order of the spec, whatever the words
            self.text(dims[axis].tree)
        orders = sorted(
            [word, [[places[a], self.text(dims[a].tree)] for a in o]] for word, o in self.words(tensor, dims)
        )
        marked = [sorted(places[axis] for axis in named) for named in (tensor.broadcast, tensor.may_lack)]
        concatenated = "" if tensor.joined is None else str(places[tensor.joined])
        when = self.text(tensor.when.tree) if tensor.when else ""
        absent = "" if tensor.absent is None else _number(tensor.absent)
        shape = self.tensors.get(tensor.broadcast_as or "", "")
        return [tensor.layout, orders, marked, sorted(tensor.broadcast_if.items()), concatenated, when, absent, shape]

    def placed(self, a: Attribute) -> list[Any]:
        """The sizes, outputs and attributes that an attribute refers to."""
        roles = [a.locates, a.extents_of, a.fills]
        sizes = [self.text(Name(self.op.dims[role].symbol)) if role else "" for role in roles]
        outputs = [self.tensors.get(name or "", "") for name in (a.dtype_of, a.order_of)]
        blocks = [
            [self.text(Name(self.op.dims[role].symbol)), self.text(e.tree)] for role, e in (a.blocks or {}).items()
        ]
        return [*sizes, *outputs, self.text(Name(a.per)) if a.per else "", a.keeps or "", blocks]

    def semantics(self) -> list[Any]:
        """The steps, with letters numbered in order of occurrence."""
        meaning = self.op.semantics
        formulas = [assignment for step in meaning.steps for assignment in step.assignments]
        used = [
            name for f in formulas for tree in (f.target, f.value) for name in _names(tree) if name in meaning.ranges
        ]
        letters = {letter: f"letter {n}" for n, letter in enumerate(dict.fromkeys(used))}
        extents = [self.text(meaning.ranges[letter].tree) for letter in letters]
        between = dict.fromkeys(f.target.tensor for f in formulas if f.target.tensor not in self.tensors)
        self.tensors = {**self.tensors, **{name: f"between {number}" for number, name in enumerate(between)}}
        steps = []
        for step in meaning.steps:
            guards = sorted(self.text(guard.tree, letters) for guard in step.where)
            cases = {"": step.do} if step.do else step.cases
            values = [(word, case.op, case.target, case.value) for word, case in cases.items() if case]
            assignments = [
                [w, op, self.term(to, letters).terms, self.term(v, letters).terms] for w, op, to, v in values
            ]
            steps.append([step.by or "", guards, sorted(assignments)])
        return [extents, steps]


def operands(tree: Expr, op: str) -> list[Expr]:
    """The sides of a chain of one operator."""
    if isinstance(tree, Binary) and tree.op == op:
        return [*operands(tree.left, op), *operands(tree.right, op)]
    return [tree]


def _names(tree: Expr) -> list[str]:
    """The names of an expression, in order of occurrence."""
    return [node.id for node in walk(tree) if isinstance(node, Name)]


def _combined(op: str, left: Poly, right: Poly) -> Poly | None:
    """The algebraic result of two sides; None if it is not a polynomial."""
    try:
        return ALGEBRA[op](left, right)
    except NotPolynomial:
        return None


def _cancels(op: str, left: Poly, right: Poly) -> bool:
    """Whether a sum or difference cancels a part, which would differ for inf - inf."""
    if op == "*":
        return False
    factors, sign = dict(left.terms), -1 if op == "-" else 1
    return any(factors.get(monomial, 0) * factor * sign < 0 for monomial, factor in right.terms)


def _number(text: str) -> str:
    """A number independent of notation; other texts unchanged."""
    try:
        return repr(float(text))
    except ValueError:
        return text
