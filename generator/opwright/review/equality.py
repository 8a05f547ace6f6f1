"""Proves that formulas of two states of an operation are equal, or gives no answer.

In: the operation before and after, and formulas of either. Out: how the second relates to the first. Named values are
replaced by their definitions on their side, in each case of the words that choose them, and attributes that one side
lacks by their defaults. Constraints that both sides share are assumed: no accepted call evaluates a formula with other
values.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..derive.algebra.poly import ONE, NotPolynomial, Poly
from ..language import expr
from ..language.expr import COMPARISONS, LOGIC, Binary, Call, Expr, Name, Number, Read, Unary
from ..language.kinds import Kind
from ..language.model import AllowedValue, Constraint, Op, Step
from ..language.renaming import rename
from ..language.schema import Assignment, Located
from ..language.source import SpecInvalid
from ..language.types import formulas, symbol_kinds
from .algebra import Algebra, Conditions, Pieces, Reader, Site, Unproven
from .carry import placed_letters
from .commuted import alike
from .reals import Form, Reals
from .unsaid import bounds, definitions, words_unsaid

MAX_WORLDS = 64
MAX_CASES = 8  # cases of the assumptions


class Equality:
    """Two states of an operation; a name means the same in both."""

    def __init__(self, old: Op, new: Op) -> None:
        self.old, self.new = old, new
        self.kinds = {**_kinds(old), **_kinds(new)}
        self._memoised: dict[Hashable, bool] = {}

    @cached_property
    def worlds(self) -> list[_World]:
        """Both sides for each combination of the words that choose named values."""
        unsaid = words_unsaid(self.old, self.new) | words_unsaid(self.new, self.old)
        choices: dict[str, dict[str, None]] = {name: {word: None} for name, word in unsaid.items()}
        for let in (*self.old.lets.values(), *self.new.lets.values()):
            if let.by and let.by not in unsaid:
                gone = {v.value for v in _values(self.old, let.by)} ^ {v.value for v in _values(self.new, let.by)}
                choices.setdefault(let.by, {}).update(dict.fromkeys(word for word in let.cases if word not in gone))
        combined = itertools.islice(itertools.product(*choices.values()), MAX_WORLDS + 1)
        return [_World(self, dict(zip(choices, words, strict=True))) for words in combined]

    def same_formula(self, was: Any, now: Any) -> bool:
        """Whether two formulas or assignments have the same value in every accepted call."""
        if type(was) is not type(now) or not isinstance(was, (Located, Assignment)):
            return False
        return alike(was, now) or self._proven((was, now), lambda world: world.same(was, now))

    def order(self, was: Expr, now: Expr) -> str:
        """How a condition changed: rewritten, tightened, loosened, or changed if none of these is proven."""
        loosened = self._proven((was, now, "follows"), lambda world: world.follows(was, now))
        tightened = self._proven((now, was, "preceds"), lambda world: world.follows(now, was, back=True))
        words = {(True, True): "rewritten", (True, False): "loosened", (False, True): "tightened"}
        return words.get((loosened, tightened), "changed")

    def implied(self, was: Any, now: Any) -> bool:
        """Whether an added or removed constraint holds in every call that the other constraints accept."""
        back = isinstance(was, Constraint)
        found = (was if back else now).expr
        if found is None:
            return False
        return self._proven((found.tree, "implied", back), lambda world: world.implied(found.tree, back))

    def same_value(self, symbol: str) -> bool:
        """Whether a named value is the same, or every observable result that depends on it is."""
        if self._proven(symbol, lambda world: world.same_name(symbol)):
            return True
        # Nothing is proven of values that steps use.
        steps = self.old.stepped or self.new.stepped
        return not steps and self._proven((symbol, "unseen"), lambda world: world.unseen(symbol))

    def same_steps(self, was: Sequence[Step], now: Sequence[Step]) -> bool:
        """Whether steps are pairwise equal up to rounding; names of intermediates do not matter."""
        outputs = {tensor.name for tensor in self.old.outputs}
        targets = [[step.assignments[0].target.tensor for step in steps] for steps in (was, now)]
        for number, (one, other) in enumerate(zip(*targets)):
            if one != other and not {one, other} & outputs:
                now = rename(rename(tuple(now), other, f"between{number}"), f"between{number}", one)
        return len(was) == len(now) and all(
            self._proven(repr(pair), functools.partial(_World.same_step, was=pair[0], now=pair[1]))
            for pair in zip(was, now)
        )

    def same_semantics(self) -> bool:
        """Whether both compute the same, in the same order and with the same letters."""
        if self.old.stepped or self.new.stepped:
            return self.old.semantics == self.new.semantics
        return self._proven("semantics", lambda world: world.same_semantics())

    def total(self, symbol: str) -> bool:
        """Whether a new named value is defined in every call that was accepted."""
        return self._proven((symbol, "total"), lambda world: world.total(symbol))

    def _proven(self, key: Hashable, holds: Callable[[_World], bool]) -> bool:
        if key not in self._memoised:
            try:
                self._memoised[key] = len(self.worlds) <= MAX_WORLDS and all(map(holds, self.worlds))
            except (Unproven, NotPolynomial, RecursionError):
                self._memoised[key] = False
        return self._memoised[key]


class _World:
    """Both sides for one choice of the words that select named values."""

    def __init__(self, sides: Equality, words: Mapping[str, str]) -> None:
        old, new = sides.old, sides.new
        self.old, self.new, self.kinds = old, new, sides.kinds
        self.algebra = Algebra(sides.kinds, *bounds(old, new))
        self.was, self.now = (Reader(self.algebra, definitions(*both, words)) for both in ((old, new), (new, old)))
        self.elements: list[tuple[str, list[Pieces]]] = []

    # Assumptions.

    @cached_property
    def given(self) -> list[Conditions]:
        """The cases of the shared constraints; every accepted call is in one of them."""
        found: list[Conditions] = [()]
        theirs = {c.id: c.expr for c in self.new.constraints}
        for constraint in self.old.constraints:
            formula = theirs.get(constraint.id)
            if constraint.expr is None or formula is None:
                continue
            try:
                cases, _ = self.was.recorded(self.was.holds, constraint.expr.tree)
                others, _ = self.now.recorded(self.now.holds, formula.tree)
            except (Unproven, NotPolynomial):
                continue
            if cases == others and len(found) * len(cases) <= MAX_CASES:
                found = [(*some, *more) for some, more in itertools.product(found, cases)]
        return found

    @cached_property
    def ranges(self) -> list[Conditions]:
        """Assumptions for a formula of the semantics: the letters lie in their ranges."""
        limits: list[Poly] = []
        for letter, extent in self.old.semantics.ranges.items():
            limits.append(Poly.symbol(letter))
            other = self.new.semantics.ranges.get(letter)
            try:
                ours, theirs = self.was.pieces(extent.tree), self.now.pieces(other.tree) if other else []
            except (Unproven, NotPolynomial):
                continue
            if len(ours) == 1 and ours == theirs:
                limits.append(ours[0][1] - Poly.symbol(letter) - ONE)
        return [(*case, *limits) for case in self.given]

    def impossible(self, conditions: Conditions, letters: bool = False) -> bool:
        """Whether no accepted call satisfies some conditions."""
        return self.algebra.impossible(conditions) or all(
            self.algebra.impossible(conditions, case) for case in (self.ranges if letters else self.given)
        )

    # Comparisons.

    def same(self, was: Located | Assignment, now: Located | Assignment) -> bool:
        if isinstance(was, Assignment) and isinstance(now, Assignment):
            targets = self._same_form(was.target, now.target)
            return was.op == now.op and targets and self._same_form(was.value, now.value)
        assert isinstance(was, Located)
        assert isinstance(now, Located)
        if _real(was.tree) or _real(now.tree):
            return self._same_form(placed_letters(self.old, was), placed_letters(self.new, now))
        if self._vector(was.tree) != self._vector(now.tree):
            return False
        if _logical(was.tree) or _logical(now.tree):
            return self.follows(was.tree, now.tree) and self.follows(now.tree, was.tree, back=True)
        ours, some = self.was.recorded(self.was.pieces, was.tree)
        theirs, more = self.now.recorded(self.now.pieces, now.tree)
        return self.equal(ours, theirs) and self.settled(some, more) and self.settled(more, some)

    def equal(self, ours: Pieces, theirs: Pieces, letters: bool = False) -> bool:
        """Whether two numbers are equal in every case."""
        for (some, a), (more, b) in itertools.product(ours, theirs):
            difference = a - b
            if difference.terms and not all(
                self.impossible((*some, *more, d - ONE), letters) for d in (difference, -difference)
            ):
                return False
        return True

    def follows(self, was: Expr, now: Expr, back: bool = False) -> bool:
        """Whether the first condition implies the second, which is defined wherever the first is."""
        first, second = (self.now, self.was) if back else (self.was, self.now)
        if self._vector(was) != self._vector(now):
            return False
        ours, some = first.recorded(first.holds, was)
        theirs, more = second.recorded(second.holds, now, False)
        pairs = itertools.product(ours, theirs)
        return all(self.impossible((*one, *other)) for one, other in pairs) and self.settled(more, some)

    def implied(self, condition: Expr, back: bool) -> bool:
        """Whether a condition follows from the assumptions alone, on every axis."""
        subject = next((Name(name) for name in sorted(expr.names(condition)) if self._vector(Name(name))), Number(0))
        return self.follows(Binary("==", subject, subject), condition, back)

    def settled(self, sites: set[Site], known: set[Site]) -> bool:
        """Whether a formula is defined wherever another one is."""
        algebra, exact = self.algebra, self.algebra.exact
        algebra.exact = frozenset(algebra.known[rest, bottom] for kind, rest, bottom in known if kind == "exact")
        try:
            for kind, top, bottom in sites - known:
                if kind.startswith("nonzero"):
                    done = self.impossible((top, -top))
                else:
                    left = top - bottom * algebra.atom((top, bottom))
                    done = self.impossible((left - ONE,))
                if not done:
                    return False
        finally:
            algebra.exact = exact
        return True

    def same_name(self, symbol: str) -> bool:
        """Whether a named value of both sides is the same."""
        if not (symbol in self.was.definitions and symbol in self.now.definitions):
            return symbol not in self.was.definitions and symbol not in self.now.definitions
        ours, some = self.was.recorded(self.was.pieces, Name(symbol))
        theirs, more = self.now.recorded(self.now.pieces, Name(symbol))
        return self.equal(ours, theirs) and self.settled(some, more) and self.settled(more, some)

    def total(self, symbol: str) -> bool:
        """Whether a value of the new side is defined wherever the values of the old one are."""
        known = set[Site]()
        for name in self.was.definitions:
            known |= self.was.recorded(self.was.pieces, Name(name))[1]
        if symbol not in self.now.definitions:
            return True
        return self.settled(self.now.recorded(self.now.pieces, Name(symbol))[1], known)

    def unseen(self, symbol: str) -> bool:
        """Whether everything that depends on a named value is the same and present on both sides."""
        olds, news = dict(_shown(self.old)), dict(_shown(self.new))
        for path in olds.keys() | news.keys():
            was, now = olds.get(path), news.get(path)
            made = [op for op, f in ((self.old, was), (self.new, now)) if f and symbol in _reached(op, f)]
            if made and not (was and now and self.same(was, now)):
                return False
        return self.total(symbol)

    def same_semantics(self) -> bool:
        was, now = (dict(_computed(op)) for op in (self.old, self.new))
        return list(was) == list(now) and all(self.same(was[path], now[path]) for path in was)

    def same_step(self, was: Step, now: Step) -> bool:
        """Whether two steps are equal up to rounding."""
        if was.by != now.by or was.cases.keys() != now.cases.keys() or len(was.where) != len(now.where):
            return False
        if not all(alike(a, b) or self.same(a, b) for a, b in zip(was.where, now.where, strict=True)):
            return False
        pairs = [(was.do, now.do)] if was.do else [(was.cases[word], now.cases[word]) for word in was.cases]
        return all(
            one == other or (one is not None and other is not None and (alike(one, other) or self.same(one, other)))
            for one, other in pairs
        )

    # Formulas over elements of tensors.

    def _vector(self, tree: Expr) -> bool:
        return any(name in self.kinds and self.kinds[name].vector for name in expr.loose_names(tree))

    def _same_form(self, was: Expr, now: Expr) -> bool:
        ours, some = self.was.recorded(self._form, self.was, was)
        theirs, more = self.now.recorded(self._form, self.now, now)
        return bool(ours == theirs) and self.settled(some, more) and self.settled(more, some)

    def _form(self, reader: Reader, tree: Expr) -> Form:
        return Reals(lambda read: self._element(reader, read), lambda whole: self._whole(reader, whole)).form(tree)

    def _whole(self, reader: Reader, tree: Expr) -> Hashable:
        if isinstance(tree, Name) and self.kinds.get(tree.id, Kind("int")).base != "int":
            return tree.id
        return tuple(reader.pieces(tree))

    def _element(self, reader: Reader, read: Read) -> Hashable:
        """A number for an element of a tensor; equal indices give the same number."""
        indices = [reader.pieces(index) for index in read.indices]
        for number, (tensor, others) in enumerate(self.elements):
            alike = tensor == read.tensor and len(indices) == len(others)
            if alike and all(self.equal(a, b, letters=True) for a, b in zip(indices, others, strict=True)):
                return number
        self.elements.append((read.tensor, indices))
        return len(self.elements) - 1


def _kinds(op: Op) -> Mapping[str, Kind]:
    try:
        return symbol_kinds(op)
    except (SpecInvalid, KeyError):
        return {}


def _reached(op: Op, formula: Located | Assignment) -> frozenset[str]:
    """The names that a formula depends on, directly or through other names."""
    trees = [formula.tree] if isinstance(formula, Located) else [formula.target, formula.value]
    found, waiting = set[str](), [*frozenset().union(*map(expr.names, trees))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name in op.lets:
                waiting += [n for f in formulas(op.lets[name]) for n in expr.names(f.tree)]
    return frozenset(found)


def _shown(op: Op) -> Iterator[tuple[Hashable, Located | Assignment]]:
    """All formulas that decide what a call does; named values count if one of these depends on them."""
    for tensor in (*op.inputs, *op.outputs):
        for name, dims in tensor.dims_by_arrangement.items():
            for axis, extent in dims.items():
                yield (tensor.name, name, axis), extent
        for name, arrangement in tensor.arrangements.items():
            for axis, index in arrangement.index.items():
                yield (tensor.name, name, axis, "index"), index
    for dim in op.dims.values():
        if dim.symbol in op.lets:
            yield dim.symbol, Located(Name(dim.symbol), dim.symbol, dim.at)
    for constraint in op.constraints:
        if constraint.expr:
            yield constraint.id, constraint.expr
    yield from _computed(op)


def _computed(op: Op) -> Iterator[tuple[Hashable, Located | Assignment]]:
    """The formulas of the semantics."""
    for letter, extent in op.semantics.ranges.items():
        yield ("range", letter), extent
    for number, guard in enumerate(op.semantics.where):
        yield ("where", number), guard
    if op.stepped:
        return
    yield "reduce", op.semantics.assignment
    if op.semantics.finish:
        yield "finish", op.semantics.finish


def _values(op: Op, name: str) -> tuple[AllowedValue, ...]:
    return next((a.values or () for a in op.attributes if a.name == name), ())


def _real(tree: Expr) -> bool:
    return any(
        isinstance(node, Read) or (isinstance(node, Number) and isinstance(node.value, float))
        for node in expr.walk(tree)
    )


def _logical(tree: Expr) -> bool:
    if isinstance(tree, Call):
        return tree.function in ("any", "all")
    return (isinstance(tree, Unary) and tree.op == "not") or (
        isinstance(tree, Binary) and tree.op in (*COMPARISONS, *LOGIC)
    )
