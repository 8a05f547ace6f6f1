"""Products of several factors, pair by pair: of all orders a call takes the one with the fewest terms.

In: the contractions of an operation, and those of other orders. Out: those of a call, and what engines make of them.
Loops know the first order alone, so another is taken only where engines compute all of its pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ._contractions import Contraction, Product

Letters = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Orders:
    """The numbers of the contractions of one product, and those that may take their phases instead."""

    numbers: tuple[int, ...]
    operands: tuple[str, ...]  # the arrays that any of them reads
    others: tuple[tuple[Contraction, ...], ...]


def ordered(
    contractions: Sequence[Contraction],
    orders: Sequence[Orders],
    letters: Letters,
    prepared: Callable[[Contraction], Product | None],
) -> tuple[list[Contraction], dict[int, Product]]:
    """The contractions of a call, and by number those that an engine computes."""
    own = list(contractions)
    found = {number: product for number, one in enumerate(own) if (product := prepared(one)) is not None}
    for some in orders:
        least = _terms([own[number] for number in some.numbers], letters)
        for other in some.others:
            terms = _terms(other, letters)
            products = [prepared(one) for one in other] if terms < least else [None]
            if None not in products:
                least = terms
                own = [other[some.numbers.index(n)] if n in some.numbers else one for n, one in enumerate(own)]
                found |= {number: product for number, product in zip(some.numbers, products) if product is not None}
    return own, found


def described(
    own: Sequence[Contraction], first: Sequence[Contraction], orders: Sequence[Orders], letters: Letters
) -> tuple[tuple[str, str], ...]:
    """For `explain`: the order of the pairs of each product, and its terms beside those of the order with the most."""
    rows = []
    for some in orders:
        taken, loops = ([of[number] for number in some.numbers] for of in (own, first))
        pairs = ", then ".join(f"{one.left.array} * {one.right.array}" for one in taken)
        terms, most = _terms(taken, letters), max(_terms(other, letters) for other in (loops, *some.others))
        rows.append(("order of factors", f"{pairs}: {terms:,} terms; another order has up to {most:,}"))
    return tuple(rows)


def operands(own: Sequence[Contraction], orders: Sequence[Orders]) -> list[int]:
    """Of all contractions of a call, left and right, those of several factors among the operands of all their pairs."""
    found = [0] * (2 * len(own))
    for some in orders:
        for number in some.numbers:
            one = own[number]
            found[2 * number : 2 * number + 2] = [some.operands.index(side.array) for side in (one.left, one.right)]
    return found


def cells(one: Contraction, letters: Letters) -> int:
    """The number of sums of a contraction."""
    return prod(extent for letter in one.target.letters.values() for extent in letters[letter])


def _terms(some: Sequence[Contraction], letters: Letters) -> int:
    """How many products of two elements contractions add up."""
    used = [{*one.left.letters.values(), *one.right.letters.values()} for one in some]
    return sum(prod(extent for letter in names for extent in letters[letter]) for names in used)
