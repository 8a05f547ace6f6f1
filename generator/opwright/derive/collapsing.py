"""Which sizes a call may put together: a call of extents H and W is one of 1 and H * W, where arrays allow it.

In: an operation of steps. Out: chains of sizes, each with its letters and the axes of tensors that have it. Kernels see
of such sizes only their letters, which walk whole axes side by side in every array, and their product. So a
call whose arrays go through two of these axes as through one tells kernels the merged extents, and loops become long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..language import expr
from ..language.expr import Binary, Expr, Name, Read
from ..language.model import Op
from ..memo import memoised
from .phases import Staged, staged
from .program import Part, Program

Partners = dict[str, str]

PHASES = 63  # of which a word of 64 bits says something


@dataclass(frozen=True)
class Chain:
    """Sizes from the outermost to the innermost: the letters of each, and by tensor the axes that have them.

    `apart`: the phases whose merged form tells the sizes apart. It may not run where they are one.
    """

    sizes: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    axes: Mapping[str, tuple[str, ...]]
    apart: tuple[int, ...] = ()


@memoised
def collapsible(op: Op) -> tuple[Chain, ...]:
    """The chains of an operation, those that merged forms tell apart last.

    Joined inputs are processed in slices, whose sizes change.
    """
    if any(tensor.joined for tensor in op.tensors):
        return ()
    found = staged(op)
    sizes = _sizes(found.program, op, "one")
    others = {number for number, phase in enumerate(found.phases[:PHASES]) if len(phase.lanes) > 1}
    alike = tuple(_chain(found.program, op, *one) for one in _chained(found, sizes, set()))
    more = tuple(_chain(found.program, op, *one) for one in _chained(found, sizes, others) if one[1])
    return alike + more


def _chained(found: Staged, sizes: Sequence[str], others: set[int]) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Sizes that are told apart nowhere but in merged forms of phases in `others`, and which phases these are."""
    chains: list[tuple[list[str], set[int]]] = []
    for inner in sizes:
        for chain, apart in chains:
            own = _apart(found, chain[-1], inner)
            if own is not None and own <= others:
                chain.append(inner)
                apart |= own
                break
        else:
            chains.append(([inner], set()))
    yield from ((chain, tuple(sorted(apart))) for chain, apart in chains if len(chain) > 1)


@memoised
def exchangeable(op: Op) -> tuple[tuple[str, str], ...]:
    """Pairs of runs that kernels do not tell apart: where the inner one has one cell, it may have the outer one's axes.

    Softmax over the last axis of 2048 x 8 takes 0.1 of its time: its lanes go along rows, which the run before that
    axis counts, and not along the one cell behind it (AMD Zen 4, gcc 12.2, f32).
    """
    found = staged(op)
    if any(tensor.joined for tensor in op.tensors) or any(phase.contraction for phase in found.phases):
        return ()
    runs = _sizes(found.program, op, "run")
    return tuple(pair for pair in pairwise(runs) if _apart(found, *pair) == set())


def _chain(program: Program, op: Op, sizes: list[str], apart: tuple[int, ...]) -> Chain:
    letters = tuple(tuple(n for n, axis in program.letters.items() if axis.extent == Name(size)) for size in sizes)
    axes = {
        tensor.name: tuple(
            axis.name for size in sizes for axis in program.arrays[tensor.name].axes if axis.extent == Name(size)
        )
        for tensor in op.tensors
        if tensor.name in program.arrays
    }
    return Chain(tuple(sizes), letters, {name: found for name, found in axes.items() if found}, apart)


def _sizes(program: Program, op: Op, kind: str) -> list[str]:
    """The sizes that axes of tensors have alone, or the runs."""
    arrays = [program.arrays[tensor.name] for tensor in op.tensors if tensor.name in program.arrays]
    axes = [axis for array in arrays for axis in array.axes if axis.kind == kind]
    return list(dict.fromkeys(axis.extent.id for axis in axes if isinstance(axis.extent, Name)))


def _apart(found: Staged, outer: str, inner: str) -> set[int] | None:
    """The phases in whose merged form two sizes do not stand beside each other wherever one does; None if they do not

    in the program itself, or if tasks have the letter of one alone.
    """
    pairs = _partners(found.program, outer, inner)
    if pairs is None or not _together(pairs, [{*phase.own} for phase in found.phases]):
        return None
    forms = {number: phase.merged.program for number, phase in enumerate(found.phases) if phase.merged is not None}
    return {number for number, program in forms.items() if _partners(program, outer, inner) is None}


def _together(partners: Partners, owned: list[set[str]]) -> bool:
    """Whether tasks have both letters of a pair or none."""
    return all((outer in own) == (inner in own) for outer, inner in partners.items() for own in owned)


def _partners(program: Program, outer: str, inner: str) -> Partners | None:
    """By letter of the outer size the one of the inner size beside it; None if some use tells the two sizes apart."""
    found: Partners = {}
    both = (Name(outer), Name(inner))
    for part in program.parts:
        for read in (part.target, *part.reads):
            pair = _pair(program, read, outer, inner)
            if pair is None or any(found.setdefault(*two) != two[1] for two in pair):
                return None
    walked = {name for name, axis in program.letters.items() if axis.extent in both}
    paired = {*found, *found.values()}
    trees = [axis.extent for array in program.arrays.values() for axis in array.axes if axis.extent not in both]
    trees += [axis.extent for name, axis in program.letters.items() if name not in walked]
    for part in program.parts:
        used = [guard.tree for guard in part.where] + [formula.value for formula in part.formulas]
        trees += used
        alike = ((one in some) == (other in some) for one, other in found.items() for some in _letters(part))
        if any(_loose(tree) & paired for tree in (part.target, *used)) or not all(alike):
            return None
    counts = ([sum(axis.extent == one for axis in array.axes) for one in both] for array in program.arrays.values())
    whole = walked == paired and len({*found.values()}) == len(found) > 0
    sides = all(count in ([0, 0], [1, 1]) for count in counts)
    return found if whole and sides and all(_balanced(tree, outer, inner) for tree in trees) else None


def _letters(part: Part) -> tuple[tuple[str, ...], ...]:
    return part.letters, part.unless_empty


def _pair(program: Program, read: Read, outer: str, inner: str) -> list[tuple[str, str]] | None:
    """The letters on the two axes of an element, if it has them; None if anything else stands there."""
    axes = program.arrays[read.tensor].axes
    at = {
        axis.extent.id: index
        for axis, index in zip(axes, read.indices, strict=True)
        if isinstance(axis.extent, Name) and axis.extent.id in (outer, inner)
    }
    letters, both = program.letters, (Name(outer), Name(inner))
    apart = (index for axis, index in zip(axes, read.indices, strict=True) if axis.extent not in both)
    if any(isinstance(one, Name) and one.id in letters and letters[one.id].extent in both for one in apart):
        return None  # it walks an axis of another extent, where it may end before
    if len(at) < 2:
        return None if at else []
    for size, index in at.items():
        if not isinstance(index, Name) or index.id not in letters or letters[index.id].extent != Name(size):
            return None
    one, other = at[outer], at[inner]
    return [(one.id, other.id)] if isinstance(one, Name) and isinstance(other, Name) else None


def _loose(tree: Expr) -> frozenset[str]:
    """The names of a tree; of elements only those in indices of several names."""
    if isinstance(tree, Name):
        return frozenset((tree.id,))
    children = expr.children(tree)
    plain = (child for child in children if not (isinstance(tree, Read) and isinstance(child, Name)))
    return frozenset[str]().union(*map(_loose, plain))


def _balanced(tree: Expr, outer: str, inner: str) -> bool:
    """Whether a tree has both sizes only as factors of the same products."""
    if isinstance(tree, Binary) and tree.op == "*":
        factors = list(_factors(tree))
        counts = [factors.count(Name(size)) for size in (outer, inner)]
        rest = (one for one in factors if one not in (Name(outer), Name(inner)))
        return counts[0] == counts[1] and all(_balanced(one, outer, inner) for one in rest)
    if isinstance(tree, Name):
        return tree.id not in (outer, inner)
    return all(_balanced(child, outer, inner) for child in expr.children(tree))


def _factors(tree: Expr) -> Iterator[Expr]:
    if isinstance(tree, Binary) and tree.op == "*":
        yield from _factors(tree.left)
        yield from _factors(tree.right)
    else:
        yield tree
