"""Orders of the pairs that a product of several factors is computed by: a call takes the one with the fewest terms.

In: an operation of steps. Out: for each such product, the contractions of its pairs in every order but the one of the
phases, which loops keep. Nothing here knows an operation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...derive.contraction import contracts
from ...derive.phases import Staged, staged
from ...derive.rewrites.pairing import is_dense, near_last
from ...derive.roles import BATCH, COLUMNS, REDUCED, ROWS
from ...language.model import Op
from ...memo import memoised
from .contraction import Accessed, ContractionView, contractions

MAX_ORDERS = 15  # all of four factors

Tree = int | tuple["Tree", "Tree"]  # a factor by its number, or two factors that are multiplied


@dataclass(frozen=True)
class Orders:
    """The numbers of the contractions of one product, and those that may take their phases instead."""

    numbers: tuple[int, ...]
    operands: tuple[str, ...]  # the arrays that any of them reads
    others: tuple[tuple[ContractionView, ...], ...]


@memoised
def orders(op: Op) -> tuple[Orders, ...]:
    """The orders of all products of several factors."""
    found, views = staged(op), contractions(op)
    return tuple(Orders(one.numbers, one.operands, one.others()) for one in _products(found, views) if one.others())


def _products(found: Staged, views: Sequence[ContractionView]) -> Iterator[_Product]:
    """The products whose pairs are contractions of phases of their own, with all factors there before the first."""
    arrays = found.program.arrays
    sides = {side[0] for view in views for side in (view.left, view.right)}
    numbers = {v.target[0]: n for n, v in enumerate(views) if arrays[v.target[0]].paired and v.target[0] in sides}
    made = {part.target.tensor: n for n, phase in enumerate(found.phases) for part in phase.parts}
    reads = [read.tensor for phase in found.phases for part in phase.parts for read in part.reads]
    for root, view in enumerate(views):
        if root in numbers.values():
            continue
        inner, factors, waiting = [root], list[Accessed](), [view.left, view.right]
        while waiting:
            side = waiting.pop(0)
            if side[0] in numbers:
                inner.append(numbers[side[0]])
                waiting += [views[inner[-1]].left, views[inner[-1]].right]
            else:
                factors.append(side)
        inner.sort()
        first = views[inner[0]].phase
        apart = all(reads.count(views[n].target[0]) == 1 for n in inner if n != root)
        there = all(made.get(name, -1) < first and name not in found.private for name, _ in factors)
        plain = all(_is_plain(views[n]) for n in inner)
        if len(inner) > 1 and inner[-1] == root and apart and there and plain:
            yield _Product(tuple(inner), [views[n] for n in inner], factors)


def _is_plain(view: ContractionView) -> bool:
    """Whether a contraction sums products of elements as they are, without windows."""
    letters = [letter for _, axes in (view.target, view.left, view.right) for _, letter in axes]
    return not view.term and not any("." in letter for letter in letters) and {*view.zeros} == {("", 0)}


@dataclass(frozen=True)
class _Product:
    """A product of several factors, and the contractions that compute it."""

    numbers: tuple[int, ...]
    views: Sequence[ContractionView]
    factors: Sequence[Accessed]

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for view in self.views for name, _ in (view.left, view.right)))

    def others(self) -> tuple[tuple[ContractionView, ...], ...]:
        """The contractions in any other order in which each is one, and as many use each element often."""
        own = [_letters(view.left) | _letters(view.right) for view in self.views]
        dense = sum(map(is_dense, map(_roles, self.views)))
        found = [made for tree in _trees([*range(len(self.factors))]) if (made := self.ordered(tree))]
        return tuple(
            made
            for made in found
            if [_letters(view.left) | _letters(view.right) for view in made] != own
            and sum(map(is_dense, map(_roles, made))) >= dense
        )[:MAX_ORDERS]

    def ordered(self, tree: Tree) -> tuple[ContractionView, ...]:
        """The contractions in the order of a tree; none if one of its pairs is not a contraction."""
        made: list[ContractionView] = []

        def access(node: Tree) -> Accessed | None:
            if isinstance(node, int):
                return self.factors[node]
            left, right = map(access, node)
            if left is None or right is None:
                return None
            own = self.views[len(made)]
            last = len(made) == len(self.views) - 1
            target = own.target if last else (own.target[0], self.kept(left, right, node))
            view = dataclasses.replace(own, target=target, left=left, right=right)
            made.append(view)
            return target if contracts(_roles(view)) else None

        return tuple(made) if access(tree) is not None else ()

    def kept(self, left: Accessed, right: Accessed, node: Tree) -> tuple[tuple[str, str], ...]:
        """The axes of a pair: the letters that the result or factors outside of it have, near ones last."""
        inside = {*_leaves(node)}
        outer = [factor for n, factor in enumerate(self.factors) if n not in inside]
        wanted = _letters(self.views[-1].target).union(*map(_letters, outer))
        both = (_letters(left) | _letters(right)) & wanted
        named = ([letter for _, letter in side[1]] for side in (left, right))
        return tuple((letter, letter) for letter in near_last(sorted(both), *named))


def _roles(view: ContractionView) -> dict[str, str]:
    """The roles of the letters of a contraction."""
    target, left, right = map(_letters, (view.target, view.left, view.right))
    return {
        letter: REDUCED
        if letter not in target
        else BATCH
        if letter in left & right
        else ROWS
        if letter in left
        else COLUMNS
        for letter in left | right
    }


def _letters(access: Accessed) -> frozenset[str]:
    return frozenset(letter for _, letter in access[1])


def _leaves(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for side in tree:
            yield from _leaves(side)


def _trees(some: Sequence[int]) -> Iterator[Tree]:
    """All ways to multiply factors pair by pair; the first one is on the left of each pair."""
    first, rest = some[0], some[1:]
    if not rest:
        yield first
    for chosen in range(2 ** len(rest) - 1):  # the last number would leave nothing to the right
        beside = [number for n, number in enumerate(rest) if chosen >> n & 1]
        others = [number for n, number in enumerate(rest) if not chosen >> n & 1]
        for left in _trees([first, *beside]):
            for right in _trees(others):
                yield left, right
