"""Whether the values of a letter know nothing of each other, or of each other only what a reduction joins.

In: a form and the size whose values are divided. Out: a `Cut`, or `Forbidden` with the reason. With the size go others
that are a multiple of it in every call, as the channels `g * (C / G) + k` of all groups are of G.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read, Unary
from ...language.model import Op
from ...language.types import formulas, symbol_of
from ..algebra.conditions import conjuncts
from ..algebra.poly import ONE, Affine, NotPolynomial, Poly, affine
from ..rewrites.parted import stretching
from .form import Extent, Form, Statement, extent_of


class Forbidden(Exception):  # noqa: N818  # an answer, no failure
    """The split is not possible; its text says why."""


@dataclass(frozen=True)
class Cut:
    """Which axes are cut, how outputs are joined, and which inputs one part alone gets."""

    axes: Mapping[str, tuple[str, ...]]
    joins: Mapping[str, str]
    stretched: Mapping[str, str]
    once: tuple[str, ...]
    sizes: frozenset[str]
    letters: frozenset[str]


@dataclass
class _State:
    """What is known of the arrays so far: how those that parts have a share of are joined."""

    joins: dict[str, str] = field(default_factory=dict)
    stretched: dict[str, str] = field(default_factory=dict)  # where they have one cell for all values
    written: set[str] = field(default_factory=set)
    once: list[str] = field(default_factory=list)


def one_axis(name: str, axes: Collection[str]) -> None:
    """Raises Forbidden where parts of an output are blocks along a diagonal: no part has the cells beside them."""
    if len(axes) > 1:
        raise Forbidden(f"it stands on several axes of {name}")


def cut(op: Op, form: Form, size: str) -> Cut:
    """How values of a size are cut. Raises Forbidden."""
    return _Cells(op, form, size).cut()


class _Cells:
    def __init__(self, op: Op, form: Form, size: str) -> None:
        self.op, self.form, self.size = op, form, size
        self.extents: set[Extent] = {Poly.symbol(size)}
        self.stretched = {own for rule in op.constraints if rule.expr for own in _stretched(rule.expr.tree, size)}
        self.extents.update(map(Poly.symbol, self.stretched))
        grown = True
        while grown:
            before = len(self.extents)
            for statement in form.statements:
                for access in statement.accesses:
                    self.extents.update(key for _, key, index in form.axes(access) if self.composite(key, index))
            grown = len(self.extents) > before
        self.letters = {letter for letter, extent in form.letters.items() if extent in self.extents}
        self.sizes = frozenset(s for s in symbols(op) if Poly.symbol(s) in self.extents)

    def composite(self, extent: Extent, index: Expr) -> str | None:
        """The outer letter of `g * E + k`, k of E values, on an axis of all of them, where it is cut."""
        try:
            found = affine(index, self.form.letters)
        except NotPolynomial:
            return None
        if len(found.letters) != 2 or found.offset.terms or not isinstance(extent, Poly):
            return None
        for outer, inner in (found.letters, found.letters[::-1]):
            each, count = found.coefficient(outer), self.form.letters[outer]
            if count in self.extents and found.coefficient(inner) == ONE and self.form.letters[inner] == each:
                assert isinstance(count, Poly)
                if each * count == extent:
                    return outer
        return None

    def walked(self, index: Expr) -> str | None:
        """The letter that is an index by itself, perhaps beside terms that are 0."""
        try:
            found = affine(index, self.form.letters)
        except NotPolynomial:
            return None
        return found.letters[0] if len(found.letters) == 1 and found == Affine.letter(found.letters[0]) else None

    def last_or(self, index: Expr, letter: str | None, extent: Extent) -> bool:
        """Whether an index is `min(letter, X - 1)` on an axis of X cells that is cut or has one cell for all."""
        size = next((s for s in self.stretched if Poly.symbol(s) == extent), "")
        last = Binary("-", Name(size), Number(1))
        return bool(size) and letter is not None and index == Call("min", (Name(letter), last))

    def fixed(self, extent: Extent) -> bool:
        """Whether an extent is that of the whole on every part: all cut sizes are multiples of each other."""
        if not isinstance(extent, Poly):
            ones = isinstance(extent, Call) and extent.function == "ones"
            return ones or not expr.names(extent) & self.sizes
        scaled = {size: Poly.symbol(size) * Poly.symbol("part of all") for size in self.sizes}
        return extent.substitute(scaled) == extent

    def cut(self) -> Cut:
        self.declarations()
        state = _State()
        for statement in self.form.statements:
            self.statement(statement, state)
        read = {access.tensor for statement in self.form.statements for access in statement.reads}
        axes = {
            name: tuple(axis for axis, extent in arrays if extent in self.extents)
            for name, arrays in self.form.arrays.items()
        }
        joins = {}
        for tensor in self.op.outputs:
            one_axis(tensor.name, axes[tensor.name])
            if set(axes[tensor.name]) & set(stretching(self.op, tensor)):
                written = {s.operator for s in self.form.statements if s.target.tensor == tensor.name} - {"set"}
                state.stretched[tensor.name] = min(written, default="sum")
            if tensor.name in state.stretched.keys() & (read | state.joins.keys()):
                raise Forbidden(f"{tensor.name} has the shape of an input that may be stretched")
            if axes[tensor.name] and tensor.name in state.joins:
                raise Forbidden(f"{tensor.name} is made of parts and of the whole")
            joins[tensor.name] = "cells" if axes[tensor.name] else state.joins.get(tensor.name, "same")
        cut_axes = {name: found for name, found in axes.items() if found}
        return Cut(
            cut_axes, joins, state.stretched, tuple(dict.fromkeys(state.once)), self.sizes, frozenset(self.letters)
        )

    def declarations(self) -> None:
        """Nothing beside the statements may know the size: values, conditions, attributes."""
        op, form = self.op, self.form
        known = set(self.sizes)
        for symbol, let in op.lets.items():
            if any(expr.names(e.tree) & known for e in formulas(let)):
                raise Forbidden(f"{symbol} is computed from {names_text(known)}")
            if symbol in known:
                raise Forbidden(f"{symbol} is computed from other sizes")
        for rule in op.constraints:
            for tree in conjuncts(rule.expr.tree) if rule.expr else ():
                fits = self.divides(tree) or bool(set(_stretched(tree, self.size)))
                if expr.names(tree) & known and not fits:
                    raise Forbidden(
                        f"the rule {rule.id} compares {names_text(known & expr.names(tree))} with other values"
                    )
        for attribute in op.attributes:
            roles = (attribute.extents_of, attribute.fills, *(attribute.blocks or {}))
            if {op.dims[role].symbol for role in roles if role} & known:
                raise Forbidden(f"{attribute.name} says extents of it")
            if symbol_of(attribute) in known - {self.size}:
                raise Forbidden(f"{attribute.name} is its extent")
        for tensor in op.inputs:
            if tensor.joined and extent_of(tensor.dims[tensor.joined].tree) in self.extents:
                raise Forbidden(f"{tensor.name} is a list of arrays along it")
        for name, axes in form.arrays.items():
            for axis, extent in axes:
                if extent not in self.extents and not self.fixed(extent):
                    raise Forbidden(f"the extent of axis {axis} of {name} is made of it")
        for dim in op.dims.values():
            if dim.symbol in known and (dim.min or 0) > 1:
                raise Forbidden(f"it has at least {dim.min} values")

    def divides(self, tree: Expr) -> bool:
        """Whether a condition says that one cut size divides another, or that 1 does."""
        if not isinstance(tree, Binary) or tree.op != "==" or tree.right != Number(0):
            return False
        rest = tree.left
        if not isinstance(rest, Binary) or rest.op != "%" or extent_of(rest.left) not in self.extents:
            return False
        by = extent_of(rest.right)
        return by in self.extents or (isinstance(rest.right, Name) and rest.right.id in self.form.ones)

    def statement(self, statement: Statement, state: _State) -> None:
        own = self.letters & statement.names
        if len(own) > 1:
            raise Forbidden(f"{statement.text} reads it by {names_text(own)} at once")
        letter = next(iter(own), None)
        for access in statement.accesses:
            self.access(access, letter, statement, state)
        for used in statement.names & self.form.letters.keys() - own:
            if not self.fixed(self.form.letters[used]):
                raise Forbidden(f"the values of {used} in {statement.text} depend on it")
        loose = frozenset[str]().union(*(self.loose(tree) for tree in (statement.value, *statement.where)))
        read = [access.tensor for access in statement.reads if access.tensor in state.joins]
        join = self.join_of(statement, state, loose) if read else None
        if not read and loose & (self.letters | self.sizes):
            raise Forbidden(f"{statement.text} computes with its number or extent")
        name = statement.target.tensor
        if letter is not None and letter not in expr.names(statement.target):
            if join is not None or statement.operator == "set":
                raise Forbidden(f"{statement.text} needs all of it")
            join = statement.operator
        elif letter is not None and join is not None:
            raise Forbidden(f"{statement.text} needs all of it")
        if name in state.written and state.joins.get(name) != join:
            raise Forbidden(f"{name} is made of parts and of the whole")
        state.written.add(name)
        if join is not None:
            state.joins[name] = join

    def access(self, access: Read, letter: str | None, statement: Statement, state: _State) -> None:
        for axis, extent, index in self.form.axes(access):
            mentioned = expr.names(index)
            if extent in self.extents:
                if letter is None or letter not in (self.walked(index), self.composite(extent, index)):
                    if self.last_or(index, letter, extent) and access is not statement.target:
                        continue
                    if self.last_or(index, letter, extent) and statement.operator != "set":
                        state.stretched[access.tensor] = statement.operator
                        continue
                    raise Forbidden(f"{statement.text} reads axis {axis} of {access.tensor} at other places")
            elif mentioned & self.letters:
                raise Forbidden(f"{statement.text} places it on axis {axis} of {access.tensor} with other letters")
            elif mentioned & self.sizes and not self.fixed(extent_of(index)):
                raise Forbidden(f"{statement.text} computes a place from its extent")

    def loose(self, tree: Expr) -> frozenset[str]:
        """The names of a value outside of indices, but for ratios that parts share, such as `C / G`."""
        if isinstance(tree, Name):
            return frozenset({tree.id})
        if isinstance(tree, Read):
            return frozenset()
        inner = self.unshared(tree) if isinstance(tree, Binary) and tree.op in ("*", "/") else expr.children(tree)
        return frozenset[str]().union(*map(self.loose, inner))

    def unshared(self, tree: Expr) -> list[Expr]:
        """The factors of a product, without the extents that are cut if as many multiply as divide it."""
        found = [(factor, power, extent_of(factor) in self.extents) for factor, power in _powers(tree, 1)]
        shared = len(self.extents) > 1 and not sum(power for _, power, own in found if own)
        return [factor for factor, _, own in found if not (own and shared)]

    def join_of(self, statement: Statement, state: _State, loose: frozenset[str]) -> str:
        """How an array is joined that is made of such arrays. Raises Forbidden where parts do not give the whole."""
        shares = {state.joins[read.tensor] for read in statement.reads if read.tensor in state.joins}
        whole = Forbidden(f"{statement.text} needs all of it")
        if len(shares) != 1 or statement.operator != "set" or statement.where:
            raise whole
        (join,) = shares
        value = statement.value
        if isinstance(value, Read) and value.tensor in state.joins and not loose & (self.letters | self.sizes):
            return join
        if join not in ("sum", "mean"):
            raise whole
        means: list[bool] = []
        if not self.linear(value, state, means) or "count" in loose:
            raise whole
        if any(means):
            if join == "mean" or len(means) != 1:
                raise whole
            return "mean"
        return join

    def linear(self, tree: Expr, state: _State, means: list[bool]) -> bool:
        """Whether the value for all is the sum of the values for parts; `means`, whether their extent divides them."""
        if isinstance(tree, Read):
            if tree.tensor in state.joins:
                return True
            return self.once(tree, state)
        if isinstance(tree, Unary) and tree.op == "-":
            return self.linear(tree.operand, state, means)
        if not isinstance(tree, Binary):
            return False
        if tree.op in ("+", "-"):
            return self.linear(tree.left, state, means) and self.linear(tree.right, state, means) and not means
        shared = [self.shares(side, state) for side in (tree.left, tree.right)]
        if tree.op == "*" and sum(shared) == 1:
            inner, factor = (tree.left, tree.right) if shared[0] else (tree.right, tree.left)
            return self.linear(inner, state, means) and not self.loose(factor) & (self.letters | self.sizes)
        if tree.op == "/" and shared == [True, False] and self.linear(tree.left, state, means):
            mentioned = [name for name in _factors(tree.right) if name in self.sizes | self.letters]
            if mentioned != [self.size] * len(mentioned) or len(mentioned) > 1:
                return False
            means += [True] * len(mentioned)
            return len(mentioned) == len([n for n in self.loose(tree.right) if n in self.sizes | self.letters])
        return False

    def shares(self, tree: Expr, state: _State) -> bool:
        return any(read.tensor in state.joins for read in expr.reads(tree))

    def once(self, read: Read, state: _State) -> bool:
        """An input added to the sums: it is left out of all parts but one, where it then reads as 0."""
        tensor = next((t for t in self.op.data_inputs if t.name == read.tensor), None)
        uses = sum(r.tensor == read.tensor for s in self.form.statements for r in s.reads)
        if tensor is None or not tensor.optional or float(tensor.absent or 0) != 0 or tensor.when or uses != 1:
            return False
        state.once.append(read.tensor)
        return True


def _stretched(tree: Expr, size: str) -> Iterator[str]:
    """The size that a condition `X == size or X == 1` lets be 1 beside `size`."""
    if isinstance(tree, Binary) and tree.op == "or":
        for one, other in ((tree.left, tree.right), (tree.right, tree.left)):
            own = one.left if isinstance(one, Binary) else None
            if isinstance(own, Name) and (one, other) == (Binary("==", own, Name(size)), Binary("==", own, Number(1))):
                yield own.id


def _powers(tree: Expr, power: int) -> Iterator[tuple[Expr, int]]:
    """The factors of a product or quotient, each with 1 or -1."""
    if isinstance(tree, Binary) and tree.op in ("*", "/"):
        yield from _powers(tree.left, power)
        yield from _powers(tree.right, power if tree.op == "*" else -power)
    else:
        yield tree, power


def _factors(tree: Expr) -> Iterator[str]:
    """The names of a product, prod(X) as X."""
    if isinstance(tree, Name):
        yield tree.id
    elif isinstance(tree, Binary) and tree.op == "*":
        yield from _factors(tree.left)
        yield from _factors(tree.right)
    elif isinstance(tree, expr.Call) and tree.function == "prod":
        yield from _factors(tree.arguments[0])


def symbols(op: Op) -> tuple[str, ...]:
    """The sizes of an operation, and the attributes that may count groups."""
    counts = [a.symbol for a in op.attributes if a.type == "s64" and a.symbol and not a.locates]
    return (*(dim.symbol for dim in op.dims.values()), *counts)


def names_text(names: frozenset[str] | set[str]) -> str:
    return " and ".join(sorted(names))
