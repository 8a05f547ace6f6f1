"""Consecutive phases of a call block by block: each goes through all of them in one worker's cache.

In: what an operation says of such phases, the products and sizes of a call. Out: how many blocks, and where in memory
each worker has the arrays of a block; None where phases run one by one. Nothing here knows an operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ._contractions import FINISHED, STORED, Contraction, Product
from ._schedules import Phases, Schedule, in_blocks
from ._step_sizes import Sizes, lines


@dataclass(frozen=True)
class Blocks:
    """Phases [first, last): the letters of their tasks in order, and the arrays that they leave for each other.

    `rows` are the phases other than sums and copies of them, each with the lanes that it may have.
    """

    first: int
    last: int
    letters: tuple[str, ...]
    arrays: tuple[str, ...]
    rows: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Blocked:
    """The blocks of a call: members of the kernel's `opwright_blocks`, and the products that it computes by rows."""

    count: int
    tasks: int
    packed: int
    bytes: int
    scratch: int
    copied: int  # bytes, while operands are packed
    at: Mapping[str, int]  # of arrays, in the memory of a block
    each: tuple[int, ...]  # bytes of every array that a task has
    products: Mapping[int, int]  # by number, where what is packed begins
    schedule: Schedule

    def put(self, sizes: Any) -> None:
        """Fill in what a kernel reads; the products themselves are there."""
        for name in ("count", "tasks", "packed", "bytes", "scratch"):
            setattr(sizes.blocks_, name, getattr(self, name))
        for name, begin in self.at.items():
            setattr(sizes, f"{name}_at", begin)
        sizes.each_ = self.each
        for number, begin in self.products.items():
            sizes.products_[number].packed = begin

    def memory(self, workers: int) -> int:
        """Bytes beside those of the steps."""
        return self.packed + max(self.copied, self.bytes * workers)

    def described(self) -> str:
        """The blocks in words."""
        most = -(-self.tasks // self.count)
        return f"{self.schedule.name}: {self.count} of up to {most} of {self.tasks} tasks; {self.schedule.then}"


def blocked(
    own: Blocks,
    contractions: Sequence[Contraction],
    products: Mapping[int, Product],
    sizes: Sizes,
    lanes: Sequence[int],
) -> Blocked | None:
    """The blocks of a call, where all phases can go by blocks and the schedule says so."""
    numbers = [n for n, one in enumerate(contractions) if own.first <= one.phase < own.last]
    tasks = prod(extent for letter in own.letters for extent in sizes.resolution.letters[letter])
    fitting = all(lanes[phase] in some for phase, some in own.rows)
    if tasks == 0 or not fitting or not all(number in products for number in numbers):
        return None
    cells = {name: sizes.resolution.between[name][1][0] // tasks for name in own.arrays}
    gone = {contractions[n].target.array for n in numbers if products[n].destination != STORED}
    stored = {name: n for name, n in cells.items() if name not in gone}
    rows = []
    for number in numbers:
        one, product = contractions[number], products[number]
        after = (own.first <= one.copy < own.last) or bool(one.finish)
        if not product.engine.blocks or (after and product.destination == STORED):
            return None
        out = one.target.array in stored or product.destination == FINISHED
        given = [stored.get(side.array, 0) for side in (one.left, one.right)]
        rows.append(_rows(product, tasks, [*given, cells[one.target.array] if out else 0]))
    if 0 in rows:
        return None
    each = {name: n * sizes.itemsize(name) for name, n in stored.items()}
    packed = [_call(products[n], "packed", 1) for n in numbers]
    phases = Phases(tasks, min(rows), sum(each.values()), sum(_call(products[n], "packed", 0) for n in numbers))
    count, row = in_blocks(phases)
    if not count:
        return None
    most = -(-tasks // count)
    ends = [lines(most * each.get(name, 0)) for name in own.arrays]
    scratch = max(_call(products[n], "block_scratch", most) for n in numbers)
    return Blocked(
        count=count,
        tasks=tasks,
        packed=sum(map(lines, packed)),
        bytes=sum(ends) + lines(scratch),
        scratch=sum(ends),
        copied=max(_call(products[n], "copied") for n in numbers),
        at={name: sum(ends[:n]) for n, name in enumerate(own.arrays)},
        each=tuple(each.get(name, 0) for name in own.arrays),
        products={number: sum(map(lines, packed[:n])) for n, number in enumerate(numbers)},
        schedule=row,
    )


def _rows(product: Product, tasks: int, cells: Sequence[int]) -> int:
    """The rows of each product, as they are or with the operands exchanged; 0 where tasks are not such rows."""
    for swapped in (0, 1):
        product.problem.swapped = swapped
        found = int(product.engine.of_blocks("rows")(product.problem, tasks, cells))
        if found:
            return found
    product.problem.swapped = 0
    return 0


def _call(product: Product, what: str, *rest: int) -> int:
    return int(product.engine.of_blocks(what)(product.problem, *rest))
