"""Values that steps have computed already, which are read instead of recomputed.

In: the program of the forward operation, and sums as they are built. Out: shorter sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from ...language import expr
from ...language.expr import Call, Expr, Read
from ..program import Part, Program
from .bounded import EXPONENTIALS, bounded
from .statements import Need, Share, plain
from .terms import Sum, Term, terms_of, times, tree_of


@dataclass(frozen=True)
class _Value:
    """A product stored in an array, valid under an optional condition."""

    condition: Expr | None
    tree: Expr
    term: Term
    read: Read


class Known:
    """Values and sums of the forward steps, and sums of the gradient."""

    def __init__(self, found: Program, needs: dict[int, dict[str, frozenset[Need]]], hidden: frozenset[str]) -> None:
        """`hidden` are outputs that nothing may read."""
        self.values: list[_Value] = []
        self.formulas: dict[Read, Expr] = {}
        self.sums: dict[object, Read] = {}
        written = [part.target.tensor for part in found.parts]
        for part in found.parts:
            alone = written.count(part.target.tensor) == 1 and part.by is None
            alone = alone and part.target.tensor not in hidden
            if alone and plain(found, part.target) is not None:
                self.learn(found, part, needs[part.number][""])

    def learn(self, found: Program, part: Part, needs: frozenset[Need]) -> None:
        tree, read = part.formulas[0].value, part.target
        if part.operator == "set" and not part.where and not needs:
            self.value(None, tree, read)
            if isinstance(tree, Call) and tree.function == "select":
                self.value(tree.arguments[0], tree.arguments[1], read)
        elif part.operator == "sum":
            where = tuple(guard.tree for guard in part.where)
            share = Share(read, {"": terms_of(tree)}, None, frozenset(part.letters), where, needs)
            self.sums[self.key(share, share.value)] = read

    def value(self, condition: Expr | None, tree: Expr, read: Read) -> None:
        terms = terms_of(tree)
        # else an element of it would introduce letters that its value lacks
        whole = expr.names(read) <= expr.names(tree)
        if whole and condition is None and not isinstance(tree, Read):
            self.formulas[read] = tree
        if whole and len(terms) == 1 and terms[0].factors and not isinstance(tree, Read):
            self.values.append(_Value(condition, tree, terms[0], read))

    def grows(self, tree: Expr) -> bool:
        """Whether a value is an exponential, or an element that holds one."""
        tree = self.formulas.get(tree, tree) if isinstance(tree, Read) else tree
        return isinstance(tree, Call) and tree.function in EXPONENTIALS

    def has_exponential(self, tree: Expr) -> bool:
        """Whether a value is computed from exponentials of the same cell."""
        return any(
            self.grows(node) or (node in self.formulas and self.has_exponential(self.formulas[node]))
            for node in expr.walk(tree)
            if isinstance(node, (Call, Read))
        )

    def finite(self, found: Sum) -> Sum:
        """An equal sum that stays finite where its exponentials are not, with known values read."""
        if not any(self.has_exponential(tree) for term in found for tree, _ in term.factors):
            return self.shorter(found)
        opened = self.opened(found)
        made = bounded(opened, self.grows)
        return self.shorter(found if made == opened else made)

    def opened(self, found: Sum) -> Sum:
        """A sum with what is computed from exponentials in place of the elements that hold it."""

        def visit(tree: Expr) -> Expr | None:
            inner = self.formulas.get(tree) if isinstance(tree, Read) else None
            return expr.changed(inner, visit) if inner is not None and self.has_exponential(inner) else None

        return terms_of(expr.changed(tree_of(self.shorter(found)), visit))

    def key(self, share: Share, rest: Sum) -> object:
        """The identity of a sum: its letters, its conditions and its terms."""
        target = frozenset(index for index in share.target.indices)
        return target, share.letters, share.where, share.needs, frozenset(rest)

    def sum_of(self, share: Share, rest: Sum) -> Read | None:
        return self.sums.get(self.key(share, rest))

    def expanded(self, found: Sum) -> Sum:
        """A sum with known values expanded."""
        trees = {value.read: value.tree for value in self.values if value.condition is None}

        def visit(tree: Expr) -> Expr | None:
            return expr.changed(trees[tree], visit) if isinstance(tree, Read) and tree in trees else None

        return terms_of(expr.changed(tree_of(found), visit)) if trees else found

    def shorter(self, found: Sum, conditions: Iterable[Expr] = ()) -> Sum:
        """A sum with known values read."""
        holding = (None, *conditions)
        usable = [value for value in self.values if value.condition in holding]

        def visit(tree: Expr) -> Expr | None:
            for value in usable:
                if tree == value.tree:
                    return value.read
            if isinstance(tree, Call) and tree.function == "select":
                condition, a, b = tree.arguments
                inside = tree_of(self.shorter(terms_of(a), (*conditions, condition)))
                return Call("select", (condition, inside, tree_of(self.shorter(terms_of(b), conditions))))
            return None

        result = terms_of(expr.changed(tree_of(found), visit))
        for value in usable:
            result = tuple(_divided(term, value) for term in result)
        return result


def _divided(term: Term, value: _Value) -> Term:
    """A term with the factors of a known product replaced by one element."""
    powers = dict(term.factors)
    wanted = value.term.factors
    if len(wanted) < 2 or not all(powers.get(tree, 0) * power >= power * power for tree, power in wanted):
        return term
    inverse = Term(1 / value.term.coefficient, tuple((tree, -power) for tree, power in wanted))
    return times(times(term, inverse), Term(Fraction(1), ((value.read, 1),)))
