"""The view of the Python module of an operation of steps: its signature, and its rules as a list of statements.

In: an operation of steps. Out: nodes for the templates under templates/python. The positions of axes are computed here
as far as the spec determines them: at most one run of a tensor has a length that only its shape determines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...derive.algebra import slopes
from ...derive.alike import Inputs, alike, unlike
from ...derive.arguments import in_place, is_separable
from ...derive.collapsing import Chain, collapsible, exchangeable
from ...derive.crossing import place
from ...derive.lanes import apart, copied_row, moved
from ...derive.narrow import dtype_of
from ...derive.phases import Phase, Staged, staged
from ...derive.picking import looked_up, picked
from ...derive.program import Array, Axis, Part, list_dtype, program
from ...derive.rewrites.growing import growing
from ...derive.rewrites.named_cells import at_named, indicated
from ...derive.rewrites.needed import needed
from ...derive.rewrites.parted import parted
from ...derive.rewrites.sharing import COSTLY
from ...derive.roles import role_table
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Call, Name
from ...language.model import Op, Tensor
from ...language.types import symbol_kinds
from ...memo import memoised
from ..printing import python
from ..python_module import Module, named_values, spellings
from ..python_signature import function
from . import joined, planes, together
from .blocks import Blocks, blocks
from .contraction import ContractionView, SlideView, contractions, counted_extents, kept_for, slides, zero_points
from .elements import Elements
from .kernels import Member_, members, parameters
from .needs import words_of
from .orders import Orders, orders
from .statements import StepWriter

# Distances of neighbours, less than which letters of views serve: gradients of softmax over rows of 3 f32 take 0.16 of
# the time of lanes along 3 cells, of 7 0.75, of 8 1.02, bf16 0.11, 0.58 and 1.03 (Intel Xeon, gcc 12.2). Where rows of
# few cells only add up, they are folded: of 1000 rows of 2 f32 that takes 1.1 of the time of lanes along what they add
# up, of 3 0.66, of 5 0.5, of 7 0.4 (AMD EPYC, Zen 4, gcc 12.2).
CLOSE, FOLDED = 8, 3


@dataclass(frozen=True)
class ArrayView:
    """An array parameter of kernels, as the generated module describes it."""

    name: str
    role: str
    axes: dict[str, str]
    absent: str
    dtype: str
    sizes: dict[str, str]  # the axis of a joined input


@dataclass(frozen=True)
class LaneView:
    """A letter that lanes may run along: whether it belongs to tasks, and the axes of tensors that it walks."""

    letter: str
    own: bool
    walks: tuple[tuple[str, str], ...]
    moves: bool  # whether the phase only copies the second tensor to the first
    terms: int  # for several steps, the number of letters of those that walk it
    apart: bool  # whether its neighbours lie apart in sums of an engine
    serves: tuple[str, ...]  # if cells are kept for several tasks, the letters of these
    kept: tuple[str, ...]  # and those that kept cells have besides
    turns: tuple[tuple[str, str], ...]  # axes along which rows are turned for several tasks at once
    joins: bool  # whether all its axes are one row where they lie so: of sums that are finished as they come
    views: int  # where its neighbours lie less than so many cells apart, lanes go along it; 0: wherever they do
    follows: tuple[tuple[str, str], ...]  # axes along which rows may follow one another, many of which are one
    copies: bool  # whether the phase only copies rows along it, those of several tasks together
    least: int  # cells of rows that follow one another
    beside: tuple[tuple[str, str], ...]  # axes of tensors whose rows are one with those along it


@dataclass(frozen=True)
class StepWrapper(Module):
    """The Python module of an operation of steps."""

    labels: tuple[str, ...]
    accumulate: tuple[str, ...]
    narrow: tuple[dict[str, str], ...]  # of each row, the types of arrays between steps that are not that of values
    outputs: tuple[tuple[str, str], ...]  # and the condition under which a call has them
    lists: dict[str, str]
    chosen: dict[str, tuple[str, ...]]
    word_values: dict[str, str]
    between: dict[str, tuple[int, tuple[str, ...]]]
    arrays: tuple[ArrayView, ...]
    fields: tuple[Member_, ...]
    phases: tuple[tuple[LaneView, ...], ...]
    dtype_attributes: dict[str, str]
    conditional: tuple[str, ...]  # outputs that some calls lack
    # by input, the axis along which arrays are joined, and its size if they are processed separately
    joined: dict[str, tuple[str, str]]
    in_place: dict[str, tuple[str, ...]]
    alike: Inputs  # by output, inputs whose axes go with its own
    unlike: Inputs  # by output, inputs whose axes have the names of its own, but do not go with them
    terms: tuple[str, ...]
    contractions: tuple[ContractionView, ...]
    orders: tuple[Orders, ...]
    blocks: Blocks | None
    extents: dict[str, str]  # of letters whose axes no tensor tells
    slides: tuple[SlideView, ...]
    zeros: dict[int, tuple[str, ...]]
    chains: tuple[Chain, ...]
    exchanged: tuple[tuple[str, str], ...]
    roles: tuple[tuple[str, Mapping[str, str]], ...]


@memoised
def step_wrapper(op: Op) -> StepWrapper:
    """The view of the module of an operation of steps. Raises SpecInvalid if no call can be resolved."""
    writer = StepWriter(op)
    statements = writer.write()
    words = spellings(op)
    chosen = {name: tuple(words_of(op, name)) for name in dict.fromkeys(p.by for p in program(op).parts if p.by)}
    booleans = {attribute.name for attribute in op.attributes if attribute.type == "bool"}
    texts = {**words, **dict.fromkeys(chosen)}
    found = {parameter.name: parameter for parameter in parameters(parted(op), op.dtypes[0])}
    by_name = {tensor.name: tensor for tensor in op.tensors}
    shown, parted_op, own = function(op), parted(op), StepWriter(parted(op))
    return StepWrapper(
        op=op,
        inputs=shown.inputs,
        attributes=shown.attributes,
        out_annotation=shown.out_annotation,
        statements=statements,
        words=words,
        layouts={name: dict(op.layouts[name]) for name in op.layout_attributes},
        rows=tuple({n: DTYPES[d].numpy for n, d in row.items() if n != "accumulate"} for row in op.dtypes),
        labels=tuple(row_label(op, row) for row in op.dtypes),
        accumulate=tuple(DTYPES[row["accumulate"]].numpy for row in op.dtypes),
        narrow=_narrow(parted_op),
        values={symbol: symbol for symbol in symbol_kinds(parted_op)},
        named=named_values(op),
        outputs=tuple((t.name, python(t.when.tree, writer.vectors) if t.when else "") for t in op.outputs),
        lists={a.name or "": a.name or "" for a in op.attributes if a.per},
        chosen=chosen,
        word_values={n: f'"true" if {n} else "false"' if n in booleans else n for n in texts},
        between=_between(parted_op, own),
        arrays=tuple(
            _array(parted_op, a, by_name.get(a.name)) for a in map(staged(parted_op).program.arrays.get, found) if a
        ),
        fields=members(parted_op),
        phases=_phases(parted_op),
        dtype_attributes={a.name or "": a.dtype_of for a in op.attributes if a.dtype_of},
        conditional=tuple(t.name for t in op.outputs if t.when is not None),
        joined={
            t.name: (t.joined, _size(t) if is_separable(parted_op, parted_op.tensor(t.name)) else "")
            for t in op.inputs
            if t.joined
        },
        in_place=in_place(parted_op),
        alike=alike(parted_op),
        unlike=unlike(parted_op),
        terms=_terms(op, writer),
        contractions=contractions(parted_op),
        orders=orders(parted_op),
        blocks=blocks(parted_op),
        extents=counted_extents(parted_op, own, _unwalked(parted_op)),
        slides=slides(parted_op, own),
        zeros=zero_points(parted_op, own),
        chains=collapsible(parted_op),
        exchanged=exchangeable(parted_op),
        roles=role_table(op),
    )


def _size(tensor: Tensor) -> str:
    return str(tensor.dims[tensor.joined or ""].tree.id)  # type: ignore[union-attr]


def row_label(op: Op, row: dict[str, str]) -> str:
    """The part of a kernel's name that identifies a dtype row."""
    dtypes = [row[tensor.name] for tensor in op.tensors]
    return dtypes[0] if len(set(dtypes)) == 1 else "_".join(dtypes)


def _array(op: Op, array: Array, tensor: Tensor | None) -> ArrayView:
    axes = {axis.name: _run(axis) for axis in array.axes if axis.kind != "ones"} if array.role != "between" else {}
    absent = str(float(tensor.absent)) if tensor is not None and tensor.absent is not None else ""
    absent = f'float("{absent}")' if "inf" in absent else absent
    dtype = ""
    if array.role == "list":
        dtype = {"f32": "float32", "s64": "int64"}[list_dtype(op, array.name)]
    if array.name in staged(op).program.integers:
        dtype = "int64"
    concatenates = any(tensor.joined for tensor in op.inputs)
    sizes = {x.name: x.extent.id for x in array.axes if concatenates and x.kind == "one" and isinstance(x.extent, Name)}
    return ArrayView(array.name, array.role, axes, absent, dtype, sizes if array.role in ("input", "output") else {})


def _narrow(op: Op) -> tuple[dict[str, str], ...]:
    """The narrow types of arrays between steps, of each row; none if no row has any."""
    found = staged(op).program
    rows = [{name: dtype_of(op, row, found.arrays[name], found) for name in found.narrow} for row in op.dtypes]
    own = [{n: DTYPES[d].numpy for n, d in kinds.items() if d != r["accumulate"]} for kinds, r in zip(rows, op.dtypes)]
    return tuple(own) if any(own) else ()


def _run(axis: Axis) -> str:
    return axis.extent.id if axis.kind == "run" and isinstance(axis.extent, Name) else ""


def _between(op: Op, writer: StepWriter) -> dict[str, tuple[int, tuple[str, ...]]]:
    """By intermediate, as Python: the phase that it is private to, or -1, and its number of cells.

    A private array has as many as a task needs, for each letter that lanes may run along.
    """
    found = staged(op)
    result: dict[str, tuple[int, tuple[str, ...]]] = {}
    private = found.owned()
    for array in found.arrays.values():
        if array.role != "between":
            continue
        if array.name not in private:
            result[array.name] = (-1, (writer.print(_cells(a for a in array.axes if a.kind != "ones")),))
            continue
        number = next(n for n in range(len(found.phases)) for p in _lane_choices(found, n) if _writes(p[1], array.name))
        cells = []
        for letter in found.phases[number].lanes or (None,):
            own_staged, phase = found.along(number, letter)
            if not _writes(phase, array.name):
                cells.append("0")
                continue
            elements = Elements(op, op.dtypes[0], own_staged, phase, letter)
            array = own_staged.program.arrays[array.name]
            own = elements.own_axes(array)
            axes = [axis for n, axis in enumerate(array.axes) if n not in own and axis.kind != "ones"]
            lanes = expr.Number(_most_lanes(op, own_staged, phase, letter) if letter in own.values() else 1)
            number_only = elements.is_number(array.name)
            cells.append("0" if number_only else writer.print(slopes.times(_cells(axes), lanes)))
        result[array.name] = (number, tuple(cells))
    return result


def _most_lanes(op: Op, found: Staged, phase: Phase, letter: str | None) -> int:
    """The number of lanes in a task's arrays, in the kernels of all data types; these may have fewer such arrays."""
    most = 0
    for row in op.dtypes:
        elements = Elements(op, row, found, phase, letter)
        grown = growing(op, found, phase, row, letter, elements.is_number)
        most = max(most, elements.cells_of_lanes(), Elements(op, row, *grown, letter).cells_of_lanes())
    return most


def _lane_choices(found: Staged, number: int) -> list[tuple[Staged, Phase]]:
    """A phase, for each letter that its lanes may run along."""
    return [found.along(number, letter) for letter in found.phases[number].lanes or (None,)]


def _writes(phase: Phase, name: str) -> bool:
    return any(part.target.tensor == name for part in phase.parts)


def _phases(op: Op) -> tuple[tuple[LaneView, ...], ...]:
    """For every phase the letters that lanes may run along, and the axes of tensors that each walks."""
    found = staged(op)
    tensors = {tensor.name for tensor in op.tensors}
    result = []
    for one in range(len(found.phases)):
        views = []
        for letter in found.phases[one].lanes:
            own, phase = found.along(one, letter)
            beside = tuple((one.name, axis) for one in op.tensors for axis in _beside(found, own, one.name))
            two = bool(beside)  # letters, of which one is made
            walked = dict.fromkeys(
                (read.tensor, own.program.arrays[read.tensor].axes[number].name)
                for part in phase.parts
                if not own.program.arrays[part.target.tensor].seldom
                for read in (part.target, *part.reads)
                for number, index in enumerate(read.indices)
                if read.tensor in tensors
                and (
                    own.program.walks(read.tensor, number, index) == letter or (beside and _slid(read, number, letter))
                )
            )
            moves = moved(own.program, phase.parts, letter) is not None
            several = len(found.phases[one].parts) > 1  # before letters are joined, which makes more steps of one
            terms = sum(len(part.letters) + two for part in phase.parts if letter in part.letters) * several
            slides = _slides_before(found, one)
            far = _set_apart(found, phase, letter) if slides else apart(op, own.program, phase.parts, letter)
            elements, before = Elements(op, op.dtypes[0], own, phase, letter), found.phases[one - 1].contraction
            crossed = elements.crossed
            if not crossed and (crossed := planes.across(op, phase, letter)):  # what is written comes first
                walked = dict.fromkeys(sorted(walked, key=lambda walk: not _writes(phase, walk[0])))
            places = [(own.program.arrays[read.tensor], place(read, elements.crossing)) for read in crossed]
            turns = tuple((array.name, array.axes[number].name) for array, number in places)
            served = kept_for(phase)
            joins = bool(found.phases[one].finishes) and own.program.letters[letter].kind == "spatial"
            near = _close(found.phases[one], letter)
            sums = before if phase.finishes else None
            rows = joined.follows(elements) if sums is None else together.follows(elements, sums)
            least = joined.LEAST if sums is None else together.LEAST
            walks = letter, letter in phase.own, tuple(walked)
            copies = all(copied_row(op, own.program, part) == letter for part in phase.parts)
            copies = copies or planes.moves_rows(op, own, phase, letter)
            views.append(LaneView(*walks, moves, terms, far, *served, turns, joins, near, rows, copies, least, beside))
        result.append(tuple(views))
    return tuple(result)


def _close(phase: Phase, letter: str) -> int:
    """Less than how many cells apart neighbours lie along a letter of views where it serves; 0 of other letters."""
    if letter not in phase.views:
        return 0
    walked = {letter, phase.lanes[0]}
    values = [formula.value for part in phase.parts if letter in part.letters for formula in part.formulas]
    sums = all(part.operator != "set" and not part.where for part in phase.parts if letter in part.letters)
    plain = all(walked <= expr.names(read) for value in values for read in expr.reads(value))
    plain = plain and not any(walked & expr.names_outside_indices(value) for value in values)
    return FOLDED if sums and plain and letter not in phase.own else CLOSE


def _beside(found: Staged, own: Staged, name: str) -> tuple[str, ...]:
    """The axes of a tensor that are one with the last in a form of a phase, the innermost first."""
    axes, kept = (one.program.arrays[name].axes if name in one.program.arrays else () for one in (found, own))
    return tuple(axis.name for axis in reversed(axes) if axis.name not in {axis.name for axis in kept})


def _slid(read: expr.Read, number: int, letter: str) -> bool:
    """Whether an index is that of cells of windows along a last axis, which a letter made of two walks."""
    return number == len(read.indices) - 1 and slopes.slope(read.indices[number], letter) == slopes.ONE


def _unwalked(op: Op) -> Iterator[str]:
    """The letters among which lanes are chosen that walk no axis of a tensor alone: those of windows, or that count."""
    return (lanes.letter for phase in _phases(op) if len(phase) > 1 for lanes in phase if not lanes.walks)


def _slides_before(found: Staged, number: int) -> bool:
    """Whether a phase finishes sums of windows: their engine computes these in the order that the phase wants.

    Filters 5x5 of 4x121x121x32 bf16 by f32, channels last, take 0.01 of their time (AMD Zen 5, gcc 12.2).
    """
    before = found.phases[number - 1].contraction if number > 0 else None
    return bool(found.phases[number].finishes and before is not None and before.slides)


def _set_apart(found: Staged, phase: Phase, letter: str) -> bool:
    """Whether a phase sees no tensor, and the letter's neighbours lie apart in what it makes for later phases.

    The sigmoids of causal windows of 2x500x192 f32, then a product, take 0.1 of their time (Intel Xeon, gcc 12.2).
    """
    seen = {read.tensor for part in phase.parts for read in (part.target, *part.reads)}
    between = all(found.program.arrays[name].role == "between" for name in seen)
    return between and any(part.target.indices[-1:] != (Name(letter),) for part in phase.parts)


def _cells(axes: Iterable[Axis]) -> expr.Expr:
    """The number of cells along axes together."""
    return slopes.product(Call("prod", (axis.extent,)) if axis.kind != "one" else axis.extent for axis in axes)


def _terms(op: Op, writer: StepWriter) -> tuple[str, ...]:
    """The number of terms of the steps, as Python: as many as take about as long in sums of convolutions.

    Letters that conditions name have one value for each of the others. A term of a contraction counts half: 2**20
    take one thread 20 us, about as long as a second one needs to wake up. One of other steps counts two, with each
    function that is costly six more: of two threads the second begins to pay at 80000 cells of x + y f32, 10000 of
    erf's GELU, 100 rows of softmax over 197; at 150000 cells x + y takes 0.65 of the time of one, softmax 0.55 (AMD
    Zen 4, gcc 12.2).
    """
    found = needed(indicated(program(op)), [tensor.name for tensor in op.outputs])
    found = at_named(looked_up(picked(found, op), op))
    contracted = [{*phase.parts[0].letters} for phase in staged(op).phases if phase.contraction is not None]
    weights: dict[expr.Expr, int] = {}
    for part in found.parts:
        terms, weight = _cells(found.letters[letter] for letter in part.letters), 2 + 6 * _costly(part)
        if {*part.letters} in contracted:
            terms, weight = Call("floor", (expr.Binary("/", terms, expr.Number(2)),)), 1
        weights[terms] = weights.get(terms, 0) + weight
    return tuple(writer.print(slopes.times(expr.Number(weight), terms)) for terms, weight in weights.items())


def _costly(part: Part) -> int:
    """How many costly functions a step computes, at most."""
    nodes = ([*expr.walk(formula.value)] for formula in part.formulas)
    return max(sum(isinstance(node, Call) and node.function in COSTLY for node in found) for found in nodes)
