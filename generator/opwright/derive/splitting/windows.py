"""How windows are split: a part of them needs the cells under them, neighbours' cells too, and padding of its own.

In: a form and the sizes of both sides of an index `o * S + k * D - P`. Out: a `WindowCut`, or `Forbidden` with the
reason. A part is some windows and all cells under them, so that each window sees what it sees in the whole. Cells
that windows outside of the part would add to are computed in part only, and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ...language import expr
from ...language.evaluate import evaluate
from ...language.expr import Binary, Expr, Name, Number, Read
from ...language.model import Attribute, Op
from ...language.types import formulas, symbol_of
from ...memo import memoised
from ..algebra.poly import Affine, NotPolynomial, Poly, affine
from .cells import Forbidden, names_text, one_axis
from .form import Extent, Form, Statement
from .split import Window

MAX_SIZE = 3  # the largest stride, dilation and kernel of the calls on which shapes are compared


@dataclass(frozen=True)
class WindowCut:
    """The window, which axes lie on which side of it, how outputs are joined, and the side whose cells are divided."""

    window: Window
    axes: Mapping[str, Mapping[str, str]]
    joins: Mapping[str, str]
    size: str


@dataclass(frozen=True)
class _Index:
    """An index with a window, by its letters."""

    small: str
    tap: str
    big: Extent
    found: Affine


def windows(op: Op, form: Form) -> list[_Index]:
    """The indices of two letters, once for each of the two that may count the windows: one that walks some axis.

    First come those of which there are more: taps are few.
    """
    own = {extent for tensor in op.tensors for _, extent in form.arrays[tensor.name]}
    typical: dict[Extent, int] = {Poly.symbol(dim.symbol): dim.typical or 1 for dim in op.dims.values()}
    made = []
    for statement in form.statements:
        for access in statement.accesses:
            for _, extent, index in form.axes(access):
                try:
                    found = affine(index, form.letters)
                except NotPolynomial:
                    continue
                if len(found.letters) == 2 and all(_word(found.coefficient(letter)) for letter in found.letters):
                    for small, tap in (found.letters, found.letters[::-1]):
                        if form.letters[small] in own:
                            made.append(_Index(small, tap, extent, found))
    return sorted(dict.fromkeys(made), key=lambda one: -typical.get(form.letters[one.small], 1))


def cut(op: Op, form: Form, index: _Index) -> WindowCut:
    """How the windows of an index are cut. Raises Forbidden."""
    return _Windows(op, form, index).cut()


def _word(poly: Poly) -> str:
    """A name or a number as a `Window` says it; '' for anything else."""
    constant = poly.constant
    if constant is not None:
        return str(constant) if constant > 0 else ""
    return next(iter(poly.symbols)) if len(poly.terms) == 1 and poly == Poly.symbol(next(iter(poly.symbols))) else ""


class _Windows:
    def __init__(self, op: Op, form: Form, index: _Index) -> None:
        self.op, self.form, self.index = op, form, index
        sizes = [form.letters[index.small], index.big, form.letters[index.tap]]
        self.small, self.big, self.taps = (_word(e) if isinstance(e, Poly) else "" for e in sizes)
        symbols = {dim.symbol for dim in op.dims.values() if dim.per_axis}
        if not {self.small, self.big} <= symbols or self.small == self.big:
            raise Forbidden("its windows are not between two spatial sizes")
        if not self.taps or self.taps in (self.small, self.big):
            raise Forbidden("the kernel's extent is no value of its own")
        offset = -index.found.offset
        self.pad = _word(offset) if offset.terms else ""
        if offset.terms and (not self.pad or self.pad.isdigit()):
            raise Forbidden("its padding is no value of its own")
        self.letters = {letter: self.side(extent) for letter, extent in form.letters.items() if self.side(extent)}

    def side(self, extent: Extent) -> str:
        return "small" if extent == Poly.symbol(self.small) else "big" if extent == Poly.symbol(self.big) else ""

    def cut(self) -> WindowCut:
        for dim in self.op.dims.values():
            if dim.symbol in (self.small, self.big) and (dim.min or 0) > 1:
                raise Forbidden(f"{dim.symbol} is at least {dim.min}")
        self.kept = any(symbol_of(a) == self.pad and a.type == "s64" for a in self.op.attributes)
        begin, words = self.stated(self.pad) if self.pad and not self.kept else ("", {})
        others = self.others(begin, words)
        self.changed = self.dependent({begin, *others} - {""}, words) | {self.small, self.big}
        sliding = {_word(self.index.found.coefficient(letter)) for letter in self.index.found.letters} | {self.taps}
        if sliding & self.changed:
            raise Forbidden(f"{names_text(sliding & self.changed)} changes on a part")
        core: dict[str, str] = {}  # by array, what a part knows of it: `some` cells of the big side, or a `sum`
        for statement in self.form.statements:
            self.statement(statement, core)
        axes = {
            name: {axis: self.side(extent) for axis, extent in arrays if self.side(extent)}
            for name, arrays in self.form.arrays.items()
        }
        for tensor in self.op.outputs:
            one_axis(tensor.name, axes[tensor.name])
        joins = {t.name: "cells" if axes[t.name] else core.get(t.name, "same") for t in self.op.outputs}
        sides = {side for tensor in self.op.outputs for side in axes[tensor.name].values()}
        shares = set(joins.values()) - {"cells", "same"}
        if len(sides) == 2 or ("big" in sides and shares):
            raise Forbidden("its outputs lie on both sides of the windows")
        if self.kept and ("big" in sides or shares):
            raise Forbidden(f"{self.pad} pads both sides of a part")
        size = self.big if "big" in sides else self.small
        window = self.legal(begin, others, words, size)
        return WindowCut(window, {name: found for name, found in axes.items() if found}, joins, size)

    def legal(self, begin: str, others: list[str], words: Mapping[str, str], size: str) -> Window:
        """The window with the attributes that make the shapes of parts legal: the others are 0 on a part."""
        step = {letter: _word(self.index.found.coefficient(letter)) for letter in self.index.found.letters}
        reason = ""
        for end in (*others, ""):
            for extra in (*(other for other in others if other != end), ""):
                zero = tuple(other for other in others if other not in (end, extra))
                names = (self.small, self.big, self.taps, step[self.index.small], step[self.index.tap], self.pad)
                fields = (*names, begin, end, extra, zero)
                found = _illegal(self.op, (*fields, tuple(words.items()), self.kept), self.changed, size)
                if not found:
                    return Window(*fields, words, self.kept)
                reason = reason or found
        raise Forbidden(reason)

    def stated(self, symbol: str) -> tuple[str, dict[str, str]]:
        """The attribute that states a value, and the words with which it does."""
        let = self.op.lets.get(symbol)
        formulas: list[tuple[Expr, dict[str, str]]] = [(Name(symbol), {})]
        if let is not None:
            named = let.cases.items() if let.value is None else [("", let.value)]
            formulas = [(formula.tree, {let.by: word} if let.by and word else {}) for word, formula in named]
        for tree, words in formulas:
            attribute = _list_of(self.op, tree)
            if attribute is not None:
                return attribute.name or "", words
        raise Forbidden(f"no attribute states {symbol}")

    def others(self, begin: str, words: Mapping[str, str]) -> list[str]:
        """The other lists of padding, from which shapes follow or with which they are compared."""
        lets = [e for size in (self.small, self.big) if size in self.op.lets for e in formulas(self.op.lets[size])]
        rules = [rule.expr for rule in self.op.constraints if rule.expr]
        lets += [e for e in rules if expr.names(e.tree) & {self.small, self.big}]
        names = set[str]().union(*(expr.names(e.tree) for e in lets))
        pending, found = sorted(names), list[str]()
        sliding = {_word(self.index.found.coefficient(x)) for x in self.index.found.letters}
        while pending:
            symbol = pending.pop(0)
            if symbol in sliding or symbol in (self.pad, self.taps, self.small, self.big):
                continue
            try:
                name, sums = self.stated(symbol)
            except Forbidden:
                let = self.op.lets.get(symbol)
                more = set[str]().union(*(expr.names(e.tree) for e in formulas(let))) if let else set()
                pending += sorted(more - names)
                names |= more
                continue
            if name != begin and name not in found and (not sums or sums == words):
                found.append(name)
        return found

    def dependent(self, attributes: set[str], words: Mapping[str, str]) -> frozenset[str]:
        """The names whose values are others on a part."""
        changed = {symbol_of(a) for a in self.op.attributes if a.name in attributes} | {self.small, self.big}
        grown = True
        while grown:
            before = len(changed)
            for symbol, let in self.op.lets.items():
                if let.by in words or any(expr.names(e.tree) & changed for e in formulas(let)):
                    changed.add(symbol)
            grown = len(changed) > before
        return frozenset(changed)

    def statement(self, statement: Statement, core: dict[str, str]) -> None:
        own = self.letters.keys() & statement.names
        loose = [*_loose(statement.value)]
        for guard in statement.where:
            loose += [] if self.inside(guard) else expr.names(guard)
        if set(loose) & (self.letters.keys() | self.changed):
            raise Forbidden(f"{statement.text} computes with its number or extent")
        for access in statement.accesses:
            for axis, extent, index in self.form.axes(access):
                self.index_of(statement, access, axis, extent, index)
        target, name = expr.names(statement.target), statement.target.tensor
        shared = [core[read.tensor] for read in statement.reads if read.tensor in core]
        scattered = any(self.same(index) for _, _, index in self.form.axes(statement.target))
        state = ""
        if scattered:
            state = "some"
        for letter in own - target:
            if self.letters[letter] == "big" or statement.operator == "set":
                raise Forbidden(f"{statement.text} needs all of it")
            state = statement.operator
        if shared:
            plain = isinstance(statement.value, Read) and statement.operator == "set"
            pointwise = set(shared) == {"some"} and all(self.letters[letter] == "big" for letter in own)
            if state or not (pointwise or (plain and len(set(shared)) == 1)):
                raise Forbidden(f"{statement.text} needs all of it")
            state = shared[0]
        if core.get(name, state) != state:
            raise Forbidden(f"{name} is made of parts and of the whole")
        if state:
            core[name] = state

    def index_of(self, statement: Statement, access: Read, axis: str, extent: Extent, index: Expr) -> None:
        side = self.side(extent)
        own = expr.names(index) & self.letters.keys()
        walks = isinstance(index, Name) and self.letters.get(index.id) == side
        if side and not walks and not (side == "big" and self.same(index)):
            raise Forbidden(f"{statement.text} reads axis {axis} of {access.tensor} at other places")
        if not side and (own or expr.names(index) & self.changed):
            raise Forbidden(f"{statement.text} places it on axis {axis} of {access.tensor} with other letters")

    def same(self, index: Expr) -> bool:
        """Whether an index is that of the windows, whatever letters name them."""
        try:
            found = affine(index, self.form.letters)
        except NotPolynomial:
            return False
        if len(found.letters) != 2 or found.offset != self.index.found.offset:
            return False
        ours = self.index.found
        wanted = {(self.form.letters[x], ours.coefficient(x)) for x in ours.letters}
        return {(self.form.letters[x], found.coefficient(x)) for x in found.letters} == wanted

    def inside(self, guard: Expr) -> bool:
        """Whether a condition says no more than that a window's cell exists."""
        if not isinstance(guard, Binary) or not self.same(guard.left):
            return False
        return (guard.op, guard.right) in ((">=", Number(0)), ("<", Name(self.big)))


def _loose(tree: Expr) -> Iterator[str]:
    if isinstance(tree, Name):
        yield tree.id
    for child in () if isinstance(tree, Read) else expr.children(tree):
        yield from _loose(child)


def _list_of(op: Op, tree: Expr) -> Attribute | None:
    """The list with an entry per spatial axis that a tree names, if 0 is allowed in it."""
    for attribute in op.attributes:
        spatial = attribute.type == "s64[]" and attribute.length == "spatial" and (attribute.min or 0) <= 0
        if spatial and tree == Name(symbol_of(attribute)):
            return attribute
    return None


@memoised
def _illegal(op: Op, fields: tuple[Any, ...], changed: frozenset[str], size: str) -> str:
    """Why shapes of parts are not legal with a window of these fields; '' if they are. Many forms share a window."""
    *names, words, kept = fields
    try:
        _Shapes(op, replace(Window(*(*names, dict(words))), kept=kept), changed, size).check()
    except Forbidden as reason:
        return str(reason)
    return ""


class _Facts(dict[str, Any]):
    """What a call states, and the named values that follow, each computed when it is first asked for."""

    def __init__(self, shapes: _Shapes, stated: Mapping[str, Any]) -> None:
        super().__init__(stated)
        self.shapes = shapes

    def __missing__(self, name: str) -> Any:
        self[name] = value = self.shapes.value(name, self)
        return value


class _Shapes:
    """That the shapes of parts are legal: what the spec says of both extents, on small calls of all kinds."""

    def __init__(self, op: Op, window: Window, changed: frozenset[str], size: str) -> None:
        self.op, self.window, self.changed = op, window, changed
        self.lets = op.lets
        self.free = size == window.big and size not in self.lets  # its last cells may belong to no window

    def check(self) -> None:
        window, op = self.window, self.op
        rules = [r for r in op.constraints if r.expr and expr.names(r.expr.tree) & self.changed]
        sizes = [size for size in (window.small, window.big) if size in self.lets]
        for stated in self.calls():
            facts = _Facts(self, stated)
            try:
                for size in sizes:
                    for word in self.lets[size].cases or ("",):
                        if self.value(size, facts, word) != stated[size]:
                            raise Forbidden(f"the extent {size} of a part does not follow from its windows")
                for rule in rules:
                    assert rule.expr
                    if not self.holds(rule.expr.tree, facts):
                        raise Forbidden(f"the rule {rule.id} does not hold for parts")
            except KeyError as error:
                raise Forbidden(f"{error.args[0]} is needed to tell the shape of a part") from None

    def calls(self) -> Iterator[dict[str, Any]]:
        """Parts of calls: so many windows, and the cells under them, with padding or without."""
        w, span = self.window, range(1, MAX_SIZE + 1)
        if w.kept:
            yield from self.padded()
            return
        names = {n: span if not n.isdigit() else (int(n),) for n in (w.stride, w.dilation, w.taps)}
        attributes = {a.name: symbol_of(a) for a in self.op.attributes}
        for values in product(*names.values()):
            of = dict(zip(names, values))
            stride, reach = of[w.stride], (of[w.taps] - 1) * of[w.dilation] + 1
            for count, begin, end in product(span, (0, 1) if w.begin else (0,), (0, 1, 2) if w.end else (0,)):
                rest = range(stride) if not end and (w.extra or self.free) else (0,)
                for more in rest:
                    big = (count - 1) * stride + reach - begin - end + more
                    facts = {name: (value,) for name, value in of.items() if not name.isdigit()}
                    pads = {w.begin: begin, w.end: end, w.extra: more}
                    facts |= {attributes[name]: (value,) for name, value in pads.items() if name}
                    facts |= {attributes[name]: (0,) for name in w.zero}
                    if big > 0:
                        yield {**facts, w.small: (count,), w.big: (big,)}

    def padded(self) -> Iterator[dict[str, Any]]:
        """Parts of any size, padded by one number on both sides: as many windows as fit."""
        w = self.window
        names = (w.stride, w.dilation, w.taps, w.pad, w.big)
        spans = [range(name != w.pad, MAX_SIZE + 1) if not name.isdigit() else (int(name),) for name in names]
        whole = {symbol_of(a) for a in self.op.attributes if a.type == "s64"}
        for values in product(*spans):
            stride, dilation, taps, pad, big = values
            count = (big + 2 * pad - (taps - 1) * dilation - 1) // stride + 1
            if count > 0:
                facts = {n: v if n in whole else (v,) for n, v in zip(names, values) if not n.isdigit()}
                yield {**facts, w.small: (count,)}

    def value(self, symbol: str, facts: Mapping[str, Any], word: str = "") -> Any:
        """A named value of a part; KeyError where something else is needed for it."""
        let = self.lets[symbol]
        word = word or self.window.words.get(let.by or "", "")
        formula = let.value or let.cases[word]
        return evaluate(formula.tree, facts)

    def holds(self, tree: Expr, facts: Mapping[str, Any]) -> bool:
        found = evaluate(tree, facts)
        return all(found) if isinstance(found, tuple) else bool(found)
