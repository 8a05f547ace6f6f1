"""An operation's symbols and letters, with vectors expanded per spatial axis, and its expressions in them.

In: an operation, and the name of a group class or None. Out: an `Expansion`. On a spatial axis that a call does not
have, extents are 1 and indices 0. Raises SpecInvalid if neutral values cannot ensure this, or if an extent is not a
polynomial.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from ..language import expr
from ..language.model import SPATIAL_AXES, GroupClass, Op
from ..language.schema import Located
from ..language.source import Problem, SpecInvalid
from ..memo import memoised
from .algebra.poly import ONE, ZERO, Affine, NotPolynomial, Poly, affine, polynomial
from .rules.exactness import divided
from .rules.missing_axes import ABSENT, MissingAxes


class Expansion:
    """An operation's symbols and letters, with vectors expanded per spatial axis."""

    def __init__(self, op: Op, group_class: GroupClass | None) -> None:
        self.op = op
        self.suffixes = SPATIAL_AXES[3 - op.spatial_rank.max :]
        self.missing = MissingAxes(op)
        self.vectors = self.missing.vectors
        self.renamings = {
            suffix: {name: Poly.symbol(f"{name}_{suffix}") for name in self.vectors} for suffix in self.suffixes
        }
        sizes = group_class.let if group_class else {}
        self.sizes = {symbol: _polynomial(value) for symbol, value in sizes.items()}
        ranges = op.semantics.ranges
        self.vector_letters = {
            letter for letter, extent in ranges.items() if expr.loose_names(extent.tree) & self.vectors
        }
        self.letters = tuple(ranges)
        self.extents: dict[str, Poly] = {}
        for letter, extent in ranges.items():
            _polynomial(extent)
            for name, suffix in self.copies(letter, letter in self.vector_letters):
                self.extents[name] = self.poly(extent.tree, suffix)
        self.defined = self.definitions()
        # The exact quotients of a call, by the kernels' names of both sizes.
        pairs = list(divided(op))
        self.quotients = frozenset(
            tuple(f"{name}_{suffix}" if name in self.vectors else name for name in pair)
            for pair in pairs
            for suffix in (*self.suffixes, "")
        )

    def definitions(self) -> dict[str, Poly]:
        """Named values that are polynomials, in terms of other symbols only."""
        found: dict[str, Poly] = {}
        pending = {symbol: let.value.tree for symbol, let in self.op.lets.items() if let.value is not None}
        while ready := [symbol for symbol, tree in pending.items() if not expr.names(tree) & pending.keys() - {symbol}]:
            for symbol in ready:
                tree = pending.pop(symbol)
                if symbol in self.vectors and not self.missing.fits(expr.Binary("-", tree, expr.Name(symbol)), 0):
                    continue
                with contextlib.suppress(NotPolynomial):
                    plain = polynomial(tree).substitute(self.sizes)
                    for name, suffix in self.copies(symbol, symbol in self.vectors):
                        found[name] = plain.substitute(self.renamed(suffix)).substitute(found)
        return found

    def copies(self, name: str, vector: bool) -> list[tuple[str, str | None]]:
        return [(f"{name}_{suffix}", suffix) for suffix in self.suffixes] if vector else [(name, None)]

    def renamed(self, suffix: str | None) -> dict[str, Poly]:
        return self.renamings[suffix] if suffix else {}

    def poly(self, tree: expr.Expr, suffix: str | None) -> Poly:
        """An extent; on a spatial axis that a call does not have it is 1."""
        plain = polynomial(tree).substitute(self.sizes).substitute(self.renamed(suffix))
        return plain + self.correction(tree, suffix, 1)

    def correction(self, tree: expr.Expr, suffix: str | None, wanted: int) -> Poly:
        """The expression that is `wanted` on a missing axis, if its neutral values alone do not suffice."""
        if suffix is None or self.missing.fits(tree, wanted):
            return ZERO
        value = self.missing.value(tree)
        if not isinstance(value, int):
            message = "on a spatial axis that a call does not have, this is not an integer"
            message += "; change the neutral values of its symbols"
            raise SpecInvalid([Problem(self.op.semantics.at, "semantics-neutral", message)])
        return Poly.number(wanted - value) * Poly.symbol(f"{ABSENT}_{suffix}")

    def affine(self, tree: expr.Expr, suffix: str | None, letters: Sequence[str], vectors: Iterable[str]) -> Affine:
        found = affine(tree, letters).with_symbols(self.sizes).with_symbols(self.renamed(suffix))
        if suffix is None:
            return found
        found = found + Affine.of({}, self.correction(tree, suffix, 0))
        return found.substitute({name: Affine.letter(f"{name}_{suffix}") for name in vectors})

    @property
    def ones(self) -> dict[str, Affine]:
        """The letters that have one value only; they vanish from every index."""
        return {letter: Affine.of({}) for letter, extent in self.extents.items() if extent == ONE}

    def positive(self, factor: Poly) -> bool | None:
        """True or False for a factor that is certainly >= 1 or <= -1; None if it may be 0 or of either sign."""
        with contextlib.suppress(NotPolynomial):
            factor = factor.substitute(self.defined)
        if len(factor.terms) != 1:
            return None
        (monomial, number) = factor.terms[0]
        minimum = {dim.symbol: dim.min or 0 for dim in self.op.dims.values()}
        minimum.update({a.symbol or a.name or "": a.min or 0 for a in self.op.attributes})
        if any(minimum.get(name, minimum.get(name.rpartition("_")[0], 0)) < 1 for name, _ in monomial):
            return None
        return number > 0


def _polynomial(written: Located) -> Poly:
    """A formula of a spec as a polynomial. Raises SpecInvalid, with its place, if it is not one."""
    try:
        return polynomial(written.tree)
    except NotPolynomial as error:
        raise SpecInvalid([Problem(written.at, "semantics-index", str(error))]) from None


@memoised
def expansion(op: Op, group: str | None) -> Expansion:
    """The expansion of an operation in one of its classes."""
    return Expansion(op, next((found for found in op.classes if found.name == group), None))
