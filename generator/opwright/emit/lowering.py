"""From a nest to the part that all kernels of a layout and a group class share, regardless of data types.

In: an operation, its nest, a group class. Out: a `Lowered`: constants per scope, the heads of the loops and tests in
order, the reads, and the write. kernels.py adds loads, arithmetic and stores for
a dtype row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ..derive.access import Access
from ..derive.algebra.poly import ONE, Affine
from ..derive.nest import Loop, Nest, Solved, Within
from ..language import expr
from ..language.expr import Read
from ..language.model import GroupClass, Op
from . import nodes
from .addresses import Addresses
from .arithmetic import is_integer_leaf
from .nodes import Binary, Carried, Declare, Expr, For, If, Index, Name
from .ranges import Ranges, range_of
from .scopes import LANE, TASK, Scopes, own_names

LANES = 64


@dataclass(frozen=True)
class Block:
    """How the output is split into blocks of accumulators: the letter, and its bounds."""

    letter: str
    begin: str
    end: str
    extent: Expr


@dataclass(frozen=True)
class Lowered:
    """A kernel without its dtypes. `heads` are loops and tests without bodies, outermost first."""

    constants: tuple[Declare, ...]
    tasks: Expr
    task_constants: tuple[Declare, ...]
    block: Block | None
    block_constants: tuple[Declare, ...]
    cells: For | None
    heads: tuple[tuple[For | If, tuple[Declare, ...]], ...]
    order: tuple[str, ...]
    elements: Mapping[Read, Index]
    finish_elements: Mapping[Read, Index]
    integers: Mapping[expr.Expr, Expr]
    lane: Expr | None
    stored_at: Expr


def lowered(op: Op, nest: Nest, group: GroupClass | None) -> Lowered:
    """The order of the steps is that of the scopes: outer ones come first."""
    return _Lowering(op, nest, group).lowered()


class _Lowering:
    def __init__(self, op: Op, nest: Nest, group: GroupClass | None) -> None:
        self.op, self.nest = op, nest
        self.scopes = Scopes(op, group)
        self.addresses = Addresses(self.scopes, nest)
        self.ranges = Ranges(self.scopes)
        self.heads: list[tuple[For | If, int | None]] = []
        # A dot product walks the last output letter inside a task, so that all its cells share a task's bounds.
        self.cells = nest.outputs[-1] if nest.outputs and nest.lanes is None else None
        self.tasks = nest.outputs[:-1] if self.cells else nest.outputs
        self.scopes.level |= {letter: TASK for letter, _ in self.tasks}
        if self.cells:
            self.scopes.level[self.cells[0]] = LANE

    def lowered(self) -> Lowered:
        scopes = self.scopes
        for name in (*(tensor.name for tensor in self.op.tensors), *(letter for letter, _ in self.nest.outputs)):
            scopes.take(name)
        extents = [scopes.poly(extent) for _, extent in self.tasks]
        decoded = self.decoded(extents)
        block = self.block()
        stored_at = self.stored_at(block)
        self.walk(block)
        inner = self.nest.inner.letter if self.nest.inner is not None else None
        elements = self.elements(inner)
        lane = self.lane(block, inner)
        finish_elements = self.finish_elements()
        integers = self.integers()
        cells = None
        if self.cells:
            letter, extent = self.cells
            cells = For(letter, nodes.ZERO, scopes.poly(extent), (), source=range_of(letter))
        constants = scopes.constants()
        declared = [tuple(scope) for scope in scopes.declared]
        return Lowered(
            constants=constants,
            tasks=nodes.product(extents),
            task_constants=(*decoded, *declared[TASK]),
            block=block,
            block_constants=declared[LANE],
            cells=cells,
            heads=tuple((head, () if scope is None else declared[scope]) for head, scope in self.heads),
            order=self.order(),
            elements=elements,
            finish_elements=finish_elements,
            integers=integers,
            lane=lane,
            stored_at=stored_at,
        )

    def decoded(self, extents: list[Expr]) -> tuple[Declare, ...]:
        """The outer letters from a task number, the last one fastest."""
        result = []
        for position, (letter, _) in enumerate(self.tasks):
            value: Expr = Name(own_names(self.op)["task"])
            if inner := extents[position + 1 :]:
                value = Binary("/", value, nodes.product(inner))
            if position:
                value = Binary("%", value, extents[position])
            result.append(Declare(letter, value, source=range_of(letter)))
        return tuple(result)

    def block(self) -> Block | None:
        lanes = self.nest.lanes
        if lanes is None:
            return None
        begin, end = self.scopes.take(f"{lanes.position}_from"), self.scopes.take(f"{lanes.position}_to")
        self.scopes.level |= {begin: LANE, end: LANE}
        return Block(self.scopes.take(lanes.position), begin, end, self.scopes.poly(lanes.extent))

    def stored_at(self, block: Block | None) -> Expr:
        """The address of a stored cell: a base, and the stride of the block's letter."""
        target = self.nest.target
        position = block.letter if block else None
        base, letters = self.addresses.base(target, position)
        level = max(self.scopes.level_of(letters), TASK)
        at = self.addresses.declared(target, f"{target.tensor}_at", level, base)
        return at if position is None else self.addresses.moved(at, target, position, f"{target.tensor}_step")

    # The reductions, each nested in the previous one.

    def order(self) -> tuple[str, ...]:
        """The reduction letters, outermost first."""
        inner = self.nest.inner if self.nest.lanes is None else None
        return tuple(loop.letter for loop in (*self.nest.reductions, *([inner] if inner else [])))

    def walk(self, block: Block | None) -> None:
        """Records the heads of all loops, and every test as soon as its letters are known."""
        nest = self.nest
        self.tests([self.before(condition) for condition in nest.before])
        loops = [*nest.reductions, *([nest.inner] if nest.inner is not None else [])]
        waiting = {letter for loop in loops for letter in (loop.letter, *([loop.solved.letter] if loop.solved else []))}
        for letter in waiting:
            self.scopes.level.setdefault(letter, 0)
        pending = self.guards()

        def due() -> None:
            """The guards whose letters are all known."""
            for guard in [guard for guard in pending if not guard[1] & waiting]:
                pending.remove(guard)
                self.heads.append((guard[0], None))

        due()
        for loop in loops:
            if loop is nest.inner:
                self.inner_loop(loop, block)
            else:
                self.nested_loop(loop)
            waiting -= {loop.letter, loop.solved.letter if loop.solved else loop.letter}
            self.tests([self.ranges.inside(test) for test in loop.tested])
            due()

    def tests(self, conditions: list[list[Expr]]) -> None:
        self.heads += [(If(nodes.both(parts), (), source="semantics.reduce"), None) for parts in conditions]

    def before(self, condition: Within | Solved) -> list[Expr]:
        """A condition without reduction letters: a test before the nest."""
        return self.ranges.inside(condition) if isinstance(condition, Within) else self.ranges.solution(condition)

    def guards(self) -> list[tuple[If, set[str]]]:
        """The tests of `where`, one per spatial axis if they compare vectors, with the letters that they need."""
        expansion = self.scopes.expansion
        result = []
        for number, guard in enumerate(self.nest.guards):
            vectors = expr.names(guard) & (expansion.vectors | expansion.vector_letters)
            for suffix in expansion.suffixes if vectors else (None,):
                letters = {f"{name}_{suffix}" if name in vectors else name for name in expr.names(guard)}
                test = If(self.scopes.corrected(guard, suffix, True), (), source=f"semantics.where.{number}")
                result.append((test, letters & self.scopes.level.keys()))
        return result

    def nested_loop(self, loop: Loop) -> None:
        """A reduction loop; its letter becomes known one scope further in."""
        solved, scopes, source = loop.solved, self.scopes, range_of(loop.letter)
        low, high, level = self.ranges.of_loop(loop, (), None)
        if solved is not None:
            level = max(level, TASK)
        if loop.within or solved is not None:
            high = Name(scopes.define(level, f"{loop.letter}_end", high, source))
            if solved is not None and solved.scale != ONE:
                low = self.ranges.first_that_divides(loop, solved, level, low, high)
            low = Name(scopes.define(level, f"{loop.letter}_begin", low, source))
        head = For(loop.letter, low, high, (), source=source)
        scope = scopes.opened()
        scopes.level[scopes.take(loop.letter)] = scope
        if solved is not None:
            if solved.scale == ONE:
                scopes.define(scope, solved.letter, scopes.affine(solved.right), range_of(solved.letter))
            else:
                head = self.stepped(head, loop, solved, level)
            scopes.level[solved.letter] = scope
        self.heads.append((head, scope))

    def stepped(self, head: For, loop: Loop, solved: Solved, level: int) -> For:
        """The loop that updates the solved letter, which moves by a constant from one solution to the next."""
        step, solved_step = self.ranges.steps(loop, solved)
        begin = Affine.of({f"{loop.letter}_begin": solved.right.coefficient(loop.letter)})
        first = self.scopes.affine(solved.right.without(loop.letter) + begin)
        value = Binary("/", first, self.scopes.poly(solved.scale))
        source = range_of(solved.letter)
        solved_begin = self.scopes.define(level, f"{solved.letter}_begin", value, source)
        carried = Carried(self.scopes.take(solved.letter), Name(solved_begin), Name(solved_step))
        return dataclasses.replace(head, step=Name(step), carried=carried)

    def inner_loop(self, loop: Loop, block: Block | None) -> None:
        """The innermost loop: over the lanes of a block, or over a reduction."""
        cut: tuple[Expr, Expr] | None = None
        reach: tuple[Within, ...] = ()
        if block is not None and self.nest.lanes is not None:
            cell = self.nest.lanes.cell
            if cell == Affine.letter(block.letter):
                cut = (Name(block.begin), Name(block.end))
            else:
                first, end = Affine.letter(block.begin), Affine.letter(block.end)
                reach = (Within(cell - first, end - first),)
        low, high, level = self.ranges.of_loop(loop, reach, cut)
        source = range_of(loop.letter)
        if loop.within or reach:
            low = Name(self.scopes.define(level, f"{loop.letter}_begin", low, source))
            high = Name(self.scopes.define(level, f"{loop.letter}_end", high, source))
        if block is None or block.letter != loop.letter:
            self.scopes.take(loop.letter)
        scope = self.scopes.opened()
        self.scopes.level[loop.letter] = scope
        self.heads.append((For(loop.letter, low, high, (), source=source), scope))

    # Reads of the innermost statement and the store.

    def elements(self, inner: str | None) -> dict[Read, Index]:
        counted: dict[str, int] = {}
        elements = {}
        for read, accessed in self.nest.reads:
            number = counted[read.tensor] = counted.get(read.tensor, 0) + 1
            name = read.tensor if number == 1 else f"{read.tensor}{number}"
            elements[read] = self.addresses.element(accessed, name, inner)
        return elements

    def lane(self, block: Block | None, inner: str | None) -> Expr | None:
        """The cells of the block that the innermost statement adds to."""
        if block is None or self.nest.lanes is None:
            return None
        offset = self.nest.lanes.cell - Affine.letter(block.begin)
        base = offset.without(inner or "")
        if len(base.letters) > 1 and inner:
            level = self.scopes.level_of(base.letters)
            at = self.scopes.define(level, f"{block.letter}_at", self.scopes.affine(base), range_of(inner))
            offset = Affine.of({at: ONE, inner: offset.coefficient(inner)})
        return self.scopes.affine(offset)

    def finish_elements(self) -> dict[Read, Index]:
        def element(accessed: Access) -> Index:
            return Index(Name(accessed.tensor), self.addresses.base(accessed, None)[0])

        return {read: element(accessed) for read, accessed in self.nest.finish_reads}

    def integers(self) -> dict[expr.Expr, Expr]:
        """The parts of values that are computed in integers; each kernel counts its terms itself."""
        semantics = self.op.semantics
        trees = [semantics.assignment.value, *([semantics.finish.tree] if semantics.finish else [])]
        leaves = [leaf for tree in trees for leaf in _integer_leaves(tree) if leaf != expr.Name("count")]
        return {leaf: self.scopes.integer(leaf) for leaf in leaves}


def _integer_leaves(tree: expr.Expr) -> list[expr.Expr]:
    """The integer parts of a value, outside the indices of its reads."""
    if is_integer_leaf(tree):
        return [tree]
    return [] if isinstance(tree, Read) else [leaf for child in expr.children(tree) for leaf in _integer_leaves(child)]
