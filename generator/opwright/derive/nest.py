"""From an operation's assignment to a loop nest in gather form: every output cell collects its own terms.

In: an operation, the word chosen for each layout attribute, and a group class. Out: a `Nest`, a language-neutral
plan of loops, bounds and accesses that emit/lowering.py makes C of. Nothing about any operation is known here; the nest
is derived by solving the assignment's index expressions:

- An output axis whose index is a mixed radix of letters (`g * (OC / G) + o`) is walked by those letters.
- Any other output axis (`i * S + k * D - PB`) is walked by its position, and the equation is solved for one
  letter: the remaining letter then visits only values that divide, by stepping, so that no tap is tested inside.
- An index that may leave its axis narrows the loop of its innermost letter: cells that do not exist are never
  visited, whatever the other operand holds.
- The innermost loop is the letter with the most contiguous accesses: an output letter (lanes of accumulators)
  or a reduction letter (a dot product).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..language import expr
from ..language.expr import Read
from ..language.model import GroupClass, Op
from ..language.source import Mark, Problem, SpecInvalid
from .access import Access, Axis, access, merged, mixed_radix
from .algebra.poly import ONE, ZERO, Affine, NotPolynomial, Poly
from .expansion import expansion

# The most common reason why letters do not walk an output axis alone.
PRODUCT = "; if letters together walk a whole axis, its extent is their product, as in shape: {Z: C * K} for c * K + k"
# A letter that is usually shorter than this does not become the innermost loop if another one can.
WORTHWHILE = 8


@dataclass(frozen=True)
class Within:
    """`0 <= index < extent`."""

    index: Affine
    extent: Affine


@dataclass(frozen=True)
class Solved:
    """`scale * letter == right`, with letter in [0, extent)."""

    letter: str
    extent: Poly
    scale: Poly
    right: Affine


@dataclass(frozen=True)
class Loop:
    """A loop over a letter in [0, extent), narrowed by `within`, stepped so that `solved` divides."""

    letter: str
    extent: Poly
    within: tuple[Within, ...] = ()
    tested: tuple[Within, ...] = ()
    solved: Solved | None = None


@dataclass(frozen=True)
class Lanes:
    """The innermost loop if it runs along the output: `position` is the walked output letter, cut into blocks.

    `cell` is the position in terms of the inner loop; it equals `position` unless the axis was solved.
    """

    position: str
    extent: Poly
    cell: Affine


@dataclass(frozen=True)
class Nest:
    """The loops of one kernel, outermost first."""

    outputs: tuple[tuple[str, Poly], ...]
    lanes: Lanes | None
    before: tuple[Within | Solved, ...]
    guards: tuple[expr.Expr, ...]
    reductions: tuple[Loop, ...]
    inner: Loop | None
    target: Access
    reads: tuple[tuple[Read, Access], ...]
    finish_reads: tuple[tuple[Read, Access], ...]


def derive(op: Op, layouts: Mapping[str, str], group_class: GroupClass | None) -> Nest:
    """The loop nest of one variant. Raises SpecInvalid if the assignment has no gather form."""
    try:
        return _Derivation(op, layouts, group_class).nest()
    except NotPolynomial as error:
        raise SpecInvalid([Problem(op.semantics.assignment.at, "semantics-index", str(error))]) from None


class _Derivation:
    def __init__(self, op: Op, layouts: Mapping[str, str], group_class: GroupClass | None) -> None:
        self.op = op
        self.mark: Mark = op.semantics.assignment.at
        self.expansion = expansion(op, group_class.name if group_class else None)
        self.ones = self.expansion.ones
        self.extents = {letter: extent for letter, extent in self.expansion.extents.items() if letter not in self.ones}
        self.layouts = layouts
        assignment = op.semantics.assignment
        self.target = self.access(assignment.target)
        self.reads = [(read, self.access(read)) for read in dict.fromkeys(expr.reads(assignment.value))]

    def access(self, read: Read) -> Access:
        expansion = self.expansion
        raw = access(self.op, read, self.layouts, expansion, expansion.letters, expansion.vector_letters).substitute(
            self.ones
        )
        if len(raw.arrangements) > 1:
            self.stays_inside(raw)
        return merged(raw, self.ones)

    def stays_inside(self, accessed: Access) -> None:
        """Arrangements share their bounds, so each must walk exactly its axes, and by the same letters."""
        walked = []
        for axes in accessed.arrangements:
            radix = [self.stays(axis) for axis in axes]
            if None in radix:
                raise self.fail(
                    f"an arrangement of '{accessed.tensor}' does not walk exactly its axes;"
                    " no single bound would be safe"
                )
            walked.append(sorted(letter for letters in radix for letter in letters or ()))
        if any(letters != walked[0] or len(set(letters)) < len(letters) for letters in walked):
            raise self.fail(f"the arrangements of '{accessed.tensor}' do not walk the same elements")

    def fail(self, message: str) -> SpecInvalid:
        return SpecInvalid([Problem(self.mark, "semantics-unsolvable", message)])

    def nest(self) -> Nest:
        outputs: list[tuple[str, Poly]] = []
        general: dict[str, Axis] = {}
        taken: set[str] = set()
        for axis in self.target.arrangements[0]:
            letters = self.walked(axis)
            if letters is None:
                position = f"{self.target.tensor}_{axis.name.removeprefix('X_').lower()}"
                general[position] = axis
                outputs.append((position, axis.extent))
                continue
            if taken & set(letters):
                raise self.fail("a range letter may walk one axis of the output only")
            taken |= set(letters)
            outputs += [(letter, self.extents[letter]) for letter in letters]
        free = [letter for letter in self.extents if letter not in taken]
        lane, dot, solves = self.choose_inner(outputs, general, free)
        return self.assemble(outputs, general, free, lane, dot, solves)

    def solvable(self, axis: Axis, free: Sequence[str], used: set[str]) -> str:
        """The letter that an output axis' equation is solved for: the first with a factor of known sign."""
        for letter in axis.index.letters:
            if (
                letter in free
                and letter not in used
                and self.expansion.positive(axis.index.coefficient(letter)) is not None
            ):
                return letter
        raise self.fail(
            f"the index of output axis {axis.name} cannot be solved for a letter: it needs one whose factor has"
            f" a known sign and for which no other axis is solved{PRODUCT}"
        )

    def choose_inner(
        self, outputs: Sequence[tuple[str, Poly]], general: Mapping[str, Axis], free: Sequence[str]
    ) -> tuple[str | None, str | None, dict[str, str]]:
        used: set[str] = set()
        solves: dict[str, str] = {}
        for position, axis in general.items():
            solves[position] = self.solvable(axis, free, used)
            used.add(solves[position])
        best: tuple[int, int, int] | None = None
        choice: tuple[str | None, str | None] = (None, None)
        # An equation moves another letter together with this one, so it is never a contiguous walk.
        tied = {letter for axis in general.values() for letter in axis.index.letters}
        reductions = [letter for letter in free if letter not in tied]
        candidates = [(position, solves.get(position, position), True) for position, _ in outputs]
        candidates += [(letter, letter, False) for letter in reductions]
        for order, (name, letter, is_output) in enumerate(candidates):
            score = sum(self.contiguity(accessed, letter) for _, accessed in self.reads)
            score += self.contiguity(self.target, letter)
            worth = int(self.typical(letter) >= WORTHWHILE)
            rank = (worth, score, order if is_output else -1)
            if best is None or rank > best:
                best = rank
                choice = (name, None) if is_output else (None, letter)
        return choice[0], choice[1], solves

    def typical(self, letter: str) -> int:
        symbols = {name.split("_")[0] for name in self.expansion.extents[letter].symbols}
        found = [dim.typical or 16 for dim in self.op.dims.values() if dim.symbol in symbols]
        return max(found, default=1)

    def contiguity(self, accessed: Access, letter: str) -> int:
        """2 if the address stays or moves by one element, 1 if by a stride along the innermost axis, else 0."""
        return min(
            2 if coefficient in (ZERO, ONE) else 1 if axes[-1].index.coefficient(letter) == coefficient else 0
            for coefficient, axes in zip(accessed.coefficient(letter), accessed.arrangements)
        )

    def assemble(
        self,
        outputs: list[tuple[str, Poly]],
        general: Mapping[str, Axis],
        free: Sequence[str],
        lane: str | None,
        dot: str | None,
        solves: Mapping[str, str],
    ) -> Nest:
        letters_known = dict(outputs)
        inner_letter = dot
        lanes: Lanes | None = None
        conditions: list[Within | Solved] = []
        for position, axis in general.items():
            letter = solves[position]
            if position == lane:
                lanes = Lanes(position, axis.extent, axis.index)
                inner_letter = letter
                continue
            scale = axis.index.coefficient(letter)
            right = Affine.letter(position) - axis.index.without(letter)
            if self.expansion.positive(scale) is False:
                scale, right = -scale, right.scaled(Poly.number(-1))
            conditions.append(Solved(letter, self.extents[letter], scale, right))
        if lane is not None and lanes is None:
            lanes = Lanes(lane, letters_known[lane], Affine.letter(lane))
            inner_letter = lane
        solved = {c.letter for c in conditions if isinstance(c, Solved)}
        order = [letter for letter in free if letter not in solved and letter != inner_letter]
        conditions += [
            Within(axis.index, Affine.of({}, axis.extent))
            for _, accessed in self.reads
            for axis in accessed.arrangements[0]
            if self.may_leave(axis, letters_known)
        ]
        loops, before = self.place(dict.fromkeys(conditions), order, inner_letter, solved)
        inner = loops.pop() if inner_letter is not None else None
        return Nest(
            outputs=tuple((letter, extent) for letter, extent in outputs if letter != lane),
            lanes=lanes,
            before=before,
            guards=tuple(guard.tree for guard in self.op.semantics.where),
            reductions=tuple(loops),
            inner=inner,
            target=self.at_position(general),
            reads=tuple(self.reads),
            finish_reads=self.finish_reads(general),
        )

    def may_leave(self, axis: Axis, positions: Mapping[str, Poly]) -> bool:
        if axis.index.letters or axis.index.offset != ZERO:
            return self.stays(axis, positions) is None
        return not self.expansion.positive(axis.extent)

    def walked(self, axis: Axis, positions: Mapping[str, Poly] = MappingProxyType({})) -> tuple[str, ...] | None:
        """The letters that walk exactly an axis, if they do; named values count as their definitions."""
        defined, extents = self.expansion.defined, {**self.extents, **positions}
        try:
            index, extent = axis.index.with_symbols(defined), axis.extent.substitute(defined)
            extents = {letter: extent.substitute(defined) for letter, extent in extents.items()}
        except NotPolynomial:
            index, extent = axis.index, axis.extent
        return mixed_radix(index, extent, extents)

    def stays(self, axis: Axis, positions: Mapping[str, Poly] = MappingProxyType({})) -> tuple[str, ...] | None:
        """The same, for letters that may walk the axis from its end."""
        last = Affine.of({}, axis.extent - ONE)
        back = dataclasses.replace(axis, index=last - axis.index)
        forth = self.walked(axis, positions)
        return self.walked(back, positions) if forth is None else forth

    def place(
        self, conditions: Mapping[Within | Solved, None], order: Sequence[str], inner: str | None, solved: set[str]
    ) -> tuple[list[Loop], tuple[Within | Solved, ...]]:
        """Every condition at the innermost loop that it depends on; others come before all loops."""
        sequence = [*order, *([inner] if inner is not None else [])]
        loops = {letter: Loop(letter, self.extents[letter]) for letter in sequence}
        before: list[Within | Solved] = []
        reached = {letter: letter for letter in sequence}
        for condition in sorted(conditions, key=lambda c: isinstance(c, Within)):
            index = condition.right if isinstance(condition, Solved) else condition.index
            inside = [sequence.index(reached[letter]) for letter in index.letters if letter in reached]
            if not inside:
                before.append(condition)
                continue
            loop = loops[sequence[max(inside)]]
            # A solved letter moves with the loop's own, so an index of both has no bounds here.
            direct = [letter for letter in index.letters if reached.get(letter) == loop.letter] == [loop.letter]
            sure = direct and self.expansion.positive(index.coefficient(loop.letter)) is not None
            if isinstance(condition, Solved):
                if not sure or loop.solved or loop.letter == inner:
                    raise self.fail(
                        "two output axes depend on the same range letter; the gather form would need a test per tap"
                        + PRODUCT
                    )
                loops[loop.letter] = dataclasses.replace(loop, solved=condition)
                reached[condition.letter] = loop.letter
            elif sure:
                loops[loop.letter] = dataclasses.replace(loop, within=(*loop.within, condition))
            else:
                loops[loop.letter] = dataclasses.replace(loop, tested=(*loop.tested, condition))
        return [loops[letter] for letter in sequence], tuple(before)

    def at_position(self, general: Mapping[str, Axis]) -> Access:
        """The target as addressed by the store: solved axes by their position."""
        names = {axis.name: position for position, axis in general.items()}
        arrangements = tuple(
            tuple(
                dataclasses.replace(axis, index=Affine.letter(names[axis.name])) if axis.name in names else axis
                for axis in axes
            )
            for axes in self.target.arrangements
        )
        return Access(self.target.tensor, arrangements)

    def finish_reads(self, general: Mapping[str, Axis]) -> tuple[tuple[Read, Access], ...]:
        finish = self.op.semantics.finish
        if finish is None:
            return ()
        output = next(read for read in expr.reads(finish.tree) if read.tensor == self.op.output.name)
        formals = [index.id for index in output.indices if isinstance(index, expr.Name)]
        target = self.at_position(general)
        vectors: set[str] = set()
        cells: dict[str, Affine] = {}
        for formal, (axis, extent) in zip(formals, self.formal_axes()):
            vector = bool(expr.loose_names(extent) & self.expansion.vectors)
            if vector:
                vectors.add(formal)
            for (name, _), (copy, _) in zip(self.expansion.copies(formal, vector), self.expansion.copies(axis, vector)):
                cells[name] = next(found.index for found in target.arrangements[0] if found.name == copy)
        result = []
        for read in dict.fromkeys(expr.reads(finish.tree)):
            if read.tensor != self.op.output.name:
                raw = access(self.op, read, self.layouts, self.expansion, formals, vectors)
                result.append((read, merged(raw.substitute(cells), self.ones)))
        return tuple(result)

    def formal_axes(self) -> list[tuple[str, expr.Expr]]:
        dims = self.op.output.dims
        return [(axis, extent.tree) for axis, extent in dims.items()]
