"""Splits sums of products into contractions of pairs.

In: a program. Out: the same program, with an intermediate for each pair, for each factor that is computed, and for each
factor that repeats cells of an array; factors without letters and a condition on the sums are applied at the end. If no
order of the factors has contractions alone, loops compute some pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..contraction import contraction, contracts, spread, walked
from ..program import Array, Part, Program
from ..roles import COLUMNS, ROWS, roles
from .gating import gates, has_terms
from .lone_sums import added_up, as_they_lie, divided_factors, factors_of, product_of
from .sharing import COSTLY

MAX_FACTORS = 5  # maximum factors of a product that is split into pairs: all orders are tried


def paired(found: Program) -> Program:
    """The program with sums of longer products as contractions of pairs, with an intermediate for each pair.

    A factor that is not a read but depends on letters becomes an intermediate, too; other factors are applied at the
    end.
    """
    arrays, parts = dict(found.arrays), list[Part]()
    for part in found.parts:
        parts += _Split(found, part).steps(arrays) or _Split(found, part).window(arrays) or [part]
    return dataclasses.replace(found, arrays=arrays, parts=tuple(parts)) if len(parts) > len(found.parts) else found


def is_product(found: Program, part: Part) -> bool:
    """Whether a step is a contraction that uses each element often, or becomes some: no factor has all letters."""
    product = contraction(found, part)
    if product is not None:
        return product.dense
    made = _Split(found, part).steps({}) or _Split(found, part).window({})
    return bool(made) and not any(one.operator == "set" and one.letters == part.letters for one in made)


class _Split:
    """A step that is split into several."""

    def __init__(self, found: Program, part: Part) -> None:
        self.found, self.part = found, part
        self.made: list[Part] = []
        self.arrays: dict[str, Array] = {}
        # whether an operand is a copy of cells, each of which is to be used several times
        self.copies = False
        self.taken = frozenset[str]()  # names of arrays

    def steps(self, arrays: dict[str, Array]) -> list[Part]:
        """The resulting steps, whose arrays are added to `arrays`; none if it is not split."""
        part, self.taken = self.part, frozenset(arrays)
        if part.by is not None or part.operator != "sum" or part.target.tensor in self.found.integers:
            return []
        if not (placed(self.found, part.target) and self.is_conditional() and all(map(self.is_operand, part.reads))):
            return []
        value, divisors = self.undivided(part.formulas[0].value)
        factors = self.divided(value)
        if self.reads_once(factors):
            return []
        whole = contraction(self.found, part) if len(factors) == 2 else None
        if whole is not None and (whole.has_zeros or whole.slides):
            return []
        scales = [factor for factor in factors if not self.letters(factor)]
        factors = [factor for factor in factors if self.letters(factor)]
        self.copies = any(isinstance(factor, Read) and not walked(self.found, factor) for factor in factors)
        factors, orders = self.absorbed(factors, self.orders(factors))
        orders = orders or self.orders(factors, partly=True)
        if not orders:
            return []
        operands = [self.operand(factor) for factor in factors]
        if len(operands) == 2 and not (scales or divisors or self.made or part.where) and self.is_whole:
            return []
        order = min(orders, key=lambda order: self.cost(factors, order))
        self.take_pairs([operands[number] for number in order], scales, divisors)
        arrays |= self.arrays
        return self.made

    def window(self, arrays: dict[str, Array]) -> list[Part]:
        """The steps if one factor is read at windows, others are weights or gates; none if that is no product."""
        part, self.taken = self.part, frozenset(arrays)
        if part.by or part.where or part.operator != "sum" or part.target.tensor in self.found.integers:
            return []
        value, divisors = self.undivided(part.formulas[0].value)
        factors = list(factors_of(value))
        windows = [one for one in factors if isinstance(one, Read) and any(map(self.moves, one.indices))]
        weights = [one for one in factors if one not in windows]
        if len(windows) != 1 or not any(map(self.letters, weights)) or not walked(self.found, part.target):
            return []
        scales = gates(self.found, part, windows[0], weights)
        weights = [one for one in weights if one not in scales]
        if any(map(expr.reads, divisors)) and not has_terms(self.found, part, windows[0]):
            return []
        reads = [read for one in weights for read in expr.reads(one)]
        if len(factors) == 2 and not divisors and isinstance(weights[0], Read) and walked(self.found, weights[0]):
            return []
        if not all(map(self.is_operand, reads)) or any(self.moves(index) for read in reads for index in read.indices):
            return []
        self.take_pairs([windows[0], self.operand(product_of(weights))], scales, divisors)
        parts = self.found.instead(part, self.made)
        result = dataclasses.replace(self.found, arrays={**self.found.arrays, **self.arrays}, parts=parts)
        if not any(contraction(result, one) for one in self.made):
            return []
        arrays |= self.arrays
        return self.made

    def reads_once(self, factors: Sequence[Expr]) -> bool:
        """Whether one factor has all letters, so uses no element twice, and an engine would need a copy of it, or of

        numbers of letters. The mean places of 16x17 softmaxes of 48x36 f32 take 0.58 of the time of engines,
        means of 4x64x60x80 over 64 channels 0.7 (Intel Xeon, gcc 12.2, one thread). Of cells of an array that is
        stored in any case, as sums of an engine are, the factor is made where these are stored.
        """
        whole = [factor for factor in factors if {*self.letters(factor)} == {*self.part.letters}]
        others = [factor for factor in factors if factor not in whole and not isinstance(factor, Read)]
        copied = [read for factor in whole if not isinstance(factor, Read) for read in expr.reads(factor)]
        stored = [read for read in copied if self.found.arrays[read.tensor].role == "between"]
        made = bool(copied) and not any({*self.letters(read)} == {*self.part.letters} for read in stored)
        costly = any(isinstance(one, Call) and one.function in COSTLY for factor in others for one in expr.walk(factor))
        counted = any(self.letters(factor) and not expr.reads(factor) for factor in others)
        return bool(whole) and (made or counted) and not costly

    def undivided(self, tree: Expr) -> tuple[Expr, list[Expr]]:
        """A product without what it is divided by and has no letters, such as the number of its terms."""
        if not isinstance(tree, Binary) or tree.op not in ("*", "/"):
            return tree, []
        left, divisors = self.undivided(tree.left)
        if tree.op == "/":
            divides = bool(self.letters(tree.right))
            return (Binary("/", left, tree.right), divisors) if divides else (left, [*divisors, tree.right])
        right, more = self.undivided(tree.right)
        return Binary("*", left, right), [*divisors, *more]

    def divided(self, value: Expr) -> list[Expr]:
        """The factors of a product; what divides it divides the first of them that has its letters.

        A sum of `e[i, j] * v[j, d] / z[i]`, as of attention, is thus a contraction of `e[i, j] / z[i]` and v.
        """
        factors, divisors = divided_factors(value)
        for divisor in divisors:
            has = [{*self.letters(divisor)} <= {*self.letters(factor)} for factor in factors]
            if True not in has:
                return list(factors_of(value))
            factors[has.index(True)] = Binary("/", factors[has.index(True)], divisor)
        return factors

    def orders(self, factors: Sequence[Expr], *, partly: bool = False) -> list[tuple[int, ...]]:
        """The orders of factors in which each pair is a contraction, or partly one that uses each element often."""
        if not 2 <= len(factors) <= MAX_FACTORS:
            return []
        is_wanted = self.is_partly_contracted if partly else self.is_contracted
        return [
            order
            for order in itertools.permutations(range(len(factors)))
            if is_wanted([self.stand_in(factors[number]) for number in order])
        ]

    def stand_in(self, factor: Expr) -> Read:
        """A read at the letters of a factor."""
        return Read("", tuple(map(Name, self.letters(factor))))

    def absorbed(self, factors: list[Expr], orders: list[tuple[int, ...]]) -> tuple[list[Expr], list[tuple[int, ...]]]:
        """The factors with some multiplied into others, and their orders, if no order uses elements of all pairs often.

        A scale of groups of terms, as of quantised weights, else needs the sums of each group: 32x16x64 by s8 512x16x64
        with scales 512x16 f32 takes 0.28 of the time (AMD Zen 4, gcc 12.2).
        """
        fewer, found = list(factors), list[tuple[int, ...]]()
        often = any(all(map(is_dense, self.later_roles(factors, order))) for order in orders)
        while len(fewer) > 2 and not often and not found and self.absorb(fewer):
            found = self.orders(fewer)
        return (fewer, found) if found else (factors, orders)

    def later_roles(self, factors: Sequence[Expr], order: Sequence[int]) -> list[dict[str, str]]:
        """The roles of the letters of each pair but the first, which has factors alone."""
        return list(self.roles_of_pairs([self.stand_in(factors[number]) for number in order]))[1:]

    def absorb(self, factors: list[Expr]) -> bool:
        """Multiply one factor into another that has all its letters, the smallest; False if there is none.

        The product has as many cells as the other, and a sum of its cells is the sum of the same terms.
        """
        letters = [{*self.letters(factor)} for factor in factors]
        pairs = [(a, b) for a, b in itertools.permutations(range(len(factors)), 2) if letters[a] <= letters[b]]
        if not pairs:
            return False
        small, large = min(pairs, key=lambda pair: (len(letters[pair[1]]), len(letters[pair[0]]), pair))
        factors[large] = Binary("*", factors[large], factors[small])
        del factors[small]
        self.copies = True
        return True

    def moves(self, index: Expr) -> bool:
        """Whether several letters move an index."""
        return len(self.letters(index)) > 1

    @property
    def is_whole(self) -> bool:
        """Whether letters walk each axis of the target; others are those of one cell, as of real parts."""
        return walked(self.found, self.part.target)

    def is_conditional(self) -> bool:
        """Whether at most one condition chooses among the sums, as in causal attention.

        All sums are then computed. Several conditions would often leave few of them, as in a band.
        """
        where, target = self.part.where, expr.names(self.part.target)
        return len(where) <= 1 and all({*self.letters(guard.tree)} <= target for guard in where)

    def is_operand(self, read: Read) -> bool:
        """Whether a copy of what a read reaches can be an operand: letters walk each axis, or repeat cells.

        Letters that move along an axis together stand for windows, which engines take as they lie; of a remainder, as
        in circulant matrices, they cannot; nor those of a band, of which one goes along another axis, too. A copy has
        an axis more than what it is made of, at most.
        """
        elsewhere = {index.id for index in read.indices if isinstance(index, Name)}
        alone = [
            1 if self.found.digits(read.tensor, axis, index) or bends(index) else len({*letters} - elsewhere)
            for axis, index in enumerate(read.indices)
            if (letters := self.letters(index)) and not isinstance(index, Name)
        ]
        grown = sum(len(self.letters(index)) - 1 for index in read.indices if bends(index))
        copied = max(alone, default=1) < 2 and grown < 2
        return self.lies(read) or (copied and self.found.is_inside(read))

    def lies(self, read: Read) -> bool:
        """Whether engines take what is read where it lies."""
        return walked(self.found, read) or (self.found.is_inside(read) and spread(self.found, read))

    def letters(self, tree: Expr) -> tuple[str, ...]:
        """The letters of an expression in the order of the step's."""
        names = expr.names(tree)
        return tuple(letter for letter in self.part.letters if letter in names)

    def operand(self, factor: Expr) -> Read:
        """A factor as a read that engines take as it lies, of a new array if it is not one."""
        if isinstance(factor, Read) and self.lies(factor):
            return factor
        cells = self.cells(f"factor_{self.part.number}_{len(self.made)}_", as_they_lie(self.letters(factor), factor))
        self.add(cells, "set", factor)
        return cells

    def cells(self, name: str, letters: Sequence[str], *, paired: bool = False) -> Read:
        """An element of a new array whose axes letters walk."""
        axes = (dataclasses.replace(self.found.letters[letter], name=letter) for letter in letters)
        name += "".join("_" for other in {*self.found.arrays, *self.taken} if other.rstrip("_") == name.rstrip("_"))
        self.arrays[name] = Array(name, "between", tuple(axes), paired)
        return Read(name, tuple(map(Name, letters)))

    def pairs(self, order: Sequence[Read]) -> Iterator[tuple[Expr, Expr, tuple[str, ...]]]:
        """Both sides of each pair, and the letters that are left after it."""
        left: Expr = order[0]
        own = frozenset(self.letters(self.part.target))
        for number, right in enumerate(order[1:], 1):
            later = frozenset[str]().union(*map(self.letters, order[number + 1 :]))
            both = Binary("*", left, right)
            remaining = tuple(letter for letter in self.letters(both) if letter in later | own)
            if number == len(order) - 1:  # as the target lies, whose cells are read from these
                remaining = tuple(as_they_lie(remaining, self.part.target))
            elif isinstance(left, Read):
                walked_by = ([one for index in side.indices for one in self.letters(index)] for side in (left, right))
                # Of those as near, the ones that go on to the end come last: they are columns of the next pair.
                remaining = near_last(sorted(remaining, key=lambda letter: letter not in later), *walked_by)
            yield left, right, remaining
            left = Read("", tuple(map(Name, remaining)))

    def roles_of_pairs(self, order: Sequence[Read]) -> Iterator[dict[str, str]]:
        """The roles of each pair's letters."""
        for left, right, remaining in self.pairs(order):
            assert isinstance(left, Read)
            assert isinstance(right, Read)
            letters = self.letters(Binary("*", left, right))
            yield roles(Read("", tuple(map(Name, remaining))), (left, right), letters)

    def is_contracted(self, order: Sequence[Read]) -> bool:
        """Whether each pair is a contraction."""
        sparse = not (self.copies or self.part.where)
        return all(contracts(found) and (sparse or is_dense(found)) for found in self.roles_of_pairs(order))

    def is_partly_contracted(self, order: Sequence[Read]) -> bool:
        """Whether loops of fewer letters do all pairs but contractions that use each element often."""
        if len(order) < 3 or self.part.where or self.found.first_writer(self.part.target.tensor) is not self.part:
            return False
        found = list(self.roles_of_pairs(order))
        loops = [pair for pair in found if not (contracts(pair) and is_dense(pair))]
        return all(len(pair) < len(self.part.letters) for pair in loops)

    def cost(self, factors: Sequence[Expr], order: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """The numbers of letters that the pairs run over, in descending order; then how far from the last axis those

        stand that the first pair sums: last axes are mostly the longest ones. `g[b, e] * x[b, i] * w[e, o, i]` by e
        first would have an array of b, o and i: 256x8x100x129 f32 takes 2.4 times as long (AMD Zen 5, gcc 12.2).
        """
        pairs = [*self.pairs([self.stand_in(factors[number]) for number in order])]
        walked = tuple(sorted((len(self.letters(Binary("*", one, other))) for one, other, _ in pairs), reverse=True))
        left, right, remaining = pairs[0]
        summed = [letter for letter in self.letters(Binary("*", left, right)) if letter not in remaining]
        return walked, sum(self.from_the_end(factors[number], letter) for number in order[:2] for letter in summed)

    def from_the_end(self, factor: Expr, letter: str) -> int:
        """How many axes stand behind the one that a letter walks."""
        indices = factor.indices if isinstance(factor, Read) else ()
        return next((n for n, index in enumerate(reversed(indices)) if letter in expr.names(index)), 0)

    def take_pairs(self, order: Sequence[Read], scales: Sequence[Expr], divisors: Sequence[Expr]) -> None:
        left: Expr = order[0]
        remaining = [letters for _, _, letters in self.pairs(order)]
        for number, right in enumerate(order[1:]):
            product = Binary("*", left, right)
            if number == len(order) - 2 and not (scales or divisors or self.part.where) and self.is_whole:
                self.take_last(product)
                return
            left = self.cells(f"pair_{self.part.number}_{number}_", remaining[number], paired=True)
            self.add(left, "sum" if len(remaining[number]) < len(self.letters(product)) else "set", product)
        for scale in scales:
            left = Binary("*", left, scale)
        for divisor in divisors:
            left = Binary("/", left, divisor)
        if scales or divisors:
            left = self.found.unless_empty((*self.part.unless_empty, *self.summed(left)), left)
        for guard in self.part.where:
            left = Call("select", (guard.tree, left, Number(0)))
        self.made.append(added_up(self.found, self.part, left))

    def take_last(self, product: Expr) -> None:
        """The last pair, which may add up nothing more."""
        empty = (*self.part.unless_empty, *self.summed(product))
        if {*self.letters(product)} <= {*self.letters(self.part.target)}:
            value = Binary("+", self.found.unless_empty(empty, product), Number(0))
            self.add(self.part.target, "set", value)
        else:
            self.add(self.part.target, "sum", product, self.found.may_be_empty(empty))

    def summed(self, product: Expr) -> Iterator[str]:
        """The letters that intermediates are summed along, and a product of them does not have."""
        return (letter for letter in self.part.letters if letter not in self.letters(product))

    def add(self, target: Read, operator: str, value: Expr, unless_empty: tuple[str, ...] = ()) -> None:
        self.made.append(dataclasses.replace(self.part.of(target, operator, value), unless_empty=unless_empty))


def near_last(letters: Sequence[str], *reads: Sequence[str]) -> tuple[str, ...]:
    """Letters as they walk what is read, those of the same reads together, and those of last axes at the end.

    Sums of a pair whose axes lie so need no copies: of the 3 factors 256x8, 256x128 and 8x128x128 they take 0.77 of the
    time, bf16 0.7 (AMD Zen 4, gcc 12.2). Letters that lie together are one axis of rows or columns.
    """
    far = {letter: len(axes) - place for axes in reads for place, letter in enumerate(axes)}
    walked_by = {letter: tuple([letter in axes for axes in reads]) for letter in letters}
    near = {some: min(far[letter] for letter in letters if walked_by[letter] == some) for some in walked_by.values()}
    first = [*dict.fromkeys(walked_by.values())]
    return tuple(sorted(letters, key=lambda one: (-near[walked_by[one]], first.index(walked_by[one]), -far[one])))


def bends(index: Expr) -> bool:
    """Whether an index is no sum of letters, but a remainder, a rounded quotient or a bound."""
    return any(isinstance(tree, Call) or (isinstance(tree, Binary) and tree.op == "%") for tree in expr.walk(index))


def placed(found: Program, target: Read) -> bool:
    """Whether distinct letters walk axes of a target, and all other indices are those of one cell that is there."""
    alone = [(number, index) for number, index in enumerate(target.indices) if not isinstance(index, Number)]
    names = [found.walks(target.tensor, number, index) for number, index in alone]
    return found.is_inside(target) and None not in names and len({*names}) == len(names)


def is_dense(found: Mapping[str, str]) -> bool:
    """Whether each element of both operands is used several times."""
    return {ROWS, COLUMNS} <= {*found.values()}
