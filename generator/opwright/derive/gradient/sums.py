"""The sum of a gradient's shares: elementwise values, and named sums over letters.

In: shares that all add to one array, elementwise. Out: one `Sum` in the letters of that array; sums over other letters
become statements, each written once. Factors that do not depend on these letters are moved out of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from ...language import expr
from ...language.expr import Call, Expr, Name, Read
from ..program import Program
from .known import Known
from .statements import Share, extent_of
from .terms import ONE, Sum, Term, add, distributed, factor, product, select, terms_of, times, tree_of

Write = Callable[[Share, Read], None]


class Sums:
    """Sums that shares make; each is written once."""

    def __init__(self, found: Program, known: Known, fresh: Callable[[str], str], write: Write) -> None:
        self.found, self.known, self.fresh, self.write = found, known, fresh, write

    def total(self, shares: Iterable[Share], name: str) -> Sum:
        """The sum of shares without words; `name` is that of the array, for sums that get a name of their own."""
        result: Sum = ()
        groups: dict[object, tuple[Share, Sum, Sum]] = {}
        for share in shares:
            extra = share.letters - self.names(share.target)
            if not extra:
                result = add(result, share.value)
                continue
            for term in share.value:
                value = self.summed(term, extra, share)
                if value is not None:
                    result = add(result, value)
                    continue
                outer, rest, own = self.parted(term, extra, share)
                place = (own.letters, share.where, share.needs, frozenset(outer[0].factors))
                _, scale, before = groups.get(place, (own, outer, ()))
                scaled = product((Term(outer[0].coefficient / scale[0].coefficient),), rest)
                groups[place] = own, scale, add(before, scaled)
        for share, outer, rest in groups.values():
            result = add(result, product(outer, factor(self.named(share, rest, name)))) if rest else result
        return result

    def summed(self, term: Term, extra: frozenset[str], share: Share) -> Sum | None:
        """The known sum of a term over some letters: as written, or with known values expanded."""
        for one in ((term,), self.known.expanded((term,))):
            found = self.looked_up(one, extra, share) if len(one) == 1 else None
            if found is not None:
                return found
        parts = [self.looked_up((part,), extra, share) for part in distributed(term)]
        known = [part for part in parts if part is not None]
        nothing = len(known) == len(parts) and not self.known.expanded(add(*known))
        return () if nothing else None

    def looked_up(self, one: Sum, extra: frozenset[str], share: Share) -> Sum | None:
        outer, rest, own = self.parted(one[0], extra, share)
        if rest == ONE and not share.guarded:
            return outer
        read = self.known.sum_of(own, rest)
        return product(outer, factor(read)) if read is not None else None

    def names(self, read: Read) -> frozenset[str]:
        return frozenset(index.id for index in read.indices if isinstance(index, Name))

    def named(self, share: Share, rest: Sum, name: str) -> Read:
        """A sum as an element of an array of its own."""
        known = self.known.sum_of(share, rest)
        if known is not None:
            return known
        indices = tuple(index for index in share.target.indices if isinstance(index, Name))
        read = Read(self.fresh(f"{name}_sum"), indices)
        self.write(replace(share, target=read, cases={"": rest}, by=None), read)
        self.known.sums[self.known.key(share, rest)] = read
        return read

    def parted(self, term: Term, extra: frozenset[str], share: Share) -> tuple[Sum, Sum, Share]:
        """The factors outside the sum of a term over some letters, the summed part, and its letters."""
        outer = [Term(term.coefficient)]
        inner: list[Sum] = []
        for tree, power in term.factors:
            one = Term(Fraction(1), ((tree, power),))
            if not (one.names & extra or _loose(tree, share)):
                outer.append(one)
                continue
            if isinstance(tree, Call) and tree.function == "select" and power == 1:
                scale, tree = self.chosen(tree, extra, share)
                outer.append(scale)
            inner.append(factor(tree, power))
        rest: Sum = ONE
        for part in inner:
            rest = product(rest, part)
        named = rest[0].names | share.guard_names
        for letter in sorted(extra - named):
            outer += terms_of(extent_of(self.found, letter))
        whole = outer[0]
        for more in outer[1:]:
            whole = times(whole, more)
        return (whole,), rest, replace(share, letters=share.letters - (extra - named))

    def chosen(self, tree: Call, extra: frozenset[str], share: Share) -> tuple[Term, Call]:
        """A factor of a choice between a value and 0, and the choice without it."""
        condition, value, other = tree.arguments
        terms = terms_of(value)
        if len(terms) != 1 or terms_of(other):
            return Term(Fraction(1)), tree
        fixed = [
            (part, power)
            for part, power in terms[0].factors
            if not (Term(Fraction(1), ((part, 1),)).names & extra or _loose(part, share))
        ]
        moving = tuple(entry for entry in terms[0].factors if entry not in fixed)
        rest = select(condition, (Term(Fraction(1), moving),), ())
        found = tree_of(rest)
        assert isinstance(found, Call)
        return Term(terms[0].coefficient, tuple(fixed)), found


def _loose(tree: Expr, share: Share) -> bool:
    """Whether a factor reads an element that may not exist, so that it tells which terms there are."""
    needed = {index for need in share.needs for index in need.indices}
    return any(index in needed for read in expr.reads(tree) for index in read.indices)
