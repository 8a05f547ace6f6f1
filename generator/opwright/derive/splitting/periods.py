"""How places that are computed from two sizes are split: with g = gcd(S, T), every S / g values of one letter read or
write places that lie T / g cells further than those before.

In: a form, the size of the letter and that of the axis on which its places lie. Out: a `PeriodCut`, or `Forbidden` with
the reason. A part is some periods of both axes with whole periods beside them, as many as places reach across a cut;
it is a call of its own, whose sizes are those of the part. That it computes what the whole does is tried on all small
sizes, which hold every case of formulas without great numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any, NamedTuple

from ...language import expr
from ...language.expr import Expr, Name, Number, Read
from ...language.model import Op
from ...language.types import formulas, symbol_of
from ..algebra.poly import Poly
from .cells import Forbidden, names_text, one_axis
from .exact import FUNCTIONS, Facts, Unknown, value
from .form import Extent, Form, Statement

LARGEST = 4  # periods and cells of a period that are tried, and the greatest number in a formula
REACHES = (0, 1, 2)


@dataclass(frozen=True)
class PeriodCut:
    """The periods on each side of a part, which axes are cut, the words with which it holds, and what states sizes.

    `attributes` says of lists that state sizes which one a part's state, '' for those that a part leaves out. It is
    `alone` where one cell serves all values, so that these may be cut anywhere.
    """

    reach: int
    axes: Mapping[str, tuple[str, ...]]
    words: Mapping[str, str]
    attributes: Mapping[str, str]
    alone: bool


def cuts(op: Op, form: Form, size: str, other: str) -> Iterator[PeriodCut]:
    """How periods of two sizes are cut, for all words of attributes at once or for those that allow it.

    Raises Forbidden where none does.
    """
    found = _Periods(op, form, size, other)
    made, reasons = [], list[str]()
    for words in found.choices():
        try:
            made.append(found.cut(words))
        except Forbidden as reason:
            reasons.append(str(reason))
    if not made:
        raise Forbidden(reasons[0])
    plain = {(one.reach, tuple(one.attributes.items()), one.alone) for one in made}
    if not reasons and len(plain) == 1:
        made = [PeriodCut(made[0].reach, made[0].axes, {}, made[0].attributes, made[0].alone)]
    yield from made


class _Place(NamedTuple):
    """What a statement does at a value of its letters: the cells it names on the other axis, and plain values."""

    cells: tuple[Any, ...]
    values: tuple[Any, ...]


# By the values of its letters; None where something has no value.
_Table = Mapping[tuple[int, ...], _Place] | None


class _Periods:
    def __init__(self, op: Op, form: Form, size: str, other: str) -> None:
        self.op, self.form, self.size, self.other = op, form, size, other
        if len({dim.per_axis for dim in op.dims.values() if dim.symbol in (size, other)}) != 1:
            raise Forbidden(f"{size} and {other} are not along the same axes")
        self.both = {size, other}
        self.extents: set[Extent] = {Poly.symbol(size), Poly.symbol(other)}
        changed = set(self.both)
        grown = True
        while grown:
            before = len(changed)
            changed |= {s for s, let in op.lets.items() if any(expr.names(e.tree) & changed for e in formulas(let))}
            grown = len(changed) > before
        self.changed = frozenset(changed)
        self.letters = {x for x, extent in form.letters.items() if extent == Poly.symbol(size)}
        self.walking = {x for x, extent in form.letters.items() if extent == Poly.symbol(other)}

    def choices(self) -> Iterator[dict[str, str]]:
        """The words of the attributes that choose formulas of what changes on a part."""
        by = {self.op.lets[s].by or "": self.op.lets[s].cases for s in self.changed & self.op.lets.keys()}
        names = sorted(by.keys() - {""})
        for words in product(*(by[name] for name in names)):
            yield dict(zip(names, words))

    def cut(self, words: Mapping[str, str]) -> PeriodCut:
        self.lets: dict[str, Expr] = {}
        for symbol in self.changed & self.op.lets.keys():
            let = self.op.lets[symbol]
            formula = let.value or let.cases[words[let.by or ""]]
            self.lets[symbol] = formula.tree
        self.tables: dict[tuple[int, int, int], _Table] = {}
        self.allowed: dict[tuple[int, int], bool] = {}
        axes = self.axes()
        statements = [s for s in self.form.statements if self.moving(s)]
        self.used = set[str]().union(*(expr.names(tree) for s in statements for tree in self.trees(s))) & self.changed
        while (
            more := {n for s in self.used & self.lets.keys() - self.both for n in expr.names(self.lets[s])} - self.used
        ):
            self.used |= more
        if not any(expr.names(index) & self.letters for s in statements for index, _ in self.places(s)):
            raise Forbidden(f"no place along {self.other} is computed from it")
        self.declarations()
        attributes = self.stated()
        reach = next((r for r in REACHES if all(self.agrees(s, r) for s in statements)), None)
        if reach is None:
            raise Forbidden(f"places of {statements[0].text} do not repeat with {names_text(self.both)}")
        alone = all(self.agrees(s, 0, alone=True) for s in statements)
        if reach:
            self.neighbours(statements)
        return PeriodCut(reach, axes, words, attributes, alone and not self.outputs(self.other, axes))

    def axes(self) -> dict[str, tuple[str, ...]]:
        """The axes of each array that are cut. Raises Forbidden where extents are made of both sizes."""
        found = {}
        for name, arrays in self.form.arrays.items():
            own = [axis for axis, extent in arrays if extent in self.extents]
            for axis, extent in arrays:
                if axis not in own and _symbols(extent) & self.changed:
                    raise Forbidden(f"the extent of axis {axis} of {name} is made of it")
            if own:
                found[name] = tuple(own)
        for tensor in self.op.outputs:
            one_axis(tensor.name, found.get(tensor.name, ()))
        both = [name for name in self.op.outputs if {*self.sides(name.name)} == self.both]
        if both or (self.outputs(self.size, found) and self.outputs(self.other, found)):
            raise Forbidden("its outputs lie on both sides of a place")
        return found

    def sides(self, name: str) -> list[str]:
        return [s for _, extent in self.form.arrays[name] for s in self.both if extent == Poly.symbol(s)]

    def outputs(self, size: str, axes: Mapping[str, tuple[str, ...]]) -> list[str]:
        return [t.name for t in self.op.outputs if t.name in axes and size in self.sides(t.name)]

    def moving(self, statement: Statement) -> bool:
        """Whether a statement computes places or values from what changes; checks that it may be divided."""
        own, walking = statement.names & self.letters, statement.names & self.walking
        if len(own) + len(walking) > 1:
            raise Forbidden(f"{statement.text} reads it by {names_text(own | walking)} at once")
        target = expr.names(statement.target)
        computed = bool(self.trees(statement))
        for letter in own | walking:
            if letter not in target or (statement.operator != "set" and not self.sides(statement.target.tensor)):
                raise Forbidden(f"{statement.text} needs all of it")
        for access in statement.accesses:
            for axis, extent, index in self.form.axes(access):
                cut = extent in self.extents
                if cut and not own | walking and not computed:
                    raise Forbidden(f"{statement.text} reads axis {axis} of {access.tensor} at other places")
                if not cut and expr.names(index) & (self.letters | self.walking | self.changed):
                    raise Forbidden(f"{statement.text} places it on axis {axis} of {access.tensor} with other letters")
                if extent == Poly.symbol(self.size) and not (isinstance(index, Name) and index.id in self.letters):
                    raise Forbidden(f"{statement.text} reads axis {axis} of {access.tensor} at other places")
        if computed and (not own or statement.operator == "mean"):
            raise Forbidden(f"{statement.text} computes with its number or extent")
        return computed

    def neighbours(self, computed: list[Statement]) -> None:
        """Raises Forbidden where places read an array of which a part has some cells only."""
        partial = set[str]()
        for statement in self.form.statements:
            read = {access.tensor for access in statement.reads}
            if statement in computed and partial & {
                a.tensor for a in statement.reads if self.sides(a.tensor) == [self.other]
            }:
                raise Forbidden(f"{statement.text} reads cells of neighbours that are computed")
            if statement in computed or read & partial:
                partial.add(statement.target.tensor)

    def places(self, statement: Statement) -> list[tuple[Expr, bool]]:
        """The indices on the other axis that are no walking letter, and whether they are of the target."""
        found = []
        for access in statement.accesses:
            for _, extent, index in self.form.axes(access):
                walks = isinstance(index, Name) and index.id in self.walking
                if extent == Poly.symbol(self.other) and not walks:
                    found.append((index, access is statement.target))
        return found

    def trees(self, statement: Statement) -> list[Expr]:
        """The formulas of places, and those of plain values that know what changes or the letter."""
        known = self.changed | self.letters | self.walking
        values = [tree for root in (statement.value, *statement.where) for tree in _plain(root)]
        return [index for index, _ in self.places(statement)] + [t for t in values if expr.names(t) & known]

    def declarations(self) -> None:
        """Nothing else may know the sizes, and formulas have no great numbers."""
        trees = [self.lets[s] for s in self.used & self.lets.keys() - self.both]
        trees += [tree for statement in self.form.statements for tree in self.trees(statement)]
        for tree in trees:
            for node in expr.walk(tree):
                if isinstance(node, Number) and abs(node.value) > LARGEST:
                    raise Forbidden(f"places are computed with {node.value}")
        known = self.changed | self.form.letters.keys()
        unknown = set[str]().union(*map(expr.names, trees)) - known - {*FUNCTIONS}
        if unknown:
            raise Forbidden(f"places are computed with {names_text(unknown)}")
        for attribute in self.op.attributes:
            if attribute.per in self.changed or symbol_of(attribute) in self.changed:
                raise Forbidden(f"{attribute.name} has an entry for each")
            roles = [r for r in (attribute.extents_of, attribute.fills) if r]
            if {self.op.dims[role].symbol for role in roles} & self.changed:
                raise Forbidden(f"{attribute.name} says extents of it")
        for tensor in self.op.inputs:
            if tensor.joined and self.sides(tensor.name):
                raise Forbidden(f"{tensor.name} is a list of arrays along it")
        for dim in self.op.dims.values():
            if dim.symbol in self.both and (dim.min or 0) > 1:
                raise Forbidden(f"{dim.symbol} is at least {dim.min}")

    def stated(self) -> dict[str, str]:
        """What lists that state sizes say on a part: its extents, or nothing. Raises Forbidden where none fits."""
        rules = [r.expr.tree for r in self.op.constraints if r.expr]
        trees = [self.lets[s] for s in self.changed & self.lets.keys() - self.used]
        trees += [self.lets[s] for s in self.both & self.lets.keys()]
        trees += [tree for tree in rules if expr.names(tree) & self.changed]
        names = set[str]().union(*map(expr.names, trees)) if trees else set[str]()
        lists = [a for a in self.op.attributes if symbol_of(a) in names and a.length == "spatial"]
        whole = [a for a in lists if a.type == "s64[]"]
        reason = "its extent does not follow from that of a part"
        for says in product((self.size, self.other, ""), repeat=len(whole)):
            stated = {symbol_of(a): word for a, word in zip(whole, says)}
            stated |= {symbol_of(a): "" for a in lists if a not in whole}
            if all(self.follows(stated, rules, sizes) for sizes in _sizes()):
                return {a.name or "": stated[symbol_of(a)] for a in lists}
        raise Forbidden(reason)

    def follows(self, stated: Mapping[str, str], rules: list[Expr], sizes: tuple[int, int, int]) -> bool:
        """Whether a part of so many periods is legal if lists state what is said, wherever the whole is."""
        first, second, count = sizes
        whole, part = (self.facts(first * n, second * n) for n in (LARGEST, count))
        part.update({symbol: part.get(word, 0) for symbol, word in stated.items()})
        concern = [tree for tree in rules if expr.names(tree) & self.changed]
        try:
            extents = all(value(self.lets[size], part) == part[size] for size in self.both & self.lets.keys())
            said = all(value(tree, part) for tree in concern if expr.names(tree) & stated.keys())
            plain = [tree for tree in concern if not expr.names(tree) & stated.keys()]
            return extents and said and (all(value(t, part) for t in plain) or not all(value(t, whole) for t in plain))
        except (KeyError, ZeroDivisionError, Unknown):
            return False

    def facts(self, size: int, other: int) -> Facts:
        beside = {self.size: LARGEST - 1, self.other: LARGEST + 1, **dict.fromkeys(self.form.letters, 0)}
        return Facts(self.lets, {self.size: size, self.other: other}, Facts(self.lets, beside))

    def legal(self, size: int, other: int) -> bool:
        """Whether the rules allow sizes, as far as these tell."""
        if (size, other) not in self.allowed:
            facts = self.facts(size, other)
            try:
                rules = [r.expr.tree for r in self.op.constraints if r.expr and expr.names(r.expr.tree) & self.both]
                allowed = all(bool(value(tree, facts)) for tree in rules if expr.names(tree) <= self.changed)
            except (KeyError, ZeroDivisionError, Unknown):
                allowed = True
            self.allowed[size, other] = allowed
        return self.allowed[size, other]

    def agrees(self, statement: Statement, reach: int, alone: bool = False) -> bool:
        """Whether every part of some periods, with others beside it, does what the whole does there."""
        for first, second in _periods():
            if alone and second != 1:
                continue
            step = 0 if alone else second
            targets = [at for at, (_, own) in enumerate(self.places(statement)) if own]
            for total, start, stop in _parts():
                if not self.legal(first * total, 1 if alone else second * total):
                    continue
                low, high = max(0, start - reach), min(total, stop + reach)
                whole, part = (
                    self.table(statement, first * count, 1 if alone else second * count)
                    for count in (total, high - low)
                )
                if whole is None or part is None:
                    return False
                kept = (start * first, stop * first), (start * step, stop * step if step else 1)
                if _seen(whole, targets, kept) != _seen(part, targets, kept, low * first, low * step):
                    return False
        return True

    def table(self, statement: Statement, size: int, other: int) -> _Table:
        """What a statement does at each value of its letters."""
        key = id(statement), size, other  # the form keeps its statements
        if key not in self.tables:
            self.tables[key] = self.done(statement, self.facts(size, other))
        return self.tables[key]

    def done(self, statement: Statement, facts: Facts) -> _Table:
        places = [index for index, _ in self.places(statement)]
        values = self.trees(statement)[len(places) :]
        names = set[str]().union(*map(expr.names, (*places, *values)))
        (own,) = statement.names & self.letters
        others = sorted(names & self.form.letters.keys() - {own})
        found = {}
        try:
            spans = [range(int(value(_tree(self.form.letters[x]), facts))) for x in (own, *others)]
            for at in product(*spans):
                here = Facts(facts.lets, {**facts, **dict(zip((own, *others), at))}, facts.beside)
                found[at] = _Place(
                    tuple(value(tree, here) for tree in places), tuple(value(tree, here) for tree in values)
                )
        except (KeyError, ZeroDivisionError, Unknown):
            return None
        return found


def _seen(
    table: Mapping[tuple[int, ...], _Place],
    targets: list[int],
    kept: tuple[tuple[int, int], tuple[int, int]],
    more: int = 0,
    further: int = 0,
) -> dict[tuple[int, ...], _Place]:
    """What a statement does to the cells that are kept, at places of the whole."""
    if targets:
        low, high = kept[1][0] - further, kept[1][1] - further
        inside = {at: place for at, place in table.items() if all(low <= place.cells[t] < high for t in targets)}
    else:
        low, high = kept[0][0] - more, kept[0][1] - more
        inside = {at: place for at, place in table.items() if low <= at[0] < high}
    if not more and not further:
        return inside
    return {
        (at[0] + more, *at[1:]): _Place(tuple([cell + further for cell in cells]), values)
        for at, (cells, values) in inside.items()
    }


def _periods() -> Iterator[tuple[int, int]]:
    """The cells of a period on both axes, which have no divisor in common."""
    for first, second in product(range(1, LARGEST + 1), repeat=2):
        if gcd(first, second) == 1:
            yield first, second


def _sizes() -> Iterator[tuple[int, int, int]]:
    for (first, second), count in product(_periods(), range(1, LARGEST + 1)):
        yield first, second, count


def _parts() -> Iterator[tuple[int, int, int]]:
    """So many periods, and the first and last of a part of them."""
    for total in range(2, LARGEST + 1):
        for start in range(total):
            for stop in range(start + 1, total + 1):
                yield total, start, stop


def _symbols(extent: Extent) -> frozenset[str]:
    return extent.symbols if isinstance(extent, Poly) else expr.names(extent)


def _tree(extent: Extent) -> Expr:
    """An extent that is one name or number as a tree. Raises Unknown for another polynomial."""
    if not isinstance(extent, Poly):
        return extent
    if extent.constant is not None:
        return Number(extent.constant)
    (name, *more) = extent.symbols
    if more or extent != Poly.symbol(name):
        raise Unknown
    return Name(name)


def _plain(tree: Expr) -> Iterator[Expr]:
    """The greatest formulas in a value that read no array."""
    if isinstance(tree, Read):
        return
    if not expr.reads(tree):
        yield tree
        return
    for child in expr.children(tree):
        yield from _plain(child)
